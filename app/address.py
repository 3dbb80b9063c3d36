"""The state of a view as an address: what is selected, read from and written to the query of the URL.

Owns the form of the parameters. Anything malformed in an address is ignored rather than refused: a link from someone
else must open. Leaves checking that a run, a step or a graph exists to ``data``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from .ids import Parameter

_INSTANT = re.compile(r"-?\d{1,18}")
_TIME = re.compile(r"(-?\d{1,18})-(-?\d{1,18})")
_STEPS = re.compile(r"\s*(\d{1,12})(?:\s*[-–:]\s*(\d{1,12}))?\s*")


@dataclass(frozen=True, slots=True)
class Address:
    """What a view has selected. ``None``: nothing selected there. ``steps`` are the first and last step, both shown."""

    run: str | None = None
    process: int | None = None
    steps: tuple[int, int] | None = None
    graph: str | None = None
    cause: str | None = None
    sort: str | None = None
    filter: str | None = None
    against: str | None = None
    """The run to compare with."""
    time: tuple[int, int] | None = None
    """A stretch of time in ns of the run, narrower than whole steps can say."""
    gap: int | None = None
    """An instant (ns of the run) in a selected idle gap."""

    @classmethod
    def parse(cls, search: str | None) -> Address:
        """Read a query string (with or without its question mark)."""
        given = dict(parse_qsl((search or "").removeprefix("?"), keep_blank_values=False))
        process = given.get(Parameter.PROCESS, "")
        return cls(
            run=given.get(Parameter.RUN),
            process=int(process) if re.fullmatch(r"\d{1,9}", process) else None,
            steps=parse_steps(given.get(Parameter.STEPS)),
            graph=given.get(Parameter.GRAPH),
            cause=given.get(Parameter.CAUSE),
            sort=given.get(Parameter.SORT),
            filter=given.get(Parameter.FILTER),
            against=given.get(Parameter.AGAINST),
            time=_parse_time(given.get(Parameter.TIME)),
            gap=int(given[Parameter.GAP]) if _INSTANT.fullmatch(given.get(Parameter.GAP, "")) else None,
        )

    @property
    def search(self) -> str:
        """The query string of this view, beginning with a question mark; empty when nothing is selected."""
        fields = {
            Parameter.RUN: self.run,
            Parameter.PROCESS: self.process,
            Parameter.STEPS: format_steps(self.steps),
            Parameter.GRAPH: self.graph,
            Parameter.CAUSE: self.cause,
            Parameter.SORT: self.sort,
            Parameter.FILTER: self.filter,
            Parameter.AGAINST: self.against,
            Parameter.TIME: None if self.time is None else f"{self.time[0]}-{self.time[1]}",
            Parameter.GAP: None if self.gap is None else str(self.gap),
        }
        given = {key.value: value for key, value in fields.items() if value not in (None, "")}
        return f"?{urlencode(given)}" if given else ""

    def of_other_run(self, run: str) -> Address:
        """The same page for another run: steps and graphs of one run mean nothing in another."""
        return Address(run=run, sort=self.sort, against=self.against if self.against != run else None)

    def for_other_page(self) -> Address:
        """What goes along to another page: everything but the state of this page's table."""
        return replace(self, sort=None, filter=None, time=None, gap=None)


def parse_steps(text: str | None) -> tuple[int, int] | None:
    """``100-200`` or ``57`` as first and last step; None when it is neither."""
    match = _STEPS.fullmatch(text or "")
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return (min(first, last), max(first, last))


def _parse_time(text: str | None) -> tuple[int, int] | None:
    match = _TIME.fullmatch(text or "")
    if match is None:
        return None
    begin, end = int(match[1]), int(match[2])
    return (begin, end) if begin < end else None


def format_steps(steps: tuple[int, int] | None) -> str | None:
    """The reverse of `parse_steps`."""
    return None if steps is None else f"{steps[0]}-{steps[1]}"
