"""Tensors on their way to the device: which, from which line, and how long the training thread moved them.

Owns what is kept of them. A step may move hundreds of small tensors one by one; each costs a few microseconds of its
own, so after `MOST_LISTED` of no batch between two cuts only their time is kept, and calls of one line that follow
each other closely are one span.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from xla_insight.facts.events import Event, Kind
from xla_insight.record.stacks import Stacks

MOST_LISTED = 32
LEAST_NS = 20_000
"""A single call that is over sooner only handed the tensor on."""
APART_NS = 50_000
"""Calls of one line with less between them are one span."""


class _Span:
    """Calls of one line, so far."""

    __slots__ = ("begin_ns", "code", "end_ns", "line", "site", "size")

    def __init__(self, frame: FrameType, site: int, begin_ns: int) -> None:
        self.code: CodeType = frame.f_code
        self.line = frame.f_lineno
        self.site = site
        self.begin_ns = self.end_ns = begin_ns
        self.size = 0

    def goes_on(self, frame: FrameType, begin_ns: int) -> bool:
        return frame.f_code is self.code and frame.f_lineno == self.line and begin_ns - self.end_ns < APART_NS


class Uploads:
    """``span`` takes an event. All but `given` are called on the thread that moves the tensor; only what the thread
    that made this object moves is put together."""

    def __init__(self, stacks: Stacks, span: Callable[[Event], None]) -> None:
        self._stacks = stacks
        self._span = span
        self._thread = threading.get_ident()
        self._open: _Span | None = None
        self._listed = 0
        self.unlisted = 0
        """Tensors of which only the time was kept."""

    def given(self, name: str, tensor: Any, frame: FrameType, maker: int | None) -> None:
        """A loader moved a tensor of a batch behind the training thread, which gets it now."""
        self._list(name, tensor, self._stacks.capture(frame), maker, time.perf_counter_ns())

    def moved(self, name: str | None, tensor: Any, frame: FrameType, maker: int | None, begin_ns: int) -> None:
        """A call that began at ``begin_ns`` has moved a tensor; ``name`` and ``maker`` as in ``batches.Origin``, None
        when it is of no batch."""
        now = time.perf_counter_ns()
        if threading.get_ident() != self._thread:
            site = self._stacks.capture(frame)
            self._list(name, tensor, site, maker, now)
            self._end(begin_ns, now, site, tensor.nbytes)
            return
        listed = name is not None or self._listed < MOST_LISTED
        known = self._open
        if known is None or not known.goes_on(frame, begin_ns):
            self._close()
            known = self._open = _Span(frame, self._stacks.capture(frame), begin_ns)
        elif listed:  # the same line, but perhaps called from another one
            site = self._stacks.capture(frame)
            if site != known.site:
                self._close()
                known = self._open = _Span(frame, site, begin_ns)
        known.end_ns = now
        known.size += tensor.nbytes
        if listed:
            self._listed += name is None
            self._list(name, tensor, known.site, maker, now)
        else:
            self.unlisted += 1

    def cut(self) -> None:
        """The training thread cut the graph."""
        if threading.get_ident() == self._thread:
            self._listed = 0
            self._close()

    def ending(self) -> None:
        """The recording is about to end."""
        self._close()
        if self.unlisted:
            why = f"of no batch came after the first {MOST_LISTED} between two cuts: only their time is known"
            lost = float(self.unlisted)
            self._span(Event(time.perf_counter_ns(), None, Kind.LOST, name="uploads", value=lost, detail=why))

    def _close(self) -> None:
        known, self._open = self._open, None
        if known is not None:
            self._end(known.begin_ns, known.end_ns, known.site, known.size)

    def _end(self, begin_ns: int, end_ns: int, site: int, size: int) -> None:
        if end_ns - begin_ns >= LEAST_NS:
            moved = Event(begin_ns, end_ns - begin_ns, Kind.TRANSFER, site=site, name="upload", value=float(size))
            self._span(moved)

    def _list(self, name: str | None, tensor: Any, site: int, maker: int | None, now: int) -> None:
        dtype = str(tensor.dtype).removeprefix("torch.")
        value = None if maker is None else float(maker)
        dims = tuple(tensor.shape)
        self._span(Event(now, None, Kind.INPUT, site=site, name=name, value=value, dims=dims, detail=dtype))
