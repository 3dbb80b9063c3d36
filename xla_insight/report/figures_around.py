"""What surrounds the root as a figure: one box an instruction, data flowing from left to right, both graphs in one.

Owns places and looks of boxes and lines. Takes nodes and edges from ``analysis.explain.around`` and colours from
``figures_colours``. Names come from a recording and are escaped, because plotly reads markup.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import plotly.graph_objects as go

from xla_insight.analysis.explain.aligned import Mark
from xla_insight.analysis.explain.around import Edge, Neighbourhood, Node
from xla_insight.analysis.explain.notation import shortened
from xla_insight.facts import numbers
from xla_insight.report import figures_hover
from xla_insight.report.figures_colours import Colours, Scheme, blend, colours

MONO = "JetBrains Mono, ui-monospace, SF Mono, Menlo, Consolas, monospace"
LEAST_WIDTH_PX = 960
_BOX_PX, _ROW_PX, _GAP_PX, _TOP_PX = 44, 60, 64, 28
_CHAR_PX = 7.3
_BOW_PX = 28
_HEADS = {-2: "its inputs' inputs", -1: "inputs", 0: "root", 1: "users", 2: "users of those"}


@dataclass(frozen=True, slots=True)
class _Plan:
    """Pixels: where each column begins, how wide a box is, and how high the figure."""

    width_px: int
    height_px: int
    box_px: float
    left_of: dict[int, float]
    rows: dict[int, int]
    most_rows: int

    def middle(self, node: Node) -> tuple[float, float]:
        """The centre of a box; columns are centred, y grows downwards."""
        free = (self.most_rows - self.rows[node.hop]) * _ROW_PX / 2
        return self.left_of[node.hop] + self.box_px / 2, _TOP_PX + free + node.slot * _ROW_PX + _ROW_PX / 2


def around_root(found: Neighbourhood, width_px: int, scheme: Scheme) -> go.Figure:
    """The figure, at least `LEAST_WIDTH_PX` wide (a narrower page scrolls it)."""
    chosen = colours(scheme)
    plan = _plan(found, max(width_px, LEAST_WIDTH_PX))
    nodes = {node.row: node for node in found.nodes}
    figure = go.Figure(layout=_layout(plan, chosen))
    for in_before, in_after, colour, dash in (
        (True, True, blend(chosen.muted, chosen.paper, 0.55), "solid"),
        (True, False, before_colour(chosen), "dot"),
        (False, True, now_colour(chosen), "solid"),
    ):
        edges = [e for e in found.edges if (e.in_before, e.in_after) == (in_before, in_after)]
        if edges:
            figure.add_trace(_lines(edges, nodes, plan, colour, dash))
    figure.add_trace(_probe(found.nodes, plan))
    figure.update_layout(
        shapes=[_box(node, plan, chosen) for node in found.nodes],
        annotations=[*_heads(plan, chosen), *(text for node in found.nodes for text in _texts(node, plan, chosen))],
    )
    return figure


def now_colour(chosen: Colours) -> str:
    """What only the later graph has."""
    return chosen.accent


def before_colour(chosen: Colours) -> str:
    """What only the earlier graph has."""
    return "#b34f00" if chosen.paper == colours(Scheme.LIGHT).paper else "#f08a3c"


def _plan(found: Neighbourhood, width_px: int) -> _Plan:
    hops = sorted({node.hop for node in found.nodes})
    rows = {hop: sum(node.hop == hop for node in found.nodes) for hop in hops}
    most = max(rows.values())
    box = min(320.0, (width_px - _GAP_PX * len(hops)) / len(hops))
    left = {hop: 1 + place * (box + _GAP_PX) for place, hop in enumerate(hops)}
    return _Plan(width_px, _TOP_PX + most * _ROW_PX + 4, box, left, rows, most)


def _layout(plan: _Plan, chosen: Colours) -> go.Layout:
    axis = {"visible": False, "fixedrange": True}
    return go.Layout(
        template="none",
        width=plan.width_px,
        height=plan.height_px,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        dragmode=False,
        hovermode="closest",
        hoverlabel=figures_hover.label(chosen),
        xaxis={**axis, "range": [0, plan.width_px]},
        yaxis={**axis, "range": [plan.height_px, 0]},
    )


def _lines(edges: Iterable[Edge], nodes: dict[int, Node], plan: _Plan, colour: str, dash: str) -> go.Scatter:
    """Curves from the right side of a box to the left side of another, all in one trace."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for edge in edges:
        (x0, y0), (x1, y1) = plan.middle(nodes[edge.source]), plan.middle(nodes[edge.target])
        start, end = (x0 + plan.box_px / 2, y0), (x1 - plan.box_px / 2, y1)
        end = end if end[0] > start[0] else (start[0], y1)
        for x, y in _curve(start, end):
            xs.append(x)
            ys.append(y)
        xs.append(None)
        ys.append(None)
    line = {"color": colour, "width": 1.5, "dash": dash}
    return go.Scatter(x=xs, y=ys, mode="lines", line=line, hoverinfo="skip")


