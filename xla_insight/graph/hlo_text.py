"""HLO text as graphs: before and after optimization, as torch_xla, JAX and TensorFlow print it.

Owns the text form only. Numbers and attributes come out as from the proto of the same module; stacks have one frame
unless the text carries the frame tables of newer releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from xla_insight.errors import GraphFormatError
from xla_insight.graph.assembly import MAX_NESTING, DraftComputation, Extras, assemble, clean_stack
from xla_insight.graph.attributes import CALLED_NAMES, attributes_from_pairs
from xla_insight.graph.hlo_proto import chain_frames, frame_of
from xla_insight.graph.literals import literal_from_text
from xla_insight.graph.model import Alias, Attributes, Frame, Graph, Instruction, Literal, Metadata, Shape

_COMPUTATION = re.compile(r"^\s*(ENTRY\s+)?%?([^\s({]+)\s*(?:\(.*\)\s*->\s*.*)?\{\s*(?:,.*)?$")
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"([a-z]+[0-9a-z]*)\[([^\]]*)\](?:\{([0-9,]*)[^}]*\})?")
_NAME = re.compile(r"%?([^\s,(){}]+)$")
_CALLED = re.compile(r"%?([\w.\-]+)")
_METADATA = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(-?\d+))')
_ALIAS = re.compile(r"\{([\d, ]*)\}:\s*\(?(\d+),?\s*(?:\{([\d, ]*)\})?")
_DONOR = re.compile(r"\((\d+),\s*\{[\d, ]*\}\)")
_TABLE_LINE = re.compile(r'^(\d+)\s+(?:"((?:[^"\\]|\\.)*)"|\{(.*)\})\s*$')
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


def parse_hlo_text(text: str) -> Graph:
    """Parse one ``HloModule``. Raises GraphFormatError when the text holds none that can be read."""
    try:
        return _Reader(text).graph()
    except (ValueError, LookupError, ArithmeticError, RecursionError, TypeError) as error:
        raise GraphFormatError(f"not a readable HLO module: {error}") from error


def split_top(text: str) -> Iterator[str]:
    """Parts of ``a, b={1,2}, c="x, y"`` between commas that are in no bracket and no quotes."""
    depth, start, quoted = 0, 0, False
    for position, char in enumerate(text):
        if char == '"' and (position == 0 or text[position - 1] != "\\"):
            quoted = not quoted
        elif quoted:
            continue
        elif char in "({[":
            depth += 1
        elif char in ")}]":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    last = text[start:].strip()
    if last:
        yield last


def parse_shape(text: str, depth: int = 0) -> Shape:
    """A type such as ``f32[8,<=16]{1,0}`` or ``(f32[], s32[2])``. Raises ValueError."""
    text = text.strip()
    if text.startswith("("):
        if depth > MAX_NESTING or not text.endswith(")"):
            raise ValueError(f"not a type: {text[:60]!r}")
        return Shape("tuple", (), tuple(parse_shape(part, depth + 1) for part in split_top(text[1:-1])))
    match = _ARRAY.match(text)
    if match is None:
        raise ValueError(f"not a type: {text[:60]!r}")
    dtype, inside, layout = match.groups()
    words = [word.strip() for word in inside.split(",")] if inside else []
    dims = tuple(int(word.removeprefix("<=")) if word != "?" else 0 for word in words)
    dynamic = tuple(word.startswith("<=") or word == "?" for word in words)
    order = tuple(map(int, filter(None, (layout or "").split(",")))) or tuple(range(len(dims) - 1, -1, -1))
    return Shape(dtype, dims, (), order, dynamic if any(dynamic) else ())


class _Reader:
    """Parses one module line by line; types, attributes and metadata that repeat are parsed once."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.shapes: dict[str, Shape] = {}
        self.rests: dict[str, tuple[Attributes, Metadata, tuple[str, ...], str]] = {}
        self.name = ""
        self.extras = Extras()
        self.stacks: dict[int, tuple[Frame, ...]] = {}

    def graph(self) -> Graph:
        drafts: dict[str | int, DraftComputation] = {}
        entry: str | None = None
        self.stacks = _frame_tables(self.lines)
        block: list[str] | None = None
        header: re.Match[str] | None = None
        for line in self.lines:
            if block is None:
                if line.lstrip().startswith("HloModule "):
                    self._header(line)
                    continue
                header = _COMPUTATION.match(line) if "{" in line and " = " not in line.split("(", 1)[0] else None
                block = [] if header else None
            elif line.strip().startswith("}"):
                assert header is not None
                drafts[header.group(2)] = self._computation(header.group(2), block)
                entry = header.group(2) if header.group(1) else entry
                block = None
            elif block and (" = " not in line or block[-1].endswith(",")):
                block[-1] += " " + line.strip()  # newer printers wrap long instructions
            elif " = " in line:
                block.append(line.rstrip())
        if not drafts:
            raise ValueError("no computation in it")
        return assemble(self.name, "hlo_text", drafts, entry or list(drafts)[-1], self.extras)

    def _header(self, line: str) -> None:
        name, *rest = split_top(line.strip().removeprefix("HloModule "))
        self.name = name
        for part in rest:
            key, _, value = part.partition("=")
            if key == "input_output_alias":
                self.extras.aliases = tuple(
                    Alias(_numbers(output), int(number), _numbers(index or ""))
                    for output, number, index in _ALIAS.findall(value)
                )
            elif key == "buffer_donor":
                self.extras.donors = tuple(sorted({int(number) for number in _DONOR.findall(value)}))

    def _computation(self, name: str, lines: list[str]) -> DraftComputation:
        positions: dict[str, int] = {}
        calls: dict[int, tuple[str | int, ...]] = {}
        instructions: list[Instruction] = []
        root = -1
        for line in lines:
            left, _, right = line.partition(" = ")
            left = left.strip()
            if left.startswith("ROOT "):
                root, left = len(instructions), left[5:].strip()
            own = left.removeprefix("%")
            instruction, called = self._instruction(own, right, positions)
            if called:
                calls[len(instructions)] = called
            positions[own] = len(instructions)
            instructions.append(instruction)
        return DraftComputation(name, instructions, len(instructions) - 1 if root < 0 else root, calls)

    def _instruction(self, name: str, text: str, positions: dict[str, int]) -> tuple[Instruction, tuple[str, ...]]:
        shape_text, opcode, inside, rest = _parts(text)
        shape = self.shapes.get(shape_text)
        if shape is None:
            shape = self.shapes[shape_text] = parse_shape(_COMMENT.sub("", shape_text))
        found = self.rests.get(rest)
        if found is None:
            found = self.rests[rest] = self._rest(rest)
        attributes, metadata, called, sharding = found
        literal: Literal | None = None
        number, operands = -1, ()  # type: int, tuple[int, ...]
        if opcode == "constant":
            literal = literal_from_text(shape, inside)
        elif opcode == "parameter":
            number = int(inside)
        elif inside:
            operands = tuple([positions[operand] for operand in _operands(inside)])
        return Instruction(name, opcode, shape, operands, attributes, metadata, literal, (), sharding, number), called

    def _rest(self, text: str) -> tuple[Attributes, Metadata, tuple[str, ...], str]:
        pairs: list[tuple[str, str]] = []
        metadata, sharding = Metadata(), ""
        called: list[str] = []
        condition: list[str] = []
        for part in split_top(text):
            key, equals, value = part.partition("=")
            if key == "metadata":
                metadata = self._metadata(value)
            elif key == "sharding":
                sharding = value
            elif key == "condition":
                condition = _CALLED.findall(value)
            elif key in CALLED_NAMES:
                called += _CALLED.findall(value)
            elif equals:
                pairs.append((key, value))
        # A loop is written with its condition first; a module names its body first.
        return attributes_from_pairs(pairs), metadata, (*called, *condition), sharding

    def _metadata(self, text: str) -> Metadata:
        values = {key: number or string for key, string, number in _METADATA.findall(text)}
        file, line = values.get("source_file", ""), int(values.get("source_line", 0) or 0)
        stack = self.stacks.get(int(values.get("stack_frame_id", 0) or 0), ())
        if not stack and file:
            stack = clean_stack([frame_of(file, line)])
        return Metadata(values.get("op_type", ""), values.get("op_name", ""), tuple(f for f in stack if f.line >= 0))


