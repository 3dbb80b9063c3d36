"""Recompile causes and findings that appeared, went or stayed, matched by what they are and where they happen.

A line number moves with every edit above it, so a place is a file and a function. Owns that match; the sentences are
those of the reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from xla_insight.facts.comparison import CauseChange
from xla_insight.facts.report import Finding, Recompile, Report, Severity, Site

_Key = tuple[str, str, str, str]
_ORDER = ("appeared", "gone", "stayed")


@dataclass(frozen=True, slots=True)
class _Entry:
    key: _Key
    inner: _Key
    """The same by the innermost place: that of a library stays when the script has another name."""
    count: int
    cost_s: float | None
    summary: str
    advice: str
    site: Site | None


def cause_changes(before: Report, now: Report) -> tuple[CauseChange, ...]:
    """Every cause that is not expected and every finding that disturbs, of either run; what appeared comes first."""
    old, new = _grouped(before), _grouped(now)
    left = {groups[0].inner: key for key, groups in old.items() if key not in new}
    for key in [key for key in new if key not in old]:
        same = left.pop(new[key][0].inner, None)
        if same is not None:
            old[key] = old.pop(same)
    changes = [_change(old.get(key), new.get(key)) for key in dict.fromkeys([*new, *old])]
    return tuple(sorted(changes, key=lambda c: (_ORDER.index(c.change), -(c.now_s or c.before_s or 0.0), c.name)))


def _grouped(report: Report) -> dict[_Key, list[_Entry]]:
    groups: dict[_Key, list[_Entry]] = defaultdict(list)
    for entry in _entries(report):
        groups[entry.key].append(entry)
    return groups


def _entries(report: Report) -> Iterable[_Entry]:
    for entry in report.recompiles:
        if not entry.expected:
            yield _entry("recompile", entry.cause, entry, entry.compile_s)
    for finding in report.findings:
        if finding.severity is not Severity.INFO:
            yield _entry("finding", finding.id, finding, finding.cost_s)


def _entry(what: str, name: str, entry: Recompile | Finding, cost_s: float | None) -> _Entry:
    site = entry.user_site or entry.site
    keys = [(what, name, *_place(one)) for one in (site, entry.site)]
    return _Entry(keys[0], keys[1], entry.count, cost_s, entry.summary, entry.advice, site)


def _place(site: Site | None) -> tuple[str, str]:
    return (site.file.replace("\\", "/").rsplit("/", 1)[-1], site.function) if site else ("", "")


def _change(old: list[_Entry] | None, new: list[_Entry] | None) -> CauseChange:
    change = "stayed" if old and new else "appeared" if new else "gone"
    entries = new or old
    assert entries
    main = max(entries, key=lambda entry: (entry.cost_s or 0.0, entry.count))
    return CauseChange(
        what=main.key[0],
        name=main.key[1],
        change=change,
        before_count=sum(entry.count for entry in old or ()),
        now_count=sum(entry.count for entry in new or ()),
        before_s=_cost(old),
        now_s=_cost(new),
        summary=main.summary,
        advice=main.advice if new else "",
        site=main.site,
    )


def _cost(entries: list[_Entry] | None) -> float | None:
    """Their costs together; None when none was measured."""
    known = [entry.cost_s for entry in entries or () if entry.cost_s is not None]
    return sum(known) if known else None
