"""Scalars that are an input in one graph and a constant in the other.

Owns finding them in graphs that are equal with scalars left out. torch_xla makes constants of scalar inputs that are 0,
1 or -1, and lets equal scalars share one input.
"""

from __future__ import annotations

from collections import Counter

from xla_insight.graph.canonical import Form
from xla_insight.graph.differences import ScalarChange, Spot
from xla_insight.graph.model import Frame, Instruction
from xla_insight.graph.tokens import Erase, is_special_scalar

MAX_CHANGES = 20


def scalar_changes(before: Form, after: Form, paired_inputs: set[tuple[int, int]]) -> tuple[ScalarChange, ...]:
    """Changed scalars in order of first use, each once (at most 20). Both forms must be equal with scalars left out.

    ``paired_inputs`` are numbers of inputs (before, after) that are the same one: a mere change of number is no change.
    """
    found: dict[tuple[str, str], ScalarChange] = {}
    for node, partner, sure in _pairs(before, after):
        if len(before.operands[node]) != len(after.operands[partner]):
            continue
        for x, y in zip(before.operands[node], after.operands[partner], strict=True):
            left, right = before.instruction(x), after.instruction(y)
            ours, theirs = _describe(left), _describe(right)
            both_inputs = left.number >= 0 and right.number >= 0
            unchanged = (left.number, right.number) in paired_inputs if both_inputs else ours == theirs
            # A constant that was no constant before is told only of a pair that surely is one.
            if ours and theirs and not unchanged and (sure or both_inputs):
                consumer = Spot(after.computation.name, after.positions[partner], after.instruction(partner))
                change = ScalarChange(ours, theirs, consumer, left.metadata.stack, right.metadata.stack)
                found.setdefault((ours, theirs), change)
    return tuple(found.values())[:MAX_CHANGES]


def _pairs(before: Form, after: Form) -> list[tuple[int, int, bool]]:
    """Nodes that are equal with scalars left out. Where several are, those of one line are paired, then in order; nodes
    that became one (because their scalars did) are all paired with it. The third value is
    False when there were several and none is of the same line.
    """
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for side, form in enumerate((before, after)):
        for node, value in enumerate(form.hashes(Erase.SCALARS)):
            groups.setdefault(value, ([], []))[side].append(node)
    pairs: list[tuple[int, int, bool]] = []
    for ours, theirs in groups.values():
        if len(ours) == len(theirs):
            pairs += [(node, partner, True) for node, partner in zip(ours, theirs, strict=True)]
            continue
        for node in ours:
            alike = [partner for partner in theirs if after.places[partner] == before.places[node]]
            if alike or theirs:
                pairs.append((node, (alike or theirs)[0], bool(alike) or len(theirs) == 1))
    return sorted(pairs, key=lambda pair: pair[1])


def _is_input(instruction: Instruction) -> bool:
    return instruction.opcode == "parameter" and instruction.shape.is_scalar


def _describe(instruction: Instruction) -> str:
    if _is_input(instruction):
        return f"parameter {instruction.number}"
    if is_special_scalar(instruction.literal, instruction.shape) and instruction.literal:
        return f"constant {instruction.literal.text}"
    return ""


def special_constants(form: Form) -> tuple[tuple[str, int], ...]:
    """(value, count) of scalar constants 0, 1 and -1 in canonical form, sorted by value."""
    counts: Counter[str] = Counter()
    for node in range(len(form)):
        kind = form.kind_table[form.kinds[node]]
        if kind.literal is not None and is_special_scalar(kind.literal, kind.shape):
            counts[kind.literal.text] += 1
    return tuple(sorted(counts.items()))


def scalar_stack(change: ScalarChange) -> tuple[Frame, ...]:
    """Where a changed scalar was made: its own line in the later graph, else in the earlier one, else its first use."""
    return change.after_stack or change.before_stack or change.consumer.instruction.metadata.stack
