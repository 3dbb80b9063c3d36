"""One compile explained: its entry, the graph it was compared with, the difference, and both graphs side by side.

Owns fetching, parsing and comparing the two graphs, and the sentence that says why that was not possible. Leaves the
cause itself to ``recompiles``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import Any

from xla_insight.analysis.explain.aligned import OWN, AlignedGraphs, Fold, Mark
from xla_insight.analysis.explain.around import Neighbourhood, neighbourhood
from xla_insight.analysis.explain.targets import Target
from xla_insight.analysis.recompiles.evidence import slice_word
from xla_insight.errors import GraphFormatError
from xla_insight.facts import numbers
from xla_insight.facts.report import Site
from xla_insight.graph.diff import Prepared, compare, prepare
from xla_insight.graph.differences import DimensionMove, GraphDiff
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.model import Frame
from xla_insight.graph.roots import site_of

Fetch = Callable[[str], bytes | None]
"""Gives the stored HLO of a graph, or None."""

MAX_MOVES, MAX_GROUPS = 4, 6


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two graphs compared; ``against`` is the earlier one."""

    against: str
    diff: GraphDiff
    aligned: AlignedGraphs
    around: Neighbourhood | None
    sizes: tuple[int, int]
    """Instructions of the entry computations, before and after."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One compile and what is known of it. ``comparison`` is None when ``missing`` says why."""

    target: Target
    comparison: Comparison | None
    missing: str
    chosen: bool = False
    """Whether the graph to compare with was named by the user."""


def explain(target: Target, fetch: Fetch, against: str | None = None) -> Explanation:
    """Compare the graph of a compile with its nearest earlier relative, or with ``against``."""
    member = target.member
    other = against or member.against
    if member.graph is None:
        return Explanation(target, None, "The graph of this compile has no known hash, so its HLO cannot be found.")
    graphs = [graph for graph in (other, member.graph) if graph is not None]
    texts = {graph: fetch(graph) for graph in graphs}
    absent = [numbers.short_hash(graph) for graph, data in texts.items() if data is None]
    if absent:
        told = f"The HLO of {'graph' if len(absent) == 1 else 'graphs'} {' and '.join(absent)} was not kept"
        return Explanation(target, None, f"{told}, so there is nothing to show side by side.")
    try:
        prepared = [prepare(parse_hlo_proto(texts[graph] or b"")) for graph in graphs]
    except GraphFormatError as error:
        return Explanation(target, None, f"The stored HLO cannot be read ({error}).")
    if other is None:
        return Explanation(target, None, "There is no earlier graph of the same kind to compare it with.")
    return Explanation(target, compared(other, prepared[0], prepared[-1]), "", against is not None)


def compared(name: str, before: Prepared, after: Prepared) -> Comparison:
    """The comparison with an earlier graph called ``name``."""
    diff = compare(before, after)
    aligned = AlignedGraphs(before, after, diff)
    sizes = len(before.graph.instructions), len(after.graph.instructions)
    return Comparison(name, diff, aligned, neighbourhood(aligned), sizes)


def rest_sentence(comparison: Comparison) -> str:
    """What there is beside the root, counted by row: ``79 follow from it; 5 were added; 309 read the same.``"""
    counts = comparison.aligned.counts()
    words = [
        (counts[Mark.CHANGED], "more differs by itself", "more differ by themselves"),
        (counts[Mark.FOLLOWS], "follows from it", "follow from it"),
        (counts[Mark.INSERTED], "is new", "are new"),
        (counts[Mark.REMOVED], "is gone", "are gone"),
        (counts[Mark.EQUAL], "reads the same", "read the same"),
    ]
    told = [f"{numbers.count(n)} {one if n == 1 else many}" for n, one, many in words if n]
    if not told:
        return "There is no other instruction."
    return f"Of the other {numbers.count(len(comparison.aligned) - counts[Mark.ROOT])} instructions: {'; '.join(told)}."


def move_sentences(comparison: Comparison) -> list[str]:
    """The dimensions that moved, those that explain the others first: ``12 → 16 in 79 shapes``."""
    moves = [move for move in comparison.diff.moves if not move.derived] or list(comparison.diff.moves)
    told = [_move(move) for move in moves[:MAX_MOVES]]
    derived = sum(move.derived for move in comparison.diff.moves)
    if derived and told and len(comparison.diff.moves) > derived:
        told.append(f"{numbers.plural(derived, 'more size', 'more sizes')} that follow from them")
    return told


def _move(move: DimensionMove) -> str:
    text = f"{move.before} → {move.after} in {numbers.plural(move.count, 'shape')}"
    if not move.parameters:
        return text
    places = [f"dimension {dimension} of input {number}" for _, number, dimension in move.parameters[:2]]
    more = len(move.parameters) - len(places)
    return f"{text} ({', '.join(places)}{f' and {more} more' if more > 0 else ''})"


def group_sentences(comparison: Comparison) -> list[str]:
    """Added and removed instructions by line: ``added at model.py:31: 14 × aten::sort``."""
    told = []
    for word, groups in (("added", comparison.diff.inserted), ("removed", comparison.diff.removed)):
        for group in groups[:MAX_GROUPS]:
            name = group.op_type.replace("__", "::", 1) or group.opcodes[0][0]
            where = f" at {numbers.place(group.frame.file, group.frame.line)}" if group.frame is not None else ""
            told.append(f"{word}{where}: {numbers.plural(group.count, 'instruction')} of {name}")
        if len(groups) > MAX_GROUPS:
            told.append(f"{word}: {numbers.plural(len(groups) - MAX_GROUPS, 'more group')}")
    return told


