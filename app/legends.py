"""What the colours of the step figure mean, and how much there is of each.

Owns the two legends: graphs with their steps (links that select a graph), and host states with their time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import dcc, html

from xla_insight.report import numbers
from xla_insight.report.figures import HOST_WORDS, STACK_ORDER
from xla_insight.report.figures_colours import Scheme, colours, graph_colour

from . import parts
from .address import Address
from .ids import Route
from .scope import Shown

_LEGEND_GRAPHS = 7


def graph_legend(shown: Shown, scheme: Scheme, address: Address, path: str) -> html.Div:
    """The most frequent graphs among the shown steps, each a link that points at its steps."""
    counted = shown.rows["graph"].value_counts()
    rank_of = {name: rank for rank, name in enumerate(shown.view.names)}
    ordered = sorted((rank_of[str(name)], str(name), int(n)) for name, n in counted.items())
    named = [entry for place, entry in enumerate(ordered) if place < _LEGEND_GRAPHS or entry[1] == address.graph]
    links: list[Any] = [_graph_link(*entry, scheme, address, path) for entry in named]
    if len(ordered) > len(named):
        rest = replace(address.for_other_page(), graph=None).search
        more = numbers.count(len(ordered) - len(named))
        links.append(dcc.Link(f"{more} more", href=f"{Route.GRAPHS}{rest}", className="legend-item legend-more"))
    return _legend("graph of a step", links)


def _graph_link(rank: int, name: str, steps: int, scheme: Scheme, address: Address, path: str) -> dcc.Link:
    chosen = address.graph == name
    target = replace(address, graph=None if chosen else name)
    return dcc.Link(
        [
            parts.swatch(graph_colour(rank, scheme)),
            html.Code(numbers.short_hash(name)),
            html.Span(numbers.plural(steps, "step"), className="legend-note"),
        ],
        href=f"{path}{target.search or '?'}",
        className="legend-item chosen" if chosen else "legend-item",
        title="Show all steps alike again" if chosen else f"Point at the steps of graph {name}",
    )


def state_legend(shown: Shown, scheme: Scheme) -> html.Div:
    """Where the time of the shown steps went: each host state with its seconds and share, and the device below it."""
    rows = shown.rows
    whole = float(rows["duration_ns"].sum())
    palette = colours(scheme)
    totals = {state: float(rows[f"host_{state.value}_ns"].sum()) for state in STACK_ORDER}
    items = [
        _state_item(HOST_WORDS[state], palette.host[state], total, whole, False)
        for state, total in totals.items()
        if total > 0
    ]
    busy = rows["device_busy_ns"]
    if busy.notna().any():
        items.append(_state_item("device busy", palette.device_busy, float(busy.sum()), whole, True))
    word = "time of these steps" if shown.steps else "time of all steps"
    return _legend(word, items)


def share_legend(word: str, items: Sequence[tuple[str, str, float]], whole_ns: float, *, inferred: bool) -> html.Div:
    """A legend of (word, colour, ns), each with its time and its share of ``whole_ns``."""
    return _legend(word, [_state_item(name, colour, ns, whole_ns, inferred) for name, colour, ns in items])


def _legend(word: str, items: list[Any]) -> html.Div:
    """The items behind their word; nothing without items."""
    if not items:
        return html.Div()
    return html.Div(
        [html.Span(word, className="legend-word"), html.Div(items, className="legend-items")], className="legend"
    )


def _state_item(word: str, colour: str, total: float, whole: float, inferred: bool) -> html.Span:
    note = f"{numbers.nanoseconds(total, inferred=inferred)}, {numbers.share(total, whole, inferred=inferred)}"
    return html.Span([parts.swatch(colour), word, html.Span(note, className="legend-note")], className="legend-item")
