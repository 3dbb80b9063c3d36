"""What a moved size explains, and what it does not."""

from __future__ import annotations

import pytest

from xla_insight.graph.model import Attributes, Literal, Shape
from xla_insight.graph.moves import Explainer, dimension_moves


@pytest.mark.parametrize(
    ("before", "after"),
    [(12, 17), (48, 68), (11, 16), (44, 64), (144, 289), (1 / 12, 1 / 17), (7, 7)],
    ids=["same", "product", "offset", "product of an offset", "square", "reciprocal", "unmoved"],
)
def test_a_longer_sequence_explains(before: float, after: float) -> None:
    assert Explainer([(12, 17)]).number(before, after)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (1.5, 1.7), (17, 12), (0, 5), (32, 96), (float("inf"), 1.0)])
def test_a_longer_sequence_does_not_explain(before: float, after: float) -> None:
    assert not Explainer([(12, 17)]).number(before, after)


def test_two_sizes_explain_their_product() -> None:
    explainer = Explainer([(12, 17), (4, 3)])
    assert explainer.number(48, 51) and explainer.shapes(Shape("f32", (4, 12)), Shape("f32", (3, 17)))
    assert not Explainer([(12, 17)]).number(48, 51)


def test_moves_that_cancel_explain_nothing_more() -> None:
    assert not Explainer([(2, 3), (3, 2)]).number(7, 20)


def test_aranges_and_attributes() -> None:
    explainer = Explainer([(2, 3)])
    assert explainer.literals(Literal((0, 1), b"a", ""), Literal((0, 1, 2), b"b", ""))
    assert not explainer.literals(Literal((5, 1), b"a", ""), Literal((0, 1, 2), b"b", ""))
    assert not explainer.literals(Literal(None, b"a", ""), Literal((0, 1, 2), b"b", ""))
    old, new = Attributes((("slice", "{[0:2], [0:8]}"),)), Attributes((("slice", "{[0:3], [0:8]}"),))
    assert explainer.attributes(old, new)
    assert not explainer.attributes(old, Attributes((("slice", "{[0:3], [0:9]}"),)))
    assert not explainer.attributes(old, Attributes((("padding", "0_3"),)))


def test_moves_of_a_type() -> None:
    assert dimension_moves(Shape("f32", (4, 12)), Shape("f32", (4, 17))) == [(1, (12, 17))]
    assert dimension_moves(Shape("f32", (4, 12)), Shape("f32", (48,))) == []
