"""The demo, end to end: a real Trainer run, recorded, explained and shown, with a tiny model and a few steps."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import xla_insight
from tests.conftest import TINY, CommandLine, Recording, clean_environment

FAILING = ("--script-options", "--no-such-option")
STEPS = int(TINY[1])
SHORTEST = ("--steps", "1", *TINY[2:])


def test_it_trains_records_and_ends_with_the_report(trainer_run: Recording, command_line: CommandLine) -> None:
    assert "recorded to runs/demo" in trainer_run.output
    assert str(Path(xla_insight.__file__).parent / "runner" / "demo_train.py") in trainer_run.output
    again = command_line("report", "runs/demo", cwd=trainer_run.path.parent.parent).stdout
    assert again.strip().partition("\n")[2] in trainer_run.output
    assert "Again: xla-insight report runs/demo" in trainer_run.output


def test_the_recording_is_whole(trainer_run: Recording) -> None:
    run = xla_insight.open_run(trainer_run.path)
    assert run.state == "ended"
    assert len(run.steps) == STEPS
    assert run.problems == []


def test_it_shows_the_faults_of_real_runs(trainer_run: Recording, command_line: CommandLine) -> None:
    report = json.loads(command_line("report", trainer_run.path, "--json").stdout)
    assert report["steps"]["count"] == STEPS
    mask_reads = [
        entry
        for entry in report["findings"]
        if entry["id"] == "host_sync" and entry["site"]["file"].endswith("transformers/masking_utils.py")
    ]
    assert sum(entry["count"] for entry in mask_reads) == STEPS
    assert Path(mask_reads[0]["user_site"]["file"]).name == "demo_train.py"
    lengths = xla_insight.open_run(trainer_run.path).sql("select distinct dims[2] from inputs where name = 'input_ids'")
    assert len(lengths) > 1
    assert report["graphs"]["compiles"] > len(lengths)
    (shapes,) = [entry for entry in report["recompiles"] if entry["cause"] == "input_shape"]
    assert (shapes["root"]["input"], shapes["root"]["dimension"]) == ("input_ids", 1)
    assert shapes["root"]["site"]["file"].endswith("transformers/data/data_collator.py")
    assert "At input_ids (DataCollatorForLanguageModeling.torch_call, " in shapes["summary"]
    assert sum(entry["count"] for entry in report["recompiles"]) == report["graphs"]["compiles"]


def test_a_failed_training_gives_its_status_and_overwrites_nothing(tmp_path: Path, command_line: CommandLine) -> None:
    taken = tmp_path / "runs" / "demo"
    taken.mkdir(parents=True)
    (taken / "notes.txt").write_text("mine")
    done = command_line("demo", "--no-app", *FAILING, cwd=tmp_path)
    assert "runs/demo already holds something, which is kept; recording to runs/demo-2" in done.stdout
    assert [path.name for path in taken.iterdir()] == ["notes.txt"]
    assert (taken / "notes.txt").read_text() == "mine"
    assert done.returncode == 2
    assert "unrecognized arguments: --no-such-option" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_address_is_no_place_for_the_demo(tmp_path: Path, command_line: CommandLine) -> None:
    done = command_line("demo", "--out", "memory://demo", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_it_opens_the_dashboard(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "xla_insight", "demo", "--port", "0", "--script-options", " ".join(SHORTEST)]
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as demo:
        assert demo.stdout is not None
        found = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+/", line) for line in demo.stdout)))
        with urllib.request.urlopen(found.group(), timeout=60) as answer:
            assert answer.status == 200
        os.kill(demo.pid, signal.SIGINT)
        assert demo.wait(timeout=60) == 0
