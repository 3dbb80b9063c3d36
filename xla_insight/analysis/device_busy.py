"""What device windows measured of each single device of a process that has several.

Owns the sums. Leaves which device ran when to ``windows.each_device``, and what is known without windows, of all
devices of a process together, to ``device_facts``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_insight.analysis.intervals import union
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.windows import device_sessions
from xla_insight.facts import numbers
from xla_insight.facts.devices import MeasuredDevice

EVEN_POINTS = 1.0
"""Shares that lie within so many points are the same in words."""


def measured_devices(tables: RunTables, process: Process) -> tuple[MeasuredDevice, ...]:
    """Each device of a process over all its windows, in their order; empty where no window tells them apart."""
    sessions = [one for one in device_sessions(tables, process.index) if one.devices]
    names = process.facts.get("devices")
    if not sessions or not isinstance(names, list | tuple):
        return ()
    measured_ns = sum(
        max(int(runs.ends.max()) for runs in one.devices) - min(int(runs.starts.min()) for runs in one.devices)
        for one in sessions
    )
    found = []
    for number, name in enumerate(names):
        own = [one.devices[number] for one in sessions]
        busy = [union(runs) for runs in own]
        found.append(
            MeasuredDevice(
                process=process.index,
                rank=process.rank,
                device=str(name),
                executions=sum(len(runs.starts) for runs in own),
                measured_s=measured_ns / 1e9,
                busy_s=sum(int(np.sum(runs.ends - runs.starts)) for runs in busy) / 1e9,
            )
        )
    return tuple(found)


def measured_sentence(devices: Sequence[MeasuredDevice]) -> str:
    """How busy single devices were, in words; empty when that was not measured."""
    if not devices:
        return ""
    shares = [100 * one.busy_s / one.measured_s for one in devices]
    least = devices[shares.index(min(shares))]
    length = numbers.duration(max(one.measured_s for one in devices))
    if max(shares) - min(shares) <= EVEN_POINTS:
        return f"In device windows ({length}) each single device ran programs for {max(shares):.0f} % of the time."
    return (
        f"In device windows ({length}) single devices ran programs for {min(shares):.0f} to {max(shares):.0f} % of the"
        f" time, {least.device} the least."
    )
