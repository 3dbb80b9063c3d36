"""Parse and compare modules of 1,000 to 50,000 instructions, beside difflib on their text.

    python benchmarks/diff.py [--sizes 1000 10000] [--relatives]

For each size and each kind of edit it prints seconds, peak memory, and whether the instruction that was edited is the
one named first (for a text comparison: the first changed instruction). Modules are written like a training step of a
transformer: a forward pass with Python stacks, a backward pass without, an optimizer step, and in front the unused
constants of sizes that torch_xla leaves behind. An edited step is traced anew, so its instructions are renumbered.
difflib runs as most people call it (autojunk on); without autojunk it is quadratic and skipped beyond 11,000 lines.

``--relatives`` also measures the search for the nearest earlier relative over 2,000 graphs of 10,000 instructions.
"""

from __future__ import annotations

import argparse
import difflib
import random
import resource
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xla_insight.graph.diff import diff
from xla_insight.graph.differences import GraphDiff
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.model import Graph
from xla_insight.graph.nearest import RelativeIndex, signature
from xla_insight.graph.schema import message_class

SIZES = (1_000, 10_000, 50_000)
EDITS = ("sequence length", "constant", "inserted operation")
LAYER_SIZE = 36  # instructions that one layer adds; only used to choose the number of layers
QUADRATIC_LIMIT = 11_000
PATIENCE_S = 5
MODEL = "/home/user/train/model.py"
ADAM = "/home/user/venv/lib/python3.11/site-packages/torch/optim/adam.py"

Value = TypeVar("Value")


@dataclass
class Line:
    """One instruction before it is written as text or proto."""

    opcode: str
    dtype: str
    dims: tuple[int, ...]
    operands: tuple[int, ...] = ()
    literal: float | None = None
    number: int = -1
    attribute: tuple[str, tuple[int, ...]] | None = None
    op_type: str = ""
    frame: int = 0


@dataclass
class Step:
    """A training step: its instructions and the source lines they come from."""

    lines: list[Line] = field(default_factory=list)
    frames: dict[tuple[str, int], int] = field(default_factory=dict)
    inputs: int = 0
    edited: int = -1

    def add(
        self, opcode: str, dims: tuple[int, ...], *operands: int, at: tuple[str, int] | None = None, **more: Any
    ) -> int:
        """Append an instruction; returns its position."""
        frame = self.frames.setdefault(at, len(self.frames) + 1) if at else 0
        self.lines.append(Line(opcode, more.pop("dtype", "f32"), dims, operands, frame=frame, **more))
        return len(self.lines) - 1

    def parameter(self, dims: tuple[int, ...], at: tuple[str, int], dtype: str = "f32") -> int:
        """Append an input."""
        self.inputs += 1
        return self.add("parameter", dims, at=at, number=self.inputs - 1, op_type="xla__device_data", dtype=dtype)


def training_step(layers: int, edit: str = "") -> Step:
    """A step of a transformer with one edit: a longer batch, or another constant or operation in a middle layer."""
    step = Step()
    width, length = 64, 128 if edit == "sequence length" else 112
    step.add("constant", (), literal=8.0 * length * width, op_type="aten__mean")
    value = step.parameter((8, length, width), (MODEL, 10))
    step.edited = value
    weights: list[int] = []
    saved: list[int] = []
    for layer in range(layers):
        here = edit if layer == layers // 2 else ""
        value = _forward(step, value, (8, length, width), here, weights)
        saved.append(value)
    gradient = value
    for kept in reversed(saved):
        gradient = step.add("multiply", (8, length, width), gradient, kept, op_type="aten__mul")
        gradient = step.add("tanh", (8, length, width), gradient, op_type="aten__tanh_backward")
    rate = step.parameter((), (ADAM, 463))
    updated = [_update(step, weight, rate) for weight in weights]
    step.add("tuple", (), value, gradient, *updated)
    return step


def _forward(step: Step, value: int, dims: tuple[int, ...], edit: str, weights: list[int]) -> int:
    rows, width = dims[0] * dims[1], dims[2]
    for line in (20, 21, 22):
        weight = step.parameter((width, width), (MODEL, line))
        weights.append(weight)
        at = (MODEL, line)
        flat = step.add("reshape", (rows, width), value, at=at, op_type="aten__view")
        turned = step.add("transpose", (width, width), weight, at=at, op_type="aten__permute",
                          attribute=("dimensions", (1, 0)))  # fmt: skip
        product = step.add("dot", (rows, width), flat, turned, at=at, op_type="aten__mm",
                           attribute=("contracting", ()))  # fmt: skip
        shaped = step.add("reshape", dims, product, at=at, op_type="aten__view")
        exponent = step.add("constant", (), at=(MODEL, line + 10), literal=1.5 + (edit == "constant" and line == 21),
                            op_type="prim__Constant")  # fmt: skip
        if edit == "constant" and line == 21:
            step.edited = exponent
        spread = step.add("broadcast", dims, exponent, at=(MODEL, line + 10), op_type="aten__pow",
                          attribute=("dimensions", ()))  # fmt: skip
        value = step.add("power", dims, shaped, spread, at=(MODEL, line + 10), op_type="aten__pow")
        if edit == "inserted operation" and line == 21:
            value = step.edited = step.add("sqrt", dims, value, at=(MODEL, 40), op_type="aten__sqrt")
    return value


