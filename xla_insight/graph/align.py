"""Which instruction of one graph is which instruction of another.

Owns the pairing of nodes. Equal subtrees are paired by their hash alone; what is left is paired as sequences, by
structure first and by place in the source last. Leaves judging of the pairs to ``diff``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from xla_insight.graph.canonical import Form
from xla_insight.graph.sequences import common_pairs
from xla_insight.graph.spread import Spreader
from xla_insight.graph.tokens import Erase, local_token, shape_token, stable

UNPAIRED = -1


@dataclass(slots=True)
class Alignment:
    """Pairs of nodes: ``to_after[node]`` and ``to_before[node]``, UNPAIRED where there is none.

    ``same_structure``: every node is paired with one of equal opcode, rank and operands. ``equal_before`` counts nodes
    whose whole subtree is equal.
    """

    to_after: list[int]
    to_before: list[int]
    same_structure: bool
    exact: set[int]

    def pair(self, before: int, after: int) -> None:
        """Pair two nodes."""
        self.to_after[before] = after
        self.to_before[after] = before


def same_structure(before: Form, after: Form) -> bool:
    """Whether two forms are the same but for shapes, constants and attributes, node by node."""
    return before.operands == after.operands and before.root == after.root and (
        before.tokens(Erase.STRUCTURE) == after.tokens(Erase.STRUCTURE)
    )  # fmt: skip


def align_in_order(before: Form, after: Form) -> Alignment:
    """Pair node i with node i; for forms of the same structure."""
    count = list(range(len(before)))
    ours, theirs = before.hashes(), after.hashes()
    return Alignment(count, count[:], True, {node for node in count if ours[node] == theirs[node]})


def align(before: Form, after: Form, parameters: list[tuple[int, int]]) -> Alignment:
    """Pair nodes of two forms, given their paired parameters."""
    result = Alignment([UNPAIRED] * len(before), [UNPAIRED] * len(after), False, set())
    for ours, theirs in parameters:
        result.pair(ours, theirs)
    labels = _labels(before, after, parameters)
    _pair_equal(before, after, labels, result)
    origins = _common_origins(before, after)
    sides = [_Side(form, own, origins) for form, own in zip((before, after), labels, strict=True)]
    _pair_sequences(sides, _Side.structure_tokens, result)
    for token in (_Side.typed_tokens, _Side.placed_tokens, _Side.untyped_tokens):
        if UNPAIRED in result.to_after and UNPAIRED in result.to_before:
            _spread(sides, token, result)
            _pair_sequences(sides, token, result)
    if before.instruction(before.root).opcode == after.instruction(after.root).opcode:
        _repair_root(before, after, result)
    return result


def _repair_root(before: Form, after: Form, result: Alignment) -> None:
    """The results belong together whatever they contain."""
    theirs, ours = result.to_after[before.root], result.to_before[after.root]
    if theirs == after.root or before.instruction(before.root).opcode == "parameter":
        return
    if theirs == UNPAIRED and ours == UNPAIRED:
        result.pair(before.root, after.root)


def _labels(before: Form, after: Form, parameters: list[tuple[int, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """A number for each parameter that is equal exactly for paired ones."""
    paired, alone = stable("paired parameter"), stable("unpaired parameter")
    ours = {node: hash((paired, index)) for index, (node, _) in enumerate(parameters)}
    theirs = {node: hash((paired, index)) for index, (_, node) in enumerate(parameters)}
    for side, form, known in ((0, before, ours), (1, after, theirs)):
        for node, _ in form.parameters:
            known.setdefault(node, hash((alone, side, node)))
    return ours, theirs


def _relabelled(form: Form, erase: int, labels: dict[int, int]) -> list[int]:
    """Merkle hashes in which parameters count by their pair, not by their number."""
    tokens = form.tokens(erase)[:]
    for node, label in labels.items():
        tokens[node] = hash((label, shape_token(form.kind_table[form.kinds[node]].shape, erase)))
    hashes: list[int] = []
    for token, operands in zip(tokens, form.operands, strict=True):
        hashes.append(hash((token, *[hashes[o] for o in operands])))
    return hashes


def _pair_equal(before: Form, after: Form, labels: tuple[dict[int, int], dict[int, int]], result: Alignment) -> None:
    """Pair nodes whose whole subtrees are equal; among equal constants, those of the same line first."""
    ours, theirs = (_relabelled(form, Erase.NOTHING, own) for form, own in zip((before, after), labels, strict=True))
    for node in labels[0]:
        partner = result.to_after[node]
        if partner != UNPAIRED and ours[node] == theirs[partner]:
            result.exact.add(node)
    with_lines = [
        [value ^ line for value, line in zip(hashes, form.lines, strict=True)]
        for hashes, form in ((ours, before), (theirs, after))
    ]
    for left, right in (with_lines, (ours, theirs)):
        waiting: dict[int, list[int]] = defaultdict(list)
        for node in range(len(after) - 1, -1, -1):
            if result.to_before[node] == UNPAIRED:
                waiting[right[node]].append(node)
        for node, value in enumerate(left):
            if result.to_after[node] == UNPAIRED and waiting.get(value):
                result.pair(node, waiting[value].pop())
                result.exact.add(node)


class Origins(Enum):
    """What can be compared of where instructions come from: nothing says more than both graphs know."""

    LINES = 1
    OPERATIONS = 2
    NONE = 3


class _Side:
    """Tokens of one graph for pairing as sequences, made for the nodes that are left."""

    def __init__(self, form: Form, labels: dict[int, int], origins: Origins) -> None:
        self.form = form
        self.labels = labels
        self.origins, self.places = {
            Origins.LINES: lambda: (form.origins, form.places),
            Origins.OPERATIONS: lambda: (_operations(form),) * 2,
            Origins.NONE: lambda: ([0] * len(form),) * 2,
        }[origins]()

    def structure_tokens(self, nodes: list[int]) -> list[int]:
        """Subtree without shapes, constants and attributes, and origin."""
        hashes = _relabelled(self.form, Erase.STRUCTURE, self.labels)
        return [hash((hashes[node], self.origins[node])) for node in nodes]

    def typed_tokens(self, nodes: list[int]) -> list[int]:
        """Opcode, element type and origin."""
        return self._local(nodes, [(kind.opcode, kind.shape.dtype) for kind in self.form.kind_table])

    def placed_tokens(self, nodes: list[int]) -> list[int]:
        """Opcode, element type, framework operation and innermost line: a step called from another line is the same."""
        return self._local(nodes, [(kind.opcode, kind.shape.dtype) for kind in self.form.kind_table], placed=True)

    def untyped_tokens(self, nodes: list[int]) -> list[int]:
        """Opcode, framework operation and innermost line."""
        return self._local(nodes, [(kind.opcode, "") for kind in self.form.kind_table], placed=True)

    def _local(self, nodes: list[int], kinds: list[tuple[str, str]], *, placed: bool = False) -> list[int]:
        origins = self.places if placed else self.origins
        return [local_token(*kinds[self.form.kinds[node]], origins[node]) for node in nodes]


def _spread(sides: list[_Side], token: Callable[[_Side, list[int]], list[int]], result: Alignment) -> None:
    """Pair neighbours of pairs, as far as they are of equal token."""
    before, after = sides
    tokens = []
    for number, (side, partners) in enumerate(zip(sides, (result.to_after, result.to_before), strict=True)):
        # Parameters are settled elsewhere and pairs are made, so no token of theirs may be equal to another.
        values = [number] * len(partners)
        rest = [node for node, partner in enumerate(partners) if partner == UNPAIRED and node not in side.labels]
        for node, value in zip(rest, token(side, rest), strict=True):
            values[node] = value
        tokens.append(values)
    both = (result.to_after, result.to_before)
    Spreader((before.form, after.form), both, (tokens[0], tokens[1]), result.pair).run()


def _pair_sequences(sides: list[_Side], token: Callable[[_Side, list[int]], list[int]], result: Alignment) -> None:
    """Pair what is left by a longest common subsequence of tokens (parameters are settled elsewhere)."""
    rest = [
        [node for node, partner in enumerate(partners) if partner == UNPAIRED and node not in side.labels]
        for side, partners in zip(sides, (result.to_after, result.to_before), strict=True)
    ]
    if rest[0] and rest[1]:
        tokens = [token(side, nodes) for side, nodes in zip(sides, rest, strict=True)]
        for i, j in common_pairs(tokens[0], tokens[1]):
            result.pair(rest[0][i], rest[1][j])


def _common_origins(before: Form, after: Form) -> Origins:
    """What both graphs know of their instructions' origins."""
    known = [[i.metadata for i in form.computation.instructions] for form in (before, after)]
    if all(any(metadata.stack for metadata in side) for side in known):
        return Origins.LINES
    if all(any(metadata.op_type for metadata in side) for side in known):
        return Origins.OPERATIONS
    return Origins.NONE


def _operations(form: Form) -> list[int]:
    words = [form.computation.instructions[position].metadata.op_type for position in form.positions]
    known = {word: stable(word) for word in set(words)}
    return [known[word] for word in words]
