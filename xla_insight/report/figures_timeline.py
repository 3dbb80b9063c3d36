"""The timeline figure: host states, value reads, compiles, device by graph and transfers over one stretch of time.

The rows are one picture: as shapes, a thousand columns of a dozen colours take a browser most of a second.

Owns what is drawn where, the ticks of its time axis and what a pointer reads. Takes columns prepared by
``analysis.timeline`` and colours from ``figures_colours``; computes no conclusion.
"""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plotly.graph_objects as go

from xla_insight.analysis.timeline import OTHER_GRAPHS, Shares, TimelineView
from xla_insight.facts.report import HostState, IdleGap
from xla_insight.report import figures_hover, numbers
from xla_insight.report.figures import HOST_WORDS, STACK_ORDER, Canvas
from xla_insight.report.figures_colours import Colours, colours, graph_colour
from xla_insight.report.figures_raster import Band, picture

ROW_WORDS = {"read": "value reads", "compile": "compiles", "transfer": "transfers"}
_ROWS_PX = (("steps", 18), ("host", 84), ("read", 16), ("compile", 16), ("device", 64), ("transfer", 16))
_GAP_PX, _TOP_PX, _BOTTOM_PX = 14, 4, 44
_LEAST_MARK = 0.3
"""The least height of a column in which something happened, however short: what is there is seen."""
_HOVERED_STATES = 3
_TICK_PX = 120
_STEP_LABEL_PX = 44
_MINUTE_NS = 60e9
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1))
_CLOCK_S = (10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600)
"""Distances of ticks from ten seconds to an hour."""
_DIGITS = 12
"""Enough to write a tick in full."""


def plot_px() -> int:
    """The height of all rows."""
    return sum(px for _, px in _ROWS_PX) + _GAP_PX * (len(_ROWS_PX) - 1)


def height_px() -> int:
    """The height of the figure."""
    return plot_px() + _TOP_PX + _BOTTOM_PX


def timeline_figure(
    view: TimelineView, origin_ns: int, names: Sequence[str], canvas: Canvas, marked: IdleGap | None = None
) -> go.Figure:
    """The figure of a view. Its time axis counts ns from ``origin_ns``; ``names`` are graph hashes by rank.

    ``marked``: an idle gap to point at.
    """
    chosen = colours(canvas.scheme)
    notes = _Notes()
    _name_rows(notes, canvas)
    _step_lines(notes, view, origin_ns, canvas)
    if marked is not None:
        _outline(notes, marked, origin_ns, chosen)
    layout = _layout(view, origin_ns, canvas)
    layout.update(annotations=notes.texts, shapes=notes.lines, images=[_rows(view, names, canvas, origin_ns)])
    # What is written here needs no check, which takes longer than the rest.
    # A pointer does not tell one pixel from the next, and texts are most of what a browser has to read.
    traces = [_probe(view if view.exact else view.coarser(), origin_ns), *_handles(view, origin_ns)]
    return go.Figure({"data": traces, "layout": layout}, _validate=False)


def _rows(view: TimelineView, names: Sequence[str], canvas: Canvas, origin_ns: int) -> dict[str, Any]:
    """All rows as one picture over the whole plot."""
    chosen, columns = colours(canvas.scheme), _Columns(view, canvas.columns)
    tops = {name: round((1 - high) * plot_px()) for name, (_, high) in _domains().items()}
    heights = dict(_ROWS_PX)

    def band(row: str, parts: Sequence[tuple[str, Shares]]) -> Band:
        shares = np.vstack([columns.shares(part) for _, part in parts]) if parts else np.zeros((0, columns.count))
        return Band(tops[row], heights[row], [colour for colour, _ in parts], shares)

    host = [(chosen.host[state], view.host[state]) for state in STACK_ORDER if state in view.host]
    device = []
    for rank, name, shares in _ranked(view.device, names):
        # The most frequent graph is neutral elsewhere; here that would look like waiting.
        colour = chosen.device_busy if rank == 0 else graph_colour(rank, canvas.scheme)
        device.append((chosen.muted if name == OTHER_GRAPHS else colour, shares))
    bands = [band("host", host), band("device", device)]
    tints = {"read": chosen.ink, "compile": chosen.host[HostState.COMPILE], "transfer": chosen.host[HostState.TRANSFER]}
    for kind, tint in tints.items():
        bands.append(Band(tops[kind], heights[kind], [tint], columns.marks(view, kind)[None, :]))
    source = picture(bands, columns.count, plot_px())
    begin = view.begin_ns - origin_ns
    place = {"x": begin, "xref": "x", "sizex": view.end_ns - view.begin_ns, "y": 1, "yref": "paper", "sizey": 1}
    return {"name": "rows", "source": source, **place, "sizing": "stretch", "layer": "above"}


