"""Page Ranks & devices: the sentence first, tables of what devices exchange, and empty states that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from xla_insight_app.address import Address
from xla_insight_app.data import Library
from xla_insight_app.pages import ranks, ranks_tables
from xla_insight_app.scope import Shown

from tests.app.recordings import MS, Recording, write_run
from tests.app.test_pages import text_of
from tests.synthetic import HOSTILE_SCRIPT, build_run
from tests.unit.analysis.test_each_device import executions
from tests.unit.graph.modules import read
from tests.xspaces import make_session
from xla_insight.analysis import analyze
from xla_insight.facts.events import Event, Kind
from xla_insight.report.csv import export_csv
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_colours import Scheme
from xla_insight.report.text import render_text
from xla_insight.store.graph_files import OPTIMIZED
from xla_insight.store.reader import open_run

EPOCH_NS = 1_790_000_000_000_000_000


def write_spmd_run(folder: Path, steps: int = 20, name: str = "block.weight", *, window: bool = False) -> Path:
    """A finished run of four devices in one process, with the program of its usual graph; with a device window if so
    wished."""
    recording = Recording(folder)
    for step in range(steps):
        recording.step(0, trace_ms=20)
        if step == 2:
            detail = json.dumps({"axes": ["fsdp", "model"], "devices": [0, 1, 2, 3]})
            recording._add(
                recording.now, None, Kind.MESH, name="fsdp=4, model=1", value=4.0, dims=(4, 1), detail=detail
            )
            for number, (dims, sharding) in enumerate(
                (((32, 16), "{devices=[4,1]0,1,2,3}"), ((32,), "{replicated}"), ((8, 8), ""))
            ):
                recording._add(
                    recording.now, None, Kind.SHARDING, name=f"{name}{number}", value=64.0, dims=dims, detail=sharding
                )
    recording._events.append(Event(recording.now - 50 * MS, 20 * MS, Kind.CHECKPOINT, thread=0, name="save_async"))
    recording._events.append(Event(recording.now - 40 * MS, 30 * MS, Kind.CHECKPOINT, thread=2, name="write"))
    recording.writer.write_graph("a" * 32, read("fsdp.hlo.pb"), OPTIMIZED)
    if window:
        content = make_session(executions([[400, 300, 400, 100]] * 3), None, EPOCH_NS, line_start_ns=0)
        size = recording.writer.write_window("000001", content)
        recording._add(recording.start_ns, MS, Kind.WINDOW, name="000001", value=1e6, dims=(EPOCH_NS, 3, 5, size or 0))
    recording._add(recording.now, None, Kind.MARK, name="end")
    recording.flush()
    recording.writer.close(
        ended="clean", end_mono_ns=recording.now, devices=[f"CPU:{n}" for n in range(4)], spmd=True, device="CPU"
    )
    return folder


def page_text(path: Path) -> str:
    selected = Shown(Library(path.parent).view(path.name), 0)
    whole = [ranks.head(selected.view), ranks.body(selected, Canvas(1200), Address())]
    return text_of(whole).replace("\u00a0", " ").replace("\u2009", " ")


def test_one_rank_says_how_to_record_several(tmp_path: Path) -> None:
    text = page_text(write_run(tmp_path / "run", 20))
    assert "One rank" in text and "torchrun" in text
    assert "did not use several devices" in text and "no compiled program was kept" in text
    assert "exchanged by a device n/a no program was kept" in text
    assert "held up by saving n/a" in text


def test_a_run_on_several_devices(tmp_path: Path) -> None:
    text = page_text(write_spmd_run(tmp_path / "run"))
    assert "One rank with 4 devices, arranged as fsdp=4, model=1." in text
    assert "runs 9 collectives" in text and "1 of 3 parameters are cut into pieces" in text
    assert "executions on a device 20" in text
    assert "1 checkpoint held the training thread up for 20 ms; another thread wrote for 30 ms" in text
    assert "no window of this run tells them apart" in text and "Each device" not in text


def test_each_device_of_a_window(tmp_path: Path) -> None:
    path = write_spmd_run(tmp_path / "run", window=True)
    text = page_text(path)
    assert "single devices ran programs for" in text and "CPU:3 the least" in text
    assert "tells them apart" not in text
    devices = Library(tmp_path).view("run").report.devices
    assert devices is not None
    assert [(one.device, one.executions) for one in devices.measured] == [(f"CPU:{n}", 3) for n in range(4)]
    assert [round(one.busy_s * 1e9) for one in devices.measured] == [3 * 420, 3 * 320, 3 * 420, 3 * 120]
    assert "CPU:3 the least" in " ".join(render_text(Library(tmp_path).view("run").report).split())
    with open_run(path) as run:
        export_csv(run, analyze(path), tmp_path / "tables")
    lines = (tmp_path / "tables" / "devices.csv").read_text(encoding="utf-8-sig").splitlines()
    assert lines[0].replace(chr(34), "") == "rank,process,device,executions,measured_s,busy_s" and len(lines) == 5


def test_tables_of_collectives_and_shardings(tmp_path: Path) -> None:
    devices = Library(tmp_path).view(write_spmd_run(tmp_path / "run").name).report.devices
    assert devices is not None
    rows, _ = ranks_tables.collective_rows(devices)
    first = rows[0]
    assert (first["kind"], first["groups"], first["executions"]) == ("all-gather", "4 along fsdp", 20)
    shardings, style = ranks_tables.sharding_rows(devices)
    assert [row["pieces_text"] for row in shardings] == ["4", "1", "n/a"]
    assert shardings[0]["axes"] == "fsdp, –" and style["height"].endswith("px")


@pytest.mark.parametrize("scheme", list(Scheme))
def test_ranks_that_part(tmp_path: Path, scheme: Scheme) -> None:
    build_run(tmp_path / "run", steps=30, ranks=3, diverges_at=12)
    selected = Shown(Library(tmp_path).view("run"), 0)
    text = text_of(ranks.head(selected.view))
    assert "run different graphs from sync 12" in text.replace("\u00a0", " ")
    body = ranks.body(selected, Canvas(900, scheme), Address())
    assert "They part at" in text_of(body) and "3 ranks" in text_of(ranks.head(selected.view)).replace("\u2009", " ")


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    write_spmd_run(tmp_path / "odd", name=HOSTILE_SCRIPT)
    build_run(tmp_path / "ranks", steps=20, ranks=2, hostile=True)
    assert page_text(tmp_path / "odd") and page_text(tmp_path / "ranks")
    devices = Library(tmp_path).view("odd").report.devices
    assert devices is not None
    assert ranks_tables.sharding_rows(devices)[0][0]["parameter"].startswith(HOSTILE_SCRIPT)


def test_the_same_on_every_surface(tmp_path: Path) -> None:
    path = write_spmd_run(tmp_path / "run")
    from xla_insight.analysis import analyze

    report = analyze(path)
    found: dict[str, Any] = report.to_json()["devices"]
    assert found["summary"] == report.devices.summary if report.devices else False
    flat = " ".join(render_text(report, 100).split()).replace("\u2009", " ")
    assert "4 all-gather" in flat and "5 all-reduce" in flat
    with open_run(path) as run:
        export_csv(run, report, tmp_path / "csv")
    lines = (tmp_path / "csv" / "collectives.csv").read_text("utf-8-sig").splitlines()
    assert len(lines) == 1 + len(found["collectives"]) and lines[0].startswith('"graph","kind","count"')
    shardings = (tmp_path / "csv" / "shardings.csv").read_text("utf-8-sig").splitlines()
    assert len(shardings) == 4 and "block.weight0" in shardings[1]
    assert (tmp_path / "csv" / "ranks.csv").is_file() and (tmp_path / "csv" / "meshes.csv").is_file()
