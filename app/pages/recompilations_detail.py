"""One cause in detail: the sentence, the line, the change to make, and both graphs beside each other.

Owns these parts of the page Recompilations. The sentences come from the report and from ``analysis.explain``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import dcc, html

from xla_insight.analysis.explain.aligned import Fold
from xla_insight.analysis.explain.changes import code_change
from xla_insight.analysis.explain.explanation import (
    Comparison,
    Explanation,
    RootFacts,
    group_sentences,
    move_sentences,
    rest_sentence,
    root_facts,
    without_indent,
)
from xla_insight.facts.report import Member, Recompile, Report, ShapeFacts, Site
from xla_insight.report import numbers
from xla_insight.report.figures_around import around_root
from xla_insight.report.figures_colours import Scheme

from .. import parts
from ..address import Address
from ..causes import Chosen, cause_word
from ..data import RunView
from ..ids import Route
from ..listing import listing

_STEPS_LISTED = 12


def cause(chosen: Chosen) -> list[Any]:
    """What a reader needs in the first five seconds: the cause and the sentence; that of the compile shown, too, when
    the first is about another one."""
    entry, member = chosen.entry, chosen.member
    head = html.Div([html.H3(cause_word(entry.cause), className="cause-word"), _mark(entry)], className="detail-head")
    told = [head, html.P(parts.unbroken(entry.summary), className="cause-summary")]
    if member is not None and member.summary and member.root != entry.root:
        which = "This compile" if member.step is None else f"Step {numbers.count(member.step)}"
        told.append(html.P(parts.unbroken(f"{which}, shown here: {member.summary}"), className="cause-own"))
    return told


def root(view: RunView, entry: Recompile, explained: Explanation | None) -> list[Any]:
    """Now and before, and the line."""
    told = root_facts(explained) if explained is not None else None
    return [*_versions(told), *_places(view, entry, told)]


def change(report: Report, chosen: Chosen, address: Address) -> list[Any]:
    """What to change, and the figures of the cause."""
    return [*_advice(chosen.entry, report.shapes), _facts(report, chosen, address)]


def _mark(entry: Recompile) -> Any:
    return html.Span("expected", className="quiet") if entry.expected else parts.severity(entry.severity)


def _versions(root: RootFacts | None) -> list[Any]:
    """Now and before, only what differs."""
    if root is None or not (root.now or root.before):
        return []
    name = " ".join(filter(None, (root.input_name, root.said)))
    lines = [
        html.Div([html.Dt(word), html.Dd(html.Code(text or "nothing"))], className=f"version version-{word}")
        for word, text in (("now", root.now), ("before", root.before))
    ]
    return [html.Dl([html.Div([html.Dt("root"), html.Dd(html.Code(name))], className="version"), *lines],
                    className="versions")]  # fmt: skip


def _places(view: RunView, entry: Recompile, root: RootFacts | None) -> list[Any]:
    """The line to change with what stands around it, then where the graph was cut when that is another line."""
    named: list[tuple[str, Site, bool]] = []
    if root is not None and root.site is not None:
        named.append(("root", root.site, root.inferred))
    named += [(word, site, False) for word, site in (("cut at", entry.site), ("your line", entry.user_site)) if site]
    told: list[Any] = []
    seen: set[tuple[str, int]] = set()
    for word, site, inferred in named:
        if (site.file, site.line) not in seen:
            seen.add((site.file, site.line))
            told.append(_snippet(view, word, site, inferred=inferred, around=not told))
    return [html.Div(told, className="codes")] if told else []


def _snippet(view: RunView, word: str, site: Site, *, inferred: bool, around: bool) -> html.Div:
    """A named line; ``around``: with the lines before and behind it."""
    known = [line for line in view.snippet(site.file, site.line) if around or line[0] == site.line]
    lines = known or ([(site.line, site.source)] if site.source.strip() else [])
    lines = without_indent(lines)
    mark = html.Span("~ the line of a relative", className="quiet") if inferred else None
    head = html.Div(
        [html.Span(word, className="quiet"), parts.code_place(site), html.Span(site.function, className="quiet"), mark]
    )
    rows = [
        html.Div(
            [html.Span(str(number), className="code-number"), html.Span(text or " ")],
            className="code-line code-here" if number == site.line else "code-line",
        )
        for number, text in lines
    ]
    return html.Div([head, html.Pre(rows) if rows else None], className="code")


def _advice(entry: Recompile, shapes: ShapeFacts | None) -> list[Any]:
    if not entry.advice:
        return []
    code = code_change(entry, shapes)
    return [
        html.Div(
            [
                html.H4("What to change"),
                html.P(parts.with_code(parts.unbroken(entry.advice)), className="advice"),
                parts.command(code) if code else None,
            ],
            className="change",
        )
    ]


def _facts(report: Report, chosen: Chosen, address: Address) -> html.Dl:
    entry = chosen.entry
    wall = report.time.wall_s * max(1, report.run.processes)
    facts = [
        ("compiles", numbers.count(entry.count)),
        ("compile time", f"{numbers.duration(entry.compile_s)}, {numbers.share(entry.compile_s, wall)}"),
        ("cut by", entry.trigger.replace("_", " ")),
        ("steps", _steps(entry.steps)),
    ]
    shown = [html.Div([html.Dt(word), html.Dd(text)]) for word, text in facts if text]
    if chosen.member is not None and chosen.member.graph is not None:
        graph = chosen.member.graph
        target = replace(address.for_other_page(), graph=graph, cause=chosen.name).search
        link = dcc.Link(html.Code(numbers.short_hash(graph)), href=f"{Route.GRAPHS}{target}", title=graph)
        shown.append(html.Div([html.Dt("graph"), html.Dd(link)]))
    return html.Dl(shown, className="facts")


def _steps(steps: Sequence[int]) -> str:
    listed = ", ".join(numbers.count(step) for step in steps[:_STEPS_LISTED])
    more = len(steps) - _STEPS_LISTED
    return f"{listed} and {numbers.count(more)} more" if more > 0 else listed


def difference(explained: Explanation | None, width_px: int, scheme: Scheme) -> list[Any]:
    """Both graphs beside each other, and what surrounds the root; a sentence when they cannot be shown."""
    if explained is None:
        return []
    member, comparison = explained.target.member, explained.comparison
    if comparison is None:
        return [parts.section("Now and before", html.P(explained.missing, className="lead"))]
    return [
        parts.section("Now and before", html.P(_which(member, comparison), className="lead"), *_rest(comparison),
                      _rows(comparison)),
        *_around(comparison, width_px, scheme),
    ]  # fmt: skip


def _which(member: Member, comparison: Comparison) -> list[Any]:
    step = "" if member.step is None else f" of step {numbers.count(member.step)}"
    return [
        "Graph ", html.Code(numbers.short_hash(member.graph), title=member.graph or ""),
        f"{step} beside its nearest earlier relative ",
        html.Code(numbers.short_hash(comparison.against), title=comparison.against), ".",
    ]  # fmt: skip


def _rest(comparison: Comparison) -> list[Any]:
    details = [*move_sentences(comparison), *group_sentences(comparison)]
    told = html.Ul([html.Li(text) for text in details], className="moves") if details else None
    return [html.P(rest_sentence(comparison), className="rest"), told]


def _rows(comparison: Comparison) -> html.Div:
    blocks = comparison.aligned.blocks()
    merged = comparison.aligned.merged
    notes = []
    if any(isinstance(block, Fold) and block.holds_differences for block in blocks):
        notes.append("Not all differences are unfolded; open a stretch to see the rest.")
    if any(merged):
        notes.append(
            f"Left out: {numbers.count(merged[0])} instructions before and {numbers.count(merged[1])} now that repeat"
            " another one or that nothing uses."
        )
    return html.Div([listing(blocks), html.P(" ".join(notes), className="listing-note") if notes else None])


def _around(comparison: Comparison, width_px: int, scheme: Scheme) -> list[Any]:
    if comparison.around is None:
        return []
    figure = dcc.Graph(
        figure=around_root(comparison.around, width_px, scheme), config={"displayModeBar": False, "responsive": False}
    )
    left_out = comparison.around.left_out
    more = f" {numbers.plural(left_out, 'neighbour')} more not drawn." if left_out else ""
    words = "Data flows from left to right. Dotted: only before. Framed in blue: only now, or the root." + more
    return [
        parts.section(
            "Around the root",
            html.Div(figure, className="around", **{"aria-label": "The root with its inputs and users"}),
            html.P(words, className="listing-note"),
        )
    ]
