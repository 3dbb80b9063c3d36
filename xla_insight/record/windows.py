"""Device windows: a few steps in which the framework's profiler sees every operation of the device.

Owns when a window opens and closes, and what it may cost. Ending a session holds the interpreter for about 0.1 s and a
megabyte of live programs, so a window that nobody asked for is taken only when all windows so far, with this one, take
at most `BUDGET_SHARE` of the time recorded, in the steady state, and when the recording is twice as old as at the last
one: one early, then ever rarer, the last in the later half of the run. Leaves what is in a session to the reading side.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from xla_insight.facts.events import StepSource
from xla_insight.record.clock import Anchor, take_anchor
from xla_insight.record.profiler import Profiler
from xla_insight.record.window_plan import WINDOW_STEPS, WindowPlan

BUDGET_SHARE = 0.01
QUIET_STEPS = 8
"""Steps without a compile before a run counts as steady."""
LONGEST_S, LONGEST_AUTO_S = 20.0, 5.0
"""A window is closed after this time, wherever its steps are: what a session holds grows with it, up to 10 MB/s."""
FIRST_STOP_S, FIRST_STOP_S_PER_BYTE = 0.03, 1.5e-7
"""Expected cost of ending the first session, of which only the size of the graphs compiled so far is known."""
GROWTH = 2.0
"""A session may cost this many times the last: it holds the programs that came since, and steps may have grown longer.
In trainings of some minutes the second took 1.9 and 2.3 times the first."""

_SOURCES = list(StepSource)


class Window(NamedTuple):
    """A session that has ended: the steps it was opened for, both ends (ns, monotonic), what ending it took, and why it
    was closed before its time ("" when it was not)."""

    first_step: int
    last_step: int
    begin: Anchor
    end_ns: int
    stop_ns: int
    note: str


class Windows:
    """``keep`` takes each window with its session. `step_ended` and `cut` are called on the training thread.

    ``compiled_bytes``: size of all graphs compiled so far.
    """

    def __init__(
        self,
        plan: WindowPlan,
        profiler: Profiler,
        keep: Callable[[Window, bytes], None],
        compiled_bytes: Callable[[], int],
    ) -> None:
        self._plan = plan
        self._profiler = profiler
        self._keep = keep
        self._compiled_bytes = compiled_bytes
        self._ahead = list(plan.steps)
        self._open: tuple[int, int, Anchor] | None = None
        self._source: StepSource | None = None
        self._cuts: Counter[int] = Counter()
        self._begin_s = self._last_s = 0.0
        self._misses = self._quiet = 0
        self._steps = 0
        self.taken = 0
        self.stop_s = 0.0
        self.skipped: Counter[str] = Counter()
        """Why windows were not taken, and how many."""

    def start(self) -> None:
        """The recording begins: step 0 is next."""
        self._begin_s = time.monotonic()
        self._open_planned(0)

    def cut(self, site: int, misses: int) -> None:
        """A cut that the program asked for is over. Where nobody marks steps, the line that cuts most often ends them;
        ``misses``: compiles so far."""
        if self._source is None and self._plan.wanted:
            self._cuts[site] += 1
            if self._cuts[site] > self._steps:
                self._steps = self._cuts[site]
                self._step_ended(self._steps - 1, misses)

    def step_ended(self, source: StepSource, number: int, misses: int) -> None:
        """``source`` marks the end of step ``number``; the best source that has spoken counts."""
        if not self._plan.wanted:
            return
        if self._source is None or _SOURCES.index(source) < _SOURCES.index(self._source):
            self._source = source
        if source is self._source:
            self._step_ended(number, misses)

    def tick(self) -> None:
        """Close a window that has been open for too long."""
        window = self._open
        if window is not None:
            longest_s = LONGEST_S if self._plan.steps else LONGEST_AUTO_S
            if time.perf_counter_ns() - window[2].mono_ns > longest_s * 1e9:
                self.close(f"closed after {longest_s:.0f} s")

    def stop(self) -> None:
        """The recording ends."""
        self.close("closed by the end of the recording")
        if self._plan.automatic and not self.taken and not self.skipped:
            share = f"{100 * BUDGET_SHARE:.0f} %"
            cost = f"about {self._expected_stop_s():.2f} s"
            self.skipped[f"the steady part was too short for a window ({cost}) to stay below {share} of it"] += 1
        for _ in self._ahead:
            self.skipped["the run ended before its steps"] += 1

    def close(self, note: str = "") -> None:
        """End the open window, if there is one, and keep it."""
        with self._profiler.hold():
            window, self._open = self._open, None
            if window is None:
                return
            first, last, begin = window
            end_ns = time.perf_counter_ns()
            content = self._profiler.close()
            stop_ns = time.perf_counter_ns() - end_ns
            self.taken += 1
            self.stop_s += stop_ns / 1e9
            self._last_s = time.monotonic()
            self._keep(Window(first, last, begin, end_ns, stop_ns, note), content)

    def facts(self) -> dict[str, object]:
        """What was taken and what not, for the facts of the process."""
        return {
            "plan": str(self._plan),
            "taken": self.taken,
            "stop_s": round(self.stop_s, 6),
            "skipped": dict(self.skipped),
        }

    def _step_ended(self, number: int, misses: int) -> None:
        self._quiet = self._quiet + 1 if misses == self._misses else 0
        self._misses = misses
        if self._open is not None:
            if number < self._open[1]:
                return
            self.close()
        if self._plan.steps:
            self._open_planned(number + 1)
        elif self._plan.every:
            if (number + 1) % self._plan.every == 0:
                self._begin(number + 1, number + WINDOW_STEPS)
        elif self._plan.automatic and self._is_cheap():
            self._last_s = time.monotonic()
            self._begin(number + 1, number + WINDOW_STEPS)

    def _open_planned(self, step: int) -> None:
        while self._ahead and self._ahead[0][1] < step:
            self._ahead.pop(0)
            self.skipped["its steps were over before recording reached them"] += 1
        if self._ahead and self._ahead[0][0] <= step:
            first, last = self._ahead.pop(0)
            self._begin(max(first, step), last)

    def _is_cheap(self) -> bool:
        if self._quiet < QUIET_STEPS:
            return False
        now = time.monotonic()
        age_s = now - self._begin_s
        if age_s < 2 * (self._last_s - self._begin_s):
            return False
        return self.stop_s + self._expected_stop_s() <= BUDGET_SHARE * age_s

    def _expected_stop_s(self) -> float:
        known = self._profiler.last_stop_s
        return GROWTH * known if known is not None else FIRST_STOP_S + FIRST_STOP_S_PER_BYTE * self._compiled_bytes()

    def _begin(self, first: int, last: int) -> None:
        with self._profiler.hold():
            if self._profiler.open():
                self._open = (first, last, take_anchor())
            else:
                self.skipped["another profiler session was open"] += 1
