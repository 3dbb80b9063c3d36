"""The command line without a verb: its help page and its version. Leaves the verbs to their modules."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer


def root_command(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    """Show the version, or the help page when no verb was named."""
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
