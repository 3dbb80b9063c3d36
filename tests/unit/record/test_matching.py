"""Joining hooks, blocks and samples: who ran which graph when."""

from __future__ import annotations

from xla_insight.facts.events import Event, Kind, Trigger
from xla_insight.record import blocks
from xla_insight.record.blocks import Block
from xla_insight.record.matching import Checkpoint, HookEnd, Matcher
from xla_insight.record.modules import Module
from xla_insight.record.pairing import Span
from xla_insight.record.stacks import Place

MS = 1_000_000
A, B = "a" * 32, "b" * 32


class Bench:
    """A matcher fed by hand; times in ms."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.kept: dict[str, Module] = {}
        self.matcher = Matcher(self.events.append, lambda places: 100 + places[0].line, self.kept.__setitem__)
        self.hits = self.misses = 0
        self.matcher.begin_recording(self._look(0, Kind.MARK, None, None))

    def _look(self, at: float, kind: str, site: int | None, end: HookEnd | None) -> Checkpoint:
        return Checkpoint(round(at * MS), 0, self.hits, self.misses, kind, site, end)

    def hook(
        self,
        kind: str,
        begin: float,
        end: float,
        name: str,
        ran: list[Block] | None = None,
        *,
        hits: int = 0,
        misses: int = 0,
    ) -> None:
        self.matcher.checkpoint(self._look(begin, kind, 7, None), [])
        self.hits += hits
        self.misses += misses
        self.matcher.checkpoint(self._look(end, kind, 7, HookEnd(round(begin * MS), name, None)), ran or [])

    def samples(self, executes: list[tuple[float, float]], compiles: list[tuple[float, float]] | None = None) -> None:
        self.matcher.add_samples(
            [Span(round(start * MS), round(length * MS)) for start, length in executes],
            [Span(round(start * MS), round(length * MS)) for start, length in compiles or []],
        )

    def of(self, kind: Kind) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


def ran(graph: str, line: int = 1) -> Block:
    return Block(blocks.EXECUTION, 0, "user torch_xla.sync", graph, 3, 2, (Place("/u/train.py", line, "f"),))


def compiled(graph: str) -> Block:
    return Block(blocks.COMPILATION, 0, "user torch_xla.sync", graph, 3, 2, (Place("/u/train.py", 1, "f"),))


def test_a_sync_that_compiles_and_one_that_hits() -> None:
    bench = Bench()
    bench.samples([], [(11, 50)])
    bench.hook(
        Kind.SYNC, 10, 70, "sync", [compiled(A), Block(blocks.MEMORY, 0, sizes=(1, 2, 3, 4, 5)), ran(A)], misses=1
    )
    bench.hook(Kind.SYNC, 80, 81, "sync", [ran(A)], hits=1)
    bench.samples([(62, 9), (80.5, 3)])
    bench.matcher.pair()
    first, second = bench.of(Kind.EXECUTION)
    assert (first.graph, first.detail, first.time_ns, first.duration_ns) == (A, "compile", 62 * MS, 9 * MS)
    assert (second.detail, second.dims) == ("hit", (80 * MS,))
    (compile_event,) = bench.of(Kind.COMPILE)
    assert (compile_event.graph, compile_event.duration_ns, compile_event.dims) == (A, 50 * MS, (10 * MS,))
    syncs = bench.of(Kind.SYNC)
    assert [(event.value, event.dims) for event in syncs] == [(1.0, (1,)), (1.0, (0,))]
    (graph,) = bench.of(Kind.GRAPH)
    assert graph.dims == (3, 2, 1, 2, 3, 4, 5)
    assert bench.matcher.waiting == 0


def test_a_graph_of_the_autograd_thread_has_no_block_but_a_backward_call() -> None:
    bench = Bench()
    bench.samples([], [(11, 5)])
    bench.hook(Kind.BACKWARD, 10, 20, "backward", misses=1)
    bench.samples([(17, 1)])
    bench.matcher.pair()
    (execution,) = bench.of(Kind.EXECUTION)
    assert (execution.graph, execution.name, execution.detail, execution.site) == (None, "autograd", "compile", 7)
    (backward,) = bench.of(Kind.BACKWARD)
    assert (backward.value, backward.dims) == (1.0, (1,))
    (event,) = bench.of(Kind.COMPILE)
    assert "autograd" in (event.detail or "")


def test_backward_without_graphs_is_not_recorded() -> None:
    bench = Bench()
    bench.hook(Kind.BACKWARD, 10, 20, "backward")
    assert bench.events == []


def test_a_forced_graph_outside_any_hook_gets_the_line_of_its_block() -> None:
    bench = Bench()
    bench.hits += 1
    forced = Block(
        blocks.EXECUTION,
        0,
        "most likely user code trying to access tensor value",
        A,
        1,
        1,
        (Place("/u/t.py", 14, "f"),),
    )
    bench.matcher.checkpoint(bench._look(30, Kind.SYNC, 7, None), [forced])
    bench.samples([(25, 2)])
    bench.matcher.pair()
    (sync,) = bench.of(Kind.SYNC)
    assert (sync.name, sync.site, sync.time_ns, sync.value) == (Trigger.FORCED, 114, 25 * MS, 1.0)


def test_dynamo_moves_the_miss_counter_by_hand() -> None:
    bench = Bench()
    bench.hook(Kind.SYNC, 10, 20, "dynamo_compile", misses=2)
    bench.matcher.finish()
    assert bench.of(Kind.EXECUTION) == []
    assert bench.of(Kind.COMPILE) == []


def test_an_execution_without_a_sample_does_not_shift_the_others() -> None:
    bench = Bench()
    bench.hook(Kind.SYNC, 10, 11, "sync", [ran(A)], hits=1)
    bench.hook(Kind.SYNC, 20, 21, "sync", [ran(B)], hits=1)
    bench.hook(Kind.SYNC, 30, 31, "sync", [ran(A)], hits=1)
    bench.samples([(30.5, 2)])  # only the last one was kept in the ring
    bench.matcher.finish()
    found = [(event.graph, event.duration_ns) for event in bench.of(Kind.EXECUTION)]
    assert sorted(found, key=str) == sorted([(A, None), (B, None), (A, 2 * MS)], key=str)


def test_a_sample_from_before_the_recording_belongs_to_nobody() -> None:
    bench = Bench()
    bench.samples([(-50, 3)])
    bench.hook(Kind.SYNC, 10, 11, "sync", [ran(A)], hits=1)
    bench.samples([(10.5, 2)])
    bench.matcher.finish()
    assert [event.graph for event in bench.of(Kind.EXECUTION)] == [None, A]


def test_a_read_inside_a_backward_hook_and_graphs_around_it() -> None:
    bench = Bench()
    bench.matcher.checkpoint(bench._look(10, Kind.BACKWARD, 3, None), [])
    bench.hits += 1
    bench.matcher.checkpoint(bench._look(12, Kind.READ, 7, None), [])
    bench.hits += 1
    bench.matcher.checkpoint(bench._look(13, Kind.READ, 7, HookEnd(12 * MS, "item", "3.0")), [ran(B)])
    bench.matcher.checkpoint(bench._look(15, Kind.BACKWARD, 3, HookEnd(10 * MS, "backward", None)), [])
    bench.samples([(11, 0.5), (12.5, 0.2)])
    bench.matcher.finish()
    hidden, read = bench.of(Kind.EXECUTION)
    assert (hidden.name, hidden.site, hidden.graph) == ("autograd", 3, None)
    assert (read.name, read.site, read.graph) == ("read", 7, B)
    assert bench.of(Kind.READ)[0].value == 1.0
    assert bench.of(Kind.BACKWARD)[0].value == 1.0


def test_a_sync_that_raised_leaves_no_open_hook() -> None:
    bench = Bench()
    bench.matcher.checkpoint(bench._look(10, Kind.SYNC, 7, None), [])
    bench.hook(Kind.SYNC, 20, 21, "sync", [ran(A)], hits=1)
    (sync,) = bench.of(Kind.SYNC)
    assert (sync.time_ns, sync.value) == (20 * MS, 1.0)


def test_cleared_counters_are_not_negative_work() -> None:
    bench = Bench()
    bench.hook(Kind.SYNC, 10, 11, "sync", [ran(A)], hits=5)
    bench.matcher.counters_cleared()
    bench.hits = 0
    bench.hook(Kind.SYNC, 20, 21, "sync", [ran(A)], hits=1)
    assert [event.value for event in bench.of(Kind.SYNC)][-1] == 1.0


def test_a_miss_loaded_from_the_persistent_cache_is_no_compile() -> None:
    bench = Bench()
    bench.hook(Kind.SYNC, 10, 20, "sync", [compiled(A), ran(A)], misses=1)
    bench.samples([(15, 1)])
    bench.matcher.finish()
    assert bench.of(Kind.COMPILE) == []
    assert bench.of(Kind.EXECUTION)[0].detail == "persistent_hit"


def test_captured_modules_are_kept_under_the_graph_that_was_compiled() -> None:
    bench = Bench()
    bench.samples([], [(11, 50)])
    bench.matcher.checkpoint(bench._look(10, Kind.SYNC, 7, None), [])
    bench.misses += 1
    captured = Module(b"")
    bench.matcher.checkpoint(
        bench._look(70, Kind.SYNC, 7, HookEnd(10 * MS, "sync", None)), [compiled(A), ran(A)], [captured]
    )
    assert bench.kept == {A: captured}


def test_a_graph_compiled_out_of_sight_is_known_by_its_content() -> None:
    bench = Bench()
    bench.samples([], [(11, 50)])
    bench.matcher.checkpoint(bench._look(10, Kind.BACKWARD, 7, None), [])
    bench.misses += 1
    captured = Module(b"")
    end = HookEnd(10 * MS, "backward", None)
    bench.matcher.checkpoint(bench._look(70, Kind.BACKWARD, 7, end), [], [captured])
    (compile_event,) = bench.of(Kind.COMPILE)
    assert compile_event.graph == captured.unnamed_id
    assert compile_event.name == Trigger.AUTOGRAD
    assert bench.kept == {captured.unnamed_id: captured}


def test_a_read_in_another_thread_during_a_compile_takes_nothing_of_it() -> None:
    """The block of a compile is written before it and its sample comes after: a thread that logs may read between."""
    bench = Bench()
    module = Module(b"")
    bench.matcher.checkpoint(bench._look(10, Kind.SYNC, 7, None), [])
    bench.misses += 1
    for at, end in ((20, None), (30, HookEnd(20 * MS, "item", None))):
        look = bench._look(at, Kind.READ, 9, end)._replace(thread=1)
        bench.matcher.checkpoint(look, [compiled(A)] if end is None else [], [module] if end is None else [])
    bench.samples([(62, 5)], [(11, 50)])
    written = [Block(blocks.MEMORY, 0, sizes=(1, 2, 3, 4, 5)), ran(A)]
    bench.matcher.checkpoint(bench._look(70, Kind.SYNC, 7, HookEnd(10 * MS, "sync", None)), written)
    bench.matcher.pair()
    (compile_event,) = bench.of(Kind.COMPILE)
    assert (compile_event.graph, compile_event.site, compile_event.dims) == (A, 7, (10 * MS,))
    (execution,) = bench.of(Kind.EXECUTION)
    assert (execution.graph, execution.detail) == (A, "compile")
    (graph,) = bench.of(Kind.GRAPH)
    assert graph.dims == (3, 2, 1, 2, 3, 4, 5) and graph.site == 7
    assert bench.kept == {A: module}