def _parts(text: str) -> tuple[str, str, str, str]:
    """(type, opcode, what stands in the parentheses, attributes) of the right side of an instruction."""
    if text.startswith("("):
        end = _closing(text, 0) + 1
    else:
        end = text.find(" ")
        if end < 0:
            raise ValueError(f"not an instruction: {text[:60]!r}")
    start = text.find("(", end)
    if start < 0:
        raise ValueError(f"not an instruction: {text[:60]!r}")
    close = _closing(text, start)
    return text[:end], text[end:start].strip(), text[start + 1 : close], text[close + 1 :].lstrip(", ")


def _closing(text: str, start: int) -> int:
    """Position of the parenthesis that closes the one at ``start``."""
    close = text.find(")", start)
    if close < 0:
        raise ValueError("a parenthesis is not closed")
    opened = text.count("(", start + 1, close)
    while opened:
        start, close = close, text.find(")", close + 1)
        if close < 0:
            raise ValueError("a parenthesis is not closed")
        opened += text.count("(", start, close) - 1
    return close


def _operands(inside: str) -> list[str]:
    """Names of operands; older text repeats the type before each name."""
    if "/*" in inside:
        inside = _COMMENT.sub("", inside)
    if "[" not in inside and "(" not in inside:
        return [word.strip().removeprefix("%") for word in inside.split(",")]
    names = []
    for part in split_top(inside):
        match = _NAME.search(part)
        if match is None:
            raise ValueError(f"not an operand: {part[:60]!r}")
        names.append(match.group(1))
    return names


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.replace(" ", "").split(",") if word)


