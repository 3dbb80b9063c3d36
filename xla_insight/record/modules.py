"""Which captured module belongs to which compile: by order, checked by the counts of inputs and outputs.

Owns the assignment within one interval between two hooks. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xla_insight.record.blocks import Block
from xla_insight.record.hlo_facts import HloFacts, read_hlo_facts

UNNAMED = "hlo-"
"""Begin of the id of a graph that the framework did not name: the rest is from the module's content."""


@dataclass(frozen=True)
class Module:
    """A captured module: a serialized ``HloProto`` before optimization, and after it where that says more."""

    content: bytes
    optimized: bytes | None = None
    """Of a graph that runs on several devices: only after optimization does it hold what they exchange."""

    @cached_property
    def facts(self) -> HloFacts:
        """Counts and source lines."""
        return read_hlo_facts(self.content)

    @cached_property
    def unnamed_id(self) -> str:
        """An id for a graph without a known hash."""
        return UNNAMED + hashlib.sha256(self.content).hexdigest()[:16]

    def fits(self, block: Block) -> bool:
        """Whether its inputs and outputs are as many as the block says; unknown counts fit."""
        pairs = ((self.facts.inputs, block.inputs), (self.facts.outputs, block.outputs))
        return all(-1 in pair or pair[0] == pair[1] for pair in pairs)


def assign(blocks: Sequence[Block], modules: Sequence[Module]) -> tuple[dict[int, Module], list[Module]]:
    """(index of a compile block -> its module, modules left over), both given in order of time."""
    given: dict[int, Module] = {}
    left: list[Module] = []
    position = 0
    for index, block in enumerate(blocks):
        found = next((p for p in range(position, len(modules)) if modules[p].fits(block)), None)
        if found is not None:
            given[index] = modules[found]
            left.extend(modules[position:found])
            position = found + 1
    return given, [*left, *modules[position:]]
