"""Canonical form of a graph: equal instructions merged, dead ones dropped, hashed with chosen facts left out.

Owns Merkle hashing and hash-consing. One graph hash of torch_xla can stand for slightly different modules (a transpose
that is written once or twice), so modules are compared only in this form. Hashes are stable between processes of one
Python version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from xla_insight.graph.model import Computation, Graph, Instruction
from xla_insight.graph.tokens import Erase, Kind, has_side_effect, kind_token, origin_token, stack_token


class Fingerprints(NamedTuple):
    """Hashes of a whole graph; equal hash = equal but for what the name says is left out (parameters in order)."""

    exact: int
    without_shapes: int
    without_constants: int
    without_shapes_and_constants: int
    without_scalars: int


@dataclass(eq=False)
class Form:
    """One computation in canonical form. Nodes are numbered in topological order (operands before users).

    ``positions[node]`` is the position of the instruction that stands for the node, ``node_of[position]`` the node of
    an instruction (-1: dead). ``kinds[node]`` indexes ``kind_table``. Parameters are nodes even when unused.
    """

    computation: Computation
    kind_table: list[Kind]
    kinds: list[int]
    operands: list[tuple[int, ...]]
    positions: list[int]
    node_of: list[int]
    root: int
    effects: tuple[int, ...]
    classes: ComputationClasses
    _hashes: dict[Erase, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kinds)

    def instruction(self, node: int) -> Instruction:
        """The instruction that stands for a node."""
        return self.computation.instructions[self.positions[node]]

    def tokens(self, erase: Erase) -> list[int]:
        """Token of each node without its operands."""
        kinds = self._without_scalars() if erase & Erase.SCALARS else self.kind_table
        table = [kind_token(k, erase, tuple(self.classes.hash_of(c, erase) for c in k.called)) for k in kinds]
        return [table[kind] for kind in self.kinds]

    def _without_scalars(self) -> list[Kind]:
        """Kinds in which parameters count as if there were no scalars among them."""
        numbers = sorted(k.number for k in self.kind_table if k.number >= 0 and not k.shape.is_scalar)
        ranks = {number: rank for rank, number in enumerate(numbers)}
        return [kind._replace(number=ranks.get(kind.number, kind.number)) for kind in self.kind_table]

    def hashes(self, erase: Erase = Erase.NOTHING) -> list[int]:
        """Merkle hash of each node: its token and the hashes of its operands."""
        found = self._hashes.get(erase)
        if found is None:
            found = []
            for token, operands in zip(self.tokens(erase), self.operands, strict=True):
                found.append(hash((token, *[found[o] for o in operands])))
            self._hashes[erase] = found
        return found

    @cached_property
    def origins(self) -> list[int]:
        """Token of where each node comes from: framework operation and stack."""
        known: dict[int, int] = {}
        result: list[int] = []
        for position in self.positions:
            metadata = self.computation.instructions[position].metadata
            token = known.get(id(metadata))
            if token is None:
                token = known[id(metadata)] = origin_token(metadata)
            result.append(token)
        return result

    def fingerprint(self, erase: Erase = Erase.NOTHING) -> int:
        """Hash of the whole computation: its result, its parameters and its side effects."""
        hashes = self.hashes(erase)
        instructions = self.computation.instructions
        parameters = [
            (instructions[position].number, hashes[node])
            for node, position in enumerate(self.positions)
            if instructions[position].opcode == "parameter"
            and not (erase & Erase.SCALARS and instructions[position].shape.is_scalar)
        ]
        ordered = [value for _, value in sorted(parameters)]
        return hash((hashes[self.root], *ordered, *[hashes[node] for node in self.effects]))


class ComputationClasses:
    """Called computations of one graph grouped into classes of equal ones (every reduce brings its own "add")."""

    def __init__(self) -> None:
        self.class_of: list[int] = []
        self.forms: list[Form] = []
        self._by_hash: dict[int, int] = {}
        self._hashes: dict[tuple[int, Erase], int] = {}

    def add(self, form: Form) -> None:
        """Register the next computation (callees first)."""
        key = form.fingerprint()
        found = self._by_hash.get(key)
        if found is None:
            found = self._by_hash[key] = len(self.forms)
            self.forms.append(form)
        self.class_of.append(found)

    def hash_of(self, number: int, erase: Erase) -> int:
        """Hash of a class with some facts left out. Scalars inside called computations always count."""
        erase &= ~Erase.SCALARS
        found = self._hashes.get((number, erase))
        if found is None:
            found = self._hashes[number, erase] = self.forms[number].fingerprint(erase)
        return found


def canonicalize(graph: Graph, *, merge: bool = True) -> Form:
    """The canonical form of the entry computation; its ``classes`` hold the called ones.

    With ``merge`` False, equal instructions stay apart and only dead ones are dropped.
    """
    classes = ComputationClasses()
    for computation in graph.computations[:-1]:
        classes.add(_form(computation, classes, merge=True))
    return _form(graph.entry, classes, merge=merge)


def fingerprints(graph: Graph) -> Fingerprints:
    """Hashes of a graph for telling equal ones, and ones that differ in one respect only, by comparison of integers."""
    form = canonicalize(graph)
    return Fingerprints(
        form.fingerprint(),
        form.fingerprint(Erase.SHAPES),
        form.fingerprint(Erase.CONSTANTS),
        form.fingerprint(Erase.SHAPES | Erase.CONSTANTS),
        form.fingerprint(Erase.SCALARS),
    )


def _form(computation: Computation, classes: ComputationClasses, *, merge: bool) -> Form:
    instructions = computation.instructions
    live = _live(computation)
    numbers = _kind_numbers(instructions, classes)
    kinds: list[int] = []
    operands: list[tuple[int, ...]] = []
    positions: list[int] = []
    node_of = [-1] * len(instructions)
    merged: dict[tuple[int, int, tuple[int, ...]], int] = {}
    for position, instruction in enumerate(instructions):
        if not live[position]:
            continue
        inputs = tuple([node_of[o] for o in instruction.operands])
        # The line of a constant tells what it is for, so constants are one only when their stacks are.
        place = stack_token(instruction.metadata.stack) if instruction.opcode == "constant" else 0
        key = (numbers.of[position], place if merge else position + 1, inputs)
        node = merged.setdefault(key, len(kinds))
        node_of[position] = node
        if node == len(kinds):
            kinds.append(key[0])
            operands.append(inputs)
            positions.append(position)
    effects = tuple(dict.fromkeys(node_of[p] for p, i in enumerate(instructions) if live[p] and has_side_effect(i)))
    root = node_of[computation.root]
    return Form(computation, numbers.table, kinds, operands, positions, node_of, root, effects, classes)


def _live(computation: Computation) -> list[bool]:
    instructions = computation.instructions
    live = [i.opcode == "parameter" or has_side_effect(i) for i in instructions]
    live[computation.root] = True
    for position in range(len(instructions) - 1, -1, -1):
        if live[position]:
            for operand in instructions[position].operands:
                live[operand] = True
    return live


class _KindNumbers(NamedTuple):
    of: list[int]
    table: list[Kind]


def _kind_numbers(instructions: tuple[Instruction, ...], classes: ComputationClasses) -> _KindNumbers:
    """Small numbers for kinds. Shapes, attributes and literals are few objects, so most are told by identity."""
    by_identity: dict[tuple[object, ...], int] = {}
    by_value: dict[Kind, int] = {}
    table: list[Kind] = []
    of: list[int] = []
    class_of = classes.class_of
    for i in instructions:
        called = tuple([class_of[c] for c in i.called]) if i.called else ()
        key = (i.opcode, id(i.shape), id(i.attributes), id(i.literal), called, i.number)
        number = by_identity.get(key)
        if number is None:
            kind = Kind(i.opcode, i.shape, i.attributes, i.literal, called, i.number)
            number = by_identity[key] = by_value.setdefault(kind, len(table))
            if number == len(table):
                table.append(kind)
        of.append(number)
    return _KindNumbers(of, table)
