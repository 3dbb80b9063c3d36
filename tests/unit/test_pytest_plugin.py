"""The pytest plugin on recordings made by hand: what passes, what fails, and what a failure says."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TESTS = """
import pytest
from tests.synthetic import build_run

budget = pytest.mark.xla_budget

def record(profile):
    build_run(profile.path, steps=10, pattern='AAAAABAAAA', reads=False)

@budget(max_graphs=2, max_recompiles=1, after_step=2)
def test_kept(xla_profile):
    record(xla_profile)

@budget(max_graphs=2, max_recompiles=0, after_step=2)
def test_broken(xla_profile):
    record(xla_profile)

@budget(max_graphs=1)
def test_wrong(xla_profile):
    record(xla_profile)
    assert 1 == 2

def test_fixture_only(xla_profile):
    record(xla_profile)
    xla_profile.step()
    assert xla_profile.report().graphs.distinct == 2

def test_plain():
    pass

@budget(max_grafs=1)
def test_unknown_limit():
    pass

@budget(2)
def test_by_position():
    pass

@budget(after_step=1)
def test_without_limit():
    pass

@budget(max_graphs=2)
def test_nothing_recorded():
    pass
"""


def test_budgets(pytester: pytest.Pytester, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(TESTS)
    # In a process of its own: what other tests loaded into this one must not decide what the plugin records.
    monkeypatch.setenv("PYTHONPATH", str(repository), prepend=os.pathsep)
    options = ("-p", "xla_insight.pytest_plugin", "--strict-markers", "-p", "no:dash", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess(*options, "-rfE")
    result.assert_outcomes(passed=3, failed=6)
    text = result.stdout.str()
    broken = text.partition("test_broken ___")[2].partition("test_wrong ___")[0]
    assert "1 recompile after step 2; the budget is at most 0" in broken
    assert "/home/me/train.py:40: for batch in loader:" in broken
    assert "During handling" not in text, "a wrong budget is said once"
    assert "recorded in" in broken and "Traceback" not in broken
    wrong = text.partition("test_wrong ___")[2].partition("test_unknown_limit ___")[0]
    assert "assert 1 == 2" in wrong and "more than its XLA budget" not in wrong
    for test, expected in (
        ("test_unknown_limit", "there is no limit 'max_grafs'"),
        ("test_by_position", "give limits by name"),
        ("test_without_limit", "the budget has no limit"),
        ("test_nothing_recorded", "nothing was recorded"),
    ):
        assert expected in text.partition(f"{test} ___")[2].partition("\n___")[0]


def test_starting_pytest_loads_nothing_of_ours() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import xla_insight.pytest_plugin;"
        "print(*sorted({n.partition('.')[0] for n in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["xla_insight"]


def test_it_is_an_entry_point_under_the_name_of_its_module() -> None:
    content = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert content["project"]["entry-points"]["pytest11"] == {"xla_insight.pytest_plugin": "xla_insight.pytest_plugin"}
