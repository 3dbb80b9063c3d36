"""What the compiler makes of a graph is taken beside it, and kept where it says what devices exchange."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.synthetic import build_run, graph_hash
from tests.unit.graph.modules import read
from xla_insight.record.capture import _taken
from xla_insight.record.graph_dump import GraphDump
from xla_insight.record.hlo_facts import spans_devices
from xla_insight.store.graph_files import HLO, OPTIMIZED, graph_file, graph_of, write_compressed
from xla_insight.store.reader import open_run

BEFORE, AFTER = "module_0003.Sync.9.before_optimizations.hlo.pb", "module_0003.Sync.9.cpu_after_optimizations.hlo.pb"


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GraphDump:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return GraphDump()


def written(dump: GraphDump, name: str, content: bytes) -> Path:
    path = Path(dump.path) / name
    path.write_bytes(content)
    return path


def test_the_program_of_a_module_is_taken_with_it(dump: GraphDump) -> None:
    program = read("fsdp.hlo.pb")
    files = [written(dump, BEFORE, b"cut"), written(dump, AFTER, program), written(dump, "module_0003.Sync.9.ll", b"")]
    other = written(dump, AFTER.replace("0003", "0004"), b"of another module")
    assert dump.news() == (BEFORE,)
    dump.sweep()
    found = _taken(dump, BEFORE)
    assert found is not None and (found.content, found.optimized) == (b"cut", program)
    assert not any(path.exists() for path in files) and other.exists()


def test_a_program_for_one_device_is_not_kept(dump: GraphDump) -> None:
    written(dump, BEFORE, b"cut")
    after = written(dump, AFTER, read("optimized.hlo.pb"))
    found = _taken(dump, BEFORE)
    assert found is not None and found.optimized is None and not after.exists()


def test_without_a_program_the_module_is_kept(dump: GraphDump) -> None:
    written(dump, BEFORE, b"cut")
    found = _taken(dump, BEFORE)
    assert found is not None and found.optimized is None
    assert _taken(dump, BEFORE) is None


def test_which_modules_are_for_several_devices() -> None:
    assert spans_devices(read("fsdp.hlo.pb"))
    assert not spans_devices(read("optimized.hlo.pb")) and not spans_devices(read("base.hlo.pb"))


@given(st.binary(max_size=200))
def test_any_bytes_are_tolerated(noise: bytes) -> None:
    assert spans_devices(noise) in (True, False)


def test_a_run_gives_back_both_forms(tmp_path: Path) -> None:
    path = build_run(tmp_path / "run", steps=4, pattern="AB")
    folder = next(path.glob("rank-*"))
    name = graph_hash("A")
    write_compressed(str(folder / graph_file(name)), b"before")
    write_compressed(str(folder / graph_file(name, OPTIMIZED)), b"after")
    write_compressed(str(folder / graph_file(graph_hash("B"))), b"before")
    with open_run(path) as run:
        assert (run.hlo(name), run.optimized(name), run.programs()) == (b"before", b"after", frozenset({name}))
        assert run.optimized(graph_hash("B")) is None and run.graph_hashes() == {name, graph_hash("B")}
    assert graph_of(f"{name}{OPTIMIZED}", HLO) is None
