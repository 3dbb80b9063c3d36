"""Accounting of time at 1, 10 and 50 million events: events per second, and peak memory.

    python benchmarks/accounting.py [--events 1,10,50]

Each size runs in a process of its own, on the spans of a run as the analysis gets them: in every step a wait for a
batch, a value read, a sync, a backward pass, transfers, a collection now and then, and two executions, one of which
overlaps the next step. Measured are the account of the whole run, of each step, and the idle gaps with what opened
them; making the spans is not. Prints one line a size: seconds of wall, and of processor time (the same on an idle
machine).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import ThreadSpans, segments, sums
from xla_insight.analysis.idle import idle_gaps, opened_by
from xla_insight.analysis.intervals import Spans, joined
from xla_insight.facts import numbers

EVENTS_A_STEP = 10
MILLION = 1_000_000
STEP_NS = 20 * MILLION
WIDTHS = (10, 8, 11, 15, 11, 16)


def main() -> None:
    """Measure each size and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", default="1,10,50", help="millions of events, with commas between")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        measure(options.one * MILLION)
        return
    heads = ("events", "seconds", "cpu seconds", "events a second", "peak memory", "of it, the spans")
    print("  ".join(f"{head:>{width}}" for head, width in zip(heads, WIDTHS, strict=True)), flush=True)
    for size in options.events.split(","):
        command = [sys.executable, __file__, "--one", size]
        subprocess.run(command, check=True)


def measure(events: int) -> None:
    """Account for a run of so many events and print one line."""
    windows, spans, cuts = make_run(events // EVENTS_A_STEP)
    before = peak_bytes()
    begin, worked = time.perf_counter(), time.process_time()
    whole = Spans(windows.starts[:1], windows.ends[-1:])
    parts = segments(joined((windows, whole)), spans)
    by_step, total = sums(windows, parts), sums(whole, parts)
    gaps = idle_gaps(parts)
    opened = opened_by(gaps, cuts)
    took, worked = time.perf_counter() - begin, time.process_time() - worked
    check(windows, by_step.host, total.host, len(opened) == len(gaps))
    cells = (
        numbers.count(events),
        f"{took:.2f}",
        f"{worked:.2f}",
        numbers.count(events / took),
        numbers.size(peak_bytes()),
        numbers.size(before),
    )
    print("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True)), flush=True)


def check(windows: Spans, by_step: np.ndarray, total: np.ndarray, complete: bool) -> None:
    """A fast wrong answer is worth nothing: the sums must be exact."""
    if (by_step.sum(axis=1) != windows.ends - windows.starts).any() or by_step.sum() != total.sum() or not complete:
        raise SystemExit("the account does not add up")


def make_run(steps: int) -> tuple[Spans, ThreadSpans, pd.DataFrame]:
    """Steps, spans and cuts of a run with ten events a step."""
    chance = np.random.default_rng(1)
    begin = np.arange(steps, dtype=np.int64) * STEP_NS
    jitter = chance.integers(0, MILLION // 4, steps)

    def span(at_ms: float, long_ms: float, every: int = 1) -> Spans:
        starts = (begin + int(at_ms * MILLION) + jitter)[::every]
        return Spans(starts, starts + int(long_ms * MILLION))

    read, sync = span(5, 1), span(9, 0.5)
    spans = ThreadSpans(
        compile=span(9.1, 0.3, every=1000),
        device_wait=joined((span(5.2, 0.1), span(9.2, 0.1))),
        input_wait=span(0, 3),
        transfer=span(4, 0.5),
        read_transfer=span(5.1, 0.8),
        gc=span(14, 1, every=100),
        checkpoint=span(15, 2, every=500),
        cuts=joined((read, sync)),
        executions=joined((span(5, 0.9), span(9.3, 12))),
    )
    cuts = pd.DataFrame({"time_ns": np.stack([read.starts, sync.starts], axis=1).ravel()})
    cuts["duration_ns"] = np.tile([MILLION, MILLION // 2], steps)
    return Spans(begin, begin + STEP_NS), spans, cuts


def peak_bytes() -> int:
    """The most memory this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
