"""The one door to runs: what a view holds, when it is read again, and how many are kept."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from xla_insight_app.data import KEPT_RUNS, Library, RunView, read_run
from xla_insight_app.runs import RunEntry, RunState

from tests.app.recordings import USUAL, Recording, graph_hash, write_run
from xla_insight.errors import RunFormatError, RunNotFoundError


class CountingReads:
    """Reads runs for real and counts how often."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def __call__(self, entry: RunEntry) -> RunView:
        self.reads.append(entry.id)
        return read_run(entry)


def test_a_view_holds_what_was_recorded(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 40)
    view = Library(tmp_path).view("run")
    assert len(view.steps[0]) == 40
    assert view.names[0] == USUAL
    assert view.report.graphs.compiles == 4
    assert view.steps_of_graph(0, graph_hash(1)) == {9, 39}
    assert view.graphs_within(0, (5, 9)) == {USUAL, graph_hash(1)}
    assert view.sources["/home/me/bert/train.py", 31] == "loss = step(batch)"
    assert view.process(7) == 0


def test_a_range_without_steps_shows_all(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 12)
    view = Library(tmp_path).view("run")
    assert view.shown(0, (3, 5))["step"].tolist() == [3, 4, 5]
    assert len(view.shown(0, (500, 600))) == 12


def test_an_unchanged_run_is_read_once(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 5)
    read = CountingReads()
    library = Library(tmp_path, read)
    assert library.view("run") is library.view("run")
    assert read.reads == ["run"]


def test_a_changed_run_is_read_again(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "run")
    recording.step()
    recording.flush()
    library = Library(tmp_path)
    assert len(library.view("run").steps[0]) == 1
    recording.step()
    recording.end()
    assert len(library.view("run").steps[0]) == 2


def test_simultaneous_requests_read_once(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 20)
    read = CountingReads()
    library = Library(tmp_path, read)
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        library.view("run")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read.reads == ["run"]


def test_the_cache_is_bounded_and_drops_the_least_used(tmp_path: Path) -> None:
    names = [f"run{number}" for number in range(KEPT_RUNS + 1)]
    for name in names:
        write_run(tmp_path / name, 2)
    read = CountingReads()
    library = Library(tmp_path, read)
    for name in names[:-1]:
        library.view(name)
    library.view(names[0])
    library.view(names[-1])
    library.view(names[0])
    library.view(names[1])
    assert read.reads == [*names, names[1]]


def test_a_crashed_run_opens(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "run")
    for _ in range(7):
        recording.step()
    recording.flush()
    view = Library(tmp_path).view("run")
    assert len(view.steps[0]) == 7
    assert view.entry.state is RunState.RECORDING


def test_every_rank_has_its_steps(tmp_path: Path) -> None:
    for rank in (0, 1):
        recording = Recording(tmp_path / "run", rank=rank, group="g")
        for _ in range(3 + rank):
            recording.step()
        recording.end()
    view = Library(tmp_path).view("run")
    assert sorted(len(rows) for rows in view.steps.values()) == [3, 4]
    assert len({one.label for one in view.processes}) == 2


def test_a_run_without_steps_has_none(tmp_path: Path) -> None:
    Recording(tmp_path / "run").end()
    view = Library(tmp_path).view("run")
    assert view.steps == {}
    assert view.process(0) is None


def test_a_broken_run_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(RunFormatError, match=r"run\.json is not valid JSON.*(Restore|record again)"):
        Library(tmp_path).view("run")


def test_any_failure_of_reading_is_one_sentence(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 2)

    def fail(_entry: RunEntry) -> RunView:
        raise ZeroDivisionError("boom")

    with pytest.raises(RunFormatError, match=r"cannot be opened \(ZeroDivisionError: boom\).*xla-insight report"):
        Library(tmp_path, fail).view("run")


@pytest.mark.parametrize("remove", [lambda folder: shutil.rmtree(folder / "run"), shutil.rmtree])
def test_a_run_deleted_while_open_says_so(tmp_path: Path, remove: Callable[[Path], None]) -> None:
    folder = tmp_path / "runs"
    write_run(folder / "run", 2)
    library = Library(folder)
    library.view("run")
    remove(folder)
    with pytest.raises(RunNotFoundError, match=r"moved or deleted|gone"):
        library.view("run")
