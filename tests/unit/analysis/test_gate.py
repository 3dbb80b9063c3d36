"""A run against a budget: which number each limit is about, and that what cannot be checked never passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

from tests.synthetic import build_run, graph_hash
from xla_insight.analysis import analyze
from xla_insight.analysis.gate import check_evidence, check_run
from xla_insight.analysis.gate.config import configured_budget
from xla_insight.analysis.gate.evidence import Evidence, gather
from xla_insight.analysis.tables import Place, Process, load_tables
from xla_insight.errors import RunNotFoundError, UsageError
from xla_insight.facts.budget import Budget, GateResult
from xla_insight.facts.report import Site
from xla_insight.store.reader import open_run


def checked(run: Path, **limits: Any) -> GateResult:
    with open_run(run) as opened:
        return check_run(opened, Budget.of(limits, "here"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 steps, a new graph in steps 0, 5, 10 and 15, one read a step, one fallback a step."""
    return build_run(tmp_path_factory.mktemp("runs") / "run", steps=20, pattern="A" * 5 + "B" * 5 + "C" * 5 + "D" * 5,
                     fallback="aten::nonzero")  # fmt: skip


@pytest.fixture(scope="module")
def evidence(run: Path) -> Evidence:
    """What a check of that run looks at, without a budget yet."""
    with open_run(run) as opened:
        return gather(opened, Budget())


@pytest.mark.parametrize(
    ("limits", "value", "held"),
    [
        ({"max_recompiles": 3}, 3, True),
        ({"max_recompiles": 2}, 3, False),
        ({"max_recompiles": 1, "after_step": 5}, 2, False),
        ({"max_recompiles": 0, "after_step": 15}, 0, True),
        ({"max_recompiles": 0, "after_step": 1000}, 0, True),
        ({"max_graphs": 5}, 5, True),
        ({"max_graphs": 4}, 5, False),
        ({"max_compile_s": 1.5}, 1.5, True),
        ({"max_compile_s": 1.4}, 1.5, False),
        ({"max_reads_per_step": 1.0}, 1, True),
        ({"max_reads_per_step": 0.5}, 1, False),
        ({"max_fallbacks": 20}, 20, True),
        ({"max_fallbacks": 19}, 20, False),
    ],
)
def test_limits(evidence: Evidence, limits: dict[str, Any], value: float, held: bool) -> None:
    (result,) = check_evidence(replace(evidence, budget=Budget.of(limits, "here"))).limits
    assert result.value == pytest.approx(value)
    assert result.held == held
    assert bool(result.reasons) == (not held)


def test_a_broken_limit_names_cause_and_line(run: Path) -> None:
    (result,) = checked(run, max_recompiles=0).broken
    assert "3 recompiles; the budget is at most 0" in result.sentence
    assert "/home/me/train.py:40: for batch in loader:" in result.reasons[0]


def test_overlap(run: Path, tmp_path: Path) -> None:
    (result,) = checked(run, min_overlap_pct=100).limits
    assert not result.held and result.value is not None
    assert checked(run, min_overlap_pct=0).broken == ()


def test_a_run_without_graphs_keeps_no_budget(tmp_path: Path) -> None:
    empty = build_run(tmp_path / "run", steps=0)
    assert [limit.name for limit in checked(empty, max_graphs=3).broken] == ["recorded"]
    names = [limit.name for limit in checked(empty, max_reads_per_step=3).broken]
    assert names == ["recorded", "max_reads_per_step"]


