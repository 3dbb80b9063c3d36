"""One function a limit: what it measures, whether it holds, and the sentence with what costs most.

Owns these numbers and words. A check returns nothing when the budget does not ask for it. To add a limit, add its name
to ``facts.budget.LIMITS`` and a function to `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_insight.analysis.findings.fallback import fallback_counts
from xla_insight.analysis.gate.evidence import Evidence
from xla_insight.facts import numbers
from xla_insight.facts.budget import DEFAULT_SLOWDOWN_PCT, CheckedLimit
from xla_insight.facts.report import Finding, Recompile, Site

Check = Callable[[Evidence], list[CheckedLimit]]
_NAMED = 3


def _recompiles(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_recompiles
    if limit is None:
        return []
    after = evidence.budget.after_step
    if after is not None and evidence.no_steps and evidence.report.recompiles:
        sentence = f"recompiles after step {after}: n/a, since no step was marked or found in this run"
        return [CheckedLimit("max_recompiles", limit, None, held=False, sentence=sentence)]
    found = evidence.surprises()
    total = sum(count for _, count in found)
    when = "" if after is None else f" after step {numbers.count(after)}"
    reasons = tuple(_cause(entry, count) for entry, count in found[:_NAMED])
    return [_at_most("max_recompiles", limit, total, f"{numbers.plural(total, 'recompile')}{when}", reasons)]


def _graphs(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_graphs
    if limit is None:
        return []
    total = evidence.report.graphs.distinct
    entries = sorted(evidence.report.recompiles, key=lambda entry: (entry.expected, -entry.count))
    reasons = tuple(_cause(entry, entry.count) for entry in entries[:_NAMED])
    return [_at_most("max_graphs", limit, total, numbers.plural(total, "distinct graph"), reasons)]


def _compile_time(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_compile_s
    if limit is None:
        return []
    seconds = evidence.report.graphs.compile_s
    entries = sorted(evidence.report.recompiles, key=lambda entry: -entry.compile_s)
    reasons = tuple(_cause(entry, entry.count) for entry in entries[:_NAMED] if entry.compile_s)
    text = f"compiling took {numbers.duration(seconds)}"
    held = seconds <= limit
    sentence = f"{text}; the budget is at most {numbers.duration(limit)}"
    return [CheckedLimit("max_compile_s", limit, seconds, held, sentence, () if held else reasons)]


def _reads(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_reads_per_step
    if limit is None:
        return []
    steps = len(evidence.late_steps())
    if not steps:
        after = evidence.budget.after_step
        when = "" if after is None else f" after step {numbers.count(after)}"
        sentence = f"value reads per step: n/a, since this run has no step{when}"
        return [CheckedLimit("max_reads_per_step", limit, None, held=False, sentence=sentence)]
    mean = len(evidence.late_reads()) / steps
    found = [finding for finding in evidence.report.findings if finding.id == "host_sync"]
    reasons = tuple(_finding(finding) for finding in found[:_NAMED])
    text = f"{numbers.significant(mean)} value reads per step"
    return [_at_most("max_reads_per_step", limit, mean, text, reasons)]


def _fallbacks(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_fallbacks
    if limit is None:
        return []
    total = sum(fallback_counts(evidence.tables).values())
    found = [finding for finding in evidence.report.findings if finding.id == "fallback"]
    text = f"{numbers.plural(total, 'operation')} ran on the CPU"
    return [_at_most("max_fallbacks", limit, total, text, tuple(_finding(finding) for finding in found))]


def _overlap(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.min_overlap_pct
    if limit is None:
        return []
    value = evidence.report.time.overlap_pct
    wanted = f"the budget is at least {numbers.percent(limit)}"
    if value is None:
        sentence = f"overlap of host and device was not measured in this run; {wanted}"
        return [CheckedLimit("min_overlap_pct", limit, None, held=False, sentence=sentence)]
    sentence = f"{numbers.percent(value, inferred=True)} of host work is hidden behind the device; {wanted}"
    return [CheckedLimit("min_overlap_pct", limit, value, value >= limit, sentence)]


def _baseline(evidence: Evidence) -> list[CheckedLimit]:
    comparison = evidence.comparison
    if comparison is None:
        return []
    allowed = evidence.budget.max_slowdown_pct
    allowed = DEFAULT_SLOWDOWN_PCT if allowed is None else allowed
    change = comparison.verdict.change_pct
    slower = comparison.verdict.direction == "slower" and change is not None and change > allowed
    sentence = f"{comparison.verdict.summary.rstrip('.')}; allowed are {numbers.percent(allowed)}"
    step = CheckedLimit("max_slowdown_pct", allowed, change, not slower, sentence)
    if comparison.verdict.direction == "unknown":
        step = CheckedLimit("max_slowdown_pct", allowed, None, held=False, sentence=sentence)
    appeared = [cause for cause in comparison.causes if cause.change == "appeared" and cause.what == "recompile"]
    total = sum(cause.now_count for cause in appeared)
    what = numbers.plural(total, "recompile")
    text = f"{what} of {numbers.plural(len(appeared), 'cause')} that the baseline does not have"
    reasons = tuple(f"{cause.name}: {cause.summary}{_at(cause.site)}" for cause in appeared[:_NAMED])
    return [step, CheckedLimit("new_causes", 0, len(appeared), not appeared, text, reasons)]


CHECKS: tuple[Check, ...] = (_recompiles, _graphs, _compile_time, _reads, _fallbacks, _overlap, _baseline)


def _at_most(name: str, limit: float, value: float, text: str, reasons: tuple[str, ...]) -> CheckedLimit:
    held = value <= limit
    sentence = f"{text}; the budget is at most {numbers.significant(limit)}"
    return CheckedLimit(name, limit, value, held, sentence, () if held else reasons)


def _cause(entry: Recompile, count: int) -> str:
    return f"{numbers.count(count)} × {entry.cause}: {entry.summary}{_at(entry.user_site or entry.site)}"


def _finding(finding: Finding) -> str:
    return f"{finding.id}: {finding.summary}{_at(finding.user_site or finding.site)}"


def _at(site: Site | None) -> str:
    """The line itself, as it was when recorded."""
    if site is None:
        return ""
    source = site.source.strip()
    return f" [{site.file}:{site.line}{': ' + source if source else ''}]"
