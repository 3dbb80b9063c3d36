"""Verb `check`: a recorded run against a budget. Leaves the checking to ``analysis`` and the formats to ``report``.

The options are those of ``facts.budget``: a limit has one name on the command line, in pyproject.toml and in pytest.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from xla_insight.cli.output import standard_output
from xla_insight.errors import UsageError
from xla_insight.facts.budget import LIMITS, Budget

_RUN = Annotated[str, typer.Argument(help="A recorded run: its folder or URL.")]
_JSON = Annotated[bool, typer.Option("--json", help="The result as JSON.")]
_JUNIT = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML.")]
_MARKDOWN = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Also write Markdown, as for a pull request.")
]
_CONFIG = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Instead of the nearest pyproject.toml.")
]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("check")(check_command)


def check_command(
    run: str, as_json: bool = False, junit: Path | None = None, markdown: Path | None = None, **given: Any
) -> int:
    """Hold a run against a budget: exit 1 with one line for each limit that is broken.

    Limits come from the table tool.xla_insight.check of the nearest pyproject.toml; those given here go before them.
    """
    from xla_insight.analysis.gate import check_run
    from xla_insight.analysis.gate.config import configured_budget
    from xla_insight.report.gate_files import gate_json, junit_xml, markdown_text, write_file
    from xla_insight.report.gate_text import gate_lines
    from xla_insight.report.text import encodable
    from xla_insight.store.reader import open_run

    config = given.pop("config", None)
    budget = configured_budget(config).merged(Budget.of(given, "the command line"))
    if not budget.limits_something:
        raise UsageError("no limit given: see check --help, or set [tool.xla_insight.check] in pyproject.toml")
    with open_run(run) as opened:
        result = check_run(opened, budget)
    if junit is not None:
        write_file(junit, junit_xml(result))
    if markdown is not None:
        write_file(markdown, markdown_text(result))
    with standard_output() as stream:
        if as_json:
            stream.write(gate_json(result) + "\n")
        else:
            stream.writelines(encodable(line, stream) + "\n" for line in gate_lines(result))
    return 1 if result.broken else 0


def _signature() -> inspect.Signature:
    """What typer makes options of: the fixed ones, and one for each limit."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    fixed = {
        "as_json": (_JSON, False),
        "junit": (_JUNIT, None),
        "markdown": (_MARKDOWN, None),
        "config": (_CONFIG, None),
    }
    options: dict[str, tuple[Any, Any]] = {
        limit.name: (Annotated[limit.type | None, typer.Option(limit.option, help=limit.help)], None)
        for limit in LIMITS
    }  # fmt: skip
    parameters = [inspect.Parameter("run", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_RUN)]
    for name, (annotation, default) in (options | fixed).items():
        parameters.append(inspect.Parameter(name, keyword, default=default, annotation=annotation))
    return inspect.Signature(parameters, return_annotation=int)


check_command.__signature__ = _signature()  # type: ignore[attr-defined]
check_command.__annotations__ = {p.name: p.annotation for p in _signature().parameters.values()} | {"return": int}
