"""Real modules for the tests of graphs (see ``fixtures/make_fixtures.py``), and edits of a graph."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path

from xla_insight.graph.canonical import canonicalize
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.model import Computation, Graph, Instruction

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = ("first", "base", "longer", "power", "start", "weight", "extra", "optimized")


def read(name: str) -> bytes:
    return gzip.decompress((FIXTURES / f"{name}.gz").read_bytes())


@cache
def graph(name: str) -> Graph:
    return parse_hlo_proto(read(f"{name}.hlo.pb"))


@cache
def text_graph(name: str) -> Graph:
    return parse_hlo_text(read(f"{name}.txt").decode())


def canonical(graph: Graph) -> Graph:
    """The graph with equal instructions merged and dead ones dropped."""
    form = canonicalize(graph)
    instructions = [form.instruction(node)._replace(operands=operands) for node, operands in enumerate(form.operands)]
    return with_entry(graph, instructions, form.root)


def with_entry(graph: Graph, instructions: list[Instruction], root: int | None = None) -> Graph:
    """The graph with other instructions in its entry computation."""
    entry = Computation(graph.entry.name, tuple(instructions), graph.entry.root if root is None else root)
    return replace(graph, computations=(*graph.computations[:-1], entry))


def with_instruction(graph: Graph, position: int, instruction: Instruction) -> Graph:
    """The graph with one instruction of its entry computation replaced."""
    instructions = list(graph.instructions)
    instructions[position] = instruction
    return with_entry(graph, instructions)


def inserted(graph: Graph, position: int, opcode: str) -> Graph:
    """The graph with a unary operation between the instruction at ``position`` and all its users."""
    old = list(graph.instructions)
    source = old[position]
    fresh = source._replace(name="inserted", opcode=opcode, operands=(position,), literal=None, number=-1, sharding="",
                            called=(), attributes=type(source.attributes)())  # fmt: skip
    moved = [number + (number >= position) for number in range(len(old))]  # users of position now read position + 1
    result = [*old[: position + 1], fresh]
    result += [i._replace(operands=tuple(moved[o] for o in i.operands)) for i in old[position + 1 :]]
    return with_entry(graph, result, graph.entry.root + 1 if graph.entry.root > position else graph.entry.root)


def removed(graph: Graph, position: int) -> Graph:
    """The graph without the instruction at ``position``; its users read its first operand."""
    old = list(graph.instructions)
    heir = old[position].operands[0]
    moved = [heir if number == position else number - (number > position) for number in range(len(old))]
    result = [
        i._replace(operands=tuple(moved[o] for o in i.operands)) for number, i in enumerate(old) if number != position
    ]
    return with_entry(graph, result, moved[graph.entry.root])


def renamed(graph: Graph) -> Graph:
    """The graph with every name changed."""
    computations = tuple(
        Computation(
            f"c{number}", tuple(i._replace(name=f"n{number}.{p}") for p, i in enumerate(c.instructions)), c.root
        )
        for number, c in enumerate(graph.computations)
    )
    return replace(graph, name="other", computations=computations)
