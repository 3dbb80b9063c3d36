"""Verb `train`: a group with one command for each workload of ``runner``; its options are the workload's fields.

Owns the table of workloads, the way from a dataclass to a command, and what all workloads share: the plan, the place to
record to, the launch, the summary. Leaves training to ``runner`` and the progress bar to ``train_progress``.
"""

from __future__ import annotations

import contextlib
import inspect
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields, replace
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, get_args, get_origin, get_type_hints

import typer

from xla_insight.cli.output import standard_output
from xla_insight.cli.places import free_place, is_taken
from xla_insight.errors import InsightError, MissingDependencyError, RunExistsError, UsageError

if TYPE_CHECKING:
    from xla_insight.runner.workload import Plan, Workload

INTERRUPTED = 130
_SAVE_TO = "save_to"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One finished training of a workload: where it was recorded, how it ended, and what the training gave back.

    A workload without parts has one outcome, whose ``run`` is empty.
    """

    name: str
    workload: Workload
    run: str
    status: int
    result: dict[str, Any]


Summary = Callable[[Sequence[Outcome], TextIO], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """A workload of the table, as ``module:name``: its class, and the function that prints what came of it."""

    workload: str
    summary: str = "xla_insight.cli.train_summary:print_reports"


WORKLOADS = {
    "mlm": Entry("xla_insight.runner.mlm:MaskedLanguageModel"),
    "from-scratch": Entry("xla_insight.runner.from_scratch:FromScratch"),
    "benchmark": Entry("xla_insight.runner.benchmark:Benchmark", "xla_insight.cli.train_summary:print_benchmark"),
    "kernels": Entry("xla_insight.runner.kernels:Kernels", "xla_insight.cli.train_summary:print_custom_calls"),
    "spmd": Entry("xla_insight.runner.spmd:ManyDevices"),
    "ranks": Entry("xla_insight.runner.ranks:ManyProcesses"),
}
"""The workloads, in the order of the help page. Their modules import the standard library only."""

_COMMON = {
    "out": Annotated[
        str | None, typer.Option(help="Folder or URL to record to; it must not hold anything yet (default: runs/NAME).")
    ],
    "level": Annotated[str, typer.Option(help="light, or full: for diagnosis, much slower.")],
    "dry_run": Annotated[bool, typer.Option("--dry-run", help="Print the plan and do nothing.")],
}
_COMMON_DEFAULTS = {"out": None, "level": "light", "dry_run": False}


def register(app: typer.Typer) -> None:
    """Add the verb and its workloads to the command line."""
    group = typer.Typer(help="Train a workload with recording on, and say what limits it.", add_completion=False)
    for name, entry in WORKLOADS.items():
        group.command(name)(command_of(name, entry))
    app.add_typer(group, name="train")


def command_of(name: str, entry: Entry) -> Callable[..., int]:
    """The command of a workload: one option for each field, and those that all share."""
    kind = _load(entry.workload)
    hints = get_type_hints(kind)
    own = sorted(fields(kind), key=lambda item: item.name == _SAVE_TO)  # what all have stands behind what it alone has
    own = [item for item in own if kind.saves or item.name != _SAVE_TO]
    defaults = {item.name: _as_typer(item.default) for item in own} | _COMMON_DEFAULTS
    types = {item.name: _annotation(item, hints[item.name]) for item in own} | _COMMON

    def command(**values: Any) -> int:
        shared = {key: values.pop(key) for key in _COMMON}
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        return train(kind(**given), entry, **shared)

    parameters = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=defaults[key], annotation=types[key])
        for key in defaults
    ]
    command.__name__ = f"train_{name.replace('-', '_')}"
    command.__doc__ = inspect.getdoc(kind)
    command.__annotations__ = {}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def train(workload: Workload, entry: Entry, out: str | None, level: str, dry_run: bool) -> int:
    """Check, plan or train, and print the summary. Returns the exit status. Raises InsightError."""
    from xla_insight.record.session import LEVELS

    if level not in LEVELS:
        raise UsageError(f"no level {level!r}; choose one of: {', '.join(LEVELS)}")
    workload.check()
    if dry_run:
        with standard_output() as stream:
            _print_plan(workload.plan(), stream)
        return 0
    missing = workload.missing()
    if missing:
        names = ", ".join(missing)
        raise MissingDependencyError(f'{workload.name} needs {names}: pip install "xla-insight[all]"')
    if not workload.parts():
        _summarize(entry, [Outcome("", workload, "", 0, {})])
        return 0
    outcomes = _train_parts(workload, _place(workload, out), level)
    recorded = [outcome for outcome in outcomes if is_taken(outcome.run)]
    status = max((outcome.status for outcome in outcomes), default=0)
    if status not in (0, INTERRUPTED, InsightError.exit_code):  # of a user's error the child has said its one line
        kept = "".join(f"; see: xla-insight report {shlex.quote(outcome.run)}" for outcome in recorded[-1:])
        ended = "was done, but its process ended" if outcomes[-1].result else "ended early,"
        print(f"xla-insight: the training {ended} with status {status}{kept}", file=sys.stderr)
    if recorded and status in (0, INTERRUPTED):
        _summarize(entry, recorded)
    return status


def _train_parts(workload: Workload, run: str, level: str) -> list[Outcome]:
    """Train each part until one fails or is interrupted."""
    from xla_insight.cli.train_progress import progress
    from xla_insight.runner.workload import ERROR_FILE, RESULT_FILE, launch_recorded, read_exchange

    outcomes: list[Outcome] = []
    save_to = workload.save_to or _default_folder(workload, run)
    for name, part in workload.parts():
        place, folder = _part_place(run, name), str(Path(save_to) / name)
        ready = replace(part, save_to=folder)
        print(f"Training {workload.name}{f' ({name})' if name else ''}, recorded to {place}", flush=True)
        with tempfile.TemporaryDirectory(prefix="xla-insight-train-") as exchange:
            with progress(Path(exchange), sys.stderr):
                done = launch_recorded(ready, place, level, Path(exchange))
                status, place = done.status, next(iter(done.places), place)
            result = read_exchange(Path(exchange), RESULT_FILE)
            said = read_exchange(Path(exchange), ERROR_FILE)
        if status != 0:  # a launcher of several processes gives a status of its own
            status = INTERRUPTED if result.get("interrupted") else said.get("status", status)
        outcomes.append(Outcome(name, ready, place, status, result))
        if not workload.save_to:  # the Trainer makes its folder also when it saves nothing
            for empty in (folder, save_to):
                with contextlib.suppress(OSError):
                    Path(empty).rmdir()
        if status != 0:
            break
    return outcomes


def _place(workload: Workload, out: str | None) -> str:
    """Where to record to: a place at which every part finds its own free."""
    if out is not None and (not out.strip() or out.startswith("memory:")):
        raise UsageError(f"cannot record to {out!r}: give a folder, or the URL of a place that outlives this command")
    wanted = f"runs/{workload.name}" if out is None else out.rstrip("/")
    names = [name for name, _ in workload.parts()]
    for place in chain([wanted], (f"{wanted}-{number}" for number in count(2))):
        taken = [part for part in (_part_place(place, name) for name in names) if is_taken(part)]
        if not taken:
            return place
        if out is not None:
            raise RunExistsError(f"{taken[0]} already holds something; nothing is overwritten: choose another --out")
    raise AssertionError("numbers do not end")


def _part_place(run: str, name: str) -> str:
    """Where a part records to: beside the others, so that a dashboard over the folder lists it."""
    return f"{run}-{name}" if name else run


def _default_folder(workload: Workload, run: str) -> str:
    return f"{run}-files" if "://" not in run else free_place(f"runs/{workload.name}-files")


def _summarize(entry: Entry, outcomes: Sequence[Outcome]) -> None:
    summary: Summary = _load(entry.summary)
    with standard_output() as stream:
        stream.write("\n")
        try:
            summary(outcomes, stream)
        except InsightError as error:
            if not outcomes[0].run:
                raise
            stream.write(f"No summary: {error}\n")
        for outcome in outcomes:
            if outcome.run:
                stream.write(f"Again: xla-insight report {shlex.quote(outcome.run)}\n")


def _print_plan(plan: Plan, stream: TextIO) -> None:
    width = max((len(label) for label, _ in plan.rows), default=0)
    stream.write(f"{plan.title}\n")
    for label, text in plan.rows:
        stream.write(f"  {label:<{width}}  {text}\n")
    for remark in plan.remarks:
        stream.write(f"{remark}\n")
    stream.write("Nothing was run (--dry-run).\n")


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _as_typer(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _annotation(item: Field[Any], hint: Any) -> Any:
    """The type of an option as typer wants it."""
    kind = list[get_args(hint)[0]] if get_origin(hint) is tuple else hint  # type: ignore[misc]
    facts = item.metadata
    names = [f"--{item.name.replace('_', '-')}"] if hint is bool and item.default is False else []
    return Annotated[kind, typer.Option(*names, help=facts["help"], min=facts["minimum"], metavar=facts["metavar"])]
