"""Graphs and device windows that are damaged or gone: counted and named, and never read as something else."""

from __future__ import annotations

import os
from pathlib import Path

import fsspec
import pytest

from tests.synthetic import build_run
from tests.unit.store.conftest import NewWriter
from tests.unit.store.test_reader import process_folder
from xla_insight.analysis import analyze
from xla_insight.store.graph_files import graph_file, write_compressed
from xla_insight.store.reader import open_run


@pytest.fixture
def three_graphs(new_writer: NewWriter, tmp_path: Path) -> Path:
    """A whole run that keeps the graphs a, b and c; of c nothing is listed in the facts."""
    log = new_writer()
    for graph in ("a", "b"):
        log.write_graph(graph, graph.encode() * 5000)
    log.close(ended="exit")
    write_compressed(str(Path(log.folder) / graph_file("c")), b"c" * 5000)
    return tmp_path / "run"


def test_whole_graphs_are_not_called_damaged(three_graphs: Path) -> None:
    with open_run(three_graphs) as run:
        assert run.hlo("a") == b"a" * 5000
        assert run.graph_damage() == ""


@pytest.mark.parametrize("keep", [0, 10, None])
def test_a_graph_that_is_empty_cut_off_or_gone_is_counted(three_graphs: Path, keep: int | None) -> None:
    broken = process_folder(three_graphs) / graph_file("b")
    if keep is None:
        broken.unlink()
    else:
        os.truncate(broken, keep)
    with open_run(three_graphs) as run:
        assert "1 stored graph cannot be read" in run.graph_damage() and str(broken.name) in run.graph_damage()
        assert run.hlo("b") is None and run.hlo("a") is not None
        assert "1 stored graph " in run.graph_damage(), "not counted twice"


def test_damage_that_only_reading_shows_is_counted_once_it_was_read(three_graphs: Path) -> None:
    broken = process_folder(three_graphs) / graph_file("c")
    os.truncate(broken, 8)
    with open_run(three_graphs) as run:
        assert run.graph_damage() == ""
        assert run.hlo("c") is None
        assert "1 stored graph" in run.graph_damage()


def test_a_graph_that_was_written_again_is_whole(three_graphs: Path) -> None:
    write_compressed(str(process_folder(three_graphs) / graph_file("a")), bytes(range(256)) * 9)
    with open_run(three_graphs) as run:
        assert run.graph_damage() == ""


def test_damaged_graphs_are_told_at_a_url(three_graphs: Path) -> None:
    os.truncate(process_folder(three_graphs) / graph_file("a"), 0)
    filesystem = fsspec.filesystem("memory")
    filesystem.put(str(three_graphs), "/damaged", recursive=True)
    with open_run("memory://damaged") as run:
        assert "1 stored graph " in run.graph_damage()


def test_the_report_names_graphs_that_cannot_be_read(three_graphs: Path) -> None:
    os.truncate(process_folder(three_graphs) / graph_file("a"), 0)
    with open_run(three_graphs) as run:
        notes = analyze(run).data.notes
    assert any("1 stored graph cannot be read" in note for note in notes)


def test_an_empty_device_window_is_damaged_and_not_without_operations(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", window=(3, 5))
    for file in run.rglob("*.xspace.zst"):
        os.truncate(file, 0)
    with open_run(run) as opened:
        measured = analyze(opened).time.measured
    assert measured is not None and "damaged" in measured.summary
