"""Is a step slower than it was, or is that noise? Step times after warm-up, compared block by block.

Owns what counts as warm-up and the statistics. Steps one after another resemble each other (a busy machine, a loader
that fell behind), so neither single steps nor their number are evidence: runs are cut into a few blocks of consecutive
steps, and blocks are compared. Compiles are counted and not estimated, so they are kept apart. What differs between
two starts of one program on one machine cannot be seen from one run of each; changes below `LEAST_CHANGE_PCT` are never
called a difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.facts.comparison import StepTime
from xla_insight.facts.report import HostState

Floats = NDArray[np.float64]
WARM_UP_STEPS = 3
"""Compiles in the first steps belong to the start of a run, and so does all before the last of them."""
LEAST_STEPS = 8
BLOCKS = 20
LEAST_CHANGE_PCT = 3.0
P_VALUE = 0.01
_RESAMPLES = 4000
_EXACT = 20_000
"""Up to so many splits all are tried, beyond it random ones."""
_COMPILE = f"host_{HostState.COMPILE}_ns"


@dataclass(frozen=True)
class SteadySteps:
    """The steps of one run after its warm-up (of the process that speaks for it)."""

    table: pd.DataFrame
    warm_up: int

    def __len__(self) -> int:
        return len(self.table)

    @property
    def mean_ms(self) -> float | None:
        """Mean time of a step with everything in it."""
        return float(self.table["duration_ns"].mean()) / 1e6 if len(self) else None

    @property
    def compiles(self) -> int:
        """Compiles in these steps."""
        return int(self.table["compiles"].sum())

    @property
    def compile_ms(self) -> float:
        """Mean time of a step spent compiling."""
        return float(self.table[_COMPILE].mean()) / 1e6 if len(self) else 0.0

    @property
    def median_ms(self) -> float | None:
        """Median time of a step with everything in it."""
        return float(self.table["duration_ns"].median()) / 1e6 if len(self) else None

    @property
    def plain_ms(self) -> Floats:
        """Time of each step without what it spent compiling."""
        values: Floats = (self.table["duration_ns"] - self.table[_COMPILE]).to_numpy(dtype=np.float64) / 1e6
        return values


def steady_steps(steps: pd.DataFrame) -> SteadySteps:
    """The rows of a step table (one process, in order) after the warm-up."""
    first = steps.head(WARM_UP_STEPS)
    compiled = np.flatnonzero(first["compiles"].to_numpy() > 0)
    warm_up = max(1, int(compiled[-1]) + 1 if len(compiled) else 0) if len(steps) else 0
    return SteadySteps(steps.iloc[warm_up:], warm_up)


def compare_step_time(before: SteadySteps, now: SteadySteps) -> StepTime:
    """The records' numbers; nothing is significant when a run has too few steps to tell noise."""
    plain = (before.plain_ms, now.plain_ms)
    enough = min(len(before), len(now)) >= LEAST_STEPS
    test = _test(blocks_of(plain[0]), blocks_of(plain[1])) if enough else None
    return StepTime(
        mean_before_ms=before.mean_ms,
        mean_now_ms=now.mean_ms,
        plain_before_ms=_mean(plain[0]),
        plain_now_ms=_mean(plain[1]),
        change_pct=test.change_pct if test else None,
        interval_pct=test.interval_pct if test else None,
        p_value=test.p_value if test else None,
        noise_pct=test.noise_pct if test else None,
        significant=test.significant if test else False,
        steps_before=len(before),
        steps_now=len(now),
        warm_up_before=before.warm_up,
        warm_up_now=now.warm_up,
    )


@dataclass(frozen=True)
class _Test:
    change_pct: float
    interval_pct: tuple[float, float]
    p_value: float
    noise_pct: float

    @property
    def significant(self) -> bool:
        """Unlikely by chance, larger than blocks of one run differ, and large enough to matter."""
        low, high = self.interval_pct
        return self.p_value < P_VALUE and (low > 0 or high < 0)


def blocks_of(values: Floats) -> Floats:
    """Mean of each of at most `BLOCKS` blocks of consecutive values, without the rare far outlier.

    A checkpoint every hundred steps is seen in `states`; left in, it would hide a change of every other step.
    """
    usual = np.minimum(values, 1.5 * np.percentile(values, 95)) if len(values) else values
    return np.array([part.mean() for part in np.array_split(usual, min(BLOCKS, len(usual)))])


def _test(before: Floats, now: Floats) -> _Test | None:
    base = float(before.mean())
    if base <= 0:
        return None
    chance = np.random.default_rng(0)
    resampled = [_resample(blocks, chance) for blocks in (before, now)]
    ratios = 100 * (resampled[1] / resampled[0] - 1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    noise_pct = 100 * math.sqrt(float(before.var(ddof=1)) + float(now.var(ddof=1))) / base
    change_pct = 100 * (float(now.mean()) / base - 1)
    # Two starts of one program differ by more than the blocks of one start can show, so the interval is never narrower
    # than what counts as a change: where it leaves out 0 there is a difference, and where not there is none.
    least = max(LEAST_CHANGE_PCT, noise_pct)
    return _Test(
        change_pct=change_pct,
        interval_pct=(min(float(low), change_pct - least), max(float(high), change_pct + least)),
        p_value=permutation_p(before, now, chance),
        noise_pct=noise_pct,
    )


def _resample(blocks: Floats, chance: np.random.Generator) -> Floats:
    picked = chance.integers(0, len(blocks), size=(_RESAMPLES, len(blocks)))
    means: Floats = blocks[picked].mean(axis=1)
    return means


def permutation_p(before: Floats, now: Floats, chance: np.random.Generator) -> float:
    """Two-sided: how often blocks dealt out at random differ in their means as much as these do."""
    together = np.concatenate([before, now])
    size, total = len(before), float(together.sum())
    observed = abs(float(before.mean()) - float(now.mean()))
    exact = math.comb(len(together), size) <= _EXACT
    if exact:
        sums = np.array([sum(chosen) for chosen in combinations(together.tolist(), size)])
    else:
        order = chance.random((_RESAMPLES, len(together))).argsort(axis=1)[:, :size]
        sums = together[order].sum(axis=1)
    differences = np.abs(sums / size - (total - sums) / len(now))
    hits = int((differences >= observed * (1 - 1e-12)).sum())
    return hits / len(sums) if exact else (hits + 1) / (len(sums) + 1)


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None
