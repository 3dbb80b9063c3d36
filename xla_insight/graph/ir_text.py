"""torch_xla's IR text and the dump files that hold it (``XLA_SAVE_TENSORS_FILE``), of 2.9 and older.

Owns the IR node lines and the entries of a dump file. An IR graph becomes the same model as HLO: ``xla::device_data``
nodes are its parameters, the nodes marked ROOT its result. In 2.9 the text lost all node attributes, so equal text does
not mean equal graphs there; the hashes of the entry do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xla_insight.errors import GraphFormatError
from xla_insight.graph.assembly import DraftComputation, assemble, clean_stack
from xla_insight.graph.hlo_text import parse_hlo_text, parse_shape, split_top
from xla_insight.graph.literals import literal_from_number
from xla_insight.graph.model import NO_ATTRIBUTES, NO_METADATA, Attributes, Frame, Graph, Instruction, Metadata, Shape

_LINE = re.compile(r"^\s*%(\d+) = (.+)$")
_OPERAND = re.compile(r"%(\d+)(?:\.(\d+))?")
_LOCATION = re.compile(r"^(.*?)@(.*):(-?\d+)$")
_FRAME = re.compile(r"^\s+(.+?) \((.+):(\d+)\)\s*$")
_HASHES = re.compile(r"^(?:Root )?Hashes: \((.*)\)")
# Running numbers, places, and what the model holds elsewhere.
_NOT_ATTRIBUTES = frozenset({"location", "scope", "xla_shape", "ROOT", "device", "num_outputs", "dynamic_dims"})


@dataclass(frozen=True, slots=True)
class IrDump:
    """One entry of a dump file: one execution (also of a cached graph).

    ``hash`` is the graph hash as 32 hex digits ("" in old dumps), ``root_hashes`` those of the outputs, ``stack`` the
    frames that ran it, innermost first. ``format`` is "text", "hlo", "stablehlo" or "dot"; ``graph`` is None for the
    last two and for a damaged body, which ``problem`` then describes.
    """

    name: str
    hash: str
    root_hashes: tuple[str, ...]
    stack: tuple[Frame, ...]
    format: str
    graph: Graph | None
    problem: str = ""


def parse_ir_text(text: str) -> Graph:
    """Parse one ``IR { ... }`` block. Raises GraphFormatError when there is none or it cannot be read."""
    try:
        return _graph(text.splitlines())
    except (ValueError, LookupError, ArithmeticError, RecursionError, TypeError) as error:
        raise GraphFormatError(f"not readable torch_xla IR text: {error}") from error


def parse_ir_dumps(text: str) -> tuple[IrDump, ...]:
    """All entries of a dump file, in order. Raises GraphFormatError when the text holds none."""
    parts = text.split("[ScheduleSyncTensorsGraph]")
    entries = tuple(_dump(part) for part in parts[1:] if "## BEGIN_GRAPH" in part)
    if not entries:
        raise GraphFormatError("no graph in this file: expected entries with '## BEGIN_GRAPH'")
    return entries


def _dump(text: str) -> IrDump:
    head, _, rest = text.partition("## BEGIN_GRAPH")
    body, _, _ = rest.partition("## END_GRAPH")
    name, roots, graph_hash = "", (), ""  # type: str, tuple[str, ...], str
    for line in [*head.splitlines(), *rest.rsplit("\n}", 1)[-1].splitlines()]:
        match = _HASHES.match(line)
        if match:
            roots = tuple(word.strip() for word in match.group(1).split(",") if word.strip())
        elif line.startswith("Graph Name:"):
            name = line.partition(":")[2].strip()
        elif line.startswith("Graph Hash:"):
            graph_hash = line.partition(":")[2].strip().zfill(32)
    frames = [Frame(file, int(line), function) for function, file, line in _frames(head)]
    kind = _format(body)
    graph, problem = None, ""
    try:
        if kind in ("text", "hlo"):
            graph = (parse_ir_text if kind == "text" else parse_hlo_text)(body)
    except GraphFormatError as error:
        problem = str(error)
    return IrDump(name, graph_hash, roots, clean_stack(frames), kind, graph, problem)


def _frames(head: str) -> list[tuple[str, str, str]]:
    return [match.groups() for match in map(_FRAME.match, head.splitlines()) if match]  # type: ignore[misc]


def _format(body: str) -> str:
    stripped = body.lstrip()
    if stripped.startswith("IR {"):
        return "text"
    if "HloModule " in body:
        return "hlo"
    return "dot" if stripped.startswith("digraph") else "stablehlo"


def _graph(lines: list[str]) -> Graph:
    positions: dict[int, int] = {}
    instructions: list[Instruction] = []
    roots: dict[int, int] = {}
    inputs = 0
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        node, root = _instruction(match.group(2), positions, instructions, inputs)
        inputs += node.opcode == "parameter"
        positions[int(match.group(1))] = len(instructions)
        if root >= 0:
            roots[root] = len(instructions)
        instructions.append(node._replace(name=match.group(1)))
    if not instructions:
        raise ValueError("no node in it")
    outputs = tuple(roots[number] for number in sorted(roots)) or (len(instructions) - 1,)
    shape = Shape("tuple", (), tuple(instructions[position].shape for position in outputs))
    instructions.append(Instruction("root", "tuple", shape, outputs, NO_ATTRIBUTES, NO_METADATA, None, (), "", -1))
    return assemble("IR", "ir_text", {"": DraftComputation("IR", instructions, len(instructions) - 1)}, "")


def _instruction(
    text: str, positions: dict[int, int], instructions: list[Instruction], inputs: int
) -> tuple[Instruction, int]:
    """One node and its position among the results (-1: none). Parts of a node with several outputs become nodes."""
    end = text.find(")") + 2 if text.startswith("(") else text.find(" ") + 1
    start = text.find("(", end)
    if end <= 1 or start < 0:
        raise ValueError(f"not a node: {text[:60]!r}")
    close = text.find(")", start)
    opcode = text[end:start].strip()
    shape = parse_shape(text[: end - 1])
    values = dict(part.partition("=")[::2] for part in split_top(text[close + 1 :].lstrip(", ")) if "=" in part)
    operands = [_operand(match, positions, instructions) for match in _OPERAND.finditer(text[start:close])]
    attributes = Attributes(tuple(sorted((k, v) for k, v in values.items() if k not in _NOT_ATTRIBUTES)))
    literal = None
    if opcode == "prim::Constant" and "value" in values:
        literal = literal_from_number(shape.dtype, values["value"])
        attributes = Attributes(tuple(pair for pair in attributes.readable if pair[0] != "value"))
    is_input = opcode == "xla::device_data"
    metadata = Metadata(opcode.replace("::", "__"), values.get("scope", ""), _stack(values.get("location", "")))
    opcode = "parameter" if is_input else "constant" if literal is not None else opcode
    number = inputs if is_input else -1
    root = int(values["ROOT"]) if "ROOT" in values else -1
    return Instruction("", opcode, shape, tuple(operands), attributes, metadata, literal, (), "", number), root


def _operand(match: re.Match[str], positions: dict[int, int], instructions: list[Instruction]) -> int:
    position = positions[int(match.group(1))]
    shape = instructions[position].shape
    if match.group(2) is None or not shape.is_tuple:
        return position
    index = int(match.group(2))
    part = Attributes((("index", str(index)),))
    taken = Instruction("", "get-tuple-element", shape.parts[index], (position,), part, NO_METADATA, None, (), "", -1)
    instructions.append(taken)
    return len(instructions) - 1


def _stack(location: str) -> tuple[Frame, ...]:
    match = _LOCATION.match(location)
    if match is None or int(match.group(3)) < 0:
        return ()
    return clean_stack([Frame(match.group(2), int(match.group(3)), match.group(1))])
