"""One graph model for every form a graph comes in: what a module computes, on which inputs, from which lines.

Owns the frozen records that parsers fill and that comparisons read. Leaves reading of files to ``hlo_proto``,
``hlo_text`` and ``ir_text``, and all judgement to ``canonical`` and ``diff``. Records hold plain Python values only, so
a graph can be kept, pickled and shared between threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Frame(NamedTuple):
    """One line of a Python stack. ``line`` is 0 and ``function`` empty where the dump does not say."""

    file: str
    line: int
    function: str = ""


class Shape(NamedTuple):
    """Type of a value: an array, or a tuple of shapes (``dtype`` is then "tuple").

    ``layout`` is minor-to-major and filled in with the default (descending) when the dump leaves it out; ``dynamic``
    is empty unless some dimension is bounded-dynamic (its entry in ``dims`` is then the bound).
    """

    dtype: str
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()
    layout: tuple[int, ...] = ()
    dynamic: tuple[bool, ...] = ()

    @property
    def is_tuple(self) -> bool:
        """Whether this is a tuple of shapes."""
        return self.dtype == "tuple"

    @property
    def is_scalar(self) -> bool:
        """Whether this is an array of rank 0."""
        return not self.dims and self.dtype not in ("tuple", "token", "opaque")

    def __str__(self) -> str:
        if self.is_tuple:
            return "(" + ", ".join(map(str, self.parts)) + ")"
        if self.dtype in ("token", "opaque"):
            return self.dtype + "[]"
        bounded = self.dynamic or (False,) * len(self.dims)
        return (
            f"{self.dtype}[{','.join(('<=' if b else '') + str(d) for d, b in zip(self.dims, bounded, strict=False))}]"
        )


class Metadata(NamedTuple):
    """Where an instruction comes from. ``stack`` is innermost first, without frames of the recorder; empty = unknown.

    ``op_type`` is the framework's operation ("aten__mm", JAX: "dot_general"); ``op_name`` may hold running numbers and
    is for display only.
    """

    op_type: str = ""
    op_name: str = ""
    stack: tuple[Frame, ...] = ()


class Literal(NamedTuple):
    """Value of a constant. ``values`` are its elements in row-major order, or None when there are more than 64 or the
    dump elides them; ``digest`` identifies the full value (empty when elided) and is equal for text and proto.
    """

    values: tuple[float | int | bool | complex, ...] | None
    digest: bytes
    text: str


class Attributes(NamedTuple):
    """Everything else that belongs to an instruction: (name, value) pairs in the notation of HLO text, sorted by name,
    and ``opaque``: serialized fields that have no readable form here (equal bytes = equal attributes).
    """

    readable: tuple[tuple[str, str], ...] = ()
    opaque: bytes = b""

    def get(self, name: str) -> str | None:
        """The value of one attribute as text, or None."""
        for key, value in self.readable:
            if key == name:
                return value
        return None


class Instruction(NamedTuple):
    """One instruction. ``operands`` are positions in the same computation (always smaller than its own position),
    ``called`` are positions in ``Graph.computations``; ``number`` is the parameter number, -1 for other instructions.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    attributes: Attributes
    metadata: Metadata
    literal: Literal | None
    called: tuple[int, ...]
    sharding: str
    number: int


NO_METADATA = Metadata()
NO_ATTRIBUTES = Attributes()


@dataclass(frozen=True, slots=True)
class Computation:
    """A list of instructions in post-order (operands before users); ``root`` is the position of its result."""

    name: str
    instructions: tuple[Instruction, ...]
    root: int


class Parameter(NamedTuple):
    """One input of the graph: parameter number, type, where it was made (or first used), and sharding ("" = none)."""

    number: int
    shape: Shape
    metadata: Metadata
    sharding: str
    position: int


class Alias(NamedTuple):
    """One output that may live in an input's buffer."""

    output: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...] = ()


@dataclass(frozen=True)
class Graph:
    """A parsed module. ``computations`` has callees before callers and the entry computation last.

    ``source`` is "hlo_proto", "hlo_text" or "ir_text". ``donors`` are parameter numbers whose buffer may be reused;
    ``aliases`` pair outputs with parameters. ``output_sharding`` and ``parameter_shardings`` are the module's own.
    """

    name: str
    source: str
    computations: tuple[Computation, ...]
    donors: tuple[int, ...] = ()
    aliases: tuple[Alias, ...] = ()
    output_sharding: str = ""
    parameter_shardings: tuple[str, ...] = ()

    @property
    def entry(self) -> Computation:
        """The computation that runs when the module runs."""
        return self.computations[-1]

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Instructions of the entry computation in post-order."""
        return self.entry.instructions

    @property
    def root(self) -> Instruction:
        """The instruction whose value the module returns."""
        return self.entry.instructions[self.entry.root]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Inputs of the graph in order of their number."""
        found = [
            Parameter(i.number, i.shape, i.metadata, i.sharding, position)
            for position, i in enumerate(self.instructions)
            if i.opcode == "parameter"
        ]
        return tuple(sorted(found, key=lambda parameter: parameter.number))

    @cached_property
    def outputs(self) -> tuple[Shape, ...]:
        """Types of the values the graph returns (the parts of a root tuple, else the root itself)."""
        shape = self.root.shape
        return shape.parts if shape.is_tuple else (shape,)

    @cached_property
    def output_positions(self) -> tuple[int, ...]:
        """Positions in the entry computation of the returned values."""
        root = self.root
        return root.operands if root.opcode == "tuple" else (self.entry.root,)

    @cached_property
    def instruction_count(self) -> int:
        """Number of instructions in all computations."""
        return sum(len(computation.instructions) for computation in self.computations)

    @cached_property
    def has_stacks(self) -> bool:
        """Whether any instruction knows its source line."""
        return any(instruction.metadata.stack for instruction in self.instructions)

    @cached_property
    def is_optimized(self) -> bool:
        """Whether the compiler has been through it: only then are operations fused."""
        return any(instruction.opcode == "fusion" for instruction in self.instructions)

    def opcode_counts(self) -> Counter[str]:
        """How often each opcode occurs in all computations."""
        return Counter(i.opcode for computation in self.computations for i in computation.instructions)
