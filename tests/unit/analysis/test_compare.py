"""Run against run: what is a difference and what is noise, and what became of graphs, causes and the environment."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.synthetic import build_run, graph_hash
from xla_insight.analysis import analyze
from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.compare import compare_runs, trend
from xla_insight.analysis.compare.causes import cause_changes
from xla_insight.analysis.compare.graph_loading import KnownGraph
from xla_insight.analysis.compare.graph_pairs import _equal_places, _equal_structures
from xla_insight.analysis.compare.judgement import judge
from xla_insight.analysis.compare.step_time import compare_step_time, permutation_p, steady_steps
from xla_insight.facts.comparison import Comparison
from xla_insight.facts.report import Finding, Report, Severity, Site
from xla_insight.store.reader import open_run


def steps(milliseconds: Any, compiles: Any = 0, compile_ms: float = 0.0) -> pd.DataFrame:
    """A step table whose time is tracing, but for ``compile_ms`` a compile."""
    plain = np.asarray(milliseconds, dtype=np.float64) * 1e6
    counts = np.broadcast_to(np.asarray(compiles), plain.shape)
    table = pd.DataFrame({f"host_{state}_ns": np.zeros(len(plain)) for state in STATES})
    table["host_trace_ns"] = plain
    table["host_compile_ns"] = counts * compile_ms * 1e6
    return table.assign(duration_ns=plain + table["host_compile_ns"], compiles=counts)


def noisy(seed: int, count: int = 200, level: float = 100.0, scale: float = 5.0) -> Any:
    """Step times in which each resembles the one before, as on a shared machine."""
    chance = np.random.default_rng(seed)
    values, state = [], 0.0
    for _ in range(count):
        state = 0.9 * state + chance.normal(0, scale * 0.44)
        values.append(level + state)
    return np.array(values)


def compared(tmp_path: Path, before: dict[str, Any], now: dict[str, Any]) -> Comparison:
    with open_run(build_run(tmp_path / "a", **before)) as one, open_run(build_run(tmp_path / "b", **now)) as other:
        return compare_runs(one, other)


def test_noise_is_hardly_ever_called_a_difference() -> None:
    called = 0
    for seed in range(40):
        found = compare_step_time(steady_steps(steps(noisy(seed))), steady_steps(steps(noisy(1000 + seed))))
        called += found.significant
    assert called == 0


def test_a_real_change_is_found_with_its_size() -> None:
    for seed in range(20):
        now = noisy(1000 + seed, level=115.0)
        found = compare_step_time(steady_steps(steps(noisy(seed))), steady_steps(steps(now)))
        assert found.significant and found.change_pct is not None and found.interval_pct is not None
        assert found.change_pct == pytest.approx(15, abs=8)
        assert found.interval_pct[0] < found.change_pct < found.interval_pct[1]


def test_a_change_too_small_to_matter_is_none() -> None:
    quiet = [steps(np.full(100, level) + np.linspace(0, 0.01, 100)) for level in (100.0, 101.0)]
    found = compare_step_time(steady_steps(quiet[0]), steady_steps(quiet[1]))
    assert found.p_value is not None and found.p_value < 0.01
    assert not found.significant


def test_a_few_long_steps_do_not_hide_a_change() -> None:
    spiked = np.full(200, 100.0)
    spiked[::50] = 4000
    slower = spiked + 20
    found = compare_step_time(steady_steps(steps(spiked)), steady_steps(steps(slower)))
    assert found.significant


def test_few_steps_are_no_evidence() -> None:
    found = compare_step_time(steady_steps(steps([100.0] * 5)), steady_steps(steps([200.0] * 5)))
    assert (found.p_value, found.significant) == (None, False)


def test_permutation_is_exact_for_few_blocks() -> None:
    chance = np.random.default_rng(0)
    few = permutation_p(np.array([1.0, 2.0, 3.0, 4.0]), np.array([11.0, 12.0, 13.0, 14.0]), chance)
    assert few == 2 / 70
    same = np.ones(4)
    assert permutation_p(same, same, chance) == 1.0


def test_warm_up_ends_with_the_last_early_compile() -> None:
    assert steady_steps(steps([1] * 10, [1, 0, 1] + [0] * 7)).warm_up == 3
    assert steady_steps(steps([1] * 10, [0] * 5 + [1] * 5)).warm_up == 1
    assert steady_steps(steps([1] * 10)).warm_up == 1
    assert len(steady_steps(steps([]))) == 0


def test_slower_by_recompiles(tmp_path: Path) -> None:
    found = compared(tmp_path, {"steps": 40, "pattern": "A"}, {"steps": 40, "pattern": "AAAAABAAAACAAAADAAAAE"})
    assert found.verdict.direction == "slower"
    assert "2.5 times as long as before" in found.verdict.summary
    assert "compiling after warm-up is new, 30.8 ms a step (4 compiles)" in found.verdict.summary
    (cause,) = (cause for cause in found.causes if cause.what == "recompile")
    assert f"What is new ({cause.name}, 0 → 4): {cause.summary}" in found.verdict.summary
    assert [cause.change for cause in found.causes if cause.what == "recompile"] == ["appeared"]
    assert found.graphs.same == 2 and len(found.graphs.of("added")) == 4


def test_slower_by_another_state(tmp_path: Path) -> None:
    found = compared(tmp_path, {"steps": 40, "pattern": "A"}, {"steps": 40, "pattern": "A", "input_wait_ms": 13,
                                                             "step_ms": 30})  # fmt: skip
    assert found.verdict.direction == "slower" and found.verdict.change_pct == pytest.approx(50, abs=1)
    assert "waiting for input, 10 ms more a step" in found.verdict.summary
    assert found.states[0].state == "input_wait"


def test_the_other_way_round_is_faster(tmp_path: Path) -> None:
    found = compared(tmp_path, {"steps": 40, "pattern": "A", "step_ms": 30}, {"steps": 40, "pattern": "A"})
    assert found.verdict.direction == "faster"
    assert "33 % less time" in found.verdict.summary


def test_equal_runs_do_not_differ(tmp_path: Path) -> None:
    found = compared(tmp_path, {"steps": 40, "pattern": "A"}, {"steps": 60, "pattern": "A"})
    assert (found.verdict.direction, found.verdict.change_pct) == ("same", 0.0)
    assert not found.graphs.pairs and not found.environment
    assert {cause.change for cause in found.causes} <= {"stayed"}
    json.dumps(found.to_json(), allow_nan=False)


def test_runs_without_steps_are_not_judged(tmp_path: Path) -> None:
    found = compared(tmp_path, {"steps": 0}, {"steps": 40})
    assert (found.verdict.direction, found.verdict.change_pct) == ("unknown", None)
    assert "the first run has no steps" in found.verdict.summary


def test_a_short_run_is_not_judged(tmp_path: Path) -> None:
    found = compared(tmp_path, {"steps": 5, "pattern": "A"}, {"steps": 5, "pattern": "A"})
    assert found.verdict.direction == "unknown" and "Too few steps" in found.verdict.summary


def test_a_trend_judges_each_run(tmp_path: Path) -> None:
    runs = [
        open_run(build_run(tmp_path / name, steps=40, pattern="A", step_ms=ms))
        for name, ms in (("a", 20), ("b", 30), ("c", 30))
    ]
    rows = trend(runs).rows
    directions = [(r.against_first and r.against_first.direction, r.against_previous and r.against_previous.direction)
                  for r in rows]  # fmt: skip
    assert directions == [(None, None), ("slower", "slower"), ("slower", "same")]


def test_environment_names_what_differs() -> None:
    from xla_insight.analysis.environment import Setting, facts_of
    from xla_insight.analysis.tables import Process

    facts = {
        "versions": {"torch_xla": "2.9.0"},
        "environment": {"XLA_FLAGS": "--a", "PT_XLA_DEBUG_LEVEL": "2", "XLA_INSIGHT_RUN": "x"},
        "devices": ["CPU:0"],
        "device": "CPU",
    }
    found = dict(facts_of(Setting(Process(0, 0, 0, 1, facts=facts), 1, ("train.py",))))
    assert found == {
        "version of torch_xla": "2.9.0",
        "device": "CPU",
        "number of devices": "1",
        "ranks": "1",
        "XLA_FLAGS": "--a",
        "command": "train.py",
    }


def known(name: str, line: int = 3, file: str = "/a/train.py") -> KnownGraph:
    return KnownGraph(graph_hash(name), 4, 1.0, "sync", Site(file, line, "step"), None)


def test_without_hlo_graphs_are_matched_by_their_place() -> None:
    old = {g.graph: g for g in (known("A"), known("B"))}
    new = {g.graph: g for g in (known("C", 9, "/b/train.py"), known("D", 9), known("E", file="/b/eval.py"))}
    assert list(_equal_structures(old, new)) == []
    pairs = [(one.graph, other.graph) for one, other in _equal_places(old, new)]
    assert pairs == [(graph_hash("A"), graph_hash("C")), (graph_hash("B"), graph_hash("D"))]
    assert list(new) == [graph_hash("E")] and not old


def test_a_read_in_a_library_stays_when_the_script_has_another_name(tmp_path: Path) -> None:
    report = analyze(build_run(tmp_path / "run", steps=5, pattern="A"))
    library, other = (Site(f"/site-packages/{name}.py", 354, "mask", "") for name in ("masking_utils", "trainer"))

    def run_of(script: str, line: int, *sites: Site) -> Report:
        user = Site(f"/home/me/{script}.py", line, "<module>", "")
        found = [Finding("host_sync", Severity.WARNING, site, user, 9, 1.0, "A read.", "Do.") for site in sites]
        return replace(report, findings=tuple(found), recompiles=())

    changes = cause_changes(run_of("train", 100, library), run_of("train_padded", 109, library))
    assert [(change.change, change.before_count, change.now_count) for change in changes] == [("stayed", 9, 9)]
    changes = cause_changes(run_of("train", 100, library), run_of("train_padded", 109, other))
    assert [change.change for change in changes] == ["appeared", "gone"]


def test_a_run_and_itself_are_not_compared(tmp_path: Path) -> None:
    path = build_run(tmp_path / "a", steps=40, pattern="AB")
    with open_run(path) as one, open_run(path) as other:
        found = compare_runs(one, other)
    assert found.verdict.direction == "same" and "the same run, so there is nothing to compare" in found.verdict.summary
    shutil.copytree(path, tmp_path / "copy")
    with open_run(path) as one, open_run(tmp_path / "copy") as other:
        assert "copies of one run" in compare_runs(one, other).verdict.summary


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("level", [100.0, 103.0, 108.0, 130.0])
def test_the_interval_leaves_out_zero_only_where_there_is_a_difference(seed: int, level: float) -> None:
    found = compare_step_time(steady_steps(steps(noisy(seed))), steady_steps(steps(noisy(500 + seed, level=level))))
    assert found.interval_pct is not None and found.change_pct is not None
    low, high = found.interval_pct
    assert (low > 0 or high < 0) == found.significant
    assert low < found.change_pct < high


def verdict(before: pd.DataFrame, now: pd.DataFrame) -> str:
    one, other = steady_steps(before), steady_steps(now)
    return judge(compare_step_time(one, other), one, other).summary


def test_a_change_to_nothing_is_said_as_one() -> None:
    slow, fast = steps([2.0] * 40, [1] * 40, 540.0), steps([2.0] * 40)
    assert verdict(slow, fast).startswith("A step takes 1/271 of the time it took before: 2 ms against 542 ms")
    assert "compiling after warm-up is gone, 540 ms a step (37 compiles)" in verdict(slow, fast)
    assert verdict(fast, slow).startswith("A step takes 271 times as long as before")
    assert "100 %" not in verdict(slow, fast)


def test_the_percentage_is_that_of_the_two_times_beside_it() -> None:
    """Compiles went, and the rest got slower by what may be chance: both are in the times, only one is proven."""
    chance = np.random.default_rng(0)
    before = steps(27 + chance.normal(0, 6, 60), [0] * 20 + [1, 0, 0, 0] * 10, 400.0)
    text = verdict(before, steps(30 + chance.normal(0, 6, 60)))
    percent, new, old = re.match(
        r"A step takes (\d+) % less time than before: ([\d.]+) ms against ([\d.]+) ms", text
    ).groups()  # type: ignore[union-attr]
    assert float(percent) == pytest.approx(100 * (1 - float(new) / float(old)), abs=1)
    assert "the rest does not differ beyond noise" in text


def test_figures_say_what_they_are_counted_over(tmp_path: Path) -> None:
    found = compared(tmp_path, {"steps": 40, "pattern": "A"}, {"steps": 40, "pattern": "AB"})
    steady = [figure.name for figure in found.figures if figure.scope == "steady"]
    assert steady == ["steps after warm-up", "step, mean after warm-up", "step, median after warm-up",
                      "compiles after warm-up", "value reads per step"]  # fmt: skip
    for part in found.states:  # both are of the same steps, so the device cannot idle longer than the host was there
        assert part.now_ms is not None and (part.idle_now_ms is None or part.idle_now_ms <= part.now_ms + 1e-9)


def test_the_change_is_that_of_the_two_times_beside_it() -> None:
    """A trend and a check show the percentage beside the times: the reader can divide them."""
    before, now = (steady_steps(steps([*([step] * 90), *([rare] * 8)])) for step, rare in ((30.0, 60.0), (60.0, 40.0)))
    found = compare_step_time(before, now)
    verdict = judge(found, before, now)
    assert found.mean_before_ms is not None and found.mean_now_ms is not None and verdict.direction == "slower"
    assert verdict.change_pct == pytest.approx(100 * (found.mean_now_ms / found.mean_before_ms - 1))
