"""The thread through all pages: the step figure with its selection, and what its colours mean.

Owns selecting a range of steps (by dragging or by typing), the choice of a process, and the legends, which are also
figures: how many steps a graph takes, how much time a host state takes. Leaves drawing to ``xla_insight.report``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.report import numbers
from xla_insight.report.figures import HOST_WORDS, STACK_ORDER, Canvas, step_strip, steps_over_time, typical_top_s
from xla_insight.report.figures_colours import Scheme, colours, graph_colour

from . import parts
from .address import Address, format_steps, parse_steps
from .data import Library, RunView
from .ids import Route, Shell, Strip
from .scope import Scope, shown_view

StepRange = tuple[int, int] | None
_LEGEND_GRAPHS = 7
_NARROW_PX = 640
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "pan2d"],
           "doubleClick": "autosize", "showTips": False, "responsive": False}  # fmt: skip


def layout(route: Route) -> html.Section:
    """The step figure with its tools; with times on the overview, the strip alone elsewhere."""
    with_time = route is Route.OVERVIEW
    height = dmc.SegmentedControl(
        id=Strip.HEIGHT, value="usual", size="xs",
        data=[{"value": "usual", "label": "Usual steps"}, {"value": "all", "label": "Full height"}],
    )  # fmt: skip
    chosen_range = dmc.TextInput(
        id=Strip.RANGE, size="xs", debounce=True, placeholder="all", leftSection="steps", leftSectionWidth=52,
        w=176, **{"aria-label": "Steps to show, for example 100-200"},
    )  # fmt: skip
    process = dmc.Select(
        id=Strip.PROCESS, size="xs", w=176, allowDeselect=False, searchable=True, **{"aria-label": "Process to show"}
    )
    figure = dcc.Graph(id=Strip.FIGURE, config=_CONFIG, figure=_blank(with_time), className="steps-figure")
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
    return go.Figure(layout={"template": "none", "height": height, "xaxis": hidden, "yaxis": hidden,
                             "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"})  # fmt: skip


def figure_of(view: RunView, process: int, steps: StepRange, graph: str | None, canvas: Canvas, *,
              with_time: bool, full_height: bool) -> tuple[go.Figure, bool]:  # fmt: skip
    """The figure, and whether its time axis could be cut to show usual steps better."""
    bins = view.bins(process, canvas.columns, steps, graph)
    if not with_time:
        return step_strip(bins, canvas), False
    cut = typical_top_s(bins)
    return steps_over_time(bins, canvas, top_s=None if full_height else cut), cut is not None


def canvas_for(width: float, scheme: str | None) -> Canvas:
    """The canvas for a page of that many CSS pixels."""
    narrow = width < _NARROW_PX
    chosen = Scheme.DARK if scheme == Scheme.DARK else Scheme.LIGHT
    return Canvas(int(width), chosen, left_px=64 if narrow else 88, right_px=4 if narrow else 12)


def graph_legend(view: RunView, process: int, steps: StepRange, scheme: Scheme, address: Address, path: str) -> html.Div:
    """The most frequent graphs among the shown steps, each a link that points at its steps."""
    shown = view.shown(process, steps)
    counted = shown["graph"].value_counts()
    rank_of = {name: rank for rank, name in enumerate(view.names)}
    ordered = sorted(((rank_of[str(name)], str(name), int(n)) for name, n in counted.items()))[:_LEGEND_GRAPHS]
    links: list[Any] = [_graph_link(*entry, scheme, address, path) for entry in ordered]
    if len(counted) > len(ordered):
        rest = replace(address.for_other_page(), graph=None).search
        links.append(dcc.Link(f"{numbers.count(len(counted) - len(ordered))} more", href=f"{Route.GRAPHS}{rest}"))
    return html.Div([html.Span("graph of a step", className="legend-word"), *links], className="legend")


def _graph_link(rank: int, name: str, steps: int, scheme: Scheme, address: Address, path: str) -> dcc.Link:
    chosen = address.graph == name
    target = replace(address, graph=None if chosen else name)
    return dcc.Link(
        [parts.swatch(graph_colour(rank, scheme)), html.Code(numbers.short_hash(name)),
         html.Span(numbers.plural(steps, "step"), className="legend-note")],
        href=f"{path}{target.search or '?'}",
        className="legend-item chosen" if chosen else "legend-item",
        title="Show all steps alike again" if chosen else f"Point at the steps of graph {name}",
    )  # fmt: skip


def state_legend(view: RunView, process: int, steps: StepRange, scheme: Scheme) -> html.Div:
    """Where the time of the shown steps went: each host state with its seconds and share, and the device below it."""
    shown = view.shown(process, steps)
    whole = float(shown["duration_ns"].sum())
    palette = colours(scheme)
    totals = {state: float(shown[f"host_{state.value}_ns"].sum()) for state in STACK_ORDER}
    items = [_state_item(HOST_WORDS[state], palette.host[state], total, whole, False)
             for state, total in totals.items() if total > 0]  # fmt: skip
    busy = shown["device_busy_ns"]
    if busy.notna().any():
        items.append(_state_item("device busy", palette.device_busy, float(busy.sum()), whole, True))
    word = "time of these steps" if steps else "time of all steps"
    return html.Div([html.Span(word, className="legend-word"), *items], className="legend")


def _state_item(word: str, colour: str, total: float, whole: float, inferred: bool) -> html.Span:
    note = f"{numbers.nanoseconds(total, inferred=inferred)}, {numbers.share(total, whole, inferred=inferred)}"
    return html.Span([parts.swatch(colour), word, html.Span(note, className="legend-note")], className="legend-item")


def register(app: Dash, library: Library) -> None:
    """Callbacks of the step figure, for every page that has one."""
    _register_figure(app, library)
    _register_legends(app, library)
    _register_selection(app)


def _register_figure(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Strip.FIGURE, "figure"), Output(Strip.HEIGHT_BOX, "className"),
        Input(Shell.SCOPE, "data"), Input(Shell.STEPS, "data"), Input(Shell.GRAPH, "data"),
        Input(Shell.WIDTH, "data"), Input(Shell.SCHEME, "data"), Input(Strip.HEIGHT, "value"),
        State(Shell.LOCATION, "pathname"),
    )  # fmt: skip
    def draw(stored: Any, steps: Any, graph: Any, width: Any, scheme: Any, height: Any, path: Any) -> tuple[Any, str]:
        scope = Scope.from_json(stored)
        view = shown_view(library, scope)
        if view is None or scope.process is None or not width:
            raise PreventUpdate
        figure, cuttable = figure_of(
            view, scope.process, _pair(steps), graph, canvas_for(width, scheme),
            with_time=path == Route.OVERVIEW, full_height=height == "all",
        )  # fmt: skip
        return figure, "" if cuttable else "hidden"


def _register_legends(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Strip.LEGEND, "children"), Output(Strip.STATES, "children"),
        Output(Strip.PROCESS, "data"), Output(Strip.PROCESS, "value"), Output(Strip.PROCESS_BOX, "className"),
        Input(Shell.SCOPE, "data"), Input(Shell.STEPS, "data"), Input(Shell.GRAPH, "data"),
        Input(Shell.SCHEME, "data"),
        State(Shell.LOCATION, "pathname"), State(Shell.LOCATION, "search"),
    )  # fmt: skip
    def explain(stored: Any, steps: Any, _graph: Any, scheme: Any, path: Any, search: Any) -> tuple[Any, ...]:
        scope = Scope.from_json(stored)
        view = shown_view(library, scope)
        if view is None or scope.process is None:
            raise PreventUpdate
        theme = Scheme.DARK if scheme == Scheme.DARK else Scheme.LIGHT
        graphs = graph_legend(view, scope.process, _pair(steps), theme, Address.parse(search), path)
        states = state_legend(view, scope.process, _pair(steps), theme) if path == Route.OVERVIEW else None
        options = [{"value": str(one.index), "label": one.label} for one in view.processes]
        return graphs, states, options, str(scope.process), "" if len(options) > 1 else "hidden"


def _register_selection(app: Dash) -> None:
    @app.callback(
        Output(Strip.RANGE, "value"), Output(Strip.RANGE, "placeholder"), Output(Strip.RESET, "className"),
        Input(Shell.STEPS, "data"), Input(Shell.SCOPE, "data"),
    )  # fmt: skip
    def show_range(steps: Any, stored: Any) -> tuple[str, str, str]:
        chosen = format_steps(_pair(steps)) or ""
        count = Scope.from_json(stored).steps
        everything = f"all {numbers.count(count)}" if count else "all"
        return chosen, everything, "quiet-button" if chosen else "quiet-button hidden"

    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Strip.FIGURE, "relayoutData"), Input(Strip.RANGE, "value"), Input(Strip.RESET, "n_clicks"),
        Input(Strip.PROCESS, "value"), State(Shell.LOCATION, "search"), State(Shell.SCOPE, "data"),
        prevent_initial_call=True,
    )  # fmt: skip
    def select(dragged: Any, typed: Any, _reset: Any, process: Any, search: Any, stored: Any) -> Any:
        before = Address.parse(search)
        after = _selection(ctx.triggered_id, before, dragged, typed)
        if ctx.triggered_id == Strip.PROCESS and process and int(process) != Scope.from_json(stored).process:
            after = replace(before, process=int(process))
        return no_update if after == before else after.search


def _selection(trigger: Any, before: Address, dragged: Any, typed: str | None) -> Address:
    """The address after someone dragged over the figure, typed a range, or asked for the whole run."""
    if trigger == Strip.RESET:
        return replace(before, steps=None)
    if trigger == Strip.RANGE:
        steps = parse_steps(typed)
        return replace(before, steps=steps) if steps or not typed else before
    if trigger == Strip.FIGURE and dragged:
        if dragged.get("xaxis.autorange"):
            return replace(before, steps=None)
        if "xaxis.range[0]" in dragged:
            first, last = dragged["xaxis.range[0]"], dragged["xaxis.range[1]"]
            return replace(before, steps=(max(0, round(first)), max(0, round(first), round(last))))
    return before


def _pair(steps: Any) -> StepRange:
    return (int(steps[0]), int(steps[1])) if steps else None