def _update(step: Step, weight: int, rate: int) -> int:
    dims = step.lines[weight].dims
    at = (ADAM, 500)
    moment = step.parameter(dims, at)
    spread = step.add("broadcast", dims, rate, at=at, op_type="aten__mul", attribute=("dimensions", ()))
    scaled = step.add("multiply", dims, moment, spread, at=at, op_type="aten__mul")
    return step.add("subtract", dims, weight, scaled, at=at, op_type="aten__sub")


def as_text(step: Step) -> str:
    """The step as HLO text, as ``--xla_dump_hlo_as_text`` writes it."""
    places = {number: place for place, number in step.frames.items()}
    names = [f"%{line.opcode}.{position + 1}" for position, line in enumerate(step.lines)]
    rows = ["HloModule step, entry_computation_layout={()->()}", "", "ENTRY %step () -> () {"]
    for position, line in enumerate(step.lines):
        inside = ", ".join(names[o] for o in line.operands)
        if line.literal is not None:
            inside = f"{line.literal:g}"
        elif line.number >= 0:
            inside = str(line.number)
        row = f"  {'ROOT ' if position == len(step.lines) - 1 else ''}{names[position]} = {_type(step, line)} "
        row += f"{line.opcode}({inside}){_attribute(line)}"
        if line.frame:
            file, number = places[line.frame]
            words = f'op_type="{line.op_type}" op_name="{line.op_type}"'
            row += f', metadata={{{words} source_file="{file}" source_line={number}}}'
        rows.append(row)
    return "\n".join([*rows, "}", ""])


def _type(step: Step, line: Line) -> str:
    if line.opcode == "tuple":
        return "(" + ", ".join(_type(step, step.lines[o]) for o in line.operands) + ")"
    order = ",".join(map(str, range(len(line.dims) - 1, -1, -1)))
    return f"{line.dtype}[{','.join(map(str, line.dims))}]" + (f"{{{order}}}" if line.dims else "")


def _attribute(line: Line) -> str:
    if line.attribute is None:
        return ""
    if line.attribute[0] == "contracting":
        return ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return f", dimensions={{{','.join(map(str, line.attribute[1]))}}}"


def as_proto(step: Step) -> bytes:
    """The step as a serialized HloProto with whole stacks."""
    proto = message_class("HloProto")()
    module = proto.hlo_module
    module.name = module.entry_computation_name = "step"
    for file, number in step.frames:
        _frame(module.stack_frame_index, file, number)
    computation = module.computations.add(name="step", id=1, root_id=len(step.lines))
    module.entry_computation_id = 1
    for position, line in enumerate(step.lines):
        message = computation.instructions.add(
            name=f"{line.opcode}.{position + 1}", opcode=line.opcode, id=position + 1,
            shape=_shape(step, line).SerializeToString(), operand_ids=[o + 1 for o in line.operands],
            parameter_number=max(line.number, 0),
        )  # fmt: skip
        metadata = message_class("OpMetadata")(op_type=line.op_type.encode(), stack_frame_id=line.frame)
        message.metadata = metadata.SerializeToString()
        if line.literal is not None:
            literal = message_class("LiteralProto")(shape=_shape(step, line))
            literal.f32s = _f32(line.literal)
            message.literal = literal.SerializeToString()
        message.MergeFromString(_attributes(line).SerializeToString())
    data: bytes = proto.SerializeToString()
    return data


def _frame(index: Any, file: str, line: int) -> None:
    for name, names in ((file.encode(), index.file_names), (b"forward", index.function_names)):
        if name not in list(names):
            names.append(name)
    file_number = list(index.file_names).index(file.encode()) + 1
    index.file_locations.add(file_name_id=file_number, function_name_id=1, line=line)
    index.stack_frames.add(file_location_id=len(index.file_locations))


def _shape(step: Step, line: Line) -> Any:
    shape = message_class("ShapeProto")
    if line.opcode == "tuple":
        return shape(element_type=13, tuple_shapes=[_shape(step, step.lines[o]) for o in line.operands])
    made = shape(element_type=11, dimensions=line.dims)
    made.layout.minor_to_major.extend(range(len(line.dims) - 1, -1, -1))
    return made


def _attributes(line: Line) -> Any:
    attributes = message_class("HloAttributesProto")()
    if line.attribute is not None and line.attribute[0] == "contracting":
        attributes.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
        attributes.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    elif line.attribute is not None:
        attributes.dimensions.extend(line.attribute[1])
    return attributes


def _f32(value: float) -> bytes:
    return struct.pack("<f", value)


