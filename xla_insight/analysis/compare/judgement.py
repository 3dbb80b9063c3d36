"""The one sentence of a comparison: faster or slower, by how much, through what, or that it is no more than noise.

Owns what counts as evidence: step time without compiles must pass the test of ``step_time``; compiles after warm-up are
counted, so another number of them is a fact and no noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from xla_insight.analysis.compare.step_time import LEAST_CHANGE_PCT, LEAST_STEPS, SteadySteps
from xla_insight.facts import numbers
from xla_insight.facts.comparison import CauseChange, ComparedRun, GraphChanges, GraphPair, Judgement, StepTime
from xla_insight.facts.report import HostState

MANY_TIMES, SMALL_PART = 1.95, 0.1
"""From which ratio on a step is said to take so many times as long, and below which a part of the time."""
_MOVED = {"appeared": "What is new", "gone": "What is gone"}
_IN_TIMES_FROM_PCT = 200.0
"""A change above this is easier to read as a factor."""
_WORDS = {
    HostState.COMPILE: "compiling",
    HostState.DEVICE_WAIT: "waiting for the device",
    HostState.INPUT_WAIT: "waiting for input",
    HostState.TRANSFER: "moving tensors",
    HostState.CHECKPOINT: "saving",
    HostState.GC: "garbage collection",
    HostState.TRACE: "Python and tracing",
    HostState.OUTSIDE: "closing device windows",
}


@dataclass(frozen=True)
class Changes:
    """What may stand behind a difference: graphs that changed, causes and findings that came, went or grew."""

    graphs: GraphChanges
    causes: tuple[CauseChange, ...] = ()


@dataclass(frozen=True)
class _Change:
    """What a step takes more (ms), as far as it is proven."""

    plain_ms: float
    compile_ms: float

    @property
    def total_ms(self) -> float:
        return self.plain_ms + self.compile_ms

    @property
    def by_compiling(self) -> bool:
        """Whether compiles make most of it."""
        return abs(self.compile_ms) > abs(self.plain_ms)


def the_same_run(before: ComparedRun, now: ComparedRun) -> Judgement | None:
    """The verdict when both are one run, or copies of it; None when they are not."""
    if (before.id, before.started_unix_s) != (now.id, now.started_unix_s):
        return None
    what = "Both are the same run" if before.path == now.path else "Both are copies of one run"
    return Judgement("same", 0.0, f"{what}, so there is nothing to compare.")


def judge(step_time: StepTime, before: SteadySteps, now: SteadySteps, changes: Changes | None = None) -> Judgement:
    """The verdict; ``changes`` adds what came or went with it, and the line that differs, when one is known."""
    old_ms, new_ms = step_time.mean_before_ms, step_time.mean_now_ms
    line = _line(changes.graphs) if changes is not None else ""
    if not old_ms or new_ms is None:
        return Judgement("unknown", None, f"Step times cannot be compared: {_no_steps(before, now)}.{line}", line)
    change = _proven(step_time, before, now)
    percent = 100 * change.total_ms / old_ms
    if abs(percent) >= LEAST_CHANGE_PCT:
        direction = "slower" if percent > 0 else "faster"
        sentence = _difference(change, step_time, before, now)
        cause = _main_cause(change, changes.causes) if changes is not None else None
        if cause is not None and changes is not None:
            line = _cause_sentence(cause, change) + _line(changes.graphs, besides=cause.name)
        said = 100 * (new_ms / old_ms - 1) if _means_agree(change, old_ms, new_ms) else percent
        return Judgement(direction, said, sentence + line, line)
    if step_time.p_value is None:
        few = min(len(before), len(now))
        sentence = (
            f"Too few steps to compare: {numbers.plural(few, 'step')} after warm-up, {LEAST_STEPS} are needed"
            f" ({_ms(new_ms)} a step now, {_ms(old_ms)} before)."
        )
        return Judgement("unknown", None, sentence + line, line)
    noise = f"steps of one run differ by {_percent(step_time.noise_pct or 0.0)} on their own"
    sentence = (
        f"No difference in step time beyond noise: {_ms(new_ms)} now, {_ms(old_ms)} before{_interval(step_time)};"
        f" {noise}."
    )
    return Judgement("same", 0.0, sentence + line, line)


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


def _difference(change: _Change, step_time: StepTime, before: SteadySteps, now: SteadySteps) -> str:
    """By how much a step is faster or slower, and through what."""
    old_ms, new_ms = step_time.mean_before_ms or 0.0, step_time.mean_now_ms or 0.0
    why = _why(change, before, now)
    beside = "" if change.plain_ms else _beside(step_time)
    if _means_agree(change, old_ms, new_ms):
        interval = _interval(step_time) if change.plain_ms else ""
        return f"A step takes {_by(new_ms / old_ms)}: {_ms(new_ms)} against {_ms(old_ms)}{interval}; {why}{beside}."
    # What is proven is hidden by what may be chance, so the means say another thing.
    share = _percent(100 * change.total_ms / old_ms)
    return f"{why[0].upper()}{why[1:]}, {share} of a step: {_ms(new_ms)} against {_ms(old_ms)}{beside}."


def _means_agree(change: _Change, old_ms: float, new_ms: float) -> bool:
    """Whether the two mean times say what is proven, so that the reader can divide one by the other."""
    return (new_ms - old_ms) * change.total_ms > 0 and abs(new_ms / old_ms - 1) >= LEAST_CHANGE_PCT / 100


def _by(ratio: float) -> str:
    """A ratio of times, read out."""
    if ratio >= MANY_TIMES:
        return f"{numbers.significant(ratio, 2)} times as long as before"
    if ratio > 1:
        return f"{_percent(100 * (ratio - 1))} longer than before"
    if ratio > SMALL_PART:
        return f"{_percent(100 * (1 - ratio))} less time than before"
    return f"1/{numbers.significant(1 / ratio, 2)} of the time it took before"


def _why(change: _Change, before: SteadySteps, now: SteadySteps) -> str:
    """The host state that makes most of the difference."""
    if change.by_compiling:
        if not before.compiles:
            compiles = numbers.plural(now.compiles, "compile")
            return f"compiling after warm-up is new, {_ms(now.compile_ms)} a step ({compiles})"
        if not now.compiles:
            compiles = numbers.plural(before.compiles, "compile")
            return f"compiling after warm-up is gone, {_ms(before.compile_ms)} a step ({compiles})"
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


def _beside(step_time: StepTime) -> str:
    """That nothing but the compiles is known to differ."""
    if step_time.interval_pct is None:
        return ""
    return f"; the rest does not differ beyond noise ({_range(step_time.interval_pct)}, 95 % interval)"


def _main_cause(change: _Change, causes: tuple[CauseChange, ...]) -> CauseChange | None:
    """The cause that came, went or moved most with the difference."""
    sign = 1 if change.total_ms > 0 else -1
    what = "recompile" if change.by_compiling else "finding"
    moved = [(sign * ((cause.now_s or 0.0) - (cause.before_s or 0.0)), cause) for cause in causes if cause.what == what]
    known = [(seconds, cause) for seconds, cause in moved if seconds > 0]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _cause_sentence(cause: CauseChange, change: _Change) -> str:
    """What came or went, in the words of the report."""
    counts = f"{numbers.count(cause.before_count)} → {numbers.count(cause.now_count)}"
    word = _MOVED.get(cause.change) or ("There is more of" if change.total_ms > 0 else "There is less of")
    return f" {word} ({cause.name}, {counts}): {cause.summary}"


def _more(milliseconds: float) -> str:
    return "more" if milliseconds > 0 else "less"


def _interval(step_time: StepTime) -> str:
    if step_time.interval_pct is None:
        return ""
    return f" (without compiles {_range(step_time.interval_pct)}, 95 % interval)"


def _range(interval: tuple[float, float]) -> str:
    if interval[0] >= _IN_TIMES_FROM_PCT:
        low, high = (numbers.significant(1 + percent / 100, 2) for percent in interval)
        return f"{low} to {high} times as long"
    return f"{_signed(interval[0])} to {_signed(interval[1])}"


def _line(changes: GraphChanges, besides: str = "") -> str:
    """The line whose graph changed, the one that most graphs have; or the input that gave them another size, unless
    the cause ``besides`` has said that already.
    """
    named = [pair for pair in changes.of("changed") if pair.line_known]
    if not named:
        return ""
    by_line: dict[tuple[str, int, str], list[GraphPair]] = {}
    for pair in named:
        assert pair.site is not None
        by_line.setdefault((pair.site.file, pair.site.line, pair.cause), []).append(pair)
    pairs = max(by_line.values(), key=lambda found: sum(pair.executions or 0 for pair in found))
    more = f" and {numbers.plural(len(by_line) - 1, 'other line')}" if len(by_line) > 1 else ""
    site = pairs[0].site
    assert site is not None
    graphs = numbers.plural(len(pairs), "graph")
    if pairs[0].cause and pairs[0].cause == besides:
        return ""
    if pairs[0].cause:
        only = f", {more.removeprefix(' and ')} beside it" if more else ""
        return f" {graphs} changed with what enters{only}: {pairs[0].summary}"
    source = f" ({site.source.strip()})" if site.source.strip() else ""
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
