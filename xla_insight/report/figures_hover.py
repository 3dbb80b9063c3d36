"""What a pointer reads on a step figure: one short text a column.

Owns the wording and the look of hover labels. Texts from a recording are escaped, because plotly reads markup.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

from xla_insight.facts.report import HostState
from xla_insight.report import numbers
from xla_insight.report.figures_bins import NO_GRAPH, StepBins
from xla_insight.report.figures_colours import Colours

FONT = "Inter, system-ui, -apple-system, Segoe UI, sans-serif"
_SHOWN_STATES = 4
PROBE: dict[str, Any] = {"mode": "lines", "line": {"width": 0}, "opacity": 0, "hoverinfo": "text"}
"""Points that the pointer reads, which nobody sees. As a line: a browser takes longer over a thousand markers than over
all the rest of a figure."""


def label(chosen: Colours) -> dict[str, Any]:
    """Plotly settings of a hover label in the colours of the page."""
    return {
        "bgcolor": chosen.paper,
        "bordercolor": chosen.muted,
        "font": {"family": FONT, "color": chosen.ink, "size": 12},
        "align": "left",
        "namelength": 0,
    }


def texts(bins: StepBins, words: Mapping[HostState, str]) -> list[str]:
    """One text a column: which steps, which graph, how long, what was compiled, where the time went."""
    states = list(words)
    times = np.vstack([bins.host[state] for state in states]) if len(bins) else np.zeros((len(states), 0))
    order = np.argsort(-times, axis=0)[:_SHOWN_STATES]
    return [
        "<br>".join(
            (
                _head(bins, index),
                *_compiled(bins, index),
                *(
                    f"{words[states[row]]} {numbers.nanoseconds(times[row, index])}"
                    for row in order[:, index]
                    if times[row, index] > 0
                ),
                *_busy(bins, index),
            )
        )
        for index in range(len(bins))
    ]


def _head(bins: StepBins, index: int) -> str:
    first, last = int(bins.first[index]), int(bins.last[index])
    length = numbers.nanoseconds(float(bins.mean_ns[index]))
    if first == last:
        steps = f"<b>step {numbers.count(first)}</b> · {length}"
    else:
        spread = (numbers.nanoseconds(float(edge[index])) for edge in (bins.shortest_ns, bins.longest_ns))
        steps = f"<b>steps {numbers.count(first)}–{numbers.count(last)}</b> · mean {length}, {' to '.join(spread)}"
    rank = int(bins.graph[index])
    if rank == NO_GRAPH:
        return steps
    rarest = "rarest graph" if first != last else "graph"
    return f"{steps}<br>{rarest} {html.escape(numbers.short_hash(bins.names[rank]), quote=False)}"


def _compiled(bins: StepBins, index: int) -> tuple[str, ...]:
    compiles = int(bins.compiles[index])
    if not compiles:
        return ()
    return (f"{numbers.plural(compiles, 'compile')}, {numbers.nanoseconds(float(bins.compile_ns[index]))}",)


def _busy(bins: StepBins, index: int) -> tuple[str, ...]:
    busy = float(bins.busy[index])
    return () if np.isnan(busy) else (f"device busy {numbers.nanoseconds(busy, inferred=True)}",)


def ruled(chosen: Colours) -> dict[str, Any]:
    """Style of a horizontal axis that is read with a ruler: ticks outside, a thin line under the pointer."""
    return {
        "showgrid": False,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": chosen.hairline,
        "showspikes": True,
        "spikemode": "across",
        "spikesnap": "cursor",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": chosen.muted,
    }
