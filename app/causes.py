"""Which entry of the report an address means: a name for every cause, and the compile to show of it.

Owns the names (they are in links, so they say what they mean) and the choice when an address names nothing. Leaves
causes themselves to ``xla_insight.analysis``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xla_insight.analysis.explain.targets import Target
from xla_insight.facts.report import Member, Recompile, Report, Severity, Site


@dataclass(frozen=True, slots=True)
class Chosen:
    """An entry under its name, and the compile of it to show (None: it has none by name)."""

    name: str
    entry: Recompile
    member: Member | None

    @property
    def target(self) -> Target | None:
        """The compile, for `explain`."""
        return None if self.member is None else Target(self.entry, self.member)


def named_entries(report: Report) -> dict[str, Recompile]:
    """Every entry of the report under a name of its own, such as ``input_shape@train.py:31``; dearest first."""
    found: dict[str, Recompile] = {}
    for entry in sorted(report.recompiles, key=lambda e: (-e.compile_s, -e.count, e.cause)):
        site = entry.site
        place = "" if site is None else f"@{site.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{site.line}"
        name, number = f"{entry.cause}{place}", 2
        while name in found:
            name, number = f"{entry.cause}{place}~{number}", number + 1
        found[name] = entry
    return found


def choose(report: Report, cause: str | None, graph: str | None, kept: Iterable[str] = ()) -> Chosen | None:
    """What to show: the named cause, else the one that compiled ``graph``, else the dearest that should be changed.

    A graph that the named cause did not compile wins over it. None when nothing was compiled.
    """
    entries = named_entries(report)
    with_graph = {name: member for name, entry in entries.items() if (member := _member_of(entry, graph)) is not None}
    name = cause if cause in entries and (cause in with_graph or not with_graph) else next(iter(with_graph), None)
    name = name or (cause if cause in entries else _default(entries))
    if name is None:
        return None
    return Chosen(name, entries[name], with_graph.get(name) or _telling_member(entries[name], frozenset(kept)))


def cause_of_graph(report: Report, graph: str) -> Chosen | None:
    """The entry that compiled a graph; None when it was not compiled in this run."""
    chosen = choose(report, None, graph)
    return chosen if chosen is not None and chosen.member is not None and chosen.member.graph == graph else None


def steps_of_cause(report: Report, cause: str, process: int) -> set[int] | None:
    """Steps of a process that compiled for a cause; None when there is no such cause."""
    entry = named_entries(report).get(cause)
    if entry is None:
        return None
    own = {member.step for member in entry.members if member.process == process and member.step is not None}
    return own if entry.members else set(entry.steps)


def place_of(entry: Recompile) -> Site | None:
    """The line to look at: that of the root, else the user's own, else where the graph was cut."""
    told = entry.root.get("site") or {}
    if told.get("file"):
        return Site(str(told["file"]), int(told.get("line") or 0), str(told.get("function") or ""))
    return entry.user_site or entry.site


def cause_word(cause: str) -> str:
    """A cause as words."""
    return cause.replace("_", " ")


def avoidable(entry: Recompile) -> bool:
    """Whether an entry is worth a change."""
    return not entry.expected and entry.severity is not Severity.INFO


def _default(entries: dict[str, Recompile]) -> str | None:
    for wanted in (avoidable, lambda entry: not entry.expected, lambda _entry: True):
        for name, entry in entries.items():
            if wanted(entry):
                return name
    return None


def _member_of(entry: Recompile, graph: str | None) -> Member | None:
    return next((member for member in entry.members if graph and member.graph == graph), None)


def _telling_member(entry: Recompile, kept: frozenset[str]) -> Member | None:
    """The first compile whose graph can be shown beside the one before, rather the one that the sentence is about;
    else the first at all."""
    shown = [member for member in entry.members if member.graph in kept and member.against in kept]
    for member in (*(member for member in shown if member.root == entry.root), *shown):
        return member
    return entry.members[0] if entry.members else None
