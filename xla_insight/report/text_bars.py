"""Where the time went, as two bars of text: what the host did, and what the device did while it did that.

Owns the letters of host states and how many cells a state gets. Colours repeat what letters say, so that the bars read
the same without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from xla_insight.facts import numbers
from xla_insight.facts.report import HostState, Quality, TimeFacts

LETTERS = {
    HostState.COMPILE: "C",
    HostState.DEVICE_WAIT: "W",
    HostState.INPUT_WAIT: "I",
    HostState.TRANSFER: "M",
    HostState.CHECKPOINT: "S",
    HostState.GC: "G",
    HostState.TRACE: "T",
    HostState.OUTSIDE: "O",
}
BUSY = "█"
_STYLES = {
    HostState.COMPILE: "dark_orange",
    HostState.DEVICE_WAIT: "bright_black",
    HostState.INPUT_WAIT: "magenta",
    HostState.TRANSFER: "cyan",
    HostState.CHECKPOINT: "yellow",
    HostState.GC: "green_yellow",
    HostState.TRACE: "blue",
    HostState.OUTSIDE: "dim",
}
_INFERRED_STATES = (HostState.DEVICE_WAIT, HostState.TRACE)
"""Waits inside a cut are worked out from when the device was ready, and tracing is what is left."""
_LISTED_SHARE = 0.01
_LISTED_LINES = 3


def host_bar(time: TimeFacts, width: int) -> Text:
    """What the host did, largest first: so many letters as its share of wall."""
    bar = Text()
    for state, cells in _cells(time.host, time.wall_s, width):
        bar.append(LETTERS[HostState(state)] * cells, style=_STYLES[HostState(state)])
    return bar


def host_list(time: TimeFacts) -> Text:
    """The states of the host's bar with their shares; those below 1 % are left to --json."""
    inferred = _INFERRED_STATES if time.quality is Quality.INFERRED else ()
    return Text(
        ", ".join(
            f"{LETTERS[HostState(state)]} {_word(state)} {numbers.share(s, time.wall_s, inferred=state in inferred)}"
            for state, s in _listed(time.host, time.wall_s)
        )
    )


def device_bar(time: TimeFacts, width: int) -> Text | None:
    """Busy first, then idle by what the host did meanwhile, in small letters. None when the device was not observed."""
    if time.device_busy_s is None:
        return None
    parts = {"": time.device_busy_s, **time.device_idle_by_host_state}
    bar = Text()
    for state, cells in sorted(_cells(parts, time.wall_s, width), key=lambda item: item[0] != ""):
        known = HostState(state) if state else None
        bar.append((LETTERS[known].lower() if known else BUSY) * cells, style=_STYLES[known] if known else "green")
    return bar


def device_list(time: TimeFacts) -> Text:
    """How long the device was busy, and what the host did while it was idle."""
    busy = f"{BUSY} busy {numbers.share(time.device_busy_s, time.wall_s, inferred=True)}"
    idle = [
        f"{LETTERS[HostState(state)].lower()} {_word(state)} {numbers.share(s, time.wall_s, inferred=True)}"
        for state, s in _listed(time.device_idle_by_host_state, time.wall_s)
    ]
    return Text(f"{busy}; idle while the host did: {', '.join(idle)}" if idle else busy)


def path_list(path: Mapping[str, float], wall_s: float) -> Text:
    """What the steps depended on, largest first: shortening anything else saves nothing."""
    named = [f"{_word(name)} {numbers.share(s, wall_s, inferred=True)}" for name, s in _listed(path, wall_s)]
    return Text(f"on the critical path: {', '.join(named)}")


def line_list(time: TimeFacts) -> Text:
    """The lines at which the host ran Python most, after warm-up."""
    told = [
        f"{numbers.percent(100 * line.share, inferred=True)} at {numbers.where(line.site, line.user_site)}"
        for line in time.host_lines[:_LISTED_LINES]
    ]
    return Text(f"Python and tracing after warm-up: {', '.join(told)}")


def _word(state: str) -> str:
    return "outside (device windows)" if state == HostState.OUTSIDE else state.replace("_", " ")


def _listed(parts: Mapping[str, float], wall_s: float) -> Iterator[tuple[str, float]]:
    shown = ((state, s) for state, s in parts.items() if s >= _LISTED_SHARE * wall_s and s > 0)
    return iter(sorted(shown, key=lambda item: -item[1]))


def _cells(parts: Mapping[str, float], wall_s: float, width: int) -> list[tuple[str, int]]:
    """Cells of each part, largest first: they add up to ``width``, and whatever is listed gets at least one."""
    listed = list(_listed(parts, wall_s))
    whole = sum(s for _, s in listed)
    if not whole:
        return []
    cells = {state: max(1, int(width * s / whole)) for state, s in listed}
    rest = sorted(listed, key=lambda item: -(width * item[1] / whole) % 1)
    for state, _ in rest:
        if sum(cells.values()) >= width:
            break
        cells[state] += 1
    largest = listed[0][0]
    cells[largest] = max(1, cells[largest] + width - sum(cells.values()))
    return [(state, cells[state]) for state, _ in listed]
