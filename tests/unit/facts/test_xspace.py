"""A profiler session is read as it was written, programs can be taken out of it, and damage is an error at most."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.xspaces import Made, make_session
from xla_insight.facts.xspace import Space, Span, read_programs, read_space, without_programs

WORK = Made("dot.3", 10_000, 12_500, "dot.3", 7)
TRACE = Made("Lower", 6_000, 9_000)
SESSION = make_session({"python": [TRACE], "pool/17": [WORK]}, {7: b"seven", 300: b"three hundred"})


def test_threads_operations_programs_and_times() -> None:
    space = read_space(SESSION)
    assert [(thread.name, thread.spans) for thread in space.threads] == [
        ("python", (Span("Lower", 6_000, 9_000, None, None),)),
        ("pool/17", (Span("dot.3", 10_000, 12_500, "dot.3", 7),)),
    ]
    assert space.programs == read_programs(SESSION) == {7: b"seven", 300: b"three hundred"}
    assert space.start_wall_ns == 1_790_000_000_000_000_000
    assert space.stop_wall_ns == space.start_wall_ns + 1_000_000_000


def test_known_programs_are_left_out_and_nothing_else() -> None:
    less = without_programs(SESSION, {7, 8})
    assert len(less) < len(SESSION)
    assert read_space(less) == read_space(SESSION)._replace(programs={300: b"three hundred"})
    assert read_space(without_programs(SESSION, ())) == read_space(SESSION)


def test_an_empty_session() -> None:
    assert read_space(b"") == Space(None, None, (), {})


@settings(deadline=None)
@given(st.integers(0, len(SESSION) - 1), st.integers(0, 255), st.binary(max_size=60))
def test_damage_is_a_value_error_or_another_session(position: int, byte: int, noise: bytes) -> None:
    damaged = bytearray(SESSION)
    damaged[position] = byte
    for content in (bytes(damaged), SESSION[:position], noise):
        with contextlib.suppress(ValueError):
            read_space(content)
        with contextlib.suppress(ValueError):
            without_programs(content, {7})
        read_programs(content)


def test_a_torn_session_is_said() -> None:
    with pytest.raises(ValueError, match="torn"):
        read_space(SESSION[:-3])
