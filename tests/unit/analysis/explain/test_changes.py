"""Code to start from: for the causes that have some, with the names the recording knows; it is at least Python."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.report.test_text_report import REPORT
from xla_insight.analysis.explain.changes import _FIXED, code_change
from xla_insight.facts.report import Recompile, ShapeFacts

ENTRY = REPORT.recompiles[1]


def entry(cause: str, **root: Any) -> Recompile:
    return replace(ENTRY, cause=cause, root=root)


@pytest.mark.parametrize("cause", [*sorted(_FIXED.keys() - {"evicted"}), "input_shape"])
def test_it_is_python(cause: str) -> None:
    for root in ({}, {"input": "a-b", "dimension": 1, "now": "s64[8,9]", "before": "s64[8,7]"}, {"dimension": 0}):
        code = code_change(entry(cause, **root))
        assert code
        ast.parse(code)


@pytest.mark.parametrize(
    ("root", "code"),
    [
        ({"input": "ids", "dimension": 1, "now": "s64[8,137]", "before": "s64[8,96]"}, "pad(ids, (0, -ids.shape[1] %"),
        ({"input": "y", "dimension": 2, "now": "f32[8,3,20]", "before": "f32[8,3,30]"}, "pad(y, (0, -y.shape[2] % 64"),
        ({"dimension": 1, "now": "s64[8,137]", "before": "s64[8,96]"}, "pad(x, (0, -x.shape[1] % 64))"),
        ({"dimension": 1, "now": "f32[8,9,4]", "before": "f32[8,8,4]"}, "pad(x, (0, 0, 0, -x.shape[1] % 64))"),
        ({"input": "ids", "dimension": 0, "now": "s64[8,137]"}, "drop_last=True"),
        ({"dimension": 5, "now": "s64[8,137]", "before": "s64[8,1]"}, "pad_to_multiple_of"),
        ({"dimension": 1, "now": "nonsense"}, "pad_to_multiple_of"),
        ({}, "pad_to_multiple_of"),
    ],
)
def test_padding_names_the_dimension(root: dict[str, Any], code: str) -> None:
    assert code in code_change(entry("input_shape", **root))


def test_the_plan_of_the_run_is_the_code() -> None:
    plan = ShapeFacts("", "optimal-1", ((96,),), 3.0, 2, "the code", dimensions=("ids[1]", "mask[1]"))
    for name, dimension in (("ids", 1), ("mask", 1), ("ids", None)):
        assert code_change(entry("input_shape", input=name, dimension=dimension), plan) == "the code"
    for name, dimension in (("ids", 0), ("other", 1), ("", 1)):
        assert code_change(entry("input_shape", input=name, dimension=dimension), plan) not in ("", "the code")
    leave = replace(plan, plan=None, buckets=(), code="")
    assert code_change(entry("input_shape", input="ids", dimension=1), leave) == ""


def test_a_position_becomes_a_tensor() -> None:
    assert "index_select" in code_change(entry("baked_value", opcode="slice"))
    assert "index_select" not in code_change(entry("baked_value", opcode="power"))


def test_nothing_to_change_is_no_code() -> None:
    assert code_change(replace(entry("input_shape"), expected=True)) == ""
    assert code_change(replace(entry("input_shape"), advice="")) == ""
    assert code_change(entry("unknown")) == code_change(entry("sharding")) == ""
