"""Verb `cache`: what is in a compile cache, why a run missed it, what can be deleted, how large it should be.

A group of commands. Leaves the inspection to ``analysis`` and the wording to ``report``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from xla_insight.cli.output import standard_output
from xla_insight.errors import UsageError

if TYPE_CHECKING:
    from xla_insight.analysis.cache import Cache
    from xla_insight.analysis.cache.usage import Usage
    from xla_insight.facts.cache import State

DEFAULT_RUNS = "runs"
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}

_Caches = Annotated[list[str], typer.Argument(metavar="CACHE…", help="Cache folders or URLs.")]
_Runs = Annotated[
    list[str] | None,
    typer.Option("--runs", metavar="DIR", help="Recorded runs, or folders of runs (default: runs)."),
]  # fmt: skip
_Json = Annotated[bool, typer.Option("--json", help="Everything as JSON (schema 1).")]


def register(app: typer.Typer) -> None:
    """Add the verb and its commands to the command line."""
    group = typer.Typer(help="Look into the compile caches of torch_xla, JAX and Neuron.", add_completion=False)
    group.command("status")(status_command)
    group.command("list")(list_command)
    group.command("explain")(explain_command)
    group.command("prune")(prune_command)
    group.command("memory")(memory_command)
    app.add_typer(group, name="cache")


def status_command(caches: _Caches, runs: _Runs = None, as_json: _Json = False) -> None:
    """Say what is in each cache: entries, size, age, which of them recorded runs used, seconds they save."""
    from xla_insight.analysis.cache import cache_status
    from xla_insight.report.cache_text import write_status

    found = [cache_status(cache) for cache in _inspected(caches, _usage(runs))]
    with standard_output() as stream:
        if as_json:
            _write_json([status.to_json() for status in found], stream)
        for status in () if as_json else found:
            write_status(status, stream)


def list_command(caches: _Caches, runs: _Runs = None, as_json: _Json = False) -> None:
    """List the entries, least recently used first, with the run, step and seconds that each of them stands for."""
    from xla_insight.analysis.cache import recently_used_last
    from xla_insight.report.cache_text import write_entries

    entries = [joined for cache in _inspected(caches, _usage(runs)) for joined in cache.entries]
    with standard_output() as stream:
        if as_json:
            _write_json([joined.to_json() for joined in recently_used_last(entries)], stream)
        else:
            write_entries(recently_used_last(entries), stream)


def explain_command(
    cache: Annotated[str, typer.Argument(help="The cache: its folder or URL.")],
    run: Annotated[str, typer.Argument(help="A recorded run that should have used it.")],
    runs: _Runs = None,
    as_json: _Json = False,
) -> None:
    """Say why a run compiled what it could have loaded, and what a start with this cache would save."""
    from xla_insight.analysis.cache.explain import MOST_EARLIER, explain_misses
    from xla_insight.analysis.cache.usage import earlier_runs
    from xla_insight.report.cache_text import write_explanation
    from xla_insight.store.reader import open_run

    (inspected,) = _inspected([cache], _usage(runs))
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_run(run))
        earlier = [stack.enter_context(other) for other in earlier_runs(opened, _places(runs), MOST_EARLIER)]
        explanation = explain_misses(inspected, opened, earlier)
    with standard_output() as stream:
        if as_json:
            _write_json(explanation.to_json(), stream)
        else:
            write_explanation(explanation, stream)


def prune_command(
    caches: _Caches,
    runs: _Runs = None,
    older_than: Annotated[str | None, typer.Option(metavar="30d", help="Not used for so long (s, m, h, d, w).")] = None,
    max_size: Annotated[str | None, typer.Option(metavar="10GB", help="Least recently used ones beyond it.")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="orphan, other_environment, torn, failed or locked; can be repeated."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without it, only say what would go.")] = False,
) -> None:
    """Say which entries can go, how much that frees and what building them again costs; with --delete, delete them."""
    from xla_insight.analysis.cache.layouts import without_collection
    from xla_insight.analysis.cache.prune import Wanted, plan_prune, prune
    from xla_insight.facts.cache import State
    from xla_insight.report.cache_text import write_plan, write_result

    wanted = Wanted(
        None if older_than is None else _amount(older_than, _SECONDS, "--older-than"),
        None if max_size is None else int(_amount(max_size, _BYTES, "--max-size")),
        _states(state or ()),
    )
    with standard_output() as stream, without_collection():
        # Contents are only read when what is cut off shall go: that is what takes long in a large cache.
        for cache in _inspected(caches, _usage(runs), contents=State.TORN in wanted.states):
            plan = plan_prune(cache, wanted)
            write_plan(plan, stream)
            if delete:
                write_result(prune(cache, plan), stream)
            elif plan.chosen:
                stream.write("  nothing was deleted; --delete does it\n")


def memory_command(
    run: Annotated[str, typer.Argument(help="A recorded run: its folder or URL.")], as_json: _Json = False
) -> None:
    """Say how often a run would find its graphs in the in-memory cache at each XLA_COMPILATION_CACHE_SIZE."""
    from dataclasses import asdict

    from xla_insight.analysis.cache.memory import memory_cache
    from xla_insight.analysis.tables import load_tables
    from xla_insight.report.cache_text import write_memory
    from xla_insight.store.reader import open_run

    with open_run(run) as opened:
        memory = memory_cache(load_tables(opened))
    with standard_output() as stream:
        if as_json:
            _write_json(asdict(memory), stream)
        else:
            write_memory(memory, stream)


def _places(runs: list[str] | None) -> list[str]:
    """Where to look for runs: the given places, or the usual folder when it is there."""
    if runs is not None:
        return runs
    return [DEFAULT_RUNS] if os.path.isdir(DEFAULT_RUNS) else []


def _usage(runs: list[str] | None) -> Usage:
    from xla_insight.analysis.cache.usage import read_usage

    return read_usage(_places(runs))


def _inspected(caches: Iterable[str], usage: Usage, *, contents: bool = True) -> list[Cache]:
    from xla_insight.analysis.cache import inspect_cache

    return [inspect_cache(cache, usage, contents=contents) for cache in caches]


def _states(given: Iterable[str]) -> frozenset[State]:
    from xla_insight.facts.cache import PRUNABLE

    known = {str(state): state for state in PRUNABLE}
    wrong = [name for name in given if name.replace("-", "_") not in known]
    if wrong:
        raise UsageError(f"there is no state {wrong[0]!r} to delete by; there are: {', '.join(known)}")
    return frozenset(known[name.replace("-", "_")] for name in given)


def _amount(text: str, units: dict[str, int], option: str) -> float:
    """A number with a unit: ``30d``, ``1.5 GB``."""
    letters, ending = "".join(units), "(?:i?b)?" if units is _BYTES else ""
    match = re.fullmatch(rf"\s*(\d{{1,15}}(?:\.\d{{1,9}})?)\s*([{letters}]?){ending}\s*", text.lower())
    if match is None or match[2] not in units:
        example = "10GB" if units is _BYTES else "30d"
        raise UsageError(f"{option} takes a number with a unit, as in {example}, not {text!r}")
    return float(match[1]) * units[match[2]]


def _write_json(content: Any, stream: TextIO) -> None:
    stream.write(json.dumps(content, indent=2, allow_nan=False, default=str) + "\n")
