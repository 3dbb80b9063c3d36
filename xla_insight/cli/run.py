"""Verb `run`: runs a user's script or command and records it with its child processes. Leaves hooks to ``record``."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from xla_insight.cli.places import free_place, is_taken
from xla_insight.cli.usage import no_option, option_names
from xla_insight.errors import RunExistsError, UsageError


def register(app: typer.Typer) -> None:
    """Add the verb to the command line. What follows the script belongs to the script."""
    settings = {"allow_interspersed_args": False, "ignore_unknown_options": True}
    app.command("run", context_settings=settings)(run_command)


def run_command(
    context: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(help="script.py args…, -m module args…, or a program such as torchrun", metavar="SCRIPT …"),
    ],
    out: Annotated[
        str | None,
        typer.Option(help="Folder or URL to record to; it must not hold anything yet (default: runs/NAME)."),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(help="light, or full: each graph as text and lines in every graph, much slower (default: light)."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Steps in which every operation of the device is recorded, as in 10-12,100; none; or auto, the"
            " default: a few early and late, once that is cheap.",
            metavar="STEPS",
        ),
    ] = None,
) -> int:
    """Run SCRIPT as Python would, record it and every child process to one run, and exit with its status."""
    from xla_insight.record import launch
    from xla_insight.record.session import LEVEL_VARIABLE, LEVELS
    from xla_insight.record.window_plan import parse_windows

    if command[0].startswith("-") and command[0] not in ("-m", "-c"):
        raise UsageError(_unknown_option(command[0], context))
    if level is not None and level not in LEVELS:
        raise UsageError(f"no level {level!r}; choose one of: {', '.join(LEVELS)}")
    if window is not None:
        parse_windows(window)
    launch.command_line(command)
    run = _default_run(command) if out is None else out
    if out is not None and (not out.strip() or out.startswith("memory:")):
        raise UsageError(f"cannot record to {out!r}: give a folder, or the URL of a place that outlives this command")
    if out is not None and is_taken(out):
        raise RunExistsError(f"{out} already holds something; nothing is overwritten: choose another --out")
    done = launch.run_command(command, run, level or os.environ.get(LEVEL_VARIABLE) or "light", window)
    print(f"xla-insight: {_ending(run, done.places)}", file=sys.stderr)
    return done.status


def _ending(asked: str, places: tuple[str, ...]) -> str:
    """Where the recording is: where it was asked for, unless that could not be written."""
    if not places and is_taken(asked):
        places = (asked,)
    if not places:
        return f"nothing recorded to {asked}: no process imported torch_xla, or it said above why not"
    read = [f"xla-insight report {shlex.quote(place)}" for place in places]
    return f"recorded to {' and '.join(places)}; read it with: {' or '.join(read)}"


def _unknown_option(given: str, context: typer.Context) -> str:
    """What stands before the script and is no option of ours would be taken for a program of that name."""
    hint = "" if given.startswith("--") else "; for an option of Python's: xla-insight run python OPTION SCRIPT"
    return no_option(given, option_names(context)) + hint


def _default_run(command: list[str]) -> str:
    words = [word for word in command if not word.startswith("-")]
    return free_place(f"runs/{Path(words[0]).stem if words else 'run'}")
