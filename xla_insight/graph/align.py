"""Which instruction of one graph is which instruction of another.

Owns the pairing of nodes. Equal subtrees are paired by their hash alone; what is left is paired as sequences, by
structure first and by place in the source last. Leaves judging of the pairs to ``diff``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from xla_insight.graph.canonical import Form
from xla_insight.graph.sequences import common_pairs
from xla_insight.graph.tokens import Erase, local_token, shape_token, stable, stack_token

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
    both_have_stacks = _has_stacks(before) and _has_stacks(after)
    structure = [_relabelled(form, Erase.STRUCTURE, own) for form, own in zip((before, after), labels, strict=True)]
    origins = [_origins(form, with_stack=both_have_stacks) for form in (before, after)]
    _pair_sequences(before, after, lambda side, node: hash((structure[side][node], origins[side][node])), result)
    forms = (before, after)
    _pair_sequences(
        before, after, lambda side, node: _local(forms[side], node, origins[side][node], typed=True), result
    )
    _pair_sequences(
        before, after, lambda side, node: _local(forms[side], node, origins[side][node], typed=False), result
    )
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
    ours = {node: stable("parameter", index) for index, (node, _) in enumerate(parameters)}
    theirs = {node: stable("parameter", index) for index, (_, node) in enumerate(parameters)}
    for side, form, known in ((0, before, ours), (1, after, theirs)):
        for node in range(len(form)):
            if form.instruction(node).opcode == "parameter":
                known.setdefault(node, stable("unpaired parameter", side, node))
    return ours, theirs


def _relabelled(form: Form, erase: Erase, labels: dict[int, int]) -> list[int]:
    """Merkle hashes in which parameters count by their pair, not by their number."""
    hashes: list[int] = []
    for node, (token, operands) in enumerate(zip(form.tokens(erase), form.operands, strict=True)):
        label = labels.get(node)
        if label is not None:
            hashes.append(hash((label, shape_token(form.instruction(node).shape, erase))))
        else:
            hashes.append(hash((token, *[hashes[o] for o in operands])))
    return hashes


def _pair_equal(before: Form, after: Form, labels: tuple[dict[int, int], dict[int, int]], result: Alignment) -> None:
    """Pair nodes whose whole subtrees are equal; among equal constants, those of the same line first."""
    hashes = [_relabelled(form, Erase.NOTHING, own) for form, own in zip((before, after), labels, strict=True)]
    for node, partner in enumerate(result.to_after):
        if partner != UNPAIRED and hashes[0][node] == hashes[1][partner]:
            result.exact.add(node)
    for with_line in (True, False):
        waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
        for node in range(len(after) - 1, -1, -1):
            if result.to_before[node] == UNPAIRED:
                waiting[hashes[1][node], _line(after, node) if with_line else 0].append(node)
        for node in range(len(before)):
            key = (hashes[0][node], _line(before, node) if with_line else 0)
            if result.to_after[node] == UNPAIRED and waiting.get(key):
                result.pair(node, waiting[key].pop())
                result.exact.add(node)


def _line(form: Form, node: int) -> int:
    instruction = form.instruction(node)
    return stack_token(instruction.metadata.stack) if instruction.opcode == "constant" else 0


def _pair_sequences(
    before: Form, after: Form, token: Callable[[int, int], int], result: Alignment
) -> None:  # fmt: skip
    """Pair what is left by a longest common subsequence of tokens (parameters are settled elsewhere)."""
    rest = [
        [node for node, partner in enumerate(partners) if partner == UNPAIRED and form.instruction(node).number < 0]
        for form, partners in ((before, result.to_after), (after, result.to_before))
    ]
    if rest[0] and rest[1]:
        tokens = [[token(side, node) for node in nodes] for side, nodes in enumerate(rest)]
        for i, j in common_pairs(tokens[0], tokens[1]):
            result.pair(rest[0][i], rest[1][j])


def _has_stacks(form: Form) -> bool:
    return any(form.instruction(node).metadata.stack for node in range(len(form)))


def _origins(form: Form, *, with_stack: bool) -> list[int]:
    """Origin of each node; without stacks only the framework operation, when one side knows no lines."""
    if with_stack:
        return form.origins
    return [stable(form.instruction(node).metadata.op_type) for node in range(len(form))]


def _local(form: Form, node: int, origin: int, *, typed: bool) -> int:
    instruction = form.instruction(node)
    return local_token(instruction.opcode, instruction.shape.dtype if typed else "", origin)
