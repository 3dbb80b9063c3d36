"""The recompile entries of the report: compiles of one cause at one place, with severity, worst first.

Owns grouping, severity and the promise that counts add up to the number of compiles. Leaves causes to ``rules``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from xla_insight.analysis.recompiles.history import Compile, Family, History
from xla_insight.analysis.recompiles.rules import Rule, rule_for
from xla_insight.facts import numbers
from xla_insight.facts.report import Member, Recompile, Severity, Site

CRITICAL_SHARE = 0.3
"""Share of wall time from which repeated compiles are critical."""
CRITICAL_COUNT = 3
_SEVERITY_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


def recompile_entries(history: History, total: int, wall_s: float | None) -> tuple[Recompile, ...]:
    """Entries whose counts add up to ``total``, the number of compiles that the framework counted.

    Compiles that were counted and left no event are an entry of their own. ``wall_s``, summed over the processes,
    decides what is critical.
    """
    groups: dict[tuple[str, Site | None, Site | None, Rule], list[Compile]] = defaultdict(list)
    for compile_ in history.compiles:
        rule = rule_for(compile_)
        groups[rule.cause, compile_.place.site, compile_.place.user_site, rule].append(compile_)
    entries = [_entry(key[3], members, history, wall_s) for key, members in groups.items()]
    missing = total - len(history.compiles)
    if missing > 0:
        entries.append(_unseen(missing))
    return tuple(sorted(entries, key=lambda e: (_SEVERITY_ORDER.index(e.severity), -e.compile_s, -e.count)))


def _entry(rule: Rule, members: Sequence[Compile], history: History, wall_s: float | None) -> Recompile:
    first = members[0]
    compile_s = sum(m.compile_ns or 0 for m in members) / 1e9
    families = [history.families[key] for key in {m.family for m in members}]
    severity = _severity(rule, len(members), compile_s, families, wall_s)
    return Recompile(
        cause=rule.cause,
        expected=rule.expected,
        severity=severity,
        count=len(members),
        compile_s=compile_s,
        steps=tuple(sorted({m.step for m in members if m.step is not None})),
        site=first.place.site,
        user_site=first.place.user_site,
        trigger=first.trigger,
        summary=rule.summary(members, numbers.where(first.place.site, first.place.user_site)),
        advice="" if severity is Severity.INFO else rule.advice(members),
        root={},
        graphs=tuple(dict.fromkeys(m.graph for m in members if m.graph is not None)),
        members=tuple(map(_member, members)),
    )


def _member(compile_: Compile) -> Member:
    seconds = None if compile_.compile_ns is None else compile_.compile_ns / 1e9
    against = compile_.earlier.graph if compile_.earlier is not None else None
    return Member(compile_.graph, compile_.step, compile_.process, seconds, against)


def _severity(rule: Rule, count: int, compile_s: float, families: Sequence[Family], wall_s: float | None) -> Severity:
    if rule.expected or all(family.bounded_and_reused() for family in families):
        return Severity.INFO
    if count >= CRITICAL_COUNT and wall_s and compile_s >= CRITICAL_SHARE * wall_s:
        return Severity.CRITICAL
    return Severity.WARNING


def _unseen(count: int) -> Recompile:
    return Recompile(
        cause="unknown",
        expected=False,
        severity=Severity.INFO,
        count=count,
        compile_s=0.0,
        steps=(),
        site=None,
        user_site=None,
        trigger="unknown",
        summary=(
            f"{numbers.plural(count, 'compile')} counted by the framework left no event in the recording; how long they"
            " took and where they happened is not known."
        ),
        advice="",
    )
