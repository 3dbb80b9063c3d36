"""The idle figure: for each step how long the device had nothing to run, by what the host did, and the overlap below.

Owns what is drawn where. Takes columns summed by ``figures_bins`` and colours from ``figures_colours``; computes no
conclusion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from xla_insight.facts.report import HostState
from xla_insight.report import figures_hover, numbers
from xla_insight.report.figures import HOST_WORDS, STACK_ORDER, Canvas, nice_ticks, typical_top, whole_tick
from xla_insight.report.figures_bins import FloatArray, StepColumns
from xla_insight.report.figures_colours import Colours, colours

IDLE_PX, OVERLAP_PX = 200, 72
_GAP_PX, _TOP_PX, _BOTTOM_PX = 20, 8, 44
NEEDED = (
    "duration_ns",
    "device_busy_ns",
    *(f"{side}_{state.value}_ns" for side in ("host", "idle") for state in HostState),
)
"""Columns of the step table that the figure is made of."""
_HIDEABLE = (HostState.TRACE, HostState.INPUT_WAIT)
_LEAST_WORK_SHARE = 0.05
_HOVERED_STATES = 4
_WORD_AND_TICKS_PX = 80
_UNKNOWN_PX = 80


def height_px() -> int:
    """The height of the figure."""
    return IDLE_PX + OVERLAP_PX + _GAP_PX + _TOP_PX + _BOTTOM_PX


def overlap_shares(columns: StepColumns) -> FloatArray:
    """For each column the percent of tracing and input work done while the device was busy; NaN where there is too
    little of it, or the device was not observed."""
    work = sum((columns.sums[f"host_{state.value}_ns"] for state in _HIDEABLE), np.zeros(len(columns.first)))
    idle = sum((columns.sums[f"idle_{state.value}_ns"] for state in _HIDEABLE), np.zeros(len(columns.first)))
    enough = (work > 0) & (work >= _LEAST_WORK_SHARE * columns.sums["duration_ns"])
    return np.where(enough, 100 * (1 - idle / np.where(work > 0, work, 1)), np.nan)


def idle_figure(columns: StepColumns, canvas: Canvas) -> go.Figure:
    """Idle time a step, stacked by host state, over the share of host work that was hidden."""
    chosen = colours(canvas.scheme)
    figure = _figure(columns, canvas)
    edges = np.append(columns.first - 0.5, columns.last[-1:] + 0.5).astype(np.float64)
    idle = {state: columns.sums[f"idle_{state.value}_ns"] / columns.steps / 1e9 for state in HostState}
    known = any(np.isfinite(values).any() for values in idle.values())
    if not known:
        _say_unknown(figure, chosen)
        return figure
    _name_rows(figure, canvas)
    total = np.nansum(np.vstack(list(idle.values())), axis=0)
    top = _axis(figure, canvas, total, columns.sums["duration_ns"] / columns.steps / 1e9)
    for state in STACK_ORDER:
        if np.nan_to_num(idle[state]).any():
            _area(figure, edges, np.nan_to_num(idle[state]), (HOST_WORDS[state], chosen.host[state]))
    _overlap(figure, edges, overlap_shares(columns), chosen)
    _probe(figure, columns, (idle, total, top))
    return figure


def _figure(columns: StepColumns, canvas: Canvas) -> go.Figure:
    chosen = colours(canvas.scheme)
    whole = IDLE_PX + OVERLAP_PX + _GAP_PX
    fixed = {"fixedrange": True, "zeroline": False, "ticks": "", "tickfont": {"color": chosen.muted}}
    return go.Figure(
        layout=go.Layout(
            template="none",
            height=height_px(),
            margin={"l": canvas.left_px, "r": canvas.right_px, "t": _TOP_PX, "b": _BOTTOM_PX},
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            font={"family": figures_hover.FONT, "size": 12, "color": chosen.muted},
            separators="." + numbers.THIN_SPACE,
            showlegend=False,
            dragmode="zoom",
            hovermode="x",
            hoverdistance=-1,
            hoverlabel=figures_hover.label(chosen),
            yaxis={**fixed, "domain": [(OVERLAP_PX + _GAP_PX) / whole, 1], "gridcolor": chosen.hairline},
            yaxis2={
                **fixed,
                "domain": [0, OVERLAP_PX / whole],
                "range": [0, 100],
                "tickvals": [0, 50, 100],
                "ticktext": ["0", "50 %", "100 %"],
                "gridcolor": chosen.hairline,
            },
            xaxis=_step_axis(columns, canvas),
        )
    )


def _name_rows(figure: go.Figure, canvas: Canvas) -> None:
    """The word of each row at its left; upright where it would run into the ticks."""
    whole, ink = IDLE_PX + OVERLAP_PX + _GAP_PX, colours(canvas.scheme).ink
    upright = canvas.left_px < _WORD_AND_TICKS_PX
    for word, top_px, row_px in (("idle", whole, IDLE_PX), ("overlap", OVERLAP_PX, OVERLAP_PX)):
        figure.add_annotation(
            text=word,
            x=0,
            xref="paper",
            xanchor="left",
            xshift=-canvas.left_px,
            y=(top_px - row_px / 2 if upright else top_px) / whole,
            yref="paper",
            yanchor="middle" if upright else "top",
            textangle=-90 if upright else 0,
            showarrow=False,
            font={"color": ink},
        )


def _step_axis(columns: StepColumns, canvas: Canvas) -> dict[str, Any]:
    chosen = colours(canvas.scheme)
    span = (float(columns.first[0]) - 0.5, float(columns.last[-1]) + 0.5) if len(columns.first) else (-0.5, 0.5)
    return {
        "range": span,
        "anchor": "y2",
        "title": {"text": "step", "standoff": 6, "font": {"size": 12}},
        "tickformat": ",d",
        "tick0": 0,
        "dtick": whole_tick(span[1] - span[0], max(3, canvas.columns // 110)),
        **figures_hover.ruled(chosen),
    }


def _axis(figure: go.Figure, canvas: Canvas, total: FloatArray, lengths: FloatArray) -> float:
    """The time axis: a few long steps are cut off rather than flattening all others."""
    highest = float(np.nanmax(total, initial=0)) or float(np.nanmax(lengths, initial=0)) or 1.0
    top = typical_top(total) or 1.04 * highest
    ticks = nice_ticks(top, 4)
    figure.layout.yaxis.update(
        range=[0, top], tickvals=ticks, ticktext=[numbers.duration(tick) if tick else "0" for tick in ticks]
    )
    return top


def _area(figure: go.Figure, edges: FloatArray, seconds: FloatArray, look: tuple[str, str]) -> None:
    word, colour = look
    figure.add_trace(
        go.Scatter(
            name=word,
            x=edges,
            y=np.append(seconds, seconds[-1:]),
            mode="lines",
            stackgroup="idle",
            fillcolor=colour,
            line={"width": 0, "shape": "hv"},
            hoverinfo="skip",
        )
    )


def _overlap(figure: go.Figure, edges: FloatArray, shares: FloatArray, chosen: Colours) -> None:
    figure.add_trace(
        go.Scatter(
            name="overlap",
            x=np.repeat(edges, 2)[1:-1],
            y=np.repeat(shares, 2),
            yaxis="y2",
            mode="lines",
            line={"width": 1.5, "color": chosen.device_busy},
            hoverinfo="skip",
        )
    )


def _probe(
    figure: go.Figure, columns: StepColumns, times: tuple[dict[HostState, FloatArray], FloatArray, float]
) -> None:
    """What the pointer reads: one invisible point a column, carrying the column's text."""
    idle, total, _ = times
    overlap = overlap_shares(columns)
    texts = []
    for index in range(len(columns.first)):
        first, last = int(columns.first[index]), int(columns.last[index])
        name = (
            f"step {numbers.count(first)}" if first == last else f"steps {numbers.count(first)}–{numbers.count(last)}"
        )
        parts = sorted(((values[index], state) for state, values in idle.items() if values[index] > 0), reverse=True)
        shown = [f"{HOST_WORDS[state]} {numbers.duration(s, inferred=True)}" for s, state in parts[:_HOVERED_STATES]]
        share = overlap[index]
        hidden = [] if np.isnan(share) else [f"overlap {numbers.percent(float(share), inferred=True)}"]
        head = f"<b>{name}</b> · idle {numbers.duration(float(total[index]), inferred=True)}"
        texts.append("<br>".join([head, *shown, *hidden]))
    figure.add_trace(
        go.Scatter(
            name="probe",
            x=(columns.first + columns.last) / 2,
            y=np.zeros(len(columns.first)),
            text=texts,
            **figures_hover.PROBE,
        )
    )


def _say_unknown(figure: go.Figure, chosen: Colours) -> None:
    """A sentence in place of the rows: axes without values would look like values."""
    figure.update_layout(height=_UNKNOWN_PX, xaxis={"visible": False})
    figure.update_layout(yaxis={"visible": False}, yaxis2={"visible": False})
    figure.add_annotation(
        text="n/a: no execution times were recorded,<br>so it is not known when the device was idle",
        x=0.5,
        xref="paper",
        y=0.5,
        yref="paper",
        showarrow=False,
        font={"color": chosen.muted},
    )