class _Columns:
    """The stretch of a view in columns of equal width, at most one a pixel; a view may have more edges."""

    def __init__(self, view: TimelineView, most: int) -> None:
        begin, end = view.begin_ns, view.end_ns
        self.count = min(most, end - begin)
        wanted = np.linspace(begin, end, self.count + 1).astype(np.int64)
        self._first = np.searchsorted(view.edges, wanted)[:-1]
        self._lengths, self._whole = np.diff(view.edges), np.diff(wanted)

    def shares(self, shares: Shares) -> Shares:
        """Shares of the columns of the view as shares of these."""
        summed: Shares = np.add.reduceat(shares * self._lengths, self._first) / self._whole
        return summed

    def marks(self, view: TimelineView, kind: str) -> Shares:
        """The height of each column's mark of a kind of event, however short it was; 0 where there was none."""
        empty = np.zeros(len(self._lengths))
        shares = self.shares(view.rows.get(kind, empty))
        counts = np.add.reduceat(view.counts.get(kind, empty), self._first)
        return np.where((counts > 0) | (shares > 0), np.maximum(shares, _LEAST_MARK), 0.0)


@dataclass(slots=True)
class _Notes:
    """Texts and lines over the plot. Collected first: plotly takes long to add them one by one."""

    texts: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)


_AXES = {"steps": "y", "host": "y2", "read": "y3", "compile": "y4", "device": "y5", "transfer": "y6"}


def _domains() -> dict[str, tuple[float, float]]:
    """The rows from the top down, as plotly domains (fractions of the plot's height, from the bottom)."""
    whole, top, found = plot_px(), plot_px(), {}
    for name, px in _ROWS_PX:
        found[name] = ((top - px) / whole, top / whole)
        top -= px + _GAP_PX
    return found


