"""From a recorded run to conclusions: `analyze` for the whole report, `step_table` and `graph_table` for the tables.

Pure rules over prepared tables. Owns every number and sentence that the report, the pages and the exports show; leaves
reading to ``store`` and drawing to ``report`` and the dashboard.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xla_insight.analysis.checkpoint_facts import checkpoint_facts
from xla_insight.analysis.data_facts import data_facts
from xla_insight.analysis.device_facts import device_facts
from xla_insight.analysis.findings import Context, all_findings
from xla_insight.analysis.graph_table import build_graph_table
from xla_insight.analysis.recompiles import GraphLibrary, explained_compiles
from xla_insight.analysis.recompiles.entries import Totals, recompile_entries
from xla_insight.analysis.shapes import shape_facts
from xla_insight.analysis.step_table import build_step_table
from xla_insight.analysis.tables import Process, RunTables, load_tables
from xla_insight.analysis.time_facts import time_facts
from xla_insight.analysis.totals import graph_facts, step_facts
from xla_insight.analysis.verdict import Evidence, verdict
from xla_insight.facts import numbers
from xla_insight.facts.report import Report, RunFacts

if TYPE_CHECKING:
    import pandas as pd

    from xla_insight.store.reader import Run

__all__ = ["analyze", "graph_table", "load_tables", "step_table"]


def analyze(run: Run | str | Path, tables: RunTables | None = None) -> Report:
    """The report of a run, given open or by path; ``tables``: its tables, when they are loaded already.

    Raises `RunNotFoundError` and `RunFormatError` as opening does.
    """
    if isinstance(run, str | Path):
        from xla_insight.store.reader import open_run

        opened = open_run(run)
    else:
        opened = run
    tables = load_tables(opened) if tables is None else tables
    names = numbers.same_names(tables.files())
    with numbers.telling_apart(names):
        return _report(opened, tables, names)


def _report(opened: Run, tables: RunTables, names: dict[str, str]) -> Report:
    main = tables.main_process()
    graphs, steps, time = graph_facts(tables), step_facts(tables, main), time_facts(tables, main)
    library = GraphLibrary(tables.hlo)
    history, explained = explained_compiles(tables, library)
    findings = all_findings(Context(tables, graphs, steps, time, main, explained, library))
    shapes = shape_facts(opened, tables)
    facts = replace(_run_facts(opened, tables, main), paths=names)
    wall_s = time.wall_s * facts.processes
    totals = Totals(graphs.compiles, wall_s, shapes)
    recompiles = recompile_entries(explained, history, tables, totals)
    # Last: by now it is known which graphs could not be read.
    problems = (*opened.problems, *filter(None, [opened.graph_damage()]))
    return Report(
        run=facts,
        steps=steps,
        graphs=graphs,
        recompiles=recompiles,
        findings=findings,
        time=time,
        verdict=verdict(Evidence(facts, steps, graphs, recompiles, findings, time, shapes)),
        data=data_facts(tables, opened.state, opened.skipped_parts, problems),
        shapes=shapes,
        devices=device_facts(tables, main),
        checkpoints=checkpoint_facts(tables, main),
    )


def step_table(run: Run, tables: RunTables | None = None) -> pd.DataFrame:
    """One row a step: counts, the graph that held the device longest, and the account of its time in ns."""
    return build_step_table(load_tables(run) if tables is None else tables)


def graph_table(run: Run) -> pd.DataFrame:
    """One row a graph: the table ``graphs`` with a short hash, worst compile time first."""
    return build_graph_table(run.table("graphs"))


def _run_facts(run: Run, tables: RunTables, main: Process | None) -> RunFacts:
    facts = main.facts if main is not None else {}
    started_ns = run.info.get("started_unix_ns")
    return RunFacts(
        id=str(run.info.get("id", Path(str(run.path)).name)),
        path=str(run.path),
        ranks=len({process.rank for process in tables.processes}),
        processes=len(tables.processes),
        level=str(facts.get("level", run.info.get("level", "light"))),
        capabilities=dict(facts.get("capabilities") or {}),
        command=tuple(str(part) for part in run.info.get("command", ())),
        started_unix_s=started_ns / 1e9 if isinstance(started_ns, int) else None,
        state=run.state,
        failed=any(process.facts.get("ended") == "exception" for process in run.processes),
        exceptions=tuple(dict.fromkeys(str(text).rstrip(": ") for text in tables["endings"]["detail"])),
    )
