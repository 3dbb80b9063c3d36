"""The graph of every compile is in the run, whenever recording began, and its difference names the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_insight.analysis import analyze
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.ir_text import parse_ir_dumps
from xla_insight.store.reader import open_run

from .conftest import Bare
from .programs import recorded, script


def causes(path: Path) -> dict[str, int]:
    return {entry.cause: entry.count for entry in analyze(path).recompiles}


def test_every_compile_has_its_graph_and_its_cause(loop: tuple[object, Path]) -> None:
    path = loop[1]
    with open_run(path) as run:
        assert run.graph_hashes() == set(run.compiles["graph"])
        for row in run.graphs.itertuples():
            graph = parse_hlo_proto(run.hlo(row.graph) or b"")
            assert (len(graph.parameters), len(graph.outputs)) == (row.inputs, row.outputs)
            assert graph.has_stacks
        assert run.processes[0].facts["capabilities"]["graph_capture"] == "compiles"
        assert set(run.processes[0].facts["graphs"]) == run.graph_hashes()
        environment = run.processes[0].facts["environment"]
        assert "dump" not in environment.get("XLA_FLAGS", "") and "PT_XLA_DEBUG_FILE" not in environment
    report = analyze(path)
    (shape,) = [entry for entry in report.recompiles if entry.cause == "input_shape"]
    assert shape.summary.endswith("now f32[6,16], before f32[4,16]; only dimension 0 differs.")
    assert shape.root["site"]["source"].startswith("batch = torch.randn(")
    assert causes(path) == {"first_graph": 1, "warm_up": 1, "input_shape": 1}


def test_recording_that_begins_after_the_runtime_reads_live_programs(tmp_path: Path, bare_loop: Bare) -> None:
    path = tmp_path / "run"
    done = script("loop.py", LOOP_RUNTIME="1", LOOP_PROFILE=str(path))
    assert done.code == 0, done.err
    assert done.result["losses"] == bare_loop.done.result["losses"]
    with open_run(path) as run:
        assert run.executions.sort_values("time_ns")["graph"].tolist() == bare_loop.hashes
        assert run.processes[0].facts["capabilities"]["graph_capture"] == "programs"
        assert run.graph_hashes() == set(run.compiles["graph"])
        assert run.faults.empty and run.losses.empty
    assert causes(path) == {"first_graph": 1, "warm_up": 1, "input_shape": 1}


@pytest.mark.parametrize("flags", ["--xla_dump_to={folder}", "--xla_cpu_multi_thread_eigen=true"])
def test_the_users_own_flags_stay_as_they_are(tmp_path: Path, flags: str) -> None:
    folder = tmp_path / "dump"
    done = recorded("loop.py", tmp_path / "run", XLA_FLAGS=flags.format(folder=folder), LOOP_STEPS="2")
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as run:
        capabilities = run.processes[0].facts["capabilities"]
        own = run.processes[0].facts["environment"]["XLA_FLAGS"]
        assert flags.format(folder=folder) in own and own.count("dump_to") == flags.count("dump_to")
        assert capabilities["graph_capture"] == ("programs" if "dump" in flags else "compiles")
        assert run.graph_hashes() == set(run.compiles["graph"])
    assert folder.is_dir() == ("dump" in flags)


def test_what_does_not_fit_the_limit_is_said(tmp_path: Path) -> None:
    done = recorded("loop.py", tmp_path / "run", XLA_INSIGHT_MAX_GRAPH_BYTES="100", LOOP_STEPS="4")
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as run:
        assert len(run.graph_hashes()) == 1
        assert run.losses["what"].tolist() == ["graphs", "graphs"]
        assert "max_graph_bytes" in run.losses["why"][0]


def test_level_full_keeps_the_text_of_each_graph(tmp_path: Path, bare_loop: Bare) -> None:
    path = tmp_path / "run"
    done = script("loop.py", LOOP_PROFILE=str(path), XLA_INSIGHT_LEVEL="full")
    assert done.code == 0, done.err
    assert done.result["losses"] == bare_loop.done.result["losses"]
    with open_run(path) as run:
        assert run.executions.sort_values("time_ns")["graph"].tolist() == bare_loop.hashes
        for graph in run.graph_hashes():
            (entry,) = parse_ir_dumps(run.ir(graph) or "")
            assert entry.hash == graph and entry.root_hashes
        assert run.faults.empty and run.losses.empty
