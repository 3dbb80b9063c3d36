"""A profiler session's result (an XSpace), read by hand: spans of each thread, device operations, live programs.

Owns the field numbers of XSpace (public, never reused). The training process takes programs out of it, the reading
side everything else. Leaves the meaning of a span to those who know the framework.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from xla_insight.facts.wire import fields

_PLANES, _PLANE_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES, _PLANE_STATS = 1, 2, 3, 4, 5, 6
_KEY, _VALUE = 1, 2
_NAME, _EVENT_STATS = 2, 5
_LINE_NAME, _LINE_START_NS, _LINE_EVENTS, _LINE_SHOWN = 2, 3, 4, 11
_EVENT_ID, _OFFSET_PS, _DURATION_PS, _STATS = 1, 2, 3, 4
_STAT_ID, _STAT_UNSIGNED, _STAT_SIGNED, _STAT_TEXT, _STAT_BYTES, _STAT_REFERENCE = 1, 3, 4, 5, 6, 7
_PROGRAMS_PLANE, _TIMES_PLANE = b"/host:metadata", b"Task Environment"
_START, _STOP = "profile_start_time", "profile_stop_time"
_OPERATION, _PROGRAM = "hlo_op", "program_id"
_NUMBERED = re.compile(rb".*\((\d+)\)", re.DOTALL)
_GIVEN, _TAKEN = b"ThreadpoolListener::Record", b"ThreadpoolListener::StartRegion"
_GIVEN_NUMBER, _TAKEN_NUMBER = "_p", "_c"
_BOOKKEEPING = ("end: ", "Threadpool")
"""Names of events that only say that a span is over, or that work changed hands: 70 % of all."""


class Span(NamedTuple):
    """A span of one thread, ns since the session started. ``operation`` is the instruction that the device ran in it
    and ``program`` its module's number; both None for a span of the host."""

    name: str
    start_ns: int
    end_ns: int
    operation: str | None
    program: int | None


class Thread(NamedTuple):
    """The spans of one thread."""

    name: str
    spans: tuple[Span, ...]


class Handoff(NamedTuple):
    """A piece of work that one thread gave to another; threads are counted as in ``Space.threads``."""

    giver: int
    given_ns: int
    taker: int
    taken_ns: int


class Space(NamedTuple):
    """One session. Times are wall clock ns since the epoch, None when it does not say; ``programs`` are serialized
    ``HloProto`` by number."""

    start_wall_ns: int | None
    stop_wall_ns: int | None
    threads: tuple[Thread, ...]
    programs: dict[int, bytes]


def read_space(content: bytes) -> Space:
    """All of a session. Raises ValueError when it is damaged."""
    try:
        return _read_space(memoryview(content))
    except IndexError as error:
        raise ValueError("torn message") from error


def read_handoffs(content: bytes) -> tuple[Handoff, ...]:
    """The pieces of work that threads gave to others, in the order in which they gave them.

    Raises ValueError when the session is damaged.
    """
    try:
        given: dict[int, tuple[int, int]] = {}
        taken: dict[int, tuple[int, int]] = {}
        number = 0
        for plane in _planes_of_threads(memoryview(content)):
            names = {_name(value, _NAME): key for key, value in _map(plane, _EVENT_NAMES)}
            stats = {_name(value, _NAME).decode("utf-8", "replace"): key for key, value in _map(plane, _STAT_NAMES)}
            sides = {
                names.get(_GIVEN): (given, stats.get(_GIVEN_NUMBER)),
                names.get(_TAKEN): (taken, stats.get(_TAKEN_NUMBER)),
            }
            for line in _messages(plane, _LINES):
                for event, work, at_ns in _numbered(line, {key: stat for key, (_, stat) in sides.items()}):
                    sides[event][0][work] = (number, at_ns)
                number += 1
    except IndexError as error:
        raise ValueError("torn message") from error
    both = sorted((*given[work], *taken[work]) for work in given.keys() & taken.keys())
    return tuple(sorted(map(Handoff._make, both), key=lambda one: one.given_ns))


