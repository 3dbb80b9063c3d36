"""The folder that the compiler dumps into: one module a compile is taken, hundreds of other files are deleted.

Owns the folder and which of its files hold a graph as it was cut (HLO before optimization) and as it runs (after it).
The compiler writes a module before it compiles it, on the thread that cuts the graph, so the files that are new at the
end of a hook are the graphs compiled inside it. Their numbers have gaps and order them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
import time

MAX_MODULE_BYTES = 512 << 20
"""A larger one is not read into the training process: constants of that size are not a graph to look at."""

IDLE_SWEEP_S = 2.0
"""The compiler cannot be told to stop dumping: between recordings what it writes is deleted this often."""

ABANDONED_S = 3600.0

_FOLDER = "xla-insight-hlo-"
_MODULE = re.compile(r"module_([0-9]+)\..*before_optimizations\.hlo\.pb")
_OPTIMIZED = re.compile(r"module_([0-9]+)\..*after_optimizations\.hlo\.pb")


class GraphDump:
    """``news`` runs on the training thread, the rest on the drain thread."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        _remove_abandoned()
        self.path = tempfile.mkdtemp(prefix=f"{_FOLDER}{self._pid}-")
        self._seen: set[str] = set()
        self._attended = threading.Event()
        self._idle: threading.Thread | None = None

    def attend(self) -> None:
        """A recording begins: what was dumped before it is nobody's."""
        self._attended.set()
        if self._idle is not None:
            self._idle.join()
        self._sweep(everything=True)

    def leave(self) -> None:
        """Nobody records: keep the folder empty until somebody does."""
        self._attended.clear()
        self._idle = threading.Thread(target=self._keep_empty, name="xla-insight-sweep", daemon=True)
        self._idle.start()

    def _keep_empty(self) -> None:
        while not self._attended.wait(IDLE_SWEEP_S):
            self._sweep(everything=True)

    @staticmethod
    def prefix() -> str:
        """How the path of such a folder begins, in any process of this machine with the same temporary folder."""
        return os.path.join(tempfile.gettempdir(), _FOLDER)

    def news(self) -> tuple[str, ...]:
        """Names of modules written since the last call, in order. 0.3 ms after a compile: its many files are listed."""
        try:
            with os.scandir(self.path) as entries:
                found = [(match, entry.name) for entry in entries if (match := _MODULE.fullmatch(entry.name))]
        except OSError:
            return ()
        fresh = sorted((int(match[1]), name) for match, name in found if name not in self._seen)
        names = tuple(name for _, name in fresh)
        self._seen.update(names)
        return names

    def take(self, name: str) -> bytes | None:
        """The content of a module, which is deleted; None when it is gone or too large to be read."""
        return self._read(os.path.join(self.path, name))

    def take_optimized(self, name: str) -> bytes | None:
        """What the compiler made of the module ``name``: its program, which is deleted; None when it is not there."""
        number = _MODULE.fullmatch(name)
        found: bytes | None = None
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                match = _OPTIMIZED.fullmatch(entry.name)
                if match and number and match[1] == number[1]:
                    found = self._read(entry.path) or found
        return found

    @staticmethod
    def _read(path: str) -> bytes | None:
        content = None
        with contextlib.suppress(OSError):
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size <= MAX_MODULE_BYTES:
                    content = file.read()
            os.unlink(path)
        return content

    def sweep(self) -> None:
        """Delete what is no module to be taken, and no program of one."""
        self._sweep(everything=False)

    def _sweep(self, everything: bool) -> None:
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if everything or not (_MODULE.fullmatch(entry.name) or _OPTIMIZED.fullmatch(entry.name)):
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)

    def remove(self) -> None:
        """Delete the folder, at the end of the process that made it."""
        if self._pid == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)


def _remove_abandoned() -> None:
    """Delete folders of processes that were killed: they could not."""
    root = tempfile.gettempdir()
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            match = re.fullmatch(_FOLDER + r"(\d+)-.*", entry.name)
            # A live process of another container may have a number that is free here: its folder is in use.
            if match and not _is_alive(int(match[1])) and time.time() - entry.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
