"""Dynamic dimensions of a kind of batch, and which of them move together.

Owns the finding of *axes*: groups of dimensions whose sizes determine each other in every recorded batch (``input_ids``
1, ``attention_mask`` 1 and ``labels`` 1 are one axis). An axis of all first dimensions that falls short of its largest
size now and then only, as a last batch does, is *rows*: it is filled up rather than bucketed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xla_insight.analysis.shapes.batches import BatchInput

Integers = npt.NDArray[np.int64]

PARTIAL_SHARE = 0.1
"""Rows are only filled up when at most this share of the batches is smaller than the usual one."""
_LEADERS = ("input_ids", "input_values", "input_features", "pixel_values", "inputs_embeds")


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of one tensor of a batch."""

    input: str
    index: int

    def __str__(self) -> str:
        return f"{self.input}[{self.index}]"


@dataclass(frozen=True)
class Axis:
    """Dimensions that move together. ``sizes`` are those of ``leader``, the one that speaks for them."""

    leader: Dimension
    members: tuple[Dimension, ...]
    sizes: Integers
    """Size of each combination."""
    counts: Integers
    """Batches of each combination."""
    rows: bool = False

    @property
    def word(self) -> str:
        """The axis as text: ``input_ids[1]``."""
        return str(self.leader)

    @property
    def values(self) -> Integers:
        """Distinct sizes, smallest first."""
        return np.unique(self.sizes)

    @property
    def value_counts(self) -> Integers:
        """Batches of each of `values`."""
        _, code = np.unique(self.sizes, return_inverse=True)
        return np.bincount(code, self.counts).astype(np.int64)


def find_axes(combinations: Sequence[tuple[BatchInput, ...]], counts: Integers) -> tuple[Axis, ...]:
    """The axes of combinations of one kind, most distinct sizes first; none when every batch looks the same."""
    dimensions = [Dimension(entry.name, index) for entry in combinations[0] for index in range(len(entry.dims))]
    table = np.array([[size for entry in inputs for size in entry.dims] for inputs in combinations], np.int64)
    groups: list[list[int]] = []
    codes = [np.unique(table[:, column], return_inverse=True)[1] for column in range(table.shape[1])]
    for column, code in enumerate(codes):
        if not code.any():
            continue
        mates = next((group for group in groups if _together(codes[group[0]], code)), None)
        if mates is None:
            groups.append([column])
        else:
            mates.append(column)
    axes = [_axis(group, dimensions, table, counts, len(combinations[0])) for group in groups]
    return tuple(sorted(axes, key=lambda axis: (axis.rows, -len(axis.values), axis.word)))


def _together(one: Integers, other: Integers) -> bool:
    """Whether each size of one goes with exactly one size of the other."""
    pairs = len(np.unique(one * (int(other.max()) + 1) + other))
    return pairs == int(one.max()) + 1 == int(other.max()) + 1


def _axis(group: list[int], dimensions: list[Dimension], table: Integers, counts: Integers, inputs: int) -> Axis:
    members = tuple(dimensions[column] for column in group)
    lead = min(range(len(group)), key=lambda place: (_leading(members[place]), place))
    sizes = table[:, group[lead]]
    whole = float(counts[sizes == sizes.max()].sum()) / float(counts.sum())
    first_of_all = sum(member.index == 0 for member in members) == inputs == len(members)
    return Axis(members[lead], members, sizes, counts, rows=first_of_all and whole >= 1 - PARTIAL_SHARE)


def _leading(member: Dimension) -> int:
    return _LEADERS.index(member.input) if member.input in _LEADERS else len(_LEADERS)
