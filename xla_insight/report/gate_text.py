"""What came of a check as lines: one a broken limit, with what costs most behind it."""

from __future__ import annotations

from collections.abc import Iterator

from xla_insight.facts import numbers
from xla_insight.facts.budget import GateResult
from xla_insight.report.text import plain_line


def gate_lines(result: GateResult) -> Iterator[str]:
    """One line for each broken limit, or one line that says that all hold; then the notes."""
    for checked in result.broken:
        reasons = f" | {'; '.join(checked.reasons)}" if checked.reasons else ""
        yield plain_line(f"broken: {checked.name}: {checked.sentence}{reasons}")
    if not result.broken:
        held = "; ".join(checked.sentence for checked in result.limits)
        yield plain_line(f"{numbers.plural(len(result.limits), 'limit')} held: {held}")
    for note in result.notes:
        yield plain_line(f"note: {note}")