def measured(work: Callable[[], Value]) -> tuple[Value, float, float]:
    """(result, seconds, peak megabytes). Memory comes from a second run, because tracing it costs time; work that takes
    longer than five seconds is not repeated for it (NaN).
    """
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    if seconds > PATIENCE_S:
        return result, seconds, float("nan")
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return result, seconds, peak


def compare_with_difflib(before: str, after: str, edited: str, *, autojunk: bool) -> tuple[int, bool]:
    """(changed lines, whether the first changed instruction is the edited one) of a plain text comparison."""
    ours, theirs = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=autojunk)
    changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    lines = sum(code[2] - code[1] + code[4] - code[3] for code in changed)
    first = theirs[changed[0][3]] if changed and changed[0][4] > changed[0][3] else ""
    return lines, f" {edited} = " in first


def report(ways: list[tuple[str, str, float, float, str, str]]) -> None:
    """Print the table."""
    print(f"{'module and edit':34} {'way':26} {'seconds':>8} {'MB':>7} {'root named':>11}  shown")
    for what, way, seconds, peak, named, shown in ways:
        print(f"{what:34} {way:26} {seconds:8.3f} {megabytes(peak):>7} {named:>11}  {shown}")


def megabytes(peak: float) -> str:
    """Megabytes, or "-" where they were not measured."""
    return "-" if peak != peak else f"{peak:.1f}"  # noqa: PLR0124 - only NaN differs from itself


def module_rows(size: int) -> list[tuple[str, str, float, float, str, str]]:
    """Measure parsing of one module, and each edit of it both ways."""
    layers = max(1, size // LAYER_SIZE)
    step = training_step(layers)
    proto, text = as_proto(step), as_text(step)
    count = len(step.lines)
    rows = []
    for way, parse in (
        ("xla-insight, proto", lambda: parse_hlo_proto(proto)),
        ("xla-insight, text", lambda: parse_hlo_text(text)),
    ):
        before, seconds, peak = measured(parse)
        rows.append((f"{count:,} parse", way, seconds, peak, "", f"{before.instruction_count:,} instructions"))
    for edit in EDITS:
        rows += edit_rows(count, layers, edit, (proto, text))
    return rows


def edit_rows(
    count: int, layers: int, edit: str, base: tuple[bytes, str]
) -> list[tuple[str, str, float, float, str, str]]:
    """Measure the comparison of a step with its edited form."""
    step = training_step(layers, edit)
    what = f"{count:,} {edit}"
    before, after = parse_hlo_proto(base[0]), parse_hlo_proto(as_proto(step))
    result, seconds, peak = measured(lambda: diff(before, after))
    named = result.root is not None and result.root.after is not None and result.root.after.position == step.edited
    rows = [(what, "xla-insight", seconds, peak, "yes" if named else "no", shown(result))]
    edited = f"%{step.lines[step.edited].opcode}.{step.edited + 1}"
    text = as_text(step)
    for autojunk in (True, False):
        if autojunk or count <= QUADRATIC_LIMIT:
            found, seconds, peak = measured(lambda: compare_with_difflib(base[1], text, edited, autojunk=autojunk))  # noqa: B023
            way = "difflib" if autojunk else "difflib, autojunk=False"
            rows.append((what, way, seconds, peak, "yes" if found[1] else "no", f"{found[0]:,} changed lines"))
    return rows


def shown(result: GraphDiff) -> str:
    """The root in words."""
    root = result.root
    if root is None:
        return "nothing"
    line = root.stack[0].line if root.stack else 0
    return f"{root.kind} at line {line}: {root.before_text or '-'} -> {root.after_text}; {result.follows:,} follow"


def relatives(graphs: int = 2_000, size: int = 10_000) -> None:
    """Time the search for relatives: each graph is looked up among all before it, then remembered."""
    layers = size // LAYER_SIZE
    kinds: list[Graph] = [
        parse_hlo_proto(as_proto(training_step(layers + more, edit))) for more in range(3) for edit in EDITS
    ]
    random.seed(0)
    index = RelativeIndex()
    wrong = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    for number in range(graphs):
        choice = random.randrange(len(kinds))
        wanted = signature(kinds[choice])
        found = index.nearest(wanted)
        known = found is not None and isinstance(found.key, tuple) and found.key[0] == choice
        wrong += number > 200 and not known  # by then every kind has been seen
        index.add((choice, number), wanted)
    seconds = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    instructions = sum(len(graph.instructions) for graph in kinds) // len(kinds)
    print(f"{graphs:,} graphs of {instructions:,} instructions: {seconds:.1f} s, {grown:.0f} MB more, {wrong} wrong")


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Parse and compare modules, beside difflib.")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="numbers of instructions")
    parser.add_argument("--relatives", action="store_true", help="also search relatives among 2,000 graphs")
    options = parser.parse_args()
    if options.relatives:
        relatives()  # first: the peak memory of a process never falls
    rows = []
    for size in options.sizes:
        rows += module_rows(size)
        print(f"measured {size:,}", file=sys.stderr)
    report(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
