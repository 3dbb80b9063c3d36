"""The source lines around each place that a report may name, as they are while the program runs.

Owns which lines are worth keeping: those of the user's files and of libraries, not of the framework, each once, in
bounded number. A run can then be read on a machine that has none of the files.
"""

from __future__ import annotations

import linecache

from xla_insight.facts.events import Event, Kind
from xla_insight.record.stacks import is_framework, is_ours

AROUND = 3
"""Lines kept before and after each place."""
MAX_LINES = 20_000
MAX_LENGTH = 300


class Sources:
    """``want`` names a place; ``events`` returns the lines not yet written."""

    def __init__(self) -> None:
        self._wanted: set[tuple[str, int]] = set()
        self._due: dict[str, set[int]] = {}
        self._kept: dict[str, set[int]] = {}
        self._count = 0

    def want(self, file: str, line: int) -> None:
        """A place that may be shown."""
        place = (file, line)
        if place in self._wanted or len(self._wanted) >= MAX_LINES:
            return
        self._wanted.add(place)
        if not is_framework(file) and not is_ours(file):
            self._due.setdefault(file, set()).update(range(max(1, line - AROUND), line + AROUND + 1))

    def events(self, now_ns: int) -> list[Event]:
        """One event for each stretch of consecutive lines."""
        due, self._due = self._due, {}
        found: list[Event] = []
        for file, numbers in due.items():
            kept = self._kept.setdefault(file, set())
            fresh = sorted(numbers - kept)
            if self._count + len(fresh) > MAX_LINES:
                continue
            kept.update(fresh)
            self._count += len(fresh)
            texts = linecache.getlines(file)
            lines = [(number, texts[number - 1].rstrip()[:MAX_LENGTH]) for number in fresh if number <= len(texts)]
            for first, stretch in _stretches(lines):
                found.append(Event(now_ns, None, Kind.SOURCE, name=file, dims=(first,), detail="\n".join(stretch)))
        return found


def _stretches(lines: list[tuple[int, str]]) -> list[tuple[int, list[str]]]:
    found: list[tuple[int, list[str]]] = []
    for number, text in lines:
        if found and found[-1][0] + len(found[-1][1]) == number:
            found[-1][1].append(text)
        else:
            found.append((number, [text]))
    return found
