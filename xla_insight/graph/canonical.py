"""Canonical form of a graph: equal instructions merged, dead ones dropped, hashed with chosen facts left out.

Owns Merkle hashing and hash-consing. One graph hash of torch_xla can stand for slightly different modules (a transpose
that is written once or twice), so modules are compared only in this form. Hashes are stable between processes of one
Python version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from xla_insight.graph.model import Computation, Graph, Instruction, Metadata
from xla_insight.graph.tokens import Erase, Kind, has_side_effect, kind_token, origin_token, place_token, stack_token


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
    an instruction (-1: dead). ``kinds[node]`` indexes ``kind_table``; ``lines[node]`` is the stack token of a
    constant (0 for others). Parameters are nodes even when unused.
    """

    computation: Computation
    kind_table: list[Kind]
    kinds: list[int]
    operands: list[tuple[int, ...]]
    positions: list[int]
    node_of: list[int]
    lines: list[int]
    root: int
    effects: tuple[int, ...]
    classes: ComputationClasses
    _hashes: dict[int, list[int]] = field(default_factory=dict)
    _tokens: dict[int, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kinds)

    def instruction(self, node: int) -> Instruction:
        """The instruction that stands for a node."""
        return self.computation.instructions[self.positions[node]]

    def tokens(self, erase: int) -> list[int]:
        """Token of each node without its operands. The list belongs to the form: copy it before changing it."""
        found = self._tokens.get(erase)
        if found is None:
            found = self._tokens[erase] = self._make_tokens(erase)
        return found

    def _make_tokens(self, erase: int) -> list[int]:
        kinds = self._without_scalars() if erase & Erase.SCALARS else self.kind_table
        table = [kind_token(k, erase, tuple(self.classes.hash_of(c, erase) for c in k.called)) for k in kinds]
        return [table[kind] for kind in self.kinds]

    def _without_scalars(self) -> list[Kind]:
        """Kinds in which parameters count as if there were no scalars among them."""
        numbers = sorted(k.number for k in self.kind_table if k.number >= 0 and not k.shape.is_scalar)
        ranks = {number: rank for rank, number in enumerate(numbers)}
        return [kind._replace(number=ranks.get(kind.number, kind.number)) for kind in self.kind_table]

    def hashes(self, erase: int = Erase.NOTHING) -> list[int]:
        """Merkle hash of each node: its token and the hashes of its operands."""
        found = self._hashes.get(erase)
        if found is None:
            found = []
            for token, operands in zip(self.tokens(erase), self.operands, strict=True):
                found.append(hash((token, *[found[o] for o in operands])))
            self._hashes[erase] = found
        return found

    @cached_property
    def parameters(self) -> list[tuple[int, int]]:
        """(node, parameter number) of all inputs, in order of nodes."""
        numbers = [kind.number for kind in self.kind_table]
        return [(node, numbers[kind]) for node, kind in enumerate(self.kinds) if numbers[kind] >= 0]

    @cached_property
    def origins(self) -> list[int]:
        """Token of where each node comes from: framework operation and stack."""
        return self._from_metadata(origin_token)

    @cached_property
    def places(self) -> list[int]:
        """Token of framework operation and innermost line of each node."""
        return self._from_metadata(place_token)

    def _from_metadata(self, make: Callable[[Metadata], int]) -> list[int]:
        """Tokens of metadata; few distinct objects stand in many instructions."""
        known: dict[int, int] = {}
        result: list[int] = []
        for position in self.positions:
            metadata = self.computation.instructions[position].metadata
            token = known.get(id(metadata))
            if token is None:
                token = known[id(metadata)] = make(metadata)
            result.append(token)
        return result

    def fingerprint(self, erase: int = Erase.NOTHING) -> int:
        """Hash of the whole computation: its result, its parameters and its side effects."""
        hashes = self.hashes(erase)
        parameters = [
            (number, hashes[node])
            for node, number in self.parameters
            if not (erase & Erase.SCALARS and self.kind_table[self.kinds[node]].shape.is_scalar)
        ]
        ordered = [value for _, value in sorted(parameters)]
        return hash((hashes[self.root], *ordered, *[hashes[node] for node in self.effects]))


