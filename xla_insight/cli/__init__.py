"""The command line: `main()` and the list of verbs, one module a verb.

A verb is a module of this package named in `VERBS` that defines ``register(app: typer.Typer) -> None`` and adds its
command there; the docstring of the command is its help. A verb module imports nothing heavy at its top (typer at
most): what a verb needs, it imports inside its command. Owns the entry point, the one-line form of errors and the exit
codes. Leaves all computing to ``analysis`` and all wording of results to ``report``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from xla_insight.errors import InsightError

VERBS = ("run", "report", "explain", "shapes", "app", "export", "compare", "check", "cache", "sql", "train", "demo")
"""Modules of this package that add a command, in the order of the help page."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 fine, 1 a check failed, 2 bad usage or input.

    Errors meant for the user become one line on stderr. ``arguments`` defaults to those of the process.
    """
    command = typer.main.get_command(build_app())
    try:
        result = command.main(args=arguments, prog_name="xla-insight", standalone_mode=False)
    except typer.TyperException as error:
        return _complain(error.format_message(), error.exit_code)
    except InsightError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 130
    return result if isinstance(result, int) else 0


def build_app() -> typer.Typer:
    """The typer application with every verb of `VERBS` registered."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Record an XLA training run, see why it recompiles and what limits it.",
    )
    app.callback(invoke_without_command=True)(_root)
    for verb in VERBS:
        import_module(f"{__name__}.{verb}").register(app)
    return app


def _root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if show_version:
        typer.echo(f"xla-insight {_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _version() -> str:
    try:
        return version("xla-insight")
    except PackageNotFoundError:
        return "(not installed)"


def _complain(sentence: str, exit_code: int) -> int:
    print(f"xla-insight: {' '.join(sentence.split())}", file=sys.stderr)
    return exit_code
