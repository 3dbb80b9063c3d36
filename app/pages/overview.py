"""Page Overview: what limits the run, what it costs, step by step where the time went, and what costs most.

Owns the layout of this page. The sentences come from the report, the step figure from ``strip``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import Dash, Input, Output, State, dcc, html

from xla_insight.facts.report import Finding, Quality, Recompile, Report, Severity
from xla_insight.report import numbers

from .. import messages, parts, strip
from ..address import Address
from ..causes import named_entries
from ..data import Library
from ..ids import Overview, Route, Shell
from ..scope import shown
from .page import Page

_LEAST_SHOWN, _MOST_SHOWN = 3, 8
_WORTH_A_LOOK = 0.01
_WORDS = {"unknown": "recompile of unknown cause", "host_sync": "value read"}


def layout(_address: Address) -> html.Div:
    """The page, to be filled by its callbacks."""
    return html.Div(
        [
            html.Div(parts.skeleton(176), id=Overview.HEAD),
            strip.layout(Route.OVERVIEW),
            html.Div(parts.skeleton(240), id=Overview.COSTS),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""

    @app.callback(
        Output(Overview.HEAD, "children"),
        Output(Overview.COSTS, "children"),
        Input(Shell.SCOPE, "data"),
        State(Shell.LOCATION, "search"),
    )
    def fill(stored: Any, search: Any) -> tuple[Any, Any]:
        view = shown(library, stored).view
        return head(view.report, messages.notices(view)), costs(view.report, Address.parse(search))


def head(report: Report, notices: list[html.P]) -> list[Any]:
    """The verdict, what it would save, the key figures, and what qualifies them."""
    verdict = report.verdict
    saves = []
    if verdict.saves_s:
        share = numbers.share(verdict.saves_s, report.time.wall_s)
        text = f"Removing it saves at most {numbers.duration(verdict.saves_s)}, {share} of this run."
        saves = [html.P(text, className="lead")]
    return [
        parts.headline(verdict.summary),
        *saves,
        *shapes(report),
        key_figures(report),
        *notices,
    ]


def shapes(report: Report) -> list[html.P]:
    """What padding to fixed sizes would save; nothing where it saves nothing."""
    if report.shapes is None or report.shapes.plan is None:
        return []
    return [html.P(parts.unbroken(report.shapes.summary), className="lead")]


def key_figures(report: Report) -> html.Dl:
    """The six figures that describe any run."""
    steps, graphs, time = report.steps, report.graphs, report.time
    inferred = time.quality is Quality.INFERRED
    reads = [finding for finding in report.findings if finding.id == "host_sync"]
    waited = [finding.cost_s for finding in reads if finding.cost_s is not None]
    wall = numbers.duration(time.wall_s)
    busy = numbers.share(time.device_busy_s, time.wall_s, inferred=inferred)
    return parts.key_figures(
        [
            parts.key_figure(
                "wall time", wall, numbers.plural(steps.count, "step"), "From the start to the end of recording"
            ),
            parts.key_figure(
                "step, median",
                numbers.duration(_seconds(steps.median_ms), inferred=steps.inferred),
                f"95 % within {numbers.duration(_seconds(steps.p95_ms))}" if steps.p95_ms is not None else "",
                f"Steps are marked by {steps.source}" if steps.source else "No step was marked",
            ),
            parts.key_figure(
                "compiles",
                numbers.count(graphs.compiles),
                numbers.duration(graphs.compile_s),
                f"{numbers.plural(graphs.distinct, 'distinct graph')}, {numbers.count(graphs.executions)} executions",
            ),
            parts.key_figure(
                "device busy",
                busy,
                "" if time.device_busy_s is None else numbers.duration(time.device_busy_s),
                _hint(time.device_busy_s, "no execution times were recorded", inferred),
            ),
            parts.key_figure(
                "overlap",
                numbers.percent(time.overlap_pct, inferred=inferred),
                "of host work behind the device" if time.overlap_pct is not None else "not measured",
                _hint(time.overlap_pct, "it was not recorded when the device was busy", inferred),
            ),
            parts.key_figure(
                "value reads",
                numbers.count(sum(finding.count for finding in reads)),
                numbers.duration(sum(waited)) if waited else "",
                "A tensor's value read in Python makes the host wait for the device",
            ),
        ]
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


def _hint(value: float | None, why_absent: str, inferred: bool) -> str:
    if value is None:
        return f"Not measured: {why_absent}"
    return parts.INFERRED_NOTE if inferred else "Measured"


def costs(report: Report, address: Address | None = None) -> html.Section:
    """What costs most: recompiles and findings, dearest first."""
    entries: list[Recompile | Finding] = [*report.recompiles, *report.findings]
    ranked = sorted(entries, key=_rank)
    if not ranked:
        return parts.section("What costs most", html.P("Nothing was found that costs time.", className="lead"))
    links = _links(report, address or Address())
    rows = [_cost_row(place, entry, report.time.wall_s, links.get(id(entry))) for place, entry in enumerate(ranked, 1)]
    shown = _shown_at_once(ranked, report.time.wall_s)
    columns = ("", "What", "Cost", "Share", "Count", "Where", "What to change", "Severity")
    heading = html.Thead(html.Tr([html.Th(column, scope="col") for column in columns]))
    content = [html.Table([heading, html.Tbody(rows[:shown])], className="costs")]
    if rows[shown:]:
        rest = html.Table(html.Tbody(rows[shown:]), className="costs")
        content.append(html.Details([html.Summary(f"{numbers.count(len(rows) - shown)} more, each cheaper"), rest]))
    return parts.section("What costs most", *content)


def _links(report: Report, address: Address) -> dict[int, str]:
    """Where each recompile is explained, by identity of its entry."""
    return {
        id(entry): f"{Route.RECOMPILATIONS}{replace(address.for_other_page(), cause=name, graph=None).search}"
        for name, entry in named_entries(report).items()
    }


def _shown_at_once(ranked: Sequence[Recompile | Finding], wall_s: float) -> int:
    """How many of the dearest to show unfolded: all that take a share worth a look, within what is read at a glance."""
    worth = sum(1 for entry in ranked if (_cost(entry) or 0.0) >= _WORTH_A_LOOK * wall_s or _cost(entry) is None)
    return min(len(ranked), max(_LEAST_SHOWN, min(worth, _MOST_SHOWN)))


def _rank(entry: Recompile | Finding) -> tuple[bool, float, int]:
    """Dearest first; what is critical without a known cost (training that stopped early) before all else."""
    cost = _cost(entry)
    return not (cost is None and entry.severity is Severity.CRITICAL), -(cost or 0.0), -entry.count


def _cost(entry: Recompile | Finding) -> float | None:
    return entry.compile_s if isinstance(entry, Recompile) else entry.cost_s


def _cost_row(place: int, entry: Recompile | Finding, wall_s: float, link: str | None = None) -> html.Tr:
    cost = _cost(entry)
    name = entry.cause if isinstance(entry, Recompile) else entry.id
    expected = isinstance(entry, Recompile) and entry.expected
    word = f"{_WORDS.get(name) or name.replace('_', ' ')}{', expected' if expected else ''}"
    unit = "compile" if isinstance(entry, Recompile) else "time"
    where = entry.user_site or entry.site
    return html.Tr(
        [
            html.Td(str(place), className="rank"),
            html.Td([_name(word, link), html.Span(entry.summary, className="summary")]),
            html.Td(numbers.duration(cost), className="number"),
            html.Td(numbers.share(cost, wall_s), className="number"),
            html.Td(numbers.plural(entry.count, unit), className="number"),
            html.Td(_where(entry, where)),
            html.Td(parts.with_code(entry.advice), className="advice"),
            html.Td(parts.severity(entry.severity)),
        ],
        className="expected" if expected else None,
    )


def _name(word: str, link: str | None) -> html.Strong:
    """The name of an entry; one that is explained in detail elsewhere leads there."""
    return html.Strong(word if link is None else dcc.Link(word, href=link, title="Why it was compiled: now and before"))


def _where(entry: Recompile | Finding, where: Any) -> list[Any]:
    """The user's line first, and the library's line when the trouble is raised there."""
    lines = [parts.code_place(where)]
    if where is not None and where.source.strip():
        lines.append(parts.long_text(where.source.strip(), 40, "source-line"))
    if entry.site is not None and entry.site != where:
        lines.append(html.Span(["in ", parts.code_place(entry.site)], className="within"))
    return lines


PAGE = Page(Route.OVERVIEW, "Overview", layout, register)
