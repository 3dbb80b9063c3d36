"""Page Ranks & devices: who is slower than the others, where ranks part, what devices exchange, how parameters lie.

Owns the layout of this page. Numbers and sentences come from ``xla_insight.analysis`` through the run's view; leaves
the tables of collectives and parameters to ``ranks_tables``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.analysis.device_facts import steps_by_rank
from xla_insight.analysis.rank_syncs import SyncStrip, sync_strip
from xla_insight.facts.devices import DeviceFacts, MeasuredDevice, RankFacts
from xla_insight.facts.report import Finding
from xla_insight.report import numbers
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_ranks import lag_figure, sync_figure

from .. import parts, strip
from ..address import Address
from ..data import Library, RunView
from ..ids import Ranks, Route, Shell
from ..scope import Shown, shown
from . import ranks_tables
from .page import Page

_CONFIG = {"displayModeBar": False, "doubleClick": False, "showTips": False, "responsive": False}
_LISTED_RANKS = 64
_PER_DEVICE = (
    "When each single device of a process was busy is known in device windows only, and no window of this run tells"
    " them apart: times are of all its devices together. Choose steps for one: xla-insight run --window 10-12."
)
_RECORD_RANKS = "xla-insight run torchrun --nproc-per-node 4 train.py"
_NO_SPMD = "This run did not use several devices in one process (SPMD), and {}."
_NOTHING_EXCHANGED = "none of the programs that were kept exchanges values between devices"
_NOTHING_READ = "no compiled program was kept that would show an exchange"


def layout(_address: Address) -> html.Div:
    """The page, to be filled by its callbacks."""
    return html.Div(
        [
            html.Div(parts.skeleton(176), id=Ranks.HEAD),
            strip.layout(Route.RANKS),
            html.Div(parts.skeleton(320), id=Ranks.BODY),
            html.Div(ranks_tables.sections(), id=Ranks.TABLES, hidden=True),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""

    @app.callback(
        Output(Ranks.HEAD, "children"),
        Output(Ranks.BODY, "children"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.SCREEN, "data"),
        State(Shell.LOCATION, "pathname"),
        State(Shell.LOCATION, "search"),
    )
    def fill(stored: Any, screen: Any, path: Any, search: Any) -> tuple[Any, Any]:
        if not screen or path != Route.RANKS:
            raise PreventUpdate
        selected = shown(library, stored)
        return head(selected.view), body(selected, strip.canvas_for(screen), Address.parse(search))

    @app.callback(
        Output(Ranks.TABLES, "hidden"),
        Output(Ranks.COLLECTIVES, "rowData"),
        Output(Ranks.COLLECTIVES, "style"),
        Output(Ranks.SHARDINGS, "rowData"),
        Output(Ranks.SHARDINGS, "style"),
        Input(Shell.SCOPE, "data"),
    )
    def fill_tables(stored: Any) -> tuple[Any, ...]:
        devices = shown(library, stored).view.report.devices
        if devices is None or not (devices.collectives or devices.shardings):
            return True, [], no_update, [], no_update
        return (False, *ranks_tables.collective_rows(devices), *ranks_tables.sharding_rows(devices))

    for button, grid in ((Ranks.EXPORT_COLLECTIVES, Ranks.COLLECTIVES), (Ranks.EXPORT_SHARDINGS, Ranks.SHARDINGS)):
        app.callback(Output(grid, "exportDataAsCsv"), Input(button, "n_clicks"), prevent_initial_call=True)(bool)


def divergence(view: RunView) -> Finding | None:
    """The finding that ranks part, when they do."""
    return next((finding for finding in view.report.findings if finding.id == "rank_divergence"), None)


def head(view: RunView) -> list[Any]:
    """Where ranks part, else how many there are and who is behind; and the figures that prove it."""
    devices = view.report.devices
    if devices is None or not devices.ranks:
        return [html.H1("No step was recorded.", className="verdict")]
    parted = divergence(view)
    sentence = parted.summary if parted is not None else devices.summary
    lead = [html.P(parts.unbroken(devices.summary), className="lead")] if parted is not None else []
    checkpoints = view.report.checkpoints
    if checkpoints is not None:
        lead.append(html.P(parts.unbroken(checkpoints.summary), className="lead"))
    return [parts.headline(sentence), *lead, key_figures(view, devices)]


def key_figures(view: RunView, devices: DeviceFacts) -> html.Dl:
    """Ranks, devices, executions on each, exchanged bytes, cut parameters, stall of checkpoints."""
    known = [rank.devices for rank in devices.ranks if rank.devices is not None]
    each = [rank.executions_per_device for rank in devices.ranks if rank.executions_per_device is not None]
    spread = numbers.count(each[0]) if len(set(each)) == 1 else f"{numbers.count(min(each))} to" if each else ""
    cut = sum((fact.pieces or 1) > 1 for fact in devices.shardings)
    sent = sum(fact.graph_bytes * (fact.executions or 0) for fact in devices.collectives)
    saved = view.report.checkpoints
    return parts.key_figures(
        [
            parts.key_figure("ranks", numbers.count(len({rank.rank for rank in devices.ranks}))),
            parts.key_figure(
                "devices", numbers.count(sum(known)) if len(known) == len(devices.ranks) else numbers.NOT_MEASURED,
                "SPMD" if devices.spmd else "", "A process says how many it has when its recording ends",
            ),
            parts.key_figure(
                "executions on a device",
                numbers.NOT_MEASURED if not each else spread if len(set(each)) == 1 else numbers.count(max(each)),
                f"at least {numbers.count(min(each))}" if len(set(each)) > 1 else "",
            ),
            parts.key_figure(
                "exchanged by a device", numbers.size(sent) if devices.graphs_read else numbers.NOT_MEASURED,
                f"in {numbers.plural(devices.graphs_read, 'graph')}" if devices.graphs_read else "no program was kept",
                "The larger of what goes into a collective and what comes out, over all executions",
            ),
            parts.key_figure(
                "cut parameters", numbers.count(cut) if devices.shardings else numbers.NOT_MEASURED,
                f"of {numbers.count(len(devices.shardings))}" if devices.shardings else "no sharding was recorded",
            ),
            parts.key_figure(
                "held up by saving", numbers.duration(saved.stall_s) if saved else numbers.NOT_MEASURED,
                f"{numbers.duration(saved.behind_s)} written behind" if saved else "nothing was saved",
                "Time of the training thread, and of threads that write while it goes on",
            ),
        ]
    )  # fmt: skip


def body(selected: Shown, canvas: Canvas, address: Address) -> list[Any]:
    """Figures and the table of ranks; what there is none of says so."""
    view = selected.view
    devices = view.report.devices
    if devices is None or not devices.ranks:
        return []
    several = len({rank.rank for rank in devices.ranks}) > 1
    wide = replace(canvas, left_px=max(canvas.left_px, 88))
    found: list[Any] = [_side_by_side(view, devices.ranks, wide)] if several else []
    found.append(_table_of_ranks(devices, address))
    if devices.measured:
        found.append(_table_of_devices(devices))
    if not several and not devices.spmd:
        found.append(_how_to_record_ranks())
    if not devices.spmd and not devices.collectives:
        said = _NO_SPMD.format(_NOTHING_EXCHANGED if devices.graphs_read else _NOTHING_READ)
        found.append(parts.section("Exchange between devices", html.P(said, className="quiet")))
    notes = [*devices.notes, _PER_DEVICE] if devices.spmd and not devices.measured else devices.notes
    return [*found, *(parts.notice(text) for text in notes)]


def _side_by_side(view: RunView, ranks: Sequence[RankFacts], canvas: Canvas) -> html.Div:
    table = steps_by_rank(view.timelines.tables, ranks)
    words = [f"rank {rank.rank}" for rank in ranks]
    syncs = sync_strip(view.timelines.tables)
    lag = _figure(lag_figure(table, words, canvas), "How much longer each step took than on the fastest rank")
    most_ms = (table.max(axis=1) - table.min(axis=1)).max()
    said = f"The strongest colour: {numbers.duration(None if pd.isna(most_ms) else most_ms / 1e3)} behind."
    title = "How far ranks are behind the fastest, step by step"
    sections = [parts.section(title, html.P(said, className="quiet"), lag)]
    if syncs is not None and syncs.steps:
        sections.append(_sync_section(view, syncs, canvas))
    return html.Div(sections)


def _sync_section(view: RunView, syncs: SyncStrip, canvas: Canvas) -> html.Section:
    words = [f"rank {process.rank}" for process in syncs.ranks]
    figure = _figure(sync_figure(syncs, words, view.names, canvas), "The graph of each sync on each rank")
    last = syncs.first + len(syncs.steps) - 1
    which = f"{numbers.count(syncs.first)} to {numbers.count(last)} of {numbers.count(syncs.syncs)}"
    said = f"Syncs {which}; one colour a graph."
    parted = divergence(view)
    if parted is None:
        same = "All ranks cut the same graphs." if syncs.parts_at is None else ""
        return parts.section(
            "Graphs of the ranks, sync by sync", html.P(f"{same} {said}".strip(), className="quiet"), figure
        )
    advice = html.P(parted.advice, className="lead")
    place = html.P(["They part at ", parts.code_place(parted.site)], className="lead")
    return parts.section("Graphs of the ranks, sync by sync", place, advice, html.P(said, className="quiet"), figure)


def _figure(figure: go.Figure, label: str) -> html.Figure:
    graph = dcc.Graph(config=_CONFIG, figure=figure, className="steps-figure")
    return html.Figure(graph, **{"aria-label": label})


def _table_of_ranks(devices: DeviceFacts, address: Address) -> html.Section:
    columns = (
        "Rank", "device", "executions on each", "steps", "a step, median", "of it, host at work", "device busy",
        "device idle", "slowest in", "behind the fastest",
    )  # fmt: skip
    rows = [html.Tr([html.Td(cell) for cell in _rank_cells(rank, address)]) for rank in devices.ranks[:_LISTED_RANKS]]
    heading = html.Thead(html.Tr([html.Th(column, scope="col") for column in columns]))
    table = html.Div(html.Table([heading, html.Tbody(rows)], className="plain"), className="scrolls")
    left = len(devices.ranks) - _LISTED_RANKS
    more = (
        [html.P(f"and {numbers.plural(left, 'more rank')} in the report's JSON", className="quiet")] if left > 0 else []
    )
    return parts.section("Ranks and devices", table, *more)


def _rank_cells(rank: RankFacts, address: Address) -> list[Any]:
    search = replace(address.for_other_page(), process=rank.process).search
    name = dcc.Link(f"rank {numbers.count(rank.rank)}", href=f"{Route.TIMELINE}{search}")
    late = html.Span("▲ straggles", className="severity severity-warning") if rank.straggles else ""
    idle_s = None if rank.device_busy_s is None else rank.wall_s - rank.device_busy_s
    kind = rank.device or numbers.NOT_MEASURED
    device = kind if rank.devices is None else f"{numbers.count(rank.devices)} × {kind}"
    slowest = None if rank.slowest_steps is None else numbers.plural(rank.slowest_steps, "step")
    return [
        [name, " ", late, html.Span(parts.middle(rank.host or "", 32), className="quiet-line", title=rank.host)],
        parts.middle(device, 32),
        numbers.count(rank.executions_per_device),
        numbers.count(rank.steps),
        numbers.duration(rank.median_ms / 1e3),
        numbers.duration(rank.host_work_ms / 1e3),
        numbers.share(rank.device_busy_s, rank.wall_s, inferred=True),
        numbers.duration(idle_s, inferred=True),
        slowest or "—",
        "—" if rank.behind_s is None else numbers.duration(rank.behind_s),
    ]


def _table_of_devices(devices: DeviceFacts) -> html.Section:
    columns = ("Device", "ran programs", "of it", "idle", "executions")
    listed = devices.measured[:_LISTED_RANKS]
    rows = [html.Tr([html.Td(cell) for cell in _device_cells(one, len(devices.ranks) > 1)]) for one in listed]
    heading = html.Thead(html.Tr([html.Th(column, scope="col") for column in columns]))
    table = html.Div(html.Table([heading, html.Tbody(rows)], className="plain"), className="scrolls")
    said = (
        f"{devices.measured_summary} Measured, from the first program of a window to the end of its last. A program"
        " runs while it waits for other devices, too."
    )
    left = len(devices.measured) - len(listed)
    more = [html.P(f"and {numbers.plural(left, 'more device')} in devices.csv", className="quiet")] if left else []
    return parts.section("Each device, in device windows", html.P(said, className="quiet"), table, *more)


def _device_cells(one: MeasuredDevice, several: bool) -> list[Any]:
    return [
        f"rank {numbers.count(one.rank)}, {one.device}" if several else one.device,
        numbers.share(one.busy_s, one.measured_s),
        f"{numbers.duration(one.busy_s)} of {numbers.duration(one.measured_s)}",
        numbers.duration(one.measured_s - one.busy_s),
        numbers.count(one.executions),
    ]


def _how_to_record_ranks() -> html.Section:
    return parts.section(
        "One rank",
        html.P("This run has one rank, so there is nothing to compare it with. To record several:", className="lead"),
        parts.command(_RECORD_RANKS),
    )


PAGE = Page(Route.RANKS, "Ranks & devices", layout, register)
