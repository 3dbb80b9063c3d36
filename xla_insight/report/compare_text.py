"""A comparison of runs for a terminal: the verdict, then graphs, causes, time and environment; and the trend table.

Owns layout. Shows the sentences of ``analysis`` unchanged; text from recordings is shown as text, on one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from xla_insight.analysis.compare.judgement import MANY_TIMES, SMALL_PART
from xla_insight.facts import numbers
from xla_insight.facts.comparison import CauseChange, Comparison, Figure, GraphChanges, GraphPair, Trend, TrendRow
from xla_insight.report.table import write_table
from xla_insight.report.text import encodable, plain_line, wrapped

LISTED = 8
_NAMED = 3
SCOPES = {"steady": "Steps after warm-up", "run": "Whole run"}
"""What a figure is counted over, as a heading."""
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
    """A judgement in few words: ``+12 %`` or ``4.9 ×`` a step's time where it is more than noise, else ``same``."""
    judgement = row.against_first if first else row.against_previous
    if judgement is None:
        return ""
    change = judgement.change_pct
    if judgement.direction == "unknown" or change is None:
        return numbers.NOT_MEASURED
    if judgement.direction == "same":
        return judgement.direction
    ratio = max(1 + change / 100, 1e-6)
    if ratio >= MANY_TIMES:
        return f"{numbers.significant(ratio, 2)} ×"
    if ratio <= SMALL_PART:
        return f"1/{numbers.significant(1 / ratio, 2)}"
    return f"{'+' if change > 0 else '-'}{numbers.percent(abs(change))}"


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


def scoped_figures(comparison: Comparison) -> Iterator[tuple[str, list[Figure]]]:
    """(heading, figures): those of the steps after the warm-up, and those of the whole runs."""
    for scope, heading in SCOPES.items():
        figures = [figure for figure in comparison.figures if figure.scope == scope]
        if figures:
            yield heading, figures


def figure_name(figure: Figure) -> str:
    """What a figure is called below the heading of its scope."""
    return figure.name.removesuffix(" after warm-up") if figure.scope == "steady" else figure.name


def _figures(comparison: Comparison) -> Iterator[str]:
    scopes = scoped_figures(comparison)
    parts = [(heading, [(figure_name(f), *figure_text(f)) for f in figures]) for heading, figures in scopes]
    width = max((len(name) for _, rows in parts for name, *_ in rows), default=0)
    for heading, rows in parts:
        yield from _columns((heading.ljust(width + 2), "before", "now"), [(f"  {row[0]}", *row[1:]) for row in rows])


def _states(comparison: Comparison) -> Iterator[str]:
    if not comparison.states:
        return
    rows = [
        (
            part.state.replace("_", " "),
            *(_ms(value) for value in (part.before_ms, part.now_ms)),
            *(_ms(value, inferred=True) for value in (part.idle_before_ms, part.idle_now_ms)),
        )
        for part in comparison.states
    ]
    yield ""
    heads = ("A step after warm-up", "before", "now", "device idle before", "device idle now")
    yield from _columns(heads, [(f"  {row[0]}", *row[1:]) for row in rows])
    yield "  Rows are what the host did; the device idled meanwhile, as far as that can be inferred."


def _graphs(changes: GraphChanges) -> Iterator[str]:
    counted = [f"{numbers.plural(changes.same, 'graph')} the same" if changes.same else "none is the same"]
    counted += [f"{numbers.count(len(changes.of(c)))} {c}" for c in ("changed", "renamed", "added", "gone")
                if changes.of(c)]  # fmt: skip
    yield ""
    yield f"Graphs: {', '.join(counted)}"
    groups = grouped_pairs(changes)
    for pairs in groups[:LISTED]:
        yield from _item(_SHAPES.get(pairs[0].change, "-"), f"{names_of(pairs)}  {plain_line(pairs[0].summary)}")
    left_out = sum(map(len, groups[LISTED:]))
    if left_out:
        yield f"  and {numbers.count(left_out)} more in --json"


def grouped_pairs(changes: GraphChanges) -> list[list[GraphPair]]:
    """Pairs that are told in the same words, in the order of the first of them."""
    groups: dict[tuple[str, str], list[GraphPair]] = {}
    for pair in changes.pairs:
        groups.setdefault((pair.change, pair.summary), []).append(pair)
    return list(groups.values())


def names_of(pairs: list[GraphPair]) -> str:
    """The graphs of a group: all of few, of many the first ones and how many more."""
    more = f" and {numbers.count(len(pairs) - _NAMED)} more" if len(pairs) > _NAMED else ""
    return ", ".join(graph_names(pair) for pair in pairs[:_NAMED]) + more


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
        yield "  ".join([first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])


def _ms(milliseconds: float | None, *, inferred: bool = False) -> str:
    return numbers.duration(None if milliseconds is None else milliseconds / 1e3, inferred=inferred)
