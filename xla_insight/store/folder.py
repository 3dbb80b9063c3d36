"""The folder of a run and the folders of its processes: made without races, never on top of something else.

Owns ``run.json``, ``process.json`` and which processes may record into one run. Leaves parts to ``writer``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

from xla_insight.errors import RunExistsError
from xla_insight.facts.events import SCHEMA_VERSION
from xla_insight.store.schema import PROCESS_PREFIX, RUN_FILE

_TEMPORARY_PREFIX = f".{RUN_FILE}."
_MAX_HOST = 64
_MAX_SAME_NAME = 10_000

RESERVED_BYTES = 1 << 16
"""Above the size of the facts of most processes, and little for a disk."""


def run_facts_of(run: str, group: str | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What ``run.json`` holds."""
    name, unique = os.path.basename(run.rstrip("/")) or "run", uuid.uuid4().hex
    return {
        "schema": SCHEMA_VERSION,
        "id": f"{name}-{unique[:6]}",
        "uuid": unique,
        "group": group,
        "started_unix_ns": time.time_ns(),
        **facts,
    }


def enter_run(run: str, group: str | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Create the run, or join it when it has the same group; returns what its ``run.json`` says.

    Raises RunExistsError when the place is taken, OSError when it cannot be written.
    """
    try:
        os.makedirs(run, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise RunExistsError(f"{run} is not a folder; choose another place to record to") from error
    path = os.path.join(run, RUN_FILE)
    content = run_facts_of(run, group, facts)
    if _free(run) and create_json(path, content):
        return content
    if not os.path.lexists(path):
        raise RunExistsError(f"{run} is not empty and holds no run; choose another place to record to")
    found = _read(path)
    if group is None or found.get("group") != group:
        raise RunExistsError(f"{run} already holds a recorded run; choose another name, or delete it first")
    return found


def make_process_folder(run: str, facts: Mapping[str, Any]) -> str:
    """A new folder for one process: ``rank-00003-HOST-PID``, with a number behind it when that name is taken."""
    name = process_folder_name(facts)
    for number in range(1, _MAX_SAME_NAME):
        folder = os.path.join(run, name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(folder)
        except FileExistsError:
            continue
        return folder
    raise RunExistsError(f"{run} holds {_MAX_SAME_NAME} recordings of one process; choose another place to record to")


def process_folder_name(facts: Mapping[str, Any]) -> str:
    """``rank-RANK-HOST-PID``, of letters that every file system takes."""
    host = re.sub(r"[^A-Za-z0-9._-]+", "_", str(facts.get("host") or "host"))[:_MAX_HOST]
    rank, pid = facts.get("rank"), facts.get("pid")
    rank_number = rank if isinstance(rank, int) else 0
    return f"{PROCESS_PREFIX}{rank_number:05d}-{host}-{pid if isinstance(pid, int) else os.getpid()}"


def replace_json(path: str, content: Mapping[str, Any]) -> None:
    """Write a JSON file so that a reader sees the old or the new content. Raises OSError."""
    temporary = _temporary(path)
    try:
        _write(temporary, content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def reserve_room(path: str) -> None:
    """Take some room on the disk; without room, or where that fails, nothing is taken."""
    with contextlib.suppress(OSError), open(path, "wb") as file:
        file.write(os.urandom(RESERVED_BYTES))  # zeros may take no room at all


def create_json(path: str, content: Mapping[str, Any]) -> bool:
    """Write a JSON file that must not exist yet, whole at once; False when another was first. Raises OSError."""
    temporary = _temporary(path)
    try:
        _write(temporary, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            return _create_without_links(path, content)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return True


def to_json(content: Mapping[str, Any]) -> bytes:
    """JSON of facts; what JSON has no form for becomes text."""
    return json.dumps(content, indent=1, default=str).encode()


def _create_without_links(path: str, content: Mapping[str, Any]) -> bool:
    """For file systems that have no hard links: exclusive, but not whole at once."""
    try:
        with open(path, "xb") as file:
            file.write(to_json(content))
    except FileExistsError:
        return False
    return True


def _temporary(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.getpid()}-{uuid.uuid4().hex[:8]}")


def _write(path: str, content: Mapping[str, Any]) -> None:
    with open(path, "wb") as file:
        file.write(to_json(content))


def _free(run: str) -> bool:
    """Whether the folder holds nothing (of others than processes that are creating the same run right now)."""
    return all(name.startswith(_TEMPORARY_PREFIX) for name in os.listdir(run))


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
