"""Words of the planning of shapes that surfaces offer to choose from."""

from __future__ import annotations

from enum import StrEnum


class Objective(StrEnum):
    """What the best plan has least of."""

    TIME = "time"
    """Seconds of compiling and of steps together."""
    STEPS = "steps"
    """Seconds of the steps: for graphs that come from a persistent cache, where compiling is paid for."""
    COMPILES = "compiles"
    """Seconds of compiling, whatever the padding costs."""
