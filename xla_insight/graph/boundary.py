"""What two graphs exchange with the outside: inputs, outputs, reuse of buffers, sharding.

Owns comparing these for forms that are already aligned. Leaves instructions to ``judge``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xla_insight.graph.align import UNPAIRED, Alignment
from xla_insight.graph.canonical import Form
from xla_insight.graph.differences import ChangedParameter, OutputsChange
from xla_insight.graph.model import Graph, Instruction, Parameter

ParameterPairs = Sequence[tuple[Parameter, Parameter]]


def parameter_of(form: Form, node: int) -> Parameter:
    """The parameter a node stands for."""
    i: Instruction = form.instruction(node)
    return Parameter(i.number, i.shape, i.metadata, i.sharding, form.positions[node])


def unpaired_parameters(form: Form, partners: list[int]) -> tuple[Parameter, ...]:
    """Inputs that the other graph does not have, in order of their number."""
    found = [
        parameter_of(form, node)
        for node, partner in enumerate(partners)
        if partner == UNPAIRED and form.instruction(node).opcode == "parameter"
    ]
    return tuple(sorted(found, key=lambda parameter: parameter.number))


def changed_parameters(pairs: ParameterPairs) -> tuple[ChangedParameter, ...]:
    """Inputs whose element type, rank or dimensions differ."""
    found = []
    for before, after in pairs:
        left, right = before.shape, after.shape
        if (left.dtype, left.dims, left.dynamic) != (right.dtype, right.dims, right.dynamic):
            equal_rank = len(left.dims) == len(right.dims)
            dims = tuple(d for d in range(len(left.dims)) if left.dims[d] != right.dims[d]) if equal_rank else ()
            found.append(ChangedParameter(before, after, dims))
    return tuple(found)


def reordered_parameters(pairs: ParameterPairs) -> tuple[tuple[int, int], ...]:
    """(number before, number after) of inputs whose place among those of both graphs differs."""
    by_before = sorted(pair[0].number for pair in pairs)
    by_after = sorted(pair[1].number for pair in pairs)
    ranks = ({n: r for r, n in enumerate(by_before)}, {n: r for r, n in enumerate(by_after)})
    return tuple((x.number, y.number) for x, y in pairs if ranks[0][x.number] != ranks[1][y.number])


def output_nodes(form: Form) -> list[int]:
    """Nodes whose values are returned, in order."""
    if form.instruction(form.root).opcode == "tuple":
        return list(form.operands[form.root])
    return [form.root]


def compare_outputs(before: Form, after: Form, alignment: Alignment) -> OutputsChange:
    """Returned values that only one graph returns, by position; and whether the common ones stand in another order."""
    ours, theirs = output_nodes(before), output_nodes(after)
    mapped = [alignment.to_after[node] for node in ours]
    left = _minus(mapped, theirs)
    right = _minus(theirs, mapped)
    common = [
        [node for i, node in enumerate(nodes) if i not in gone]
        for nodes, gone in ((mapped, set(left)), (theirs, set(right)))
    ]
    return OutputsChange(
        len(ours), len(theirs), tuple(right), tuple(left), common[0] != common[1],
        tuple(after.instruction(theirs[i]).shape for i in right),
        tuple(before.instruction(ours[i]).shape for i in left),
    )  # fmt: skip


def _minus(nodes: list[int], others: list[int]) -> list[int]:
    """Positions in ``nodes`` that have no partner in ``others`` (a value returned twice counts twice)."""
    left = Counter(others)
    result = []
    for position, node in enumerate(nodes):
        if node != UNPAIRED and left[node] > 0:
            left[node] -= 1
        else:
            result.append(position)
    return result


def compare_donors(graphs: tuple[Graph, Graph], pairs: ParameterPairs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(numbers in the later graph newly donated, numbers in the earlier graph no longer donated), of paired inputs."""
    donors = set(graphs[0].donors), set(graphs[1].donors)
    added = tuple(y.number for x, y in pairs if y.number in donors[1] and x.number not in donors[0])
    removed = tuple(x.number for x, y in pairs if x.number in donors[0] and y.number not in donors[1])
    return added, removed


def aliases_differ(graphs: tuple[Graph, Graph], pairs: ParameterPairs) -> bool:
    """Whether different paired inputs share their buffer with an output."""
    aliased = [{alias.parameter for alias in graph.aliases} for graph in graphs]
    return any((x.number in aliased[0]) != (y.number in aliased[1]) for x, y in pairs)


def compare_shardings(
    graphs: tuple[Graph, Graph], forms: tuple[Form, Form], alignment: Alignment, pairs: ParameterPairs
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sharding annotations (added, removed): of paired instructions and inputs that differ, and of the whole module."""
    texts: tuple[set[str], set[str]] = (set(), set())
    ours, theirs = (_shardings(form) for form in forms)
    to_after, to_before = alignment.to_after, alignment.to_before
    found = [(text, theirs.get(to_after[node], "")) for node, text in ours.items() if to_after[node] != UNPAIRED]
    found += [(ours.get(to_before[node], ""), text) for node, text in theirs.items() if to_before[node] != UNPAIRED]
    found.append((graphs[0].output_sharding, graphs[1].output_sharding))
    modules = graphs[0].parameter_shardings, graphs[1].parameter_shardings
    for x, y in pairs:
        if x.number < len(modules[0]) and y.number < len(modules[1]):
            found.append((modules[0][x.number], modules[1][y.number]))
    for left, right in found:
        if left != right:
            texts[0].add(left)
            texts[1].add(right)
    return tuple(sorted(texts[1] - {""})), tuple(sorted(texts[0] - {""}))


def _shardings(form: Form) -> dict[int, str]:
    instructions = form.computation.instructions
    return {node: instructions[p].sharding for node, p in enumerate(form.positions) if instructions[p].sharding}
