"""The command line: `main()` and the list of verbs, one module a verb.

A verb is a module of this package named in `VERBS` that defines ``register(app: typer.Typer) -> None`` and adds its
command there; the docstring of the command is its help. A verb module imports nothing heavy at its top (typer at
most): what a verb needs, it imports inside its command. Owns the entry point, the one-line form of errors and the exit
codes. Leaves all computing to ``analysis`` and all wording of results to ``report``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from xla_insight.errors import InsightError

if TYPE_CHECKING:
    import typer

VERBS = ("run", "report", "explain", "shapes", "app", "export", "compare", "check", "cache", "sql", "train", "demo")
"""Modules of this package that add a command, in the order of the help page."""
HELP_OPTIONS = ["-h", "--help"]
INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell gives it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 fine, 1 a check failed, 2 bad usage or input.

    Errors meant for the user become one line on stderr; Ctrl-C ends quietly, also while modules are still loading (so
    nothing is imported above). ``arguments`` defaults to those of the process.
    """
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    import typer

    from xla_insight.cli.output import BROKEN_PIPE_EXIT_CODE, DISK_FULL, discard_output
    from xla_insight.cli.usage import complaint, plain_values

    if sys.stdout is None:  # closed by whoever started us, who wants no results
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    command = typer.main.get_command(build_app())
    plain_values(command, HELP_OPTIONS)
    try:
        result = command.main(args=arguments, prog_name="xla-insight", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _complain(complaint(error), error.exit_code)
    except InsightError as error:
        return _complain(str(error), error.exit_code)
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE_EXIT_CODE
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        discard_output()
        at = f" ({error.filename})" if error.filename else ""
        return _complain(f"cannot write all of it: {error.strerror}{at}", InsightError.exit_code)
    return result if isinstance(result, int) else 0


def build_app() -> typer.Typer:
    """The typer application with every verb of `VERBS` registered."""
    import typer

    from xla_insight.cli.root import root_command

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP_OPTIONS},
        help="Record an XLA training run, see why it recompiles and what limits it.",
    )
    app.callback(invoke_without_command=True)(root_command)
    for verb in VERBS:
        import_module(f"{__name__}.{verb}").register(app)
    return app


def _complain(sentence: str, exit_code: int) -> int:
    print(f"xla-insight: {' '.join(sentence.split())}", file=sys.stderr)
    return exit_code
