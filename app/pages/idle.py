"""Page Idle: for how long the device had nothing to run, what the host did meanwhile, and which places leave it so.

Owns the layout of this page. Numbers and sentences come from ``xla_insight.analysis`` through the run's view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.analysis.idle_causes import Opener
from xla_insight.analysis.periods import DEVICE, period_sentence
from xla_insight.facts.report import HostLine, HostState, IdleGap, Period
from xla_insight.report import numbers
from xla_insight.report.figures import HOST_WORDS, STACK_ORDER
from xla_insight.report.figures_bins import sum_steps
from xla_insight.report.figures_colours import Scheme, colours
from xla_insight.report.figures_idle import NEEDED, height_px, idle_figure

from .. import parts, strip
from ..address import Address
from ..data import Library
from ..ids import Idle, Route, Shell
from ..legends import share_legend
from ..scope import Shown, shown
from .idle_windows import sections, table
from .page import Page
from .timeline import beyond, gap_href

_CONFIG = {"displayModeBar": False, "doubleClick": "autosize", "showTips": False, "responsive": False}
_LISTED = 10
_LISTED_EPOCHS = 50
_PATH_SHARE = 0.01
"""What is on the critical path for less is not listed."""
_OPENER_WORDS = {"read": "value read", "sync": "sync", None: "not blocked"}
_NOT_BLOCKED = "The host was at work when the device ran out of it: the device was faster."


def layout(_address: Address) -> html.Div:
    """The page, to be filled by its callbacks."""
    blank = {
        "layout": {"height": height_px(), "template": "none", "xaxis": {"visible": False}, "yaxis": {"visible": False}}
    }
    graph = dcc.Graph(id=Idle.FIGURE, config=_CONFIG, figure=blank, className="steps-figure")
    words = "Idle time of each step by host state, and overlap"
    figure = html.Figure([graph, dcc.Store(id=Idle.DRAGGED)], **{"aria-label": words})
    return html.Div(
        [
            html.Div(parts.skeleton(176), id=Idle.HEAD),
            parts.section("Idle time of each step", figure, html.Div(id=Idle.LEGEND)),
            strip.layout(Route.IDLE),
            html.Div(parts.skeleton(480), id=Idle.TABLES),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""
    strip.follow_drags(app, Idle.FIGURE, Idle.DRAGGED)

    @app.callback(
        Output(Idle.HEAD, "children"),
        Output(Idle.FIGURE, "figure"),
        Output(Idle.LEGEND, "children"),
        Output(Idle.TABLES, "children"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.STEPS, "data"),
        Input(Shell.SCREEN, "data"),
        State(Shell.LOCATION, "pathname"),
        State(Shell.LOCATION, "search"),
    )
    def fill(stored: Any, steps: Any, screen: Any, path: Any, search: Any) -> tuple[Any, ...]:
        if not screen or path != Route.IDLE:
            raise PreventUpdate
        selected, canvas = shown(library, stored, steps), strip.canvas_for(screen)
        figure = idle_figure(sum_steps(selected.rows, NEEDED, columns=canvas.columns), canvas)
        return head(selected), figure, legend(selected, canvas.scheme), tables(selected, Address.parse(search))

    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Idle.DRAGGED, "data"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def select(dragged: Any, search: Any) -> Any:
        before = Address.parse(search)
        after = strip.selection_by_drag(before, dragged) if ctx.triggered_id == Idle.DRAGGED else before
        return no_update if after == before else after.search


def head(selected: Shown) -> list[Any]:
    """What the device waits for in the steady state, and the figures that prove it."""
    warm_up, steady = selected.view.timelines.periods(selected.process)
    period = steady or warm_up
    if period is None:
        return [html.H1("No step was recorded.", className="verdict")]
    idle_s = None if period.device_busy_s is None else period.wall_s - period.device_busy_s
    reads = [opener for opener in selected.view.timelines.openers(selected.process) if opener.kind == "read"]
    read_idle = sum(opener.idle_s for opener in reads)
    figures = [
        parts.key_figure(
            "idle",
            numbers.share(idle_s, period.wall_s, inferred=True),
            "" if idle_s is None else numbers.duration(idle_s, inferred=True),
            parts.INFERRED_NOTE,
        ),
        parts.key_figure("device busy", numbers.share(period.device_busy_s, period.wall_s, inferred=True), "", ""),
        parts.key_figure(
            "overlap", numbers.percent(period.overlap_pct, inferred=True), "of host work behind the device", ""
        ),
        parts.key_figure(
            "a step", numbers.duration(period.wall_s / period.steps), f"in {numbers.plural(period.steps, 'step')}"
        ),
        parts.key_figure(
            "warm-up",
            numbers.duration(warm_up.wall_s if warm_up else None),
            numbers.plural(warm_up.steps, "step") if warm_up else "",
            "The first steps, in which graphs compile that later steps reuse",
        ),
        parts.key_figure(
            "idle after value reads",
            numbers.duration(read_idle, inferred=True) if idle_s is not None else numbers.NOT_MEASURED,
            "" if idle_s is None else numbers.plural(sum(opener.gaps for opener in reads), "gap"),
            "A read that waits for the device leaves nothing queued behind it",
        ),
    ]
    return [parts.headline(period_sentence(period)), *_about(selected), parts.key_figures(figures)]


def _about(selected: Shown) -> list[html.P]:
    """What on this page follows a selection of steps, and what does not."""
    chosen = _chosen(selected)
    if chosen is None:
        return []
    only = f"Only the idle time of each step, the worst steps and the longest gaps are of {_steps_text(chosen)}."
    return [html.P(parts.unbroken(f"This is about the whole run. {only}"), className="lead")]


def _chosen(selected: Shown) -> tuple[int, int] | None:
    """The first and last step of a selection; None when all steps are shown."""
    rows = selected.rows["step"]
    if len(rows) == len(selected.view.steps[selected.process]):
        return None
    return int(rows.iloc[0]), int(rows.iloc[-1])


def _steps_text(steps: tuple[int, int]) -> str:
    first, last = (numbers.count(step) for step in steps)
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _gaps(selected: Shown, chosen: tuple[int, int] | None) -> list[tuple[IdleGap, list[html.Span]]]:
    """The longest gaps of the chosen steps, each with what to say where it reaches beyond them."""
    if chosen is None:
        return [(gap, []) for gap in selected.view.timelines.worst_gaps(selected.process, _LISTED)]
    timeline = selected.view.timelines.of(selected.process)
    stretch = timeline.stretch_of_steps(*chosen)
    if stretch is None:
        return []
    found = timeline.longest_gaps(*stretch, _LISTED)
    return [(timeline.gap(index), beyond(timeline, index, stretch, "here")) for index in found]


def legend(selected: Shown, scheme: Scheme) -> html.Div:
    """Idle time of the shown steps by what the host did meanwhile."""
    rows, palette = selected.rows, colours(scheme)
    whole = float(rows["duration_ns"].sum())
    sums = {state: rows[f"idle_{state.value}_ns"].sum(min_count=1) for state in STACK_ORDER}
    items = [
        (HOST_WORDS[state], palette.host[state], float(ns)) for state, ns in sums.items() if pd.notna(ns) and ns > 0
    ]
    return share_legend("idle while", items, whole, inferred=True)


def tables(selected: Shown, address: Address) -> list[Any]:
    """Warm-up against steady state, who leaves the device idle, the worst steps and gaps, all epochs, and all ranks."""
    time, process, chosen = selected.view.timelines, selected.process, _chosen(selected)
    within, of_all = ("", "") if chosen is None else (f" in {_steps_text(chosen)}", ", in the whole run")
    lines = _host_lines(time.host_lines(process), of_all)
    first = [_periods(*time.periods(process)), html.Div([_openers(time.openers(process), of_all), lines])]
    second = [_worst_steps(selected.rows, address, within), _worst_gaps(_gaps(selected, chosen), address, within)]
    pairs = [html.Div(pair, className="pair") for pair in (first, second)]
    whole = [_epochs(time.epochs(process), address), _ranks(selected.view.report.time.ranks)]
    return [*pairs, sections(time.measured(process)), *whole]


def _periods(warm_up: Period | None, steady: Period | None) -> html.Section | None:
    known = [period for period in (warm_up, steady) if period is not None]
    if not known:
        return None
    states = [state for state in STACK_ORDER if any(p.device_idle_by_host_state.get(state) for p in known)]
    rows: list[list[Any]] = [
        ["steps", *(_steps_word(period) for period in known)],
        ["time a step", *(numbers.duration(period.wall_s / period.steps) for period in known)],
        ["device busy", *(numbers.share(p.device_busy_s, p.wall_s, inferred=True) for p in known)],
        *(
            [
                f"idle, {HOST_WORDS[state]}",
                *(numbers.share(p.device_idle_by_host_state.get(state), p.wall_s, inferred=True) for p in known),
            ]
            for state in states
        ),
        ["overlap", *(numbers.percent(period.overlap_pct, inferred=True) for period in known)],
        *(
            [
                f"critical path, {name if name == DEVICE else HOST_WORDS[HostState(name)]}",
                *(numbers.share(p.critical_path.get(name, 0.0), p.wall_s, inferred=True) for p in known),
            ]
            for name in _path_names(known)
        ),
    ]
    words = {"warm_up": "warm-up", "steady": "steady state"}
    return parts.section("Warm-up against steady state", table(["", *(words[p.name] for p in known)], rows))


def _path_names(periods: Sequence[Period]) -> list[str]:
    """What is on the critical path of some period for 1 % or more, largest first."""
    largest: dict[str, float] = {}
    for period in periods:
        for name, spent_s in period.critical_path.items():
            share = spent_s / period.wall_s if period.wall_s else 0.0
            largest[name] = max(largest.get(name, 0.0), share)
    return sorted((name for name, share in largest.items() if share >= _PATH_SHARE), key=lambda name: -largest[name])


def _steps_word(period: Period) -> str:
    first, last = numbers.count(period.first_step), numbers.count(period.last_step)
    return first if first == last else f"{first} to {last}"


def _openers(openers: Sequence[Opener], of_all: str) -> html.Section | None:
    if not openers:
        return None
    whole = sum(opener.idle_s for opener in openers)
    rows = [
        [
            _opener(opener),
            numbers.count(opener.gaps),
            numbers.duration(opener.idle_s, inferred=True),
            numbers.share(opener.idle_s, whole, inferred=True),
            numbers.duration(opener.hideable_s, inferred=True),
        ]
        for opener in openers[:_LISTED]
    ]
    columns = (
        "What the training thread was blocked in when the device ran out of work",
        "gaps",
        "idle",
        "share",
        "could be hidden",
    )
    return parts.section(f"What leaves the device idle{of_all}", table(columns, rows))


def _opener(opener: Opener) -> Any:
    if opener.kind is None:
        return [html.Strong("Nothing"), html.Span(_NOT_BLOCKED, className="quiet-line")]
    place = opener.place
    called = [] if place.user_site in (None, place.site) else [" called from ", parts.code_place(place.user_site)]
    return [html.Strong(_OPENER_WORDS[opener.kind].capitalize()), " ", parts.code_place(place.site), *called]


def _host_lines(lines: Sequence[HostLine], of_all: str) -> html.Section | None:
    """Where the host ran Python of its own."""
    if not lines:
        return None
    rows = [
        [
            _line(line),
            numbers.count(line.samples),
            f"{numbers.percent(100 * line.share, inferred=True)} ± {100 * line.error:.0f}",
            numbers.duration(line.spent_s, inferred=True),
        ]
        for line in lines
    ]
    columns = ("Line of the training thread while it ran Python and traced", "samples", "share", "time")
    return parts.section(f"Python and tracing after warm-up, by line{of_all}", table(columns, rows))


def _line(line: HostLine) -> Any:
    called = [] if line.user_site in (None, line.site) else [" called from ", parts.code_place(line.user_site)]
    source = line.site.source.strip()
    quiet = html.Span(parts.middle(source), className="quiet-line", title=source) if source else None
    return [parts.code_place(line.site), *called, quiet]


def _worst_steps(rows: pd.DataFrame, address: Address, within: str) -> html.Section | None:
    idle = rows[[f"idle_{state.value}_ns" for state in HostState]]
    if idle.isna().all(axis=None):
        return None
    total = idle.sum(axis=1)
    worst = total.sort_values(ascending=False, kind="stable").index[:_LISTED]
    cells = []
    for index in worst:
        step = int(rows.loc[index, "step"])
        href = f"{Route.TIMELINE}{replace(address.for_other_page(), steps=(step, step)).search}"
        states = {state: int(rows.loc[index, f"idle_{state.value}_ns"]) for state in HostState}
        most = max(states, key=lambda state: states[state])
        length = int(rows.loc[index, "duration_ns"])
        cells.append(
            [
                dcc.Link(f"step {numbers.count(step)}", href=href),
                numbers.nanoseconds(length),
                numbers.nanoseconds(int(total[index]), inferred=True),
                numbers.share(int(total[index]), length, inferred=True),
                f"{HOST_WORDS[most]} {numbers.nanoseconds(states[most], inferred=True)}",
                numbers.count(int(rows.loc[index, "compiles"])),
            ]
        )
    columns = ("step", "length", "idle", "share", "mostly while", "compiles")
    return parts.section(f"Worst steps{within}", table(columns, cells))


def _worst_gaps(gaps: Sequence[tuple[IdleGap, list[html.Span]]], address: Address, within: str) -> html.Section | None:
    if not gaps:
        return None
    items = [html.Li([dcc.Link(parts.unbroken(gap.summary), href=gap_href(gap, address)), *more]) for gap, more in gaps]
    return parts.section(f"Longest gaps{within}", html.Ol(items, className="gaps"))


def _epochs(epochs: Sequence[Period], address: Address) -> html.Section | None:
    if len(epochs) < 2:
        return None
    rows = []
    for number, period in list(enumerate(epochs))[:_LISTED_EPOCHS]:
        target = replace(address.for_other_page(), steps=(period.first_step, period.last_step))
        idle = period.device_idle_by_host_state
        most = max(idle, key=lambda state: idle[state], default=None)
        share = None if most is None else numbers.share(idle[most], period.wall_s, inferred=True)
        rows.append(
            [
                dcc.Link(f"epoch {numbers.count(number)}", href=f"{Route.TIMELINE}{target.search}"),
                _steps_word(period),
                numbers.duration(period.wall_s),
                numbers.duration(period.wall_s / period.steps),
                numbers.share(period.device_busy_s, period.wall_s, inferred=True),
                numbers.NOT_MEASURED if most is None else f"{HOST_WORDS[HostState(most)]} {share}",
                numbers.percent(period.overlap_pct, inferred=True),
            ]
        )
    left = len(epochs) - len(rows)
    more = html.P(f"{numbers.plural(left, 'more epoch')} in the JSON report.", className="quiet") if left else None
    columns = ("", "steps", "time", "a step", "device busy", "idle, mostly", "overlap")
    return parts.section("Epochs", table(columns, rows), more)


def _ranks(ranks: Sequence[Period]) -> html.Section | None:
    if len(ranks) < 2:
        return None
    rows = [
        [
            f"rank {numbers.count(period.rank)} · process {numbers.count(period.process)}",
            numbers.count(period.steps),
            numbers.duration(period.wall_s / period.steps),
            numbers.share(period.device_busy_s, period.wall_s, inferred=True),
            *(
                numbers.share(period.device_idle_by_host_state.get(state), period.wall_s, inferred=True)
                for state in (HostState.TRACE, HostState.INPUT_WAIT, HostState.COMPILE)
            ),
            numbers.percent(period.overlap_pct, inferred=True),
        ]
        for period in ranks
    ]
    columns = ("", "steps", "a step", "device busy", "idle, trace", "idle, input wait", "idle, compile", "overlap")
    return parts.section("Ranks", table(columns, rows))


PAGE = Page(Route.IDLE, "Idle", layout, register)
