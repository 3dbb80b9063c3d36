"""The critical path: at each instant, what the end of the step depended on.

Walked backwards from the end of the work. While the training thread does something, it is on the path. Where it waited
for a busy device, the path goes over to the device and stays there back to the dispatch that ended its last idle time;
what the host did meanwhile was hidden. Making anything shorter that is not on the path saves nothing. Owns this rule;
leaves the states of the host and the busy time of the device to ``accounting``.
"""

from __future__ import annotations

import numpy as np

from xla_insight.analysis.accounting import STATES, Segments
from xla_insight.analysis.intervals import Mask
from xla_insight.facts.report import HostState


def on_device(parts: Segments) -> Mask | None:
    """Which segments of time the device holds on the critical path; None when it was not observed. Linear."""
    if parts.busy is None:
        return None
    busy = parts.busy
    waits = busy & (parts.states == STATES.index(HostState.DEVICE_WAIT))
    # Runs of busy segments are numbered; of each, the last segment in which the host waited ends the device's part.
    run = np.cumsum(busy & ~np.concatenate(([False], busy[:-1])), dtype=np.int32)
    last_wait = np.full(int(run[-1]) + 1 if len(run) else 1, -1, np.int64)
    at = np.flatnonzero(waits)
    last_wait[run[at]] = at  # of several, the last stays
    held: Mask = busy & (np.arange(len(busy)) <= last_wait[run])
    return held


def critical(parts: Segments) -> Segments:
    """The same segments with ``busy`` where the device is on the critical path: in an account of them, ``busy`` is the
    device's part of the path and ``idle`` the host's, by state.
    """
    return Segments(parts.starts, parts.lengths, parts.states, on_device(parts))
