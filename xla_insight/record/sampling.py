"""Which line the training thread is at, looked at from another thread a few times a second.

Spans say that the host ran Python; only this says which lines of it. Owns when to look and how. Leaves what a line is
called to ``stacks``.

Nothing that the program holds may live longer because of a look: a tensor alive at a cut is an output of its graph. So
a whole stack is read in one call of C code, within which no other thread runs and no frame is left referred to.
"""

from __future__ import annotations

import gc
import itertools
import operator
import random
import sys
import time
from types import CodeType
from typing import Any, TypeAlias

from xla_insight.facts.events import Event, Kind
from xla_insight.record.stacks import Stacks

SAMPLE_S = 0.1
"""How often on average; at other moments each time, so that no loop of the program keeps step with it."""
MAX_FRAMES = 200
_READ = operator.attrgetter("f_code", "f_lineno")
Stack: TypeAlias = tuple[tuple[CodeType, int], ...]


class Sampler:
    """Looks at one thread. ``look`` runs on the drain thread."""

    def __init__(self, stacks: Stacks) -> None:
        self.ident = 0
        """Of the thread that is looked at."""
        self._stacks = stacks
        self._chance = random.Random()  # the program's own numbers stay as they are

    def pause_s(self) -> float:
        """How long to wait until the next look."""
        return SAMPLE_S * self._chance.uniform(0.5, 1.5)

    def look(self) -> Event | None:
        """Where the thread is now, when that can be told."""
        stack = stack_of(self.ident)
        now = time.perf_counter_ns()
        site = None if stack is None else self._stacks.intern_sample(stack)
        return None if site is None else Event(now, None, Kind.SAMPLE, site=site)


def stack_of(ident: int) -> Stack | None:
    """(code, line) of each frame of a thread, innermost first; None when it is not running or now is no time to look.

    A collection of garbage in the middle could run the program's finalizers, and with them other threads: where one is
    near, nothing is read.
    """
    count, threshold = gc.get_count()[0], gc.get_threshold()[0]
    if gc.isenabled() and count + MAX_FRAMES + 20 > threshold > 0:
        return None
    # The first of these is the innermost frame; of each, "f_back" is what called it. Nothing is read before `tuple`.
    innermost = itertools.islice(map(operator.itemgetter(ident), iter(sys._current_frames, None)), 1)
    steps: itertools.chain[Any] = itertools.chain(innermost, itertools.repeat("f_back", MAX_FRAMES))
    try:
        return tuple(map(_READ, itertools.takewhile(bool, itertools.accumulate(steps, getattr))))
    except KeyError:  # the thread has ended
        return None
