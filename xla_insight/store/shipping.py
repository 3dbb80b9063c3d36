"""Runs at a URL: files are written to a local spool and copied to the remote place by a thread of its own.

Owns the remote place (any fsspec URL) and the copying. The training process never waits for the network, except for a
bounded time when recording starts and when it ends. What could not be copied stays in the spool and is named.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from xla_insight.errors import InsightError, RunExistsError, UsageError
from xla_insight.store import folder as folders
from xla_insight.store.graph_files import FOLDER as GRAPHS_FOLDER
from xla_insight.store.schema import OPEN_FILE, PART_PREFIX, RUN_FILE
from xla_insight.store.stream import remove_quietly
from xla_insight.store.window_files import FOLDER as WINDOWS_FOLDER

LOCAL_URL = "file://"
CONNECT_S = 30.0
CLOSE_S = 60.0
OPEN_PART_EVERY_S = 10.0
"""How often the part being filled is copied, when it changed: what is lost when the machine goes away."""

_Result = TypeVar("_Result")
_RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)


def is_remote(run: str) -> bool:
    """Whether the place is a URL of something else than a local folder."""
    return "://" in run and not run.startswith(LOCAL_URL)


class Destination:
    """A remote folder for a run. Raises UsageError for a URL of an unknown kind, OSError when it cannot be reached."""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self.filesystem, self.path = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise UsageError(f"cannot record to {url}: {error}") from error
        self.url = url

    def enter(self, group: str | None, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Create or join the remote run; like `folder.enter_run`."""
        return _bounded(lambda: self._enter(group, facts), self.url)

    def free_name(self, name: str) -> str:
        """``name``, with a number behind it when the remote run has a folder of that name already."""
        return _bounded(lambda: self._free_name(name), self.url)

    def _enter(self, group: str | None, facts: Mapping[str, Any]) -> dict[str, Any]:
        path = f"{self.path}/{RUN_FILE}"
        content = folders.run_facts_of(self.path, group, facts)
        if not self.filesystem.exists(path):
            if self.filesystem.exists(self.path) and self.filesystem.ls(self.path, detail=False):
                raise RunExistsError(f"{self.url} is not empty and holds no run; choose another place to record to")
            self.filesystem.makedirs(self.path, exist_ok=True)
            self.filesystem.pipe_file(path, folders.to_json(content))
        # Read back: of several that created it at once the last one stands.
        found = json.loads(self.filesystem.cat_file(path))
        if not isinstance(found, dict):
            found = {}
        if found.get("uuid") != content["uuid"] and (group is None or found.get("group") != group):
            raise RunExistsError(f"{self.url} already holds a recorded run; choose another name, or delete it first")
        return found

    def _free_name(self, name: str) -> str:
        number = 1
        free = name
        while self.filesystem.exists(f"{self.path}/{free}"):
            number += 1
            free = f"{name}-{number}"
        return free


class Shipper:
    """Copies files of one process folder, closed parts first come first served, until `close`."""

    def __init__(self, destination: Destination, folder: str) -> None:
        self.folder = folder
        self.last_error: str | None = None
        self._filesystem = destination.filesystem
        self._remote = f"{destination.path}/{os.path.basename(folder)}"
        self._due: dict[str, None] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._copying: str | None = None
        self._open_seen: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._run, name="xla-insight-ship", daemon=True)
        self._thread.start()

    def ship(self, name: str) -> None:
        """Have a file of the folder copied soon, as it is then."""
        with self._changed:
            self._due[name] = None
            self._changed.notify()

    def close(self) -> list[str]:
        """Copy what is left, for at most ``CLOSE_S``; names of the files that are not there."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_S)
        with self._changed:
            copying = [self._copying] if self._copying else []
            return [*copying, *(name for name in self._due if name not in copying)]

    def _run(self) -> None:
        failures = 0
        while True:
            with self._changed:
                if not self._due and not self._closing:
                    self._changed.wait(OPEN_PART_EVERY_S)
                if not self._due and self._closing:
                    return
                # Taken off before it is read: what changes from here on is due again.
                name = self._copying = next(iter(self._due), None)
                if name is not None:
                    del self._due[name]
            if name is None:
                self._ship_open_part()
            elif self._copy(name):
                failures = 0
            else:
                with self._changed:
                    self._due = {name: None, **self._due}
                    self._changed.wait(_RETRY_S[0 if self._closing else min(failures, len(_RETRY_S) - 1)])
                failures += 1
            self._copying = None

    def _copy(self, name: str) -> bool:
        path = os.path.join(self.folder, name)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:  # the open part was closed meanwhile: its content is in a part
            return True
        except OSError as error:
            self.last_error = str(error)
            return False
        try:
            target = f"{self._remote}/{name}"
            self._filesystem.makedirs(os.path.dirname(target), exist_ok=True)
            self._filesystem.pipe_file(target, content)
        except Exception as error:  # every kind of remote file system has errors of its own
            self.last_error = f"{type(error).__name__}: {error}"
            return False
        if name.startswith((PART_PREFIX, GRAPHS_FOLDER, WINDOWS_FOLDER)):  # they never change: the spool stays small
            remove_quietly(path)
        return True

    def _ship_open_part(self) -> None:
        try:
            status = os.stat(os.path.join(self.folder, OPEN_FILE))
        except OSError:
            return
        seen = (status.st_ino, status.st_size)
        if seen != self._open_seen and self._copy(OPEN_FILE):
            self._open_seen = seen


def make_spool(url: str) -> str:
    """A local folder that stands in for a remote run."""
    name = os.path.basename(url.rstrip("/")) or "run"
    folder = os.path.join(tempfile.mkdtemp(prefix="xla-insight-spool-"), name)
    os.mkdir(folder)
    return folder


def _bounded(function: Callable[[], _Result], url: str) -> _Result:
    """The result of ``function``, run on a thread: a remote place that hangs must not hang the training."""
    results: list[_Result] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(function())
        except Exception as error:  # raised again below
            errors.append(error)

    thread = threading.Thread(target=run, name="xla-insight-connect", daemon=True)
    thread.start()
    thread.join(CONNECT_S)
    if results:
        return results[0]
    if not errors:
        raise OSError(errno.ETIMEDOUT, f"{url} did not answer within {CONNECT_S:.0f} s")
    if isinstance(errors[0], InsightError | OSError):
        raise errors[0]
    raise OSError(errno.EIO, f"{url} cannot be used ({type(errors[0]).__name__}: {errors[0]})") from errors[0]
