"""The table of training minutes for a terminal, with where the time goes beside it. Leaves figures to ``analysis``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from xla_insight.analysis.benchmark import BenchmarkRow
from xla_insight.facts import numbers
from xla_insight.report.text import plain_line, write_parts

_COLUMNS = ("name", "batch", "precision", "minutes", "compile", "step", "trace", "input", "device", "overlap")
_WIDTH = 110


def print_benchmark(rows: Sequence[BenchmarkRow], stream: TextIO) -> None:
    """Write the table, a comparison of the precisions, and what its marks mean."""
    write_parts(_parts(rows), stream, _WIDTH)


def _parts(rows: Sequence[BenchmarkRow]) -> Iterator[RenderableType]:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("name", "precision") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    yield table
    yield Text("step: a step after the warm-up; trace, input and device: shares of it; batch: global batch size.")
    for row in rows:
        if row.extrapolated:
            known = numbers.plural(row.steps, "step")
            full = numbers.count(row.training.steps_full)
            yield Text(f"* {row.training.precision}: extrapolated from {known} of {full}.")
    yield from _compared(rows)
    if any(row.device_s is not None for row in rows):
        yield Text("~ inferred from dispatch and ready times, not measured.")


def _cells(row: BenchmarkRow) -> tuple[str, ...]:
    minutes = None if row.train_s is None else row.train_s / 60
    mark = "*" if row.extrapolated else ""
    return (
        plain_line(numbers.short_path(row.training.name)),
        numbers.count(row.training.global_batch_size),
        row.training.precision.upper(),
        numbers.NOT_MEASURED if minutes is None else f"{numbers.significant(minutes)}{mark}",
        numbers.duration(row.compile_s),
        numbers.duration(row.step_s),
        numbers.share(row.trace_s, row.step_s),
        numbers.share(row.input_s, row.step_s),
        numbers.share(row.device_s, row.step_s, inferred=True),
        numbers.percent(row.overlap_pct, inferred=True),
    )


def _compared(rows: Sequence[BenchmarkRow]) -> Iterator[RenderableType]:
    """Each further precision against the first."""
    base, *others = rows
    for row in others:
        if base.step_s and row.step_s:
            ratio = numbers.significant(row.step_s / base.step_s)
            this, that = row.training.precision.upper(), base.training.precision.upper()
            yield Text(f"A step in {this} takes {ratio} times the time of one in {that}, on this device.")
