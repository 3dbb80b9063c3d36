"""Host states are disjoint and add up to wall time exactly, whatever the spans; device time counts once."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_insight.analysis.accounting import STATES, ThreadSpans, account, blocked_in_cuts, clipped_executions
from xla_insight.analysis.intervals import Spans, index_inside, union
from xla_insight.facts.report import HostState

MS = 1_000_000
FIELDS = (
    "compile",
    "device_wait",
    "input_wait",
    "transfer",
    "read_transfer",
    "plain_reads",
    "checkpoint",
    "gc",
    "cuts",
    "not_yet_blocked",
    "executions",
)

pair = st.tuples(st.integers(-50, 350), st.integers(0, 120)).map(lambda p: (p[0], p[0] + p[1]))
pairs = st.lists(pair, max_size=8)
thread_spans = st.fixed_dictionaries(dict.fromkeys(FIELDS, pairs)).map(
    lambda parts: ThreadSpans(**{name: Spans.of(rows) for name, rows in parts.items()})
)
windows = st.lists(st.integers(0, 300), min_size=2, max_size=8, unique=True).map(sorted)


def column(state: HostState) -> int:
    return STATES.index(state)


def state_at(instant: int, spans: ThreadSpans) -> HostState:
    """The state of one instant, worked out from the definition."""

    def holds(part: Spans) -> bool:
        return bool(np.any((part.starts <= instant) & (instant < part.ends)))

    busy = holds(spans.executions)
    if holds(spans.compile):
        return HostState.COMPILE
    blocked = blocked_in_cuts(spans.cuts, spans.executions)
    reading = holds(spans.read_transfer) or holds(spans.plain_reads)
    waiting = holds(blocked) and not holds(spans.not_yet_blocked)
    if holds(spans.device_wait) or waiting or (reading and busy):
        return HostState.DEVICE_WAIT
    for part, state in (
        (spans.input_wait, HostState.INPUT_WAIT),
        (spans.transfer, HostState.TRANSFER),
        (spans.read_transfer, HostState.TRANSFER),
        (spans.plain_reads, HostState.TRANSFER),
        (spans.checkpoint, HostState.CHECKPOINT),
        (spans.gc, HostState.GC),
    ):
        if holds(part):
            return state
    return HostState.TRACE


@settings(deadline=None)
@given(thread_spans, windows)
def test_every_nanosecond_is_in_the_state_that_the_definition_says(spans: ThreadSpans, edges: list[int]) -> None:
    steps = Spans.of(itertools.pairwise(edges))
    result = account(steps, spans)
    for row, (begin, end) in enumerate(itertools.pairwise(edges)):
        states = [state_at(instant, spans) for instant in range(begin, end)]
        assert [states.count(state) for state in STATES] == result.host[row].tolist()
        assert result.host[row].sum() == end - begin


@settings(deadline=None)
@given(thread_spans, windows)
def test_busy_and_idle_add_up_to_the_duration(spans: ThreadSpans, edges: list[int]) -> None:
    steps = Spans.of(itertools.pairwise(edges))
    result = account(steps, spans)
    if not len(spans.executions.starts):
        assert result.busy is None and result.idle is None
        return
    assert result.busy is not None and result.idle is not None
    durations = steps.ends - steps.starts
    assert (result.busy + result.idle.sum(axis=1) == durations).all()
    assert (result.idle <= result.host).all()


@settings(deadline=None)
@given(pairs)
def test_clipped_executions_sum_to_the_time_the_device_was_busy(rows: list[tuple[int, int]]) -> None:
    executions = Spans.of(rows)
    busy = union(executions)
    assert clipped_executions(executions).sum() == (busy.ends - busy.starts).sum()


@settings(deadline=None)
@given(pairs)
def test_union_keeps_each_instant_once(rows: list[tuple[int, int]]) -> None:
    merged = union(Spans.of(rows))
    instants = {i for begin, end in rows for i in range(begin, end)}
    assert sum(int(end - begin) for begin, end in zip(*merged, strict=True)) == len(instants)
    assert (merged.starts[1:] >= merged.ends[:-1]).all()


def test_windows_with_gaps_and_of_no_length_are_accounted_apart() -> None:
    steps = Spans.of([(0, 10), (10, 10), (20, 30)])
    result = account(steps, ThreadSpans(compile=Spans.of([(5, 25)])))
    assert result.host[:, column(HostState.COMPILE)].tolist() == [5, 0, 5]
    assert result.host.sum(axis=1).tolist() == [10, 0, 10]


def test_a_cut_that_ends_with_its_execution_was_blocked_and_one_that_ends_before_was_not() -> None:
    cuts = Spans.of([(0, 100 * MS), (200 * MS, 210 * MS)])
    executions = Spans.of([(10 * MS, 100 * MS + 500_000), (205 * MS, 300 * MS)])
    blocked = blocked_in_cuts(cuts, executions)
    assert (blocked.starts.tolist(), blocked.ends.tolist()) == ([10 * MS], [100 * MS])


def test_the_time_before_dispatch_in_a_blocked_cut_is_tracing() -> None:
    spans = ThreadSpans(cuts=Spans.of([(0, 100 * MS)]), executions=Spans.of([(40 * MS, 99 * MS)]))
    host = account(Spans.of([(0, 120 * MS)]), spans).host[0]
    assert host[column(HostState.DEVICE_WAIT)] == 59 * MS
    assert host[column(HostState.TRACE)] == 61 * MS


def test_reading_waits_while_the_device_is_busy_and_transfers_after() -> None:
    spans = ThreadSpans(read_transfer=Spans.of([(0, 10)]), executions=Spans.of([(0, 7)]))
    host = account(Spans.of([(0, 10)]), spans).host[0]
    assert (host[column(HostState.DEVICE_WAIT)], host[column(HostState.TRANSFER)]) == (7, 3)


def test_no_windows_give_no_rows() -> None:
    assert account(Spans.of([]), ThreadSpans()).host.shape == (0, len(STATES))


def test_index_inside_says_which_container_holds_a_point() -> None:
    containers = union(Spans.of([(0, 5), (10, 20), (12, 15)]))
    assert index_inside(np.array([-1, 3, 7, 14, 20, 21]), containers).tolist() == [-1, 0, -1, 1, 1, -1]
