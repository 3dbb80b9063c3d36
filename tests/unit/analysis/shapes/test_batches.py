"""Batches are joined to the graphs they were cut into, and kinds are kept apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.unit.analysis.shapes.recorded import frames_of, problem_of, text_batch
from xla_insight.analysis.shapes.axes import find_axes
from xla_insight.analysis.shapes.batches import BatchInput, build_batches
from xla_insight.analysis.shapes.code import padding_code
from xla_insight.analysis.shapes.costs import fit
from xla_insight.analysis.shapes.problem import build_problem
from xla_insight.analysis.shapes.variants import WARM_UP


def test_time_and_compiles_go_to_the_batch_that_caused_them() -> None:
    frames = frames_of([text_batch(length) for length in (16, 32, 16)], compile_ms=500, overhead_ms=8)
    batches = build_batches(frames)
    assert batches is not None and batches.units == 3
    assert batches.unit_compiles.tolist() == [2, 2, 1]
    assert batches.unit_compile_s == pytest.approx([0.51, 0.51, 0.5])
    assert batches.unit_busy_s[0] == pytest.approx(batches.unit_busy_s[2])
    assert batches.unit_wall_s[1] == pytest.approx(0.51 + 0.008 + batches.unit_busy_s[1])


def test_a_graph_of_the_first_step_is_warm_up() -> None:
    problem = problem_of([text_batch(length) for length in (16, 32, 16, 32)])
    modes = {(variant.place, variant.mode): len(variant.shapes) for variant in problem.compiles.variants}
    assert modes == {(0, 0): 2, (1, 0): 2, (1, WARM_UP): 1}
    assert problem.compiles.fixed == 1


def test_graphs_without_hash_are_counted_by_shape() -> None:
    frames = frames_of([text_batch(length) for length in (16, 32, 16, 32) * 8])
    for frame in (frames.executions, frames.compiles):
        frame["graph"] = pd.Series([None] * len(frame), dtype=object)
    batches = build_batches(frames)
    assert batches is not None
    problem = build_problem(frames, batches)
    assert problem is not None
    assert sum(len(variant.shapes) for variant in problem.compiles.variants) == 4
    assert any("no hash" in reason for reason in problem.thin)


def test_tensors_without_keys_are_named_by_place() -> None:
    frames = frames_of([text_batch(length) for length in (16, 32)], names=False)
    batches = build_batches(frames)
    assert batches is not None
    assert batches.kinds[0].names == ("tensor 1", "tensor 2", "tensor 3")
    problem = build_problem(frames, batches)
    assert problem is not None
    code = padding_code(problem, ((32,),))
    assert "BucketCollator" not in code, "no collator knows them"
    assert code.splitlines()[0].startswith("# No collator makes these tensors")
    assert "# tensor 1, dimension 1: [32]" in code


def test_two_batches_before_a_cut_are_one_unit() -> None:
    frames = frames_of([text_batch(16)] * 4)
    twice = pd.concat([frames.inputs, frames.inputs.assign(time_ns=frames.inputs["time_ns"] + 10)])
    frames = replace(frames, inputs=twice.sort_values("time_ns", ignore_index=True))
    batches = build_batches(frames)
    assert batches is not None
    assert (batches.units, len(batches.batch_unit)) == (4, 8)
    problem = build_problem(frames, batches)
    assert problem is not None and problem.batches_a_unit == 2


def test_another_line_is_another_kind() -> None:
    frames = frames_of([text_batch(16)] * 6)
    frames.inputs.loc[frames.inputs.index[-3:], "site"] = 2
    frames = replace(frames, sites=pd.DataFrame({"site": [1, 2], "file": ["a.py", "a.py"], "line": [3, 9]}))
    batches = build_batches(frames)
    assert batches is not None and len(batches.kinds) == 2
    problem = build_problem(frames, batches)
    assert problem is not None
    assert (problem.kind.line, problem.left_out) == (3, 1)


def test_no_batches_no_problem() -> None:
    frames = frames_of([text_batch(16)] * 2)
    assert build_batches(replace(frames, inputs=frames.inputs[:0])) is None
    assert build_batches(replace(frames, executions=frames.executions[:0])) is None


def test_dimensions_that_move_together_are_one_axis() -> None:
    def batch(source: int, target: int) -> tuple[BatchInput, ...]:
        shapes = {
            "input_ids": (4, source),
            "mask": (4, 1, source, source),
            "labels": (4, target),
            "next": (4, target + 1),
        }
        return tuple(BatchInput(name, dims, "int64") for name, dims in shapes.items())

    combinations = [batch(source, target) for source in (8, 16, 24) for target in (5, 6)]
    axes = find_axes(combinations, np.ones(6, np.int64))
    assert [axis.word for axis in axes] == ["input_ids[1]", "labels[1]"]
    assert [str(member) for member in axes[0].members] == ["input_ids[1]", "mask[2]", "mask[3]"]
    assert [str(member) for member in axes[1].members] == ["labels[1]", "next[1]"]


def test_a_curve_is_found_in_spite_of_outliers() -> None:
    sizes = np.arange(10, 110, 4, dtype=np.float64)[:, None]
    seconds = 0.2 + 0.001 * sizes[:, 0] + 2e-5 * sizes[:, 0] ** 2
    spoiled = seconds.copy()
    spoiled[[3, 12]] *= 5
    model = fit(sizes, spoiled, np.ones(len(sizes)))
    assert model is not None and model.error is not None
    clean = np.delete(np.arange(len(sizes)), [3, 12])
    assert model.seconds(sizes)[clean] == pytest.approx(seconds[clean], rel=0.03)
    assert model.outside(np.array([[5.0], [50.0], [500.0]])).tolist() == [True, False, True]


def test_a_curve_never_falls_below_nothing() -> None:
    model = fit(np.array([[10.0], [20.0], [30.0]]), np.array([3.0, 2.0, 1.0]), np.ones(3))
    assert model is not None
    assert (model.seconds(np.array([[1.0], [100.0]])) >= 0).all()
    assert fit(np.zeros((0, 1)), np.zeros(0), np.zeros(0)) is None
