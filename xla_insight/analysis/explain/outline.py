"""One graph as text, folded by line of code: what a person reads who wants to know what a graph computes.

Owns grouping, search and the bounds of both. Leaves the notation to ``notation`` and the look to surfaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xla_insight.analysis.explain.notation import operation_word, parts, plain, tell
from xla_insight.facts import numbers
from xla_insight.graph.model import Frame, Graph, Instruction
from xla_insight.graph.roots import site_of

MAX_GROUPS, MAX_ROWS = 200, 1_000
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")
_TOP = 5


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction: its place in the graph, its text, and the framework's operation."""

    number: int
    text: str
    operation: str


@dataclass(frozen=True, slots=True)
class Group:
    """Instructions in a row that one line of code made. ``count`` counts all of them, ``lines`` holds those to show."""

    site: Frame | None
    count: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """A graph's text. ``found``: instructions that fit the search (all of them without one); ``shown``: those told."""

    groups: tuple[Group, ...]
    instructions: int
    found: int
    shown: int


def outline(graph: Graph, search: str = "") -> Outline:
    """The entry computation by line of code; with ``search``, only instructions whose text, operation, file or line
    holds all its words (any case). At most `MAX_GROUPS` groups and `MAX_ROWS` instructions are told.
    """
    words = search.lower().split()
    groups: list[Group] = []
    found = shown = 0
    for site, positions in _stretches(graph):
        fitting = [p for p in positions if not words or _fits(graph, p, site, words)]
        found += len(fitting)
        if fitting and len(groups) < MAX_GROUPS and shown < MAX_ROWS:
            lines = tuple(line_of(graph, position) for position in fitting[: MAX_ROWS - shown])
            shown += len(lines)
            groups.append(Group(site, len(fitting), lines))
    return Outline(tuple(groups), len(graph.instructions), found, shown)


def graph_sentences(graph: Graph) -> list[str]:
    """What the graph holds, counted over all its computations: most frequent operations, collectives, custom calls."""
    counts = graph.opcode_counts()
    called = len(graph.computations) - 1
    within = f" in {numbers.plural(called, 'called computation')} and the graph itself" if called else ""
    told = [f"{numbers.plural(graph.instruction_count, 'instruction')}{within}: {_counted(counts.most_common(_TOP))}"]
    collectives = [(opcode, counts[opcode]) for opcode in COLLECTIVES if counts[opcode]]
    if collectives:
        told.append(f"collectives: {_counted(collectives)}")
    custom = Counter(
        (instruction.attributes.get("custom_call_target") or "unnamed").strip('"')
        for computation in graph.computations
        for instruction in computation.instructions
        if instruction.opcode == "custom-call"
    )
    if custom:
        told.append(f"custom calls: {_counted(custom.most_common(_TOP))}")
    sharded = sum(bool(instruction.sharding) for instruction in graph.instructions)
    if sharded:
        told.append(f"{numbers.plural(sharded, 'instruction')} with a sharding annotation")
    if graph.donors:
        told.append(f"{numbers.plural(len(graph.donors), 'input')} whose memory may be reused (donated)")
    return told


def _counted(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{numbers.count(count)} {word}" for word, count in counts)


def line_of(graph: Graph, position: int) -> Line:
    """One instruction of the entry computation."""
    instruction = graph.instructions[position]
    return Line(position, _text(graph, instruction), operation_word(instruction))


def _text(graph: Graph, instruction: Instruction) -> str:
    return plain(parts(tell(graph, instruction, instruction.operands), None, everything=True))


def _stretches(graph: Graph) -> Iterator[tuple[Frame | None, Sequence[int]]]:
    """Positions in a row whose instructions one line made."""
    start, site = 0, None
    for position, instruction in enumerate(graph.instructions):
        own = site_of(instruction.metadata.stack)
        if position and own != site:
            yield site, range(start, position)
            start = position
        site = own
    if graph.instructions:
        yield site, range(start, len(graph.instructions))


def _fits(graph: Graph, position: int, site: Frame | None, words: Sequence[str]) -> bool:
    line = line_of(graph, position)
    place = "" if site is None else f"{site.file}:{site.line} {site.function}"
    told = f"%{position} {line.text} {line.operation} {place}".lower()
    return all(word in told for word in words)
