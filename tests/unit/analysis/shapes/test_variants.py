"""Which graphs belong together over shapes."""

from __future__ import annotations

import numpy as np

from xla_insight.analysis.shapes.variants import _Pair, _places


def test_places_are_found_in_whatever_order_executions_come() -> None:
    pairs = [_Pair(0, 0, 1, 1, 2), _Pair(1, 1, 0, 0, 1)]
    codes, unit = np.array([0, 1, 0]), np.array([1, 0, 1])
    assert _places(pairs, codes, unit) == {0: 0, 1: 0}
