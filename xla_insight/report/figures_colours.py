"""Colours of every figure and page, light and dark: one hue means one thing.

Owns the hues of host states, of the device and of graphs, and of the surface they stand on. Every hue has at least the
contrast that WCAG AA asks of graphics (3:1; 4.5:1 for text) against its surface. Leaves drawing to ``figures``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from xla_insight.facts.report import HostState


class Scheme(StrEnum):
    """The two colour schemes."""

    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Colours:
    """One colour scheme. ``deviants`` are the hues of graphs other than the most frequent one, most frequent first."""

    paper: str
    ink: str
    muted: str
    hairline: str
    accent: str
    host: dict[HostState, str]
    device_busy: str
    usual_graph: str
    deviants: tuple[str, ...]


# `outside` is nothing of interest and stays close to paper: figures draw the outline of a step over it, so that its
# extent is seen by a line of full contrast.
_LIGHT = Colours(
    paper="#fcfcfb",
    ink="#1b1d22",
    muted="#5b6270",
    hairline="#e2e4e9",
    accent="#3f51c7",
    host={
        HostState.COMPILE: "#d55e00",
        HostState.DEVICE_WAIT: "#8a909b",
        HostState.INPUT_WAIT: "#8d5bc0",
        HostState.TRANSFER: "#0c8f86",
        HostState.CHECKPOINT: "#8a5a2b",
        HostState.GC: "#7d8216",
        HostState.TRACE: "#2a7fb8",
        HostState.OUTSIDE: "#d9dce2",
    },
    device_busy="#1b6b3a",
    usual_graph="#89909c",
    deviants=("#c8325a", "#3f62d8", "#a67c00", "#b545ae", "#138ea8", "#5e8c1a", "#6a2c70", "#a84b2f"),
)
_DARK = Colours(
    paper="#15171b",
    ink="#e7e9ed",
    muted="#9aa2b0",
    hairline="#2b2f37",
    accent="#9aa8ff",
    host={
        HostState.COMPILE: "#f08a3c",
        HostState.DEVICE_WAIT: "#8a919e",
        HostState.INPUT_WAIT: "#b48be0",
        HostState.TRANSFER: "#3fbfb3",
        HostState.CHECKPOINT: "#c08a57",
        HostState.GC: "#b4b84a",
        HostState.TRACE: "#58a6db",
        HostState.OUTSIDE: "#393f4a",
    },
    device_busy="#2f8f5b",
    usual_graph="#6c7481",
    deviants=("#f0668a", "#7f9bff", "#e0b53a", "#e07fd8", "#4cc4dc", "#9ccb4f", "#b77fd0", "#e08a6a"),
)


def colours(scheme: Scheme) -> Colours:
    """The colours of a scheme."""
    return _DARK if scheme is Scheme.DARK else _LIGHT


def graph_colour(rank: int, scheme: Scheme) -> str:
    """The hue of the graph that is ``rank``-th by number of steps: 0 is the most frequent one (neutral)."""
    chosen = colours(scheme)
    return chosen.usual_graph if rank == 0 else chosen.deviants[(rank - 1) % len(chosen.deviants)]


def contrast(one: str, other: str) -> float:
    """The WCAG contrast ratio (1 to 21) of two colours given as ``#rrggbb``."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def blend(colour: str, paper: str, share: float) -> str:
    """``share`` (0 to 1) of a colour over paper, as ``#rrggbb``."""
    mixed = (round(share * a + (1 - share) * b) for a, b in zip(_channels(colour), _channels(paper), strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
