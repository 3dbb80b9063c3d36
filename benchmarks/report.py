"""The whole report of a long run: seconds and peak memory from opening its files to the finished JSON.

    python benchmarks/report.py [--events 1,10] [--run RUN]

Each size is a synthetic run of ten events a step, or ``RUN``, read in a process of its own: steps, reads, syncs,
transfers, batches, counters and two executions a step. Processor seconds above wall are the second core at work.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.synthetic import build_large_run
from xla_insight.facts import numbers

EVENTS_A_STEP = 10
MILLION = 1_000_000
HEADS = ("events", "seconds", "of it, opening", "cpu seconds", "peak memory")


def main() -> None:
    """Measure each run and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", default="1,10", help="millions of events, with commas between")
    parser.add_argument("--run", help="a recorded run instead")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        measure(options.one)
        return
    print("  ".join(f"{head:>14}" for head in HEADS), flush=True)
    for size in options.events.split(",") if options.run is None else [""]:
        with tempfile.TemporaryDirectory() as folder:
            path = options.run or build_large_run(Path(folder) / "run", int(size) * MILLION // EVENTS_A_STEP)
            subprocess.run([sys.executable, __file__, "--one", str(path)], check=True)


def measure(path: str) -> None:
    """Report on one run and print one line; importing the program is counted."""
    begin = time.perf_counter()
    from xla_insight.analysis import analyze
    from xla_insight.report.json import render_json
    from xla_insight.store.reader import open_run

    with open_run(path) as run:
        opened = time.perf_counter() - begin
        render_json(analyze(run))
        took = time.perf_counter() - begin
        used = resource.getrusage(resource.RUSAGE_SELF)
        (events,) = run.sql("select count(*) as events from events")["events"]
    cells = (
        numbers.count(int(events)),
        f"{took:.2f}",
        f"{opened:.2f}",
        f"{used.ru_utime + used.ru_stime:.2f}",
        numbers.size(used.ru_maxrss * 1024),
    )
    print("  ".join(f"{cell:>14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
