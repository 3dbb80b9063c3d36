"""The hit rate of the in-memory cache over its size, as a figure. Takes the simulation as it is; computes nothing."""

from __future__ import annotations

import plotly.graph_objects as go

from xla_insight.facts.cache import HitRate, MemoryCache
from xla_insight.report import figures_hover, numbers
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_colours import Colours, colours

HEIGHT_PX = 240
_LOGARITHMIC_FROM = 64
_PIXELS_A_TICK, _TICK_STEPS = 48, (1, 2, 5, 10, 20, 50)


def hit_rate_curve(memory: MemoryCache, canvas: Canvas) -> go.Figure:
    """One step a size; the size the run had, and the smallest that is enough, are marked where they fit."""
    chosen = colours(canvas.scheme)
    sizes = [rate.size for rate in memory.rates]
    shares = [100 * rate.hits / memory.executions if memory.executions else 0.0 for rate in memory.rates]
    line = go.Scatter(
        x=sizes,
        y=shares,
        mode="lines+markers" if len(sizes) <= 40 else "lines",
        line={"color": chosen.accent, "width": 2, "shape": "hv"},
        marker={"size": 6, "color": chosen.accent},
        text=[_hover(rate, memory) for rate in memory.rates],
        hovertemplate="%{text}<extra></extra>",
    )
    figure = go.Figure(line, _layout(memory, canvas, chosen))
    if memory.rates:
        _mark(figure, memory.enough, f"enough: {numbers.count(memory.enough)}", chosen, chosen.device_busy)
        had = memory.recorded_size
        if had is not None and had <= sizes[-1] and had != memory.enough:
            _mark(figure, had, f"this run: {numbers.count(had)}", chosen, chosen.muted)
    return figure


def _layout(memory: MemoryCache, canvas: Canvas, chosen: Colours) -> go.Layout:
    most = memory.rates[-1].size if memory.rates else 1
    axis = {
        "fixedrange": True,
        "zeroline": False,
        "tickfont": {"color": chosen.muted},
        "gridcolor": chosen.hairline,
        "linecolor": chosen.hairline,
    }
    logarithmic = most >= _LOGARITHMIC_FROM
    across: dict[str, object] = {"type": "log", "dtick": "D2"}
    if not logarithmic:
        fit = max(2, canvas.columns // _PIXELS_A_TICK)
        step = next(step for step in _TICK_STEPS if most <= step * fit or step == _TICK_STEPS[-1])
        across = {"tickformat": ",d", "range": [0.5, most + 0.5], "tick0": 0, "dtick": step}
    title = {"text": "graphs the cache holds", "standoff": 8, "font": {"size": 12}}
    return go.Layout(
        template="none",
        height=HEIGHT_PX,
        margin={"l": canvas.left_px, "r": canvas.right_px, "t": 24, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": figures_hover.FONT, "size": 12, "color": chosen.muted},
        separators="." + numbers.THIN_SPACE,
        showlegend=False,
        hovermode="x",
        hoverlabel=figures_hover.label(chosen),
        xaxis={**axis, **across, "showgrid": False, "title": title},
        yaxis={**axis, "range": [0, 104], "dtick": 25, "ticksuffix": " %"},
    )


def _mark(figure: go.Figure, size: int, text: str, chosen: Colours, colour: str) -> None:
    figure.add_vline(
        x=size,
        line={"color": colour, "width": 1, "dash": "dot"},
        annotation={"text": text, "font": {"size": 12, "color": chosen.muted}, "yanchor": "bottom", "y": 1},
        annotation_position="top",
    )


def _hover(rate: HitRate, memory: MemoryCache) -> str:
    return (
        f"{numbers.plural(rate.size, 'place')}: {numbers.share(rate.hits, memory.executions)} hits<br>"
        f"{numbers.plural(rate.compiles, 'compile')}, {numbers.count(rate.evicted_compiles)} of dropped graphs"
    )
