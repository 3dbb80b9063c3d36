"""Verb `app`: serves the dashboard over a folder of runs. Leaves the pages to the dashboard package."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from xla_insight.errors import MissingDependencyError, RunNotFoundError


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("app")(app_command)


def app_command(
    runs: Annotated[Path, typer.Argument(help="A folder of runs, or one run.", show_default=True)] = Path("runs"),
    host: Annotated[str, typer.Option(help="Address to listen on; the default is reachable from here only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8050,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    cache: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="A compile cache to show, too; can be repeated.")
    ] = None,
) -> None:
    """Browse recorded runs in a dashboard, also while they are being recorded."""
    if not runs.is_dir():
        raise RunNotFoundError(f"no folder {runs} to show; give the folder that holds your runs")
    if importlib.util.find_spec("dash") is None:
        raise MissingDependencyError('the dashboard needs more packages: pip install "xla-insight[app]"')
    try:
        server = importlib.import_module("xla_insight_app.server")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f'the dashboard needs {error.name}, which is missing: pip install "xla-insight[app]"'
        ) from error
    server.serve(runs, host=host, port=port, open_browser=open_browser, caches=cache or ())
