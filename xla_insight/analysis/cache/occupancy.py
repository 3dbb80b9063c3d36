"""Whether somebody is using a cache right now: a held lock, a file open for writing, or a write moments ago.

Owns these three signs. Locks are tried without waiting and let go at once; open files are looked up where the system
shows them (Linux, processes of the same user).
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator

from xla_insight.analysis.cache.files import CacheFolder
from xla_insight.analysis.cache.layouts import JAX_LOCK, Listing
from xla_insight.facts import numbers

RECENT_WRITE_S = 60.0
RECENT_LOCK_S = 600.0
"""A lock file without holder that is older was left by a killed compiler."""
_WRITING = os.O_WRONLY | os.O_RDWR
_PROCESSES = "/proc"


def in_use(folder: CacheFolder, listing: Listing) -> str | None:
    """Why the cache counts as in use, as words that follow "the cache is in use:"; None when nobody seems to use it."""
    now = time.time()
    if folder.local is not None:
        held = next((name for name in listing.locks if _is_held(os.path.join(folder.local, name))), None)
        if held is not None:
            return f"a process holds {held}"
        writer = next(_writers(folder.local), None)
        if writer is not None:
            return f"process {writer} has a file in it open for writing"
    for name in listing.locks:
        fact = listing.parts.get(name)
        if not name.endswith(JAX_LOCK) and fact is not None and 0 <= now - fact.modified_unix_s < RECENT_LOCK_S:
            return f"{name} was locked {numbers.duration(now - fact.modified_unix_s)} ago"
    age = now - listing.newest_unix_s
    if listing.entries and age < RECENT_WRITE_S:
        return f"it was written {numbers.duration(max(0.0, age))} ago"
    return None


def _is_held(path: str) -> bool:
    """Whether another process holds the lock of a lock file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        for lock in (fcntl.flock, fcntl.lockf):
            try:
                lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            lock(handle, fcntl.LOCK_UN)
        return False
    finally:
        os.close(handle)


def _writers(folder: str) -> Iterator[int]:
    """Processes that have a file below the folder open for writing, as far as the system lets us see."""
    inside = folder.rstrip("/") + "/"
    try:
        processes = [name for name in os.listdir(_PROCESSES) if name.isdigit()]
    except OSError:
        return
    for process in processes:
        base = f"{_PROCESSES}/{process}"
        try:
            handles = os.listdir(f"{base}/fd")
        except OSError:
            continue
        for handle in handles:
            try:
                if os.readlink(f"{base}/fd/{handle}").startswith(inside) and _writes(f"{base}/fdinfo/{handle}"):
                    yield int(process)
            except OSError:
                continue


def _writes(info: str) -> bool:
    with open(info, encoding="ascii", errors="replace") as file:
        flags = re.search(r"^flags:\s*([0-7]+)", file.read(), re.MULTILINE)
    return flags is not None and bool(int(flags[1], 8) & _WRITING)
