"""Tables made from columns say the same as the views: for usual runs, hostile ones, and rows nobody recorded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.synthetic import build_large_run, build_run
from xla_insight.analysis.event_frames import _texts_of_lists, event_frames
from xla_insight.facts.events import Event, Kind, StepSource
from xla_insight.store.reader import Run, open_run
from xla_insight.store.writer import RunWriter

CUT = "process, step, time_ns, duration_ns, thread"
SAME = {
    "syncs": f"select {CUT}, trigger, executions, compiles, graph, site from syncs",
    "executions": "select process, step, time_ns, duration_ns, graph, trigger, outcome, cut_ns, site from executions",
    "reads": f"select {CUT}, method, executions, compiles, site from reads",
    "spans": f"select {CUT}, kind, name, site from host_spans"
    " where duration_ns is not null and (thread is null or thread = 0)",
    "waits": "select process, step, time_ns, duration_ns, kind, site from events"
    " where duration_ns is not null and (thread is null or thread = 0)"
    " and (kind = 'sync' and detail = 'wait' or kind = 'device_wait' and name = 'wait_device_ops')",
    "saves": "select process, time_ns, duration_ns, thread, name from host_spans where kind = 'checkpoint'"
    " and duration_ns is not null",
    "counters": "select process, name, sum(delta) as delta, sum(duration_ns) as duration_ns,"
    " count(distinct step) as steps from counters group by process, name",
    "inputs": "select process, min(time_ns) as first_ns, max(time_ns) as last_ns from inputs group by process",
    "ran": "select process, graph, trigger, site, count(*) as executions, min(time_ns) as first_ns from executions"
    " where graph is not null group by process, graph, trigger, site",
    "uploads": "select process, time_ns, name, dims::varchar as dims, dtype, site, maker from inputs",
    "samples": "select process, step, time_ns, site from samples",
    "scalar_reads": "select process, time_ns, scalar from reads where scalar is not null",
    "data_operations": "select process, time_ns, name, delta from counters where starts_with(name, 'aten::')"
    " and name <> 'aten::_local_scalar_dense'",
}


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """With one type for all numbers and one for all texts, in an order that depends on nothing else."""
    plainly = {
        name: frame[name].astype(object).where(frame[name].notna(), "")
        if str(frame[name].dtype) in ("category", "object", "str")
        else frame[name].astype("float64")
        for name in frame
    }
    return pd.DataFrame(plainly).sort_values(list(frame.columns), ignore_index=True)


def check(run: Run) -> None:
    found = event_frames(run)
    assert found.keys() == SAME.keys()
    ends = run.sql("select process, max(time_ns + coalesce(duration_ns, 0)) as end_ns from events group by process")
    known = {process.index: process.end_ns for process in run.processes if process.index in set(ends["process"])}
    assert known == {process: max(end, 0) for process, end in zip(ends["process"], ends["end_ns"], strict=True)}
    for name, query in SAME.items():
        expected = run.sql(query)
        assert list(found[name].columns) == list(expected.columns)
        pd.testing.assert_frame_equal(plain(found[name]), plain(expected), check_dtype=False, check_exact=True)
        if "time_ns" in found[name] and not found[name].empty:
            times = found[name].groupby("process")["time_ns"]
            assert all(rows.is_monotonic_increasing for _, rows in times)


@pytest.mark.parametrize("changes", [{"ranks": 2, "save_every": 3}, {"hostile": True, "steps": 5}, {"steps": 0}])
def test_columns_and_views_say_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    with open_run(build_run(tmp_path / "run", **{"steps": 12, **changes})) as run:
        check(run)


def test_parts_without_their_facts_and_several_files(tmp_path: Path) -> None:
    """What is not in a file that can be read in place is read from the database, and takes its place in time."""
    path = build_large_run(tmp_path / "run", 400, steps_a_part=100)
    with open_run(path) as run:
        check(run)
        whole = event_frames(run)["syncs"]
    (folder,) = (entry for entry in path.iterdir() if entry.is_dir())
    (folder / "process.json").unlink()
    with open_run(path) as run:
        check(run)
        assert len(event_frames(run)["syncs"]) == len(whole)


def test_a_run_without_processes(tmp_path: Path) -> None:
    path = build_run(tmp_path / "run", steps=1)
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
    with open_run(os.fspath(path)) as run:
        check(run)


numbers = st.none() | st.sampled_from([0.0, 1.0, 2.5, -1.0, 3e9, float("inf")])
times = st.integers(0, 10**12) | st.sampled_from([-(1 << 61), 1 << 61])
events = st.builds(
    Event,
    times,
    st.none() | st.integers(-5, 10**9) | st.just(1 << 62),
    st.sampled_from(["sync", "read", "backward", "execution", "counter", "input", "device_wait"]).map(Kind),
    thread=st.none() | st.integers(0, 1),
    graph=st.none() | st.sampled_from(["a", "b"]),
    site=st.none() | st.integers(0, 3),
    name=st.none() | st.sampled_from(["loader", "aten::nonzero", "aten::_local_scalar_dense", "wait_device_ops", "Ä"]),
    value=numbers,
    dims=st.none() | st.lists(st.integers(0, 10**6), max_size=3).map(tuple),
    detail=st.none() | st.sampled_from(["hit", "int64", "wait"]),
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(events, max_size=40), marks=st.lists(st.integers(0, 10**12), max_size=4))
def test_any_rows(tmp_path: Path, rows: list[Event], marks: list[int]) -> None:
    path = tmp_path / "run"
    shutil.rmtree(path, ignore_errors=True)
    log = RunWriter.create(str(path), group="g", run_facts={}, process_facts={"rank": 0, "start_mono_ns": 0})
    log.append([Event(0, None, Kind.MARK, name="start"), *rows])
    log.append([Event(at, None, Kind.STEP, name=StepSource.CALLBACK) for at in sorted(marks)])
    log.close(ended="clean")
    with open_run(path) as run:
        check(run)


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20), max_size=30))
def test_lists_of_numbers_as_text(lists: list[list[int | None] | None]) -> None:
    found = _texts_of_lists(pa.array(lists, pa.list_(pa.int64())))
    words = [None if one is None else str(one).replace("None", "NULL") for one in lists]
    assert [None if pd.isna(word) else word for word in found] == words
