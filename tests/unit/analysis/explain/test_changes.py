"""Code to start from: for the causes that have some, with the names the recording knows; it is at least Python."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.report.test_text_report import REPORT
from xla_insight.analysis.explain.changes import _FIXED, code_change
from xla_insight.facts.report import Recompile

ENTRY = REPORT.recompiles[1]


def entry(cause: str, **root: Any) -> Recompile:
    return replace(ENTRY, cause=cause, root=root)


@pytest.mark.parametrize("cause", [*(_FIXED.keys() - {"evicted"}), "input_shape"])
def test_it_is_python(cause: str) -> None:
    for root in ({}, {"input": "ids", "dimension": 1, "now": "s64[8,137]"}, {"input": "a-b", "dimension": 0}):
        code = code_change(entry(cause, **root))
        assert code and "a-b" not in code
        ast.parse(code)


@pytest.mark.parametrize(
    ("root", "code"),
    [
        ({"input": "ids", "dimension": 1, "now": "s64[8,137]"}, "pad(ids, (0, -ids.shape[1] % 64))"),
        (
            {"input": "images", "dimension": 2, "now": "f32[8,3,224,224]"},
            "pad(images, (0, 0, 0, -images.shape[2] % 64))",
        ),
        ({"input": "ids", "dimension": 0, "now": "s64[8,137]"}, "drop_last=True"),
        ({"dimension": 5, "now": "s64[8,137]"}, "pad_to_multiple_of"),
        ({"dimension": 1, "now": "nonsense"}, "pad_to_multiple_of"),
        ({}, "pad_to_multiple_of"),
    ],
)
def test_padding_names_the_dimension(root: dict[str, Any], code: str) -> None:
    assert code in code_change(entry("input_shape", **root))


def test_nothing_to_change_is_no_code() -> None:
    assert code_change(replace(entry("input_shape"), expected=True)) == ""
    assert code_change(replace(entry("input_shape"), advice="")) == ""
    assert code_change(entry("unknown")) == code_change(entry("sharding")) == ""
