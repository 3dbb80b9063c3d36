"""What a comparison of two graphs can say: records only.

Owns the vocabulary that causes, reports and pages share. Leaves finding the facts to ``diff`` and its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from xla_insight.graph.model import Frame, Instruction, Parameter, Shape


class DifferenceKind(StrEnum):
    """In what one instruction differs from its partner, or that it has none."""

    SHAPE = "shape"
    DTYPE = "dtype"
    LAYOUT = "layout"
    LITERAL = "literal"
    ATTRIBUTE = "attribute"
    OPERANDS = "operands"
    CALLED = "called"
    SCALAR = "scalar"
    INSERTED = "inserted"
    REMOVED = "removed"
    PARAMETER_ADDED = "parameter_added"
    PARAMETER_REMOVED = "parameter_removed"
    PARAMETER_ORDER = "parameter_order"
    OUTPUTS = "outputs"
    DONATION = "donation"
    SHARDING = "sharding"


class Spot(NamedTuple):
    """One instruction of one graph: the computation's name, its position there, and the instruction itself."""

    computation: str
    position: int
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two graphs part. ``before`` or ``after`` is None for inserted and removed instructions.

    ``kinds`` are all respects in which the pair differs, the telling one first. ``before_text`` and ``after_text`` hold
    only what differs ("slice={[49:81]}"). ``stack`` is innermost first; ``stack_inferred`` says that it is not the
    instruction's own but that of its partner or of the first instruction that uses it.
    """

    kinds: tuple[DifferenceKind, ...]
    before: Spot | None
    after: Spot | None
    before_text: str
    after_text: str
    stack: tuple[Frame, ...] = ()
    stack_inferred: bool = False

    @property
    def kind(self) -> DifferenceKind:
        """The telling respect."""
        return self.kinds[0]

    @property
    def op_type(self) -> str:
        """Framework operation of the later graph's instruction, else of the earlier one's."""
        spot = self.after or self.before
        return spot.instruction.metadata.op_type if spot else ""


@dataclass(frozen=True, slots=True)
class ChangedParameter:
    """An input whose type changed. ``dims`` are the positions of dimensions that differ (empty when the rank does)."""

    before: Parameter
    after: Parameter
    dims: tuple[int, ...]

    @property
    def dtype_changed(self) -> bool:
        """Whether the element type differs."""
        return self.before.shape.dtype != self.after.shape.dtype

    @property
    def shape_changed(self) -> bool:
        """Whether rank or dimensions differ."""
        return self.before.shape.dims != self.after.shape.dims

    @property
    def stack(self) -> tuple[Frame, ...]:
        """Where the later input was made, else the earlier one."""
        return self.after.metadata.stack or self.before.metadata.stack


@dataclass(frozen=True, slots=True)
class DimensionMove:
    """All dimensions that moved from one size to another together.

    ``parameters`` are (number before, number after, dimension); ``count`` is the number of instructions with such a
    dimension; ``derived``: the move follows from one of a parameter or of the root (as 4*12 -> 4*17 from 12 -> 17).
    """

    before: int
    after: int
    parameters: tuple[tuple[int, int, int], ...]
    count: int
    derived: bool


@dataclass(frozen=True, slots=True)
class OpGroup:
    """Added or removed instructions that one line made with one framework operation.

    ``frame`` is the innermost frame outside torch and torch_xla (None: no line known), ``stack`` the whole stack of
    ``spots[0]``; at most 20 spots are kept, ``count`` counts all. ``opcodes`` are (opcode, count), most frequent first.
    """

    frame: Frame | None
    op_type: str
    count: int
    opcodes: tuple[tuple[str, int], ...]
    stack: tuple[Frame, ...]
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class ScalarChange:
    """A scalar that is an input in one graph and a constant in the other, or another constant, or another input.

    ``before`` and ``after`` are such as "parameter 3" or "constant 1". ``consumer`` is the first instruction (of the
    later graph) that uses it; the stacks are those of the scalars themselves.
    """

    before: str
    after: str
    consumer: Spot
    before_stack: tuple[Frame, ...]
    after_stack: tuple[Frame, ...]

    @property
    def is_literal_change(self) -> bool:
        """Whether one constant became another."""
        return self.before.startswith("constant") and self.after.startswith("constant")


@dataclass(frozen=True, slots=True)
class OutputsChange:
    """Returned values: counts, and positions (in the result tuple) of those only one graph returns."""

    before_count: int
    after_count: int
    added: tuple[int, ...]
    removed: tuple[int, ...]
    reordered: bool
    added_shapes: tuple[Shape, ...]
    removed_shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of nodes in canonical form (entry computation), and how many of them are found in the other graph.

    ``exact`` counts nodes whose whole subtree is equal in both, ``paired`` all pairs (in the forms compared, where
    equal constants may stay apart). ``shared_operations`` is how many (opcode, framework operation, line) both have,
    counted as a multiset and regardless of structure.
    """

    before: int
    after: int
    paired: int
    exact: int
    shared_operations: int


