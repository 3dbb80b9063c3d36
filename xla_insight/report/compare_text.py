"""A comparison of runs for a terminal: the verdict, then graphs, causes, time and environment; and the trend table.

Owns layout. Shows the sentences of ``analysis`` unchanged; text from recordings is shown as text, on one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from xla_insight.facts import numbers
from xla_insight.facts.comparison import CauseChange, Comparison, Figure, GraphChanges, GraphPair, Trend, TrendRow
from xla_insight.report.table import write_table
from xla_insight.report.text import encodable, plain_line, wrapped

LISTED = 8
WIDTH = 100
_UNITS: dict[str, Callable[[float | None], str]] = {
    "count": numbers.count,
    "number": lambda value: numbers.NOT_MEASURED if value is None else numbers.significant(value),
    "s": numbers.duration,
    "ms": lambda value: numbers.duration(None if value is None else value / 1e3),
    "percent": lambda value: numbers.percent(value, inferred=True),
}
TREND_COLUMNS = ("run", "step", "against first", "against previous", "graphs", "compiles", "after warm-up",
                 "compile time", "reads/step", "overlap")  # fmt: skip
_SHAPES = {"appeared": "+", "gone": "-", "stayed": "=", "added": "+", "changed": "~", "renamed": "="}


def write_comparison(comparison: Comparison, stream: TextIO) -> None:
    """Write a comparison of two runs."""
    for line in _lines(comparison):
        stream.write(encodable(line, stream) + "\n")


def write_trend(trend: Trend, stream: TextIO) -> None:
    """Write one row a run."""
    rows = [[encodable(cell, stream) for cell in trend_cells(row)] for row in trend.rows]
    write_table(TREND_COLUMNS, rows, stream)


def figure_text(figure: Figure) -> tuple[str, str]:
    """Both values of a figure in words."""
    word = _UNITS[figure.unit]
    return word(figure.before), word(figure.now)


def judged(row: TrendRow, *, first: bool) -> str:
    """A judgement in few words: the change of a step's time when it is more than noise, as ``+12 %``, else ``same``."""
    judgement = row.against_first if first else row.against_previous
    if judgement is None:
        return ""
    if judgement.change_pct is None or judgement.direction == "same":
        return judgement.direction
    return f"{'+' if judgement.change_pct > 0 else '-'}{numbers.percent(abs(judgement.change_pct))}"


def run_name(path: str) -> str:
    """The last part of a run's place."""
    return plain_line(path.rstrip("/").rsplit("/", 1)[-1])


def trend_cells(row: TrendRow) -> list[str]:
    """One row of the trend, in the order of `TREND_COLUMNS`."""
    values = {figure.name: figure_text(figure)[1] for figure in row.figures}
    step = numbers.duration(None if row.step_ms is None else row.step_ms / 1e3)
    names = ("distinct graphs", "compiles", "compiles after warm-up", "compile time", "value reads per step", "overlap")
    return [run_name(row.run.path), step, judged(row, first=True), judged(row, first=False),
            *(values[name] for name in names)]  # fmt: skip


def _lines(comparison: Comparison) -> Iterator[str]:
    names = [run_name(run.path) for run in (comparison.before, comparison.now)]
    yield f"{names[1]} against {names[0]}"
    yield from wrapped(plain_line(comparison.verdict.summary), WIDTH)
    yield ""
    yield from _figures(comparison)
    yield from _states(comparison)
    yield from _graphs(comparison.graphs)
    yield from _causes(comparison.causes)
    yield from _environment(comparison)
    if comparison.notes:
        yield ""
        yield from comparison.notes


def _figures(comparison: Comparison) -> Iterator[str]:
    rows = [(figure.name, *figure_text(figure)) for figure in comparison.figures]
    yield from _columns(("", "before", "now"), rows)


def _states(comparison: Comparison) -> Iterator[str]:
    if not comparison.states:
        return
    rows = [
        (part.state.replace("_", " "), *map(_ms, (part.before_ms, part.now_ms, part.idle_before_ms, part.idle_now_ms)))
        for part in comparison.states
    ]
    yield ""
    yield "A step after warm-up, by what the host does; device idle meanwhile (whole run, inferred)"
    yield from _columns(("", "before", "now", "idle before", "idle now"), rows)


def _graphs(changes: GraphChanges) -> Iterator[str]:
    counted = [f"{numbers.plural(changes.same, 'graph')} the same"]
    counted += [f"{numbers.count(len(changes.of(c)))} {c}" for c in ("changed", "renamed", "added", "gone")
                if changes.of(c)]  # fmt: skip
    yield ""
    yield f"Graphs: {', '.join(counted)}"
    for pair in changes.pairs[:LISTED]:
        yield from _item(_SHAPES.get(pair.change, "-"), f"{graph_names(pair)}  {plain_line(pair.summary)}")
    if len(changes.pairs) > LISTED:
        yield f"  and {numbers.count(len(changes.pairs) - LISTED)} more in --json"


def graph_names(pair: GraphPair) -> str:
    """``a1b2c3 → d4e5f6``: the graph before and now."""
    return " → ".join(numbers.short_hash(graph) for graph in (pair.before, pair.now) if graph)


def _causes(causes: tuple[CauseChange, ...]) -> Iterator[str]:
    if not causes:
        return
    yield ""
    yield "Causes and findings"
    for cause in causes[:LISTED]:
        counts = f"{numbers.count(cause.before_count)} → {numbers.count(cause.now_count)}"
        head = f"{cause.name} {cause.change}: {counts}, {cost_text(cause)}. {plain_line(cause.summary)}"
        yield from _item(_SHAPES[cause.change], head)
    if len(causes) > LISTED:
        yield f"  and {numbers.count(len(causes) - LISTED)} more in --json"


def cost_text(cause: CauseChange) -> str:
    """What it costs: before and now, or only in the run that has it."""
    if cause.change != "stayed":
        return numbers.duration(cause.now_s if cause.change == "appeared" else cause.before_s)
    return f"{numbers.duration(cause.before_s)} → {numbers.duration(cause.now_s)}"


def _environment(comparison: Comparison) -> Iterator[str]:
    if not comparison.environment:
        return
    yield ""
    yield "Environment"
    for difference in comparison.environment:
        texts = [numbers.NOT_MEASURED if v is None else plain_line(v) for v in (difference.before, difference.now)]
        yield from _item("~", f"{plain_line(difference.name)}: now {texts[1]}, before {texts[0]}")


def _item(shape: str, text: str) -> Iterator[str]:
    for number, line in enumerate(wrapped(text, WIDTH - 4)):
        yield f"  {shape if number == 0 else ' '} {line}"


def _columns(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Rows under their heads: the first column to the left, numbers to the right."""
    table = [heads, *rows]
    widths = [max(len(row[n]) for row in table) for n in range(len(heads))]
    for row in table:
        first = row[0].ljust(widths[0])
        yield "  ".join(["", first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])


def _ms(milliseconds: float | None) -> str:
    return numbers.duration(None if milliseconds is None else milliseconds / 1e3)
