"""Opening runs: whole, growing, crashed, damaged, hostile."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.synthetic import build_run, process_facts
from tests.unit.store.conftest import NewWriter, count_syncs, syncs
from xla_insight.errors import InsightError, RunFormatError, RunNotFoundError
from xla_insight.facts.events import Event
from xla_insight.store import database, writer
from xla_insight.store.reader import LIVE_S, open_run
from xla_insight.store.schema import OPEN_FILE, part_name
from xla_insight.store.stream_reader import read_stream
from xla_insight.store.views import TABLES


def process_folder(run: Path) -> Path:
    return next(path for path in run.iterdir() if path.is_dir())


def make_silent(run: Path) -> None:
    """As if nothing had been written for a while."""
    for path in run.rglob("*"):
        os.utime(path, (0, 0))


def open_and_look(run: Path) -> int:
    """Read every table; the number of events. Only errors meant for a user may come out."""
    with open_run(run) as opened:
        for name in TABLES:
            opened.table(name)
        return len(opened.events)


@pytest.fixture
def parts_of_ten(new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A crashed run of 45 syncs: four closed parts, and half of one in four batches."""
    monkeypatch.setattr(writer, "PART_EVENTS", 10)
    log = new_writer()
    for first in range(0, 40, 10):
        log.append(syncs(10, first))
        log.flush()
    for first in range(40, 45):
        log.append(syncs(1, first))
        log.flush()
    return tmp_path / "run"


# ---- whole runs


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 1 << 59), st.integers(0, 1 << 40)), max_size=8), max_size=6),
    part_events=st.integers(1, 12),
)
def test_what_is_written_is_read(
    batches: list[list[tuple[int, int]]], part_events: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = tmp_path_factory.mktemp("runs") / "run"
    patch = pytest.MonkeyPatch()
    patch.setattr(writer, "PART_EVENTS", part_events)
    facts = {"rank": 0, "start_mono_ns": 5, "wall_anchor_ns": 7}
    log = writer.RunWriter.create(str(run), group=None, run_facts={}, process_facts=facts)
    written = []
    for batch in batches:
        log.append([Event(time, took, "gc", thread=0, name="gen2", value=1.0) for time, took in batch])
        log.flush()
        written += [(time - 5, took) for time, took in batch]
        with open_run(run) as opened:
            frame = opened.sql("select time_ns, duration_ns from events")
            assert sorted(zip(frame["time_ns"], frame["duration_ns"], strict=True)) == sorted(written)
            assert opened.problems == []
    patch.undo()


def test_states(new_writer: NewWriter, tmp_path: Path) -> None:
    run = tmp_path / "run"
    log = new_writer()
    log.append(syncs(1))
    log.flush()
    assert open_run(run).state == "recording"
    assert open_run(run).processes[0].live
    make_silent(run)
    assert open_run(run).state == "crashed"
    assert LIVE_S > 10
    log.close(ended="exception")
    assert open_run(run).state == "ended"
    assert open_run(run).processes[0].ended == "exception"
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "run.json").write_text('{"schema": 1}')
    assert open_run(tmp_path / "none").state == "empty"
    assert open_and_look(tmp_path / "none") == 0


