"""An explained compile for a terminal: the sentence, the root with its lines of code, the change to make, the rest.

Owns layout, and the two graphs beside each other as one column of text. Shows the sentences of ``analysis`` unchanged;
text from a recording is plain text, never markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from rich.console import Group, RenderableType
from rich.text import Text

from xla_insight.analysis.explain.aligned import Fold, Mark, Row
from xla_insight.analysis.explain.explanation import (
    Comparison,
    Explanation,
    RootFacts,
    fold_sentence,
    group_sentences,
    move_sentences,
    other_cause_sentence,
    rest_sentence,
    root_facts,
    sentence_of,
    without_indent,
)
from xla_insight.analysis.explain.notation import Part
from xla_insight.facts import numbers
from xla_insight.facts.report import Report
from xla_insight.report.text import SHAPES, STYLES, hanging, plain_line, write_parts

Snippet = Callable[[str, int], Sequence[tuple[int, str]]]
"""Lines of code around one, as (number, text); empty when they were not recorded."""

MOST_IN_FULL = 5
_LABEL = "        "
_SIGNS = {Mark.INSERTED: "+", Mark.REMOVED: "-"}
_ROW_STYLES = {Mark.INSERTED: "green", Mark.REMOVED: "red", Mark.FOLLOWS: "dim", Mark.EQUAL: "dim"}


def print_explanations(
    found: Sequence[Explanation], report: Report, snippet: Snippet, stream: TextIO, *, diff: bool = False
) -> None:
    """Write each explained compile; the graphs beside each other when ``diff``. Beyond a few, only how many more."""
    parts: list[RenderableType] = []
    for number, one in enumerate(found[:MOST_IN_FULL]):
        parts += [Text("")] if number else []
        parts += _sections(one, report, snippet, diff)
    if len(found) > MOST_IN_FULL:
        more = numbers.plural(len(found) - MOST_IN_FULL, "more compile")
        names = _names(found[MOST_IN_FULL:])
        parts.append(Text(f"\nand {more} of this step; name a graph to see one of them: {names}"))
    write_parts(parts, stream)


def _names(found: Sequence[Explanation]) -> str:
    graphs = [one.target.member.graph for one in found if one.target.member.graph]
    return ", ".join(plain_line(numbers.short_hash(graph)) for graph in graphs[:8]) or "their hashes are not known"


def _sections(one: Explanation, report: Report, snippet: Snippet, diff: bool) -> Iterator[RenderableType]:
    entry, comparison = one.target.entry, one.comparison
    yield Text(_title(one))
    yield Text(plain_line(sentence_of(one)), style="bold")
    yield _cause(one, report)
    cause_sentence = other_cause_sentence(one)
    if cause_sentence:
        yield hanging("        ", Text(plain_line(cause_sentence)), "dim")
    root = root_facts(one)
    if root is not None:
        yield Text("")
        yield from _root(root, one, snippet)
    if entry.advice:
        yield hanging("Change  ", Text(plain_line(entry.advice)), "bold")
    if comparison is None:
        yield hanging("Graphs  ", Text(plain_line(one.missing)), "dim")
        return
    yield from _rest(comparison)
    if diff:
        yield Text("")
        yield from _listing(comparison)


def _title(one: Explanation) -> str:
    member = one.target.member
    where = "no step" if member.step is None else f"step {numbers.count(member.step)}"
    graph = f"graph {plain_line(member.graph)}" if member.graph else "graph not known"
    against = one.comparison.against if one.comparison is not None else member.against
    text = f"{where} · {graph} · compiled in {numbers.duration(member.compile_s)}"
    return text if against is None else f"{text}\ncompared with graph {plain_line(against)}"


def _cause(one: Explanation, report: Report) -> RenderableType:
    entry = one.target.entry
    word = "expected" if entry.expected else str(entry.severity)
    cost = numbers.duration(entry.compile_s)
    if report.time.wall_s > 0:
        cost += f", {numbers.share(entry.compile_s, report.time.wall_s * max(1, report.run.processes))}"
    return Text.assemble(
        (f"{SHAPES[entry.severity]} {word}", STYLES[entry.severity]), "  ", (plain_line(entry.cause), "bold"),
        f"  {numbers.plural(entry.count, 'compile')} of this cause  {cost}",
    )  # fmt: skip


def _root(root: RootFacts, one: Explanation, snippet: Snippet) -> Iterator[RenderableType]:
    """The earliest difference: now and before, then the line with what stands around it."""
    name = f"{root.input_name} " if root.input_name else ""
    what = f"{name}{root.said}"
    if root.site is not None:
        mark = "~" if root.inferred else ""
        what += f" at {mark}{numbers.place(root.site.file, root.site.line)}"
    yield hanging("Root    ", Text(plain_line(what)), "bold")
    for word, text, style in (("now", root.now, "green"), ("before", root.before, "red")):
        if text:
            yield hanging(f"{_LABEL}{word:<8}", Text(plain_line(text), style=style), "dim")
    if root.site is not None:
        lines = list(snippet(root.site.file, root.site.line))
        source = root.site.source or _recorded(one, root)
        for number, text in without_indent(lines or ([(root.site.line, source)] if source.strip() else [])):
            here = number == root.site.line
            label = f"{_LABEL}{'▸' if here else ' '}{number:>6} │ "
            style = "bold" if here else "dim"
            yield hanging(label, Text(plain_line(text), style=style, no_wrap=True, overflow="ellipsis"), "dim")
    if root.inferred:
        yield hanging(_LABEL, Text("~ the line of a relative: this graph was traced without lines"), "dim")


def _recorded(one: Explanation, root: RootFacts) -> str:
    """The text of the root's line when it is a line of the entry."""
    for site in (one.target.entry.site, one.target.entry.user_site):
        if site is not None and root.site is not None and (site.file, site.line) == (root.site.file, root.site.line):
            return site.source
    return ""


