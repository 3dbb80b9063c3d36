"""Appends events to the log of one process, whatever happens to the disk.

Owns the stream being filled, the parts it is closed into, and the counting of what could not be kept. ``create`` may
raise; nothing after it raises OSError. One batch a flush: after a kill at most what was not flushed is lost.

A part closes at ``PART_ROWS`` events: it is written under a temporary name, renamed, and the stream begins anew. The
stream names the part it will become, so a reader never counts both.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xla_insight.facts.events import SCHEMA_VERSION, Event, Kind
from xla_insight.store import layout
from xla_insight.store.schema import DICTIONARY_COLUMNS, EVENT_SCHEMA, to_batch

PART_ROWS = 65_536
PART_BYTES = 16 << 20
_DEFINITIONS = frozenset({Kind.SITE, Kind.THREAD, Kind.GRAPH})


class RunWriter:
    """The log of this process below one run. Not thread-safe: one thread writes."""

    def __init__(self, run: str, folder: str, process_facts: dict[str, Any], run_facts: dict[str, Any]) -> None:
        self.run = run
        self.folder = folder
        self.lost: dict[str, int] = {}
        self.last_error: str | None = None
        self._process = process_facts
        self._run_facts = run_facts
        self._waiting: list[Event] = []
        self._definitions: list[Event] = []
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._closed_rows = 0
        self._retry_rows = PART_ROWS
        self._part = 1
        self._descriptor: int | None = None
        self._good = 0

    @classmethod
    def create(
        cls, run: str, *, group: str | None, run_facts: dict[str, Any], process_facts: dict[str, Any]
    ) -> RunWriter:
        """Begin the log of this process in ``run``, a folder or an fsspec URL.

        Raises RunExistsError when something else is there, OSError when it cannot be written.
        """
        if "://" in run and not run.startswith("file://"):
            from xla_insight.store.shipping import create_remote

            return create_remote(run, group, run_facts, process_facts)
        return cls.create_local(run.removeprefix("file://"), group, run_facts, process_facts)

    @classmethod
    def create_local(
        cls, run: str, group: str | None, run_facts: dict[str, Any], process_facts: dict[str, Any]
    ) -> RunWriter:
        """``create`` for a folder of this machine."""
        content = layout.enter_run(run, group, run_facts)
        facts = {"schema": SCHEMA_VERSION, "run": content.get("id"), **process_facts}
        rank, host, pid = facts.get("rank", 0), facts.get("host", "host"), facts.get("pid", os.getpid())
        folder = layout.new_process_folder(run, int(rank), str(host), int(pid))
        writer = cls(run, folder, facts, content)
        layout.write_json(os.path.join(folder, layout.PROCESS_FILE), facts)
        writer._open_stream()
        return writer

    # ---- appending -------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event]) -> None:
        """Add events to what the next flush writes."""
        self._waiting.extend(events)
        self._definitions.extend(event for event in events if event.kind in _DEFINITIONS)

    def flush(self) -> None:
        """Write what was appended to the stream; what cannot be written is counted in ``lost``."""
        events, self._waiting = self._waiting, []
        if not events:
            return
        try:
            batch = to_batch(events)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            self._lose(len(events), error)
            return
        try:
            self._ensure_stream()
            self._write(batch.serialize())
        except OSError as error:
            self._lose(len(events), error)
            return
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._retry_rows or self._bytes >= PART_BYTES * (self._retry_rows / PART_ROWS):
            self._close_part()

    def _lose(self, count: int, error: Exception) -> None:
        self.lost["events"] = self.lost.get("events", 0) + count
        self.last_error = f"{type(error).__name__}: {error}"

    @property
    def _stream_path(self) -> str:
        return os.path.join(self.folder, layout.OPEN_FILE)

    def _open_stream(self) -> None:
        schema = EVENT_SCHEMA.with_metadata({**EVENT_SCHEMA.metadata, layout.PART_KEY: str(self._part).encode()})
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC
        self._descriptor = os.open(self._stream_path, flags, 0o644)
        self._good = 0
        self._write(schema.serialize())

    def _write(self, buffer: pa.Buffer) -> None:
        """All of ``buffer`` or nothing: a torn batch is cut off again. Raises OSError."""
        assert self._descriptor is not None
        view = memoryview(buffer)
        done = 0
        try:
            while done < len(view):
                done += os.write(self._descriptor, view[done:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._good)
                os.lseek(self._descriptor, self._good, os.SEEK_SET)
            raise
        self._good += done

    def _ensure_stream(self) -> None:
        """Reopen the stream when it is closed, or when somebody deleted the folder under us. Raises OSError."""
        if self._descriptor is not None and self._same_file():
            return
        self._drop_descriptor()
        if not os.path.isdir(self.folder):
            self._restore_folder()
        self._open_stream()
        for batch in self._batches:
            self._write(batch.serialize())

    def _same_file(self) -> bool:
        assert self._descriptor is not None
        try:
            on_disk = os.stat(self._stream_path)
        except OSError:
            return False
        return os.path.samestat(on_disk, os.fstat(self._descriptor))

    def _restore_folder(self) -> None:
        """The folder is gone with its closed parts: say so, and write again what later events refer to."""
        os.makedirs(self.folder, exist_ok=True)
        run_file = os.path.join(self.run, layout.RUN_FILE)
        if not os.path.exists(run_file):
            layout.write_json(run_file, self._run_facts)
        layout.write_json(os.path.join(self.folder, layout.PROCESS_FILE), self._process)
        if self._closed_rows:
            self._lose(self._closed_rows, FileNotFoundError(f"{self.folder} was deleted while recording"))
            self._closed_rows = 0
            self._batches.insert(0, to_batch(self._definitions))
            self._rows += len(self._definitions)

    def _drop_descriptor(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None

    # ---- closing parts ---------------------------------------------------------------------------------------------

    def _close_part(self) -> bool:
        """Turn the stream into a Parquet part. On failure the stream stays, and it is tried again later."""
        if not self._batches:
            return True
        path = os.path.join(self.folder, layout.PART_NAME.format(self._part))
        try:
            self._ensure_stream()
            write_part(path, self._batches)
        except (OSError, pa.ArrowException) as error:
            self.last_error = f"{type(error).__name__}: {error}"
            self._retry_rows = self._rows + PART_ROWS
            return False
        self._closed_rows += self._rows
        self._batches, self._rows, self._bytes, self._retry_rows = [], 0, 0, PART_ROWS
        self._part += 1
        self._drop_descriptor()
        with contextlib.suppress(OSError):
            self._open_stream()
        return True

    # ---- facts of the process --------------------------------------------------------------------------------------

    def update_process(self, **facts: Any) -> None:
        """Add facts to ``process.json``."""
        self._process.update(facts)
        try:
            layout.write_json(os.path.join(self.folder, layout.PROCESS_FILE), self._process)
        except OSError as error:
            self.last_error = f"{type(error).__name__}: {error}"

    def close(self, **facts: Any) -> None:
        """Write what is left, close the part, write the final facts. Call it once."""
        self.flush()
        try:
            self._ensure_stream()
        except OSError as error:
            self.last_error = f"{type(error).__name__}: {error}"
        if self._close_part():
            self._drop_descriptor()
            with contextlib.suppress(OSError):
                os.unlink(self._stream_path)
        self._drop_descriptor()
        if self.last_error is not None:
            facts["last_write_error"] = self.last_error
        self.update_process(lost=self.lost, **facts)


def write_part(path: str, batches: list[pa.RecordBatch]) -> None:
    """Write ``batches`` as one Parquet file, visible only when complete. Raises OSError or ArrowException."""
    descriptor, temporary = tempfile.mkstemp(prefix=".part-", suffix=".tmp", dir=os.path.dirname(path))
    os.close(descriptor)
    try:
        pq.write_table(
            pa.Table.from_batches(batches, schema=EVENT_SCHEMA),
            temporary,
            compression="zstd",
            use_dictionary=list(DICTIONARY_COLUMNS),
            column_encoding={"time_ns": "DELTA_BINARY_PACKED", "duration_ns": "DELTA_BINARY_PACKED"},
        )
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
