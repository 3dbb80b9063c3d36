"""Graphs of a recording that began after the runtime: read from the compiler's live programs, now and then.

A profiler session that is opened and closed at once holds the optimized HLO of every live program, numbered in order of
compilation. Owns when such a session is taken (some time after a compile, never often) and which of its programs
belongs to which compile: by order, and only when there are as many new programs as compiles. Works on the drain thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from xla_insight.facts.xspace import read_programs
from xla_insight.record.blocks import Block
from xla_insight.record.modules import Module

QUIET_S = 1.0
"""Wait this long after a compile: more may follow."""
LATEST_S = 20.0
"""Do not wait longer than this: a program may be dropped."""
REST = 50
"""Between sessions at least this many times as long as the last one took: it holds the interpreter meanwhile."""

MAX_RETRIES = 2
"""Looks at which programs and compiles may differ in number before these compiles are given up: one that is just over
is known by its program first, or the other way round."""
AGAIN_S = 5.0
"""Ask again after this time while another session is open."""


class Sessions:
    """``take`` opens and closes a session and returns its XSpace, None while another session is open; ``keep`` stores
    a module under a graph."""

    def __init__(self, take: Callable[[], bytes | None], keep: Callable[[str, Module], None]) -> None:
        self._take = take
        self._keep = keep
        self._waiting: list[Block | None] = []
        self._last_number = -1
        self._first_wait_s = self._last_compile_s = 0.0
        self._not_before_s = 0.0
        self._retries = 0
        self.unmatched = 0
        """Compiles whose program could not be told, since the last call of `lost`."""

    def start(self) -> None:
        """What was compiled before the recording is not looked at."""
        self._last_number = max(self._programs() or (), default=-1)

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
        programs = self._programs()
        if programs is None and not final:
            return
        programs = programs or {}
        fresh = [programs[number] for number in sorted(programs) if number > self._last_number]
        if len(fresh) != len(self._waiting) and not final and self._retries < MAX_RETRIES:
            self._retries += 1
            self._first_wait_s = self._last_compile_s = now
            return
        waiting, self._waiting, self._retries = self._waiting, [], 0
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

    def _programs(self) -> dict[int, bytes] | None:
        """Number -> serialized ``HloProto`` of every live program; None when it cannot be asked now."""
        begin = time.monotonic()
        space = self._take()
        end = time.monotonic()
        if space is None:
            self._not_before_s = end + AGAIN_S
            return None
        self._not_before_s = end + REST * (end - begin)
        return read_programs(space)
