"""Device windows on the real profiler: what ran, on which line, and nothing in the way of the program's own traces."""

from __future__ import annotations

from pathlib import Path

from xla_insight.analysis import analyze, load_tables
from xla_insight.analysis.windows import operation_table
from xla_insight.store.reader import open_run

from .conftest import WINDOW, Recorded
from .programs import recorded


def test_a_window_of_a_trainer_names_operations_graphs_and_lines(trainer: Recorded) -> None:
    with open_run(trainer.path) as run:
        measured = analyze(run).time.measured
        table = operation_table(load_tables(run))
        executed = set(run.executions["graph"])
        facts = run.processes[0].facts["windows"]
    assert measured is not None
    assert (facts["plan"], facts["taken"], facts["skipped"]) == (WINDOW, 1, {})
    (window,) = measured.windows
    assert (window.first_step, window.last_step, window.note) == (3, 4, "")
    assert window.measured_s and window.busy_s and 0 < window.busy_s <= window.measured_s <= window.length_s
    assert set(table["graph"].dropna()) <= executed and table["graph"].notna().mean() > 0.9
    model = table[table["file"].notna() & table["file"].str.endswith("modeling_bert.py", na=False)]
    assert (model["device_ns"] > 0).any() and model["framework_operation"].str.startswith("aten__").any()
    assert any(line.site is not None and "modeling_bert.py" in line.site.file for line in measured.lines)
    host = {span.name for span in measured.host_spans}
    assert {"StepMarker", "SyncTensorsGraph", "PjRtComputationClient::ExecuteComputation"} & host
    with open_run(trainer.path) as run:
        steps = run.steps.set_index("step")
    assert steps.loc[3, "start_ns"] <= window.start_s * 1e9 <= steps.loc[3, "end_ns"], "the window lies on its steps"


def test_the_programs_own_trace_goes_first(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    variables = {"LOOP_FAULT": "trace", "LOOP_TRACE": str(trace), "XLA_INSIGHT_WINDOWS": "1-3,5"}
    done = recorded("loop.py", tmp_path / "run", **variables)
    assert done.code == 0, done.err
    assert list(trace.rglob("*.xplane.pb")), "the program has its trace"
    with open_run(tmp_path / "run") as run:
        windows = run.windows
        assert run.faults.empty
    assert windows["first_step"].tolist() == [1, 5]
    assert windows["note"].iloc[0] == "closed because the program opened a profiler session"
