"""The lines that a person wrote, in place of those of the code that dynamo made of them.

A compiled function runs as generated code (``<eval_with_key>.3``, another number for each compile), and that is what
the compiler's metadata name. Owns which generated line stands for which line of a file, and putting that into the
metadata of a captured module; everything else in the module stays byte for byte what it was.
"""

from __future__ import annotations

import linecache
import re
from typing import Any, NamedTuple

from xla_insight.facts.wire import bytes_field, fields, number_field, parts

GENERATED = "<eval_with_key>"
MAX_LINES = 200_000
_MODULE, _STACKS = 1, 17
_FILE_NAMES, _FUNCTION_NAMES, _LOCATIONS = 1, 2, 3
_LOCATION_FILE, _LOCATION_FUNCTION, _LOCATION_LINE = 1, 2, 3
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<function>\S+)')
_ASSIGNED = re.compile(r"\s*(\w+)(?:: [^=]*)? = ")


class Written(NamedTuple):
    """A line that a person wrote."""

    file: str
    line: int
    function: str


class WrittenLines:
    """``learn`` runs on the user's thread when dynamo compiles, the rest on the drain thread."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], Written] = {}

    def learn(self, module: Any) -> None:
        """Remember the lines of a graph module of torch.fx: each assigns a node, and a node knows where it is from."""
        generated = module.forward.__code__.co_filename
        if not generated.startswith(GENERATED) or len(self._lines) >= MAX_LINES:
            return
        stacks = {node.name: node.meta.get("stack_trace") for node in module.graph.nodes}
        for number, text in enumerate(linecache.getlines(generated), 1):
            assigned = _ASSIGNED.match(text)
            stack = stacks.get(assigned[1]) if assigned else None
            frames = list(_FRAME.finditer(stack)) if isinstance(stack, str) else []
            if frames:
                found = frames[-1]  # outermost first
                self._lines[generated, number] = Written(found["file"], int(found["line"]), found["function"])

    def line_of(self, file: str, line: int) -> tuple[str, int]:
        """The written line of a generated one; any other line as it is."""
        found = self._lines.get((file, line))
        return (file, line) if found is None else (found.file, found.line)

    def applied(self, dump: bytes) -> bytes:
        """A serialized ``HloProto`` with written lines. Never raises: a damaged one stays as it is."""
        if not self._lines or GENERATED.encode() not in dump:
            return dump
        try:
            return _replaced(memoryview(dump), (_MODULE, _STACKS), self._lines)
        except (ValueError, IndexError):
            return dump


def _replaced(message: memoryview, path: tuple[int, ...], lines: dict[tuple[str, int], Written]) -> bytes:
    """The message with the stacks that lie at ``path`` in it replaced."""
    if not path:
        return _stacks(message, lines)
    return b"".join(
        bytes_field(number, _replaced(value, path[1:], lines))
        if number == path[0] and isinstance(value, memoryview)
        else bytes(whole)
        for number, value, whole in parts(message)
    )


def _stacks(index: memoryview, lines: dict[tuple[str, int], Written]) -> bytes:
    """The index of stack frames with the locations of generated lines replaced; new names come after all others."""
    names: dict[int, list[str]] = {_FILE_NAMES: [], _FUNCTION_NAMES: []}
    for number, value in fields(index):
        if number in names and isinstance(value, memoryview):
            names[number].append(bytes(value).decode("utf-8", "replace"))
    files, known = names[_FILE_NAMES], {number: len(texts) for number, texts in names.items()}
    found: list[bytes] = []
    for number, value, whole in parts(index):
        written = _written(value, files[: known[_FILE_NAMES]], lines) if number == _LOCATIONS else None
        if written is None:
            found.append(bytes(whole))
            continue
        place = number_field(_LOCATION_FILE, _number_of(names[_FILE_NAMES], written.file))
        place += number_field(_LOCATION_FUNCTION, _number_of(names[_FUNCTION_NAMES], written.function))
        found.append(bytes_field(_LOCATIONS, place + number_field(_LOCATION_LINE, written.line)))
    for number, texts in names.items():
        found += [bytes_field(number, text.encode("utf-8", "replace")) for text in texts[known[number] :]]
    return b"".join(found)


def _written(location: int | memoryview, files: list[str], lines: dict[tuple[str, int], Written]) -> Written | None:
    if not isinstance(location, memoryview):
        return None
    numbers = {field: value for field, value in fields(location) if isinstance(value, int)}
    file, line = numbers.get(_LOCATION_FILE, 0), numbers.get(_LOCATION_LINE, 0)
    return lines.get((files[file - 1], line)) if 0 < file <= len(files) else None


def _number_of(names: list[str], name: str) -> int:
    """The number (from 1) of a name, which is added when it is new."""
    if name not in names:
        names.append(name)
    return names.index(name) + 1
