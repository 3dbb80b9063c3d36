"""HLO protos (``HloProto`` or ``HloModuleProto`` bytes) as graphs, with whole Python stacks.

Owns the wire form only. Each distinct shape, metadata, literal, sharding and set of attributes is parsed once, because
attribute access on messages is what costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from xla_insight.errors import GraphFormatError
from xla_insight.graph.assembly import MAX_NESTING, DraftComputation, Extras, assemble, clean_stack
from xla_insight.graph.attributes import attributes_from_proto
from xla_insight.graph.dtypes import primitive_name
from xla_insight.graph.literals import literal_from_proto
from xla_insight.graph.model import Alias, Attributes, Frame, Graph, Instruction, Literal, Metadata, Shape
from xla_insight.graph.schema import message_class
from xla_insight.graph.sharding import sharding_text

_HLO = message_class("HloProto")
_MODULE = message_class("HloModuleProto")
_SHAPE = message_class("ShapeProto")
_METADATA = message_class("OpMetadata")
_LITERAL = message_class("LiteralProto")
_DECLARED = tuple(message_class("HloInstructionProto").DESCRIPTOR.fields_by_name)

MAX_COMPUTATIONS = 500_000
Value = TypeVar("Value")


def parse_hlo_proto(data: bytes) -> Graph:
    """Parse serialized ``HloProto`` or ``HloModuleProto`` bytes. Raises GraphFormatError when they are neither."""
    try:
        return _Reader(_module(data)).graph()
    except (DecodeError, ValueError, LookupError, ArithmeticError, RecursionError, TypeError) as error:
        raise GraphFormatError(f"not a readable HLO module: {error}") from error


def _module(data: bytes) -> Any:
    try:
        module = _HLO.FromString(data).hlo_module
        if module.computations:
            return _bounded(module)
    except DecodeError:
        pass
    module = _MODULE.FromString(data)
    if not module.computations:
        raise ValueError("no computation in it")
    return _bounded(module)


def _bounded(module: Any) -> Any:
    """The module, unless it is one that only a hostile file holds: millions of computations take hours to read."""
    if len(module.computations) > MAX_COMPUTATIONS:
        raise ValueError("more computations than any compiler makes")
    return module


class _Reader:
    """Parses one module; its tables intern what repeats."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.stacks = _stacks(module.stack_frame_index)
        self.shapes = _Interned(lambda data: shape_of(_SHAPE.FromString(data)))
        self.metadata = _Interned(self._metadata)
        self.literals = _Interned(lambda data: literal_from_proto(_LITERAL.FromString(data), data))
        self.shardings = _Interned(sharding_text)
        self.attributes: dict[tuple[str, bytes], Attributes] = {}

    def graph(self) -> Graph:
        drafts: dict[str | int, DraftComputation] = {}
        for computation in self.module.computations:
            drafts[computation.id] = self._computation(computation)
        module = self.module
        entry = module.entry_computation_id or module.computations[-1].id
        return assemble(module.name, "hlo_proto", drafts, entry, self._extras())

    def _extras(self) -> Extras:
        module = self.module
        aliases = tuple(
            Alias(tuple(e.output_shape_index), e.parameter_number, tuple(e.parameter_shape_index))
            for e in module.input_output_alias.entries
        )
        donors = tuple(sorted({entry.parameter_number for entry in module.buffer_donor.entries}))
        shardings = tuple(self.shardings[data] for data in module.spmd_parameters_shardings)
        output = self.shardings[module.spmd_output_sharding] if module.HasField("spmd_output_sharding") else ""
        return Extras(donors, aliases, output, shardings)

    def _computation(self, computation: Any) -> DraftComputation:
        positions: dict[int, int] = {}
        calls: dict[int, tuple[str | int, ...]] = {}
        instructions: list[Instruction] = []
        shapes, metadata, literals, shardings = self.shapes, self.metadata, self.literals, self.shardings
        place = positions.__getitem__
        for position, message in enumerate(computation.instructions):
            opcode = message.opcode
            literal: Literal | None = literals[message.literal] if opcode == "constant" else None
            number = message.parameter_number if opcode == "parameter" else -1
            if message.called_computation_ids:
                calls[position] = tuple(message.called_computation_ids)
            # An empty annotation is one, too: "replicated" has only default values.
            sharding = shardings[message.sharding] if message.HasField("sharding") else ""
            fields = (
                message.name, opcode, shapes[message.shape], tuple(map(place, message.operand_ids)),
                metadata[message.metadata], sharding, number,
            )  # fmt: skip
            positions[message.id] = position
            instructions.append(
                Instruction(*fields[:4], self._attributes(opcode, message), fields[4], literal, (), *fields[5:])
            )
        root = positions.get(computation.root_id, len(instructions) - 1)
        return DraftComputation(computation.name, instructions, root, calls)

    def _attributes(self, opcode: str, message: Any) -> Attributes:
        """What is left when all declared fields are cleared; the message is spent afterwards."""
        for field in _DECLARED:
            message.ClearField(field)
        key = (opcode, message.SerializeToString())
        found = self.attributes.get(key)
        if found is None:
            found = self.attributes[key] = attributes_from_proto(*key)
        return found

    def _metadata(self, data: bytes) -> Metadata:
        message = _METADATA.FromString(data)
        file, line = _text(message.source_file), message.source_line
        stack = self.stacks.get(message.stack_frame_id, ())
        if not stack and file:
            stack = clean_stack([frame_of(file, line)])
        return Metadata(_text(message.op_type), _text(message.op_name), tuple(f for f in stack if f.line >= 0))


