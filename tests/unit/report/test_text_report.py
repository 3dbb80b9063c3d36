"""The report in a terminal: verdict first, readable at 80 columns, and names from a recording stay plain text."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from xla_insight.facts.report import (
    DataFacts,
    DeviceLine,
    DeviceOperation,
    DeviceWindow,
    Finding,
    GraphFacts,
    MeasuredTime,
    Period,
    Quality,
    Recompile,
    Report,
    RunFacts,
    Severity,
    Site,
    StepFacts,
    TimeFacts,
    Verdict,
)
from xla_insight.report.json import render_json
from xla_insight.report.text import print_report, render_text

SITE = Site("/home/me/train.py", 31, "collate", "tokens = pad(batch)")
REPORT = Report(
    run=RunFacts("bert-demo", "runs/bert-demo", 1, 1, "light", {"frames": True}),
    steps=StepFacts(412, 212.0, 640.0, "callback"),
    graphs=GraphFacts(17, 900, 1312, 17, 1295, 0, 0, 126.0),
    recompiles=(
        Recompile("first_graph", True, Severity.INFO, 3, 1.0, (0,), SITE, SITE, "sync", "First graphs.", ""),
        Recompile("unknown", False, Severity.WARNING, 14, 125.0, (4, 9), SITE, SITE, "sync", "14 more.", "Pad it."),
    ),
    findings=(Finding("host_sync", Severity.CRITICAL, SITE, SITE, 412, 18.0, "412 reads.", "Read less."),),
    time=TimeFacts(206.0, {"compile": 126.0, "trace": 80.0}, 64.0, {"trace": 40.0}, 9.1, Quality.INFERRED),
    verdict=Verdict("compile", "Compiling again takes 61 % of this run.", 125.0),
    data=DataFacts(0, {}, 0),
)
BARE = replace(
    REPORT,
    steps=StepFacts(0),
    graphs=GraphFacts(0, 0, 0, 0, 0, 0, 0, 0.0),
    recompiles=(),
    findings=(),
    time=TimeFacts(0.0, {}, None, {}, None, Quality.MEASURED),
    verdict=Verdict("nothing", "No graph was executed.", None),
)


MEASURED = MeasuredTime(
    summary="Measured for 412 ms in steps 8 to 10: the device was busy 31 % of it.",
    windows=(DeviceWindow(8, 10, 3.0, 0.5, 0.1, 0.412, 0.128, 0.13, 0.5),),
    measured_s=0.412,
    busy_s=0.128,
    inferred_busy_s=0.13,
    error_points=0.5,
    stop_s=0.1,
    lines=(DeviceLine(None, ("aten__mm",), 3, 0.1, 0.8),),
    operations=(DeviceOperation("dot.3", "dot", "aten__mm", None, None, 3, 0.1, 0.8),),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_verdict_leads_and_then_what_costs_most() -> None:
    text = render_text(REPORT)
    order = ["bert-demo", "61 %", "at most 2 m 5 s", "212 ms", "What costs most", "host_sync", "unknown", "first_graph"]
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert "▲ critical" in text and "◆ warning" in text and "· expected" in text
    assert "device busy" in text and "~31 %" in text and "~ inferred" in text


def test_the_plain_report_fits_eighty_columns_and_has_no_escapes() -> None:
    text = render_text(REPORT)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("wall_s", "said"), [(206.0, "(8 s): "), (10.0, "(8 s with what came before the first tensor)")]
)
def test_a_warm_up_longer_than_the_run_is_explained(wall_s: float, said: str) -> None:
    warm_up = Period("warm_up", 0, 0, 0, 1, 2, 8.0, {}, None, {}, None)
    steady = replace(warm_up, name="steady", first_step=2, last_step=9, steps=8, wall_s=4.0)
    time = replace(REPORT.time, wall_s=wall_s, warm_up=warm_up, steady=steady)
    text = " ".join(render_text(replace(REPORT, time=time)).split())
    assert f"after 2 steps of warm-up {said}" in text and "500 ms a step on average" in text


def test_a_terminal_gets_colour() -> None:
    stream = Terminal()
    print_report(REPORT, stream, width=80)
    assert "\x1b[" in stream.getvalue()


def test_nothing_measured_is_never_zero() -> None:
    text = render_text(BARE)
    line = next(line for line in text.splitlines() if line.startswith("step, median"))
    assert line.split() == ["step,", "median", "n/a", "step,", "95", "%", "n/a"]
    assert "~ inferred" not in text and "What costs most" not in text


def test_names_from_a_recording_are_no_markup_and_no_escape_sequence() -> None:
    hostile = "[red]boo[/red] [/nope] \x1b[2J :smile:\nnext"
    finding = replace(REPORT.findings[0], summary=hostile, advice=hostile)
    report = replace(
        REPORT, findings=(finding,), run=replace(REPORT.run, path="runs/[bold]x"), verdict=Verdict("x", hostile, 1.0)
    )
    text = render_text(report, width=100)
    assert "[red]boo[/red] [/nope]" in text and "[bold]x" in text and ":smile:" in text
    assert "\x1b" not in text
    terminal = Terminal()
    print_report(report, terminal, width=100)
    assert "\x1b[2J" not in terminal.getvalue()


def test_missing_data_is_stated() -> None:
    data = DataFacts(5, {"drain": 2}, 1, {"samples": 9}, ("The recording ends without an end mark.",))
    text = render_text(replace(REPORT, data=data))
    for part in ("5 events dropped", "9 samples lost", "1 part of the log", "2 faults", "without an end mark"):
        assert part in text
    assert "Missing from the data" not in render_text(REPORT)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_any_encoding_can_carry_it(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    print_report(REPORT, stream)
    stream.flush()
    assert b"host_sync" in raw.getvalue()


def test_json_has_every_field_of_the_contract() -> None:
    plain = json.loads(render_json(REPORT))
    assert plain["schema"] == 1
    assert set(plain) >= {"run", "steps", "graphs", "recompiles", "findings", "time", "verdict", "data"}
    assert set(plain["time"]) >= {
        "wall_s", "host", "device_busy_s", "device_idle_by_host_state", "overlap_pct", "quality",
    }  # fmt: skip
    assert plain["recompiles"][1]["site"]["line"] == 31 and plain["findings"][0]["severity"] == "critical"
    assert json.loads(render_json(BARE))["steps"]["median_ms"] is None


def test_what_device_windows_measured_is_told_and_is_in_json() -> None:
    report = replace(REPORT, time=replace(REPORT.time, measured=MEASURED))
    assert MEASURED.summary.replace(" ", "") in render_text(report).replace("\n", "").replace(" ", "")
    told = json.loads(render_json(report))["time"]["measured"]
    assert told["error_points"] == 0.5 and told["windows"][0]["first_step"] == 8
    assert told["lines"][0]["site"] == {} == told["operations"][0]["site"]
    assert json.loads(render_json(REPORT))["time"]["measured"] is None
