"""The exported trace in Perfetto's own trace processor: tracks, slices, flows and counters are what was meant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.browser.perfetto_processor import TraceProcessor, trace_processor
from tests.synthetic import HOSTILE_SCRIPT, build_run
from xla_insight import cli
from xla_insight.store.reader import open_run

STEPS = 20


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks with checkpoints and a device window."""
    return build_run(tmp_path_factory.mktemp("perfetto") / "run", steps=STEPS, ranks=2, save_every=5, window=(5, 6))


@pytest.fixture(scope="module")
def loaded(driver: webdriver.Chrome, run: Path) -> Iterator[TraceProcessor]:
    """The run, exported and loaded."""
    trace = run.parent / "run.pftrace"
    assert cli.main(["export", str(run), "--perfetto", str(trace)]) == 0
    with trace_processor(driver, trace) as processor:
        yield processor


def test_the_trace_is_read_without_a_complaint(loaded: TraceProcessor) -> None:
    complaints = loaded.rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert complaints == []


def test_tracks_have_their_names_below_their_rank(loaded: TraceProcessor) -> None:
    found = loaded.rows("""
        select process.name as process, process_track.name as track, count(slice.id) as slices
        from process_track join process using (upid) left join slice on slice.track_id = process_track.id group by 1, 2
    """)
    counts = {(process, track): number for process, track, number in found}
    for rank in ("rank 0 on node-1", "rank 1 on node-1"):
        assert counts[rank, "steps"] == STEPS
        for track in ("host state (training thread)", "cuts and value reads", "device, by graph", "compiles"):
            assert counts[rank, track] > 0, (rank, track)


def test_times_are_those_of_the_run(loaded: TraceProcessor, run: Path) -> None:
    """Nothing is moved, cut off or left open (``dur`` is -1 then)."""
    shown = loaded.rows("""
        select count(*), sum(dur), min(dur) from slice join process_track on track_id = process_track.id
        where process_track.name = 'device, by graph'
    """)
    steps = loaded.rows("""
        select slice.name, slice.ts, slice.dur from slice join process_track on track_id = process_track.id
        join process using (upid) where process_track.name = 'steps' and process.name = 'rank 0 on node-1' order by ts
    """)
    with open_run(run) as opened:
        own = opened.sql("select sum(executions) as number, sum(device_ns) as total from graphs").iloc[0]
        lengths = opened.sql("select duration_ns from steps where process = 0 order by start_ns")["duration_ns"]
    assert shown == [(own["number"], own["total"], 0)], "what waits behind another execution takes no time of its own"
    assert [name for name, _, _ in steps] == [f"step {step}" for step in range(STEPS)]
    apart = {first[1] + first[2] - second[1] for first, second in itertools.pairwise(steps)}
    assert apart == {0}, "steps follow each other"
    assert [duration for _, _, duration in steps] == lengths.tolist()


def test_flows_lead_from_a_cut_to_its_execution(loaded: TraceProcessor) -> None:
    found = loaded.rows("""
        select from_track.name as origin, to_track.name as target, count(*) as flows,
               min(later.ts - earlier.ts) as soonest
        from flow
        join slice earlier on earlier.id = flow.slice_out join slice later on later.id = flow.slice_in
        join process_track from_track on from_track.id = earlier.track_id
        join process_track to_track on to_track.id = later.track_id group by 1, 2
    """)
    ((cut, execution, number, soonest),) = found
    assert (cut, execution) == ("cuts and value reads", "device, by graph")
    assert number == 2 * 2 * STEPS and soonest >= 0


def test_counters_have_values(loaded: TraceProcessor) -> None:
    found = loaded.rows("""
        select process_counter_track.name, count(*), min(value), max(value) from counter
        join process_counter_track on track_id = process_counter_track.id group by 1
    """)
    values = {name: (number, least, most) for name, number, least, most in found}
    assert values["executions in flight"][1:] == (0, 1) or values["executions in flight"][2] >= 1
    assert values["step time"][0] == 2 * STEPS


def test_sites_and_causes_can_be_asked_for(loaded: TraceProcessor) -> None:
    sites = loaded.rows("select distinct display_value from args where key = 'debug.site'")
    assert any(".py:" in site for (site,) in sites)
    operations = loaded.rows("""
        select count(*) from slice join process_track on track_id = process_track.id
        where process_track.name = 'device operations, measured'
    """)
    assert operations[0][0] > 0


def test_hostile_names_arrive_as_they_are(driver: webdriver.Chrome, tmp_path: Path) -> None:
    run, trace = build_run(tmp_path / "run", steps=4, hostile=True), tmp_path / "hostile.pftrace"
    assert cli.main(["export", str(run), "--perfetto", str(trace)]) == 0
    with trace_processor(driver, trace) as processor:
        found = processor.rows("select distinct display_value from args where display_value like '%script%'")
        assert any(HOSTILE_SCRIPT in text for (text,) in found)
        assert processor.rows("select sum(value) from stats where severity = 'error'") == [(0,)]
