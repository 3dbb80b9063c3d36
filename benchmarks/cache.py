"""A cache folder with a million entries: how long listing, planning a clean-up and deleting take.

Run: ``python benchmarks/cache.py [--entries N] [--folder DIR]``. Beside it stands what the operating system needs to
look at every file once, which no tool can go below.
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

from xla_insight.analysis.cache import inspect_cache
from xla_insight.analysis.cache.prune import Wanted, plan_prune, prune
from xla_insight.analysis.cache.usage import Usage

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
        timed("looking at every file once (os.stat)", lambda: look(folder))
        cache = timed("listing and joining", lambda: inspect_cache(folder, Usage()))
        plan = timed("planning: half of them are too old", lambda: plan_prune(cache, Wanted(older_than_s=50 * _DAY_S)))
        print(f"{'chosen':<44}{len(plan.chosen):>12,}")
        result = timed("deleting them", lambda: prune(cache, replace(plan, in_use=None)))
        print(f"{'deleted':<44}{result.deleted:>12,}")


def make(folder: str, entries: int) -> None:
    """Empty files with the names that torch_xla gives, half of them 100 days old."""
    old = time.time() - 100 * _DAY_S
    for number in range(entries):
        path = f"{folder}/{(1 << 120) + number * 2_654_435_761}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        if number % 2:
            os.utime(path, (old, old))


def look(folder: str) -> int:
    """The size of all files, asked for one by one."""
    with os.scandir(folder) as found:
        return sum(item.stat(follow_symlinks=False).st_size for item in found)


def timed(what: str, work: Callable[[], Result]) -> Result:
    """Do it and print how long it took."""
    begin = time.perf_counter()
    result = work()
    print(f"{what:<44}{time.perf_counter() - begin:>10.1f} s", flush=True)
    return result


if __name__ == "__main__":
    main()
