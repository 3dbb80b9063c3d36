"""A cache folder with a million entries: how long listing, planning a clean-up and deleting take.

Run: ``python benchmarks/cache.py [--entries N] [--folder DIR]``. Beside each part stands its floor: what the operating
system needs to look at every file once, or to delete as many one by one, which no tool can go below. Of each line there
are the seconds that passed and those of one processor, which tell more on a machine that others use, too.
``--folder /dev/shm`` leaves the disk out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from xla_insight.analysis.cache import Cache, inspect_cache
from xla_insight.analysis.cache.layouts import without_collection
from xla_insight.analysis.cache.prune import Wanted, plan_prune, prune
from xla_insight.analysis.cache.usage import Usage
from xla_insight.facts.cache import PrunePlan

Result = TypeVar("Result")
_DAY_S = 86_400


def main() -> None:
    """Make the folder, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to make the entries (default: a temporary one)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        timed(f"making {options.entries:,} files", lambda: make(folder, options.entries))
        timed("floor: look at every file once (os.stat)", lambda: look(folder))
        with without_collection():  # as `xla-insight cache prune` does
            cache, plan = timed("dry run: list (looks, too), join, plan", lambda: planned(folder))
            delete = replace(plan, in_use=None)  # the files were made a moment ago
            result = timed(f"delete {len(plan.chosen):,} (looks again, too)", lambda: prune(cache, delete))
        assert result.deleted == len(plan.chosen) and not result.skipped
        timed("floor: delete as many one by one (os.unlink)", lambda: unlink(folder))
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def planned(folder: str) -> tuple[Cache, PrunePlan]:
    """What ``xla-insight cache prune --older-than 50d`` does."""
    cache = inspect_cache(folder, Usage())
    return cache, plan_prune(cache, Wanted(older_than_s=50 * _DAY_S))


def make(folder: str, entries: int) -> None:
    """Small files with the names that torch_xla gives, half of them 100 days old."""
    old = time.time() - 100 * _DAY_S
    for number in range(entries):
        path = f"{folder}/{(1 << 120) + number * 2_654_435_761}"
        handle = os.open(path, os.O_CREAT | os.O_WRONLY)
        os.write(handle, b"entry")
        os.close(handle)
        if number % 2:
            os.utime(path, (old, old))


def look(folder: str) -> int:
    """The size of all files, asked for one by one."""
    with os.scandir(folder) as found:
        return sum(item.stat(follow_symlinks=False).st_size for item in found)


def unlink(folder: str) -> None:
    """Delete every file that is left."""
    with os.scandir(folder) as found:
        for item in found:
            os.unlink(item.path)


def timed(what: str, work: Callable[[], Result]) -> Result:
    """Do it and print how long it took."""
    begin, used = time.perf_counter(), time.process_time()
    result = work()
    passed_s, used_s = time.perf_counter() - begin, time.process_time() - used
    print(f"{what:<48}{passed_s:>10.1f} s{used_s:>10.1f} s of a processor", flush=True)
    return result


if __name__ == "__main__":
    main()
