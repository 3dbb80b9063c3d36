"""The clean-up attacked: links, changed files, folders in use; and that only what was asked for goes."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from tests.synthetic import build_run, graph_hash
from tests.unit.analysis.test_cache_layouts import NEURON, neuron
from xla_insight.analysis.cache import Cache, inspect_cache
from xla_insight.analysis.cache.prune import Wanted, plan_prune, prune
from xla_insight.analysis.cache.usage import Usage, read_usage
from xla_insight.errors import UsageError
from xla_insight.facts.cache import State

DAY_S = 86_400
EVERYTHING = Wanted(older_than_s=0.0)


def aged(root: Path, days: float = 10) -> None:
    """Let everything below be written that many days ago."""
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            os.utime(path, (time.time() - days * DAY_S,) * 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with entries 1 to 5 of 100 bytes each, written 1 to 5 days ago, and a file of somebody's."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for number in range(1, 6):
        (cache / str(number)).write_bytes(b"x" * 100)
        os.utime(cache / str(number), (time.time() - number * DAY_S,) * 2)
    (cache / "notes.txt").write_text("mine")
    os.utime(cache / "notes.txt", (0, 0))
    return cache


def opened(folder: Path) -> Cache:
    return inspect_cache(str(folder), Usage())


def names(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def test_a_plan_deletes_nothing(folder: Path) -> None:
    before = names(folder)
    plan = plan_prune(opened(folder), EVERYTHING)
    assert (len(plan.chosen), plan.size, plan.kept) == (5, 500, 0)
    assert (plan.rebuild_s, plan.unknown_costs) == (None, 5)
    assert names(folder) == before


def test_by_age(folder: Path) -> None:
    cache = opened(folder)
    plan = plan_prune(cache, Wanted(older_than_s=3.5 * DAY_S))
    assert set(plan.reasons) == {"4", "5"} and plan.reasons["5"] == "not used for 5 d"
    result = prune(cache, plan)
    assert (result.deleted, result.size, result.skipped) == (2, 200, ())
    assert names(folder) == {"1", "2", "3", "notes.txt"}


def test_by_size_least_recently_used_first(folder: Path) -> None:
    cache = opened(folder)
    plan = plan_prune(cache, Wanted(max_size=250))
    assert set(plan.reasons) == {"3", "4", "5"} and plan.kept_size == 200
    assert plan_prune(cache, Wanted(max_size=500)).chosen == ()
    both = plan_prune(cache, Wanted(older_than_s=4.5 * DAY_S, max_size=300))
    assert set(both.reasons) == {"4", "5"}


def test_by_state(folder: Path, tmp_path: Path) -> None:
    build_run(tmp_path / "runs" / "one", steps=4, pattern="A")
    kept = folder / str(int(graph_hash("A"), 16))
    kept.write_bytes(b"")
    os.utime(kept, (0, 0))
    cache = inspect_cache(str(folder), read_usage([str(tmp_path / "runs")]))
    plan = plan_prune(cache, Wanted(states=frozenset({State.ORPHAN})))
    assert set(plan.reasons) == {"1", "2", "3", "4", "5"}
    torn = plan_prune(cache, Wanted(states=frozenset({State.TORN})))
    assert set(torn.reasons) == {kept.name} and torn.rebuild_s == pytest.approx(0.3)


def test_orphans_need_runs_and_something_must_be_said(folder: Path) -> None:
    with pytest.raises(UsageError, match="--runs"):
        plan_prune(opened(folder), Wanted(states=frozenset({State.ORPHAN})))
    with pytest.raises(UsageError, match="say what"):
        plan_prune(opened(folder), Wanted())


def test_links_are_neither_followed_nor_deleted(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "77").write_text("precious")
    neuron(precious, "1+a", "model.neff", "model.done")
    aged(precious)
    os.symlink(precious / "77", folder / "77")
    os.symlink(precious, folder / "88")
    os.symlink(precious / NEURON, folder / NEURON)
    (folder / "neuronxcc-2.1.0").mkdir()
    os.symlink(precious / NEURON / "MODULE_1+a", folder / "neuronxcc-2.1.0" / "MODULE_1+a")
    neuron(folder, "2+b", version="neuronxcc-2.2.0")
    os.symlink(precious / "77", folder / "neuronxcc-2.2.0" / "MODULE_2+b" / "model.neff")
    cache = opened(folder)
    prune(cache, plan_prune(cache, EVERYTHING))
    assert {"77", "88", NEURON, "neuronxcc-2.1.0", "neuronxcc-2.2.0", "notes.txt"} == names(folder)
    assert (precious / "77").read_text() == "precious"
    assert len(list((precious / NEURON / "MODULE_1+a").iterdir())) == 2


def test_a_folder_swapped_for_a_link_meanwhile_is_left(folder: Path, tmp_path: Path) -> None:
    outside = neuron(tmp_path / "outside", "1+a", "model.neff", "model.done")
    inside = neuron(folder, "1+a", "model.neff", "model.done")
    aged(outside)
    aged(inside)
    cache = opened(folder)
    plan = plan_prune(cache, EVERYTHING)
    os.rename(inside, tmp_path / "away")
    os.symlink(outside, inside)
    result = prune(cache, plan)
    assert len(list(outside.iterdir())) == 2
    assert any("became a link" in text for text in result.skipped)


def test_a_file_that_changed_meanwhile_is_left(folder: Path) -> None:
    cache = opened(folder)
    plan = plan_prune(cache, EVERYTHING)
    (folder / "1").write_bytes(b"rebuilt just now")
    os.unlink(folder / "2")
    os.unlink(folder / "3")
    os.symlink("notes.txt", folder / "3")
    result = prune(cache, plan)
    assert names(folder) == {"1", "3", "notes.txt"}
    assert result.deleted == 2
    assert sorted(text.partition(": ")[2] for text in result.skipped) == [
        "it changed meanwhile",
        "it is gone already",
        "it is no regular file",
    ]


def test_neuron_modules_go_as_a_whole_and_strange_files_stay(folder: Path) -> None:
    whole = neuron(folder, "1+a", "model.hlo.pb", "model.neff", "model.done", "model.log")
    mixed = neuron(folder, "2+b", "model.neff", "model.done", "thesis.pdf")
    aged(folder)
    cache = opened(folder)
    prune(cache, plan_prune(cache, EVERYTHING))
    assert not whole.exists()
    assert [path.name for path in mixed.iterdir()] == ["thesis.pdf"]


def test_a_cache_in_use_is_refused(folder: Path) -> None:
    def refused(expected: str) -> None:
        cache = opened(folder)
        plan = plan_prune(cache, EVERYTHING)
        assert plan.in_use is not None and expected in plan.in_use
        with pytest.raises(UsageError, match="in use"):
            prune(cache, plan)
        assert "5" in names(folder)

    (folder / "6").write_bytes(b"just written")
    refused("written")
    aged(folder)
    with open(folder / "5", "ab"):
        refused(f"process {os.getpid()}")
    with open(folder / "5", "rb"):
        assert opened(folder).in_use is None
    (folder / ".lockfile").write_bytes(b"")
    aged(folder)
    assert opened(folder).in_use is None, "JAX leaves its lock file behind"
    with open(folder / ".lockfile", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(".lockfile")
    module = neuron(folder, "1+a", "model.hlo.pb", "model.hlo.pb.lock")
    aged(folder)
    assert opened(folder).in_use is None, "a killed compiler left this lock"
    os.utime(module / "model.hlo.pb.lock", (time.time() - 90,) * 2)
    refused("was locked 1 m 30 s ago")


def test_dangerous_names_are_plain_names(folder: Path) -> None:
    strange = [f"jit_..-{'a' * 64}-cache", f"jit_\n\x1b[31m-{'b' * 64}-cache", f"-rf -{'c' * 64}-cache"]
    for name in strange:
        (folder / name).write_bytes(b"x")
    aged(folder)
    cache = opened(folder)
    prune(cache, plan_prune(cache, EVERYTHING))
    assert names(folder) == {"notes.txt"}


def test_a_url_is_pruned_like_a_folder() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/prune-test/1", b"x")
    memory.pipe_file("/prune-test/notes.txt", b"mine")
    cache = inspect_cache("memory://prune-test", Usage())
    plan = plan_prune(cache, EVERYTHING)
    assert plan.in_use is not None and "written" in plan.in_use
    from dataclasses import replace

    assert prune(cache, replace(plan, in_use=None)).deleted == 1
    assert [str(item).rsplit("/", 1)[-1] for item in memory.ls("/prune-test", detail=False)] == ["notes.txt"]
