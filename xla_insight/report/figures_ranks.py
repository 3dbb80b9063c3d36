"""Figures with a row a rank: how much longer each step took than on the fastest rank, and the graph of each sync.

Owns what is drawn where. Takes tables and strips as ``analysis`` made them; computes no conclusion.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from xla_insight.analysis.rank_syncs import SyncStrip
from xla_insight.report import figures_hover, numbers
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_colours import Colours, colours, graph_colour

_ROW_PX, _MOST_PX, _LEAST_PX = 24, 480, 28
_TOP_PX, _BOTTOM_PX = 22, 44
_NO_CUT = -1


def height_px(ranks: int) -> int:
    """The height of a figure with so many rows."""
    return _TOP_PX + _BOTTOM_PX + min(_MOST_PX, max(_LEAST_PX, _ROW_PX * ranks))


def lag_figure(step_ms: pd.DataFrame, words: Sequence[str], canvas: Canvas) -> go.Figure:
    """For each rank (a column of ``step_ms``) and step: how many ms longer than on the fastest rank.

    The strongest colour is the longest lag. With more steps than pixels a column holds several, and shows the largest
    of them.
    """
    chosen = colours(canvas.scheme)
    values = step_ms.to_numpy(dtype=np.float64)
    least = np.nanmin(values, axis=1, keepdims=True) if len(values) else values
    lag, first, last = _thinned(values - least, step_ms.index.to_numpy(), canvas.columns)
    width = step_ms.index.to_numpy()
    edges = np.append(first - 0.5, last[-1:] + 0.5) if len(width) else np.zeros(0)
    text = [[_lag_text(word, first[c], last[c], lag[c, r]) for c in range(len(first))] for r, word in enumerate(words)]
    heat = go.Heatmap(
        x=edges,
        y=list(range(len(words))),
        z=lag.T,
        text=text,
        hovertemplate="%{text}<extra></extra>",
        hoverongaps=False,
        colorscale=[[0, chosen.hairline], [1, chosen.accent]],
        zmin=0,
        zmax=max(float(np.nanmax(lag)) if np.isfinite(lag).any() else 0.0, 1e-9),
        ygap=2,
        showscale=False,
    )
    return go.Figure(heat, _layout(words, "step", canvas, chosen))


def sync_figure(strip: SyncStrip, words: Sequence[str], names: Sequence[str], canvas: Canvas) -> go.Figure:
    """The graph of each sync on each rank; ``names`` are graphs by number of steps, whose colours they keep."""
    chosen = colours(canvas.scheme)
    order = {name: number for number, name in enumerate(names)}
    for row in strip.graphs:
        for graph in row:
            if graph is not None:
                order.setdefault(graph, len(order))
    used = sorted({order[graph] for row in strip.graphs for graph in row if graph is not None})
    place = {number: index for index, number in enumerate(used)}
    cells = [[_NO_CUT if graph is None else place[order[graph]] for graph in row] for row in strip.graphs]
    z = np.where(np.array(cells) == _NO_CUT, np.nan, np.array(cells, dtype=np.float64))
    scale: list[list[Any]] = []
    for index, number in enumerate(used):
        hue = graph_colour(number, canvas.scheme)
        scale += [[index / len(used), hue], [(index + 1) / len(used), hue]]
    syncs = list(range(strip.first, strip.first + len(strip.steps)))
    text = [
        [_sync_text(words[r], syncs[c], strip.steps[c], graph) for c, graph in enumerate(row)]
        for r, row in enumerate(strip.graphs)
    ]
    heat = go.Heatmap(
        x=syncs, y=list(range(len(words))), z=z, text=text, hovertemplate="%{text}<extra></extra>", hoverongaps=False,
        colorscale=scale or [[0, chosen.hairline], [1, chosen.hairline]], zmin=-0.5, zmax=max(len(used), 1) - 0.5,
        showscale=False, xgap=1, ygap=2,
    )  # fmt: skip
    figure = go.Figure(heat, _layout(words, "sync", canvas, chosen))
    if strip.parts_at is not None:
        figure.add_vline(
            x=strip.parts_at - 0.5,
            line={"color": chosen.ink, "width": 2},
            annotation={"text": "ranks part here", "font": {"size": 12, "color": chosen.ink}, "yanchor": "bottom"},
            annotation_position="top",
        )
    return figure


def _thinned(lag: Any, steps: Any, columns: int) -> tuple[Any, Any, Any]:
    """Rows of several steps as one, with the largest of each; and the first and last step of each."""
    if len(steps) <= columns:
        return lag, steps, steps
    bounds = np.linspace(0, len(steps), columns + 1).astype(int)
    starts = bounds[:-1]
    return np.fmax.reduceat(lag, starts, axis=0), steps[starts], steps[bounds[1:] - 1]


def _lag_text(word: str, first: int, last: int, lag_ms: float) -> str:
    steps = f"step {numbers.count(first)}" if first == last else f"steps {numbers.count(first)}–{numbers.count(last)}"
    more = numbers.duration(None if np.isnan(lag_ms) else lag_ms / 1e3)
    return f"<b>{html.escape(word)}</b> · {steps}<br>{more} longer than on the fastest rank"


def _sync_text(word: str, sync: int, step: int | None, graph: str | None) -> str:
    at = "" if step is None else f" · step {numbers.count(step)}"
    what = "made no such sync" if graph is None else f"graph {html.escape(numbers.short_hash(graph), quote=False)}"
    return f"<b>{html.escape(word)}</b> · sync {numbers.count(sync)}{at}<br>{what}"


def _layout(words: Sequence[str], across: str, canvas: Canvas, chosen: Colours) -> go.Layout:
    every = max(1, len(words) * 14 // _MOST_PX + (len(words) * 14 % _MOST_PX > 0))
    shown = list(range(0, len(words), every))
    return go.Layout(
        template="none",
        height=height_px(len(words)),
        margin={"l": canvas.left_px, "r": canvas.right_px, "t": _TOP_PX, "b": _BOTTOM_PX},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": figures_hover.FONT, "size": 12, "color": chosen.muted},
        separators="." + numbers.THIN_SPACE,
        showlegend=False,
        hoverlabel=figures_hover.label(chosen),
        xaxis={
            **figures_hover.ruled(chosen),
            "fixedrange": True,
            "tickformat": ",d",
            "title": {"text": across, "standoff": 6, "font": {"size": 12}},
        },
        yaxis={
            "fixedrange": True,
            "zeroline": False,
            "showgrid": False,
            "ticks": "",
            "autorange": "reversed",
            "tickvals": shown,
            "ticktext": [html.escape(words[index]) for index in shown],
            "ticklabelstandoff": 8,
            "tickfont": {"color": chosen.muted},
        },
    )