def read_programs(content: bytes) -> dict[int, bytes]:
    """Number -> serialized ``HloProto`` of the live programs in a session. Never raises; a damaged one has none."""
    try:
        return {
            number: module
            for plane in _messages(memoryview(content), _PLANES)
            for number, module in _programs(plane)
            if module is not None
        }
    except (ValueError, IndexError):
        return {}


def without_programs(content: bytes, known: Collection[int]) -> bytes:
    """The session without the programs of these numbers, to be read as before. Raises ValueError when damaged."""
    try:
        return b"".join(_without(memoryview(content), frozenset(known)))
    except IndexError as error:
        raise ValueError("torn message") from error


def _read_space(space: memoryview) -> Space:
    times: dict[str, int] = {}
    threads: list[Thread] = []
    programs: dict[int, bytes] = {}
    for plane in _messages(space, _PLANES):
        name = _name(plane, _PLANE_NAME)
        if name == _PROGRAMS_PLANE:
            programs.update((number, module) for number, module in _programs(plane) if module is not None)
            continue
        stat_names = {key: _name(value, _NAME).decode("utf-8", "replace") for key, value in _map(plane, _STAT_NAMES)}
        if name == _TIMES_PLANE:
            for stat in _messages(plane, _PLANE_STATS):
                numbers = {field: value for field, value in fields(stat) if isinstance(value, int)}
                wall_ns = numbers.get(_STAT_UNSIGNED, numbers.get(_STAT_SIGNED, 0))
                times[stat_names.get(numbers.get(_STAT_ID, 0), "")] = wall_ns
            continue
        names = {key: _name(value, _NAME).decode("utf-8", "replace") for key, value in _map(plane, _EVENT_NAMES)}
        reader = _Events(names, stat_names)
        threads.extend(reader.thread(line) for line in _messages(plane, _LINES))
    return Space(times.get(_START), times.get(_STOP), tuple(threads), programs)


def _planes_of_threads(space: memoryview) -> Iterator[memoryview]:
    for plane in _messages(space, _PLANES):
        if _name(plane, _PLANE_NAME) not in (_PROGRAMS_PLANE, _TIMES_PLANE):
            yield plane


def _numbered(line: memoryview, wanted: dict[int | None, int | None]) -> Iterator[tuple[int, int, int]]:
    """(event, number, ns) of a thread's events that are ``wanted`` and hold a number in the statistic it names."""
    start_ns = next((value for field, value in fields(line) if field == _LINE_START_NS and isinstance(value, int)), 0)
    for event in _messages(line, _LINE_EVENTS):
        values = dict(fields(event))
        identity, offset_ps = values.get(_EVENT_ID), values.get(_OFFSET_PS, 0)
        if isinstance(identity, int) and isinstance(offset_ps, int) and wanted.get(identity) is not None:
            for stat in _messages(event, _STATS):
                found = dict(fields(stat))
                work = found.get(_STAT_UNSIGNED, found.get(_STAT_SIGNED))
                if found.get(_STAT_ID) == wanted[identity] and isinstance(work, int):
                    yield identity, work, start_ns + offset_ps // 1000


