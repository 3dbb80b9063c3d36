"""Profiler sessions made by hand: threads, spans and device operations at known times, as the profiler writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Made(NamedTuple):
    """A span in ns since the session began; ``operation`` and ``program`` for what the device ran.

    ``given`` and ``taken``: the number of a piece of work that the thread gives to another, or takes, at its start.
    """

    name: str
    start_ns: int
    end_ns: int
    operation: str | None = None
    program: int = 0
    given: int | None = None
    taken: int | None = None


def varint(number: int) -> bytes:
    """A whole number that is not negative."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def whole(field: int, number: int) -> bytes:
    """A field that holds a number."""
    return varint(field << 3) + varint(number)


def message(field: int, content: bytes) -> bytes:
    """A field that holds bytes."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def make_session(
    threads: Mapping[str, Sequence[Made]],
    programs: Mapping[int, bytes] | None = None,
    start_wall_ns: int = 1_790_000_000_000_000_000,
    line_start_ns: int = 5_190,
) -> bytes:
    """The bytes of a session. Spans must not begin before ``line_start_ns``."""
    stats = {"hlo_op": 1, "program_id": 2}
    names: dict[str, int] = {}
    lines = []
    for number, (thread, spans) in enumerate(threads.items()):
        events = b""
        for span in spans:
            identity = names.setdefault(span.name, len(names) + 1)
            event = whole(1, identity) + whole(2, (span.start_ns - line_start_ns) * 1000)
            event += whole(3, (span.end_ns - span.start_ns) * 1000)
            if span.operation is not None:
                reference = stats.setdefault(span.operation, len(stats) + 1)
                event += message(4, whole(1, stats["hlo_op"]) + whole(7, reference))
                event += message(4, whole(1, stats["program_id"]) + whole(4, span.program))
            events += message(4, event)
            for word, stat, work in (("Record", "_p", span.given), ("StartRegion", "_c", span.taken)):
                if work is not None:
                    identity = names.setdefault(f"ThreadpoolListener::{word}", len(names) + 1)
                    mark = whole(1, identity) + whole(2, (span.start_ns - line_start_ns) * 1000)
                    kind = message(4, whole(1, stats.setdefault(f"{stat}t", len(stats) + 1)) + whole(3, 15))
                    work_stat = message(4, whole(1, stats.setdefault(stat, len(stats) + 1)) + whole(3, work))
                    events += message(4, mark + kind + work_stat)
            events += message(4, whole(1, names.setdefault(f"end: {span.name}", len(names) + 1)) + whole(2, 0))
        lines.append(message(3, whole(1, number) + message(2, thread.encode()) + whole(3, line_start_ns) + events))
    host = message(2, b"/host:CPU") + b"".join(lines) + _map(4, names) + _map(5, stats)
    live = b"".join(_program(number, content) for number, content in (programs or {}).items())
    times = message(2, b"Task Environment") + _map(5, {"profile_start_time": 1, "profile_stop_time": 2})
    for identity, wall_ns in ((1, start_wall_ns), (2, start_wall_ns + 1_000_000_000)):
        times += message(6, whole(1, identity) + whole(3, wall_ns))
    return message(1, message(2, b"/host:metadata") + live) + message(1, host) + message(1, times)


def _map(field: int, names: Mapping[str, int]) -> bytes:
    entries = (
        whole(1, number) + message(2, whole(1, number) + message(2, name.encode())) for name, number in names.items()
    )
    return b"".join(message(field, entry) for entry in entries)


def _program(number: int, content: bytes) -> bytes:
    event = message(2, b"SyncTensorsGraph.9(%d)" % number) + message(5, message(6, content))
    return message(4, whole(1, number) + message(2, event))