def _layout(view: TimelineView, origin_ns: int, canvas: Canvas) -> dict[str, Any]:
    chosen = colours(canvas.scheme)
    fixed = {"fixedrange": True, "zeroline": False, "showgrid": False, "ticks": "", "showticklabels": False}
    begin, end = view.begin_ns - origin_ns, view.end_ns - origin_ns
    ticks, texts, title = time_ticks(begin, end, max(3, canvas.columns // _TICK_PX))
    axes = {
        f"yaxis{_AXES[name][1:]}": {**fixed, "domain": domain, "range": [0, 1]} for name, domain in _domains().items()
    }
    return {
        "template": "none",
        "height": height_px(),
        "margin": {"l": canvas.left_px, "r": canvas.right_px, "t": _TOP_PX, "b": _BOTTOM_PX},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": figures_hover.FONT, "size": 12, "color": chosen.muted},
        "showlegend": False,
        "dragmode": "zoom",
        "hovermode": "x",
        "hoverdistance": -1,
        "hoverlabel": figures_hover.label(chosen),
        "xaxis": {
            "range": [begin, end],
            "anchor": "y6",
            "title": {"text": title, "standoff": 6, "font": {"size": 12}},
            "tickvals": ticks,
            "ticktext": texts,
            **figures_hover.ruled(chosen),
        },
        **axes,
    }


def _name_rows(notes: _Notes, canvas: Canvas) -> None:
    """The word of each row at its left, and the line it stands on."""
    chosen = colours(canvas.scheme)
    for name, (low, high) in _domains().items():
        place = {"x": 0, "xref": "paper", "xanchor": "left", "xshift": -canvas.left_px, "yref": "paper"}
        word = {"steps": "step", "read": "reads"}.get(name) or ROW_WORDS.get(name, name)
        text = {"text": word, "y": (low + high) / 2, "yanchor": "middle", "showarrow": False}
        notes.texts.append({**place, **text, "font": {"color": chosen.ink}})
        if name != "steps":
            ends = {"xref": "paper", "yref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": low}
            notes.lines.append({"type": "line", **ends, "line": {"color": chosen.hairline, "width": 1}})


def _ranked(device: Mapping[str, Shares], names: Sequence[str]) -> list[tuple[int, str, Shares]]:
    rank_of = {name: rank for rank, name in enumerate(names)}
    found = [(rank_of.get(name, len(names)), name, shares) for name, shares in device.items()]
    return sorted(found, key=lambda item: (item[1] == OTHER_GRAPHS, item[0], item[1]))


def _graph_word(name: str) -> str:
    return "other graphs" if name == OTHER_GRAPHS else f"graph {numbers.short_hash(name)}"


def _step_lines(notes: _Notes, view: TimelineView, origin_ns: int, canvas: Canvas) -> None:
    """A line where each step begins, and its number where there is room for it."""
    colour = colours(canvas.scheme).muted
    room = (view.end_ns - view.begin_ns) * _STEP_LABEL_PX / canvas.columns
    starts = [start for _, start in view.steps] + [view.end_ns]
    for index, (number, start) in enumerate(view.steps):
        at = start - origin_ns
        ends = {"xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
        notes.lines.append({"type": "line", **ends, "line": {"color": colour, "width": 1, "dash": "dot"}})
        if starts[index + 1] - start >= room:
            place = {"x": at, "xref": "x", "xanchor": "left", "xshift": 3, "y": 0.5, "yref": "y"}
            notes.texts.append({**place, "text": numbers.count(number), "showarrow": False, "font": {"color": colour}})


def _outline(notes: _Notes, gap: IdleGap, origin_ns: int, chosen: Colours) -> None:
    begin = gap.start_s * 1e9 - origin_ns
    corners = {"xref": "x", "yref": "y5", "x0": begin, "x1": begin + gap.idle_s * 1e9, "y0": 0, "y1": 1}
    notes.lines.append({"type": "rect", **corners, "line": {"color": chosen.accent, "width": 2}})


def _probe(view: TimelineView, origin_ns: int) -> dict[str, Any]:
    """What the pointer reads and a click hits: one invisible point a column of ``view``."""
    edges = view.edges - origin_ns
    return {
        "type": "scatter",
        "name": "probe",
        "x": (edges[:-1] + edges[1:]) / 2,
        "y": np.full(len(edges) - 1, 0.5, np.float32),
        "yaxis": _AXES["device"],
        "customdata": np.column_stack([edges[:-1], edges[1:]]),
        "text": _texts(view, origin_ns),
        **figures_hover.PROBE,
    }


def _handles(view: TimelineView, origin_ns: int) -> list[dict[str, Any]]:
    """Nothing to see: a row without a trace could not be dragged over."""
    ends = [view.begin_ns - origin_ns, view.end_ns - origin_ns]
    unseen = {"type": "scatter", "mode": "lines", "opacity": 0, "hoverinfo": "skip", "x": ends, "y": [0, 0]}
    kinds = [kind for kind in ROW_WORDS if kind in view.rows or view.counts.get(kind, np.zeros(1)).any()]
    return [{**unseen, "name": row, "yaxis": _AXES[row]} for row in ("host", *kinds)]


def _texts(view: TimelineView, origin_ns: int) -> list[str]:
    columns = len(view.edges) - 1
    states, graphs = list(view.host), list(view.device)
    host = np.vstack([view.host[state] for state in states]) if states else np.zeros((0, columns))
    device = np.vstack([view.device[name] for name in graphs]) if graphs else np.zeros((0, columns))
    order = np.argsort(-host, axis=0)[:_HOVERED_STATES]
    most = np.take_along_axis(host, order, axis=0).T.tolist()
    busy = device.sum(axis=0).tolist()
    top = (device.argmax(axis=0) if graphs else np.zeros(columns, np.int64)).tolist()
    begins = (view.edges[:-1] - origin_ns).tolist()
    events = {ROW_WORDS[kind]: counts.tolist() for kind, counts in view.counts.items() if counts.any()}
    words = [HOST_WORDS[state] for state in states]
    running = [html.escape(_graph_word(name), quote=False) for name in graphs]
    texts = []
    for index, rows in enumerate(order.T.tolist()):
        parts = [f"<b>{numbers.nanoseconds(begins[index])}</b>"]
        parts += [f"{words[row]} {_percent(share)}" for row, share in zip(rows, most[index], strict=True) if share > 0]
        if busy[index] > 0:
            parts.append(f"device ~{_percent(busy[index])} busy · {running[top[index]]}")
        else:
            parts.append("device idle")
        parts += [f"{numbers.count(counts[index])} {word}" for word, counts in events.items() if counts[index]]
        texts.append("<br>".join(parts))
    return texts


def _percent(share: float) -> str:
    """The wording of a share, looked up: a figure has thousands of them, and most are alike."""
    return _known_percent(math.ceil(share * 100_000))


@functools.lru_cache(maxsize=1 << 14)
def _known_percent(thousandths: int) -> str:
    return numbers.percent(thousandths / 1000)


def time_ticks(begin_ns: float, end_ns: float, wanted: int) -> tuple[list[float], list[str], str]:
    """Round ticks of a time axis, their texts, and its title.

    Where a tick's place would need more digits than a person reads, ticks count from the left edge and the title says
    where that is.
    """
    step = _round_step((end_ns - begin_ns) / wanted)
    if begin_ns / step < 1000:
        ticks = [step * number for number in range(math.ceil(begin_ns / step), math.floor(end_ns / step) + 1)]
        return ticks, [_tick_text(tick, step) for tick in ticks], "time since the first step began"
    count = math.floor((end_ns - begin_ns) / step) + 1
    ticks = [begin_ns + step * number for number in range(count)]
    texts = ["0", *(f"+{_tick_text(step * number, step)}" for number in range(1, count))]
    return ticks, texts, f"time since {begin_ns / 1e9:.9f}".rstrip("0").rstrip(".") + " s"


def _tick_text(ns: float, step: float) -> str:
    """The time of a tick in full, so that no two ticks read the same; parts that no tick needs are left out."""
    if ns < _MINUTE_NS:
        if not ns:
            return "0"
        unit, length = next((unit, length) for unit, length in _UNITS if ns >= length or length == 1)
        return f"{numbers.significant(ns / length, _DIGITS)} {unit}"
    hours, rest = divmod(ns, 60 * _MINUTE_NS)
    minutes, rest = divmod(rest, _MINUTE_NS)
    parts = [f"{numbers.count(hours)} h"] if hours else []
    parts.append(f"{minutes:.0f} m")
    if not hours or step % _MINUTE_NS:
        parts.append(f"{numbers.significant(rest / 1e9, _DIGITS)} s")
    return " ".join(parts)


def _round_step(rough: float) -> float:
    """The next round length: of seconds by tens, of minutes and hours as a clock has them."""
    clock = [seconds * 1e9 for seconds in _CLOCK_S if seconds * 1e9 >= rough]
    if rough > 1e9 * _CLOCK_S[0] and clock:
        return clock[0]
    unit = 1.0 if clock else 60 * _MINUTE_NS
    magnitude = 10.0 ** math.floor(math.log10(max(1.0, rough / unit)))
    return next(factor * magnitude * unit for factor in (1, 2, 5, 10) if factor * magnitude * unit >= rough)