class _Events:
    """Reads the events of one plane, which names things by number."""

    def __init__(self, names: dict[int, str], stat_names: dict[int, str]) -> None:
        self._names = {key: name for key, name in names.items() if not name.startswith(_BOOKKEEPING)}
        self._stat_names = stat_names
        numbers = {name: key for key, name in stat_names.items()}
        self._operation, self._program = numbers.get(_OPERATION, -1), numbers.get(_PROGRAM, -1)

    def thread(self, line: memoryview) -> Thread:
        name, shown, start_ns, events = b"", b"", 0, []
        for field, value in fields(line):
            if field == _LINE_EVENTS and isinstance(value, memoryview):
                events.append(value)
            elif field == _LINE_NAME and isinstance(value, memoryview):
                name = bytes(value)
            elif field == _LINE_SHOWN and isinstance(value, memoryview):
                shown = bytes(value)
            elif field == _LINE_START_NS and isinstance(value, int):
                start_ns = value
        spans = tuple(span for event in events if (span := self._span(event, start_ns)) is not None)
        return Thread((shown or name).decode("utf-8", "replace"), spans)

    def _span(self, event: memoryview, start_ns: int) -> Span | None:
        identity = offset_ps = duration_ps = 0
        stats = []
        for field, value in fields(event):
            if isinstance(value, int):
                if field == _EVENT_ID:
                    identity = value
                    if identity not in self._names:
                        return None
                elif field == _OFFSET_PS:
                    offset_ps = value
                elif field == _DURATION_PS:
                    duration_ps = value
            elif field == _STATS:
                stats.append(value)
        operation, program = self._device_work(stats)
        begin_ns = start_ns + offset_ps // 1000
        end_ns = start_ns + (offset_ps + duration_ps) // 1000
        return Span(self._names.get(identity, ""), begin_ns, end_ns, operation, program)

    def _device_work(self, stats: list[memoryview]) -> tuple[str | None, int | None]:
        """Instruction and program; the instruction comes first among the stats of a device operation."""
        operation: str | None = None
        for stat in stats:
            values = dict(fields(stat))
            identity = values.get(_STAT_ID)
            if identity == self._operation:
                operation = self._text(values)
            elif operation is None:
                return None, None
            elif identity == self._program:
                number = values.get(_STAT_SIGNED, values.get(_STAT_UNSIGNED))
                return operation, number if isinstance(number, int) else None
        return operation, None

    def _text(self, values: dict[int, int | memoryview]) -> str:
        reference, text = values.get(_STAT_REFERENCE), values.get(_STAT_TEXT)
        if isinstance(reference, int):
            return self._stat_names.get(reference, "")
        return bytes(text).decode("utf-8", "replace") if isinstance(text, memoryview) else ""


def _programs(plane: memoryview) -> Iterator[tuple[int, bytes | None]]:
    if _name(plane, _PLANE_NAME) == _PROGRAMS_PLANE:
        for _, event in _map(plane, _EVENT_NAMES):
            yield from _program(event)


def _program(event: memoryview) -> Iterator[tuple[int, bytes | None]]:
    """Number and module of one entry; no module when that was taken out."""
    match = _NUMBERED.fullmatch(_name(event, _NAME))
    if match is not None:
        stats = _messages(event, _EVENT_STATS)
        modules = [bytes(part) for stat in stats for part in _messages(stat, _STAT_BYTES)]
        yield int(match[1]), modules[0] if modules else None


def _without(space: memoryview, known: frozenset[int]) -> Iterator[bytes]:
    for field, value in fields(space):
        if field != _PLANES or not isinstance(value, memoryview):
            continue
        if _name(value, _PLANE_NAME) != _PROGRAMS_PLANE:
            yield _message(_PLANES, bytes(value))
            continue
        kept = [_message(_PLANE_NAME, _PROGRAMS_PLANE)]
        for entry in _messages(value, _EVENT_NAMES):
            numbers = [number for part in _messages(entry, _VALUE) for number, _ in _program(part)]
            if not any(number in known for number in numbers):
                kept.append(_message(_EVENT_NAMES, bytes(entry)))
        yield _message(_PLANES, b"".join(kept))


def _message(field: int, content: bytes) -> bytes:
    size, length = len(content), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([field << 3 | 2]) + bytes(length) + content


def _messages(message: memoryview, number: int) -> list[memoryview]:
    return [value for field, value in fields(message) if field == number and isinstance(value, memoryview)]


def _name(message: memoryview, number: int) -> bytes:
    found = _messages(message, number)
    return bytes(found[0]) if found else b""


def _map(plane: memoryview, number: int) -> Iterator[tuple[int, memoryview]]:
    for entry in _messages(plane, number):
        values = dict(fields(entry))
        key, value = values.get(_KEY, 0), values.get(_VALUE)
        if isinstance(key, int) and isinstance(value, memoryview):
            yield key, value
