"""Writing the log of one process: events in, files that survive a kill out, and never an OSError to the caller.

Owns the buffer, the life of a part and the account of what was lost. Leaves the file being filled to ``stream``, its
compaction to ``parts``, names and joining to ``folder`` and remote places to ``shipping``. A flush hands everything to
the operating system, which keeps it when the process is killed; nothing is forced to the disk itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from xla_insight.facts.events import SCHEMA_VERSION, Event, Kind
from xla_insight.store import folder as folders
from xla_insight.store.graph_files import HLO, graph_file, write_compressed
from xla_insight.store.parts import PartFacts, write_part
from xla_insight.store.schema import (
    DEFINITIONS,
    PROCESS_FILE,
    RESERVE_FILE,
    RUN_FILE,
    STREAM_SUFFIX,
    part_name,
    to_batch,
)
from xla_insight.store.shipping import LOCAL_URL, Destination, Shipper, is_remote, make_spool
from xla_insight.store.stream import OpenStream, remove_quietly
from xla_insight.store.window_files import window_file

PART_EVENTS = 65_536
PART_BYTES = 16_000_000
MAX_DEFINITIONS = 200_000
"""Definitions kept in memory; more than this are not written again after a loss."""


class RunWriter:
    """The log of one process. Safe to use from several threads; does nothing in a forked child.

    ``lost`` counts what could not be kept (``events``, ``files``); ``last_error`` says why. ``folder`` is local: for a
    run at a URL it is the spool.
    """

    def __init__(self, folder: str, run_facts: Mapping[str, Any], process_facts: Mapping[str, Any]) -> None:
        self.folder = folder
        self.lost: dict[str, int] = {}
        self.last_error: str | None = None
        self._run_facts = dict(run_facts)
        self._facts: dict[str, Any] = {"schema": SCHEMA_VERSION, **process_facts}
        self._facts_due = False
        self._parts: dict[str, PartFacts] = {}
        self._part_events: dict[str, int] = {}
        self._graphs: dict[str, list[int]] = {}
        self._number = 1
        self._stream: OpenStream | None = None
        self._buffer: list[Event] = []
        self._pending: list[pa.RecordBatch] = []
        self._definitions: dict[tuple[object, ...], Event] = {}
        self._definitions_due = False
        self._shipper: Shipper | None = None
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False

    @classmethod
    def create(
        cls, run: str, *, group: str | None, run_facts: Mapping[str, Any], process_facts: Mapping[str, Any]
    ) -> RunWriter:
        """Create the run, or join it when it has the same ``group`` (not None), and begin a log in it.

        Raises RunExistsError when ``run`` holds anything else, UsageError for an unknown kind of URL, OSError when
        the place cannot be written.
        """
        if is_remote(run):
            return cls._create_remote(run, group, run_facts, process_facts)
        run = os.path.abspath(run.removeprefix(LOCAL_URL))
        entered = folders.enter_run(run, group, run_facts)
        facts = {"run": entered.get("id"), **process_facts}
        writer = cls(folders.make_process_folder(run, process_facts), entered, facts)
        folders.replace_json(os.path.join(writer.folder, PROCESS_FILE), writer._facts)
        folders.reserve_room(os.path.join(writer.folder, RESERVE_FILE))
        return writer

    @classmethod
    def _create_remote(
        cls, url: str, group: str | None, run_facts: Mapping[str, Any], process_facts: Mapping[str, Any]
    ) -> RunWriter:
        destination = Destination(url)
        entered = destination.enter(group, run_facts)
        folder = os.path.join(make_spool(url), destination.free_name(folders.process_folder_name(process_facts)))
        os.mkdir(folder)
        writer = cls(folder, entered, {"run": entered.get("id"), **process_facts, "spool": folder})
        writer._shipper = Shipper(destination, folder)
        writer._write_facts()
        return writer

    def append(self, events: Sequence[Event]) -> None:
        """Add events; they are on disk after the next `flush`."""
        if self._idle():
            return
        with self._lock:
            self._buffer.extend(events)
            for event in events:
                if event.kind in DEFINITIONS:
                    self._define(event)
            if len(self._buffer) >= PART_EVENTS:
                self._flush()

    def flush(self) -> None:
        """Hand everything appended so far to the operating system."""
        if self._idle():
            return
        with self._lock:
            self._flush()

    def write_graph(self, graph: str, content: bytes, suffix: str = HLO) -> int | None:
        """Store one form of a graph, compressed, beside the log; its size on disk, None when it could not be written.

        ``suffix`` is one of `graph_files`. A graph that is there already is replaced.
        """
        if self._idle():
            return None
        with self._lock:
            try:
                name = graph_file(graph, suffix)
                size = write_compressed(os.path.join(self.folder, name), content)
            except OSError as error:
                self._failed(error)
                return None
            if suffix == HLO:
                self._graphs[graph] = [size, len(content)]
            self._facts_due = True
            self._ship(name)
        return size

    def write_window(self, name: str, content: bytes) -> int | None:
        """Store the session of a device window, compressed; its size on disk, None when it could not be written."""
        file = window_file(name)
        if self._idle() or file is None:
            return None
        with self._lock:
            try:
                size = write_compressed(os.path.join(self.folder, file), content)
            except OSError as error:
                self._failed(error)
                return None
            self._ship(file)
        return size

    def touch(self) -> None:
        """Show readers that this process is alive although it has nothing to write, as in a compile of minutes."""
        if self._idle():
            return
        with self._lock, contextlib.suppress(OSError):
            os.utime(self._stream.path if self._stream is not None else os.path.join(self.folder, PROCESS_FILE))

    def update_process(self, **facts: Any) -> None:
        """Add facts to ``process.json``, which is replaced as a whole."""
        if self._idle():
            return
        with self._lock:
            self._facts.update(facts)
            self._write_facts()

    def close(self, **facts: Any) -> None:
        """Close the last part and write the final facts. What cannot be written now is counted as lost."""
        if self._idle():
            return
        with self._lock:
            self._flush()
            self._close_stream()
            for batch in self._pending:
                self._count_lost(batch)
            self._pending.clear()
            self._closed = True
            given = facts.pop("lost", None) or {}
            self._facts.update(facts)
            remove_quietly(os.path.join(self.folder, RESERVE_FILE))
            self._facts["lost"] = {name: self.lost.get(name, 0) + given.get(name, 0) for name in {**self.lost, **given}}
            self._write_facts()
            self._close_shipper()

    # ---- inside the lock -------------------------------------------------------------------------------------------

    def _idle(self) -> bool:
        # Asked before the lock is taken: in a forked child another thread may have held it for ever.
        return os.getpid() != self._pid or self._closed

    def _define(self, event: Event) -> None:
        if event.kind == Kind.CLOCK:  # the first and the last are enough to join the clocks
            key: tuple[object, ...] = (event.kind, ("clock", "first") in self._definitions)
            self._definitions.setdefault((Kind.CLOCK.value, "first"), event)
        else:
            key = (event.kind, event.site, event.thread, event.graph)
        if len(self._definitions) < MAX_DEFINITIONS or key in self._definitions:
            self._definitions[key] = event

    def _flush(self) -> None:
        if self._buffer:
            batch, unfit = to_batch(self._buffer)
            self._buffer = []
            if unfit:
                self._add_lost("events", unfit, "values that do not fit their column")
            self._pending.append(batch)
        try:
            self._write_pending()
        except OSError as error:
            self._failed(error)
        self._trim_pending()
        if self._facts_due:
            self._write_facts()

    def _write_pending(self) -> None:
        if not self._pending:
            return
        if self._stream is not None and not self._stream.in_place():
            self._leave_lost_folder()
        while self._pending:
            stream = self._ready_stream()
            try:
                stream.write(self._pending[0])
            except OSError as error:
                if error.errno != errno.EFBIG or not stream.rows:
                    raise
                self._close_stream()  # the user limits the size of files: on with the next one
                if self._stream is stream:
                    raise
                continue
            del self._pending[0]
            if self._definitions_due:
                stream.write(to_batch(list(self._definitions.values()))[0])
                self._definitions_due = False
            if stream.rows >= PART_EVENTS or stream.size >= PART_BYTES:
                self._close_stream()

    def _ready_stream(self) -> OpenStream:
        if self._stream is None:
            if not os.path.isdir(self.folder):
                self._leave_lost_folder()
            self._stream = OpenStream(self.folder, self._number)
        return self._stream

    def _leave_lost_folder(self) -> None:
        """The folder was deleted or moved: begin again at its old place with what is still in memory."""
        if self._stream is not None:
            self._pending = self._stream.batches + self._pending
            if not self._stream.kept:
                self._add_lost("events", self._stream.rows, "its file was deleted or moved")
            self._stream.close()
            self._stream = None
        for name in list(self._parts):
            if self._shipper is None and not os.path.exists(os.path.join(self.folder, name)):
                self._add_lost("events", self._part_events[name], "its file was deleted or moved")
                del self._parts[name]
        self._definitions_due = True
        os.makedirs(self.folder, exist_ok=True)
        run_file = os.path.join(os.path.dirname(self.folder), RUN_FILE)
        if self._shipper is None and not os.path.exists(run_file):
            folders.create_json(run_file, self._run_facts)
        self._write_facts()

    def _close_stream(self) -> None:
        """Turn the part being filled into a closed one: compacted, else as it is; else it goes on being filled."""
        stream = self._stream
        if stream is None:
            return
        if not stream.rows:
            self._drop_stream(stream)
            return
        if not stream.kept:
            self._keep_as_stream(stream)
            return
        name = part_name(stream.number)
        try:
            self._parts[name] = write_part(os.path.join(self.folder, name), stream.batches)
        except OSError as error:
            self._failed(error)
            self._keep_as_stream(stream)
            return
        self._part_events[name] = sum(map(_count_events, stream.batches))
        self._drop_stream(stream)
        self._ship(name)
        self._write_facts()

    def _keep_as_stream(self, stream: OpenStream) -> None:
        name = part_name(stream.number, STREAM_SUFFIX)
        try:
            os.rename(stream.path, os.path.join(self.folder, name))
        except OSError as error:
            self._failed(error)
            stream.release()  # it is safe on disk; memory stays bounded
            return
        self._next_stream(stream)
        self._ship(name)

    def _drop_stream(self, stream: OpenStream) -> None:
        remove_quietly(stream.path)
        self._next_stream(stream)

    def _next_stream(self, stream: OpenStream) -> None:
        stream.close()
        self._stream = None
        self._number = stream.number + 1

    def _write_facts(self) -> None:
        self._facts["parts"] = {name: list(part) for name, part in self._parts.items()}
        self._facts["graphs"] = self._graphs
        if self.lost and not self._closed:
            self._facts["lost"] = dict(self.lost)
        if self.last_error is not None:
            self._facts["last_error"] = self.last_error
        try:
            folders.replace_json(os.path.join(self.folder, PROCESS_FILE), self._facts)
        except OSError as error:
            self._failed(error)
            self._facts_due = True
            return
        self._facts_due = False
        self._ship(PROCESS_FILE)

    def _trim_pending(self) -> None:
        """What cannot be written is kept for a while, in bounded memory, the newest first."""
        while sum(batch.num_rows for batch in self._pending) > PART_EVENTS or _size(self._pending) > PART_BYTES:
            self._count_lost(self._pending.pop(0))

    def _count_lost(self, batch: pa.RecordBatch) -> None:
        self._add_lost("events", _count_events(batch), self.last_error or "")
        self._definitions_due = True  # those of the batch are still in memory

    def _add_lost(self, what: str, count: int, why: str) -> None:
        if count:
            self.lost[what] = self.lost.get(what, 0) + count
            self.last_error = why or self.last_error
            self._facts_due = True

    def _failed(self, error: OSError) -> None:
        place = os.path.basename(str(error.filename or self.folder))
        self.last_error = f"{error.strerror or type(error).__name__} ({place})"

    def _ship(self, name: str) -> None:
        if self._shipper is not None:
            self._shipper.ship(name)

    def _close_shipper(self) -> None:
        if self._shipper is None:
            return
        left = self._shipper.close()
        if not left:
            shutil.rmtree(os.path.dirname(os.path.dirname(self.folder)), ignore_errors=True)
            return
        self._add_lost("files", len(left), f"{self._shipper.last_error}; they are kept in {self.folder}")


def _count_events(batch: pa.RecordBatch) -> int:
    """Rows that are not kept in memory as definitions."""
    return sum(kind not in DEFINITIONS for kind in batch.column("kind").to_pylist())


def _size(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