@dataclass(frozen=True)
class GraphDiff:
    """Everything a comparison of an earlier graph (before) with a later one (after) found.

    same_computation: equal once equal instructions are merged, parameters in order (donation, sharding and aliasing may
        still differ). same_structure: equal but for types, values and attributes, parameters in order.
    same_but_shapes / same_but_constants / same_but_attributes: same structure, and nothing but that (and what follows
        from it, as a constant that holds a size) differs. same_but_scalars: equal when scalar inputs and scalar
        constants 0, 1, -1 are taken for one.
    root: the first difference that nothing else explains, preferring changed parameters, then ones whose line is known.
        roots: all such differences in order (at most 200). follows: paired nodes that differ only because of them.
    inserted / removed: grouped by line and operation, in order of first occurrence; parameters are not among them.
    contains_before / contains_after: every computation of that graph is also in the other one, only other things are
        returned or computed on top. outputs_only: both.
    pairs: paired positions in the two entry computations (before, after), ascending in `after`.
    """

    same_computation: bool
    same_structure: bool
    same_but_shapes: bool
    same_but_constants: bool
    same_but_attributes: bool
    same_but_scalars: bool
    changed_parameters: tuple[ChangedParameter, ...]
    added_parameters: tuple[Parameter, ...]
    removed_parameters: tuple[Parameter, ...]
    parameter_pairs: tuple[tuple[int, int], ...]
    reordered_parameters: tuple[tuple[int, int], ...]
    root: Difference | None
    roots: tuple[Difference, ...]
    follows: int
    moves: tuple[DimensionMove, ...]
    inserted: tuple[OpGroup, ...]
    removed: tuple[OpGroup, ...]
    scalar_changes: tuple[ScalarChange, ...]
    contains_before: bool
    contains_after: bool
    outputs: OutputsChange
    donors_added: tuple[int, ...]
    donors_removed: tuple[int, ...]
    aliases_differ: bool
    shardings_added: tuple[str, ...]
    shardings_removed: tuple[str, ...]
    special_constants_before: tuple[tuple[str, int], ...]
    special_constants_after: tuple[tuple[str, int], ...]
    sizes: Sizes
    pairs: tuple[tuple[int, int], ...]

    @property
    def donors_differ(self) -> bool:
        """Whether the graphs may reuse the buffers of different inputs."""
        return bool(self.donors_added or self.donors_removed)

    @property
    def sharding_differs(self) -> bool:
        """Whether the graphs hold different sharding annotations."""
        return bool(self.shardings_added or self.shardings_removed)

    @property
    def inserted_count(self) -> int:
        """Number of instructions only the later graph has (parameters apart)."""
        return sum(group.count for group in self.inserted)

    @property
    def removed_count(self) -> int:
        """Number of instructions only the earlier graph has (parameters apart)."""
        return sum(group.count for group in self.removed)

    @property
    def outputs_only(self) -> bool:
        """Whether the graphs compute the same and only return other values."""
        return (
            not self.same_computation
            and self.contains_before
            and self.contains_after
            and not self.added_parameters
            and not self.removed_parameters
        )

    @property
    def is_empty(self) -> bool:
        """Whether no difference at all was found."""
        return self.same_computation and not (
            self.donors_differ or self.sharding_differs or self.aliases_differ or self.roots
        )
