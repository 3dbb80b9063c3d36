"""Looks at a thread: they say where it is, and nothing of the program lives longer because of them."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from xla_insight.record import sampling, stacks
from xla_insight.record.sampling import Sampler, stack_of
from xla_insight.record.stacks import Stacks


class Held:
    """Something whose end can be seen."""


def run_beside(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def looked(ident: int) -> sampling.Stack:
    """The stack of a running thread; garbage may be about to be collected at first."""
    while True:
        stack = stack_of(ident)
        if stack is not None:
            return stack
        gc.collect()


def test_a_look_tells_the_lines_from_the_innermost_out() -> None:
    ready, go_on = threading.Event(), threading.Event()

    def inner() -> None:
        ready.set()
        go_on.wait()

    def outer() -> None:
        inner()

    thread = run_beside(outer)
    ready.wait()
    stack = looked(thread.ident or 0)
    go_on.set()
    thread.join()
    names = [code.co_name for code, _ in stack]
    assert names.index("inner") < names.index("outer") < names.index("run")
    line = next(line for code, line in stack if code is inner.__code__)
    assert line in (inner.__code__.co_firstlineno + 1, inner.__code__.co_firstlineno + 2)


def test_a_thread_that_ended_is_not_seen() -> None:
    thread = run_beside(lambda: None)
    thread.join()
    gc.collect()
    assert stack_of(thread.ident or 0) is None


def test_nothing_lives_longer_because_of_a_look() -> None:
    """What a function held is gone when it returns, however often somebody looks."""
    late: list[int] = []
    looks = 0
    ended = threading.Event()

    def hold() -> weakref.ref[Held]:
        held = Held()
        return weakref.ref(held)

    def program() -> None:
        for turn in range(3_000_000):
            if hold()() is not None:
                late.append(turn)
            if turn >= 30_000 and looks >= 50:  # on a busy machine the other thread hardly gets its turn
                break
        ended.set()

    thread = run_beside(program)
    while not ended.is_set():
        looks += stack_of(thread.ident or 0) is not None
    thread.join()
    assert late == [] and looks >= 50


def test_no_look_where_garbage_is_about_to_be_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    ident = threading.get_ident()
    monkeypatch.setattr(gc, "get_count", lambda: (699, 0, 0))
    assert stack_of(ident) is None
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 0))
    assert stack_of(ident) is not None


def test_a_stack_deeper_than_is_read_is_cut_off() -> None:
    def deep(rest: int) -> sampling.Stack:
        return deep(rest - 1) if rest else looked(threading.get_ident())

    assert len(deep(400)) == sampling.MAX_FRAMES + 1


def described(seen: Stacks) -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in seen.new_sites()]


def test_only_the_places_that_matter_are_kept() -> None:
    """A library's frame and the user's that called it; not what lies between, nor the framework inside."""
    torch, library = (f"{stacks.LIBRARY_ROOTS[0]}{name}" for name in ("torch/nn/modules/linear.py", "lib/model.py"))
    codes = [
        compile("", name, "exec")
        for name in (torch, library, f"{library}x", "/home/me/model.py", torch, "/home/me/train.py")
    ]
    seen = Stacks()
    first = seen.intern_sample([(code, 10 + number) for number, code in enumerate(codes)])
    assert seen.intern_sample([(code, 10 + number) for number, code in enumerate(codes[:4])]) == first
    assert seen.intern_sample([(codes[0], 5), (codes[3], 13)]) != first
    (both, alone) = described(seen)
    assert (both["site"][:2], both["user_site"][:2]) == ([library, 11], ["/home/me/model.py", 13])
    assert len(both["stack"]) == 2
    assert alone["site"][:2] == alone["user_site"][:2] == ["/home/me/model.py", 13]


def test_places_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "MAX_SAMPLED", 3)
    seen, code = Stacks(), compile("", "/home/me/train.py", "exec")
    ids = [seen.intern_sample([(code, line)]) for line in range(10)]
    assert None not in ids[:3] and set(ids[3:]) == {None}
    assert seen.intern_sample([(code, 1)]) == ids[1]
    assert seen.intern_sample([]) is None


def test_the_sampler_says_where_its_thread_is_and_waits_unevenly() -> None:
    sampler = Sampler(Stacks())
    sampler.ident = threading.get_ident()
    gc.collect()
    event = sampler.look()
    assert event is not None and event.site is not None and event.duration_ns is None
    pauses = [sampler.pause_s() for _ in range(100)]
    assert min(pauses) >= sampling.SAMPLE_S / 2 and max(pauses) <= 1.5 * sampling.SAMPLE_S and len(set(pauses)) > 50
