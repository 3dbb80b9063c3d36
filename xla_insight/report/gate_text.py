"""What came of a check as lines: one a broken limit, with what costs most behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_insight.facts import numbers
from xla_insight.facts.budget import CheckedLimit, GateResult
from xla_insight.report.text import plain_line


def gate_lines(result: GateResult) -> Iterator[str]:
    """One line for each broken limit, or, when all hold, a row for each with what was measured; then the notes."""
    for checked in result.broken:
        reasons = f" | {'; '.join(checked.reasons)}" if checked.reasons else ""
        yield plain_line(f"broken: {checked.name}: {checked.sentence}{reasons}")
    if not result.broken:
        yield f"{numbers.plural(len(result.limits), 'limit')} held"
        yield from _table(result.limits)
    for note in result.notes:
        yield plain_line(f"note: {note}")


def _table(limits: Sequence[CheckedLimit]) -> Iterator[str]:
    rows = [("limit", "measured", "allowed")]
    rows += [(checked.name, plain_line(checked.measured), checked.allowed) for checked in limits]
    widths = [max(len(row[n]) for row in rows) for n in range(2)]
    for name, measured, allowed in rows:
        yield f"  {name.ljust(widths[0])}  {measured.ljust(widths[1])}  {allowed}"
