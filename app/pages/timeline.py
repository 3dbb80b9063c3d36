"""Page Timeline: what host and device did at each instant, from the whole run down to nanoseconds, and why it idled.

Owns the layout of this page and the ways to move along the time axis. Columns come from the run's timeline, already
thinned to what the screen can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import Dash, Input, Output, State, ctx, dcc, html
from dash.exceptions import PreventUpdate

from xla_insight.analysis.timeline import Timeline, Totals
from xla_insight.facts.report import HostState, IdleGap, Site
from xla_insight.report import numbers
from xla_insight.report.figures import HOST_WORDS, STACK_ORDER
from xla_insight.report.figures_colours import Scheme, colours
from xla_insight.report.figures_timeline import height_px, timeline_figure

from .. import parts, strip
from ..address import Address
from ..data import Library
from ..ids import Route, Shell
from ..ids import Timeline as Ids
from ..legends import share_legend
from ..scope import Scope, Shown, shown
from .page import Page

_CONFIG = {"displayModeBar": False, "doubleClick": "autosize", "showTips": False, "responsive": False}
_LISTED_GAPS = 5
_NOT_OBSERVED = "n/a: no execution times were recorded, so it is not known when the device was idle."
_SHOWN_FRAMES = 12
_STEP_PX = 40
"""The least pixels a step needs to be marked apart from the next."""
_LEAST_NS = 20
"""The narrowest view: a drag that selects less is a click."""
_BUTTONS = (
    (Ids.EARLIER, "Earlier"),
    (Ids.LATER, "Later"),
    (Ids.OUT, "Zoom out"),
    (Ids.WHOLE, "Whole run"),
)
Stretch = tuple[int, int]


def layout(_address: Address) -> html.Div:
    """The page, to be filled by its callbacks."""
    blank = {
        "layout": {"height": height_px(), "template": "none", "xaxis": {"visible": False}, "yaxis": {"visible": False}}
    }
    graph = dcc.Graph(id=Ids.FIGURE, config=_CONFIG, figure=blank, className="steps-figure")
    words = "Host states, value reads, compiles, device by graph and transfers over time"
    figure = html.Figure([graph, dcc.Store(id=Ids.DRAGGED), dcc.Store(id=Ids.DRAWN)], **{"aria-label": words})
    tools = [html.Button(word, id=name, className="quiet-button", n_clicks=0) for name, word in _BUTTONS]
    return html.Div(
        [
            html.Div(parts.skeleton(104), id=Ids.HEAD),
            parts.section("Time", figure, html.Div(id=Ids.LEGEND), tools=tools),
            html.Div(id=Ids.DETAIL),
            strip.layout(Route.TIMELINE),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""
    strip.follow_drags(app, Ids.FIGURE, Ids.DRAGGED)

    shown_parts = (
        (Ids.HEAD, "children"),
        (Ids.FIGURE, "figure"),
        (Ids.LEGEND, "children"),
        (Ids.DETAIL, "children"),
        (Ids.DRAWN, "data"),
    )

    @app.callback(
        *(Output(*part) for part in shown_parts),
        Input(Shell.SCOPE, "data"),
        Input(Shell.SCREEN, "data"),
        Input(Shell.LOCATION, "search"),
        State(Shell.LOCATION, "pathname"),
        State(Ids.DRAWN, "data"),
    )
    def fill(stored: Any, screen: Any, search: Any, path: Any, drawn: Any) -> tuple[Any, ...]:
        address = Address.parse(search)
        if not screen or path != Route.TIMELINE or drawn == drawn_key(stored, screen, address):
            raise PreventUpdate
        return (*content(shown(library, stored), address, screen), drawn_key(stored, screen, address))

    # What was dragged to is drawn at once, and the address follows: by way of the address, the browser would ask three
    # times, one after the other.
    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        *(Output(*part, allow_duplicate=True) for part in shown_parts),
        Input(Ids.DRAGGED, "data"),
        Input(Ids.FIGURE, "clickData"),
        *(Input(name, "n_clicks") for name, _ in _BUTTONS),
        State(Shell.SCOPE, "data"),
        State(Shell.SCREEN, "data"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def move(dragged: Any, clicked: Any, *rest: Any) -> Any:
        stored, screen, search = rest[-3:]
        if not screen or not any(entry["value"] for entry in ctx.triggered):  # the page has just been built
            raise PreventUpdate
        before, selected = Address.parse(search), shown(library, stored)
        timeline = selected.view.timelines.of(selected.process)
        event = dragged if ctx.triggered_id == Ids.DRAGGED else clicked
        after = moved(timeline, before, ctx.triggered_id, event)
        if after == before:
            raise PreventUpdate
        return (after.search, *content(selected, after, screen), drawn_key(stored, screen, after))


def drawn_key(stored: Any, screen: Any, address: Address) -> list[Any]:
    """All that decides what the page shows."""
    scope = Scope.from_json(stored)
    return [scope.run, scope.process, scope.revision, address.search, screen["width"], screen.get("scheme")]


def stretch_of(timeline: Timeline, address: Address) -> Stretch:
    """The stretch of time that an address shows: its own, that of its steps, or all."""
    if address.time is not None and address.time[0] < timeline.end_ns and address.time[1] > timeline.begin_ns:
        return max(timeline.begin_ns, address.time[0]), min(timeline.end_ns, address.time[1])
    steps = None if address.steps is None else timeline.stretch_of_steps(*address.steps)
    return steps or (timeline.begin_ns, timeline.end_ns)


def moved(timeline: Timeline, before: Address, trigger: Any, event: Any) -> Address:
    """The address after someone dragged over the figure, clicked into it, or pressed a button."""
    begin, end = stretch_of(timeline, before)
    if trigger == Ids.WHOLE:
        return replace(before, time=None, steps=None)
    if trigger == Ids.OUT:
        return _looking_at(timeline, before, (begin - (end - begin), end + (end - begin)))
    if trigger in (Ids.EARLIER, Ids.LATER):
        by = (end - begin) * 4 // 5 * (1 if trigger == Ids.LATER else -1)
        by = max(timeline.begin_ns - begin, min(timeline.end_ns - end, by))
        return _looking_at(timeline, before, (begin + by, end + by))
    if not event:
        return before
    if "points" in event:
        return _clicked(timeline, before, event)
    if event.get("xaxis.autorange"):
        return replace(before, time=None, steps=None)
    if "xaxis.range[0]" in event:
        low, high = (timeline.begin_ns + round(event[f"xaxis.range[{side}]"]) for side in (0, 1))
        return _looking_at(timeline, before, (low, high)) if high - low >= _LEAST_NS else before
    return before


def _looking_at(timeline: Timeline, before: Address, stretch: Stretch) -> Address:
    begin, end = max(timeline.begin_ns, stretch[0]), min(timeline.end_ns, stretch[1])
    if (begin, end) == (timeline.begin_ns, timeline.end_ns):
        return replace(before, time=None, steps=None)
    return replace(before, time=(begin, end), steps=timeline.steps_within(begin, end))


def _clicked(timeline: Timeline, before: Address, event: Any) -> Address:
    """The longest idle gap of the column that was clicked."""
    low, high = event["points"][0]["customdata"][:2]
    index = timeline.gaps.longest_within(timeline.begin_ns + int(low), timeline.begin_ns + int(high))
    return replace(before, gap=None if index is None else int(timeline.gaps.starts[index]))


def content(selected: Shown, address: Address, screen: dict[str, Any]) -> tuple[Any, ...]:
    """Head, figure, legend and detail of what an address selects."""
    timeline = selected.view.timelines.of(selected.process)
    begin, end = stretch_of(timeline, address)
    canvas = strip.canvas_for(screen)
    index = None if address.gap is None else timeline.gaps.at(address.gap)
    gap = None if index is None else timeline.gap(index)
    view = timeline.view(begin, end, canvas.columns, max(3, canvas.columns // _STEP_PX))
    figure = timeline_figure(view, timeline.begin_ns, selected.view.names, canvas, gap)
    totals = timeline.totals(begin, end)
    detail = _overview_of_gaps(timeline, address, (begin, end)) if gap is None or index is None else None
    return (
        head(timeline, totals, (begin, end)),
        figure,
        legend(totals, canvas.scheme),
        detail or _gap_section(gap, timeline.opener_stack(index or 0), address, canvas.scheme),
    )


def head(timeline: Timeline, totals: Totals, stretch: Stretch) -> list[Any]:
    """What limits the stretch that is shown, and which steps it holds."""
    steps = timeline.steps_within(*stretch)
    where = "outside of any step" if steps is None else _steps_word(steps)
    note = f"{where[0].upper()}{where[1:]}."
    how = " Drag to look closer, double-click for the whole run, click an idle stretch of the device to see why."
    return [parts.headline(totals.sentence()), html.P(note + how, className="lead")]


def _steps_word(steps: tuple[int, int]) -> str:
    first, last = (numbers.count(step) for step in steps)
    return f"step {first}" if steps[0] == steps[1] else f"steps {first} to {last}"


def legend(totals: Totals, scheme: Scheme) -> html.Div:
    """What the colours mean, and how much there is of each in the stretch that is shown."""
    palette = colours(scheme)
    host = [(HOST_WORDS[s], palette.host[s], float(totals.host[s])) for s in STACK_ORDER if s in totals.host]
    rows = [share_legend("host", host, totals.whole, inferred=False)]
    if totals.idle is not None and totals.busy is not None:
        device = [("busy (other hues: rarer graphs)", palette.device_busy, float(totals.busy))]
        device += [(f"idle, {HOST_WORDS[state]}", palette.host[state], float(ns)) for state, ns in totals.idle.items()]
        rows.append(share_legend("device", device, totals.whole, inferred=True))
    return html.Div(rows)


def gap_href(gap: IdleGap, address: Address, closer: bool = True) -> str:
    """A link that selects a gap; ``closer``: and looks at it with a quarter of its length on both sides."""
    begin, length = round(gap.start_s * 1e9), round(gap.idle_s * 1e9)
    target = replace(address.for_other_page(), gap=begin)
    if closer:
        margin = max(1000, length // 4)
        steps = None if gap.step is None else (gap.step, gap.step)
        target = replace(target, time=(begin - margin, begin + length + margin), steps=steps)
    return f"{Route.TIMELINE}{target.search}"


def _overview_of_gaps(timeline: Timeline, address: Address, stretch: Stretch) -> html.Section:
    gaps = [(timeline.gap(index), index) for index in timeline.longest_gaps(*stretch, _LISTED_GAPS)]
    if not gaps:
        none = "The device is never idle in this stretch of time." if timeline.observed else _NOT_OBSERVED
        return parts.section("Idle gaps", html.P(none, className="quiet"))
    items = [
        html.Li([dcc.Link(parts.unbroken(gap.summary), href=gap_href(gap, address)), *beyond(timeline, index, stretch)])
        for gap, index in gaps
    ]
    return parts.section("Longest idle gaps in view", html.Ol(items, className="gaps"))


def beyond(timeline: Timeline, index: int, stretch: Stretch, where: str = "in view") -> list[html.Span]:
    """How much of a gap is in a stretch of time, where not all of it is."""
    begin, end = int(timeline.gaps.starts[index]), int(timeline.gaps.ends[index])
    sides = [word for word, out in (("earlier", begin < stretch[0]), ("later", end > stretch[1])) if out]
    if not sides:
        return []
    part = numbers.nanoseconds(min(end, stretch[1]) - max(begin, stretch[0]), inferred=True)
    text = f" {part} of it {where}; the rest is {' and '.join(sides)}."
    return [html.Span(parts.unbroken(text), className="quiet")]


def _gap_section(
    gap: IdleGap | None, stack: Sequence[tuple[str, int, str]], address: Address, scheme: Scheme
) -> html.Section | None:
    if gap is None:
        return None
    palette = colours(scheme)
    states = [
        (HOST_WORDS[HostState(state)], palette.host[HostState(state)], 1e9 * s)
        for state, s in gap.by_host_state.items()
    ]
    meanwhile = share_legend("meanwhile", states, 1e9 * gap.idle_s, inferred=False)
    tools = [
        dcc.Link("Look closer", href=gap_href(gap, address), className="quiet-button"),
        dcc.Link(
            "All gaps", href=f"{Route.TIMELINE}{replace(address, gap=None).search or '?'}", className="quiet-button"
        ),
    ]
    places = [_place("Where", gap.site, gap.user_site)]
    if gap.opened_by is not None:
        word = "Emptied the device" if gap.opened_by == "read" else "Waited for the device"
        places.append(_place(word, gap.opened_site, gap.opened_user_site))
    return parts.section(
        "Idle gap",
        html.P(parts.unbroken(gap.summary), className="lead"),
        html.Div(meanwhile, className="gap-states"),
        html.Div(places, className="codes"),
        _stack(stack),
        tools=tools,
    )


def _place(word: str, site: Site | None, user_site: Site | None) -> html.Div | None:
    if site is None:
        return None
    called = [] if user_site in (None, site) else ["called from ", parts.code_place(user_site)]
    source = html.Pre(site.source.strip()) if site.source.strip() else None
    return html.Div(
        [html.Div([html.Span(word, className="quiet"), parts.code_place(site), *called]), source], className="code"
    )


def _stack(stack: Sequence[tuple[str, int, str]]) -> html.Details | None:
    if not stack:
        return None
    lines = [f"{numbers.place(file, line)} in {function}" for file, line, function in stack[:_SHOWN_FRAMES]]
    if len(stack) > _SHOWN_FRAMES:
        lines.append(f"and {numbers.plural(len(stack) - _SHOWN_FRAMES, 'frame')} further out")
    return html.Details(
        [html.Summary("Call stack, innermost first"), html.Div(html.Pre("\n".join(lines)), className="code")]
    )


PAGE = Page(Route.TIMELINE, "Timeline", layout, register)