def fold_sentence(fold: Fold) -> str:
    """What is folded: ``… 1 204 equal instructions``, ``… 310 that follow and 894 equal``."""
    counts = dict(fold.counts)
    if set(counts) == {Mark.EQUAL}:
        return f"… {numbers.plural(fold.count, 'equal instruction')}"
    words = {Mark.FOLLOWS: "that follow", Mark.INSERTED: "new", Mark.REMOVED: "gone", Mark.CHANGED: "changed"}
    told = [f"{numbers.count(counts[mark])} {words.get(mark, str(mark))}" for mark in (*OWN, Mark.FOLLOWS, Mark.EQUAL)
            if mark in counts]  # fmt: skip
    return f"… {numbers.plural(fold.count, 'instruction')}: {', '.join(told)}"


@dataclass(frozen=True, slots=True)
class RootFacts:
    """The earliest difference in words. ``inferred``: the line is that of a relative or of a user of it."""

    site: Site | None
    inferred: bool
    kind: str
    operation: str
    opcode: str
    before: str
    now: str
    input_name: str = ""
    dimension: int | None = None

    @property
    def said(self) -> str:
        """The operation as a user knows it."""
        return slice_word(self.operation, self.opcode) or self.operation or self.opcode


def sentence_of(explanation: Explanation) -> str:
    """Why this compile happened, in a sentence about it alone; that of all compiles of its cause where it has none.

    Compared with another graph than the nearest relative, how these two differ: the cause was not found between them.
    """
    told = explanation.target.member.summary or explanation.target.entry.summary
    comparison = explanation.comparison
    if comparison is None or comparison.against == explanation.target.member.against:
        return told
    graph = f"Compared with graph {numbers.short_hash(comparison.against)}, as asked:"
    root = root_facts(explanation)
    if root is None:
        return f"{graph} both compute the same."
    return f"{graph} {_how_many_differ(comparison)}; the earliest difference is {_at(root)}."


def other_cause_sentence(explanation: Explanation) -> str:
    """The sentence of the cause when the graphs shown are not those it was found with, else empty."""
    member, comparison = explanation.target.member, explanation.comparison
    if comparison is None or comparison.against == member.against:
        return ""
    told = member.summary or explanation.target.entry.summary
    return told if member.against is None else f"Against graph {numbers.short_hash(member.against)}: {told}"


def _how_many_differ(comparison: Comparison) -> str:
    counts = comparison.aligned.counts()
    differ = sum(count for mark, count in counts.items() if mark != Mark.EQUAL)
    return f"{numbers.count(differ)} of {numbers.plural(len(comparison.aligned), 'instruction')} differ"


def _at(root: RootFacts) -> str:
    return root.said if root.site is None else f"{root.said} at {numbers.place(root.site.file, root.site.line)}"


def root_facts(explanation: Explanation) -> RootFacts | None:
    """The root of this compile as the report tells it; what it does not know is taken from the two graphs.

    Compared with a graph that the user named, the difference of these two.
    """
    told = explanation.target.member.root or explanation.target.entry.root
    reported = None if not told or explanation.chosen else _reported(told)
    if reported is not None and reported.site is not None and explanation.target.member.root and _has_values(reported):
        return reported
    difference = explanation.comparison.diff.root if explanation.comparison is not None else None
    if difference is None:
        return reported
    spot = difference.after or difference.before
    own = RootFacts(
        _site_of(difference.stack), difference.stack_inferred, str(difference.kind),
        difference.op_type.replace("__", "::", 1), spot.instruction.opcode if spot is not None else "",
        difference.before_text, difference.after_text,
    )  # fmt: skip
    if reported is None or reported.site is None:
        return own
    alike = (reported.kind, reported.opcode) == (own.kind, own.opcode)
    names = (reported.input_name, reported.dimension) if alike else ("", None)
    return replace(own, site=reported.site, inferred=reported.inferred, input_name=names[0], dimension=names[1])


def without_indent(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Lines of code without what all of them are indented by."""
    texts = dedent("\n".join(text for _, text in lines)).split("\n")
    return [(number, text) for (number, _), text in zip(lines, texts, strict=False)]


def _has_values(root: RootFacts) -> bool:
    return bool(root.before or root.now)


def _reported(told: Mapping[str, Any]) -> RootFacts:
    place = told.get("site") or {}
    known = bool(place.get("file"))
    site = (
        Site(str(place["file"]), int(place.get("line") or 0), str(place.get("function") or ""),
             str(place.get("source") or "")) if known else None
    )  # fmt: skip
    kind, operation, opcode, before, now, name = (
        str(told.get(key) or "") for key in ("kind", "operation", "opcode", "before", "now", "input")
    )
    dimension = told.get("dimension")
    return RootFacts(
        site, bool(told.get("inferred")), kind, operation, opcode, before, now, name,
        dimension if isinstance(dimension, int) else None,
    )  # fmt: skip


def _site_of(stack: tuple[Frame, ...]) -> Site | None:
    frame = site_of(stack)
    return None if frame is None else Site(frame.file, frame.line, frame.function)