class _Interned(dict[bytes, Value]):
    """Serialized bytes to the one object parsed from them."""

    def __init__(self, parse: Callable[[bytes], Value]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, data: bytes) -> Value:
        value = self[data] = self._parse(data)
        return value


def frame_of(file: str, line: int) -> Frame:
    """A frame from a source_file of any age: old dumps write ``function@file``."""
    function, at, rest = file.partition("@")
    return Frame(rest, line, function) if at and "/" not in function else Frame(file, line)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def shape_of(message: Any, depth: int = 0) -> Shape:
    """The shape that a ``ShapeProto`` says. Raises ValueError for one nested too deeply."""
    if depth > MAX_NESTING:
        raise ValueError("tuples nested too deeply")
    dtype = primitive_name(message.element_type)
    dims = tuple(message.dimensions)
    layout = tuple(message.layout.minor_to_major) or tuple(range(len(dims) - 1, -1, -1))
    dynamic = tuple(message.is_dynamic_dimension)
    parts = tuple(shape_of(part, depth + 1) for part in message.tuple_shapes)
    return Shape(dtype, dims, parts, layout, dynamic if any(dynamic) else ())


def _stacks(index: Any) -> dict[int, tuple[Frame, ...]]:
    """Frame identifier (from 1) to its stack, innermost first."""
    files = [_text(name) for name in index.file_names]
    functions = [_text(name) for name in index.function_names]
    locations = [
        Frame(
            files[place.file_name_id - 1] if 0 < place.file_name_id <= len(files) else "",
            place.line,
            functions[place.function_name_id - 1] if 0 < place.function_name_id <= len(functions) else "",
        )
        for place in index.file_locations
    ]
    return chain_frames([(f.file_location_id, f.parent_frame_id) for f in index.stack_frames], locations)


def chain_frames(links: list[tuple[int, int]], locations: list[Frame]) -> dict[int, tuple[Frame, ...]]:
    """Stacks from (location, parent) pairs, both counted from 1; a chain that runs in a circle is cut."""
    stacks: dict[int, tuple[Frame, ...]] = {}
    for number in range(1, len(links) + 1):
        frames: list[Frame] = []
        current, steps = number, 0
        while 0 < current <= len(links) and steps < 256:
            location, parent = links[current - 1]
            if 0 < location <= len(locations):
                frames.append(locations[location - 1])
            current, steps = parent if parent != current else 0, steps + 1
        stacks[number] = clean_stack(frames)
    return stacks
