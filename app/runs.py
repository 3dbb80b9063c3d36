"""Which runs there are: the folders with a ``run.json`` directly below the folder that is served, and how each ended.

Owns finding runs, their state as far as small files tell it, and the rule that nothing outside the served folder is
ever opened: a run is chosen by a name from the listing, never by a path from a request, and links that lead out of the
folder are not followed. Leaves reading a run to ``data``.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from xla_insight.errors import RunNotFoundError

MAX_JSON_BYTES = 8 << 20

RUN_FILE = "run.json"
PROCESS_FILE = "process.json"
MAX_UNIX_NS = 4_102_444_800_000_000_000
"""The year 2100: a later start is damage, and calendars may refuse it."""
QUIET_S = 15.0
"""A process that has not said goodbye and wrote nothing for this long counts as crashed."""


class RunState(StrEnum):
    """How a run is doing, as far as its files tell."""

    RECORDING = "recording"
    ENDED = "ended"
    CRASHED = "crashed"
    EMPTY = "empty"
    BROKEN = "broken"
    GONE = "gone"
    """Asked for, but not in the listing."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run of the listing. ``revision`` changes when a file of the run does; ``problem`` says why it is broken."""

    id: str
    path: Path
    state: RunState
    started_unix_s: float | None
    modified_unix_s: float
    revision: str
    problem: str | None = None


def list_runs(folder: Path) -> list[RunEntry]:
    """All runs of the folder, newest first; the folder itself when it is a run.

    Raises RunNotFoundError when the folder is gone.
    """
    try:
        root = folder.resolve(strict=True)
        names = [root] if (root / RUN_FILE).is_file() else [root / name for name in os.listdir(root)]
    except OSError as error:
        raise RunNotFoundError(
            f"The folder {folder} cannot be read ({error.strerror}). Start the app again with a folder that can."
        ) from error
    entries = [entry for path in names if (entry := _entry(path, root)) is not None]
    return sorted(entries, key=lambda entry: (entry.started_unix_s or entry.modified_unix_s, entry.id), reverse=True)


def find_run(folder: Path, run_id: str) -> RunEntry:
    """The run of that name. Raises RunNotFoundError when the listing has none; never touches any other path."""
    try:
        root = folder.resolve(strict=True)
    except OSError as error:
        raise RunNotFoundError(f"The folder {folder} is gone. Start the app again with another one.") from error
    alone = (root / RUN_FILE).is_file()
    known = run_id == root.name if alone else _is_name(run_id) and run_id in os.listdir(root)
    entry = _entry(root if alone else root / run_id, root) if known else None
    if entry is None:
        raise RunNotFoundError(
            f"There is no run {run_id} in {folder}; it may have been moved or deleted. Choose another run above."
        )
    return entry


def _is_name(run_id: str) -> bool:
    return run_id not in ("", ".", "..") and not set(run_id) & {"/", "\\", "\0"}


def _entry(path: Path, root: Path) -> RunEntry | None:
    """The run at ``path``, or None when it is no run or leads out of ``root``."""
    try:
        if not path.resolve().is_relative_to(root) or not (path / RUN_FILE).is_file():
            return None
        files = list(_files(path))
        strays = [name for name, _ in files if _leads_out(path / name, root)]
    except (OSError, RuntimeError):  # RuntimeError: links that lead in a circle
        return None
    modified = max((status.st_mtime for _, status in files), default=0.0)
    facts, problem = _read_facts(path / RUN_FILE, root)
    if strays:
        problem = _stray(strays[0])
    state = RunState.BROKEN if problem else _state(path, files, modified)
    started = facts.get("started_unix_ns")
    return RunEntry(
        id=path.name,
        path=path,
        state=state,
        started_unix_s=started / 1e9 if isinstance(started, int | float) and 0 < started < MAX_UNIX_NS else None,
        modified_unix_s=modified,
        revision=_revision(files, state),
        problem=problem,
    )


def _leads_out(path: Path, root: Path) -> bool:
    try:
        return not path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # links that lead in a circle lead nowhere
        return False


def _stray(name: str) -> str:
    return f"{name} is a link to a place outside the served folder, which is not followed. Copy the file there instead."


def _read_facts(path: Path, root: Path) -> tuple[dict[str, Any], str | None]:
    if not path.resolve().is_relative_to(root):
        return (
            {},
            _stray(path.name),
        )
    try:
        facts = json.loads(path.read_bytes())
    except OSError as error:
        return {}, f"{path.name} cannot be read ({error.strerror}). Check its permissions."
    except (ValueError, RecursionError):
        return (
            {},
            f"{path.name} is not valid JSON; it was damaged after recording. Restore it from a copy, or record again.",
        )
    return (
        (facts, None)
        if isinstance(facts, dict)
        else ({}, f"{path.name} does not hold the facts of a run. Restore it from a copy, or record again.")
    )


def _files(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Name and status of every file that tells about progress: those of the run and of its process folders."""
    for item in os.scandir(path):
        if _is_folder(item):
            for inner in os.scandir(item.path):
                if not _is_folder(inner):
                    yield f"{item.name}/{inner.name}", _status(inner)
        else:
            yield item.name, _status(item)


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link that leads in a circle
        return False


def _status(item: os.DirEntry[str]) -> os.stat_result:
    """What is behind an item; of a link that leads nowhere, the link's own."""
    try:
        return item.stat()
    except OSError:
        return item.stat(follow_symlinks=False)


def _state(path: Path, files: list[tuple[str, os.stat_result]], modified: float) -> RunState:
    """The state of a run from its processes: one that still writes is recording, one that fell silent has crashed."""
    last_write: dict[str, float] = {}
    for name, status in files:
        folder, inside, _ = name.partition("/")
        if inside:
            last_write[folder] = max(last_write.get(folder, 0.0), status.st_mtime)
    now = time.time()
    if not last_write:
        return RunState.RECORDING if now - modified < QUIET_S else RunState.EMPTY
    open_ones = [written for folder, written in last_write.items() if not _said_goodbye(path / folder / PROCESS_FILE)]
    if any(now - written < QUIET_S for written in open_ones):
        return RunState.RECORDING
    return RunState.CRASHED if open_ones else RunState.ENDED


def _said_goodbye(process_file: Path) -> bool:
    try:
        status = process_file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_JSON_BYTES:
            return False
        return bool(json.loads(process_file.read_bytes()).get("ended"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _revision(files: list[tuple[str, os.stat_result]], state: RunState) -> str:
    seen = sorted((name, status.st_size, status.st_mtime_ns) for name, status in files)
    return hashlib.sha256(repr((state.value, seen)).encode()).hexdigest()[:16]
