"""Figures over steps: the step strip, the compiles under it, and host against device time, on one shared step axis.

Owns what is drawn where and what a pointer reads. Takes columns prepared by ``figures_bins`` and colours from
``figures_colours``, and texts from ``figures_hover``; computes no conclusion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from xla_insight.facts.report import HostState
from xla_insight.report import figures_hover, numbers
from xla_insight.report.figures_bins import NO_GRAPH, BoolArray, FloatArray, StepBins
from xla_insight.report.figures_colours import Colours, Scheme, blend, colours, graph_colour

STACK_ORDER = (
    HostState.COMPILE,
    HostState.TRACE,
    HostState.INPUT_WAIT,
    HostState.TRANSFER,
    HostState.CHECKPOINT,
    HostState.GC,
    HostState.DEVICE_WAIT,
    HostState.OUTSIDE,
)
"""Host states from the axis upwards: work first, waiting last."""

HOST_WORDS = {
    HostState.COMPILE: "compile",
    HostState.TRACE: "trace",
    HostState.INPUT_WAIT: "input wait",
    HostState.TRANSFER: "transfer",
    HostState.CHECKPOINT: "checkpoint",
    HostState.GC: "GC",
    HostState.DEVICE_WAIT: "device wait",
    HostState.OUTSIDE: "outside (device windows)",
}
_STRIP_PX, _GAP_PX, _COMPILE_PX, _BOTTOM_PX, _TOP_PX = 28, 16, 60, 44, 4
_DIM = 0.22
_CUT_LABEL_PX = 56


@dataclass(frozen=True, slots=True)
class Canvas:
    """Where a figure goes: its width in CSS pixels, its scheme, and the pixels its host and device rows may take."""

    width_px: int
    scheme: Scheme = Scheme.LIGHT
    host_px: int = 170
    device_px: int = 60
    left_px: int = 88
    right_px: int = 12

    @property
    def columns(self) -> int:
        """How many columns fit beside each other: one a pixel."""
        return max(40, self.width_px - self.left_px - self.right_px)


def step_strip(bins: StepBins, canvas: Canvas) -> go.Figure:
    """The strip alone: one cell a step coloured by graph, with its compiles below."""
    rows = _Rows(canvas, with_time=False)
    figure = _figure(bins, canvas, rows)
    _draw_strip(figure, bins, canvas)
    _draw_compiles(figure, bins, canvas)
    _draw_probe(figure, bins, canvas, "y")
    return figure


def steps_over_time(bins: StepBins, canvas: Canvas, *, top_s: float | None = None) -> go.Figure:
    """Strip, compiles, and seconds a step: host states stacked above the line, device busy below it.

    ``top_s`` cuts the time axis there, so that a few long steps do not flatten all others; None shows all.
    """
    rows = _Rows(canvas, with_time=True)
    figure = _figure(bins, canvas, rows)
    _draw_strip(figure, bins, canvas)
    _draw_compiles(figure, bins, canvas)
    _draw_times(figure, bins, canvas, top_s)
    _draw_probe(figure, bins, canvas, "y3")
    return figure


def typical_top_s(bins: StepBins) -> float | None:
    """Where to cut the time axis so that usual steps can be read, or None when nothing sticks out far enough.

    The cut is twice the 90th percentile of the columns without a compile, and only worth it when the longest column is
    at least three times higher.
    """
    return typical_top(bins.mean_ns / 1e9, bins.compiles == 0)


def typical_top(values: FloatArray, usual: BoolArray | None = None) -> float | None:
    """Twice the 90th percentile of the ``usual`` values (default: all), when the largest is three times that."""
    judged = values if usual is None else values[usual]
    if len(judged) < 5 or not np.isfinite(judged).any():
        return None
    top = 2 * float(np.nanquantile(judged, 0.9))
    return top if 0 < 3 * top < float(np.nanmax(values)) else None


class _Rows:
    """Vertical places of the rows, as plotly domains (fractions of the plot's height, from the bottom)."""

    def __init__(self, canvas: Canvas, *, with_time: bool) -> None:
        time_px = canvas.host_px + canvas.device_px if with_time else 0
        lower = time_px + (_GAP_PX if with_time else 0)
        self.plot_px = lower + _COMPILE_PX + _GAP_PX + _STRIP_PX
        self.with_time = with_time
        self.time = (0.0, time_px / self.plot_px)
        self.compile = (lower / self.plot_px, (lower + _COMPILE_PX) / self.plot_px)
        self.strip = (1 - _STRIP_PX / self.plot_px, 1.0)


def _figure(bins: StepBins, canvas: Canvas, rows: _Rows) -> go.Figure:
    chosen = colours(canvas.scheme)
    axis = {"fixedrange": True, "zeroline": False, "showgrid": False, "ticks": "", "tickfont": {"color": chosen.muted}}
    span = (float(bins.first[0]) - 0.5, float(bins.last[-1]) + 0.5) if len(bins) else (-0.5, 0.5)
    layout = go.Layout(
        template="none",
        height=rows.plot_px + _TOP_PX + _BOTTOM_PX,
        margin={"l": canvas.left_px, "r": canvas.right_px, "t": _TOP_PX, "b": _BOTTOM_PX},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": figures_hover.FONT, "size": 12, "color": chosen.muted},
        separators="." + numbers.THIN_SPACE,
        showlegend=False,
        dragmode="zoom",
        hovermode="x",
        hoversubplots="axis",
        hoverdistance=-1,
        hoverlabel=figures_hover.label(chosen),
        yaxis={**axis, "domain": rows.strip, "range": [0, 1], "showticklabels": False},
        yaxis2={**axis, "domain": rows.compile},
        xaxis={
            "range": span,
            "minallowed": span[0],
            "maxallowed": span[1],
            "anchor": "y3" if rows.with_time else "y2",
            "title": {"text": "step", "standoff": 6, "font": {"size": 12}},
            "tickformat": ",d",
            "tick0": 0,
            "dtick": whole_tick(span[1] - span[0], max(3, canvas.columns // 110)),
            "tickfont": {"color": chosen.muted},
            **figures_hover.ruled(chosen),
        },
    )
    if rows.with_time:
        layout.yaxis3 = {**axis, "domain": rows.time}
    figure = go.Figure(layout=layout)
    _label_row(figure, canvas, "graph", (rows.strip[0] + rows.strip[1]) / 2)
    return figure


def _label_row(figure: go.Figure, canvas: Canvas, word: str, at: float, reference: str = "paper") -> None:
    figure.add_annotation(
        text=word,
        x=0,
        xref="paper",
        xanchor="left",
        xshift=-canvas.left_px,
        y=at,
        yref=reference,
        yanchor="middle",
        showarrow=False,
        font={"color": colours(canvas.scheme).ink},
    )


def _edges(bins: StepBins) -> FloatArray:
    return np.append(bins.first - 0.5, bins.last[-1:] + 0.5).astype(np.float64)


def _draw_strip(figure: go.Figure, bins: StepBins, canvas: Canvas) -> None:
    """Cells are an image (a heat map of one row), so their number costs nothing; each cell is one column."""
    chosen = colours(canvas.scheme)
    shades = len(chosen.deviants) + 1
    full = [graph_colour(rank, canvas.scheme) for rank in range(shades)]
    palette = [*full, *(blend(colour, chosen.paper, _DIM) for colour in full)]
    shade = np.where(bins.graph > 0, (bins.graph - 1) % (shades - 1) + 1, 0).astype(np.float64)
    if bins.lit is not None:
        shade = np.where(bins.lit, shade, shade + shades)
    shade[bins.graph == NO_GRAPH] = np.nan
    cell_px = canvas.columns / max(1, len(bins))
    figure.add_trace(
        go.Heatmap(
            name="graph",
            x=_edges(bins),
            y=[0, 1],
            z=[shade],
            zmin=-0.5,
            zmax=len(palette) - 0.5,
            colorscale=_steps_of(palette),
            showscale=False,
            hoverinfo="skip",
            zsmooth=False,
            xgap=2 if cell_px >= 12 else 1 if cell_px >= 5 else 0,
        )
    )


def _steps_of(palette: list[str]) -> list[tuple[float, str]]:
    count = len(palette)
    return [(edge / count, colour) for index, colour in enumerate(palette) for edge in (index, index + 1)]


def _draw_compiles(figure: go.Figure, bins: StepBins, canvas: Canvas) -> None:
    """One triangle for each column that compiled; its height is the seconds compiled there."""
    chosen = colours(canvas.scheme)
    at = np.flatnonzero(bins.compiles > 0)
    seconds = bins.compile_ns[at] / 1e9
    top = float(seconds.max()) if len(at) and seconds.max() > 0 else 0.0
    figure.layout.yaxis2.update(
        range=[0, 1.12 * top or 1],
        tickvals=[0, top] if top else [],
        ticktext=["0", numbers.duration(top)] if top else [],
    )
    _label_row(figure, canvas, "compile", _middle(figure.layout.yaxis2.domain))
    figure.add_hline(y=0, line={"color": chosen.hairline, "width": 1}, yref="y2")
    if not len(at):
        return
    per_px = float(bins.last[-1] - bins.first[0] + 1) / canvas.columns
    half = min(max(0.5 * bins.per_column, 3 * per_px), 6 * per_px)
    middle = (bins.first[at] + bins.last[at]) / 2
    gap = np.full(len(at), np.nan)
    zero = np.zeros(len(at))
    xs = np.column_stack([middle - half, middle, middle + half, middle - half, gap]).ravel()
    ys = np.column_stack([zero, np.maximum(seconds, 0.04 * top), zero, zero, gap]).ravel()
    figure.add_trace(
        go.Scatter(
            name="compile",
            x=xs,
            y=ys,
            yaxis="y2",
            mode="lines",
            fill="toself",
            hoverinfo="skip",
            line={"width": 0},
            fillcolor=chosen.host[HostState.COMPILE],
        )
    )


def _middle(domain: tuple[float, float]) -> float:
    return (domain[0] + domain[1]) / 2


def _draw_times(figure: go.Figure, bins: StepBins, canvas: Canvas, top_s: float | None) -> None:
    chosen = colours(canvas.scheme)
    edges = _edges(bins)
    for state in STACK_ORDER:
        seconds = bins.host[state] / 1e9
        if seconds.any():
            figure.add_trace(_area(HOST_WORDS[state], edges, seconds, chosen.host[state], "host"))
    busy = bins.busy / 1e9
    busy_known = bool(np.isfinite(busy).any())
    if busy_known:
        figure.add_trace(_area("device busy", edges, -np.nan_to_num(busy), chosen.device_busy, "device"))
    highest = float(np.nanmax(bins.mean_ns, initial=0)) / 1e9
    top = (top_s or 1.04 * highest) or 1.0
    lowest = min(top, 1.1 * float(np.nanmax(busy, initial=0)) or top) if busy_known else 0.0
    figure.add_trace(_outline(edges, bins.mean_ns / 1e9, top, chosen))
    _time_axis(figure, canvas, top, max(lowest, top * canvas.device_px / canvas.host_px))
    figure.add_hline(y=0, line={"color": chosen.ink, "width": 1}, yref="y3")
    _label_cut(figure, bins, canvas, top)
    if not busy_known and len(bins):
        _label_missing_device(figure, chosen)


def _time_axis(figure: go.Figure, canvas: Canvas, top: float, bottom: float) -> None:
    chosen = colours(canvas.scheme)
    ticks = nice_ticks(top, 4)
    below = [-tick for tick in ticks[1:] if tick <= bottom]
    figure.layout.yaxis3.update(
        range=[-bottom, top],
        tickvals=[*below, *ticks],
        ticktext=[numbers.duration(abs(tick)) if tick else "0" for tick in [*below, *ticks]],
        showgrid=True,
        gridcolor=chosen.hairline,
    )
    gap = ticks[1] if len(ticks) > 1 else top
    _label_row(figure, canvas, "host", max(ticks) - gap / 2 if len(ticks) > 1 else top / 2, "y3")
    _label_row(figure, canvas, "device", -min(gap, bottom) / 2, "y3")


def _label_cut(figure: go.Figure, bins: StepBins, canvas: Canvas, top: float) -> None:
    """How long a step is that reaches beyond the top, where its column is wide enough to say so."""
    if canvas.columns < _CUT_LABEL_PX * len(bins):
        return
    for index in np.flatnonzero(bins.mean_ns / 1e9 > top):
        figure.add_annotation(
            text=numbers.nanoseconds(float(bins.mean_ns[index])),
            x=float(bins.first[index] + bins.last[index]) / 2,
            y=top,
            yref="y3",
            yanchor="top",
            yshift=-4,
            showarrow=False,
            font={"color": "#ffffff"},
            bgcolor="rgba(20,22,26,0.72)",
            borderpad=2,
        )


def _label_missing_device(figure: go.Figure, chosen: Colours) -> None:
    figure.add_annotation(
        text="n/a: no execution times were recorded",
        x=0.5,
        xref="paper",
        y=0,
        yref="y3",
        yanchor="top",
        yshift=-8,
        showarrow=False,
        font={"color": chosen.muted},
    )


def _area(word: str, edges: FloatArray, seconds: FloatArray, colour: str, group: str) -> go.Scatter:
    heights = np.append(seconds, seconds[-1:])
    return go.Scatter(
        name=word,
        x=edges,
        y=heights,
        yaxis="y3",
        mode="lines",
        stackgroup=group,
        fillcolor=colour,
        line={"width": 0, "shape": "hv"},
        hoverinfo="skip",
    )


def _outline(edges: FloatArray, seconds: FloatArray, top: float, chosen: Colours) -> go.Scatter:
    """The length of each step as a line; none where it is cut off, because its flanks alone would say nothing."""
    heights = np.where(seconds <= top, seconds, np.nan)
    corners = np.repeat(edges, 2)[1:-1]
    return go.Scatter(
        name="step",
        x=corners,
        y=np.repeat(heights, 2),
        yaxis="y3",
        mode="lines",
        hoverinfo="skip",
        line={"width": 1, "color": chosen.muted},
    )


def _draw_probe(figure: go.Figure, bins: StepBins, canvas: Canvas, axis: str) -> None:
    """What the pointer reads: one invisible point a column, carrying the column's text."""
    y = 0.5 if axis == "y" else 0.0
    figure.add_trace(
        go.Scatter(
            name="probe",
            x=(bins.first + bins.last) / 2,
            y=np.full(len(bins), y),
            yaxis=axis,
            text=figures_hover.texts(bins, HOST_WORDS),
            **figures_hover.PROBE,
        )
    )


def whole_tick(span: float, wanted: int) -> int:
    """A round whole number of steps between ticks: a step has no half."""
    rough = max(1.0, span / wanted)
    magnitude = 10 ** math.floor(math.log10(rough))
    return int(next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough))


def nice_ticks(top: float, wanted: int) -> list[float]:
    """Round tick values from 0 up to ``top``."""
    rough = top / wanted
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
    return [index * step for index in range(int(top / step) + 1)]