def test_a_run_is_read_while_it_is_written(
    new_writer: NewWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each look finds all events up to some instant: never fewer than before, none twice, no problem."""
    monkeypatch.setattr(writer, "PART_EVENTS", 7)
    log = new_writer()
    done = threading.Event()

    def write() -> None:
        for first in range(0, 600, 3):
            log.append(syncs(3, first))
            log.flush()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    last = 0
    while not done.is_set() or last < 600:
        with open_run(tmp_path / "run") as run:
            times = run.sql("select time_ns from events order by 1")["time_ns"].tolist()
            assert run.problems == []
        assert times == list(range(times[0], times[0] + len(times))) if times else True
        assert len(times) >= last
        last = len(times)
    thread.join()
    assert last == 600


# ---- torn and damaged


def test_any_truncation_of_the_open_part_loses_only_a_suffix(parts_of_ten: Path) -> None:
    path = process_folder(parts_of_ten) / OPEN_FILE
    whole = path.read_bytes()
    rows, ends = [], [0]
    for size in range(len(whole) + 1):
        _, tables, problem = read_stream(whole[:size])
        assert problem is None
        rows.append(sum(table.num_rows for table in tables))
        if rows[-1] != rows[ends[-1]]:
            ends.append(size)
    assert rows == sorted(rows) and set(rows) == set(range(6))
    found = []
    # Around each size at which one more batch is whole, and in between.
    for size in sorted({*range(0, len(whole), 397), *ends, *(size - 1 for size in ends[1:]), len(whole)}):
        path.write_bytes(whole[:size])
        with open_run(parts_of_ten) as run:
            times = run.sql("select time_ns from syncs order by 1")["time_ns"]
            assert times.tolist() == list(range(times[0], times[0] + len(times)))
            assert run.problems == [], "a torn tail is what a kill leaves, not damage"
            assert len(times) == 40 + rows[size]
            found.append(len(times))
    assert found == sorted(found)
    assert {found[0], found[-1]} == {40, 45}
    path.write_bytes(whole)
    assert count_syncs(parts_of_ten) == 45


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_crashes_the_reader(parts_of_ten: Path, data: st.DataObject) -> None:
    files = sorted(path for path in parts_of_ten.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    whole = path.read_bytes()
    where = data.draw(st.integers(0, len(whole) - 1))
    damage = data.draw(st.binary(min_size=1, max_size=40))
    path.write_bytes(whole[:where] + damage + whole[where + len(damage) :])
    small_bytes = data.draw(st.sampled_from([database.SMALL_BYTES, -1]))  # read at once, or left in its files
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "SMALL_BYTES", small_bytes)
            assert open_and_look(parts_of_ten) <= 45
    except InsightError:
        assert path.name == "run.json"
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("where", [0, 10, 200, -30, -1])
def test_a_damaged_part_is_skipped_counted_and_named(parts_of_ten: Path, where: int) -> None:
    path = process_folder(parts_of_ten) / part_name(2)
    content = bytearray(path.read_bytes())
    content[where] ^= 0x40
    path.write_bytes(content)
    with open_run(parts_of_ten) as run:
        assert run.skipped_parts == 1
        assert len(run.problems) == 1
        assert part_name(2) in run.problems[0]
        assert len(run.syncs) == 35


def test_a_missing_part_is_named(parts_of_ten: Path) -> None:
    (process_folder(parts_of_ten) / part_name(3)).unlink()
    with open_run(parts_of_ten) as run:
        assert run.skipped_parts == 1
        assert run.problems == [f"{process_folder(parts_of_ten).name}/{part_name(3)} is missing (10 events)"]
        assert len(run.syncs) == 35


def test_without_process_facts_parts_are_decoded_and_clocks_come_from_the_log(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", ranks=2)
    with open_run(run) as opened:
        before = opened.sql("select process, time_ns, kind from events order by all")
    for path in run.rglob("process.json"):
        path.write_text("{")
    with open_run(run) as opened:
        after = opened.sql("select process, time_ns, kind from events order by all")
        assert len(opened.problems) == 2
        assert opened.skipped_parts == 0
        assert opened.state == "recording", "nothing says that it ended"
    assert len(after) == len(before)
    assert after["kind"].tolist() == before["kind"].tolist()


def test_a_part_damaged_beside_its_stream_is_read_from_the_stream(new_writer: NewWriter, tmp_path: Path) -> None:
    log = new_writer()
    log.append(syncs(10))
    log.flush()
    stream = (Path(log.folder) / OPEN_FILE).read_bytes()
    log.close()
    (Path(log.folder) / OPEN_FILE).write_bytes(stream)
    (Path(log.folder) / part_name(1)).write_bytes(b"PAR1 torn")
    assert count_syncs(tmp_path / "run") == 10


# ---- hostile


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "does not hold a JSON object"),
        (b"{}", "names no schema version"),
        (b'{"schema": "1"}', "names no schema version"),
        (b'{"schema": true}', "names no schema version"),
        (b'{"schema": 99}', "newer xla-insight"),
        (b'{"schema": 1' + b" " * (9 << 20) + b"}", "larger than 8 MB"),
    ],
    ids=["empty", "binary", "deep", "list", "no schema", "text", "bool", "newer", "huge"],
)
def test_a_hostile_run_file_is_one_clear_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    run = build_run(tmp_path / "run", steps=2)
    (run / "run.json").write_bytes(content)
    with pytest.raises(RunFormatError, match=says) as caught:
        open_run(run)
    assert "\n" not in str(caught.value)
    assert "run.json" in str(caught.value)


WRONG = [None, True, -1, 2**70, 1.5, "x" * 1000, [], {}, [[1]], {"a": [1]}]


def test_facts_of_wrong_types_are_dropped(tmp_path: Path) -> None:
    """Each fact has each wrong value in one of the processes of a run."""
    run = build_run(tmp_path / "run", steps=3, ranks=len(WRONG))
    paths = sorted(run.glob("rank-*/process.json"))
    assert len(paths) == len(WRONG)
    facts = [json.loads(path.read_text()) for path in paths]
    names = sorted({name for known in facts for name in known} - {"schema"})
    for few in (names[first : first + 5] for first in range(0, len(names), 5)):
        for rank, (path, known) in enumerate(zip(paths, facts, strict=True)):
            wrong = {name: WRONG[(rank + place) % len(WRONG)] for place, name in enumerate(few)}
            path.write_text(json.dumps({**known, **wrong}))
        assert open_and_look(run) > 0
    for path, value in zip(paths, WRONG, strict=True):
        path.write_text(json.dumps({"schema": 1, **dict.fromkeys(names, value)}))
    assert open_and_look(run) > 0
    for value in WRONG:
        fields = dict.fromkeys(("id", "group", "command", "started_unix_ns", "level"), value)
        (run / "run.json").write_text(json.dumps({"schema": 1, **fields}))
        with open_run(run) as opened:
            assert isinstance(opened.info.get("command", []), list)
            assert isinstance(opened.info.get("started_unix_ns", 0), int)


def test_a_process_of_a_newer_schema_is_skipped_and_named(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", ranks=2)
    path = process_folder(run) / "process.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 9}))
    with open_run(run) as opened:
        assert len(opened.processes) == 1
        assert "newer" in opened.problems[0]
        assert opened.skipped_parts == 1


def test_links_out_of_the_run_and_pipes_are_not_opened(tmp_path: Path, new_writer: NewWriter) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"schema": 1, **process_facts(), "device": "the secret"}))
    run = build_run(tmp_path / "linked", steps=2)
    folder = process_folder(run)
    (folder / "process.json").unlink()
    (folder / "process.json").symlink_to(secret)
    os.mkfifo(folder / OPEN_FILE)
    (folder / part_name(2)).symlink_to("/dev/zero")
    (run / "rank-00007-elsewhere-1").symlink_to(tmp_path)
    with open_run(run) as opened:
        assert "the secret" not in opened.processes[0].facts.values()
        text = " ".join(opened.problems)
        assert "process.json is a link to a place outside the run" in text
        assert f"{OPEN_FILE}: is not a regular file" in text
        assert f"{part_name(2)}: is a link to a place outside the run" in text
    (run / "run.json").unlink()
    (run / "run.json").symlink_to(secret)
    with pytest.raises(RunFormatError, match="link to a place outside"):
        open_run(run)


def test_a_run_may_be_reached_through_a_link(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", steps=2)
    (tmp_path / "latest").symlink_to(run)
    assert open_and_look(tmp_path / "latest") == open_and_look(run)


@pytest.mark.parametrize("name", ["it's [1]*", "a?b{c}", "ünï ¢ode", "-rf", "%s;drop table steps"])
def test_folders_of_any_name(tmp_path: Path, name: str) -> None:
    assert len(open_run(build_run(tmp_path / name, steps=3)).steps) == 3


def test_what_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "gone", tmp_path / "file", tmp_path, "memory://nothing/here", "nosuch://x"):
        with pytest.raises(RunNotFoundError):
            open_run(path)


# ---- queries


def test_a_folder_of_runs_lists_them(tmp_path: Path) -> None:
    for name, at in (("old", 1_000), ("new", 2_000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
        os.utime(tmp_path / name / "run.json", (at, at))
    (tmp_path / "notes").mkdir()
    with pytest.raises(RunNotFoundError) as caught:
        open_run(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} is no run but holds some, the newest first: {tmp_path}/new, {tmp_path}/old; name one"
    )
