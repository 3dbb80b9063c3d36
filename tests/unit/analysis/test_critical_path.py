"""The critical path, against a walk backwards through time, instant by instant; and what it says of plain loops."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xla_insight.analysis.accounting import STATES, Segments, ThreadSpans, account, segments, sums
from xla_insight.analysis.critical_path import critical, on_device
from xla_insight.analysis.intervals import Spans
from xla_insight.facts.report import HostState

from .test_accounting import thread_spans, windows

WAIT = STATES.index(HostState.DEVICE_WAIT)


def walked(states: list[int], busy: list[bool]) -> list[bool]:
    """Whether the device holds each segment: from the end backwards, over to it where the host waited for it."""
    found, there = [False] * len(states), False
    for position in reversed(range(len(states))):
        there = busy[position] and (there or states[position] == WAIT)
        found[position] = there
    return found


@given(st.lists(st.tuples(st.sampled_from([WAIT, STATES.index(HostState.TRACE)]), st.booleans()), max_size=40))
def test_it_is_what_a_walk_backwards_finds(rows: list[tuple[int, bool]]) -> None:
    states, busy = [state for state, _ in rows], [held for _, held in rows]
    n = len(rows)
    made = Segments(np.arange(n), np.ones(n, np.int64), np.array(states, np.int8), np.array(busy, np.bool_))
    found = on_device(made)
    assert found is not None and found.tolist() == walked(states, busy)


@given(thread_spans, windows)
def test_its_parts_add_up_to_wall_time_exactly(spans: ThreadSpans, edges: list[int]) -> None:
    steps = Spans.of(list(itertools.pairwise(edges)))
    parts = segments(steps, spans)
    whole, path = account(steps, spans), sums(steps, critical(parts))
    assert (path.host == whole.host).all()
    if path.busy is None or path.idle is None or whole.busy is None:
        assert whole.busy is None
        return
    assert (path.busy + path.idle.sum(axis=1) == steps.ends - steps.starts).all()
    assert (path.busy <= whole.busy).all(), "the device is on it only while it is busy"


def path_of(spans: ThreadSpans, end: int) -> dict[str, int]:
    window = Spans.of([(0, end)])
    found = sums(window, critical(segments(window, spans)))
    assert found.busy is not None and found.idle is not None
    return {"device": int(found.busy[0]), **{str(s): int(n) for s, n in zip(STATES, found.idle[0], strict=True) if n}}


def test_host_work_behind_a_busy_device_is_not_on_it() -> None:
    # Dispatched at 10; the host traces on until 60 and waits until the device is ready at 100.
    spans = ThreadSpans(device_wait=Spans.of([(60, 100)]), executions=Spans.of([(10, 100)]))
    assert path_of(spans, 120) == {"device": 90, "trace": 30}


def test_a_device_that_nobody_waits_for_is_not_on_it() -> None:
    spans = ThreadSpans(executions=Spans.of([(10, 60)]), compile=Spans.of([(80, 90)]))
    assert path_of(spans, 100) == {"device": 0, "trace": 90, "compile": 10}
