"""Persistent compile caches inspected: what is in them, what they saved, why a run missed them, what can go.

Owns opening a folder and its status; ``layouts`` knows the three kinds of cache, ``usage`` the recorded runs,
``explain`` the reasons of misses, ``prune`` the clean-up and ``memory`` the cache inside the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xla_insight.analysis.cache.files import CacheFolder, CacheNotFoundError, open_cache
from xla_insight.analysis.cache.layouts import Listing, is_whole, list_cache, without_collection
from xla_insight.analysis.cache.occupancy import in_use
from xla_insight.analysis.cache.usage import Usage, join, newest_version
from xla_insight.facts import numbers
from xla_insight.facts.cache import CacheStatus, JoinedEntry, Layout, State

__all__ = ["Cache", "CacheNotFoundError", "cache_status", "inspect_cache"]

MAX_CHECKED_BYTES, MAX_CHECKED_ENTRIES = 1 << 30, 20_000
"""Caches of this machine up to this size are read to see whether entries are whole; in others empty ones are found."""


@dataclass(frozen=True)
class Cache:
    """One folder, listed and joined with recorded runs."""

    folder: CacheFolder
    listing: Listing
    usage: Usage
    entries: list[JoinedEntry]
    in_use: str | None
    notes: tuple[str, ...]


def inspect_cache(place: str, usage: Usage, *, contents: bool = False) -> Cache:
    """List a cache and join it with runs; ``contents``: also look for entries that are cut off.

    Raises CacheNotFoundError, UsageError.
    """
    folder = open_cache(place)
    listing = list_cache(folder)
    notes = [f"not read: {text}" for text in usage.skipped]
    if not usage.runs:
        notes.append("no recorded runs given (--runs), so nothing is known of who used an entry")
    if contents and folder.local is not None:
        if len(listing.entries) <= MAX_CHECKED_ENTRIES and sum(e.size for e in listing.entries) <= MAX_CHECKED_BYTES:
            _find_torn(folder, listing)
        else:
            notes.append("too large to read: entries that are cut off are not found, only empty ones")
    with without_collection():
        entries = list(join(listing.entries, usage, newest_version(listing.entries)))
    return Cache(folder, listing, usage, entries, in_use(folder, listing), tuple(notes))


def cache_status(cache: Cache) -> CacheStatus:
    """The numbers of one folder."""
    entries, listing = cache.entries, cache.listing
    loads = sum(entry.loads for entry in entries)
    # JAX and Neuron load what they wrote on devices where torch_xla cannot.
    own = any(entry.layout is Layout.TORCH_XLA for entry in listing.entries)
    failures = 0 if loads or not own else sum(cache.usage.failed_on(device) for device in cache.usage.failures)
    notes = cache.notes
    if failures:
        devices = ", ".join(sorted(device for device, count in cache.usage.failures.items() if count))
        found = numbers.plural(failures, "entry", "entries")
        notes = (*notes, f"on {devices} no entry was ever loaded, {found} failed to (XLA:CPU never can): nothing saved")
    usable = (
        []
        if failures
        else [e.compile_s for e in entries if e.compile_s is not None and e.state not in (State.TORN, State.FAILED)]
    )
    states = Counter(str(entry.state) for entry in entries)
    times = [entry.modified_unix_s for entry in listing.entries]
    return CacheStatus(
        path=cache.folder.path,
        layouts=tuple(sorted({str(entry.layout) for entry in listing.entries})),
        entries=len(entries),
        size=sum(entry.size for entry in listing.entries),
        foreign=listing.foreign,
        states=dict(states.most_common()),
        saves_s=sum(usable) if usable else None,
        known_costs=len(usable),
        loads=loads,
        oldest_unix_s=min(times, default=None),
        newest_unix_s=max(times, default=None),
        in_use=cache.in_use,
        notes=notes,
    )


def _find_torn(folder: CacheFolder, listing: Listing) -> None:
    """Mark entries of torch_xla whose content ends too early."""
    for number, entry in enumerate(listing.entries):
        if entry.layout is Layout.TORCH_XLA and entry.damage is None:
            try:
                whole = is_whole(folder.read(entry.name, entry.size + 1))
            except (OSError, CacheNotFoundError):
                continue
            if not whole:
                listing.entries[number] = entry._replace(damage=State.TORN)


def recently_used_last(entries: Sequence[JoinedEntry]) -> list[JoinedEntry]:
    """In order of their last use, oldest first."""
    return sorted(entries, key=lambda joined: (joined.last_use_unix_s, joined.entry.name))