def _rest(comparison: Comparison) -> Iterator[RenderableType]:
    yield hanging("Rest    ", Text(rest_sentence(comparison)), "bold")
    for sentence in (*move_sentences(comparison), *group_sentences(comparison)):
        yield hanging(_LABEL, Text(plain_line(sentence)))


def _listing(comparison: Comparison) -> Iterator[RenderableType]:
    """Both graphs as one text: what only one has is marked, what differs is written twice."""
    digits = len(str(len(comparison.aligned)))
    blocks = comparison.aligned.blocks()
    for block in blocks:
        yield _fold(block, digits) if isinstance(block, Fold) else _row(block, digits)
    merged = comparison.aligned.merged
    if any(merged):
        yield Text(f"Left out: {numbers.count(merged[0])} instructions before and {numbers.count(merged[1])} now that"
                   " repeat another one or that nothing uses.", style="dim")  # fmt: skip
    if any(isinstance(block, Fold) and block.holds_differences for block in blocks):
        yield Text("Some differences are folded above; the app shows all of them.", style="dim")


def _fold(fold: Fold, digits: int) -> RenderableType:
    return hanging(" " * (digits + 4), Text(fold_sentence(fold)), "dim")


def _row(row: Row, digits: int) -> RenderableType:
    style = _ROW_STYLES.get(row.mark, "")
    where = _where(row)
    twice = row.before and row.after and row.before != row.after
    lines: list[RenderableType] = []
    if row.before and (twice or row.mark is Mark.REMOVED):
        lines.append(_line(f"- {row.number:>{digits}}  ", row.before, style, "red", "" if twice else where))
    if row.after:
        sign = "+" if twice else _SIGNS.get(row.mark, " ")
        lines.append(_line(f"{sign} {row.number:>{digits}}  ", row.after, style, "green", where))
    return Group(*lines)


def _line(label: str, pieces: Sequence[Part], style: str, differs: str, where: str) -> RenderableType:
    text = Text()
    for piece in pieces:
        text.append(plain_line(piece.text), style=f"bold {differs}" if piece.differs else style)
    if where:
        text.append(f"   {where}", style="dim")
    return hanging(label, text, style)


def _where(row: Row) -> str:
    words = ["◀ root"] if row.mark is Mark.ROOT else []
    if row.inside:
        words.append(f"inside {plain_line(row.inside)}")
    if row.site is not None:
        words.append(("~" if row.inferred else "") + plain_line(numbers.place(row.site.file, row.site.line)))
    return " ".join(words)