def test_without_steps_there_is_no_after(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", steps=1, source=None, reads=False)
    with open_run(run) as opened:
        marked = len(opened.table("steps"))
    (result,) = checked(run, max_recompiles=0, after_step=0).limits
    assert result.held == (marked > 0)


def test_against_a_baseline(run: Path, tmp_path: Path) -> None:
    baseline = build_run(tmp_path / "base", steps=20, pattern="A")
    result = checked(run, baseline=str(baseline))
    assert [limit.name for limit in result.broken] == ["max_slowdown_pct", "new_causes"]
    assert checked(baseline, baseline=str(baseline)).broken == ()
    # The first graphs of B, C and D make up for more than the slowdown that is allowed here.
    lenient = checked(run, baseline=str(baseline), max_slowdown_pct=1e6)
    assert [limit.name for limit in lenient.broken] == ["new_causes"]
    with pytest.raises(RunNotFoundError):
        checked(run, baseline=str(tmp_path / "gone"))


def test_a_crash_is_noted(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", ended=None)
    with open_run(run) as opened:
        assert opened.state == "recording"
    assert "still being recorded" in checked(run, max_graphs=9).notes[0]


@pytest.mark.parametrize(
    "values",
    [{"max_graph": 1}, {"max_graphs": -1}, {"max_graphs": 1.5}, {"max_graphs": True}, {"max_compile_s": "1"},
     {"max_compile_s": float("nan")}, {"max_compile_s": float("inf")}, {"baseline": " "}, {"baseline": 3}],
)  # fmt: skip
def test_budgets_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"here: .*(max_graph|max_compile_s|baseline)"):
        Budget.of(values, "here")


def test_spellings_and_merging() -> None:
    low = Budget.of({"max-graphs": 3, "max_compile_s": 5, "after-step": None}, "here")
    assert low == Budget(max_graphs=3, max_compile_s=5.0)
    assert low.merged(Budget(max_graphs=9)) == Budget(max_graphs=9, max_compile_s=5.0)
    assert not Budget(after_step=2, max_slowdown_pct=3.0).limits_something
    assert Budget(max_fallbacks=0).limits_something and Budget(baseline="x").limits_something


def test_pyproject_is_found_upwards(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.xla_insight.check]\nmax-graphs = 3\nbaseline = "runs/base"\n')
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = configured_budget(folder=tmp_path / "a" / "b")
    assert found == Budget(max_graphs=3, baseline=str(tmp_path / "runs" / "base"))
    file.write_text('[tool.xla_insight.check]\nbaseline = "s3://bucket/base"\n')
    assert configured_budget(file).baseline == "s3://bucket/base"


@pytest.mark.parametrize(
    "content", ["[tool.xla_insight.check]\nmax_grafs = 1", "[tool.xla_insight]\ncheck = 3", "= broken", "\xff"]
)
def test_a_bad_pyproject_is_one_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        configured_budget(file)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[tool.xla_insight.check]\nmax_grahps = 2\n", "there is no limit 'max_grahps'; did you mean max_graphs?"),
        ("[tool.xla_insight.check]\nmax-graphs = 2\nmax_graphs = 3\n", "max_graphs is given twice"),
        ("[tool.xla-insight.check]\nmax_graphs = 2\n", r"the table is called \[tool\.xla_insight\.check\]"),
    ],
)
def test_what_is_misspelt_is_not_passed_over(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(UsageError, match=sentence):
        configured_budget(folder=tmp_path)


def test_no_pyproject_is_no_budget(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert configured_budget(folder=tmp_path) == Budget()
    with pytest.raises(UsageError, match="no table"):
        configured_budget(tmp_path / "pyproject.toml")
    with pytest.raises(UsageError, match="cannot read"):
        configured_budget(tmp_path / "none.toml")


def test_a_first_graph_in_a_warm_process_is_a_recompile(tmp_path: Path) -> None:
    """Another test of the process compiled graph A already: this recording sees it hit, and then B compile."""
    run = build_run(tmp_path / "run", steps=8, pattern="AAAAABAA", reads=False)
    with open_run(run) as opened:
        tables = load_tables(opened)
        report = analyze(opened, tables)
    warm = graph_hash("A")
    frames = {
        **tables.frames,
        "compiles": tables["compiles"][tables["compiles"]["graph"] != warm],
        "syncs": tables["syncs"].assign(compiles=0),
    }
    member = next(m for entry in report.recompiles for m in entry.members if m.graph != warm)
    entry = replace(report.recompiles[0], cause="first_graph", expected=True, count=1, members=(member,))
    budget, only = Budget(after_step=2), replace(report, recompiles=(entry,))
    assert Evidence(budget, only, replace(tables, frames=frames)).surprises() == [(entry, 1)]
    assert Evidence(budget, only, tables).surprises() == []


class _Tables(dict[str, pd.DataFrame]):
    """Tables of one process whose recording began when graphs had run already."""

    def __init__(self, graphs: list[str | None], *, names: bool) -> None:
        facts = {"capabilities": {"phase": "after_first_graph", "graph_hash": names}}
        self.processes = (Process(0, 0, 0, 10**10, facts=facts),)
        rows = {"process": 0, "graph": graphs, "step": range(len(graphs)), "executions": 1, "compiles": 0, "site": 0}
        table = pd.DataFrame(rows)
        super().__init__(syncs=table, executions=table, compiles=table[:0], steps=table)

    def place(self, _process: int, _site: Any) -> Place:
        return Place(Site("train.py", 7, "train"))


def test_graphs_without_names_are_not_counted(evidence: Evidence) -> None:
    report = replace(evidence.report, graphs=replace(evidence.report.graphs, distinct=0), recompiles=())
    blind = Evidence(Budget(max_graphs=3), report, cast(Any, _Tables([None, None], names=False)))
    (limit,) = check_evidence(blind).limits
    assert not limit.held and limit.value is None and "n/a" in limit.sentence
    named = Evidence(Budget(max_graphs=3), report, cast(Any, _Tables(["a", "b"], names=True)))
    assert check_evidence(named).limits[0].held


def test_graphs_compiled_before_the_recording_are_named(evidence: Evidence) -> None:
    """Whether a test compiles a graph must not silently depend on the tests before it."""
    report = replace(evidence.report, graphs=replace(evidence.report.graphs, distinct=2), recompiles=())
    budget = Budget(max_graphs=1, max_recompiles=0, after_step=2)
    result = check_evidence(Evidence(budget, report, cast(Any, _Tables(["a", "a", "a", "b", "b"], names=True))))
    recompiles, graphs = result.limits
    assert recompiles.held and not graphs.held
    assert graphs.reasons == ("2 × compiled before the recording began [train.py:7]",)
    assert result.notes[0].startswith("1 graph that first ran after step 2 was compiled before the recording began")
