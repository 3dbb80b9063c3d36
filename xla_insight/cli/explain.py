"""Verb `explain`: why a step or a graph compiled. Leaves comparing to ``analysis`` and layout to ``report``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from xla_insight.cli.output import standard_output, tell_damage

if TYPE_CHECKING:
    from xla_insight.store.reader import Run


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("explain")(explain_command)


def explain_command(
    run: Annotated[str, typer.Argument(help="A recorded run: its folder or URL.")],
    wanted: Annotated[
        str, typer.Argument(metavar="STEP|GRAPH", help="A step that compiled, or the first digits of a graph's hash.")
    ],
    against: Annotated[
        str | None,
        typer.Option(metavar="GRAPH", help="Compare with this graph; without it, with the nearest earlier relative."),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Also show the two graphs beside each other.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON (schema 1).")] = False,
) -> None:
    """Say why a step or a graph compiled: the line, now and before, what to change, and what follows from it."""
    from xla_insight.analysis import analyze
    from xla_insight.analysis.explain.explanation import explain
    from xla_insight.analysis.explain.targets import find_graph, find_targets
    from xla_insight.facts import numbers
    from xla_insight.report.explain_json import render_explanations
    from xla_insight.report.explain_text import print_explanations
    from xla_insight.store.reader import open_run

    with open_run(run) as opened:
        report = analyze(opened)
        tell_damage(opened.log_damage(), opened.graph_damage())
        targets = find_targets(report, wanted, opened.sql("select distinct graph from graphs")["graph"])
        other = None if against is None else find_graph(opened.graph_hashes(), against)
        found = [explain(target, opened.hlo, other) for target in targets]
        with numbers.telling_apart(report.run.paths), standard_output() as stream:
            if as_json:
                stream.write(render_explanations(found, diff=diff) + "\n")
            else:
                print_explanations(found, report, lambda file, line: _snippet(opened, file, line), stream, diff=diff)


def _snippet(run: Run, file: str, line: int) -> list[tuple[int, str]]:
    """The lines around one; graphs name a script as it was started, which may be relative to its working folder."""
    folders = [str(process.facts.get("cwd") or "") for process in run.processes]
    names = dict.fromkeys([file, *(os.path.normpath(os.path.join(folder, file)) for folder in folders)])
    return next((lines for name in names if (lines := run.snippet(name, line))), [])
