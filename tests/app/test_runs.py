"""The listing of runs: states from files, newest first, and no way out of the served folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from xla_insight_app.runs import QUIET_S, RunState, find_run, list_runs

from xla_insight.errors import RunNotFoundError
from xla_insight.store.reader import LIVE_S


def make_run(folder: Path, *, started_s: float = 0.0, ended: str | None = "clean", quiet_s: float = 0.0) -> Path:
    """The small files of a run, without a log."""
    process = folder / "rank-00000-host-1"
    process.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"schema": 1, "id": folder.name, "started_unix_ns": started_s * 1e9}))
    (process / "process.json").write_text(json.dumps({"schema": 1} | ({"ended": ended} if ended else {})))
    written = time.time() - quiet_s
    for path in (folder / "run.json", process / "process.json"):
        os.utime(path, (written, written))
    return folder


def test_runs_are_sub_folders_with_a_run_file_newest_first(tmp_path: Path) -> None:
    make_run(tmp_path / "old", started_s=100)
    make_run(tmp_path / "new", started_s=300)
    make_run(tmp_path / "middle", started_s=200)
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("x")
    assert [entry.id for entry in list_runs(tmp_path)] == ["new", "middle", "old"]


def test_a_folder_that_is_a_run_lists_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path / "alone")
    assert [entry.id for entry in list_runs(run)] == ["alone"]
    assert find_run(run, "alone").path == run.resolve()
    with pytest.raises(RunNotFoundError):
        find_run(run, "rank-00000-host-1")


def test_states(tmp_path: Path) -> None:
    make_run(tmp_path / "ended")
    make_run(tmp_path / "recording", ended=None)
    make_run(tmp_path / "crashed", ended=None, quiet_s=QUIET_S + 5)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run.json").write_text("{}")
    os.utime(tmp_path / "empty" / "run.json", (1, 1))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{not json")
    assert {entry.id: entry.state.value for entry in list_runs(tmp_path)} == {
        name: name for name in ("ended", "recording", "crashed", "empty", "broken")
    }


def test_a_process_that_fell_silent_is_a_crash_although_another_just_ended(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ended=None, quiet_s=QUIET_S + 5)
    other = run / "rank-00001-host-2"
    other.mkdir()
    (other / "process.json").write_text('{"ended": "clean"}')
    assert find_run(tmp_path, "run").state is RunState.CRASHED


def test_the_listing_and_the_reader_agree_on_silence() -> None:
    assert QUIET_S == LIVE_S


def test_the_revision_changes_with_the_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    before = find_run(tmp_path, "run").revision
    assert find_run(tmp_path, "run").revision == before
    (run / "rank-00000-host-1" / "open.arrows").write_bytes(b"x")
    assert find_run(tmp_path, "run").revision != before


@pytest.mark.parametrize(
    "name", ["..", ".", "", "../secret", "/etc", "run/../../secret", "a\0b", "..\\secret", "run/rank-00000-host-1"]
)
def test_no_name_leads_out(tmp_path: Path, name: str) -> None:
    make_run(tmp_path / "secret")
    make_run(tmp_path / "runs" / "run")
    with pytest.raises(RunNotFoundError):
        find_run(tmp_path / "runs", name)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = make_run(tmp_path / "outside")
    runs = tmp_path / "runs"
    make_run(runs / "run")
    (runs / "linked").symlink_to(outside)
    assert [entry.id for entry in list_runs(runs)] == ["run"]
    with pytest.raises(RunNotFoundError):
        find_run(runs, "linked")
    (runs / "run" / "rank-00009-x-1").symlink_to(outside / "rank-00000-host-1")
    entry = find_run(runs, "run")
    assert entry.state is RunState.BROKEN
    assert entry.problem is not None
    assert "link" in entry.problem


def test_a_link_within_the_folder_is_a_run(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    (tmp_path / "latest").symlink_to("run")
    assert {entry.id for entry in list_runs(tmp_path)} == {"run", "latest"}


def test_links_that_lead_nowhere_hide_nothing(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    make_run(tmp_path / "other")
    (tmp_path / "gone").symlink_to("nothing")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "run" / "notes").symlink_to("nothing")
    folder = next(path for path in (tmp_path / "run").iterdir() if path.is_dir())
    (folder / "part-000099.parquet").symlink_to("nothing")
    (folder / "circle").symlink_to("circle")
    found = {entry.id: entry.problem for entry in list_runs(tmp_path)}
    assert set(found) == {"run", "other"}
    assert found["other"] is None


def test_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match=r"cannot be read|gone"):
        list_runs(tmp_path / "nothing")
    with pytest.raises(RunNotFoundError, match="gone"):
        find_run(tmp_path / "nothing", "a")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"started_unix_ns": 1e999}',
        '{"started_unix_ns": NaN}',
        '{"started_unix_ns": 1' + "0" * 400 + "}",
    ],
)
def test_a_hostile_run_file_spoils_no_listing(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text(text)
    (entry,) = list_runs(tmp_path)
    assert entry.started_unix_s is None
