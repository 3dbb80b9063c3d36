"""kill -9 at twenty random moments: every log opens and lacks at most the last second."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xla_insight.store.reader import open_run

from .programs import SCRIPTS

MOMENTS = 20
SECOND_NS = 1_000_000_000


class Trainings:
    """Starts the endless training, as often as asked."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self.program = program
        self._one_at_a_time = threading.Lock()

    def start(self, folder: Path) -> int:
        """The number of the process that trains and records in a folder."""
        assert self.program.stdin is not None and self.program.stdout is not None
        with self._one_at_a_time:
            print(folder, file=self.program.stdin, flush=True)
            return int(self.program.stdout.readline())

    def kill_at(self, folder: Path, delay_s: float) -> None:
        """Start a training, kill it ``delay_s`` after its first step."""
        process, progress = self.start(folder), folder / "progress.txt"
        wait_until(lambda: progress.exists() and progress.stat().st_size > 0)
        time.sleep(delay_s)
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not is_there(process))


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_log_opens_and_lacks_at_most_the_last_second(tmp_path: Path) -> None:
    chance = random.Random(7)
    folders = [tmp_path / str(number) for number in range(MOMENTS)]
    for folder in folders:
        folder.mkdir()
    with (
        subprocess.Popen(
            [sys.executable, str(SCRIPTS / "endless.py")],
            env={**os.environ, "PJRT_DEVICE": "CPU"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as program,
        ThreadPoolExecutor(2) as pool,
    ):
        list(pool.map(Trainings(program).kill_at, folders, [chance.uniform(0.0, 2.5) for _ in folders]))
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
