"""Findings that look at graphs: ranks that part, optimizers left behind, graphs too large, syncs that are missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.analysis.conftest import make_context
from tests.unit.graph.modules import NAMES, read
from xla_insight.analysis.findings import Context, all_findings
from xla_insight.analysis.recompiles import GraphLibrary, explained_compiles
from xla_insight.analysis.tables import Place, Process, RunTables
from xla_insight.facts.report import Finding, Severity

MS = 1_000_000
Make = Callable[..., RunTables]
At = Callable[..., Place]


def hlo(graph: str) -> bytes | None:
    name = graph.partition("-")[0]
    return read(f"{name}.hlo.pb") if name in NAMES else None


def cut(graph: str, at_ms: int, trigger: str = "sync", site: int = 1, **more: Any) -> dict[str, dict[str, Any]]:
    """The rows of a compile in a cut and of its execution."""
    time_ns = at_ms * MS
    row = {"time_ns": time_ns, "graph": graph, "trigger": trigger, "site": site, "step": at_ms // 10, **more}
    return {
        "compiles": {**row, "duration_ns": 4 * MS, "sentence": "", "cut_ns": time_ns},
        "syncs": {**row, "duration_ns": 5 * MS, "executions": 1, "compiles": 1},
        "executions": {**row, "time_ns": time_ns + 4 * MS, "duration_ns": MS, "outcome": "compile"},
    }


def rows(*cuts: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [one[name] for one in cuts] for name in ("compiles", "syncs", "executions")}


def findings(tables: RunTables) -> dict[str, Finding]:
    library = GraphLibrary(tables.hlo)
    plain = make_context(tables)
    _, explained = explained_compiles(tables, library)
    context = Context(tables, plain.graphs, plain.steps, plain.time, plain.main, explained, library)
    return {finding.id: finding for finding in all_findings(context)}


def ranks(tables: Make, at_line: At, second: str, start_ns: int = 0) -> dict[str, Finding]:
    made = rows(
        cut("longer", 10), cut("longer", 20), cut("longer", 10, process=1), cut(second, 20, process=1)
    )  # fmt: skip
    processes = (Process(0, 0, 0, 50 * MS), Process(1, 1, start_ns, start_ns + 50 * MS))
    return findings(tables(processes=processes, places={1: at_line(32)}, hlo=hlo, **made))


def test_ranks_that_part_name_the_first_sync_and_the_line(tables: Make, at_line: At) -> None:
    finding = ranks(tables, at_line, "extra")["rank_divergence"]
    assert finding.severity is Severity.CRITICAL
    assert finding.summary.startswith("Ranks 0 and 1 run different graphs from sync 1 (step 2) on, cut at train.py:32.")
    assert "step.py:27" in finding.summary
    assert finding.site is not None and finding.site.line == 27
    assert finding.details["graphs"] == {"0": "longer", "1": "extra"}


def test_ranks_with_other_flags_are_named_with_them(tables: Make, at_line: At) -> None:
    made = rows(cut("longer", 10), cut("longer-again", 10, process=1))
    flags = ("--xla_cpu_enable_fast_math=true --xla_a=1", "--xla_a=1")
    processes = tuple(
        Process(n, n, 0, 50 * MS, facts={"environment": {"XLA_FLAGS": text, "HOME": str(n)}})
        for n, text in enumerate(flags)
    )
    found = findings(tables(processes=processes, places={1: at_line(32)}, hlo=hlo, **made))["rank_divergence"]
    assert found.summary.endswith(
        "They are the same computation under another environment: XLA_FLAGS has --xla_cpu_enable_fast_math=true on"
        " rank 0 and nothing else on rank 1."
    )
    assert found.details["cause"] == "compiler_env" and "same flags" in found.advice
    assert found.site is not None and found.site.line == 32


@pytest.mark.parametrize(("second", "start_ns"), [("longer", 0), ("extra", 60 * MS)], ids=["same", "one after another"])
def test_ranks_that_agree_or_never_meet(tables: Make, at_line: At, second: str, start_ns: int) -> None:
    assert "rank_divergence" not in ranks(tables, at_line, second, start_ns)


def test_ranks_of_one_job_are_compared_even_when_one_ends_first(tables: Make, at_line: At) -> None:
    made = rows(cut("longer", 10), cut("extra", 70, process=1))
    processes = tuple(Process(n, n, 60 * n * MS, (60 * n + 50) * MS, facts={"world_size": 2}) for n in (0, 1))
    found = findings(tables(processes=processes, places={1: at_line(32)}, hlo=hlo, **made))
    assert found["rank_divergence"].site is not None and found["rank_divergence"].site.line == 27


def test_an_optimizer_left_behind(tables: Make, at_line: At) -> None:
    stale = [{"step": 3, "time_ns": 35 * MS, "optimizer": "AdamW", "parameters": 4, "site": 2}]
    found = findings(tables(places={1: at_line(32), 2: at_line(16)}, stale=stale, **rows(cut("base", 10))))
    finding = found["stale_parameters"]
    assert finding.severity is Severity.CRITICAL
    assert "train.py:16" in finding.summary and "AdamW optimizer still holds 4" in finding.summary
    assert "from step 3 on" in finding.summary
    assert finding.advice.startswith("Do not move the module"), "it had trained"
    early = [{**stale[0], "step": 0, "time_ns": -1}]
    found = findings(tables(places={1: at_line(32), 2: at_line(16)}, stale=early, **rows(cut("base", 10))))
    assert found["stale_parameters"].advice.startswith("Move first, then make the optimizer")


def limits(monkeypatch: pytest.MonkeyPatch, **values: float) -> None:
    """Limits of `slow_compile` for small graphs."""
    for name, value in {"LARGE": 300, "UNROLLED": 300, **values}.items():
        monkeypatch.setattr(sys.modules["xla_insight.analysis.findings.slow_compile"], name, value)


def test_a_graph_too_large(tables: Make, at_line: At, monkeypatch: pytest.MonkeyPatch) -> None:
    limits(monkeypatch)
    made = tables(places={1: at_line(32)}, hlo=hlo, **rows(cut("base", 10)))
    finding = findings(made)["slow_compile"]
    assert "512 instructions: compiling it took 4 ms, all its executions 1 ms" in finding.summary
    assert finding.severity is not Severity.INFO
    limits(monkeypatch, LARGE=400, UNROLLED=400)
    assert "slow_compile" not in findings(made), "the optimizer's are not those of a loop"


def test_a_loop_that_most_of_the_run_waited_for_is_told(
    tables: Make, at_line: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tables(places={1: at_line(32)}, hlo=hlo, **rows(cut("base", 10)))
    limits(monkeypatch, LARGE=4_000)
    assert "slow_compile" not in findings(made), "no line repeats"
    limits(monkeypatch, LARGE=4_000, REPEATS=1)
    assert findings(made)["slow_compile"].severity is Severity.INFO
    limits(monkeypatch, LARGE=4_000, REPEATS=1, NOTABLE_SHARE=9)
    assert "slow_compile" not in findings(made)


def test_a_first_graph_lives_on_in_the_one_that_takes_its_place(
    tables: Make, at_line: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(monkeypatch)
    made = rows(cut("first", 10), *[cut("base", 10 * n) for n in range(2, 9)])
    made["compiles"] = made["compiles"][:2]
    assert "slow_compile" not in findings(tables(places={1: at_line(32)}, hlo=hlo, **made))
    few = rows(cut("first", 10), cut("base", 20))
    said = findings(tables(places={1: at_line(32)}, hlo=hlo, **few))["slow_compile"].summary
    assert "compiling it took 4 ms (8 ms with 1 variant of it), all its executions 2 ms" in said


def test_a_large_graph_that_works_longer_than_it_compiles(
    tables: Make, at_line: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(monkeypatch)
    made = rows(*[cut("base", 10 * n) for n in range(1, 9)])
    made["compiles"] = made["compiles"][:1]
    assert "slow_compile" not in findings(tables(places={1: at_line(32)}, hlo=hlo, **made))


def test_many_batches_before_one_read_and_no_sync_after(tables: Make, at_line: At) -> None:
    uploads = [{"time_ns": n * MS, "name": "x", "dims": "[8]", "dtype": "int64", "site": 2} for n in range(1, 6)]
    backward = [{"step": None, "time_ns": 5 * MS, "duration_ns": MS, "thread": 0, "kind": "backward", "name": "x"}]
    places = {1: at_line(15), 2: at_line(9)}
    one_read = rows(cut("base", 10, "read"))
    finding = findings(tables(places=places, hlo=hlo, uploads=uploads, spans=backward, **one_read))["missing_sync"]
    assert finding.summary.startswith("5 batches were uploaded before the read at train.py:15")
    pairs = [{**row, "name": None, "dims": dims} for row in uploads for dims in ("[8]", "[8, 4]")]
    finding = findings(tables(places=places, hlo=hlo, uploads=pairs, spans=backward, **one_read))["missing_sync"]
    assert finding.count == 5, "two tensors of a batch at one line"
    then_synced = rows(cut("base", 10, "read"), cut("longer", 20))
    assert "missing_sync" not in findings(
        tables(places=places, hlo=hlo, uploads=uploads, spans=backward, **then_synced)
    )


def test_an_operation_that_cut_nothing_is_known_by_the_graphs_that_its_size_made(tables: Make, at_line: At) -> None:
    counters = [{"name": "aten::_unique2", "delta": 2.0, "duration_ns": 1, "steps": 2}]
    operations = [{"time_ns": n * MS, "name": "aten::_unique2", "delta": 1.0} for n in (9, 19)]
    made = rows(cut("base", 10), cut("longer", 20))
    found = findings(tables(places={1: at_line(32)}, hlo=hlo, counters=counters, data_operations=operations, **made))
    assert found["fallback"].site is not None and found["fallback"].site.file.endswith("step.py")
