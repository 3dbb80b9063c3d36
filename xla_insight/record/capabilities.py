"""What a recording can capture, as it says itself: for ``process.json`` and every surface."""

from __future__ import annotations

from typing import Any

from xla_insight.record.window_plan import WindowPlan


def capabilities(phase: str, settings: Any, windows: WindowPlan) -> dict[str, Any]:
    """What this recording can capture, given when it began, the framework's settings and the plan for device windows.

    ``graph_capture``: `compiles` (every graph as it was cut), `programs` (graphs after optimization), or False.
    ``device_time``: `windows` (measured in some steps, when they are taken) or `inferred`.
    """
    graph_capture: str | bool = "programs" if settings.file is not None else False
    if settings.dump is not None:
        graph_capture = "compiles"
    return {
        "phase": phase,
        "events": True,
        "graph_hash": settings.file is not None,
        "graph_hash_reason": settings.reason,
        "triggers": True,
        "graph_capture": graph_capture,
        "graph_capture_reason": settings.dump_reason,
        "graph_text": settings.text is not None,
        "device_time": "windows" if windows.wanted else "inferred",
    }
