"""Why a run missed: each reason, on runs made by hand and folders beside them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.synthetic import build_run, graph_hash
from xla_insight.analysis.cache import Cache, cache_status, inspect_cache
from xla_insight.analysis.cache.explain import Earlier, _Case, _parts, _reason, explain_misses
from xla_insight.analysis.cache.usage import GraphUse, Usage, earlier_runs, read_usage
from xla_insight.analysis.environment import Setting, environment_differences
from xla_insight.analysis.tables import Process, load_tables
from xla_insight.facts.cache import MissReason
from xla_insight.facts.comparison import EnvironmentDifference, GraphPair
from xla_insight.store.reader import open_run

GRAPH = graph_hash("A")


@pytest.fixture
def case(tmp_path: Path) -> _Case:
    """A run that looks into an empty cache and finds nothing."""
    (tmp_path / "cache").mkdir()
    cache = inspect_cache(str(tmp_path / "cache"), Usage())
    with open_run(build_run(tmp_path / "run", steps=3, pattern="A")) as run:
        return _Case(cache, load_tables(run), frozenset(), 0, None, True, {}, "run")


def pair(change: str, *environment: EnvironmentDifference) -> dict[str, Earlier]:
    summary = "At train.py:7: aten::pow now 3, before 2."
    return {GRAPH: Earlier("earlier", GraphPair(change, "b" * 32, GRAPH, "structure", summary, None), environment)}


FLAGS = EnvironmentDifference("XLA_FLAGS", None, "--new")


@pytest.mark.parametrize(
    ("changes", "present", "reason", "words"),
    [
        ({"uses_cache": False}, False, MissReason.NO_CACHE, "initialize_cache"),
        ({"other_folder": "/else"}, False, MissReason.OTHER_FOLDER, "/else"),
        ({"failures": 1}, True, MissReason.UNREADABLE, "XLA:CPU"),
        (
            {"pairs": pair("renamed", FLAGS)},
            False,
            MissReason.OTHER_ENVIRONMENT,
            "XLA_FLAGS is now --new, before not set",
        ),
        ({"pairs": pair("renamed")}, False, MissReason.OTHER_ENVIRONMENT, "nothing recorded of the environment"),
        ({"pairs": pair("changed")}, False, MissReason.OTHER_GRAPH, "train.py:7"),
        ({}, False, MissReason.NEVER_BUILT, "No earlier run"),
        ({}, True, MissReason.NEVER_BUILT, "there now, for the next run"),
    ],
)
def test_reasons(case: _Case, changes: dict[str, Any], present: bool, reason: MissReason, words: str) -> None:
    found, sentence = _reason(replace(case, **changes), GRAPH, present)
    assert found is reason
    assert words in sentence


def test_an_entry_that_is_gone(case: _Case) -> None:
    case.cache.usage.graphs[int(GRAPH, 16)] = GraphUse(runs=["earlier", "run"])
    assert _reason(case, GRAPH, present=False)[0] is MissReason.GONE
    assert _reason(case, None, present=False)[0] is MissReason.NEVER_BUILT


def test_an_entry_that_was_never_kept(case: _Case) -> None:
    case.cache.usage.graphs[int(GRAPH, 16)] = GraphUse(runs=["earlier", "run"])
    case.cache.usage.read_only.add("earlier")
    for present in (False, True):
        reason, sentence = _reason(case, GRAPH, present=present)
        assert reason is MissReason.READ_ONLY and "read only, so it was not kept" in sentence
    assert "there now, for the next run" in sentence


def test_an_entry_that_is_there_only_now_did_not_fail_to_load(case: _Case) -> None:
    """The run failed to load two entries and missed one, which it then built: nobody had built that before."""
    failed = replace(case, failures=2, misses=1)
    assert _reason(failed, GRAPH, present=True)[0] is MissReason.NEVER_BUILT
    case.cache.usage.graphs[int(GRAPH, 16)] = GraphUse(runs=["earlier", "run"])
    assert _reason(failed, GRAPH, present=True)[0] is MissReason.UNREADABLE


def test_an_entry_that_an_earlier_run_kept_elsewhere(case: _Case) -> None:
    case.cache.usage.graphs[int(GRAPH, 16)] = GraphUse(runs=["earlier", "run", "later"])
    case.cache.usage.folders["earlier"] = "/else/where"
    reason, sentence = _reason(case, GRAPH, present=False)
    assert reason is MissReason.OTHER_FOLDER and "another folder: /else/where" in sentence


def test_a_later_run_is_no_earlier_builder(case: _Case) -> None:
    case.cache.usage.graphs[int(GRAPH, 16)] = GraphUse(runs=["run", "later"])
    assert _reason(case, GRAPH, present=False)[0] is MissReason.NEVER_BUILT


def test_what_other_runs_could_not_load_saves_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / str(int(GRAPH, 16))).write_bytes(b"\x0a\x01x")
    build_run(tmp_path / "runs" / "now", steps=6, pattern="A", reads=False)
    usage = read_usage([str(tmp_path / "runs")])
    usage.failures["CPU"] = 2
    cache = inspect_cache(str(tmp_path / "cache"), usage)
    with open_run(tmp_path / "runs" / "now") as run:
        found = explain_misses(cache, run)
    assert found.saves_s == 0 and "cannot load them" in found.summary
    assert "2 entries failed in other runs" in found.notes[-1]
    status = cache_status(cache)
    assert status.saves_s is None and "2 entries failed to" in status.notes[-1]
    usage.loading.add("CPU")
    assert cache_status(cache).saves_s is not None


def test_of_flags_only_those_that_differ_are_named() -> None:
    def setting(flags: str) -> Setting:
        facts = {"environment": {"XLA_FLAGS": flags}}
        return Setting(Process(0, 0, 0, 1, None, facts), 1, ())

    def found(before: str, now: str) -> list[EnvironmentDifference]:
        return list(environment_differences(setting(before), setting(now)))

    assert found("--a=1 --b=2", "--b=2 --a=3") == [EnvironmentDifference("XLA_FLAGS", "--a=1", "--a=3")]
    assert found("--a=1", "--a=1 --b=2") == [EnvironmentDifference("XLA_FLAGS", None, "--b=2")]
    assert found("--a --b", "--b --a") == [EnvironmentDifference("XLA_FLAGS", "--a --b", "--b --a")], (
        "the key is a text"
    )


def test_entries_of_others_say_that_nothing_can_join_them(tmp_path: Path) -> None:
    (tmp_path / f"jit_f-{'a' * 64}-cache").write_bytes(b"x")
    with open_run(build_run(tmp_path / "run", steps=3, pattern="A")) as run:
        notes = explain_misses(inspect_cache(str(tmp_path), Usage()), run).notes
    assert any("1 entry cannot be joined to recorded graphs: JAX names" in note for note in notes)


def test_a_run_that_loaded_counts_what_it_loaded(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / str(int(GRAPH, 16))).write_bytes(b"\x0a\x01x")
    build_run(tmp_path / "runs" / "cold", steps=6, pattern="A", reads=False)
    usage = read_usage([str(tmp_path / "runs")])
    cache = inspect_cache(str(tmp_path / "cache"), usage)
    with open_run(build_run(tmp_path / "warm", steps=6, pattern="AB", cached="A", reads=False)) as run:
        found = explain_misses(cache, run)
    assert (found.loads, found.graphs, found.present, len(found.misses)) == (1, 2, 1, 1)
    assert found.saves_s == pytest.approx(0.3)
    assert (
        "Of 2 graphs that this run compiled or loaded, 1 is in this cache: a warm start saves 300 ms" in found.summary
    )


def test_a_cache_without_any_of_the_graphs(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    cache = inspect_cache(str(tmp_path / "cache"), Usage(failures=Counter(CPU=2)))
    with open_run(build_run(tmp_path / "run", steps=6, pattern="AB", reads=False)) as run:
        found = explain_misses(cache, run)
    summary = (
        "None of the 2 graphs that this run compiled is in this cache: a start with it compiles everything (600 ms)."
    )
    assert found.summary == summary
    assert not any("warm start" in note for note in found.notes), "what is not there cannot fail to load"


def test_failures_of_torch_xla_say_nothing_of_other_caches(tmp_path: Path) -> None:
    (tmp_path / f"jit_f-{'a' * 64}-cache").write_bytes(b"x")
    usage = Usage(failures=Counter(CPU=2), runs=1)
    assert not cache_status(inspect_cache(str(tmp_path), usage)).notes
    (tmp_path / "7").write_bytes(b"x")
    assert "2 entries failed" in cache_status(inspect_cache(str(tmp_path), usage)).notes[0]


def test_many_differences_are_counted() -> None:
    many = [EnvironmentDifference(f"XLA_{n}", "0", "1") for n in range(9)]
    assert _parts(many).endswith("and 5 more")


def test_what_a_warm_start_saves(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / str(int(GRAPH, 16))).write_bytes(b"\x0a\x01x")
    cache: Cache = inspect_cache(str(tmp_path / "cache"), Usage())
    build_run(tmp_path / "runs" / "now", steps=6, pattern="AB", reads=False)
    with open_run(tmp_path / "runs" / "now") as run:
        found = explain_misses(cache, run)
        assert earlier_runs(run, [str(tmp_path / "runs")], 3) == []
    assert (found.graphs, found.present, found.would_compile) == (2, 1, 1)
    assert found.saves_s == pytest.approx(0.3) and found.would_compile_s == pytest.approx(0.3)
    assert "Of 2 graphs that this run compiled, 1 is in this cache" in found.summary
    assert found.to_json()["misses"][0]["reason"] == "no_cache"
