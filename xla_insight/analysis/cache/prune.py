"""Cleaning up a cache: what goes and why, what it costs to build that again, and the deleting itself.

Owns the choice and the care: a plan deletes nothing, a cache in use is refused, only files of entries are deleted, and
only while they are what was listed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from xla_insight.analysis.cache import Cache, recently_used_last
from xla_insight.analysis.cache.layouts import without_collection
from xla_insight.errors import UsageError
from xla_insight.facts import numbers
from xla_insight.facts.cache import Entry, JoinedEntry, PrunePlan, PruneResult, State

MAX_TOLD = 100
_WORDS = {State.ORPHAN: "no recorded run has it", State.OTHER_ENVIRONMENT: "of another version"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to delete: an entry goes when one of these applies."""

    older_than_s: float | None = None
    """Not used (or, where that is not known, not written) for this long."""
    max_size: int | None = None
    """Least recently used entries go until the rest is at most this many bytes."""
    states: frozenset[State] = frozenset()

    @property
    def anything(self) -> bool:
        """Whether any reason is given."""
        return bool(self.states) or self.older_than_s is not None or self.max_size is not None


def plan_prune(cache: Cache, wanted: Wanted) -> PrunePlan:
    """What would go. Raises UsageError when no reason is given, or orphans are asked for without any run to know by."""
    if not wanted.anything:
        raise UsageError("say what to delete: --older-than 30d, --max-size 10GB, or --state orphan")
    if State.ORPHAN in wanted.states and not cache.usage.runs:
        raise UsageError("without recorded runs every entry would be an orphan; name them with --runs")
    with without_collection():
        reasons = _reasons(cache.entries, wanted)
        if wanted.max_size is not None:
            _shrink(cache, wanted.max_size, reasons)
        chosen = [joined for joined in cache.entries if joined.entry.name in reasons]
        costs = [joined.compile_s for joined in chosen if joined.compile_s is not None]
        size = sum([joined.entry.size for joined in chosen])
    return PrunePlan(
        path=cache.folder.path,
        chosen=tuple(chosen),
        reasons=reasons,
        size=size,
        rebuild_s=sum(costs) if costs else None,
        unknown_costs=len(chosen) - len(costs),
        kept=len(cache.entries) - len(chosen),
        kept_size=sum([entry.size for entry in cache.listing.entries]) - size,
        in_use=cache.in_use,
    )


def _reasons(entries: Sequence[JoinedEntry], wanted: Wanted) -> dict[str, str]:
    """Entry name -> why it goes by its state or its age."""
    now, reasons = time.time(), {}
    oldest = -math.inf if wanted.older_than_s is None else now - wanted.older_than_s
    states = wanted.states
    words: dict[int, str] = {}  # ages are told in whole units: of a million sentences few are different
    for joined in entries:
        entry, state = joined.entry, joined.state
        if states and state in states:
            reasons[entry.name] = _WORDS.get(state, str(state))
        elif entry.modified_unix_s < oldest:
            known = entry.used_unix_s is not None or joined.loaded_unix_s is not None
            last_use = joined.last_use_unix_s if known else entry.modified_unix_s
            if last_use < oldest:
                unused_s = int(now - last_use)
                unused_s -= unused_s % 60 if unused_s >= 60 else 0
                if unused_s not in words:
                    words[unused_s] = f"not used for {numbers.age(unused_s)}"
                reasons[entry.name] = words[unused_s]
    return reasons


def _shrink(cache: Cache, max_size: int, reasons: dict[str, str]) -> None:
    left = sum(joined.entry.size for joined in cache.entries if joined.entry.name not in reasons)
    for joined in recently_used_last(cache.entries):
        if left <= max_size:
            return
        if joined.entry.name not in reasons:
            reasons[joined.entry.name] = "least recently used"
            left -= joined.entry.size


def prune(cache: Cache, plan: PrunePlan) -> PruneResult:
    """Delete what a plan chose. Raises UsageError when the cache is in use."""
    if plan.in_use is not None:
        raise UsageError(f"{plan.path} is in use ({plan.in_use}); nothing was deleted")
    with without_collection():
        return _deleted(cache, plan)


def _deleted(cache: Cache, plan: PrunePlan) -> PruneResult:
    deleted = size = 0
    skipped: list[str] = []
    remove, fact = cache.folder.remove, cache.listing.fact
    for joined in plan.chosen:
        entry = joined.entry
        if entry.parts:
            why = _remove_parts(cache, entry)
        else:
            left = remove(entry.name, fact(entry, entry.name))
            why = None if left is None else f"{entry.name}: {left}"
        if why is None:
            deleted, size = deleted + 1, size + entry.size
        else:
            skipped.append(why)
    return PruneResult(deleted, size, tuple(skipped[:MAX_TOLD]))


def _remove_parts(cache: Cache, entry: Entry) -> str | None:
    """Delete an entry of several files; None, or which of them was left and why."""
    # The mark that an entry is whole goes first: what is interrupted half-way is seen as torn, and never loaded.
    for file in sorted(entry.parts, key=lambda name: not name.endswith(".done")):
        why = cache.folder.remove(file, cache.listing.fact(entry, file))
        if why is not None:
            return f"{file}: {why}"
    if "/" in entry.parts[0]:
        cache.folder.remove_folder(entry.parts[0].rpartition("/")[0])
    return None
