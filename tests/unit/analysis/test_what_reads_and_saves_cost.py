"""What is a cost of saving, of reading and of loading, and what would have been there without them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.conftest import make_tables, user_place
from xla_insight.analysis.checkpoint_facts import checkpoint_facts
from xla_insight.analysis.tables import Place, Process
from xla_insight.facts.report import Severity, Site

from .test_findings import MS, STEP, At, Make, Steps, as_spans, found, in_steps, read, runs


def test_the_trainings_own_compile_inside_a_save_is_no_cost_of_saving(
    context: Make, stepped: Steps, at_line: At
) -> None:
    """The first of four saves of 20 ms cuts the graph of the step, which compiles for 15 ms."""
    reads = [read(n, executions=1) for n in range(4)]
    saves = as_spans([{**row, "time_ns": row["time_ns"] - MS, "duration_ns": 20 * MS} for row in reads], "checkpoint")
    compiled = {"step": 0, "time_ns": saves[0]["time_ns"] + 2 * MS, "duration_ns": 15 * MS, "trigger": "sync"}
    made = context(
        places={1: at_line(15)}, steps=stepped(4, STEP), reads=reads, spans=saves + as_spans(reads), compiles=[compiled]
    )
    (finding,) = found(made, "checkpoint_stall")
    assert finding.cost_s == pytest.approx(0.065)
    written = [{name: row[name] for name in ("time_ns", "duration_ns", "thread")} for row in saves]
    facts = checkpoint_facts(make_tables(saves=written, compiles=[compiled]), Process(0, 0, 0, 0))
    assert facts is not None and facts.stall_s == pytest.approx(0.065)


def test_closures_that_run_behind_the_training_are_no_reads_of_it(context: Make, stepped: Steps) -> None:
    site = Site("/home/me/train.py", 14, "<lambda>", "")
    stack = (
        ("/home/me/train.py", 14, "<lambda>"),
        ("/lib/site-packages/torch_xla/utils/closures.py", 60, "event_loop"),
        ("/lib/python3.11/threading.py", 982, "run"),
    )
    # A count of executions falls to whoever looks first: one of them seems to have run a graph.
    reads = [read(n, thread=1, executions=int(n == 3)) for n in range(8)]
    assert not found(context(places={1: Place(site, site, stack)}, steps=stepped(8, STEP), reads=reads), "host_sync")


def test_moving_values_is_a_cost_of_reading_them_and_no_transfer_by_itself(
    context: Make, stepped: Steps, at_line: At
) -> None:
    """Each read lasts from 50 to 90 ms; the device is done at 60 ms."""
    reads = [read(n, duration_ns=40 * MS) for n in range(40)]
    made = context(
        places={1: at_line(17)},
        steps=stepped(40, STEP),
        reads=reads,
        spans=as_spans(reads),
        executions=runs(40, 20, 40),
    )
    (finding,) = found(made, "host_sync")
    assert finding.cost_s == pytest.approx(40 * (0.03 + 0.01)), (
        "moving for 30 ms, and waiting beside which it can trace"
    )
    assert not found(made, "transfer_bound"), "told once"
    whole = [{**row, "method": "cpu"} for row in reads]
    (finding,) = found(context(places={1: at_line(17)}, steps=stepped(40, STEP), reads=whole), "host_sync")
    assert finding.advice.startswith("Work on it on the device")


def test_copies_of_a_checkpoint_are_told_once(context: Make, stepped: Steps, at_line: At) -> None:
    reads = [read(n, duration_ns=40 * MS) for n in range(40)]
    saves = as_spans(reads, "checkpoint")
    made = context(
        places={1: at_line(17)},
        steps=stepped(40, STEP),
        reads=reads,
        spans=as_spans(reads) + saves,
        executions=runs(40, 20, 20),
    )
    assert found(made, "checkpoint_stall") and not found(made, "transfer_bound")


@pytest.mark.parametrize(("line", "told"), [(7, "; ~100 % at train.py:7 (39 samples)."), (3, " of it.")])
def test_a_loader_on_the_training_thread_is_told_by_its_line(
    stepped: Steps, context: Make, line: int, told: str
) -> None:
    """Waits from 10 to 70 ms of each step begin at line 3; it was seen there, or in the function that collates."""
    waits = [{**row, "site": 3} for row in in_steps(40, "input_wait", 10, 60)]
    seen: list[dict[str, Any]] = [{"step": n, "time_ns": n * STEP + 30 * MS, "site": line} for n in range(40)]
    places = {3: user_place(3), 7: user_place(7, "collate")}
    made = context(places=places, steps=stepped(40, STEP), spans=waits, samples=seen, executions=runs(40, 80, 10))
    (finding,) = found(made, "input_bound")
    assert finding.severity is Severity.CRITICAL and finding.summary.endswith(told)
