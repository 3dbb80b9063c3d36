"""From candidates to roots: what moved dimensions explain, where each remaining difference stands, how it reads.

Owns the choice of base moves and the texts of differences. Leaves collecting candidates to ``judge``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from xla_insight.graph.canonical import Form
from xla_insight.graph.differences import Difference, DifferenceKind, OpGroup, Spot
from xla_insight.graph.judge import Candidate
from xla_insight.graph.model import Frame, Instruction
from xla_insight.graph.moves import Explainer, Move, dimension_moves

MAX_SPOTS = 20
_FRAMEWORK = re.compile(
    r"/(torch|torch_xla|torch_tpu|functorch|jax|jaxlib|tensorflow)/|/typing_extensions\.py$"
    r"|[/\\][Ll]ib(64)?[/\\]python3[^/\\]*[/\\](?!site-packages|dist-packages)"
    r"|^<(?!ipython|stdin)"
)
"""Frameworks, thin wrappers around them, the standard library (``copy.deepcopy``), and code that a compiler generated
(``<eval_with_key>.3``): no line in them says why."""
_MAKERS = frozenset({"iota", "constant", "slice", "dynamic-slice", "pad"})


class Explained(NamedTuple):
    """Base moves, and the candidates they come from (which nothing explains)."""

    explainer: Explainer
    bases: tuple[Candidate, ...]


def choose_bases(candidates: list[Candidate]) -> Explained:
    """Base moves: those of changed parameters; without any, those of the first instruction that makes a new size."""
    sources = [c for c in candidates if _instruction(c).opcode == "parameter"]
    if not any(_moves(c) for c in sources):
        shaped = [c for c in candidates if DifferenceKind.SHAPE in c.kinds and c.inputs_equal]
        sources = [c for c in shaped if len(c.kinds) > 1 or _instruction(c).opcode in _MAKERS][:1] or shaped[:1]
    return Explained(Explainer(move for c in sources for move in _moves(c)), tuple(sources))


def _moves(candidate: Candidate) -> list[Move]:
    if candidate.before is None or candidate.after is None:
        return []
    before = candidate.forms[0].instruction(candidate.before).shape
    return [move for _, move in dimension_moves(before, candidate.forms[1].instruction(candidate.after).shape)]


def is_derived(candidate: Candidate, explained: Explained) -> bool:
    """Whether all in which a pair differs follows from base moves. Parameters are never derived."""
    explainer = explained.explainer
    if candidate.before is None or candidate.after is None or not explainer.bases or candidate in explained.bases:
        return False
    before = candidate.forms[0].instruction(candidate.before)
    after = candidate.forms[1].instruction(candidate.after)
    if before.opcode == "parameter":
        return False
    return all(_explains(explainer, kind, before, after) for kind in candidate.kinds)


def _explains(explainer: Explainer, kind: DifferenceKind, before: Instruction, after: Instruction) -> bool:
    if kind is DifferenceKind.SHAPE:
        return explainer.shapes(before.shape, after.shape)
    if kind is DifferenceKind.LITERAL:
        return explainer.literals(before.literal, after.literal)
    if kind is DifferenceKind.ATTRIBUTE:
        return explainer.attributes(before.attributes, after.attributes)
    return kind is DifferenceKind.LAYOUT


def _instruction(candidate: Candidate) -> Instruction:
    if candidate.after is not None:
        return candidate.forms[1].instruction(candidate.after)
    assert candidate.before is not None
    return candidate.forms[0].instruction(candidate.before)


def spot(form: Form, node: int) -> Spot:
    """The place of a node."""
    position = form.positions[node]
    return Spot(form.computation.name, position, form.computation.instructions[position])


class Describer:
    """Turns candidates into differences; finds a stack for each."""

    def __init__(self) -> None:
        self._users: dict[int, dict[int, list[int]]] = {}

    def describe(self, candidate: Candidate) -> Difference:
        """The difference that a candidate stands for."""
        left = None if candidate.before is None else spot(candidate.forms[0], candidate.before)
        right = None if candidate.after is None else spot(candidate.forms[1], candidate.after)
        before_text, after_text = _texts(candidate.kinds, left, right)
        stack, inferred = self.stack(candidate)
        return Difference(candidate.kinds, left, right, before_text, after_text, stack, inferred)

    def stack(self, candidate: Candidate) -> tuple[tuple[Frame, ...], bool]:
        """(stack, inferred): the later instruction's own, else its partner's, else that of the first user with one."""
        sides = [(candidate.forms[1], candidate.after), (candidate.forms[0], candidate.before)]
        for number, (form, node) in enumerate(sides):
            if node is not None and form.instruction(node).metadata.stack:
                return form.instruction(node).metadata.stack, number == 1 and sides[0][1] is not None
        for form, node in sides:
            if node is not None:
                stack = self._user_stack(form, node)
                if stack:
                    return stack, True
        return (), False

    def _user_stack(self, form: Form, node: int) -> tuple[Frame, ...]:
        users = self._users.get(id(form))
        if users is None:
            users = self._users[id(form)] = defaultdict(list)
            for user, operands in enumerate(form.operands):
                for operand in operands:
                    users[operand].append(user)
        level, seen = [node], {node}
        for _ in range(4):
            level = [user for one in level for user in users.get(one, ()) if user not in seen and user != form.root]
            seen.update(level)
            for user in sorted(level):
                if form.instruction(user).metadata.stack:
                    return form.instruction(user).metadata.stack
        return ()


def _texts(kinds: tuple[DifferenceKind, ...], before: Spot | None, after: Spot | None) -> tuple[str, str]:
    """What differs, in few words, for each side."""
    if before is None or after is None:
        only = before or after
        assert only is not None
        text = f"{only.instruction.opcode} {only.instruction.shape}"
        return (text, "") if before else ("", text)
    parts: tuple[list[str], list[str]] = ([], [])
    for kind in kinds:
        for side, one in enumerate((before.instruction, after.instruction)):
            other = (after if side == 0 else before).instruction
            parts[side].append(_text(kind, one, other))
    return ", ".join(filter(None, parts[0])), ", ".join(filter(None, parts[1]))


def _text(kind: DifferenceKind, one: Instruction, other: Instruction) -> str:
    if kind is DifferenceKind.LITERAL:
        return one.literal.text if one.literal else ""
    if kind is DifferenceKind.ATTRIBUTE:
        shared = set(one.attributes.readable) & set(other.attributes.readable)
        return ", ".join(f"{name}={value}" for name, value in one.attributes.readable if (name, value) not in shared)
    if kind is DifferenceKind.LAYOUT:
        return f"{one.shape}{{{','.join(map(str, one.shape.layout))}}}"
    if kind in (DifferenceKind.SHAPE, DifferenceKind.DTYPE):
        return str(one.shape)
    return one.name


def group_operations(nodes: Iterable[tuple[Form, int, tuple[float, ...]]]) -> tuple[OpGroup, ...]:
    """Instructions without partner, grouped by line and framework operation, in order of first occurrence."""
    groups: dict[tuple[Frame | None, str], list[Spot]] = {}
    for form, node, _ in nodes:
        place = spot(form, node)
        metadata = place.instruction.metadata
        groups.setdefault((site_of(metadata.stack), metadata.op_type), []).append(place)
    return tuple(_group(op_type, spots) for (_, op_type), spots in groups.items())


def _group(op_type: str, spots: list[Spot]) -> OpGroup:
    stack = spots[0].instruction.metadata.stack
    counts = Counter(place.instruction.opcode for place in spots)
    return OpGroup(
        site_of(stack), op_type, len(spots), tuple(counts.most_common()), stack, tuple(spots[:MAX_SPOTS])
    )  # fmt: skip


def site_of(stack: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame outside the framework, else the innermost one; None for an empty stack."""
    for frame in stack:
        if not in_framework(frame):
            return frame
    return stack[0] if stack else None


def in_framework(frame: Frame) -> bool:
    """Whether a frame belongs to torch, torch_xla, JAX or TensorFlow itself, to the standard library or to no file."""
    return _FRAMEWORK.search(frame.file) is not None


def first_of_groups(
    nodes: Iterable[tuple[Form, int, tuple[float, ...]]],
) -> list[tuple[Form, int, tuple[float, ...]]]:
    """For each line and framework operation the first instruction that computes something, else the first at all."""
    groups: dict[tuple[Frame | None, str], tuple[Form, int, tuple[float, ...]]] = {}
    for entry in nodes:
        instruction = entry[0].instruction(entry[1])
        key = (site_of(instruction.metadata.stack), instruction.metadata.op_type)
        first = groups.setdefault(key, entry)
        if instruction.opcode != "constant" and first[0].instruction(first[1]).opcode == "constant":
            groups[key] = entry
    return list(groups.values())
