"""The file that the framework appends its debug blocks to: read as it grows, rotated before it gets big.

Owns the path, the rotation and the order of blocks over rotations. The framework reads the path once per process, so
one file serves all recordings of a process; between recordings the path is a link to the null device.

A *position* is (inode, size) of the path as the training thread saw it, or None when nothing was there. Because the
framework writes synchronously on the thread that cuts the graph, a position taken on that thread says exactly which
blocks were written before it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import deque
from typing import IO, NamedTuple

from xla_insight.record import blocks
from xla_insight.record.blocks import Block

ROTATE_BYTES = 4 << 20
MAX_READ_BYTES = 8 << 20

Position = tuple[int, int] | None


class _Part(NamedTuple):
    inode: int
    stream: IO[bytes]


class DebugFile:
    """Reader of one path. All methods but ``position`` belong to the drain thread."""

    def __init__(self, path: str | None = None) -> None:
        self.owned = path is None
        self.recreated = 0
        """How often the folder was gone and made again (cleaners of temporary files do that); blocks were lost."""
        self._pid = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="xla-insight-") if path is None else ""
        self.path = path or os.path.join(self._folder, "debug.txt")
        self._parts: list[_Part] = []
        self._read: list[int] = []
        self._queues: list[deque[Block]] = []
        self._tails: list[bytes] = []
        self._current = -1
        self._rotations = 0
        if not self.owned:
            self._skip_existing()

    def _skip_existing(self) -> None:
        """A file of the user's own may hold blocks from before: they are not ours to read."""
        with contextlib.suppress(OSError):
            size = os.stat(self.path).st_size
            self._open_current()
            if self._parts:
                self._read[0] = size

    def start(self) -> None:
        """Begin to collect: the null link of an earlier recording goes away."""
        if self.owned and os.path.islink(self.path):
            os.unlink(self.path)

    def position(self) -> Position:
        """(inode, size) now; called on the training thread (2 us)."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_ino, status.st_size

    def poll(self) -> None:
        """Read all that was written so far; rotate when the file has grown past ``ROTATE_BYTES``."""
        if self.owned and not os.path.isdir(self._folder):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self.recreated += 1
        self._open_current()
        for index in range(max(0, len(self._parts) - 2), len(self._parts)):
            self._read_part(index)
        if self.owned and self._parts and self._read[-1] > ROTATE_BYTES:
            self._rotate()

    def _open_current(self) -> None:
        try:
            stream = open(self.path, "rb")  # noqa: SIM115 - kept open: an open inode cannot be reused by a later file
        except OSError:
            return
        inode = os.fstat(stream.fileno()).st_ino
        if self._parts and self._parts[-1].inode == inode:
            stream.close()
            return
        self._parts.append(_Part(inode, stream))
        self._read.append(0)
        self._queues.append(deque())
        self._tails.append(b"")
        for old in self._parts[:-3]:
            old.stream.close()

    def _read_part(self, index: int) -> None:
        stream = self._parts[index].stream
        while True:
            stream.seek(self._read[index])
            data = stream.read(MAX_READ_BYTES)
            if not data:
                return
            self._read[index] += len(data)
            whole = self._tails[index] + data
            found, used = blocks.parse(whole, self._read[index] - len(whole))
            self._queues[index].extend(found)
            self._tails[index] = whole[used:]

    def _rotate(self) -> None:
        """Rename now; the kept stream reads what a writer that still held the old file adds until the next rotation."""
        self._rotations += 1
        retired = f"{self.path}.{self._rotations}"
        with contextlib.suppress(OSError):
            os.rename(self.path, retired)
            os.unlink(retired)

    def take(self, position: Position) -> list[Block]:
        """Blocks not yet taken that were written before ``position`` was seen, in order."""
        taken: list[Block] = []
        if position is None:
            last = self._current
            for index in range(last + 1):
                taken.extend(self._queues[index])
                self._queues[index].clear()
            return taken
        inode, size = position
        while self._current + 1 < len(self._parts) and (self._current < 0 or self._parts[self._current].inode != inode):
            self._current += 1
        for index in range(self._current + 1):
            queue = self._queues[index]
            while queue and (index < self._current or queue[0].end <= size):
                taken.append(queue.popleft())
        return taken

    def take_all(self) -> list[Block]:
        """Every block not yet taken (at the end of a recording)."""
        taken = [block for queue in self._queues for block in queue]
        for queue in self._queues:
            queue.clear()
        return taken

    def stop(self) -> None:
        """Stop collecting. Later blocks of the framework go to the null device, so that nothing grows unseen."""
        for part in self._parts:
            part.stream.close()
        self._parts, self._read, self._queues, self._tails, self._current = [], [], [], [], -1
        self.leave()

    def leave(self) -> None:
        """Nobody records: what the framework writes goes to the null device until somebody does."""
        if self.owned:
            with contextlib.suppress(OSError):
                if os.path.lexists(self.path):
                    os.unlink(self.path)
                os.symlink(os.devnull, self.path)

    def remove(self) -> None:
        """Delete our folder, at the end of the process that made it."""
        if self.owned and self._pid == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)
