"""The one sentence of a comparison: faster or slower, by how much, through what, or that it is no more than noise.

Owns what counts as evidence: step time without compiles must pass the test of ``step_time``; compiles after warm-up are
counted, so another number of them is a fact and no noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from xla_insight.analysis.compare.step_time import LEAST_CHANGE_PCT, LEAST_STEPS, SteadySteps
from xla_insight.facts import numbers
from xla_insight.facts.comparison import GraphChanges, GraphPair, Judgement, StepTime
from xla_insight.facts.report import HostState

_WORDS = {
    HostState.COMPILE: "compiling",
    HostState.DEVICE_WAIT: "waiting for the device",
    HostState.INPUT_WAIT: "waiting for input",
    HostState.TRANSFER: "moving tensors",
    HostState.CHECKPOINT: "saving",
    HostState.GC: "garbage collection",
    HostState.TRACE: "Python and tracing",
    HostState.OUTSIDE: "work outside the framework",
}


@dataclass(frozen=True)
class _Change:
    """What a step takes more (ms), as far as it is proven."""

    plain_ms: float
    compile_ms: float

    @property
    def total_ms(self) -> float:
        return self.plain_ms + self.compile_ms


def judge(step_time: StepTime, before: SteadySteps, now: SteadySteps, changes: GraphChanges | None) -> Judgement:
    """The verdict; ``changes`` adds the line that differs, when one is known."""
    old_ms, new_ms = step_time.mean_before_ms, step_time.mean_now_ms
    line = _line(changes)
    if not old_ms or new_ms is None:
        return Judgement("unknown", None, f"Step times cannot be compared: {_no_steps(before, now)}.{line}")
    change = _proven(step_time, before, now)
    percent = 100 * change.total_ms / old_ms
    if abs(percent) >= LEAST_CHANGE_PCT:
        direction = "slower" if percent > 0 else "faster"
        sentence = (
            f"A step takes {_percent(percent)} {'longer' if percent > 0 else 'less time'} than before:"
            f" {_ms(new_ms)} against {_ms(old_ms)}{_interval(step_time)}; {_why(change, before, now)}."
        )
        return Judgement(direction, percent, sentence + line)
    if step_time.p_value is None:
        few = min(len(before), len(now))
        sentence = (
            f"Too few steps to compare: {numbers.plural(few, 'step')} after warm-up, {LEAST_STEPS} are needed"
            f" ({_ms(new_ms)} a step now, {_ms(old_ms)} before)."
        )
        return Judgement("unknown", None, sentence + line)
    noise = f"steps of one run differ by {_percent(step_time.noise_pct or 0.0)} on their own"
    sentence = (
        f"No difference in step time beyond noise: {_ms(new_ms)} now, {_ms(old_ms)} before{_interval(step_time)};"
        f" {noise}."
    )
    return Judgement("same", 0.0, sentence + line)


def _proven(step_time: StepTime, before: SteadySteps, now: SteadySteps) -> _Change:
    plain_ms = 0.0
    if step_time.significant and step_time.change_pct is not None and step_time.plain_before_ms is not None:
        plain_ms = step_time.plain_before_ms * step_time.change_pct / 100
    # The same number of compiles takes a little more or less time, or is spread over more steps: that is no change.
    more = (now.compiles - before.compiles, _rate(now) - _rate(before))
    compile_ms = now.compile_ms - before.compile_ms if more[0] * more[1] > 0 else 0.0
    return _Change(plain_ms, compile_ms)


def _rate(steps: SteadySteps) -> float:
    return steps.compiles / len(steps) if len(steps) else 0.0


def _why(change: _Change, before: SteadySteps, now: SteadySteps) -> str:
    """The host state that makes most of the difference."""
    if abs(change.compile_ms) > abs(change.plain_ms):
        counts = f"{numbers.plural(now.compiles, 'compile')} after warm-up now, {numbers.count(before.compiles)} before"
        return f"compiling takes {_ms(abs(change.compile_ms))} {_more(change.compile_ms)} a step ({counts})"
    moved = {
        state: float(now.table[f"host_{state}_ns"].mean() - before.table[f"host_{state}_ns"].mean()) / 1e6
        for state in HostState
        if state is not HostState.COMPILE
    }
    sign = 1 if change.plain_ms > 0 else -1
    state = max(moved, key=lambda name: sign * moved[name])
    return f"most of it is {_WORDS[state]}, {_ms(abs(moved[state]))} {_more(moved[state])} a step"


def _more(milliseconds: float) -> str:
    return "more" if milliseconds > 0 else "less"


def _interval(step_time: StepTime) -> str:
    if step_time.interval_pct is None:
        return ""
    low, high = step_time.interval_pct
    return f" (without compiles {_signed(low)} to {_signed(high)}, 95 % interval)"


def _line(changes: GraphChanges | None) -> str:
    """The line whose graph changed; the one that most graphs have."""
    named = [pair for pair in changes.of("changed") if pair.line_known] if changes is not None else []
    if not named:
        return ""
    by_line: dict[tuple[str, int], list[GraphPair]] = {}
    for pair in named:
        assert pair.site is not None
        by_line.setdefault((pair.site.file, pair.site.line), []).append(pair)
    pairs = max(by_line.values(), key=lambda found: sum(pair.executions or 0 for pair in found))
    more = f" and {numbers.plural(len(by_line) - 1, 'other line')}" if len(by_line) > 1 else ""
    site = pairs[0].site
    assert site is not None
    source = f" ({site.source.strip()})" if site.source.strip() else ""
    graphs = numbers.plural(len(pairs), "graph")
    return f" {graphs} changed at {numbers.place(site.file, site.line)}{source}{more}."


def _no_steps(before: SteadySteps, now: SteadySteps) -> str:
    if not len(before) and not len(now):
        return "neither run has steps after its warm-up"
    return f"the {'first' if not len(before) else 'second'} run has no steps after its warm-up"


def _ms(milliseconds: float) -> str:
    return numbers.duration(milliseconds / 1e3)


def _percent(value: float) -> str:
    return numbers.percent(abs(value))


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{numbers.significant(abs(value), 2)} %"
