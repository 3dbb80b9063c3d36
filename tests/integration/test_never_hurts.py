"""Whatever goes wrong, training goes on as without us, and what was recorded opens with its losses stated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.synthetic import build_run
from xla_insight.analysis import analyze
from xla_insight.store.reader import open_run

from .conftest import Bare
from .programs import CLI, Done, recorded, run, script


@pytest.fixture(scope="module")
def healthy(bare_loop: Bare) -> Done:
    """The loop without any recording."""
    return bare_loop.done


def test_cleared_metrics(tmp_path: Path, healthy: Done) -> None:
    done = recorded("loop.py", tmp_path / "run", LOOP_FAULT="clear")
    assert done.result["losses"] == healthy.result["losses"]
    with open_run(tmp_path / "run") as opened:
        totals = opened.counters.groupby("name")["delta"].sum()
        assert (totals["compiles"], totals["executions"], totals["cache_hits"]) == (3, 6, 3)


def test_os_exit(tmp_path: Path) -> None:
    done = recorded("loop.py", tmp_path / "run", LOOP_FAULT="exit")
    assert done.code == 7
    with open_run(tmp_path / "run") as opened:
        assert opened.processes[0].ended is None


@pytest.mark.parametrize(("fault", "name"), [("raise", "ValueError"), ("interrupt", "KeyboardInterrupt")])
def test_exceptions_of_the_user_pass_and_are_noted(tmp_path: Path, fault: str, name: str) -> None:
    done = recorded("loop.py", tmp_path / "run", LOOP_FAULT=fault)
    assert done.code != 0
    assert name in done.err
    with open_run(tmp_path / "run") as opened:
        assert opened.processes[0].ended == "exception"
        assert len(opened.executions) >= 3
        notes = opened.marks.query("name == 'exception'")["detail"].tolist()
        assert [note.split(":")[0] for note in notes] == [name]


def test_folder_deleted_while_recording(tmp_path: Path, healthy: Done) -> None:
    out = tmp_path / "run"
    done = recorded("loop.py", out, LOOP_FAULT="delete", LOOP_DELETE=str(out))
    assert done.code == 0
    assert done.result["losses"] == healthy.result["losses"]
    report = analyze(out)
    assert report.graphs.executions >= 3


def test_disk_full(tmp_path: Path, healthy: Done) -> None:
    done = recorded("loop.py", tmp_path / "run", LOOP_FAULT="full")
    assert done.code == 0, done.err
    assert done.result["losses"] == healthy.result["losses"]
    with open_run(tmp_path / "run"):
        pass


def test_out_is_no_folder_and_cannot_be_one(tmp_path: Path, healthy: Done) -> None:
    (tmp_path / "file").write_text("mine")
    done = script("loop.py", LOOP_PROFILE=str(tmp_path / "file" / "run"))
    assert done.code == 0, done.err
    assert done.result["losses"] == healthy.result["losses"]
    assert "recording to" in done.err
    assert (tmp_path / "file").read_text() == "mine"


def test_run_says_at_the_end_where_it_really_recorded_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = recorded("loop.py", tmp_path / "file" / "run")
    assert done.code == 0, done.err
    *_, last = done.err.splitlines()
    place = last.removeprefix("xla-insight: recorded to ").partition(";")[0]
    assert place.endswith("/run") and not place.startswith(str(tmp_path))
    with open_run(place) as run:
        assert len(run.table("compiles"))


def test_an_existing_run_is_left_alone(tmp_path: Path) -> None:
    build_run(tmp_path / "run", steps=2)
    done = script("loop.py", LOOP_PROFILE=str(tmp_path / "run"), LOOP_STEPS="2")
    assert done.code == 0 and "recording to" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2"]
    refused = recorded("loop.py", tmp_path / "run")
    assert refused.code == 2
    assert refused.out == "", "the script must not have run"
    assert len(refused.err.strip().splitlines()) == 1


def test_nested_and_repeated_profile(tmp_path: Path) -> None:
    code = """
import sys, torch, torch_xla
import xla_insight as xi
def step():
    z = torch.ones(4).to(torch_xla.device()) * 2
    torch_xla.sync()
with xi.profile(sys.argv[1] + "/a") as outer:
    step(); outer.step()
    with xi.profile(sys.argv[1] + "/inner") as inner:
        step(); inner.step()
    step(); outer.step()
with xi.profile(sys.argv[1] + "/b") as again:
    step(); again.step()
print(again.report().graphs.executions)
"""
    done = run([sys.executable, "-c", code, str(tmp_path)])
    assert (done.code, done.out) == (0, "1\n"), done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    with open_run(tmp_path / "a") as first, open_run(tmp_path / "b") as second:
        assert len(first.steps) == 3
        assert len(second.steps) == 1
        assert second.executions["graph"].tolist() == first.executions["graph"].tolist()[:1]


def test_importing_hooks_nothing() -> None:
    code = """
import gc, sys, torch
before = dict(vars(torch.Tensor)), list(gc.callbacks), list(sys.meta_path)
import xla_insight, xla_insight.record.session
xla_insight.profile, xla_insight.prepare
assert (dict(vars(torch.Tensor)), list(gc.callbacks), list(sys.meta_path)) == before
"""
    assert run([sys.executable, "-c", code]).code == 0


def test_data_loader_workers_are_not_recorded(tmp_path: Path) -> None:
    code = """
import torch, torch_xla
from torch.utils.data import DataLoader
for batch in DataLoader(torch.arange(8.0), batch_size=2, num_workers=2):
    z = batch.to(torch_xla.device()) * 2
    torch_xla.sync()
"""
    path = tmp_path / "workers.py"
    path.write_text(code)
    done = run([*CLI, "run", "--out", str(tmp_path / "run"), str(path)])
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as opened:
        assert len(opened.processes) == 1
        waits = opened.host_spans.query("kind == 'input_wait'")
        assert len(waits) == 5
        assert (waits["thread"] == 0).all()
