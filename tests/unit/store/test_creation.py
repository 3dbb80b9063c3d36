"""Beginning a recording: never on top of something, and several processes may join one run."""

from __future__ import annotations

import json
import multiprocessing
import os
import uuid
from pathlib import Path

import fsspec
import pytest

from tests.unit.store.conftest import NewWriter, count_syncs, syncs
from xla_insight.errors import RunExistsError, UsageError
from xla_insight.store import shipping
from xla_insight.store.reader import open_run
from xla_insight.store.writer import RunWriter


def test_an_existing_run_is_never_written_to(new_writer: NewWriter) -> None:
    new_writer().close()
    with pytest.raises(RunExistsError, match="already holds a recorded run"):
        new_writer()
    with pytest.raises(RunExistsError):
        new_writer(group="others")


def test_the_same_group_joins_and_another_does_not(new_writer: NewWriter, tmp_path: Path) -> None:
    first, second = new_writer(group="g", rank=0), new_writer(group="g", rank=1)
    again = new_writer(group="g", rank=1)
    assert len({first.folder, second.folder, again.folder}) == 3
    assert again.folder == f"{second.folder}-2"
    with pytest.raises(RunExistsError):
        new_writer(group="h")
    for log in (first, second, again):
        log.close(ended="clean")
    with open_run(tmp_path / "run") as run:
        assert [process.rank for process in run.processes] == [0, 1, 1]


def test_an_empty_folder_may_be_recorded_to_and_a_full_one_not(new_writer: NewWriter, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    new_writer().close()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"x")
    with pytest.raises(RunExistsError, match="not empty"):
        new_writer(tmp_path / "photos")
    assert os.listdir(tmp_path / "photos") == ["cat.jpg"]


def test_a_file_is_not_a_place_to_record_to(new_writer: NewWriter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunExistsError, match="not a folder"):
            new_writer(place)


def test_a_folder_that_cannot_be_written_raises_oserror(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(path: str, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(PermissionError):
        new_writer(tmp_path / "run")


def test_hostile_host_names_stay_in_the_run(tmp_path: Path) -> None:
    facts = {"rank": 3, "host": "../../x/<b>\n" + "y" * 500, "pid": 7}
    log = RunWriter.create(str(tmp_path / "run"), group=None, run_facts={}, process_facts=facts)
    assert Path(log.folder).parent == tmp_path / "run"
    assert Path(log.folder).name.startswith("rank-00003-.._.._x_b_")
    assert len(Path(log.folder).name) < 100


def _join(run: str, group: str | None, rank: int, start: object, results: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    try:
        log = RunWriter.create(run, group=group, run_facts={}, process_facts={"rank": rank, "host": "h", "pid": 1})
    except RunExistsError:
        results.put("refused")  # type: ignore[attr-defined]
        return
    log.append(syncs(10, first=rank))
    log.close(ended="clean")
    results.put("joined")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("group", "joined"), [("one", 8), (None, 1)])
def test_processes_that_create_a_run_at_once(tmp_path: Path, group: str | None, joined: int) -> None:
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(8), context.Queue()
    run = str(tmp_path / "run")
    children = [context.Process(target=_join, args=(run, group, rank % 2, start, results)) for rank in range(8)]
    for child in children:
        child.start()
    outcomes = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    assert outcomes.count("joined") == joined
    assert count_syncs(run) == 10 * joined
    assert [name for name in os.listdir(run) if name.startswith(".")] == []
    assert json.loads(Path(run, "run.json").read_text())["group"] == group


@pytest.fixture
def bucket() -> str:
    """An empty remote place of its own: a thread that a test left behind cannot write into another test's."""
    return f"memory://bucket-{uuid.uuid4().hex}/run"


def test_a_remote_run_is_shipped_and_read_back(
    new_writer: NewWriter, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_insight.store.writer.PART_EVENTS", 100)
    log = new_writer(bucket)
    spool = Path(log.folder)
    for first in range(0, 250, 50):
        log.append(syncs(50, first))
        log.flush()
    log.close(ended="clean")
    assert count_syncs(bucket) == 250
    with open_run(bucket) as run:
        assert run.state == "ended"
        assert run.problems == []
    assert log.lost == {}
    assert not spool.parent.parent.exists()
    with pytest.raises(RunExistsError):
        new_writer(bucket)


def test_a_remote_place_that_fails_keeps_the_spool_and_says_so(
    new_writer: NewWriter, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "CLOSE_S", 0.3)
    log = new_writer(bucket)

    def refuse(*_arguments: object, **_options: object) -> None:
        raise ConnectionError("the network is gone")

    monkeypatch.setattr(fsspec.implementations.memory.MemoryFileSystem, "pipe_file", refuse)
    log.append(syncs(5))
    log.flush()
    log.close(ended="clean")
    assert log.lost["files"] >= 1
    assert log.last_error is not None
    assert "the network is gone" in log.last_error
    assert count_syncs(Path(log.folder).parent) == 5, "what was not shipped can be opened where it is"


def test_a_remote_place_that_hangs_does_not_hang_the_training(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(shipping, "CONNECT_S", 0.1)
    release = threading.Event()
    monkeypatch.setattr(
        fsspec.implementations.memory.MemoryFileSystem, "exists", lambda *_arguments: release.wait(20) and False
    )
    with pytest.raises(OSError, match="did not answer"):
        RunWriter.create(bucket, group=None, run_facts={}, process_facts={"rank": 0})
    release.set()


def test_ranks_join_a_remote_run(new_writer: NewWriter, bucket: str) -> None:
    logs = [new_writer(bucket, group="g", rank=rank) for rank in (0, 1)]
    for log in logs:
        log.append(syncs(3))
        log.close(ended="clean")
    assert count_syncs(bucket) == 6


def test_an_unknown_kind_of_url_is_a_usage_error(new_writer: NewWriter) -> None:
    with pytest.raises(UsageError, match="nosuch"):
        new_writer("nosuch://bucket/run")


def test_a_file_url_is_a_local_folder(new_writer: NewWriter, tmp_path: Path) -> None:
    log = new_writer(f"file://{tmp_path}/run")
    log.append(syncs(3))
    log.close(ended="clean")
    assert Path(log.folder).parent == tmp_path / "run"
    assert count_syncs(f"file://{tmp_path}/run") == 3
