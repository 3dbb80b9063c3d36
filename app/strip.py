"""The thread through all pages: the step figure with its selection, and what its colours mean.

Owns selecting a range of steps (by dragging or by typing), the choice of a process, and the legends, which are also
figures: how many steps a graph takes, how much time a host state takes. Leaves drawing to ``xla_insight.report``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.report import numbers
from xla_insight.report.figures import Canvas, step_strip, steps_over_time, typical_top_s
from xla_insight.report.figures_colours import Scheme

from . import parts
from .address import Address, parse_steps
from .data import Library
from .ids import Route, Shell, Strip
from .legends import graph_legend, state_legend
from .scope import Scope, Shown, shown

_NARROW_PX = 640
_CONFIG = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "pan2d"],
    "doubleClick": "autosize",
    "showTips": False,
    "responsive": False,
}


def layout(route: Route) -> html.Section:
    """The step figure with its tools; with times on the overview, the strip alone elsewhere."""
    with_time = route is Route.OVERVIEW
    height = dmc.SegmentedControl(
        id=Strip.HEIGHT,
        value="usual",
        size="xs",
        data=[{"value": "usual", "label": "Usual steps"}, {"value": "all", "label": "Full height"}],
    )
    chosen_range = dmc.TextInput(
        id=Strip.RANGE,
        size="xs",
        debounce=True,
        placeholder="all",
        leftSection="steps",
        leftSectionWidth=52,
        w=176,
        **{"aria-label": "Steps to show, for example 100-200"},
    )
    process = dmc.Select(
        id=Strip.PROCESS, size="xs", w=176, allowDeselect=False, searchable=True, **{"aria-label": "Process to show"}
    )
    graph = dcc.Graph(id=Strip.FIGURE, config=_CONFIG, figure=_blank(with_time), className="steps-figure")
    meaning = "Graph, compiles, host and device time of each step" if with_time else "Graph and compiles of each step"
    figure = html.Figure([graph, dcc.Store(id=Strip.DRAGGED)], **{"aria-label": meaning})
    tools = [
        html.Div(process, id=Strip.PROCESS_BOX, className="hidden"),
        html.Div(height, id=Strip.HEIGHT_BOX, className="hidden"),
        chosen_range,
        html.Button("Whole run", id=Strip.RESET, className="quiet-button hidden", n_clicks=0),
    ]
    legends = [html.Div(id=Strip.LEGEND), html.Div(id=Strip.STATES)]
    return parts.section("Steps", figure, *legends, tools=tools)


def _blank(with_time: bool) -> go.Figure:
    height = 395 if with_time else 151
    hidden = {"visible": False, "fixedrange": True}
    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "xaxis": hidden,
            "yaxis": hidden,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
        }
    )


def figure_of(shown: Shown, canvas: Canvas, *, with_time: bool, full_height: bool) -> tuple[go.Figure, bool]:
    """The figure, and whether its time axis could be cut to show usual steps better."""
    bins = shown.view.bins(shown.process, canvas.columns, shown.steps, shown.lit)
    if not with_time:
        return step_strip(bins, canvas), False
    cut = typical_top_s(bins)
    return steps_over_time(bins, canvas, top_s=None if full_height else cut), cut is not None


def canvas_for(screen: dict[str, Any]) -> Canvas:
    """The canvas for a page of that many CSS pixels (``width``) in that ``scheme``."""
    width = int(screen["width"])
    narrow = width < _NARROW_PX
    return Canvas(width, scheme_of(screen), left_px=64 if narrow else 88, right_px=4 if narrow else 12)


def scheme_of(screen: dict[str, Any]) -> Scheme:
    """The colour scheme on the screen."""
    return Scheme.DARK if screen.get("scheme") == Scheme.DARK else Scheme.LIGHT


def register(app: Dash, library: Library) -> None:
    """Callbacks of the step figure, for every page that has one."""
    _register_figure(app, library)
    _register_legends(app, library)
    _register_selection(app)
    follow_drags(app, Strip.FIGURE, Strip.DRAGGED)


def follow_drags(app: Dash, figure: str, store: str) -> None:
    """Keep what is dragged over a figure, and nothing else that it tells about its layout, in a store."""
    app.clientside_callback(
        ClientsideFunction("view", "dragged"),
        Output(store, "data"),
        Input(figure, "relayoutData"),
        prevent_initial_call=True,
    )


def _register_figure(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Strip.FIGURE, "figure"),
        Output(Strip.HEIGHT_BOX, "className"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.STEPS, "data"),
        Input(Shell.GRAPH, "data"),
        Input(Shell.SCREEN, "data"),
        Input(Strip.HEIGHT, "value"),
        Input(Shell.CAUSE, "data"),
        State(Shell.LOCATION, "pathname"),
    )
    def draw(*stores: Any) -> tuple[Any, str]:
        scope, steps, graph, screen, height, cause, path = stores
        if not screen:
            raise PreventUpdate
        selected = shown(library, scope, steps, graph, cause)
        with_time = path == Route.OVERVIEW
        figure, cuttable = figure_of(selected, canvas_for(screen), with_time=with_time, full_height=height == "all")
        return figure, "" if cuttable else "hidden"


def _register_legends(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Strip.LEGEND, "children"),
        Output(Strip.STATES, "children"),
        Output(Strip.PROCESS, "data"),
        Output(Strip.PROCESS, "value"),
        Output(Strip.PROCESS_BOX, "className"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.STEPS, "data"),
        Input(Shell.GRAPH, "data"),
        Input(Shell.SCREEN, "data"),
        State(Shell.LOCATION, "pathname"),
        State(Shell.LOCATION, "search"),
    )
    def explain(scope: Any, steps: Any, graph: Any, screen: Any, path: Any, search: Any) -> tuple[Any, ...]:
        if not screen:
            raise PreventUpdate
        selected = shown(library, scope, steps, graph)
        scheme = scheme_of(screen)
        graphs = graph_legend(selected, scheme, Address.parse(search), path)
        states = state_legend(selected, scheme) if path == Route.OVERVIEW else None
        options = [{"value": str(one.index), "label": one.label} for one in selected.view.processes]
        return graphs, states, options, str(selected.process), "" if len(options) > 1 else "hidden"


def _register_selection(app: Dash) -> None:
    @app.callback(
        Output(Strip.RANGE, "value"),
        Output(Strip.RANGE, "placeholder"),
        Output(Strip.RESET, "className"),
        Input(Shell.STEPS, "data"),
        Input(Shell.SCOPE, "data"),
    )
    def show_range(steps: Any, stored: Any) -> tuple[str, str, str]:
        chosen = f"{steps[0]}-{steps[1]}" if steps else ""
        count = Scope.from_json(stored).steps
        everything = f"all {numbers.count(count)}" if count else "all"
        return chosen, everything, "quiet-button" if chosen else "quiet-button hidden"

    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Strip.DRAGGED, "data"),
        Input(Strip.RANGE, "value"),
        Input(Strip.RESET, "n_clicks"),
        Input(Strip.PROCESS, "value"),
        State(Shell.LOCATION, "search"),
        State(Shell.SCOPE, "data"),
        prevent_initial_call=True,
    )
    def select(dragged: Any, typed: Any, _reset: Any, process: Any, search: Any, stored: Any) -> Any:
        before = Address.parse(search)
        after = _selection(ctx.triggered_id, before, dragged, typed)
        if ctx.triggered_id == Strip.PROCESS and process and int(process) != Scope.from_json(stored).process:
            after = replace(before, process=int(process))
        return no_update if after == before else after.search


def _selection(trigger: Any, before: Address, dragged: Any, typed: str | None) -> Address:
    """The address after someone dragged over the figure, typed a range, or asked for the whole run."""
    if trigger == Strip.RESET:
        return replace(before, steps=None, time=None)
    if trigger == Strip.RANGE:
        steps = parse_steps(typed)
        if steps == before.steps:  # the field was filled from the address: a stretch of time stays as it is
            return before
        return replace(before, steps=steps, time=None) if steps or not typed else before
    return selection_by_drag(before, dragged) if trigger == Strip.DRAGGED else before


def selection_by_drag(before: Address, dragged: dict[str, Any] | None) -> Address:
    """The address after someone dragged over the step axis of a figure, or double-clicked it."""
    if dragged:
        if dragged.get("xaxis.autorange"):
            return replace(before, steps=None, time=None)
        if "xaxis.range[0]" in dragged:
            first, last = dragged["xaxis.range[0]"], dragged["xaxis.range[1]"]
            return replace(before, steps=(max(0, round(first)), max(0, round(first), round(last))), time=None)
    return before
