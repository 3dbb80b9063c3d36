"""Graphs of a recording that began after the runtime: read from the compiler's live programs, now and then.

A profiler session that is opened and closed at once holds the optimized HLO of every live program, numbered in order of
compilation. Owns when such a session is taken (some time after a compile, never often) and which of its programs
belongs to which compile: by order, and only when there are as many new programs as compiles. Works on the drain thread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from xla_insight.facts.wire import fields
from xla_insight.record.blocks import Block
from xla_insight.record.modules import Module

QUIET_S = 1.0
"""Wait this long after a compile: more may follow."""
LATEST_S = 20.0
"""Do not wait longer than this: a program may be dropped."""
REST = 50
"""Between sessions at least this many times as long as the last one took: it holds the interpreter meanwhile."""

_PLANES, _PLANE_NAME, _EVENTS = 1, 2, 4
_MAP_VALUE = 2
_EVENT_NAME, _EVENT_STATS = 2, 5
_STAT_BYTES = 6
_METADATA_PLANE = b"/host:metadata"
_NUMBERED = re.compile(rb".*\((\d+)\)")


class Sessions:
    """``take`` opens and closes a session and returns its XSpace; ``keep`` stores a module under a graph."""

    def __init__(self, take: Callable[[], bytes], keep: Callable[[str, Module], None]) -> None:
        self._take = take
        self._keep = keep
        self._waiting: list[Block | None] = []
        self._last_number = -1
        self._first_wait_s = self._last_compile_s = 0.0
        self._not_before_s = 0.0
        self.unmatched = 0
        """Compiles whose program could not be told, since the last call of `lost`."""

    def start(self) -> None:
        """What was compiled before the recording is not looked at."""
        self._last_number = max(self._programs(), default=-1)

    def compiled(self, block: Block | None) -> None:
        """A graph was compiled; None when the framework did not describe it."""
        now = time.monotonic()
        if not self._waiting:
            self._first_wait_s = now
        self._last_compile_s = now
        self._waiting.append(block)

    def look(self, final: bool = False) -> None:
        """Take a session when one is due."""
        if not self._waiting:
            return
        now = time.monotonic()
        quiet = now - self._last_compile_s >= QUIET_S or now - self._first_wait_s >= LATEST_S
        if not final and (not quiet or now < self._not_before_s):
            return
        waiting, self._waiting = self._waiting, []
        programs = self._programs()
        fresh = [programs[number] for number in sorted(programs) if number > self._last_number]
        self._last_number = max([self._last_number, *programs])
        if len(fresh) != len(waiting):
            self.unmatched += len(waiting)
            return
        for block, content in zip(waiting, fresh, strict=True):
            module = Module(content)
            if block is None or block.graph is None:
                continue
            if module.fits(block):
                self._keep(block.graph, module)
            else:
                self.unmatched += 1

    def _programs(self) -> dict[int, bytes]:
        """Number -> serialized ``HloProto`` of every live program."""
        begin = time.monotonic()
        space = self._take()
        end = time.monotonic()
        self._not_before_s = end + REST * (end - begin)
        return read_programs(space)


def read_programs(space: bytes) -> dict[int, bytes]:
    """Number -> serialized ``HloProto`` of the programs in an XSpace. Never raises; a damaged one has none."""
    try:
        return dict(_programs(memoryview(space)))
    except (ValueError, IndexError):
        return {}


def _programs(space: memoryview) -> list[tuple[int, bytes]]:
    found = []
    for plane in _messages(space, _PLANES):
        if not any(bytes(name) == _METADATA_PLANE for name in _messages(plane, _PLANE_NAME)):
            continue
        for entry in _messages(plane, _EVENTS):
            for event in _messages(entry, _MAP_VALUE):
                found.extend(_program(event))
    return found


def _program(event: memoryview) -> list[tuple[int, bytes]]:
    names = [match for name in _messages(event, _EVENT_NAME) if (match := _NUMBERED.fullmatch(bytes(name)))]
    modules = [bytes(m) for stat in _messages(event, _EVENT_STATS) for m in _messages(stat, _STAT_BYTES)]
    return [(int(names[0][1]), modules[0])] if names and modules else []


def _messages(message: memoryview, number: int) -> list[memoryview]:
    return [value for field, value in fields(message) if field == number and isinstance(value, memoryview)]
