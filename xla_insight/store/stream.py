"""The part being filled: an Arrow IPC stream on disk that is only ever longer or gone, never half rewritten.

Owns one ``open.arrows``: each batch is one write that either stands whole or is cut off again. A new stream is a new
file, so that a reader of the old one keeps a consistent prefix. Leaves what to do after an error to ``writer``.
"""

from __future__ import annotations

import os

import pyarrow as pa

from xla_insight.store.schema import EVENT_SCHEMA, OPEN_FILE, PART_KEY


class OpenStream:
    """An open stream. ``batches`` are those on disk, kept for compaction; raises OSError like the files it writes."""

    def __init__(self, folder: str, number: int) -> None:
        self.path = os.path.join(folder, OPEN_FILE)
        self.number = number
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.size = 0
        self.kept = True
        """Whether ``batches`` is complete (see `release`)."""
        remove(self.path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            self._write(EVENT_SCHEMA.with_metadata({PART_KEY: str(number)}).serialize())
        except OSError:
            self.close()
            remove(self.path)
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch. After an OSError the file is as it was before."""
        self._write(batch.serialize())
        self.rows += batch.num_rows
        if self.kept:
            self.batches.append(batch)

    def in_place(self) -> bool:
        """Whether the file is still where it was made: folders are moved and deleted under running programs."""
        try:
            there, ours = os.stat(self.path), os.fstat(self._file)
        except OSError:
            return False
        return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)

    def release(self) -> None:
        """Forget the batches in memory: this stream will never be compacted."""
        self.kept = False
        self.batches.clear()

    def close(self) -> None:
        """Close the file; it stays on disk."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, buffer: pa.Buffer) -> None:
        view = memoryview(buffer)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += len(buffer)


def remove(path: str) -> None:
    """Delete a file that may not be there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def remove_quietly(path: str) -> None:
    """Delete a file if that is possible."""
    try:
        remove(path)
    except OSError:
        return
