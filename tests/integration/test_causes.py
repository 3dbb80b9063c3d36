"""Causes of real recompiles, as a user meets them: the right cause at the right line, and what to change."""

from __future__ import annotations

import pytest

from xla_insight.analysis import analyze
from xla_insight.facts.report import Recompile, Report

from .programs import SCRIPTS, recorded

SCRIPT = (SCRIPTS / "recompiles.py").read_text().splitlines()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("recompiles") / "run"
    done = recorded("recompiles.py", path)
    assert done.code == 0, done.err
    return analyze(path)


def marked(name: str) -> int:
    """The number of the line that ends in the comment ``# name``."""
    (line,) = [number for number, text in enumerate(SCRIPT, 1) if text.endswith(f"# {name}")]
    return line


def entry(report: Report, cause: str) -> Recompile:
    return max((e for e in report.recompiles if e.cause == cause), key=lambda e: e.count)


@pytest.mark.parametrize(
    ("cause", "count", "advice"),
    [
        ("baked_value", 3, "index_select"),
        ("data_dependent_shape", 3, "torch.where"),
        ("python_shape", 3, "index_copy_"),
    ],
)
def test_the_cause_its_line_and_the_change(report: Report, cause: str, count: int, advice: str) -> None:
    found = entry(report, cause)
    assert found.count == count, found.summary
    assert found.root["site"]["line"] == marked(cause)
    assert found.root["site"]["source"] in SCRIPT[marked(cause) - 1]
    assert "now " in found.summary and "before " in found.summary
    assert advice in found.advice or not found.advice
    assert all(member.against for member in found.members)


def test_graphs_that_grow_want_a_sync(report: Report) -> None:
    found = entry(report, "graph_growth")
    assert found.count >= 2
    (finding,) = [f for f in report.findings if f.id == "missing_sync"]
    assert finding.user_site is not None and finding.user_site.line == marked("graph_growth")
    assert "sync" in finding.advice


def test_counts_add_up(report: Report) -> None:
    assert sum(e.count for e in report.recompiles) == report.graphs.compiles
    assert not [e for e in report.recompiles if e.cause == "unknown"]
