"""Source lines in graphs: asked for while first graphs are traced, not in steady state, again after a surprise.

Owns when. Lines make tracing 30 to 60 % slower and leave every graph hash as it is; a graph traced without them gets
its lines from the earlier graph it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable

CUTS = 24
"""Cuts of the graph without a compile after which tracing is left alone: a few steps, with several reads in each."""


class LineCapture:
    """``look`` is called at the end of each cut, on the training thread."""

    def __init__(self, switch: Callable[[bool], object], always: bool = False) -> None:
        self._switch = switch
        self._always = always
        self._left = CUTS
        self._misses = -1
        self.on = False

    def start(self) -> None:
        """The recording begins: the first graphs are next."""
        self.on = True
        self._switch(True)

    def look(self, misses: int) -> None:
        """A cut is over; ``misses``: compiles so far."""
        if misses != self._misses:
            self._misses = misses
            self._left = CUTS
            if not self.on:
                self.start()
        elif self.on and not self._always:
            self._left -= 1
            if self._left <= 0:
                self.stop()

    def stop(self) -> None:
        """Trace as the user's program would without us."""
        if self.on:
            self.on = False
            self._switch(False)
