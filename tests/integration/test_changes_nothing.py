"""Recording changes nothing: graph hashes, compiles, executions and losses to the bit, with and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.store.reader import open_run

from .conftest import Bare
from .programs import recorded, script


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    """What training computed and the framework counted."""
    return {name: value for name, value in result.items() if name in ("losses", "weights", "counts")}


@pytest.mark.parametrize("name", ["loop", "trainer"])
def test_same_graphs_counts_and_bits(name: str, request: pytest.FixtureRequest) -> None:
    done, path = request.getfixturevalue(name)
    without = request.getfixturevalue(f"bare_{name}")
    bare, hashes = without.done, without.hashes
    assert bare.code == done.code == 0, done.err
    assert numbers(done.result) == numbers(bare.result)
    with open_run(path) as run:
        executions = run.executions.sort_values("time_ns")
        assert executions["graph"].tolist() == hashes
        totals = run.counters.groupby("name")["delta"].sum()
        assert totals["compiles"] == len(run.compiles)
        assert totals["executions"] == len(executions) == len(hashes)
        assert executions["duration_ns"].notna().all(), "late samples are waited for"
        assert run.faults.empty
        assert run.losses.empty


def test_the_users_own_debug_output_is_as_without_us(tmp_path: Path, bare_loop: Bare) -> None:
    file = tmp_path / "recorded.txt"
    done = recorded("loop.py", tmp_path / "run", PT_XLA_DEBUG_LEVEL="2", PT_XLA_DEBUG_FILE=str(file))
    assert bare_loop.done.code == done.code == 0
    assert file.read_text().splitlines() == bare_loop.debug.splitlines()
    with open_run(tmp_path / "run") as run:
        assert run.executions["graph"].notna().all(), "hashes are read from the user's own file"


def test_debug_output_to_stderr_is_left_alone_and_the_lack_of_hashes_said(tmp_path: Path) -> None:
    done = recorded("loop.py", tmp_path / "run", PT_XLA_DEBUG_LEVEL="1")
    assert done.code == 0
    assert "Compilation Analysis" in done.err
    with open_run(tmp_path / "run") as run:
        capabilities = run.processes[0].facts["capabilities"]
        assert capabilities["graph_hash"] is False
        assert "PT_XLA_DEBUG_FILE" in capabilities["graph_hash_reason"]
        assert len(run.executions) == 6
        assert run.executions["graph"].isna().all()


def test_dynamo_does_not_see_us(tmp_path: Path) -> None:
    done = recorded("compiled.py", tmp_path / "run")
    assert done.result == script("compiled.py").result
    with open_run(tmp_path / "run") as run:
        assert run.faults.empty
        assert run.reads["method"].tolist() == ["item"] * 4
        graphs = [parse_hlo_proto(run.hlo(graph) or b"") for graph in run.graphs["graph"]]
    frames = {frame for graph in graphs for i in graph.instructions for frame in i.metadata.stack}
    assert not any(frame.file.startswith("<eval_with_key>") for frame in frames), "generated code is no place"
    assert {15, 16} <= {frame.line for frame in frames if frame.file.endswith("compiled.py")}
