"""How long a training takes and where its time goes, from a recorded part of it.

Owns the extrapolation. Leaves recording to ``runner`` and the table to ``report``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xla_insight.facts.report import Report


class Training(NamedTuple):
    """A training as it was set up. ``steps_full``: of the whole training; None when it is not known."""

    name: str
    global_batch_size: int
    precision: str
    steps_full: int | None


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One row of the table. Seconds of a step, its parts, and overlap are those of the steps after the warm-up.

    ``train_s`` is the time from the first tensor work to the end of the whole training. ``extrapolated`` says that not
    all of its steps were run. None: could not be measured.
    """

    training: Training
    steps: int
    train_s: float | None
    extrapolated: bool
    compile_s: float
    step_s: float | None
    trace_s: float | None
    input_s: float | None
    device_s: float | None
    overlap_pct: float | None


def benchmark_row(training: Training, report: Report) -> BenchmarkRow:
    """The row of a recorded training: steps that were not run are taken to last as long as those after the warm-up."""
    steady, steps = report.time.steady, report.steps.count
    each = None if steady is None or not steady.steps else steady.wall_s / steady.steps
    missing = None if training.steps_full is None else max(0, training.steps_full - steps)
    train_s: float | None = None
    if missing == 0:
        train_s = report.time.wall_s
    elif missing is not None and each is not None:
        train_s = report.time.wall_s + missing * each

    def part(state: str) -> float | None:
        return None if steady is None or not steady.steps else steady.host.get(state, 0.0) / steady.steps

    busy = None if steady is None or steady.device_busy_s is None else steady.device_busy_s / max(1, steady.steps)
    return BenchmarkRow(
        training=training,
        steps=steps,
        train_s=train_s,
        extrapolated=bool(missing),
        compile_s=report.graphs.compile_s,
        step_s=each,
        trace_s=part("trace"),
        input_s=part("input_wait"),
        device_s=busy,
        overlap_pct=None if steady is None else steady.overlap_pct,
    )
