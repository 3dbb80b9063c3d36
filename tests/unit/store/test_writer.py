"""The writer under what happens to disks: nothing is raised, what is lost is counted, writing resumes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.store.conftest import NewWriter, count_syncs, definition, syncs
from xla_insight.facts.events import Event, Kind
from xla_insight.store import folder, graph_files, parts, writer
from xla_insight.store.reader import open_run
from xla_insight.store.schema import OPEN_FILE, RESERVE_FILE, part_name


def process_file(folder: str) -> dict[str, object]:
    content: dict[str, object] = json.loads((Path(folder) / "process.json").read_text())
    return content


def test_a_flush_is_readable_at_once_and_close_leaves_one_part(new_writer: NewWriter) -> None:
    log = new_writer()
    log.append(syncs(10))
    assert count_syncs(Path(log.folder).parent) == 0
    log.flush()
    assert count_syncs(Path(log.folder).parent) == 10
    log.append(syncs(5, first=10))
    log.close(ended="clean")
    assert sorted(os.listdir(log.folder)) == [part_name(1), "process.json"]
    assert count_syncs(Path(log.folder).parent) == 15
    assert process_file(log.folder)["ended"] == "clean"
    log.append(syncs(5))  # a late thread
    log.flush()
    log.close(ended="exit")
    assert process_file(log.folder)["ended"] == "clean"


def test_a_part_closes_at_its_limit_and_no_row_counts_twice(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PART_EVENTS", 100)
    log = new_writer()
    for first in range(0, 350, 50):
        log.append(syncs(50, first))
        log.flush()
    assert sorted(os.listdir(log.folder)) == [OPEN_FILE, *map(part_name, (1, 2, 3)), "process.json", RESERVE_FILE]
    assert count_syncs(Path(log.folder).parent) == 350


def test_the_stream_of_a_part_that_is_there_too_is_ignored(new_writer: NewWriter) -> None:
    """As a kill between the two leaves it."""
    log = new_writer()
    log.append(syncs(10))
    log.flush()
    stream_bytes = (Path(log.folder) / OPEN_FILE).read_bytes()
    log.close()
    (Path(log.folder) / OPEN_FILE).write_bytes(stream_bytes)
    assert count_syncs(Path(log.folder).parent) == 10


def test_a_large_log_takes_few_bytes_an_event(tmp_path: Path) -> None:
    from tests.synthetic import build_large_run

    run = build_large_run(tmp_path / "run", 20_000)
    size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert size / 200_000 <= 24


class FullDisk:
    """Lets ``room`` more bytes through `os.write`, then says the disk is full; tears the write at the limit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_a_batch_torn_by_a_full_disk_is_cut_off_and_written_again(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_writer()
    log.append(syncs(10))
    log.flush()
    before = (Path(log.folder) / OPEN_FILE).read_bytes()
    disk = FullDisk(monkeypatch, room=100)
    log.append(syncs(10, first=10))
    log.flush()
    assert (Path(log.folder) / OPEN_FILE).read_bytes() == before
    assert log.last_error is not None
    assert "No space left" in log.last_error
    disk.room = 1 << 30
    log.flush()
    assert count_syncs(Path(log.folder).parent) == 20
    assert log.lost == {}


def test_a_disk_full_for_long_costs_the_oldest_events_and_they_are_counted(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PART_EVENTS", 100)
    log = new_writer()
    disk = FullDisk(monkeypatch, room=0)
    log.append([definition()])
    for first in range(0, 400, 40):
        log.append(syncs(40, first))
        log.flush()
    kept = sum(batch.num_rows for batch in log._pending)
    assert kept <= 100
    assert 300 <= log.lost["events"] <= 400
    disk.room = 1 << 30
    log.append(syncs(1, first=400))
    log.close(ended="clean")
    with open_run(Path(log.folder).parent) as run:
        assert len(run.syncs) + log.lost["events"] == 401
        assert run.sites["line"].tolist() == [3], "what later events refer to must be there again"
        assert run.processes[0].facts["lost"] == log.lost


def test_events_that_can_never_be_written_are_lost_at_close(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_writer()
    FullDisk(monkeypatch, room=0)
    log.append(syncs(7))
    log.close(ended="clean")
    assert log.lost == {"events": 7}


def test_a_part_that_cannot_be_compacted_stays_a_stream(new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PART_EVENTS", 10)

    def refuse(path: str, _batches: object) -> parts.PartFacts:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(writer, "write_part", refuse)
    log = new_writer()
    for first in range(0, 30, 10):
        log.append(syncs(10, first))
        log.flush()
    log.close(ended="clean")
    assert [name for name in sorted(os.listdir(log.folder)) if name.endswith(".arrows")] == [
        part_name(number, ".arrows") for number in (1, 2, 3)
    ]
    assert count_syncs(Path(log.folder).parent) == 30


def test_a_part_that_can_be_neither_compacted_nor_renamed_stays_open_in_bounded_memory(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PART_EVENTS", 10)

    def refuse(path: str, *_more: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", path)

    log = new_writer()
    monkeypatch.setattr(writer, "write_part", refuse)
    monkeypatch.setattr(os, "rename", refuse)
    for first in range(0, 50, 10):
        log.append(syncs(10, first))
        log.flush()
    assert log._stream is not None
    assert log._stream.batches == []
    assert count_syncs(Path(log.folder).parent) == 50
    assert log.lost == {}


def test_the_folder_is_deleted_under_the_writer(new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PART_EVENTS", 100)
    log = new_writer()
    run = Path(log.folder).parent
    log.append([definition(), *syncs(99)])
    log.flush()  # closes part 1
    log.append(syncs(5, first=99))
    log.flush()
    shutil.rmtree(run)
    log.append(syncs(7, first=104))
    log.flush()
    assert log.lost == {"events": 99}, "of what was on disk only the closed part is gone"
    assert count_syncs(run) == 12
    log.close(ended="clean")
    with open_run(run) as opened:
        assert opened.state == "ended"
        assert opened.info["command"] == ["python", "train.py"]
        assert opened.sites["file"].tolist() == ["train.py"]
        assert opened.processes[0].facts["lost"] == {"events": 99}


def test_the_folder_is_moved_under_the_writer(new_writer: NewWriter, tmp_path: Path) -> None:
    log = new_writer()
    run = Path(log.folder).parent
    log.append(syncs(5))
    log.flush()
    run.rename(tmp_path / "moved")
    log.append(syncs(2, first=5))
    log.close(ended="clean")
    assert count_syncs(run) == 7
    assert count_syncs(tmp_path / "moved") == 5


def test_the_folder_is_replaced_by_a_file(new_writer: NewWriter) -> None:
    log = new_writer()
    run = Path(log.folder).parent
    log.append(syncs(5))
    log.flush()
    shutil.rmtree(run)
    run.write_text("not a folder")
    log.append(syncs(2, first=5))
    log.flush()
    log.update_process(note=1)
    log.close(ended="clean")
    assert log.lost["events"] == 7


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits are of POSIX")
def test_a_limit_on_file_size_costs_no_event_that_fits(tmp_path: Path) -> None:
    program = f"""
    import json, resource
    from tests.unit.store.conftest import syncs
    from xla_insight.store.writer import RunWriter
    facts = {{"rank": 0, "start_mono_ns": 1, "wall_anchor_ns": 1}}
    log = RunWriter.create({str(tmp_path / "run")!r}, group=None, run_facts={{}}, process_facts=facts)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
    for first in range(0, 3000, 100):
        log.append(syncs(100, first))
        log.flush()
    log.close(ended="clean")
    print(json.dumps([log.lost, log.last_error]))
    """
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, cwd=root
    )
    lost, _ = json.loads(done.stdout)
    assert count_syncs(tmp_path / "run") + lost.get("events", 0) == 3000
    assert lost == {}


def test_a_full_disk_for_process_facts_is_made_up_for_later(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_writer()

    def refuse(*_paths: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        log.update_process(device="TPU")
    assert process_file(log.folder)["device"] == "CPU"
    assert [name for name in os.listdir(log.folder) if name.startswith(".")] == []
    log.append(syncs(1))
    log.flush()
    assert process_file(log.folder)["device"] == "TPU"


def test_a_forked_child_writes_nothing(new_writer: NewWriter) -> None:
    log = new_writer()
    log.append(syncs(3))
    child = os.fork()
    if child == 0:
        log.append(syncs(4, first=3))
        log.flush()
        log.close(ended="exit")
        os._exit(0)
    os.waitpid(child, 0)
    log.close(ended="clean")
    assert count_syncs(Path(log.folder).parent) == 3


def test_values_that_fit_no_column_are_counted(new_writer: NewWriter) -> None:
    log = new_writer()
    log.append([*syncs(2), Event(9, None, Kind.SYNC, step=2**40)])
    log.close()
    assert log.lost == {"events": 1}
    assert count_syncs(Path(log.folder).parent) == 2


def test_losses_of_the_recorder_are_added_to_those_of_the_writer(new_writer: NewWriter) -> None:
    log = new_writer()
    log.append([Event(9, None, Kind.SYNC, step=2**40)])
    log.close(lost={"events": 2, "blocks": 1})
    assert process_file(log.folder)["lost"] == {"events": 3, "blocks": 1}


def test_rows_of_one_kind_are_read_without_the_others(tmp_path: Path) -> None:
    from tests.synthetic import build_large_run

    run = build_large_run(tmp_path / "run", 6_500)
    metadata = pq.ParquetFile(next(run.rglob("part-000001.parquet"))).metadata
    kind = metadata.schema.names.index("kind")
    groups = [metadata.row_group(number).column(kind).statistics for number in range(metadata.num_row_groups)]
    with_syncs = [group for group in groups if group.min <= "sync" <= group.max]
    assert len(with_syncs) < len(groups) / 2


def test_graphs_are_stored_once_and_read_back(new_writer: NewWriter) -> None:
    log = new_writer()
    content = b"module" * 10_000
    size = log.write_graph("ab12", content)
    assert size is not None
    assert size < len(content) // 10
    assert log.write_graph("../ab12", content) is None
    log.close(ended="clean")
    assert process_file(log.folder)["graphs"] == {"ab12": [size, len(content)]}
    with open_run(Path(log.folder).parent) as run:
        assert run.graph_hashes() == {"ab12"}
        assert run.hlo("ab12") == content
        assert run.hlo("../ab12") is None
        (Path(log.folder) / "graphs" / "ab12.hlo.pb.zst").write_bytes(b"(damaged)")
        assert run.hlo("ab12") is None


def test_a_graph_that_unpacks_without_end_is_not_opened(new_writer: NewWriter) -> None:
    log = new_writer()
    log.write_graph("ab12", bytes(10_000_000))
    log.close()
    packed = (Path(log.folder) / "graphs" / "ab12.hlo.pb.zst").read_bytes()
    assert graph_files.decompress(packed, limit=1_000_000) is None
    assert graph_files.decompress(packed, limit=10_000_000) == bytes(10_000_000)


def test_source_lines_are_read_back(new_writer: NewWriter) -> None:
    log = new_writer()
    log.append([Event(5, None, Kind.SOURCE, name="/u/train.py", dims=(9,), detail="a\n\n  c")])
    log.append([Event(6, None, Kind.SOURCE, name="/u/train.py", dims=(12,), detail="d")])
    log.close()
    with open_run(Path(log.folder).parent) as run:
        assert run.snippet("/u/train.py", 11, around=2) == [(9, "a"), (10, ""), (11, "  c"), (12, "d")]
        assert run.snippet("/u/other.py", 11) == []


def test_the_last_facts_have_room_on_a_full_disk(new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody would learn that the recording ended, and what it lost."""
    log = new_writer()
    reserve = Path(log.folder) / RESERVE_FILE
    assert reserve.stat().st_size >= 1 << 16
    replace_json = folder.replace_json

    def full(path: str, content: dict[str, object]) -> None:
        if reserve.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        replace_json(path, content)

    monkeypatch.setattr(folder, "replace_json", full)
    log.append(syncs(7))
    log.lost["events"] = 3
    log.close(ended="clean")
    facts = open_run(Path(log.folder).parent).processes[0].facts
    assert facts["ended"] == "clean" and facts["lost"] == {"events": 3}
