"""The nearest earlier relative of a graph among thousands, without comparing it with all of them in full.

Owns signatures (a few kilobytes a graph) and an index of bounded size. A graph is first looked up among those of equal
structure; only when there are none is it compared with one representative of each structure. Leaves what a relative is
good for (families, thresholds) to ``analysis``.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xla_insight.graph.model import Graph, Instruction
from xla_insight.graph.tokens import exact_token, local_token, place_token, stable

BUCKETS = 1024
MAX_STRUCTURES = 512
MAX_MEMBERS = 48
CLEARLY_CLOSER = 2
"""So many times fewer inputs and operations by place must differ for a graph to be nearer whatever its inputs say."""

Sketch = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What is compared of a graph instead of the graph: counts of kinds of instructions, folded into 1,024 buckets.

    ``structure`` identifies the types of the inputs (sizes left out) and all operations (sizes and lines left out).
    ``opcodes`` counts (opcode, element type), ``operations`` the same with the framework's operation, ``lines`` with
    the innermost line too; ``exact`` counts opcodes with sizes, attributes and values; ``inputs`` (element type, rank)
    of inputs. ``knows``: what its metadata say, lines (2), operations (1) or nothing (0).
    """

    structure: int
    instructions: int
    knows: int
    inputs: Sketch
    opcodes: Sketch
    operations: Sketch
    lines: Sketch
    exact: Sketch

    @property
    def has_stacks(self) -> bool:
        """Whether any instruction knows its line."""
        return self.knows == 2

    def common(self, other: Signature) -> tuple[Sketch, Sketch]:
        """The finest sketches of both that can be compared."""
        if min(self.knows, other.knows) == 2:
            return self.lines, other.lines
        if min(self.knows, other.knows) == 1:
            return self.operations, other.operations
        return self.opcodes, other.opcodes


class Relative(NamedTuple):
    """A relative: the key it was added with, how many inputs, operations and exact instructions differ
    (those only one of them has, summed over both sides), and the share
    of operations that both have (0 to 1; with lines when both graphs know theirs).
    """

    key: Hashable
    inputs_differ: int
    operations_differ: int
    exact_differ: int
    similarity: float


def signature(graph: Graph) -> Signature:
    """The signature of a graph; 10,000 instructions take about 10 ms."""
    bare: Counter[int] = Counter()
    plain: Counter[int] = Counter()
    lined: Counter[int] = Counter()
    exact: Counter[int] = Counter()
    origins: dict[int, tuple[int, int]] = {}
    for instruction, count in _distinct(graph.instructions):
        metadata = instruction.metadata
        origin = origins.get(id(metadata))
        if origin is None:
            origin = origins[id(metadata)] = (stable(metadata.op_type), place_token(metadata))
        bare[local_token(instruction.opcode, instruction.shape.dtype, 0)] += count
        plain[local_token(instruction.opcode, instruction.shape.dtype, origin[0])] += count
        lined[local_token(instruction.opcode, instruction.shape.dtype, origin[1])] += count
        exact[exact_token(instruction)] += count
    inputs = Counter(stable(p.shape.dtype, len(p.shape.dims)) for p in graph.parameters)
    structure = stable(sorted(plain.items()), sorted(inputs.items()))
    sketches = [_sketch(counts) for counts in (inputs, bare, plain, lined, exact)]
    return Signature(structure, len(graph.instructions), _knowledge(graph), *sketches)


def _knowledge(graph: Graph) -> int:
    if graph.has_stacks:
        return 2
    return int(any(instruction.metadata.op_type for instruction in graph.instructions))


def nearest(graphs: Sequence[Graph], candidate: Graph) -> Relative | None:
    """The nearest relative of a graph; ``key`` is its position in ``graphs`` (latest on a tie). None without graphs.

    For many candidates keep a ``RelativeIndex`` instead: it reads each graph once.
    """
    index = RelativeIndex()
    for position, graph in enumerate(graphs):
        index.add(position, signature(graph))
    return index.nearest(signature(candidate))


class RelativeIndex:
    """Graphs seen so far. Time of ``add`` and ``nearest`` does not grow with their number; memory is bounded.

    Of each structure the latest 48 graphs are kept, and the 512 structures that were seen last.
    """

    def __init__(self) -> None:
        self._structures: OrderedDict[int, deque[tuple[Hashable, Signature]]] = OrderedDict()

    def add(self, key: Hashable, added: Signature) -> None:
        """Remember a graph."""
        members = self._structures.setdefault(added.structure, deque(maxlen=MAX_MEMBERS))
        members.append((key, added))
        self._structures.move_to_end(added.structure)
        if len(self._structures) > MAX_STRUCTURES:
            self._structures.popitem(last=False)

    def nearest(self, wanted: Signature) -> Relative | None:
        """The graph with the fewest differing inputs, then operations, then exact instructions; latest on a tie.

        Unless another is clearly closer in inputs and places of operations together.
        """
        members = self._structures.get(wanted.structure)
        if members is not None:
            return _best(members, wanted)
        return _best([members[-1] for members in self._structures.values()], wanted)


def _best(members: Iterable[tuple[Hashable, Signature]], wanted: Signature) -> Relative | None:
    known = list(members)
    if not known:
        return None
    common = [wanted.common(other) for _, other in known]
    places = np.array([int(np.abs(ours - theirs).sum()) for ours, theirs in common])
    inputs = _distances([other.inputs for _, other in known], wanted.inputs)
    operations = _distances([other.opcodes for _, other in known], wanted.opcodes)
    exact = _distances([other.exact for _, other in known], wanted.exact)
    # Graphs that know less can be told apart less: of two that are as near, take the one that says more.
    unknown = [wanted.knows - other.knows for _, other in known]
    order = np.lexsort((-np.arange(len(known)), places + unknown, exact, operations, inputs))
    best = int(order[0])
    if len({min(other.knows, wanted.knows) for _, other in known}) == 1:
        # A graph without the optimizer's state may have nearly as many inputs as one with another branch. Where their
        # operations come from tells them apart, which cannot be counted together when it is known less well of some.
        whole = inputs + places
        closest = int(np.lexsort((-np.arange(len(known)), whole))[0])
        best = closest if CLEARLY_CLOSER * whole[closest] <= whole[best] else best
    key = known[best][0]
    ours, theirs = common[best]
    union = int(np.maximum(ours, theirs).sum())
    similarity = int(np.minimum(ours, theirs).sum()) / union if union else 1.0
    return Relative(key, int(inputs[best]), int(operations[best]), int(exact[best]), similarity)


def _distances(sketches: list[Sketch], wanted: Sketch) -> Sketch:
    distances: Sketch = np.abs(np.stack(sketches) - wanted).sum(axis=1, dtype=np.int32)
    return distances


def _distinct(instructions: tuple[Instruction, ...]) -> list[tuple[Instruction, int]]:
    """Instructions that differ in more than operands and names, each with its count."""
    counts: dict[tuple[object, ...], list[int]] = {}
    for position, i in enumerate(instructions):
        key = (i.opcode, id(i.shape), id(i.attributes), id(i.literal), id(i.metadata))
        found = counts.get(key)
        if found is None:
            counts[key] = [position, 1]
        else:
            found[1] += 1
    return [(instructions[position], count) for position, count in counts.values()]


def _sketch(counts: Counter[int]) -> Sketch:
    sketch = np.zeros(BUCKETS, np.int32)
    if counts:
        buckets = np.fromiter(counts.keys(), np.int64, len(counts)) % BUCKETS
        np.add.at(sketch, buckets, np.fromiter(counts.values(), np.int64, len(counts)).astype(np.int32))
    return sketch