def _frame_tables(lines: list[str]) -> dict[int, tuple[Frame, ...]]:
    """Stacks from the FileNames, FunctionNames, FileLocations and StackFrames tables, where a dump has them."""
    tables: dict[str, dict[int, str]] = {name: {} for name in _TABLES}
    current: dict[int, str] | None = None
    for line in lines:
        stripped = line.strip()
        if stripped in tables:
            current = tables[stripped]
        elif current is not None:
            match = _TABLE_LINE.match(stripped)
            if match:
                current[int(match.group(1))] = match.group(2) or match.group(3) or ""
            elif stripped:
                current = None
    if not tables["StackFrames"]:
        return {}

    def fields(text: str) -> dict[str, int]:
        return {key: int(number or 0) for key, _, number in _METADATA.findall(text)}

    files, functions = tables["FileNames"], tables["FunctionNames"]
    known = {
        number: Frame(
            files.get(f.get("file_name_id", 0), ""), f.get("line", 0), functions.get(f.get("function_name_id", 0), "")
        )
        for number, f in ((number, fields(text)) for number, text in tables["FileLocations"].items())
    }
    locations = [known.get(number, Frame("", 0)) for number in range(1, len(known) + 1)]
    links = [fields(tables["StackFrames"].get(number, "")) for number in range(1, len(tables["StackFrames"]) + 1)]
    parents = [f.get("parent_frame_id", 0) for f in links]
    # The printer writes parents one too high: a frame without parent is its own.
    shift = int(0 not in parents and any(parent == number for number, parent in enumerate(parents, 1)))
    pairs = [(f.get("file_location_id", 0), parent - shift) for f, parent in zip(links, parents, strict=True)]
    return chain_frames(pairs, locations)
