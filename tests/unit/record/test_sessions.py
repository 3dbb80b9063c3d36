"""Graphs from live programs: the XSpace is read, programs go to compiles by order, and never by guess."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xla_insight.facts.xspace import read_programs
from xla_insight.record import sessions
from xla_insight.record.blocks import COMPILATION, Block
from xla_insight.record.modules import Module
from xla_insight.record.sessions import Sessions


def message(number: int, content: bytes) -> bytes:
    """One length-delimited field."""
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def program(number: int, content: bytes) -> bytes:
    event = message(2, b"SyncTensorsGraph.9(%d)" % number) + message(5, message(6, content))
    return message(4, message(2, event))


def space(*programs: tuple[int, bytes]) -> bytes:
    other = message(1, message(2, b"/host:CPU") + program(99, b"not this plane"))
    metadata = message(2, b"/host:metadata") + b"".join(program(n, c) for n, c in programs)
    return other + message(1, metadata)


def test_programs_by_number() -> None:
    assert read_programs(space((2, b"two"), (0, b"zero"))) == {2: b"two", 0: b"zero"}


@given(st.integers(min_value=0, max_value=100), st.binary(max_size=80))
def test_any_bytes_are_tolerated(cut: int, noise: bytes) -> None:
    whole = space((2, b"two"), (0, b"zero"))
    assert set(read_programs(whole[:cut])) <= {0, 2}
    read_programs(noise)


class Live:
    """A compiler with live programs, and what was kept of them."""

    def __init__(self) -> None:
        self.programs: list[tuple[int, bytes]] = [(0, b"before the recording")]
        self.kept: dict[str, bytes] = {}
        self.taken = 0
        self.sessions = Sessions(self.take, self.keep)
        self.sessions.start()

    def take(self) -> bytes:
        self.taken += 1
        return space(*self.programs)

    def keep(self, graph: str, module: Module) -> None:
        self.kept[graph] = module.content

    def compile(self, graph: str | None, content: bytes) -> None:
        self.programs.append((len(self.programs), content))
        self.sessions.compiled(None if graph is None else Block(COMPILATION, 0, graph=graph))


def test_new_programs_go_to_compiles_in_order() -> None:
    live = Live()
    live.compile("a", b"A")
    live.compile(None, b"out of sight")
    live.compile("b", b"B")
    live.sessions.look()
    assert live.taken == 1, "not at once: more may follow"
    live.sessions.look(final=True)
    assert live.kept == {"a": b"A", "b": b"B"}
    live.sessions.look(final=True)
    assert live.taken == 2, "nothing waits"


def test_when_a_program_is_missing_none_is_guessed() -> None:
    live = Live()
    live.compile("a", b"A")
    live.compile("b", b"B")
    del live.programs[1]
    live.sessions.look(final=True)
    assert live.kept == {} and live.sessions.unmatched == 2


def test_sessions_rest_between(monkeypatch: object) -> None:
    live = Live()
    live.compile("a", b"A")
    live.sessions._last_compile_s -= sessions.QUIET_S
    live.sessions._not_before_s = float("inf")
    live.sessions.look()
    assert live.taken == 1
    live.sessions._not_before_s = 0.0
    live.sessions.look()
    assert live.kept == {"a": b"A"}


def looked(live: Live) -> None:
    """A look when one is due."""
    live.sessions._last_compile_s -= sessions.QUIET_S
    live.sessions._not_before_s = 0.0
    live.sessions.look()


def test_a_program_that_is_seen_before_its_compile_is_known_waits_for_it() -> None:
    live = Live()
    live.compile("a", b"A")
    live.programs.append((2, b"B"))
    looked(live)
    assert live.taken == 2 and live.kept == {} and live.sessions.unmatched == 0
    live.sessions.compiled(Block(COMPILATION, 0, graph="b"))
    live.sessions.look(final=True)
    assert live.kept == {"a": b"A", "b": b"B"} and live.sessions.unmatched == 0


def test_what_never_matches_is_given_up_and_later_graphs_are_kept() -> None:
    live = Live()
    live.compile("a", b"A")
    live.programs.append((2, b"out of sight"))
    for _ in range(sessions.MAX_RETRIES):
        looked(live)
        assert live.sessions.unmatched == 0
    looked(live)
    assert live.sessions.unmatched == 1
    live.compile("b", b"B")
    looked(live)
    assert live.kept == {"b": b"B"}
