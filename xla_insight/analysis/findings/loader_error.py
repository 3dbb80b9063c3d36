"""Finding `loader_error`: an exception in a loader thread ended training early, and nothing said so."""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity


def loader_error(context: Context) -> tuple[Finding, ...]:
    """One finding for each exception type, message and place."""
    errors = context.tables["loader_errors"]
    if errors.empty:
        return ()
    found = []
    keyed = errors.assign(message=errors["message"].astype(object).fillna(""), site=errors["site"].fillna(-1))
    for (process, name, message, site), rows in keyed.groupby(
        ["process", "exception", "message", "site"], observed=True
    ):
        place = context.tables.place(int(process), None if site < 0 else site)
        steps = len(context.tables.of("steps", int(process)))
        said = f"{name}: {message}" if message else str(name)
        at = f" at {numbers.where(place.site, place.user_site)}" if place.site else ""
        found.append(
            Finding(
                id="loader_error",
                severity=Severity.CRITICAL,
                site=place.site,
                user_site=place.user_site,
                count=len(rows),
                cost_s=None,
                summary=(
                    f"The data loader failed{at} ({said}); training went on with what was queued and stopped after"
                    f" {numbers.plural(steps, 'step')} as if the data had ended."
                ),
                advice="Fix the error in the loader or the collator; the loss up to here hides that data is missing.",
                details={"exception": str(name), "message": str(message)},
            )
        )
    return tuple(found)
