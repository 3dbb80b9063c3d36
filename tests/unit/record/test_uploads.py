"""What is kept of tensors on their way to the device, and what many small ones cost."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import Any, NamedTuple

import pytest

from xla_insight.facts.events import Event, Kind
from xla_insight.record.stacks import Stacks
from xla_insight.record.uploads import LEAST_NS, MOST_LISTED, Uploads


class Tensor(NamedTuple):
    """As much of a tensor as is asked for."""

    shape: tuple[int, ...] = (2, 3)
    dtype: str = "torch.float32"
    nbytes: int = 24


@pytest.fixture
def events() -> list[Event]:
    """What was recorded."""
    return []


@pytest.fixture
def uploads(events: list[Event]) -> Uploads:
    """Of this thread."""
    return Uploads(Stacks(), events.append)


def move(uploads: Uploads, count: int = 1, name: str | None = None, lasts_ns: int = LEAST_NS) -> None:
    """Calls from one line, each of which has just ended."""
    for _ in range(count):
        uploads.moved(name, Tensor(), sys._getframe(1), None, time.perf_counter_ns() - lasts_ns)


def of(events: list[Event], kind: Kind) -> list[Event]:
    return [event for event in events if event.kind == kind]


def test_a_tensor_and_the_time_it_took(uploads: Uploads, events: list[Event]) -> None:
    move(uploads, lasts_ns=5_000_000)
    uploads.cut()
    (tensor,), (moved,) = of(events, Kind.INPUT), of(events, Kind.TRANSFER)
    assert (tensor.dims, tensor.detail, tensor.name) == ((2, 3), "float32", None)
    assert (moved.name, moved.value, moved.site) == ("upload", 24.0, tensor.site)
    assert moved.duration_ns is not None and 5_000_000 <= moved.duration_ns < 1_000_000_000


def test_a_call_that_only_hands_a_tensor_on_is_no_transfer(uploads: Uploads, events: list[Event]) -> None:
    uploads._end(0, LEAST_NS - 1, 1, 24)
    assert of(events, Kind.TRANSFER) == []


def test_calls_of_one_line_that_follow_each_other_are_one_span(uploads: Uploads, events: list[Event]) -> None:
    begin = time.perf_counter_ns()

    def in_a_row(frame: FrameType) -> None:
        for number in range(5):
            uploads.moved(None, Tensor(), frame, None, begin + number)

    in_a_row(sys._getframe())
    uploads.cut()
    assert [event.value for event in of(events, Kind.TRANSFER)] == [5 * 24.0]


def test_callers_of_a_helper_are_told_apart(uploads: Uploads, events: list[Event]) -> None:
    def helper() -> None:
        move(uploads)

    helper()
    helper()
    uploads.cut()
    assert len({event.site for event in of(events, Kind.TRANSFER)}) == 2


def test_of_very_many_only_the_time_is_kept_and_that_is_told(uploads: Uploads, events: list[Event]) -> None:
    move(uploads, MOST_LISTED + 300)
    move(uploads, 3, name="input_ids")
    uploads.cut()
    move(uploads)
    uploads.ending()
    listed = of(events, Kind.INPUT)
    assert len(listed) == MOST_LISTED + 3 + 1, "batches are kept, and each cut begins anew"
    assert sum(event.value or 0 for event in of(events, Kind.TRANSFER)) == 24.0 * (MOST_LISTED + 304)
    (lost,) = of(events, Kind.LOST)
    assert (lost.name, lost.value) == ("uploads", 300.0)


def test_another_thread_keeps_its_own(uploads: Uploads, events: list[Event]) -> None:
    def work() -> None:
        move(uploads, 2)
        uploads.cut()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(of(events, Kind.TRANSFER)) == 2


def test_a_loader_hands_over_without_a_time(uploads: Uploads, events: list[Event]) -> None:
    given: dict[str, Any] = {"name": "labels", "maker": 7}
    uploads.given(tensor=Tensor(), frame=sys._getframe(), **given)
    assert [(event.kind, event.name, event.value) for event in events] == [(Kind.INPUT, "labels", 7.0)]
