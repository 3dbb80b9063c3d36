"""Page Compare: this run against an earlier one: the verdict, then numbers, graphs, causes, time and environment.

Owns the layout of this page and the choice of the other run. Conclusions come from ``analysis.compare``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.analysis.compare import compare_runs, trend
from xla_insight.errors import InsightError
from xla_insight.facts.comparison import CauseChange, Comparison, GraphPair, StatePart, Trend
from xla_insight.report import numbers
from xla_insight.report.compare_text import (
    TREND_COLUMNS,
    cost_text,
    figure_name,
    figure_text,
    grouped_pairs,
    names_of,
    scoped_figures,
    trend_cells,
)

from .. import parts, strip
from ..address import Address
from ..data import Library
from ..ids import Compare, Route, Shell
from ..scope import Scope, shown
from .page import Page

_LISTED = 12
TREND_RUNS = 8
"""So many runs, the newest ones, are in the trend."""
_CHANGE_WORDS = {
    "appeared": ("▲", "appeared"),
    "gone": ("▽", "gone"),
    "stayed": ("=", "in both"),
    "added": ("+", "added"),
    "changed": ("≠", "changed"),
    "renamed": ("=", "other key"),
}


def layout(_address: Address) -> html.Div:
    """The page, to be filled by its callbacks."""
    picker = dmc.Select(
        id=Compare.PICKER, size="sm", w=320, searchable=True, allowDeselect=False, placeholder="choose a run",
        nothingFoundMessage="no run of that name", **{"aria-label": "Run to compare with"},
    )  # fmt: skip
    return html.Div(
        [
            html.Div([html.Span("compared with", className="quiet"), picker], className="tools compare-tools"),
            html.Div(parts.skeleton(120), id=Compare.HEAD),
            strip.layout(Route.COMPARE),
            html.Div(html.Div(parts.skeleton(480), className="section"), id=Compare.CONTENT),
            html.Div(id=Compare.TREND),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""

    @app.callback(
        Output(Compare.PICKER, "data"),
        Output(Compare.PICKER, "value"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.LOCATION, "search"),
    )
    def list_others(stored: Any, search: Any) -> tuple[Any, Any]:
        names = others(library, Scope.from_json(stored).run)
        chosen = against(search, names, partial(opens, library))
        return [{"value": name, "label": parts.middle(name, 44)} for name in names], chosen

    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Compare.PICKER, "value"),
        State(Shell.LOCATION, "search"),
        State(Compare.PICKER, "data"),
        prevent_initial_call=True,
    )
    def choose(value: Any, search: Any, options: Any) -> Any:
        names = [option["value"] for option in options or ()]
        if not value or value == against(search, names, partial(opens, library)):
            return no_update
        return replace(Address.parse(search), against=value).search

    @app.callback(
        Output(Compare.HEAD, "children"),
        Output(Compare.CONTENT, "children"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.LOCATION, "search"),
        Input(Shell.LOCATION, "pathname"),
    )
    def fill(stored: Any, search: Any, path: Any) -> tuple[Any, Any]:
        if path != Route.COMPARE:
            raise PreventUpdate
        run = shown(library, stored).view.entry.id
        names = others(library, run)
        other = against(search, names, partial(opens, library))
        if other is None:
            return nothing_to_compare()
        heading, sections = page(library, other, run)
        return [*heading, *instead_of(Address.parse(search).against, other)], sections

    @app.callback(Output(Compare.TREND, "children"), Input(Shell.SCOPE, "data"), Input(Shell.LOCATION, "pathname"))
    def fill_trend(stored: Any, path: Any) -> Any:
        if path != Route.COMPARE:
            raise PreventUpdate
        return trend_of(library, shown(library, stored).view.entry.id)


def trend_of(library: Library, run: str) -> html.Section | None:
    """The runs up to this one, oldest first, as a table; None for fewer than three, which the page shows anyway."""
    try:
        names = [entry.id for entry in library.entries() if not entry.problem]
        names = names[names.index(run) :][:TREND_RUNS][::-1] if run in names else []
        if len(names) < 3:
            return None
        found = library.derived("trend", names, trend)
    except InsightError:
        return None
    return trend_section(found, names)


def trend_section(found: Trend, names: list[str]) -> html.Section:
    """A row a run; steps of a run against the first and the one before it, where that is more than noise."""
    rows = []
    for row, name in zip(found.rows, names, strict=True):
        _, *cells = trend_cells(row)
        rows.append([html.Span(parts.middle(name, 40), title=name, className="place"), *cells])
    note = html.P(
        "Steps after warm-up. Faster or slower only where it is more than runs differ by themselves.", className="quiet"
    )
    heads = tuple(word if number else "run" for number, word in enumerate(TREND_COLUMNS))
    table = html.Div(_table(heads, rows, "facts-table trend"), className="scrolls", tabIndex=0)
    return parts.section(f"Trend over {numbers.plural(len(rows), 'run')}", table, note)


def others(library: Library, run: str | None) -> list[str]:
    """All other runs: those recorded before this one first, newest first."""
    try:
        names = [entry.id for entry in library.entries() if not entry.problem]
    except InsightError:
        return []
    place = names.index(run) if run in names else 0
    return [name for name in (*names[place:], *names[:place]) if name != run]


def opens(library: Library, name: str) -> bool:
    """Whether a run can be opened at all."""
    try:
        return library.derived("opens", [name], bool)
    except InsightError:
        return False


def against(search: str | None, names: list[str], can_open: Callable[[str], bool] = bool) -> str | None:
    """The run to compare with: that of the address, else the one recorded before; None when there is none.

    One that cannot be opened is taken only where no other can, so that the page says why.
    """
    wanted = Address.parse(search).against
    if wanted in names:
        return wanted
    return next(filter(can_open, names), None) or next(iter(names), None)


def instead_of(wanted: str | None, other: str) -> list[html.Div]:
    """Says so where the run that the address names is not the one that is shown."""
    if wanted is None or wanted == other:
        return []
    return [parts.notice(f"Run {parts.middle(wanted)} is not there or cannot be read; {other} is shown.", "warning")]


def nothing_to_compare() -> tuple[Any, Any]:
    """For a folder with one run."""
    sentence = "There is no other run to compare with yet."
    again = html.P("Change one thing and record again; this page then says what it did.", className="lead")
    return [html.H1(sentence, className="verdict"), again], None


def page(library: Library, before: str, now: str) -> tuple[Any, Any]:
    """The whole page, or the sentence that says why it cannot be made."""
    try:
        found = library.derived("compare", [before, now], lambda runs: compare_runs(*runs))
    except InsightError as error:
        return [
            html.H1("These runs cannot be compared", className="verdict"),
            html.P(str(error), className="lead"),
        ], None
    return head(found, before, now), content(found)


def head(found: Comparison, before: str, now: str) -> list[Any]:
    """The verdict, and what qualifies it."""
    names = html.P(
        [parts.long_text(now, 40, "place"), " now, ", parts.long_text(before, 40, "place"), " before"], className="lead"
    )
    verdict, because = found.verdict.summary, found.verdict.because
    return [
        parts.headline(verdict.removesuffix(because)),
        *([html.P(parts.unbroken(because.strip()), className="lead")] if because else []),
        names,
        *(parts.notice(note, "warning") for note in found.notes),
    ]


def content(found: Comparison) -> list[Any]:
    """Numbers, graphs, causes, time, environment; parts without anything to say are left out."""
    sections = [_figures(found), _graphs(found), _causes(found), _states(found), _environment(found)]
    return [section for section in sections if section is not None]


def _figures(found: Comparison) -> html.Section:
    tables = [
        _table(
            (heading, "before", "now"),
            [[figure_name(figure), *figure_text(figure)] for figure in figures],
            "facts-table even",
        )
        for heading, figures in scoped_figures(found)
    ]
    return parts.section("Numbers", *tables)


def _graphs(found: Comparison) -> html.Section:
    changes = found.graphs
    same = numbers.plural(changes.same, "graph") if changes.same else "no graph"
    if not changes.pairs:
        return parts.section("Graphs", html.P(f"{same}, the same in both runs.", className="lead"))
    groups = grouped_pairs(changes)
    rows = [_graph_row(pairs) for pairs in groups[:_LISTED]]
    more = sum(map(len, groups[_LISTED:]))
    rest = f" {numbers.count(more)} more changes are in compare --json." if more else ""
    note = f"{same[0].upper()}{same[1:]} the same.{rest}"
    table = _table(("What", "Graph", "Difference", "Where"), rows, "facts-table wide-third")
    return parts.section("Graphs", table, html.P(note, className="quiet"))


def _graph_row(pairs: list[GraphPair]) -> list[Any]:
    pair = pairs[0]
    site = pair.site
    where: list[Any] = [parts.code_place(site)]
    if pair.line_known and site is not None and site.source.strip():
        where.append(parts.long_text(site.source.strip(), 44, "source-line"))
    return [_mark(pair.change), html.Span(names_of(pairs), className="place"), pair.summary, html.Div(where)]


def _causes(found: Comparison) -> html.Section | None:
    if not found.causes:
        return None
    rows = [_cause_row(cause) for cause in found.causes[:_LISTED]]
    heads = ("What", "Count", "Cost", "Cause", "Where")
    return parts.section("Causes and findings", _table(heads, rows, "facts-table wide-fourth"))


def _cause_row(cause: CauseChange) -> list[Any]:
    words = [html.Strong(cause.name.replace("_", " ")), html.Span(cause.summary, className="summary")]
    counts = f"{numbers.count(cause.before_count)} → {numbers.count(cause.now_count)}"
    return [_mark(cause.change), counts, cost_text(cause), html.Div(words), parts.code_place(cause.site)]


def _states(found: Comparison) -> html.Section | None:
    if not found.states:
        return None
    rows = [_state_row(part) for part in found.states]
    table = _table(("", "before", "now", "device idle before", "device idle now"), rows)
    note = html.P("That the device was idle meanwhile is inferred.", className="quiet")
    return parts.section("A step after warm-up, by what the host does", table, note)


def _state_row(part: StatePart) -> list[Any]:
    values = (part.before_ms, part.now_ms)
    idle = (part.idle_before_ms, part.idle_now_ms)
    return [
        part.state.replace("_", " "),
        *(numbers.duration(None if value is None else value / 1e3) for value in values),
        *(numbers.duration(None if value is None else value / 1e3, inferred=True) for value in idle),
    ]


def _environment(found: Comparison) -> html.Section | None:
    if not found.environment:
        return None
    rows = [
        [item.name, *(html.Span(value or "not set", className="place") for value in (item.before, item.now))]
        for item in found.environment
    ]
    return parts.section("Environment", _table(("", "before", "now"), rows, "facts-table texts"))


def _mark(change: str) -> html.Span:
    shape, word = _CHANGE_WORDS[change]
    return html.Span([html.Span(shape, className="shape", **{"aria-hidden": "true"}), word], className="severity")


def _table(heads: tuple[str, ...], rows: list[list[Any]], class_name: str = "facts-table") -> html.Table:
    heading = html.Thead(html.Tr([html.Th(word, scope="col") for word in heads]))
    body = html.Tbody([html.Tr([html.Td(cell) for cell in row]) for row in rows])
    return html.Table([heading, body], className=class_name)


PAGE = Page(Route.COMPARE, "Compare", layout, register)
