"""Timeline and Idle: a sentence first, figures that follow the address, and every way to move along the axis."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xla_insight_app.address import Address
from xla_insight_app.data import Library
from xla_insight_app.ids import Timeline as Ids
from xla_insight_app.pages import idle, timeline
from xla_insight_app.scope import Scope, Shown

from tests.app.test_pages import text_of
from tests.pictures import pixels_of
from tests.synthetic import build_run
from xla_insight.facts.report import HostState
from xla_insight.report.figures_colours import Scheme, colours
from xla_insight.report.figures_timeline import time_ticks

SCREEN = {"width": 1376, "scheme": "light"}
MS = 1_000_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("runs")
    build_run(folder / "run", steps=60, ranks=2, save_every=10)
    build_run(folder / "hostile", steps=4, hostile=True, window=(1, 2))
    build_run(folder / "watched", steps=20, window=(10, 12))
    return Library(folder)


@pytest.fixture
def selected(library: Library) -> Shown:
    return Shown(library.view("run"), 0)


def test_the_timeline_leads_with_what_limits_the_stretch(selected: Shown) -> None:
    head, figure, legend, detail = timeline.content(selected, Address(run="run"), SCREEN)
    assert text_of(head[0]).startswith("The device has nothing to run for")
    assert "Steps 0 to 59" in text_of(head[1])
    hues = set(pixels_of(figure.layout.images[0].source).ravel())
    light = colours(Scheme.LIGHT)
    assert {light.host[state] for state in (HostState.COMPILE, HostState.TRACE, HostState.INPUT_WAIT)} <= hues
    assert {light.ink, light.host[HostState.TRANSFER], light.device_busy} <= hues
    assert [trace.name for trace in figure.data] == ["probe", "host", "read", "compile", "transfer"]
    assert "trace" in " ".join(figure.data[0].text)
    assert "host" in text_of(legend) and "idle, compile" in text_of(legend)
    assert "Longest idle gaps in view" in text_of(detail)
    json.loads(figure.to_json())


def test_a_selected_gap_shows_its_cause_its_places_and_its_stack(selected: Shown) -> None:
    gaps = selected.view.timelines.of(0).gaps
    lines = selected.view.timelines.of(0)
    index = next(i for i in range(len(gaps)) if lines.gap(i).opened_by == "read")
    address = Address(run="run", gap=int(gaps.starts[index]) + 1)
    _, figure, _, detail = timeline.content(selected, address, {**SCREEN, "scheme": "dark"})
    text = text_of(detail)
    assert "Idle for" in text and "meanwhile" in text and "Emptied the device" in text
    assert "transformers/masking_utils.py:354" in text and "called from" in text and "Call stack" in text
    assert any(shape.type == "rect" for shape in figure.layout.shapes)


def test_narrow_screens_and_hostile_names_are_fine(library: Library) -> None:
    selected = Shown(library.view("hostile"), 0)
    _, figure, _, detail = timeline.content(selected, Address(run="hostile"), {"width": 360, "scheme": "light"})
    assert "<script>" not in "".join(text for trace in figure.data if trace.name == "probe" for text in trace.text)
    assert detail is not None


@pytest.mark.parametrize(
    ("trigger", "event"),
    [
        (Ids.FIGURE, {"xaxis.range[0]": 100.0 * MS, "xaxis.range[1]": 400.0 * MS}),
        (Ids.LATER, None),
        (Ids.EARLIER, None),
        (Ids.OUT, None),
    ],
)
def test_ways_to_move(selected: Shown, trigger: Ids, event: dict[str, float] | None) -> None:
    lines = selected.view.timelines.of(0)
    before = Address(run="run", time=(lines.begin_ns + 500 * MS, lines.begin_ns + 600 * MS), steps=(1, 2))
    after = timeline.moved(lines, before, trigger, event)
    expected = {
        Ids.FIGURE: (100, 400),
        Ids.LATER: (580, 680),
        Ids.EARLIER: (420, 520),
        Ids.OUT: (400, 700),
    }[trigger]
    assert after.time == tuple(lines.begin_ns + edge * MS for edge in expected)
    assert after.steps == lines.steps_within(*after.time)
    assert Address.parse(after.search) == after


def test_what_was_drawn_is_drawn_again_only_when_something_changed() -> None:
    scope, address = Scope(run="run", process=0, revision="1"), Address(run="run", time=(1, 2))
    drawn = timeline.drawn_key(scope.to_json(), SCREEN, address)
    assert drawn == json.loads(json.dumps(timeline.drawn_key(scope.to_json(), SCREEN, Address.parse(address.search))))
    for changed in (
        timeline.drawn_key(replace(scope, revision="2").to_json(), SCREEN, address),
        timeline.drawn_key(replace(scope, process=1).to_json(), SCREEN, address),
        timeline.drawn_key(scope.to_json(), {**SCREEN, "scheme": "dark"}, address),
        timeline.drawn_key(scope.to_json(), SCREEN, replace(address, gap=7)),
    ):
        assert changed != drawn


def test_the_whole_run_and_what_changes_nothing(selected: Shown) -> None:
    lines = selected.view.timelines.of(0)
    before = Address(run="run", time=(lines.begin_ns + 500 * MS, lines.begin_ns + 600 * MS), steps=(1, 2))
    for trigger, event in ((Ids.WHOLE, None), (Ids.FIGURE, {"xaxis.autorange": True})):
        assert timeline.moved(lines, before, trigger, event) == Address(run="run")
    assert timeline.moved(lines, Address(run="run"), Ids.OUT, None) == Address(run="run")
    for nothing in (None, {"autosize": True}, {"xaxis.range[0]": 5.0, "xaxis.range[1]": 6.0}):
        assert timeline.moved(lines, before, Ids.FIGURE, nothing) == before


def test_a_click_selects_the_longest_gap_of_its_column(selected: Shown) -> None:
    lines = selected.view.timelines.of(0)
    (index,) = lines.longest_gaps(lines.begin_ns, lines.end_ns, 1)
    column = [int(lines.gaps.starts[index]) - lines.begin_ns, int(lines.gaps.ends[index]) - lines.begin_ns]
    after = timeline.moved(lines, Address(run="run"), Ids.FIGURE, {"points": [{"customdata": column}]})
    assert after.gap == int(lines.gaps.starts[index])
    assert timeline.gap_href(lines.gap(index), after).startswith("/timeline?run=run&steps=0-0&time=")


def test_addresses_from_elsewhere_never_break_the_page(selected: Shown) -> None:
    for search in (
        "?time=9-3",
        "?time=x",
        "?gap=1e9",
        "?time=99999999999999999-999999999999999999",
        "?steps=900-901&gap=-5",
    ):
        head, *_ = timeline.content(selected, Address.parse(search), SCREEN)
        assert head


def test_ticks_are_round_and_told_from_the_left_edge_when_deep_in_a_run() -> None:
    ticks, texts, title = time_ticks(0, 10e9, 5)
    assert (ticks, texts) == ([0, 2e9, 4e9, 6e9, 8e9, 10e9], ["0", "2 s", "4 s", "6 s", "8 s", "10 s"])
    assert title == "time since the first step began"
    ticks, texts, title = time_ticks(3_600e9 + 17, 3_600e9 + 1017, 5)
    assert texts[:3] == ["0", "+200 ns", "+400 ns"] and title == "time since 3600.000000017 s"


@given(st.integers(0, 10**15), st.integers(20, 10**15), st.integers(3, 24))
def test_ticks_of_an_axis_are_told_apart(begin: int, length: int, wanted: int) -> None:
    ticks, texts, _ = time_ticks(begin, begin + length, wanted)
    assert len(set(texts)) == len(texts) == len(ticks) <= wanted + 1
    assert all(begin <= tick <= begin + length for tick in ticks)


def test_ticks_after_the_first_minute_and_hour() -> None:
    assert time_ticks(67.5e9, 69.3e9, 5)[1] == ["1 m 7.5 s", "1 m 8 s", "1 m 8.5 s", "1 m 9 s"]
    assert time_ticks(3700e9, 3800e9, 10)[1][:3] == ["1 h 1 m 40 s", "1 h 1 m 50 s", "1 h 2 m 0 s"]
    assert time_ticks(0, 7200e9, 4)[1] == ["0", "30 m 0 s", "1 h 0 m", "1 h 30 m", "2 h 0 m"]


def test_a_gap_that_reaches_beyond_the_view_says_how_much_is_in_it(selected: Shown) -> None:
    lines = selected.view.timelines.of(0)
    (index,) = lines.longest_gaps(lines.begin_ns, lines.end_ns, 1)
    begin, end = int(lines.gaps.starts[index]), int(lines.gaps.ends[index])
    *_, whole = timeline.content(selected, Address(run="run"), SCREEN)
    assert "of it in view" not in text_of(whole)
    cut = Address(run="run", time=(begin + 1000, begin + 3000))
    *_, detail = timeline.content(selected, cut, SCREEN)
    assert "~2\u00a0µs of it in view; the rest is earlier and later." in text_of(detail)
    *_, detail = timeline.content(selected, Address(run="run", time=(begin + 1000, end)), SCREEN)
    assert "the rest is earlier." in text_of(detail)


def test_the_idle_page_leads_with_what_the_device_waits_for(selected: Shown) -> None:
    text = text_of(idle.head(selected))
    assert text.startswith("After warm-up the device has nothing to run for")
    for word in ("idle", "device busy", "overlap", "a step", "warm-up", "idle after value reads"):
        assert word in text
    assert "idle while" in text_of(idle.legend(selected, Scheme.LIGHT))


def test_with_steps_selected_the_idle_page_says_what_is_of_the_whole_run(selected: Shown) -> None:
    chosen = replace(selected, steps=(30, 30))
    assert "This is about the whole run." in text_of(idle.head(chosen)) and "step 30." in text_of(idle.head(chosen))
    text = text_of(idle.tables(chosen, Address(run="run", steps=(30, 30))))
    for heading in (
        "What leaves the device idle, in the whole run",
        "Worst steps in step 30",
        "Longest gaps in step 30",
    ):
        assert heading in text
    gaps = text[text.index("Longest gaps") :]
    assert "in step 0:" not in gaps, "the compile of the first step lies elsewhere"
    assert "of it here; the rest is " in gaps
    everything = text_of([idle.head(selected), idle.tables(selected, Address(run="run"))])
    assert "whole run" not in everything and "Longest gaps in" not in everything
    assert "whole run" not in text_of(idle.head(replace(selected, steps=(900, 901)))), "all is shown: there is none"


def test_the_idle_tables(selected: Shown) -> None:
    text = text_of(idle.tables(selected, Address(run="run")))
    for word in ("Warm-up against steady state", "What leaves the device idle", "Worst steps", "Longest gaps", "Ranks"):
        assert word in text
    assert "rank 1 · process 1" in text and "Value read" in text and "step 0" in text


def test_an_unobserved_device_is_not_idle_for_zero(selected: Shown) -> None:
    tables = selected.view.timelines.tables
    frames = {**tables.frames, "executions": tables["executions"].iloc[:0]}
    from xla_insight_app.data import Timelines

    from xla_insight.analysis.step_table import build_step_table
    from xla_insight.analysis.tables import RunTables

    unknown = RunTables(frames, tables.processes, tables.places)
    steps = build_step_table(unknown)
    view = replace(selected.view, timelines=Timelines(unknown), steps={0: steps[steps["process"] == 0]})
    text = text_of(idle.head(replace(selected, view=view)))
    assert "is not known" in text and "n/a" in text and "~0" not in text
    assert "Worst steps" not in text_of(idle.tables(replace(selected, view=view), Address()))
    gaps = text_of(timeline.content(replace(selected, view=view), Address(), SCREEN)[3])
    assert "it is not known when the device was idle" in gaps and "never idle" not in gaps


def test_the_idle_page_shows_what_device_windows_measured(library: Library) -> None:
    watched = Shown(library.view("watched"), 0)
    text = text_of(idle.tables(watched, Address(run="watched")))
    assert "Measured device time" in text and "in steps 10 to 12" in text and "points off" in text
    assert "step.py:" in text and "aten__" in text
    assert "Wait for donation holds" in text
    bare = text_of(idle.tables(Shown(library.view("run"), 0), Address(run="run")))
    assert "Measured" not in bare and "Device windows" not in bare


def test_names_of_operations_from_elsewhere_are_text(library: Library) -> None:
    hostile = idle.tables(Shown(library.view("hostile"), 0), Address(run="hostile"))
    assert "Measured device time" in text_of(hostile)


def test_epochs_are_compared_where_there_are_several(tmp_path: Path) -> None:
    build_run(tmp_path / "several", steps=130, epoch_steps=2)
    build_run(tmp_path / "one", steps=6, epoch_steps=6)
    library = Library(tmp_path)
    text = text_of(idle.tables(Shown(library.view("several"), 0), Address(run="several")))
    assert "Epochs" in text and "epoch 49" in text and "epoch 50" not in text and "15 more epochs" in text
    assert "Epochs" not in text_of(idle.tables(Shown(library.view("one"), 0), Address(run="one")))


def test_lines_of_the_host_are_listed_with_their_share(tmp_path: Path) -> None:
    build_run(tmp_path / "run", steps=40, looks=2, hostile=True)
    view = Library(tmp_path).view("run")
    found = " ".join(map(text_of, idle.tables(Shown(view, 0), Address(run="run"))))
    assert "Python and tracing after warm-up, by line" in found and "norm = sum(numbers)" in found
    assert "samples" in found and "± " in found
