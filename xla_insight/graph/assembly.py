"""The last step of every parser: named computations become one checked, ordered ``Graph``.

Owns the invariants of the model (callees before callers, operands before users, a root that exists), so that nothing
behind it needs to check again. Leaves reading to the parsers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xla_insight.graph.model import Alias, Computation, Frame, Graph, Instruction

OUR_FRAMES = "/xla_insight/record/"
MAX_NESTING = 64


@dataclass(slots=True)
class DraftComputation:
    """A computation whose instructions still name the computations they call by the parser's own keys."""

    name: str
    instructions: list[Instruction]
    root: int
    # Key of each called computation, by position of the calling instruction.
    calls: dict[int, tuple[str | int, ...]] = field(default_factory=dict)


def assemble(
    name: str, source: str, drafts: dict[str | int, DraftComputation], entry: str | int, extras: Extras | None = None
) -> Graph:
    """Order computations (callees first, entry last, unreachable ones dropped) and make the graph.

    Raises ValueError when the entry or a called computation is missing, when calls form a cycle, when an operand does
    not stand before its user, or when a computation is empty.
    """
    places: dict[str | int, int] = {}
    done: list[Computation] = []
    for key in _callees_first(drafts, entry):
        draft = drafts[key]
        instructions = draft.instructions
        for position, called in draft.calls.items():
            instructions[position] = instructions[position]._replace(called=tuple(places[c] for c in called))
        _check(draft)
        places[key] = len(done)
        done.append(Computation(draft.name, tuple(instructions), draft.root))
    extras = extras or Extras()
    return Graph(name, source, tuple(done), extras.donors, extras.aliases, extras.output_sharding, extras.shardings)


@dataclass(slots=True)
class Extras:
    """What a module says beside its computations."""

    donors: tuple[int, ...] = ()
    aliases: tuple[Alias, ...] = ()
    output_sharding: str = ""
    shardings: tuple[str, ...] = ()


def _callees_first(drafts: dict[str | int, DraftComputation], entry: str | int) -> list[str | int]:
    if entry not in drafts:
        raise ValueError("no entry computation")
    order: list[str | int] = []
    state: dict[str | int, bool] = {}
    stack: list[tuple[str | int, bool]] = [(entry, False)]
    while stack:
        key, finished = stack.pop()
        if finished:
            state[key] = True
            order.append(key)
            continue
        if key in state:
            if not state[key]:
                raise ValueError("computations call each other in a circle")
            continue
        if key not in drafts:
            raise ValueError(f"computation {key!r} is called but not defined")
        state[key] = False
        stack.append((key, True))
        callees = {c: None for called in drafts[key].calls.values() for c in called}
        stack.extend((callee, False) for callee in reversed(callees))
    return order


def _check(draft: DraftComputation) -> None:
    if not 0 <= draft.root < len(draft.instructions):
        raise ValueError(f"computation {draft.name!r} has no root")
    for position, instruction in enumerate(draft.instructions):
        for operand in instruction.operands:
            if not 0 <= operand < position:
                raise ValueError(f"{instruction.name!r} uses a value that is not yet defined")


def clean_stack(frames: list[Frame]) -> tuple[Frame, ...]:
    """A stack without frames of the recorder (its wrappers run between the user's line and the framework)."""
    return tuple(frame for frame in frames if OUR_FRAMES not in frame.file)
