"""What a person may name to have explained: a step or a graph; and which compiles of the report that means.

Owns the reading of such names and the one sentence that says what exists when a name fits nothing. Leaves comparing
graphs to ``explanation``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from xla_insight.errors import UsageError
from xla_insight.facts import numbers
from xla_insight.facts.report import Member, Recompile, Report

_NAMED = 8
_STEP = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class Target:
    """One compile: the entry of the report it belongs to, and which of its members it is."""

    entry: Recompile
    member: Member


def all_targets(report: Report) -> list[Target]:
    """Every compile of the report, in order of process and step."""
    found = [Target(entry, member) for entry in report.recompiles for member in entry.members]
    return sorted(found, key=lambda t: (t.member.process, -1 if t.member.step is None else t.member.step))


def find_targets(report: Report, wanted: str, others: Iterable[str] = ()) -> list[Target]:
    """The compiles that ``wanted`` names: those of a step, or those of the graph whose hash begins so.

    A number is a step of the run when it has so many, else the beginning of a hash. ``others``: graphs that ran, also
    without being compiled. Raises UsageError that says what there is.
    """
    targets = all_targets(report)
    if not targets:
        raise UsageError("nothing was compiled in this run, so there is nothing to explain")
    text = wanted.strip()
    if _STEP.fullmatch(text):
        hits = [target for target in targets if target.member.step == int(text)]
        if hits:
            return hits
        if int(text) < report.steps.count:
            raise UsageError(f"nothing was compiled in step {text}; {_steps(targets)}")
    graphs = {target.member.graph for target in targets if target.member.graph is not None}
    fitting = matching_graphs(graphs, text)
    if len(fitting) == 1:
        return [target for target in targets if target.member.graph == fitting[0]]
    if fitting:
        raise UsageError(_ambiguous(text, fitting))
    if _STEP.fullmatch(text):
        raise UsageError(f"nothing was compiled in step {text}; {_steps(targets)}")
    ran = matching_graphs(others, text)
    if ran:
        raise UsageError(f"graph {numbers.short_hash(ran[0])} ran but was not compiled in this run; {_steps(targets)}")
    raise UsageError(f"no compiled graph begins with {text!r}; {_graphs(graphs)}; {_steps(targets)}")


def find_graph(kept: Iterable[str], wanted: str) -> str:
    """The one graph with stored HLO whose hash begins with ``wanted``. Raises UsageError that says what there is."""
    graphs = set(kept)
    fitting = matching_graphs(graphs, wanted.strip())
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(_ambiguous(wanted, fitting))
    if not graphs:
        raise UsageError("the HLO of no graph was kept in this run, so there is nothing to compare with")
    raise UsageError(f"no graph whose HLO was kept begins with {wanted!r}; {_graphs(graphs)}")


def matching_graphs(graphs: Iterable[str], text: str) -> list[str]:
    """Graphs whose hash begins so (with or without 0x, in any case), sorted; the exact one alone when there is one."""
    prefix = _bare(text)
    if not prefix:
        return []
    found = sorted(graph for graph in set(graphs) if _bare(graph).startswith(prefix))
    exact = [graph for graph in found if _bare(graph) == prefix]
    return exact or found


def _bare(graph: str) -> str:
    return graph.strip().lower().removeprefix("0x")


def _ambiguous(text: str, fitting: list[str]) -> str:
    return f"{numbers.plural(len(fitting), 'graph')} begin with {text!r} ({_listed(fitting)}); give more digits"


def _steps(targets: Iterable[Target]) -> str:
    steps = sorted({target.member.step for target in targets if target.member.step is not None})
    if not steps:
        return "the steps of its compiles are not known, name a graph instead"
    return f"steps that compiled: {_listed([str(step) for step in steps])}"


def _graphs(graphs: Iterable[str]) -> str:
    known = sorted(graphs)
    return f"there are {_listed(known)}" if known else "no graph is known by its hash"


def _listed(names: list[str]) -> str:
    shown = ", ".join(name if len(name) <= 20 else name[:12] for name in names[:_NAMED])
    more = len(names) - _NAMED
    return f"{shown} and {numbers.count(more)} more" if more > 0 else shown
