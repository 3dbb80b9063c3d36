"""A recorded run as a trace for ui.perfetto.dev: named tracks for each process, flows from cut to execution, counters.

Owns the form of the trace file. Leaves what is on a track to ``analysis.trace_tracks``, and the encoding of a packet to
the package `perfetto`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.trace_tracks import Counter, Slices, TraceTrack, trace_tracks
from xla_insight.errors import ExportError

_SEQUENCE = 1
_CHUNK_PACKETS = 10_000
_PROCESS_STRIDE = 1 << 20
"""Tracks of a process are numbered from here on."""


def export_perfetto(tables: RunTables, path: str | Path, steps: tuple[int, int] | None = None) -> int:
    """Write the trace of a run to ``path`` and return its number of events; only ``steps`` (first, last), when given.

    Raises ExportError when the file cannot be written, or when no process has such steps.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.tmp")
    stretches = {process.index: _stretch(tables, process, steps) for process in tables.processes}
    shown = [process for process in tables.processes if steps is None or stretches[process.index] is not None]
    if not shown:
        raise ExportError("there is nothing to export: no process recorded these steps")
    try:
        with open(temporary, "wb") as file:
            writer = _Writer(file)
            for process in shown:
                writer.process(process, trace_tracks(tables, process, stretches[process.index]))
            writer.flush()
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise ExportError(f"cannot write {target} ({error.strerror or error})") from error
    return writer.events


def _stretch(tables: RunTables, process: Process, steps: tuple[int, int] | None) -> tuple[int, int] | None:
    """When some steps of a process began and ended, in ns."""
    if steps is None:
        return None
    rows = tables.of("steps", process.index)
    rows = rows[rows["step"].between(*steps)]
    return None if rows.empty else (int(rows["start_ns"].iloc[0]), int(rows["end_ns"].iloc[-1]))


class _Writer:
    """Writes packets in chunks: a trace is any number of traces one after the other. A name is in the file once."""

    def __init__(self, file: IO[bytes]) -> None:
        self.events = 0
        self._file = file
        self._chunk = TraceProtoBuilder()
        self._packets = 0
        self._event_names: dict[str, int] = {}
        self._argument_names: dict[str, int] = {}

    def process(self, process: Process, tracks: Iterable[TraceTrack]) -> None:
        """All tracks of one process."""
        root = (process.index + 1) * _PROCESS_STRIDE
        packet = self._packet()
        descriptor = packet.track_descriptor
        descriptor.uuid = root
        descriptor.process.pid = process.index + 1
        descriptor.process.process_name = _process_name(process)
        descriptor.child_ordering = TrackDescriptor.ChildTracksOrdering.EXPLICIT
        for number, track in enumerate(tracks, 1):
            self._describe(root, root + number, track)
            if isinstance(track.content, Counter):
                self._counter(root + number, track.content)
            else:
                self._slices(root + number, track.content)

    def _describe(self, root: int, uuid: int, track: TraceTrack) -> None:
        packet = self._packet()
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.parent_uuid, descriptor.name = uuid, root, track.name
        descriptor.sibling_order_rank = uuid - root
        if isinstance(track.content, Counter):
            descriptor.counter.CopyFrom(CounterDescriptor(unit_name=track.content.unit or "count"))

    def _counter(self, uuid: int, counter: Counter) -> None:
        for time_ns, value in zip(counter.times.tolist(), counter.values.tolist(), strict=True):
            self._event(uuid, time_ns, TrackEvent.TYPE_COUNTER).track_event.double_counter_value = value

    def _slices(self, uuid: int, slices: Slices) -> None:
        for index, time_ns in _in_order(slices):
            if index is None:
                self._event(uuid, time_ns, TrackEvent.TYPE_SLICE_END)
                continue
            packet = self._event(uuid, time_ns, TrackEvent.TYPE_SLICE_BEGIN)
            event = packet.track_event
            event.name_iid = self._interned(packet, self._event_names, "event_names", slices.names[index])
            for name, values in slices.arguments.items():
                self._argument(packet, name, values[index])
            if slices.flows_out:
                event.flow_ids.extend(slices.flows_out[index])
            if slices.flows_in:
                event.terminating_flow_ids.extend(slices.flows_in[index])

    def _argument(self, packet: TracePacket, name: str, value: Any) -> None:
        if value is None:
            return
        annotation = packet.track_event.debug_annotations.add()
        annotation.name_iid = self._interned(packet, self._argument_names, "debug_annotation_names", name)
        if isinstance(value, str):
            annotation.string_value = value.encode("utf-8", "replace").decode()
        else:
            annotation.int_value = int(value)

    def _event(self, uuid: int, time_ns: int, kind: Any) -> TracePacket:
        self.events += kind != TrackEvent.TYPE_SLICE_END
        packet = self._packet()
        packet.timestamp = max(0, time_ns)  # the format knows no time before the run; a damaged clock may
        packet.track_event.type = kind
        packet.track_event.track_uuid = uuid
        return packet

    def _interned(self, packet: TracePacket, known: dict[str, int], table: str, text: str) -> int:
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            clean = text.encode("utf-8", "replace").decode()
            getattr(packet.interned_data, table).add(iid=number, name=clean)
        return number

    def _packet(self) -> TracePacket:
        if self._packets and not self._packets % _CHUNK_PACKETS:
            self.flush()
        packet = self._chunk.add_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        first = not self._packets
        self._packets += 1
        state = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED if first else TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        packet.sequence_flags = state
        return packet

    def flush(self) -> None:
        """Write what is pending."""
        self._file.write(self._chunk.serialize())
        self._chunk = TraceProtoBuilder()


def _in_order(slices: Slices) -> Iterator[tuple[int | None, int]]:
    """(slice, its begin) and (None, an end), in order of time; a slice never outlasts the one around it."""
    open_ends: list[int] = []
    order = np.lexsort((-slices.ends, slices.starts))
    for index in order.tolist():
        start, end = int(slices.starts[index]), int(slices.ends[index])
        while open_ends and open_ends[-1] <= start:
            yield None, open_ends.pop()
        yield index, start
        open_ends.append(min(end, open_ends[-1]) if open_ends else end)
    while open_ends:
        yield None, open_ends.pop()


def _process_name(process: Process) -> str:
    host = process.facts.get("host")
    return f"rank {process.rank}" + (f" on {host}" if isinstance(host, str) else "")
