"""What device windows say: when the device was busy, to the nanosecond, with which operations of which lines.

A window is a profiler session over a few steps. ``sessions`` places what it holds on the run's axis, ``operations``
names the device's operations and their lines, ``measured`` compares with what is inferred elsewhere, ``before_waits``
and ``before_work`` take what is seen of waits, and of graphs that wait for their inputs, to the rest of the run.
"""

from __future__ import annotations

from xla_insight.analysis.windows.before_waits import not_yet_blocked
from xla_insight.analysis.windows.before_work import not_yet_at_work
from xla_insight.analysis.windows.measured import measured_time
from xla_insight.analysis.windows.operations import operation_table
from xla_insight.analysis.windows.sessions import DeviceSession, device_sessions, measured_busy, stops

__all__ = [
    "DeviceSession",
    "device_sessions",
    "measured_busy",
    "measured_time",
    "not_yet_at_work",
    "not_yet_blocked",
    "operation_table",
    "stops",
]
