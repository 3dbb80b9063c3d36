"""One function a limit: what it measures, whether it holds, and the sentence with what costs most.

Owns these numbers and words. A check returns nothing when the budget does not ask for it. To add a limit, add its name
to ``facts.budget.LIMITS`` and a function to `CHECKS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from xla_insight.analysis.findings.fallback import fallback_counts
from xla_insight.analysis.gate.evidence import Evidence
from xla_insight.facts import numbers
from xla_insight.facts.budget import DEFAULT_SLOWDOWN_PCT, CheckedLimit
from xla_insight.facts.comparison import Comparison
from xla_insight.facts.report import Finding, Recompile, Site

Check = Callable[[Evidence], list[CheckedLimit]]
_NAMED = 3


def _recompiles(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_recompiles
    if limit is None:
        return []
    after = evidence.budget.after_step
    when = "" if after is None else f" after step {numbers.count(after)}"
    if after is not None and evidence.no_steps and evidence.report.recompiles:
        why = f"recompiles{when}: n/a, since no step was marked or found in this run"
        return [_not_known("max_recompiles", limit, why, _at_most(limit))]
    found = evidence.surprises()
    total = sum(count for _, count in found)
    measured = f"{numbers.plural(total, 'recompile')}{when}"
    return [_counted("max_recompiles", limit, total, measured, lambda: _causes(evidence, found))]


def _graphs(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_graphs
    if limit is None:
        return []
    total = evidence.report.graphs.distinct
    if evidence.unnamed_executions and total <= limit:
        why = "distinct graphs: n/a, since recording began after the first graph of the process, too late for names"
        return [_not_known("max_graphs", limit, why, _at_most(limit))]
    entries = sorted(evidence.report.recompiles, key=lambda entry: (entry.expected, -entry.count))
    found = [(entry, entry.count) for entry in entries]
    measured = numbers.plural(total, "distinct graph")
    return [_counted("max_graphs", limit, total, measured, lambda: _causes(evidence, found) + _warm(evidence))]


def _compile_time(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_compile_s
    if limit is None:
        return []
    seconds = evidence.report.graphs.compile_s
    entries = sorted(evidence.report.recompiles, key=lambda entry: -entry.compile_s)
    found = [(entry, entry.count) for entry in entries if entry.compile_s]
    allowed = f"at most {numbers.duration(limit)}"
    sentence = f"compiling took {numbers.duration(seconds)}; the budget is {allowed}"
    held = seconds <= limit
    reasons = () if held else _causes(evidence, found)
    measured = f"{numbers.duration(seconds)} compiling"
    return [CheckedLimit("max_compile_s", limit, seconds, held, sentence, reasons, measured, allowed)]


def _reads(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_reads_per_step
    if limit is None:
        return []
    steps = len(evidence.late_steps())
    if not steps:
        after = evidence.budget.after_step
        when = "" if after is None else f" after step {numbers.count(after)}"
        why = f"value reads per step: n/a, since this run has no step{when}"
        return [_not_known("max_reads_per_step", limit, why, _at_most(limit))]
    mean = len(evidence.late_reads()) / steps
    found = [finding for finding in evidence.report.findings if finding.id == "host_sync"]
    measured = f"{numbers.significant(mean)} value reads per step"
    return [_counted("max_reads_per_step", limit, mean, measured, lambda: tuple(map(_finding, found[:_NAMED])))]


def _fallbacks(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.max_fallbacks
    if limit is None:
        return []
    total = sum(fallback_counts(evidence.tables).values())
    found = [finding for finding in evidence.report.findings if finding.id == "fallback"]
    measured = f"{numbers.plural(total, 'operation')} ran on the CPU"
    return [_counted("max_fallbacks", limit, total, measured, lambda: tuple(map(_finding, found)))]


def _overlap(evidence: Evidence) -> list[CheckedLimit]:
    limit = evidence.budget.min_overlap_pct
    if limit is None:
        return []
    value = evidence.report.time.overlap_pct
    allowed = f"at least {numbers.percent(limit)}"
    if value is None:
        why = f"overlap of host and device was not measured in this run; the budget is {allowed}"
        return [_not_known("min_overlap_pct", limit, why, allowed)]
    measured = f"{numbers.percent(value, inferred=True)} of host work is hidden behind the device"
    sentence = f"{measured}; the budget is {allowed}"
    return [CheckedLimit("min_overlap_pct", limit, value, value >= limit, sentence, (), measured, allowed)]


def _baseline(evidence: Evidence) -> list[CheckedLimit]:
    comparison = evidence.comparison
    if comparison is None:
        return []
    return [_step_time(evidence, comparison), _new_causes(evidence, comparison)]


def _step_time(evidence: Evidence, comparison: Comparison) -> CheckedLimit:
    limit = evidence.budget.max_slowdown_pct
    limit = DEFAULT_SLOWDOWN_PCT if limit is None else limit
    verdict = comparison.verdict
    change = verdict.change_pct
    allowed = f"at most {numbers.percent(limit)} longer"
    because = verdict.because.strip()
    told = any(summary in because for _, summary in evidence.told)
    reasons = (because,) if because and not told else ()
    sentence = f"{verdict.summary.removesuffix(verdict.because).rstrip('.')}; the budget is a step that takes {allowed}"
    if verdict.direction == "unknown":
        return _not_known("max_slowdown_pct", limit, sentence, allowed)
    slower = verdict.direction == "slower" and change is not None
    longer = f"a step takes {numbers.percent(change)} longer"
    measured = longer if slower else f"a step is {_NOT_SLOWER[verdict.direction]}"
    held = not (slower and change is not None and change > limit)
    return CheckedLimit("max_slowdown_pct", limit, change, held, sentence, () if held else reasons, measured, allowed)


_NOT_SLOWER = {"faster": "faster", "same": "not slower, beyond noise"}


def _new_causes(evidence: Evidence, comparison: Comparison) -> CheckedLimit:
    appeared = [cause for cause in comparison.causes if cause.change == "appeared" and cause.what == "recompile"]
    total = sum(cause.now_count for cause in appeared)
    what = numbers.plural(total, "recompile") if appeared else "no recompile"
    of = numbers.plural(len(appeared), "cause") if appeared else "a cause"
    measured = f"{what} of {of} that the baseline does not have"
    reasons = tuple(
        _told(evidence, f"{cause.name}", cause.summary, cause.site) for cause in appeared[:_NAMED]
    )  # fmt: skip
    return CheckedLimit("new_causes", 0, len(appeared), not appeared, measured, reasons, measured, "no such cause")


CHECKS: tuple[Check, ...] = (_recompiles, _graphs, _compile_time, _reads, _fallbacks, _overlap, _baseline)


def _counted(
    name: str, limit: float, value: float, measured: str, reasons: Callable[[], tuple[str, ...]]
) -> CheckedLimit:
    held = value <= limit
    allowed = _at_most(limit)
    sentence = f"{measured}; the budget is {allowed}"
    return CheckedLimit(name, limit, value, held, sentence, () if held else reasons(), measured, allowed)


def _not_known(name: str, limit: float, sentence: str, allowed: str) -> CheckedLimit:
    return CheckedLimit(name, limit, None, False, sentence, (), numbers.NOT_MEASURED, allowed)


def _at_most(limit: float) -> str:
    return f"at most {numbers.significant(limit)}"


def _causes(evidence: Evidence, found: Sequence[tuple[Recompile, int]]) -> tuple[str, ...]:
    return tuple(
        _told(evidence, f"{numbers.count(count)} × {entry.cause}", entry.summary, entry.user_site or entry.site)
        for entry, count in found[:_NAMED]
    )


def _warm(evidence: Evidence) -> tuple[str, ...]:
    """Graphs of which no compile was recorded, by the place that cut them."""
    places = Counter(site for _, site in evidence.compiled_before())
    return tuple(
        f"{numbers.count(count)} × compiled before the recording began{_at(site)}"
        for site, count in places.most_common(_NAMED)
    )


def _finding(finding: Finding) -> str:
    return f"{finding.id}: {finding.summary}{_at(finding.user_site or finding.site)}"


def _told(evidence: Evidence, what: str, summary: str, site: Site | None) -> str:
    """A cause in full, and shorter where an earlier limit told it already."""
    key = (what.rpartition(" ")[2], summary)
    if key in evidence.told:
        return f"{what}{_at(site)}, as above"
    evidence.told.add(key)
    return f"{what}: {summary}{_at(site)}"


def _at(site: Site | None) -> str:
    """The line itself, as it was when recorded."""
    if site is None:
        return ""
    source = site.source.strip()
    return f" [{site.file}:{site.line}{': ' + source if source else ''}]"
