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


def scalar_changes(before: Form, after: Form) -> tuple[ScalarChange, ...]:
    """Changed scalars in order of first use, each once (at most 20). Both forms must be equal with scalars left out."""
    names = _same_inputs(before, after)
    nodes = {value: node for node, value in reversed(list(enumerate(after.hashes(Erase.SCALARS))))}
    found: dict[tuple[str, str], ScalarChange] = {}
    for node, value in enumerate(before.hashes(Erase.SCALARS)):
        partner = nodes.get(value)
        if partner is None or len(before.operands[node]) != len(after.operands[partner]):
            continue
        for x, y in zip(before.operands[node], after.operands[partner], strict=True):
            left, right = before.instruction(x), after.instruction(y)
            ours, theirs = _describe(left), _describe(right)
            if not ours or not theirs or (ours, theirs) in names or ours == theirs:
                continue
            consumer = Spot(after.computation.name, after.positions[partner], after.instruction(partner))
            change = ScalarChange(ours, theirs, consumer, left.metadata.stack, right.metadata.stack)
            found.setdefault((ours, theirs), change)
    return tuple(found.values())[:MAX_CHANGES]


def _same_inputs(before: Form, after: Form) -> set[tuple[str, str]]:
    """Pairs of scalar inputs that stand at the same place in both lists (from the front or from the end)."""
    lists = []
    for form in (before, after):
        numbers = [i.number for i in (form.instruction(node) for node in range(len(form))) if _is_input(i)]
        lists.append(sorted(numbers))
    ours, theirs = lists
    same = set(zip(ours, theirs, strict=False)) if len(ours) == len(theirs) else set()
    return {(f"parameter {x}", f"parameter {y}") for x, y in same}


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
