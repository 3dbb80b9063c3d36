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
    low, high = float(sizes.min()), float(max(sizes.max(), *ends)) if ends else float(sizes.max())
    room = max(0.5, 0.02 * (high - low))
    return max(0.0, low - 1.5 * room), high + 1.5 * room


def _layout(canvas: Canvas, chosen: Colours, span: tuple[float, float], batches: int) -> go.Layout:
    plot = _HISTOGRAM_PX + _GAP_PX + _STRIP_PX
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
        xaxis={**axis, "range": span, "anchor": "y", "title": {"text": "size", "standoff": 4}},
        yaxis={**line, "domain": [1 - _HISTOGRAM_PX / plot, 1.0], "title": {"text": "batches", "standoff": 8}},
        xaxis2={**axis, "anchor": "y2", "range": [-0.5, batches - 0.5], "title": {"text": "batch", "standoff": 6}},
        yaxis2={
            **line,
            "domain": [0.0, _STRIP_PX / plot],
            "rangemode": "normal",
            "range": span,
            "nticks": 3,
            "title": {"text": "size", "standoff": 8},
        },
    )


def _histogram(sizes: Integers, ends: Sequence[int], span: tuple[float, float], chosen: Colours) -> go.Bar:
    values, counts = np.unique(sizes, return_counts=True)
    width = float(np.diff(values).min()) if len(values) > 1 else 1.0
    if (values[-1] - values[0]) / width > MOST_BARS:
        edges = np.linspace(values[0], values[-1] + 1, MOST_BARS + 1)
        place = np.digitize(values, edges) - 1
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
    """A line at each bucket end, labelled where there is room, and faintly across the time strip."""
    pixel = (span[1] - span[0]) / max(1, canvas.columns)
    labelled = -np.inf
    for end in sorted(ends, reverse=True):
        figure.add_shape(
            type="line", x0=end, x1=end, y0=0, y1=1, xref="x", yref="y domain", line={"color": chosen.accent}
        )
        faint = {"color": blend(chosen.accent, chosen.paper, 0.45), "width": 1}
        figure.add_shape(type="line", x0=0, x1=1, y0=end, y1=end, xref="x2 domain", yref="y2", line=faint)
        if labelled == -np.inf or labelled - end > _LABEL_PX * pixel:
            labelled = end
            figure.add_annotation(
                x=end, y=1, xref="x", yref="y domain", yanchor="bottom", yshift=2, text=_number(end), showarrow=False,
                font={"color": chosen.accent, "size": 12},
            )  # fmt: skip


def _number(value: float) -> str:
    return numbers.count(float(value))
