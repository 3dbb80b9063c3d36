"""Names and small JSON files of a run folder: who may write where, decided once and without races.

Owns ``run.json`` and ``process.json``, the choice between joining a run and refusing it, and atomic replacement of
small files. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
import uuid
from typing import Any

from xla_insight.errors import RunExistsError
from xla_insight.facts.events import SCHEMA_VERSION

RUN_FILE = "run.json"
PROCESS_FILE = "process.json"
OPEN_FILE = "open.arrows"
PART_NAME = "part-{:06d}.parquet"
PART_PATTERN = re.compile(r"part-(\d{6,})\.parquet")
PROCESS_PATTERN = re.compile(r"rank-\d{5,}-.+")
PART_KEY = b"xla_insight_part"


def write_json(path: str, content: dict[str, Any]) -> None:
    """Replace ``path`` by ``content`` as JSON, all or nothing. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1, default=str)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def enter_run(folder: str, group: str | None, facts: dict[str, Any]) -> dict[str, Any]:
    """Create the run at ``folder``, or join it when it was created by the same ``group``; its ``run.json`` content.

    Raises RunExistsError when the folder holds a run of others or anything else, OSError when it cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, RUN_FILE)
    if not os.path.exists(path):
        foreign = [name for name in os.listdir(folder) if not name.startswith(".")]
        if foreign and not os.path.exists(path):
            raise RunExistsError(f"{folder} is not empty and not a run; nothing is overwritten, choose another folder")
    content = {
        "schema": SCHEMA_VERSION,
        "id": uuid.uuid4().hex[:12],
        "group": group,
        "started_unix_ns": time.time_ns(),
        **facts,
    }
    if _create(path, content):
        return content
    existing = _read(path)
    if group is not None and existing.get("group") == group:
        return existing
    raise RunExistsError(f"{folder} already holds a run; nothing is overwritten, choose another folder")


def _create(path: str, content: dict[str, Any]) -> bool:
    """Write ``path`` with its whole content unless it exists. A link of a finished file: readers never see half."""
    temporary = f"{path}.{uuid.uuid4().hex}"
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(temporary)}")
    write_json(temporary, content)
    try:
        os.link(temporary, path)
        return True
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        try:
            with open(path, "x", encoding="utf-8") as stream:
                json.dump(content, stream, indent=1, default=str)
            return True
        except FileExistsError:
            return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def new_process_folder(run: str, rank: int, host: str, pid: int) -> str:
    """Create the folder of this process; a number is added when it recorded to this run before. Raises OSError."""
    safe_host = re.sub(r"[^A-Za-z0-9_.]+", "_", host)[:60] or "host"
    base = os.path.join(run, f"rank-{rank:05d}-{safe_host}-{pid}")
    number = 1
    while True:
        folder = base if number == 1 else f"{base}-{number}"
        try:
            os.mkdir(folder)
            return folder
        except FileExistsError:
            number += 1
