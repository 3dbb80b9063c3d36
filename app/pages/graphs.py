"""Page Graphs: every graph with its facts, and for a selected one where it ran.

Owns the table's columns and the detail of one graph. The strip comes from ``strip``; numbers are worded here so that
the table sorts by value and shows text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import dash_ag_grid as dag
import pandas as pd
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.facts.report import Site
from xla_insight.report import numbers

from .. import parts, strip, table
from ..address import Address
from ..causes import cause_of_graph, cause_word
from ..data import Library
from ..ids import Graphs, Route, Shell
from ..scope import Shown, shown
from . import graph_text
from .page import Page


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``unit``: count, s, bytes, hash, place or text; ``divide`` turns stored into shown units."""

    field: str
    word: str
    unit: str
    width: int
    hint: str
    stored: str = ""
    divide: float = 1.0
    inferred: bool = False


COLUMNS = (
    Column("graph", "graph", "hash", 104, "The graph's hash; the rest of it is beside the table when selected"),
    Column("executions", "executions", "count", 124, "Times it ran"),
    Column("hits", "hits", "count", 88, "Executions that found it in the cache"),
    Column("compiles", "compiles", "count", 112, "Times it was compiled"),
    Column("compile_s", "compile time", "s", 152, "All its compiles, in seconds", "compile_ns", 1e9),
    Column(
        "device_s", "device time", "s", 140, "Device time of all its executions, worked out", "device_ns", 1e9, True
    ),
    Column("first_step", "first step", "count", 116, "First step that ran it"),
    Column("last_step", "last step", "count", 116, "Last step that ran it"),
    Column("trigger", "trigger", "text", 120, "What first forced this cut"),
    Column("place", "where", "place", 220, "Where it was first cut"),
    Column("user_place", "your line", "place", 180, "The innermost line of your own files"),
    Column("inputs", "inputs", "count", 88, "Parameters of the graph"),
    Column("outputs", "outputs", "count", 92, "Results of the graph"),
    Column("input_bytes", "input size", "bytes", 108, "Memory of its inputs"),
    Column("output_bytes", "output size", "bytes", 112, "Memory of its outputs"),
    Column("aliased_bytes", "aliased", "bytes", 100, "Output memory that reuses input memory"),
    Column("temporary_bytes", "temporary", "bytes", 112, "Memory needed while it runs"),
    Column("program_bytes", "program", "bytes", 104, "Size of the compiled program"),
    Column("processes", "processes", "count", 108, "Processes that ran it"),
)
_GRID_LEAST_PX, _GRID_MOST_PX = 240, 640
_NUMERIC = ("count", "s", "bytes")


def _memory(n_bytes: float | None) -> str:
    """The framework prints GB with six decimals: what rounds to nothing is less than 1 kB, not zero."""
    return "<1 kB" if n_bytes == 0 else numbers.size(n_bytes)


_WORDING: dict[str, Callable[[float | None], str]] = {
    "count": numbers.count,
    "s": numbers.duration,
    "bytes": _memory,
}


def layout(address: Address) -> html.Div:
    """The page, to be filled by its callbacks; the table starts with the sorting and filters of the address."""
    export = html.Button("Export CSV", id=Graphs.EXPORT, className="quiet-button", n_clicks=0)
    return html.Div(
        [
            html.Div(parts.skeleton(72), id=Graphs.HEAD),
            strip.layout(Route.GRAPHS),
            parts.section(
                "All graphs", html.Div([_grid(address), html.Aside(id=Graphs.DETAIL)], className="beside"), tools=export
            ),
            graph_text.layout(),
        ]
    )


def _grid(address: Address) -> dag.AgGrid:
    return table.grid(
        Graphs.GRID,
        [_definition(column, address.sort) for column in COLUMNS],
        "graphs.csv",
        _GRID_MOST_PX,
        selectable=True,
        filterModel=_filter_model(address.filter),
        getRowId="params.data.graph",
        selectedRows={"ids": [address.graph]} if address.graph else None,
    )


def _definition(column: Column, sort: str | None) -> dict[str, Any]:
    """The column for ag-grid: sorted and filtered by value, shown as the text that goes with it."""
    more: dict[str, Any] = {}
    if column.unit in ("place", "hash"):
        more["tooltipField"] = column.field
    if column.field == "graph":
        more["pinned"] = "left"
    field, _, order = (sort or "compile_s:desc").partition(":")
    if field == column.field and order in ("asc", "desc"):
        more["sort"] = order
    numeric, look = column.unit in _NUMERIC, f"cell-{column.unit}"
    return table.column(column.field, column.word, column.width, column.hint, numeric=numeric, look=look, **more)


