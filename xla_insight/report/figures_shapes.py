"""Figures of one dynamic dimension: how often each size came, where buckets end, and the sizes in order of time.

Owns what is drawn where and what a pointer reads. Sizes beyond what the screen can show are put together; a column of
the time strip spans the smallest to the largest size in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from xla_insight.report import figures_hover, numbers
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_colours import Colours, blend, colours

Integers = npt.NDArray[np.int64]

MOST_BARS = 160
_HISTOGRAM_PX, _STRIP_PX, _GAP_PX, _TOP_PX, _BOTTOM_PX = 140, 96, 56, 28, 44
_LABEL_PX = 34
"""Room that the label of a bucket end needs."""


def size_figure(sizes: Integers, ends: Sequence[int], canvas: Canvas) -> go.Figure:
    """Histogram of ``sizes`` (one a batch, in order) with bucket ``ends`` above their sizes over time."""
    chosen = colours(canvas.scheme)
    span = _span(sizes, ends)
    figure = go.Figure(layout=_layout(canvas, chosen, span, len(sizes)))
    figure.add_trace(_histogram(sizes, ends, span, chosen))
    figure.add_trace(_over_time(sizes, canvas.columns, chosen))
    _draw_ends(figure, ends, span, canvas, chosen)
    return figure


def _span(sizes: Integers, ends: Sequence[int]) -> tuple[float, float]:
    low, high = float(sizes.min()), float(max([int(sizes.max()), *ends]))
    room = max(0.6 * _bar_width(np.unique(sizes)), 0.02 * (high - low))
    return low - room, high + room


def _bar_width(values: Integers) -> float:
    """The width of a bar in sizes: their smallest distance, or a share of them all when they are too many."""
    if len(values) < 2:
        return 1.0
    return max(float(np.diff(values).min()), float(values[-1] - values[0]) / MOST_BARS)


def _layout(canvas: Canvas, chosen: Colours, span: tuple[float, float], batches: int) -> go.Layout:
    plot = _HISTOGRAM_PX + _GAP_PX + _STRIP_PX

    def title(word: str, standoff: int) -> dict[str, Any]:
        return {"text": word, "standoff": standoff, "font": {"size": 12}}

    axis: dict[str, Any] = {
        "fixedrange": True,
        "zeroline": False,
        "showgrid": False,
        "ticks": "",
        "tickfont": {"color": chosen.muted},
        "tickformat": ",d",
    }
    line = {**axis, "showgrid": True, "gridcolor": chosen.hairline, "nticks": 4, "rangemode": "tozero"}
    return go.Layout(
        template="none",
        height=plot + _TOP_PX + _BOTTOM_PX,
        margin={"l": canvas.left_px, "r": canvas.right_px, "t": _TOP_PX, "b": _BOTTOM_PX},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": figures_hover.FONT, "size": 12, "color": chosen.muted},
        separators="." + numbers.THIN_SPACE,
        showlegend=False,
        hovermode="closest",
        hoverlabel=figures_hover.label(chosen),
        bargap=0.1,
        xaxis={**axis, "range": span, "anchor": "y", "title": title("size", 4)},
        yaxis={**line, "domain": [1 - _HISTOGRAM_PX / plot, 1.0], "title": title("batches", 8)},
        xaxis2={**axis, "anchor": "y2", "range": [-0.5, batches - 0.5], "title": title("batch", 6)},
        yaxis2={
            **line,
            "domain": [0.0, _STRIP_PX / plot],
            "rangemode": "normal",
            "range": span,
            "nticks": 3,
            "title": title("size", 8),
        },
    )


def _histogram(sizes: Integers, ends: Sequence[int], span: tuple[float, float], chosen: Colours) -> go.Bar:
    values, counts = np.unique(sizes, return_counts=True)
    width = _bar_width(values)
    if len(values) > 1 and width > np.diff(values).min():
        edges = np.linspace(float(values[0]), float(values[-1]) + 1, MOST_BARS + 1)
        place = np.minimum(np.digitize(values, edges), MOST_BARS) - 1
        kept = np.unique(place)
        counts = np.bincount(place, counts)[kept].astype(np.int64)
        low, high = np.ceil(edges[kept]), np.ceil(edges[kept + 1]) - 1
        words = [f"{_number(one)} to {_number(other)}" for one, other in zip(low, high, strict=True)]
        middles, width = (edges[kept] + edges[kept + 1]) / 2, float(edges[1] - edges[0])
    else:
        middles, words = values.astype(np.float64), [_number(value) for value in values]
    whole = int(counts.sum())
    limits = np.array(sorted(ends))
    texts = []
    for middle, word, count in zip(middles, words, counts.tolist(), strict=True):
        padded = limits[limits >= middle - width / 2][:1]
        to = f"<br>padded to {_number(padded[0])}" if len(padded) else ""
        texts.append(f"<b>size {word}</b><br>{numbers.count(count)} batches, {numbers.share(count, whole)}{to}")
    least = (span[1] - span[0]) / 400
    return go.Bar(
        x=middles,
        y=counts,
        width=np.full(len(middles), max(width * 0.86, least)),
        marker={"color": chosen.usual_graph, "line": {"width": 0}},
        hovertext=texts,
        hoverinfo="text",
    )


def _over_time(sizes: Integers, columns: int, chosen: Colours) -> go.Bar:
    """One thin bar a column, from the smallest to the largest size in it."""
    each = -(-len(sizes) // columns)
    begin = np.arange(0, len(sizes), each)
    low, high = np.minimum.reduceat(sizes, begin), np.maximum.reduceat(sizes, begin)
    last = np.minimum(begin + each, len(sizes)) - 1
    thick = max(1.0, 0.03 * float(sizes.max() - sizes.min()))
    texts = []
    for first, end, small, large in zip(begin.tolist(), last.tolist(), low.tolist(), high.tolist(), strict=True):
        which = f"batch {_number(first)}" if first == end else f"batches {_number(first)} to {_number(end)}"
        texts.append(f"<b>{which}</b><br>size {_number(small)}{f' to {_number(large)}' if large > small else ''}")
    return go.Bar(
        x=(begin + last) / 2,
        y=high - low + thick,
        base=low - thick / 2,
        width=np.full(len(begin), float(each)),
        marker={"color": chosen.deviants[1], "line": {"width": 0}},
        hovertext=texts,
        hoverinfo="text",
        xaxis="x2",
        yaxis="y2",
    )


def _draw_ends(
    figure: go.Figure, ends: Sequence[int], span: tuple[float, float], canvas: Canvas, chosen: Colours
) -> None:
    """A line at each bucket end that can be dragged, labelled where there is room; a faint one across the strip."""
    pixel = (span[1] - span[0]) / max(1, canvas.columns)
    shapes: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    strong, faint = (
        {"color": chosen.accent, "width": 2},
        {"color": blend(chosen.accent, chosen.paper, 0.45), "width": 1},
    )
    upright = {"type": "line", "y0": 0, "y1": 1, "xref": "x", "yref": "y domain", "editable": True, "line": strong}
    # Below, since every line above can be dragged in a figure whose shapes can be.
    across = {"type": "line", "x0": 0, "x1": 1, "xref": "x2 domain", "yref": "y2", "line": faint, "layer": "below"}
    label = {"y": 1, "xref": "x", "yref": "y domain", "yanchor": "bottom", "yshift": 2, "showarrow": False}
    for end in sorted(ends, reverse=True)[:MOST_BARS]:
        shapes += [{**upright, "x0": end, "x1": end}, {**across, "y0": end, "y1": end}]
        if not labels or labels[-1]["x"] - end > _LABEL_PX * pixel:
            labels.append({**label, "x": end, "text": _number(end), "font": {"color": chosen.accent, "size": 12}})
    # All at once: added one by one, each would be checked against all before it.
    figure.update_layout(shapes=shapes, annotations=labels)


def moved_ends(layout: dict[str, Any], change: dict[str, Any]) -> tuple[int, ...] | None:
    """The bucket ends after a line of `size_figure` was dragged; None when ``change`` is no such move."""
    ends = bucket_lines(layout)
    known = {number: float(end) for number, stood in ends.items() if (end := _moved(change, number, stood)) is not None}
    return tuple(sorted({max(1, round(end)) for end in (ends | known).values()})) if known else None


def _moved(change: dict[str, Any], number: int, stood: float) -> float | None:
    """Where a line was dragged to; a hand near one of its ends moves that end alone."""
    found = [end for key in ("x0", "x1") if isinstance(end := change.get(f"shapes[{number}].{key}"), int | float)]
    return max(found, key=lambda end: abs(end - stood), default=None)


def bucket_lines(layout: dict[str, Any]) -> dict[int, float]:
    """Number of each shape of a figure that is the line of a bucket end -> where it stands."""
    shapes = layout.get("shapes") or []
    return {number: float(shape["x0"]) for number, shape in enumerate(shapes) if shape.get("editable")}


def _number(value: float) -> str:
    return numbers.count(float(value))
