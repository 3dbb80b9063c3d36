"""The gate: a recorded run held against a budget, one answer a limit.

Owns which number each limit is about and the sentence that says it. A number that the run does not hold breaks its
limit: a check that could not be made never passes. Leaves the names of limits to ``facts.budget``, the comparison with
a baseline to ``compare``, and every output format to ``report``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xla_insight.analysis.gate.checks import CHECKS
from xla_insight.analysis.gate.evidence import Evidence, gather
from xla_insight.facts import numbers
from xla_insight.facts.budget import Budget, CheckedLimit, GateResult

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

__all__ = ["check_evidence", "check_run"]


def check_run(run: Run, budget: Budget) -> GateResult:
    """Hold an open run against a budget. Raises the errors of opening a run, for the baseline."""
    return check_evidence(gather(run, budget))


def check_evidence(evidence: Evidence) -> GateResult:
    """As `check_run`, for a run that is analysed already."""
    limits = [_nothing_ran(evidence)] if evidence.is_empty else []
    limits += [result for check in CHECKS for result in check(evidence)]
    return GateResult(evidence.report.run.path, tuple(limits), tuple(_notes(evidence)))


def _nothing_ran(evidence: Evidence) -> CheckedLimit:
    """An empty run keeps every budget; that is a mistake of the set-up, not good news."""
    sentence = "no graph was compiled or executed while this was recorded, so there is nothing to check"
    return CheckedLimit("recorded", 1, 0, held=False, sentence=sentence, measured="no graph", allowed="at least 1")


def _notes(evidence: Evidence) -> list[str]:
    """What makes the numbers smaller than they were."""
    report = evidence.report
    notes = []
    if report.run.state == "recording":
        notes.append("the run is still being recorded; checked is what is there so far")
    elif report.run.state == "crashed":
        notes.append("the recording ended without an end mark; its last second may be missing")
    if report.data.dropped:
        notes.append(f"{numbers.plural(report.data.dropped, 'event')} not recorded; counts may be too low")
    if report.data.skipped_parts:
        notes.append(f"{numbers.plural(report.data.skipped_parts, 'part')} could not be read; counts may be too low")
    early = evidence.compiled_before(late=True) if evidence.budget.max_recompiles is not None else []
    if early:
        graphs, were = numbers.plural(len(early), "graph"), "was" if len(early) == 1 else "were"
        when = "" if evidence.budget.after_step is None else f" after step {numbers.count(evidence.budget.after_step)}"
        notes.append(
            f"{graphs} that first ran{when} {were} compiled before the recording began (by an earlier test?) and"
            " counted as no recompile; in a process of its own it would be compiled"
        )
    return notes
