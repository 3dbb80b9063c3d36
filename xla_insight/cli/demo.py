"""Verb `demo`: a real training run from nothing to the dashboard. Leaves the training to ``runner``."""

from __future__ import annotations

import importlib.util
import shlex
import socket
from pathlib import Path
from typing import Annotated

import typer

from xla_insight.cli.output import standard_output
from xla_insight.cli.places import free_place
from xla_insight.errors import MissingDependencyError, UsageError

APP_PORT = 8050
_SAID = (2, 130)
"""Status of a training that has said in a line what was wrong with its options, and after Ctrl-C."""


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("demo")(demo_command)


def demo_command(
    out: Annotated[
        str, typer.Option(help="Folder to record to; when it holds something, a numbered name beside it is used.")
    ] = "runs/demo",
    show: Annotated[bool, typer.Option("--app/--no-app", help="Open the dashboard afterwards.")] = True,
    port: Annotated[
        int | None, typer.Option(help=f"Port of the dashboard (default: {APP_PORT}, or a free one).", min=0, max=65535)
    ] = None,
    script_options: Annotated[
        str, typer.Option("--script-options", help='Options for the training script, as in "--steps 40".')
    ] = "",
) -> int:
    """Train a small BERT on this machine's CPU, record it, say what limits it, and show it in the dashboard.

    Takes about four minutes on two idle cores, longer on a busy machine, and no network: the text is the manual that
    every Python ships.
    """
    from xla_insight.runner import demo

    _require_packages(demo.missing(), show)
    if "://" in out:
        raise UsageError(f"the demo records to a folder on this machine, not to {out}")
    run = free_place(out)
    if run != out:
        print(f"{out} already holds something, which is kept; recording to {run}")
    print(f"Training a small BERT masked language model on XLA:CPU, recorded to {run}.")
    print("This takes about four minutes on two idle cores, longer where others compute: most of it is compiling.")
    print(f"The script, to read and to copy: {demo.SCRIPT}\n", flush=True)
    done = demo.record(run, shlex.split(script_options))
    status, run = done.status, next(iter(done.places), run)
    if status in _SAID:
        return status
    if status != 0:
        typer.echo(f"xla-insight: the training ended early, with status {status}", err=True)
        return status
    _print_report(run)
    if show:
        _serve(run, port)
    return 0


def _require_packages(missing: list[str], show: bool) -> None:
    if missing:
        names = ", ".join(missing)
        raise MissingDependencyError(f'the demo trains a model and needs {names}: pip install "xla-insight[all]"')
    if show and importlib.util.find_spec("dash") is None:
        raise MissingDependencyError(
            'the dashboard needs more packages: pip install "xla-insight[app]" (or go without it: --no-app)'
        )


def _print_report(run: str) -> None:
    from xla_insight.analysis import analyze
    from xla_insight.report.text import print_report

    report = analyze(run)
    with standard_output() as stream:
        stream.write("\n")
        print_report(report, stream)
        stream.write(f"\nAgain: xla-insight report {shlex.quote(run)}\n")


def _serve(run: str, port: int | None) -> None:
    from importlib import import_module

    print(flush=True)
    chosen = port if port is not None else _free_port()
    import_module("xla_insight_app.server").serve(Path(run), port=chosen)


def _free_port() -> int:
    """The usual port of the dashboard, or 0 (any free one) when something listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", APP_PORT))
        except OSError:
            return 0
    return APP_PORT