def equal_forms(before: Form, after: Form, erase: int = Erase.NOTHING) -> bool:
    """Whether two forms are equal with some facts left out."""
    # Comparing the sets of tokens first spares most pairs the hashing.
    if set(before.tokens(erase)) != set(after.tokens(erase)):
        return False
    return before.fingerprint(erase) == after.fingerprint(erase)


class ComputationClasses:
    """Called computations of one graph grouped into classes of equal ones (every reduce brings its own "add")."""

    def __init__(self) -> None:
        self.class_of: list[int] = []
        self.forms: list[Form] = []
        self._by_hash: dict[int, int] = {}
        self._hashes: dict[tuple[int, int], int] = {}

    def add(self, form: Form) -> None:
        """Register the next computation (callees first)."""
        key = form.fingerprint()
        found = self._by_hash.get(key)
        if found is None:
            found = self._by_hash[key] = len(self.forms)
            self.forms.append(form)
        self.class_of.append(found)

    def hash_of(self, number: int, erase: int) -> int:
        """Hash of a class with some facts left out. Scalars inside called computations always count."""
        erase &= ~Erase.SCALARS
        found = self._hashes.get((number, erase))
        if found is None:
            found = self._hashes[number, erase] = self.forms[number].fingerprint(erase)
        return found


class Canonicalizer:
    """Makes the forms of one graph; what they share is made once."""

    def __init__(self, graph: Graph) -> None:
        self.classes = ComputationClasses()
        for computation in graph.computations[:-1]:
            self.classes.add(_Draft(computation, self.classes).form(merge=True))
        self._entry = _Draft(graph.entry, self.classes)

    @property
    def live_count(self) -> int:
        """Number of instructions of the entry computation that matter."""
        return self._entry.live.count(True)

    def form(self, *, merge: bool = True, lines: bool = True) -> Form:
        """The canonical form of the entry computation. With ``merge`` False equal instructions stay apart; with
        ``lines`` False equal constants of different lines are merged, too.
        """
        return self._entry.form(merge=merge, lines=lines)


def canonicalize(graph: Graph) -> Form:
    """The canonical form of the entry computation; its ``classes`` hold the called ones."""
    return Canonicalizer(graph).form()


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


class _Draft:
    """One computation with its kinds numbered and its live instructions known."""

    def __init__(self, computation: Computation, classes: ComputationClasses) -> None:
        self.computation = computation
        self.classes = classes
        self.numbers, self.table = _kind_numbers(computation.instructions, classes)
        effects = [has_side_effect(kind) for kind in self.table]
        self.effects = [p for p, number in enumerate(self.numbers) if effects[number]]
        self.live = self._live()

    def form(self, *, merge: bool, lines: bool = True) -> Form:
        instructions = self.computation.instructions
        places = {id(i.metadata): stack_token(i.metadata.stack) for i in instructions if i.opcode == "constant"}
        kinds: list[int] = []
        operands: list[tuple[int, ...]] = []
        positions: list[int] = []
        line_of: list[int] = []
        node_of = [-1] * len(instructions)
        merged: dict[tuple[int, int, tuple[int, ...]], int] = {}
        for position, (instruction, number) in enumerate(zip(instructions, self.numbers, strict=True)):
            if not self.live[position]:
                continue
            inputs = tuple([node_of[o] for o in instruction.operands])
            # The line of a constant tells what it is for, so constants are one only when their stacks are.
            line = places[id(instruction.metadata)] if lines and instruction.opcode == "constant" else 0
            node = merged.setdefault((number, line, inputs), len(kinds)) if merge else len(kinds)
            node_of[position] = node
            if node == len(kinds):
                kinds.append(number)
                operands.append(inputs)
                positions.append(position)
                line_of.append(line)
        effects = tuple(dict.fromkeys(node_of[position] for position in self.effects))
        root = node_of[self.computation.root]
        return Form(
            self.computation, self.table, kinds, operands, positions, node_of, line_of, root, effects, self.classes
        )

    def _live(self) -> list[bool]:
        live = [self.table[number].number >= 0 for number in self.numbers]
        for position in [*self.effects, self.computation.root]:
            live[position] = True
        instructions = self.computation.instructions
        for position in range(len(instructions) - 1, -1, -1):
            if live[position]:
                for operand in instructions[position].operands:
                    live[operand] = True
        return live


def _kind_numbers(instructions: tuple[Instruction, ...], classes: ComputationClasses) -> tuple[list[int], list[Kind]]:
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
    return of, table
