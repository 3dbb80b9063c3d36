"""kill -9 at twenty random moments: every log opens and lacks at most the last second."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xla_insight.store.reader import open_run

from .programs import SCRIPTS

MOMENTS = 20
SECOND_NS = 1_000_000_000


def kill_at(folder: Path, delay_s: float) -> None:
    """Start the endless training, kill it ``delay_s`` after its first step."""
    progress = folder / "progress.txt"
    command = [sys.executable, str(SCRIPTS / "endless.py"), str(folder / "run"), str(progress)]
    process = subprocess.Popen(command, env={**os.environ, "PJRT_DEVICE": "CPU"}, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (progress.exists() and progress.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_every_log_opens_and_lacks_at_most_the_last_second(tmp_path: Path) -> None:
    chance = random.Random(7)
    folders = [tmp_path / str(number) for number in range(MOMENTS)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(kill_at, folders, [chance.uniform(0.0, 2.5) for _ in folders]))
    for folder in folders:
        done = [line.split() for line in (folder / "progress.txt").read_text().splitlines() if line.count(" ") == 1]
        ended_ns = int(done[-1][1])
        safe = sum(int(when) < ended_ns - SECOND_NS for _, when in done)
        if not (folder / "run" / "run.json").exists():
            assert safe == 0
            continue
        with open_run(folder / "run") as run:
            assert len(run.steps) >= safe, folder
            assert run.skipped_parts == 0
            assert run.processes[0].ended is None
