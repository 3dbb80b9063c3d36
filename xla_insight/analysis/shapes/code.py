"""The lines to paste: the call of `xla_insight.padding.BucketCollator` that makes a plan come true."""

from __future__ import annotations

import json

import numpy as np

from xla_insight.analysis.shapes.axes import Axis, Dimension
from xla_insight.analysis.shapes.batches import UNNAMED
from xla_insight.analysis.shapes.plans import Buckets
from xla_insight.analysis.shapes.problem import Problem


def padding_code(problem: Problem, buckets: Buckets) -> str:
    """Python for the plan; ``data_collator`` stands for the collator that is in use now."""
    lines: list[str] = []
    by_hand: list[str] = []
    axes = [
        *zip(problem.axes, buckets, strict=False),
        *((axis, (int(axis.values[-1]),)) for axis in problem.padded_axes),
    ]
    for axis, ends in axes:
        for members, sizes in member_ends(problem, axis, ends):
            known = [member for member in members if not member.input.startswith(UNNAMED)]
            by_hand += [f"# {m.input}, dimension {m.index}: {list(sizes)}" for m in members if m not in known]
            lines += [f"        {_key(known)}: {list(sizes)},"] if known else []
    if by_hand:
        by_hand.insert(0, "# No collator makes these tensors: pad each where it is made, up to the next of its sizes.")
    if by_hand and not lines and problem.rows is None:
        return "\n".join(by_hand)
    arguments = ["    data_collator,", "    buckets={", *lines, "    },"] if lines else ["    data_collator,"]
    if problem.rows is not None:
        arguments.append(f"    rows={int(problem.rows.values[-1])},")
    return "\n".join(
        [
            "from xla_insight.padding import BucketCollator",
            "",
            "data_collator = BucketCollator(",
            *arguments,
            ")",
            *by_hand,
        ]
    )


def member_ends(problem: Problem, axis: Axis, ends: tuple[int, ...]) -> list[tuple[list[Dimension], tuple[int, ...]]]:
    """The dimensions of an axis, together where their bucket ends are the same, with those ends."""
    places = {
        str(Dimension(entry.name, index)): (position, index)
        for position, entry in enumerate(problem.combinations[0])
        for index in range(len(entry.dims))
    }
    grouped: dict[tuple[int, ...], list[Dimension]] = {}
    for member in axis.members:
        position, index = places[str(member)]
        own = np.array([inputs[position].dims[index] for inputs in problem.combinations], np.int64)
        grouped.setdefault(_own_ends(axis, own, ends), []).append(member)
    return [(members, sizes) for sizes, members in grouped.items()]


def _own_ends(axis: Axis, own: np.typing.NDArray[np.int64], ends: tuple[int, ...]) -> tuple[int, ...]:
    """The ends in sizes of one member: its size where the leader has an end, else as far from it as beside that."""
    sizes = []
    for end in ends:
        nearest = int(np.argmin(np.abs(axis.sizes - end)))
        sizes.append(end + int(own[nearest]) - int(axis.sizes[nearest]))
    return tuple(sorted(sizes))


def _key(members: list[Dimension]) -> str:
    """A key of ``buckets``: a field, or several; dimension 1 goes without saying."""
    parts = [json.dumps(m.input) if m.index == 1 else f"({json.dumps(m.input)}, {m.index})" for m in members]
    if len(members) == 1 and members[0].index == 1:
        return parts[0]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
