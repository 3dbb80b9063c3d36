"""Which input of one graph is which input of another.

Owns the order of evidence: line and type first, then how the input is used, then its type, then its place in the list.
Numbers alone prove nothing: one new gradient shifts all that follow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from typing import NamedTuple

from xla_insight.graph.canonical import Form
from xla_insight.graph.model import Shape
from xla_insight.graph.tokens import Erase, local_token, shape_token, stack_token

Pairs = list[tuple[int, int]]


class _Input(NamedTuple):
    """One input; ``usage`` and ``context`` are hashes of what uses it directly, and of all that is computed from it."""

    node: int
    number: int
    shape: Shape
    stack: int
    usage: int
    context: int

    @property
    def rank(self) -> tuple[str, int]:
        return self.shape.dtype, len(self.shape.dims)


def pair_parameters(before: Form, after: Form) -> Pairs:
    """Pairs of parameter nodes (before, after)."""
    left, right = _inputs(before), _inputs(after)
    if Counter((i.stack, i.rank) for i in left) != Counter((i.stack, i.rank) for i in right):
        left, right = _with_usage(before, left), _with_usage(after, right)
    if len(before) == len(after):
        reordered = _pair_exactly(before, after)
        if reordered is not None:
            return reordered
    if not any(i.stack for i in left) or not any(i.stack for i in right):
        # Inputs are numbered in order of first use: without lines, equal lists of types settle it.
        changed = sorted(i.shape for i in left) != sorted(i.shape for i in right)
        if [i.rank for i in left] == [i.rank for i in right] and changed:
            return [(i.node, j.node) for i, j in zip(left, right, strict=True)]
        left = [i._replace(stack=0) for i in left]
        right = [i._replace(stack=0) for i in right]
    pairs: Pairs = []
    for key, uneven in _ORDER:
        left, right = _pair_groups(left, right, key, uneven=uneven, pairs=pairs)
    if not any(i.stack for i in left + right) and len(left) == len(right):
        _pair_groups(left, right, lambda i: (len(i.shape.dims),), uneven=False, pairs=pairs)
    return pairs


def pair_by_number(before: Form, after: Form) -> Pairs:
    """Pairs of parameter nodes of equal number."""
    numbers = {number: node for node, number in after.parameters}
    return [(node, numbers[number]) for node, number in before.parameters if number in numbers]


def _pair_exactly(before: Form, after: Form) -> Pairs | None:
    """Pairs when the graphs differ in nothing but the order of their inputs; None when they differ in more."""
    sides = [_exact_contexts(form) for form in (before, after)]
    waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for node, number in reversed(after.parameters):
        waiting[sides[1][node]].append((number, node))
    pairs: Pairs = []
    for node, number in before.parameters:
        alike = waiting.get(sides[0][node])
        if not alike:
            return None
        # Among inputs that nothing tells apart, the one that kept its number.
        chosen = next((one for one in alike if one[0] == number), alike[-1])
        alike.remove(chosen)
        pairs.append((node, chosen[1]))
    return pairs if len(pairs) == len(after.parameters) else None


def _exact_contexts(form: Form) -> list[int]:
    """For each node a hash of everything around it: what it is made of, and all that is computed from it and from
    what. Inputs count by type and line, not by number.
    """
    tokens = form.tokens(Erase.NOTHING)[:]
    for node, _ in form.parameters:
        instruction = form.instruction(node)
        tokens[node] = hash((shape_token(instruction.shape, Erase.NOTHING), stack_token(instruction.metadata.stack)))
    below: list[int] = []
    for token, operands in zip(tokens, form.operands, strict=True):
        below.append(hash((token, *[below[o] for o in operands])))
    contexts = [0] * len(form)
    contexts[form.root] = 1
    for node in range(len(form) - 1, -1, -1):
        context = contexts[node] = hash((below[node], contexts[node]))
        for slot, operand in enumerate(form.operands[node]):
            contexts[operand] += hash((context, slot))
    return contexts


# (what must be equal, or None when the evidence does not apply to an input; whether groups of unequal size are paired)
_ORDER: tuple[tuple[Callable[[_Input], Hashable | None], bool], ...] = (
    (lambda i: (i.stack, i.rank) if i.stack else None, False),
    (lambda i: (i.stack, i.shape) if i.stack else None, True),
    (lambda i: i.shape if not i.stack else None, True),
    (lambda i: (i.stack, i.rank), True),
    (lambda i: (i.stack, i.shape.dims), True),
    (lambda i: i.shape, True),
)


def _pair_groups(
    left: list[_Input], right: list[_Input], key: Callable[[_Input], Hashable | None], *, uneven: bool, pairs: Pairs
) -> tuple[list[_Input], list[_Input]]:
    """Pair inputs of equal key; return those that are left."""
    groups: dict[Hashable, tuple[list[_Input], list[_Input]]] = defaultdict(lambda: ([], []))
    for side, inputs in enumerate((left, right)):
        for one in inputs:
            value = key(one)
            if value is not None:
                groups[value][side].append(one)
    taken: tuple[set[int], set[int]] = (set(), set())
    for ours, theirs in groups.values():
        if ours and theirs and (uneven or len(ours) == len(theirs)):
            for i, j in _pair_group(ours, theirs):
                pairs.append((i.node, j.node))
                taken[0].add(i.node)
                taken[1].add(j.node)
    return [i for i in left if i.node not in taken[0]], [j for j in right if j.node not in taken[1]]


def _pair_group(ours: list[_Input], theirs: list[_Input]) -> list[tuple[_Input, _Input]]:
    """Pair within one group: equal context in the graph first, then equal type, then equal use, then by order."""
    result: list[tuple[_Input, _Input]] = []
    keys: list[Callable[[_Input], Hashable]] = [lambda i: (i.context, i.shape), lambda i: i.context]
    if sorted(i.shape for i in ours) == sorted(j.shape for j in theirs):
        keys.append(lambda i: i.shape)
    elif len(ours) != len(theirs):
        keys += [lambda i: (i.usage, i.shape), lambda i: i.usage]
    keys.append(lambda _: 0)
    same_length = len(ours) == len(theirs)
    for key in keys:
        if same_length:
            # Many inputs look alike (the state of equal layers): where nothing speaks against it, the order decides.
            result += [(i, j) for i, j in zip(ours, theirs, strict=True) if key(i) == key(j)]
            ours, theirs = _rest(ours, theirs, result)
        waiting: dict[Hashable, list[_Input]] = defaultdict(list)
        for j in reversed(theirs):
            waiting[key(j)].append(j)
        for i in ours:
            alike = waiting.get(key(i))
            if alike:
                result.append((i, alike.pop()))
        ours, theirs = _rest(ours, theirs, result)
    return result


def _rest(
    ours: list[_Input], theirs: list[_Input], pairs: list[tuple[_Input, _Input]]
) -> tuple[list[_Input], list[_Input]]:
    """Inputs that are in no pair yet."""
    done = ({i.node for i, _ in pairs}, {j.node for _, j in pairs})
    return [i for i in ours if i.node not in done[0]], [j for j in theirs if j.node not in done[1]]


def _inputs(form: Form) -> list[_Input]:
    """Parameters in order of their number, each with its context: all that is computed from it (a hash, with shapes
    and constants left out).
    """
    tokens = form.tokens(Erase.STRUCTURE)
    contexts = [0] * len(form)
    result = _result_tuple(form)
    for node in range(len(form) - 1, -1, -1):
        inputs = form.operands[node]
        if node == result:
            for operand in inputs:
                contexts[operand] += 1
        elif inputs:
            context = (tokens[node], contexts[node])
            # Sums make the order of users irrelevant.
            for slot, operand in enumerate(inputs):
                contexts[operand] += hash((context, slot))
    found = []
    for node, number in form.parameters:
        instruction = form.instruction(node)
        stack = stack_token(instruction.metadata.stack)
        found.append(_Input(node, number, instruction.shape, stack, 0, contexts[node]))
    return sorted(found, key=lambda one: one.number)


def _with_usage(form: Form, inputs: list[_Input]) -> list[_Input]:
    """The same inputs with a hash of the instructions that use them directly."""
    usages = dict.fromkeys((one.node for one in inputs), 0)
    result = _result_tuple(form)
    for node, operands in enumerate(form.operands):
        if node != result:
            for slot, operand in enumerate(operands):
                if operand in usages:
                    kind = form.kind_table[form.kinds[node]]
                    usage = local_token(kind.opcode, kind.shape.dtype, form.origins[node])
                    usages[operand] += hash((usage, slot))
    return [one._replace(usage=usages[one.node]) for one in inputs]


def _result_tuple(form: Form) -> int:
    """The node of the result tuple, which says nothing about what its parts are; -1 when the result is no tuple."""
    return form.root if form.kind_table[form.kinds[form.root]].opcode == "tuple" else -1
