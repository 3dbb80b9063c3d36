"""Comparison, gate and caches on real recordings: the changed line is named, noise is no regression, the simulation of
the in-memory cache is what the framework does.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from xla_insight.analysis.cache import inspect_cache
from xla_insight.analysis.cache.explain import explain_misses
from xla_insight.analysis.cache.memory import memory_cache, simulate
from xla_insight.analysis.cache.usage import read_usage
from xla_insight.analysis.compare import compare_runs
from xla_insight.analysis.tables import load_tables
from xla_insight.facts.cache import MissReason, State
from xla_insight.facts.comparison import Comparison
from xla_insight.store.reader import open_run

from .programs import CLI, recorded, run

SCRIPT = """
import torch
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(30):
    batch = torch.randn(8, 16).to(device)
    loss = net(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
"""
CHANGED = SCRIPT.replace("pow(2)", "pow(3)")

TESTS = """
import pytest, torch, torch_xla

def train(profile, sizes, width):
    device = torch_xla.device()
    net = torch.nn.Linear(width, 4).to(device)
    for size in sizes:
        net(torch.randn(size, width).to(device)).pow(2).mean().backward()
        torch_xla.sync()
        profile.step()

@pytest.mark.xla_budget(max_recompiles=0, after_step=2)
def test_even(xla_profile):
    train(xla_profile, [4] * 8, 16)

@pytest.mark.xla_budget(max_recompiles=0, after_step=2)
def test_odd(xla_profile):
    train(xla_profile, [4, 4, 4, 4, 6, 4, 7], 24)
"""


def record(folder: Path, name: str, script: str) -> Path:
    """A recorded run of a script ``train.py`` in a folder of its own."""
    (folder / name).mkdir()
    (folder / name / "train.py").write_text(script)
    done = run([*CLI, "run", "--out", str(folder / name / "run"), str(folder / name / "train.py")])
    assert done.code == 0, done.err
    return folder / name / "run"


def compared(before: Path, now: Path) -> Comparison:
    with open_run(before) as one, open_run(now) as other:
        return compare_runs(one, other)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of `SCRIPT`."""
    return record(tmp_path_factory.mktemp("runs"), "before", SCRIPT)


def test_the_changed_line_is_named(before: Path, tmp_path: Path) -> None:
    found = compared(before, record(tmp_path, "now", CHANGED))
    line = CHANGED.splitlines().index("    loss = net(batch).pow(3).mean()") + 1
    changed = found.graphs.of("changed")
    assert changed and not found.graphs.of("added") and not found.graphs.of("gone")
    for pair in changed:
        assert pair.matched_by == "structure" and pair.line_known and pair.site is not None
        assert (Path(pair.site.file).name, pair.site.line) == ("train.py", line)
    assert f"train.py:{line} (loss = net(batch).pow(3).mean())" in found.verdict.summary


def test_the_same_program_twice_is_no_difference(before: Path, tmp_path: Path) -> None:
    found = compared(before, record(tmp_path, "again", SCRIPT))
    assert not found.graphs.pairs and found.graphs.same >= 1
    assert found.verdict.direction != "slower" or found.step_time.p_value is not None


def test_the_simulated_cache_is_the_real_one(tmp_path: Path) -> None:
    chance = random.Random(3)
    sizes = [chance.choice([2, 3, 4, 5, 6, 7, 9, 10]) for _ in range(60)]
    words = {"CYCLE_SIZES": ",".join(map(str, sizes)), "XLA_COMPILATION_CACHE_SIZE": "4"}
    done = recorded("cycle.py", tmp_path / "run", **words)
    assert done.code == 0, done.err
    compiled = json.loads(done.out.splitlines()[0])["UncachedCompile"]
    with open_run(tmp_path / "run") as opened:
        memory = memory_cache(load_tables(opened))
    (simulated,) = (rate for rate in memory.rates if rate.size == 4)
    assert (memory.recorded_size, memory.executions) == (4, len(sizes))
    assert simulated.compiles == compiled == memory.recorded_compiles
    assert simulate([sizes], [4])[0].compiles == compiled


def test_a_real_cache_folder(tmp_path: Path) -> None:
    words = {"CYCLE_SIZES": "2,3,4,2", "CYCLE_CACHE": str(tmp_path / "cache")}
    for name in ("first", "second"):
        assert recorded("cycle.py", tmp_path / "runs" / name, **words).code == 0
    cache = inspect_cache(str(tmp_path / "cache"), read_usage([str(tmp_path / "runs")]), contents=True)
    assert [entry.state for entry in cache.entries] == [State.USED] * 3
    with open_run(tmp_path / "runs" / "second") as opened:
        found = explain_misses(cache, opened)
    assert [miss.reason for miss in found.misses] == [MissReason.UNREADABLE] * 3
    assert found.saves_s == 0 and "cannot load them" in found.summary
    with open_run(tmp_path / "runs" / "first") as opened:
        assert {miss.reason for miss in explain_misses(cache, opened).misses} == {MissReason.NEVER_BUILT}


def test_another_flag_is_named_as_the_reason_of_a_miss(tmp_path: Path) -> None:
    words = {"CYCLE_SIZES": "2,3", "CYCLE_CACHE": str(tmp_path / "cache")}
    flags = "--xla_cpu_enable_fast_min_max=false"
    assert recorded("cycle.py", tmp_path / "runs" / "first", **words).code == 0
    assert recorded("cycle.py", tmp_path / "runs" / "other", **words, XLA_FLAGS=flags).code == 0
    done = run([*CLI, "cache", "explain", str(tmp_path / "cache"), str(tmp_path / "runs" / "other"), "--json",
                "--runs", str(tmp_path / "runs")])  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert {miss["reason"] for miss in found["misses"]} == {MissReason.OTHER_ENVIRONMENT}
    for miss in found["misses"]:
        assert "Run first built the same computation under another key" in miss["sentence"]
        assert f"XLA_FLAGS is now {flags}, before not set" in miss["sentence"]


def test_a_test_that_recompiles_fails_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "test_budget.py").write_text(TESTS)
    options = ["-p", "xla_insight.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:dash", "-q"]
    done = run([sys.executable, "-m", "pytest", *options, str(tmp_path / "test_budget.py")])
    assert "1 failed, 1 passed" in done.out, done.out
    failure = done.out.partition("test_odd")[2]
    assert "2 recompiles after step 2; the budget is at most 0" in failure
    assert "test_budget.py:9" in failure
