"""What ``run.json`` and ``process.json`` say, in the types that the rest relies on; anything else is dropped.

Owns the check of facts that come from a file anybody may have written. Leaves opening files to ``run_files``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xla_insight.errors import RunFormatError
from xla_insight.facts.events import SCHEMA_VERSION

MAX_NS = 1 << 60
"""36 years: no recorded time is beyond it, and sums of a few of them fit 64 bits."""

_MAX_WALL_NS = 1 << 62
_TEXTS = ("id", "uuid", "group", "host", "cwd", "device", "level", "ended", "run", "spool", "last_error")
_WHOLE = ("pid", "local_rank", "world_size", "dropped", "end_mono_ns", "started_unix_ns", "threads")
_OBJECTS = ("versions", "environment", "capabilities", "fault_messages", "persistent_cache", "windows")
_COUNTS = ("lost", "faults", "counters")


def checked(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts whose values have the expected type; facts of unknown names are kept as they are.

    Raises RunFormatError for a schema that this version cannot read.
    """
    version = facts.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RunFormatError("names no schema version; was it written by xla-insight?")
    if version > SCHEMA_VERSION:
        raise RunFormatError(
            f"was written by a newer xla-insight (schema {version}, this one reads {SCHEMA_VERSION}); upgrade it"
        )
    kept = {str(name): value for name, value in facts.items() if _fits(str(name), value)}
    if "command" in kept:
        kept["command"] = [str(part) for part in kept["command"]]
    for name in _COUNTS:
        if name in kept:
            kept[name] = {str(key): value for key, value in kept[name].items() if is_whole(value) and value >= 0}
    return kept


def is_whole(value: object) -> bool:
    """Whether a value is a whole number that fits 64 bits with room to add."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_WALL_NS


def anchor(facts: Mapping[str, Any]) -> tuple[int, int] | None:
    """(monotonic ns, wall clock ns since the epoch) of one instant of the process; None when the facts have none."""
    mono, wall = facts.get("start_mono_ns"), facts.get("wall_anchor_ns")
    return plausible_anchor(mono, wall)


def plausible_anchor(mono: object, wall: object) -> tuple[int, int] | None:
    """The pair, when both are times that a clock can show."""
    if isinstance(mono, int) and isinstance(wall, int) and 0 <= mono < MAX_NS and 0 < wall < _MAX_WALL_NS:
        return mono, wall
    return None


def part_facts(facts: Mapping[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Name of each closed part that the writer knew -> (rows, bytes, CRC-32)."""
    parts = facts.get("parts")
    known = parts.items() if isinstance(parts, Mapping) else ()
    return {
        str(name): (values[0], values[1], values[2])
        for name, values in known
        if isinstance(values, list) and len(values) == 3 and all(is_whole(value) for value in values)
    }


def _fits(name: str, value: object) -> bool:
    if value is None:
        return False
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _WHOLE:
        return is_whole(value)
    if name in _OBJECTS or name in _COUNTS:
        return isinstance(value, dict)
    if name == "command":
        return isinstance(value, list)
    if name == "rank":
        return isinstance(value, int) and 0 <= value < 1 << 31
    return True
