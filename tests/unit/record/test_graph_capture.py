"""Capturing graphs: the dump folder, the facts of a module, which compile it belongs to, lines on and off."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.modules import NAMES, graph, read
from xla_insight.facts.events import Event, Kind
from xla_insight.record import blocks
from xla_insight.record.blocks import Block
from xla_insight.record.graph_dump import GraphDump
from xla_insight.record.graph_keeper import GraphKeeper
from xla_insight.record.hlo_facts import HloFacts, read_hlo_facts
from xla_insight.record.ir_file import IrFile
from xla_insight.record.lines import CUTS, LineCapture
from xla_insight.record.modules import Module, assign
from xla_insight.record.sources import AROUND, Sources

CUT = [name for name in NAMES if name != "optimized"]


@pytest.mark.parametrize("name", CUT)
def test_counts_and_lines_are_those_that_the_parser_finds(name: str) -> None:
    parsed, facts = graph(name), read_hlo_facts(read(f"{name}.hlo.pb"))
    assert (facts.inputs, facts.outputs) == (len(parsed.parameters), len(parsed.outputs))
    lines = {(f.file, f.line) for i in parsed.instructions for f in i.metadata.stack}
    assert lines <= set(facts.lines)


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=30_000), st.integers(min_value=0, max_value=255))
def test_any_bytes_are_tolerated(noise: bytes, position: int, byte: int) -> None:
    read_hlo_facts(noise)
    content = bytearray(read("base.hlo.pb"))
    read_hlo_facts(bytes(content[:position]))
    content[position % len(content)] = byte
    assert isinstance(read_hlo_facts(bytes(content)), HloFacts)


def compiled(inputs: int, outputs: int) -> Block:
    return Block(blocks.COMPILATION, 0, "", "a" * 32, inputs, outputs)


def module(inputs: int, outputs: int) -> Module:
    made = Module(bytes([inputs, outputs]))
    made.__dict__["facts"] = HloFacts(inputs, outputs, ())
    return made


def test_modules_go_to_blocks_in_order_when_their_counts_agree() -> None:
    modules = [module(1, 1), module(3, 2), module(3, 2), module(9, 9)]
    given_, left = assign([compiled(3, 2), compiled(-1, 2)], modules)
    assert given_ == {0: modules[1], 1: modules[2]}
    assert left == [modules[0], modules[3]]


def test_a_block_without_a_fitting_module_takes_none_from_the_others() -> None:
    modules = [module(3, 2)]
    given_, left = assign([compiled(7, 7), compiled(3, 2)], modules)
    assert given_ == {1: modules[0]}
    assert left == []


class TestDump:
    def test_new_modules_in_order_each_once_and_nothing_else_stays(self) -> None:
        dump = GraphDump()
        try:
            folder = Path(dump.path)
            for number in (10, 9):
                (folder / f"module_{number:04d}.SyncTensorsGraph.7.before_optimizations.hlo.pb").write_bytes(
                    b"m%d" % number
                )
                (folder / f"module_{number:04d}.SyncTensorsGraph.7.ir-no-opt.ll").write_text("x")
            first, second = dump.news()
            assert dump.news() == ()
            assert (dump.take(first), dump.take(second), dump.take(first)) == (b"m9", b"m10", None)
            (folder / "module_0011.Late.8.before_optimizations.hlo.pb").write_bytes(b"m11")
            dump.sweep()
            assert [path.name[:11] for path in folder.iterdir()] == ["module_0011"]
            assert len(dump.news()) == 1
        finally:
            dump.remove()
        assert not Path(dump.path).exists()
        assert dump.news() == ()

    def test_between_recordings_the_folder_is_kept_empty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("xla_insight.record.graph_dump.IDLE_SWEEP_S", 0.01)
        dump = GraphDump()
        try:
            dump.leave()
            file = Path(dump.path) / "module_0001.A.1.before_optimizations.hlo.pb"
            file.write_bytes(b"m")
            for _ in range(500):
                if not file.exists():
                    break
                dump._attended.wait(0.01)
            assert not file.exists()
            file.write_bytes(b"m")
            dump.attend()
            assert dump.news() == ()
        finally:
            dump.remove()


class Shelf:
    """A writer that keeps graphs in memory."""

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.graphs: list[str] = []

    def write_graph(self, graph: str, content: bytes, suffix: str) -> int | None:
        self.graphs.append(graph)
        return self.size


@pytest.mark.parametrize(("size", "kept"), [(60, ["a", "b"]), (None, ["a", "b", "c"])])
def test_what_is_not_kept_is_said(size: int | None, kept: list[str]) -> None:
    shelf, events = Shelf(size), list[Event]()
    keeper = GraphKeeper(shelf, events.append, Sources(), limit_bytes=100)  # type: ignore[arg-type]
    for name in ("a", "b", "a", "c"):
        keeper.keep(name, module(1, 1))
    assert shelf.graphs == kept
    assert [event.kind for event in events] == [Kind.LOST] * (1 if size else 3)
    assert "max_graph_bytes" in (events[0].detail or "") or size is None


def test_lines_are_on_until_nothing_new_is_compiled_and_again_after_a_surprise() -> None:
    switched: list[bool] = []
    lines = LineCapture(switched.append)
    lines.start()
    for misses in [1, 2, *[2] * (CUTS + 5)]:
        lines.look(misses)
    assert switched == [True, False]
    lines.look(3)
    assert switched == [True, False, True]
    lines.stop()
    assert switched == [True, False, True, False]


def test_source_lines_are_kept_once_and_only_around_wanted_places(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("".join(f"line {n}\n" for n in range(1, 41)))
    sources = Sources()
    sources.want(str(file), 2)
    sources.want(str(file), 20)
    found = sources.events(5)
    assert [(event.name, event.dims) for event in found] == [(str(file), (1,)), (str(file), (20 - AROUND,))]
    assert (found[0].detail or "").splitlines() == [f"line {n}" for n in range(1, 2 + AROUND + 1)]
    sources.want(str(file), 22)
    (more,) = sources.events(6)
    assert more.dims == (20 + AROUND + 1,)
    sources.want(str(tmp_path / "gone.py"), 3)
    assert sources.events(7) == []


def test_text_of_each_graph_once_and_nothing_stays() -> None:
    file = IrFile()
    try:

        def entry(graph: str, body: str = "IR {}") -> str:
            return f"[ScheduleSyncTensorsGraph]\n## BEGIN_GRAPH\n{body}\n\nGraph Hash: {graph}\n\n## END_GRAPH\n\n"

        path = Path(f"{file.path}.0")
        path.write_text(entry("aa") + entry("bb") + entry("aa") + entry("cc")[:40])
        assert file.poll() == [], "renamed now, read at the next look"
        path.write_text(entry("cc")[40:] + entry("dd", "x" * 10))
        assert [graph for graph, _ in file.poll()] == ["aa", "bb"]
        found = dict(file.poll())
        assert list(found) == ["cc", "dd"]
        assert found["cc"].decode().startswith("[ScheduleSyncTensorsGraph]") and b"## END_GRAPH" in found["cc"]
        assert list(path.parent.iterdir()) == []
    finally:
        file.remove()