def _curve(start: tuple[float, float], end: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """A smooth step to the right; within one column or backwards, a bow around the boxes' right sides."""
    forward = end[0] > start[0]
    for step in range(17):
        t = step / 16
        smooth = 3 * t * t - 2 * t**3
        x = start[0] + t * (end[0] - start[0]) if forward else start[0] + _BOW_PX * 4 * t * (1 - t)
        yield x, start[1] + smooth * (end[1] - start[1])


def _box(node: Node, plan: _Plan, chosen: Colours) -> dict[str, object]:
    x, y = plan.middle(node)
    edge, fill, dash = _look(node, chosen)
    return {
        "type": "rect", "layer": "above",
        "x0": x - plan.box_px / 2, "x1": x + plan.box_px / 2, "y0": y - _BOX_PX / 2, "y1": y + _BOX_PX / 2,
        "line": {"color": edge, "width": 2 if node.mark is Mark.ROOT else 1, "dash": dash}, "fillcolor": fill,
    }  # fmt: skip


def _look(node: Node, chosen: Colours) -> tuple[str, str, str]:
    """(outline, fill, dash) of a box."""
    if not node.after:
        return before_colour(chosen), chosen.paper, "dot"
    if node.mark is Mark.ROOT:
        return chosen.accent, blend(chosen.accent, chosen.paper, 0.12), "solid"
    if not node.before:
        return now_colour(chosen), chosen.paper, "solid"
    if node.mark is Mark.EQUAL:
        return chosen.hairline, chosen.paper, "solid"
    return blend(chosen.muted, chosen.paper, 0.7), chosen.paper, "solid"


def _texts(node: Node, plan: _Plan, chosen: Colours) -> list[dict[str, object]]:
    x, y = plan.middle(node)
    most = int((plan.box_px - 20) / _CHAR_PX)
    quiet = node.mark is Mark.EQUAL
    lines = (
        (-9, f"<b>{_escaped(_name(node), most)}</b>", chosen.muted if quiet else chosen.ink),
        (9, _escaped(_types(node, most), most), chosen.muted),
    )
    common = {"showarrow": False, "xanchor": "left", "yanchor": "middle", "x": x - plan.box_px / 2 + 10}
    return [
        {**common, "y": y + offset, "text": text, "font": {"family": MONO, "size": 12, "color": colour}}
        for offset, text, colour in lines
    ]  # fmt: skip


def _name(node: Node) -> str:
    return f"{node.opcode}  %{node.row}"


def _types(node: Node, most: int) -> str:
    if not node.before or not node.after or node.before == node.after:
        word = "" if node.before and node.after else "now " if node.after else "before "
        return word + (node.after or node.before)
    both = f"{node.before} → {node.after}"
    if len(both) <= most:
        return both
    half = max(8, (most - 3) // 2)
    return f"{shortened(node.before, half)} → {shortened(node.after, half)}"


def _heads(plan: _Plan, chosen: Colours) -> Iterator[dict[str, object]]:
    for hop, left in plan.left_of.items():
        yield {
            "showarrow": False, "xanchor": "left", "yanchor": "middle", "x": left, "y": 10, "text": _HEADS[hop],
            "font": {"family": figures_hover.FONT, "size": 12, "color": chosen.muted},
        }  # fmt: skip


def _probe(nodes: Iterable[Node], plan: _Plan) -> go.Scatter:
    """Invisible points that tell a pointer more about a box."""
    points = [(plan.middle(node), _hover(node)) for node in nodes]
    return go.Scatter(
        x=[point[0] for point, _ in points], y=[point[1] for point, _ in points], mode="markers",
        marker={"size": _BOX_PX, "opacity": 0}, hovertext=[text for _, text in points], hoverinfo="text",
    )  # fmt: skip


def _hover(node: Node) -> str:
    told = [f"<b>{_escaped(_name(node), 60)}</b>"]
    if node.operation:
        told.append(_escaped(node.operation, 60))
    if node.before != node.after:
        told += [
            f"{word} {_escaped(text, 72)}" for word, text in (("now", node.after), ("before", node.before)) if text
        ]
    if node.site is not None:
        told.append(_escaped(numbers.place(node.site.file, node.site.line), 72))
    return "<br>".join(told)


def _escaped(text: str, most: int) -> str:
    return html.escape(shortened(text, max(most, 8)), quote=False)