def _filter_model(text: str | None) -> dict[str, Any]:
    try:
        model = json.loads(text or "{}")
    except ValueError:
        return {}
    known = {column.field for column in COLUMNS}
    return {key: value for key, value in model.items() if key in known} if isinstance(model, dict) else {}


def rows_of(selected: Shown) -> list[dict[str, Any]]:
    """The rows of the table: for each column its value and its text; only graphs of the selected steps."""
    graphs = selected.view.graphs
    if selected.steps:
        graphs = graphs[graphs["graph"].isin(selected.view.graphs_within(selected.process, selected.steps))]
    return [_row(record) for record in graphs.to_dict("records")]


def _row(record: dict[Any, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    places = {"place": _site(record, ""), "user_place": _site(record, "user_")}
    for column in COLUMNS:
        if column.unit == "place":
            site = places[column.field]
            row[column.field] = f"{site.file}:{site.line}" if site else None
            row[f"{column.field}_text"] = numbers.place(site.file, site.line) if site else numbers.NOT_MEASURED
            continue
        value = _plain(record.get(column.stored or column.field))
        if column.unit in _NUMERIC and value is not None:
            value = value / column.divide if column.divide != 1 else value
        row[column.field] = value
        row[f"{column.field}_text"] = _text(column, value)
    row["graph_text"] = record.get("short") or row["graph_text"]
    return row


def _text(column: Column, value: Any) -> str:
    if column.unit == "hash":
        return numbers.short_hash(value)
    if column.unit == "text":
        return numbers.NOT_MEASURED if value is None else str(value)
    worded = _WORDING[column.unit](value)
    return f"~{worded}" if column.inferred and value is not None else worded


def _plain(value: Any) -> Any:
    """A cell of a frame as JSON: unknown becomes None, numpy numbers become Python's."""
    if value is None or (not isinstance(value, str | list | tuple) and pd.isna(value)):
        return None
    return value.item() if hasattr(value, "item") else value


def _site(record: dict[Any, Any], prefix: str) -> Site | None:
    file, line = _plain(record.get(f"{prefix}file")), _plain(record.get(f"{prefix}line"))
    if not file:
        return None
    return Site(str(file), int(line or 0), str(_plain(record.get(f"{prefix}function")) or ""))


def head(selected: Shown) -> list[Any]:
    """The sentence that leads the page."""
    view, steps = selected.view, selected.steps
    facts = view.report.graphs
    once = int((view.graphs["executions"] == 1).sum()) if len(view.graphs) else 0
    unseen = int(view.graphs["executions"].isna().sum()) if len(view.graphs) else 0
    used = "each ran more than once" if not unseen else f"how often {numbers.count(unseen)} of them ran is not known"
    if once:
        used = f"{numbers.count(once)} of them ran only once"
    sentence = (
        f"{numbers.plural(facts.distinct, 'graph')} for {numbers.plural(facts.executions, 'execution')}: {used}; "
        f"compiling them took {numbers.duration(facts.compile_s)}."
    )
    note = []
    if steps is not None:
        within = len(view.graphs_within(selected.process, steps))
        note = [
            html.P(
                f"The table lists the {numbers.plural(within, 'graph')} that ran in steps {numbers.count(steps[0])} to "
                f"{numbers.count(steps[1])}; its numbers are of the whole run.",
                className="lead",
            )
        ]
    return [parts.headline(sentence), *note]


def detail(selected: Shown, graph: str, address: Address | None = None) -> html.Div:
    """The facts of one graph; a sentence when the run has no such graph."""
    view = selected.view
    match = view.graphs[view.graphs["graph"] == graph]
    clear = html.Button("Close", id=Graphs.CLEAR, className="quiet-button", n_clicks=0)
    if match.empty:
        sentence = f"This run has no graph {parts.middle(graph, 40)}."
        return html.Div([_detail_head("Graph", clear), html.P(sentence, className="quiet")])
    record = match.iloc[0].to_dict()
    row = _row(record)
    hidden = ("graph", "place", "user_place")
    facts = [
        _fact(column.word, row[f"{column.field}_text"], column.hint) for column in COLUMNS if column.field not in hidden
    ]
    steps = len(view.steps_of_graph(selected.process, graph))
    facts.append(_fact("steps", numbers.count(steps), "Steps of this process that ran it"))
    title = [html.Code(parts.middle(graph, 20), className="hash", title=graph), parts.copy_button(graph)]
    cut, user = _site(record, ""), _site(record, "user_")
    places = [("cut at", cut), ("your line", user if user != cut else None)]
    code = [_code(word, site, view.sources.get((site.file, site.line), "")) for word, site in places if site]
    return html.Div(
        [
            _detail_head(title, clear),
            _reason(selected, graph, address or Address()),
            html.Div(code, className="codes"),
            html.Dl(facts, className="facts"),
        ]
    )


def _reason(selected: Shown, graph: str, address: Address) -> html.Div | None:
    """Why the graph was compiled, with the way to the whole explanation; nothing when it was not compiled."""
    chosen = cause_of_graph(selected.view.report, graph)
    if chosen is None:
        return None
    target = replace(address.for_other_page(), cause=chosen.name, graph=graph).search
    expected = ", expected" if chosen.entry.expected else ""
    return html.Div(
        [
            html.Strong(f"Compiled: {cause_word(chosen.entry.cause)}{expected}"),
            html.P(chosen.entry.summary, className="summary"),
            dcc.Link("Now and before →", href=f"{Route.RECOMPILATIONS}{target}"),
        ],
        className="reason",
    )


def _detail_head(title: Any, clear: html.Button) -> html.Div:
    return html.Div([html.H3(title), clear], className="detail-head")


def _fact(word: str, text: str, hint: str) -> html.Div:
    return html.Div([html.Dt(word), html.Dd(text)], title=hint)


def _code(word: str, site: Site, source: str) -> html.Div:
    """A named line: where it is and what it says, as it was when recorded."""
    head = html.Div(
        [html.Span(word, className="quiet"), parts.code_place(site), html.Span(site.function, className="quiet")]
    )
    return html.Div([head, html.Pre(source.strip()) if source.strip() else None], className="code")


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""
    _register_content(app, library)
    _register_address(app)
    graph_text.register(app, library)


def _register_content(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Graphs.HEAD, "children"),
        Output(Graphs.GRID, "rowData"),
        Output(Graphs.GRID, "style"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.STEPS, "data"),
    )
    def fill(scope: Any, steps: Any) -> tuple[Any, ...]:
        selected = shown(library, scope, steps)
        rows = rows_of(selected)
        return head(selected), rows, table.height(table.height_for(len(rows), _GRID_LEAST_PX, _GRID_MOST_PX))

    @app.callback(
        Output(Graphs.DETAIL, "children"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.GRAPH, "data"),
        State(Shell.LOCATION, "search"),
    )
    def show_graph(scope: Any, graph: Any, search: Any) -> Any:
        if not graph:
            return html.P("Select a graph to see its facts here and its steps on the strip.", className="quiet")
        return detail(shown(library, scope, graph=graph), graph, Address.parse(search))

    @app.callback(Output(Graphs.GRID, "exportDataAsCsv"), Input(Graphs.EXPORT, "n_clicks"), prevent_initial_call=True)
    def export(clicks: Any) -> bool:
        return bool(clicks)


def _register_address(app: Dash) -> None:
    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Graphs.GRID, "selectedRows"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def select_graph(rows: Any, search: Any) -> Any:
        before = Address.parse(search)
        if not isinstance(rows, list) or not rows or rows[0]["graph"] == before.graph:
            return no_update
        return replace(before, graph=rows[0]["graph"]).search

    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Output(Graphs.GRID, "deselectAll"),
        Input(Graphs.CLEAR, "n_clicks"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def clear_graph(clicks: Any, search: Any) -> Any:
        if not clicks:
            raise PreventUpdate
        return replace(Address.parse(search), graph=None).search, True

    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Graphs.GRID, "columnState"),
        Input(Graphs.GRID, "filterModel"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def keep_table(columns: Any, filters: Any, search: Any) -> Any:
        before = Address.parse(search)
        after = replace(
            before, sort=_sort_text(columns) or before.sort, filter=json.dumps(filters) if filters else None
        )
        return no_update if after == before else after.search


def _sort_text(columns: list[dict[str, Any]] | None) -> str | None:
    """The first sorted column as ``field:order``; None for the order that the table has by itself."""
    for column in columns or []:
        if column.get("sort"):
            text = f"{column['colId']}:{column['sort']}"
            return None if text == "compile_s:desc" else text
    return None


PAGE = Page(Route.GRAPHS, "Graphs", layout, register)
