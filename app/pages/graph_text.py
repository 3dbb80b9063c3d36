"""The text of one graph on the page Graphs: folded by line of code, with search, when its HLO was kept.

Owns the section and its callback. Leaves grouping, search and their bounds to ``analysis.explain.outline``.
"""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, html

from xla_insight.analysis.explain.outline import Group, Line, Outline, graph_sentences, outline
from xla_insight.graph.model import Graph
from xla_insight.report import numbers

from ..data import Library, RunView
from ..explanations import Explanations
from ..ids import Graphs, Shell
from ..scope import shown

_OPEN_GROUPS = 3


def layout() -> html.Section:
    """The section, hidden until a graph is selected."""
    search = dmc.TextInput(
        id=Graphs.SEARCH, size="xs", w=280, debounce=300, placeholder="search: slice s64 train.py:31",
        **{"aria-label": "Search the text of the graph"},
    )  # fmt: skip
    heading = html.Div([html.H2("Text of the graph"), html.Div(search, className="tools")], className="section-head")
    return html.Section([heading, html.Div(id=Graphs.TEXT)], id=Graphs.TEXT_SECTION, className="section hidden")


def content(view: RunView, name: str, graph: Graph | None, search: str) -> list[Any]:
    """What the graph holds and its text, or why there is none."""
    if graph is None:
        why = "cannot be read" if name in view.kept else "was not kept"
        return [html.P(f"The HLO of this graph {why}, so its text cannot be shown.", className="lead")]
    found = outline(graph, search)
    facts = html.Ul([html.Li(text) for text in graph_sentences(graph)], className="moves")
    groups = [_group(view, group, bool(search) or place < _OPEN_GROUPS) for place, group in enumerate(found.groups)]
    return [facts, html.P(_sentence(found, search), className="listing-note"), html.Div(groups, className="outline")]


def _sentence(found: Outline, search: str) -> str:
    every = numbers.plural(found.instructions, "instruction")
    told = (
        f"{numbers.count(found.found)} of {every} fit" if search else f"{every}, by line of code, before optimization"
    )
    if found.shown < found.found:
        told += f"; the first {numbers.count(found.shown)} are listed: search for others"
    return f"{told}."


def _group(view: RunView, group: Group, is_open: bool) -> html.Details:
    site = group.site
    place = "no line known" if site is None else numbers.place(site.file, site.line)
    source = "" if site is None else view.sources.get((site.file, site.line), "").strip()
    head = html.Summary(
        [
            html.Code(place, className="place", title=None if site is None else f"{site.file}:{site.line}"),
            html.Code(source, className="outline-source"),
            html.Span(numbers.plural(group.count, "instruction"), className="quiet"),
        ]
    )
    more = group.count - len(group.lines)
    rest = html.P(f"{numbers.count(more)} more; search for them.", className="listing-note") if more else None
    return html.Details([head, *(_line(line) for line in group.lines), rest], open=is_open, className="outline-group")


def _line(line: Line) -> html.Div:
    return html.Div(
        [
            html.Span(f"%{line.number}", className="row-number"),
            html.Code(line.text),
            html.Span(line.operation, className="row-where"),
        ],
        className="outline-line",
    )


def register(app: Dash, library: Library) -> None:
    """The callback of the section."""
    graphs = Explanations()

    @app.callback(
        Output(Graphs.TEXT, "children"),
        Output(Graphs.TEXT_SECTION, "className"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.GRAPH, "data"),
        Input(Graphs.SEARCH, "value"),
    )
    def show(scope: Any, graph: Any, search: Any) -> tuple[Any, str]:
        if not graph:
            return None, "section hidden"
        view = shown(library, scope).view
        return content(view, graph, graphs.graph(view, graph), (search or "").strip()), "section"
