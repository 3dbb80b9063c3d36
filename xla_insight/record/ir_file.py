"""The framework's text of every graph that it runs, with the hashes of its roots: recorded at level ``full`` only.

Owns the folder that the framework appends to and which entries are new: one a graph is kept, the rest is thrown away
as it comes (40 ms and a megabyte for each execution of a large model). What the text means is parsed in ``graph``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile

MAX_ENTRY_BYTES = 256 << 20

_END = b"## END_GRAPH"
_HASH = re.compile(rb"^Graph Hash: ([0-9a-f]+)\s*$", re.MULTILINE)


class IrFile:
    """Reader of the files ``ir.txt.N`` that the framework writes, one a device ordinal."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="xla-insight-ir-")
        self.path = os.path.join(self._folder, "ir.txt")
        self._seen: set[str] = set()
        self._tails: dict[str, bytes] = {}
        self._rotations = 0

    def poll(self) -> list[tuple[str, bytes]]:
        """(graph, entry) of every graph that was not there before.

        A file is renamed at one call and read at the next: the framework may hold it open while it writes an entry.
        """
        found: list[tuple[str, bytes]] = []
        with contextlib.suppress(OSError):
            names = sorted(os.listdir(self._folder))
            for name in (n for n in names if n.startswith("read-")):
                found.extend(self._read(name))
            for name in (n for n in names if n.startswith("ir.txt")):
                self._rotations += 1
                retired = f"read-{self._rotations:09d}-{name}"
                os.rename(os.path.join(self._folder, name), os.path.join(self._folder, retired))
        return found

    def _read(self, name: str) -> list[tuple[str, bytes]]:
        path = os.path.join(self._folder, name)
        with open(path, "rb") as file:
            content = file.read(MAX_ENTRY_BYTES)
        os.unlink(path)
        source = name.split("-", 2)[2]
        parts = (self._tails.pop(source, b"") + content).split(_END)
        self._tails[source] = parts.pop()
        return [(graph, part.strip() + b"\n\n" + _END + b"\n") for part in parts if (graph := self._new_graph(part))]

    def _new_graph(self, entry: bytes) -> str | None:
        match = _HASH.search(entry)
        graph = match[1].decode() if match else None
        if graph is None or graph in self._seen:
            return None
        self._seen.add(graph)
        return graph

    def remove(self) -> None:
        """Delete the folder, at the end of the process that made it."""
        if self._pid == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)
