"""The difference names exactly the edit: on steps of a real program, and on random edits of a real module."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.graph import modules
from xla_insight.graph.diff import diff
from xla_insight.graph.differences import Difference, DifferenceKind, GraphDiff
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.model import Attributes, Literal

K = DifferenceKind
# Without instructions that merge or die, so that an edit of one instruction is an edit of one node.
BASE = modules.canonical(modules.graph("base"))


def line(difference: Difference | None) -> tuple[str, str]:
    """(file name, text of the line number) of the innermost frame in the user's script."""
    assert difference is not None
    frames = [f for f in difference.stack if f.file.endswith("step.py")]
    return difference.op_type, frames[0].function if frames else ""


def root_of(result: GraphDiff) -> Difference:
    assert result.root is not None
    return result.root


def test_a_longer_batch_is_one_changed_input() -> None:
    result = diff(BASE, modules.graph("longer"))
    assert result.same_structure and result.same_but_shapes and not result.same_computation
    (changed,) = result.changed_parameters
    assert (str(changed.before.shape), str(changed.after.shape), changed.dims) == ("s64[4,12]", "s64[4,16]", (1,))
    assert len(result.roots) == 1 and root_of(result).kinds == (K.SHAPE,)
    assert result.moves[0].before == 12 and result.moves[0].after == 16 and result.moves[0].parameters
    assert all(move.derived for move in result.moves[1:])
    assert result.follows > 100


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_lines_that_are_known_for_a_part_change_nothing(share: float) -> None:
    whole = modules.graph("longer")
    *called, entry = whole.computations
    kept = int(share * len(entry.instructions))
    bare = [i._replace(metadata=i.metadata._replace(stack=())) for i in entry.instructions[:kept]]
    part = replace(entry, instructions=(*bare, *entry.instructions[kept:]))
    before = modules.graph("base")
    result = diff(before, replace(whole, computations=(*called, part)))
    assert result.same_structure and len(result.moves) == len(diff(before, whole).moves)
    assert [root.kinds for root in result.roots] == [(K.SHAPE,)]


def test_a_python_number_is_a_literal() -> None:
    result = diff(modules.graph("longer"), modules.graph("power"))
    assert result.same_but_constants
    assert (root_of(result).before_text, root_of(result).after_text) == ("1.5", "1.7")
    assert line(result.root) == ("prim__Constant", "forward")


def test_a_slice_start_is_an_attribute() -> None:
    result = diff(modules.graph("longer"), modules.graph("start"))
    assert result.same_but_attributes and len(result.roots) == 1
    assert (root_of(result).before_text, root_of(result).after_text) == ("slice={[3:11]}", "slice={[5:13]}")
    assert line(result.root) == ("xla__select", "step")


def test_a_scalar_that_becomes_one() -> None:
    result = diff(modules.graph("longer"), modules.graph("weight"))
    assert result.same_but_scalars and root_of(result).kind is K.SCALAR
    assert any(change.after == "constant 1" for change in result.scalar_changes)
    assert not diff(BASE, modules.graph("extra")).same_but_scalars


def test_another_branch_is_inserted_operations() -> None:
    result = diff(modules.graph("longer"), modules.graph("extra"))
    assert root_of(result).kind is K.INSERTED and line(result.root)[1] == "step"
    assert not result.changed_parameters and not result.removed_parameters
    assert any(dict(group.opcodes).get("sort") for group in result.inserted)
    assert result.inserted_count > 3 * result.removed_count


def test_the_second_step_has_the_optimizer_state() -> None:
    result = diff(modules.graph("first"), BASE)
    added = [p for p in result.added_parameters if not p.shape.is_scalar]
    assert len(added) >= 8 and not result.changed_parameters
    assert all(any("/torch/optim/" in frame.file for frame in p.metadata.stack) for p in added)


@pytest.mark.parametrize("name", modules.NAMES)
def test_a_graph_with_itself_is_empty(name: str) -> None:
    for other in (modules.graph(name), modules.text_graph(name), modules.renamed(modules.graph(name))):
        result = diff(modules.graph(name), other)
        assert result.is_empty and result.root is None
        assert result.contains_before and result.contains_after and not result.outputs_only


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(("first", "extra", "optimized"), 2)))
def test_any_two_graphs_can_be_compared(before: str, after: str) -> None:
    result = diff(modules.graph(before), modules.graph(after))
    assert result.root is not None and result.root in result.roots
    back = diff(modules.graph(after), modules.graph(before))
    assert (result.sizes.before, result.sizes.after) == (back.sizes.after, back.sizes.before)


def test_lines_come_from_either_side() -> None:
    bare = parse_hlo_text(re.sub(r", metadata=\{[^}]*\}", "", modules.read("start.txt").decode()))
    result = diff(modules.text_graph("longer"), bare)
    assert result.same_but_attributes and root_of(result).stack_inferred
    assert root_of(result).stack[0].file.endswith("step.py")
    result = diff(bare, modules.text_graph("longer"))
    assert result.same_but_attributes and root_of(result).stack and not root_of(result).stack_inferred


CONSTANTS = [p for p, i in enumerate(BASE.instructions) if i.opcode == "constant" and i.shape.dtype == "f32"]
MATHS = ("negate", "log", "exponential", "abs", "sqrt", "rsqrt")
UNARY = [p for p, i in enumerate(BASE.instructions) if i.opcode in MATHS]
VALUES = [
    p for p, i in enumerate(BASE.instructions) if i.shape.dtype == "f32" and i.opcode not in ("constant", "tuple")
]
ATTRIBUTED = [
    p for p, i in enumerate(BASE.instructions) if i.opcode in ("compare", "slice", "transpose", "dot", "reduce")
]


def only(positions: list[int]) -> st.SearchStrategy[int]:
    return st.sampled_from(positions)


def position(spot: object) -> int:
    assert isinstance(spot, tuple)
    return int(spot[1])


@settings(max_examples=25, deadline=None)
@given(only(CONSTANTS), st.floats(3, 9, width=32))
def test_random_constants(at: int, value: float) -> None:
    old = BASE.instructions[at]
    edited = old._replace(literal=Literal((value,), str(value).encode(), str(value)))
    result = diff(BASE, modules.with_instruction(BASE, at, edited))
    assert result.same_but_constants
    assert {position(root.after) for root in result.roots} == {at}
    assert root_of(result).after_text == str(value)


@settings(max_examples=25, deadline=None)
@given(only(ATTRIBUTED))
def test_random_attributes(at: int) -> None:
    old = BASE.instructions[at]
    edited = old._replace(
        attributes=Attributes(((*old.attributes.readable[0][:1], "edited"), *old.attributes.readable[1:]))
    )
    result = diff(BASE, modules.with_instruction(BASE, at, edited))
    assert K.ATTRIBUTE in root_of(result).kinds
    # Equal instructions elsewhere no longer merge with the edited one, nothing else may be named.
    assert {BASE.instructions[position(r.before or r.after)].opcode for r in result.roots} <= {old.opcode}
    assert "edited" in root_of(result).after_text


@settings(max_examples=25, deadline=None)
@given(only(VALUES), st.sampled_from(["cosine", "is-finite"]))
def test_random_insertions(at: int, opcode: str) -> None:
    result = diff(BASE, modules.inserted(BASE, at, opcode))
    assert [(g.count, g.opcodes) for g in result.inserted] == [(1, ((opcode, 1),))] and not result.removed
    assert position(root_of(result).after) == at + 1 and result.inserted_count == 1
    assert not result.changed_parameters and not result.added_parameters


@settings(max_examples=25, deadline=None)
@given(only(UNARY))
def test_random_deletions(at: int) -> None:
    result = diff(BASE, modules.removed(BASE, at))
    assert root_of(result).kind is K.REMOVED and position(root_of(result).before) == at
    assert result.removed_count == 1 and result.inserted_count == 0


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_sizes_of_inputs(data: st.DataObject) -> None:
    inputs = [p for p in BASE.parameters if p.shape.dims]
    chosen = data.draw(st.sampled_from(inputs))
    dim = data.draw(st.integers(0, len(chosen.shape.dims) - 1))
    dims = list(chosen.shape.dims)
    dims[dim] += data.draw(st.integers(1, 40))
    edited = BASE.instructions[chosen.position]._replace(shape=chosen.shape._replace(dims=tuple(dims)))
    result = diff(BASE, modules.with_instruction(BASE, chosen.position, edited))
    (changed,) = result.changed_parameters
    assert (changed.before.number, changed.after.number, changed.dims) == (chosen.number, chosen.number, (dim,))
    assert position(root_of(result).after) == chosen.position and not result.inserted and not result.removed
    assert result.same_but_shapes


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_reordered_inputs_are_nothing_but_reordered(random: object) -> None:
    count = len(BASE.parameters)
    order = list(range(count))
    random.shuffle(order)  # type: ignore[attr-defined]
    instructions = [i._replace(number=order[i.number]) if i.number >= 0 else i for i in BASE.instructions]
    result = diff(BASE, modules.with_entry(BASE, instructions))
    moved = {(number, place) for number, place in enumerate(order) if number != place}
    assert set(result.reordered_parameters) == moved
    assert not result.changed_parameters and not result.inserted and not result.removed
    assert {root.kind for root in result.roots} == ({K.PARAMETER_ORDER} if moved else set())


def test_outputs_donation_and_sharding() -> None:
    root = BASE.root
    fewer = root._replace(operands=root.operands[:-1], shape=root.shape._replace(parts=root.shape.parts[:-1]))
    # What only the last output needed would be gone with it: return a value that others use, too.
    result = diff(BASE, modules.with_instruction(BASE, BASE.entry.root, fewer))
    assert len(result.outputs.removed) == 1 and not result.outputs.added and result.contains_after
    donated = diff(BASE, replace(BASE, donors=BASE.donors[1:]))
    assert donated.same_computation and donated.donors_removed == BASE.donors[:1] and not donated.is_empty
    first = BASE.parameters[0].position
    sharded = modules.with_instruction(BASE, first, BASE.instructions[first]._replace(sharding="{devices=[2,1]<=[2]}"))
    result = diff(BASE, sharded)
    assert (
        result.same_computation and result.shardings_added == ("{devices=[2,1]<=[2]}",) and not result.shardings_removed
    )


LOOP = """HloModule m
body {
  p = (s32[], f32[4]{0}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4]{0} get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[4]{0} sine(x), metadata={op_type="sin" source_file="/a/model.py" source_line=7}
  ROOT r = (s32[], f32[4]{0}) tuple(next, y)
}
cond {
  q = (s32[], f32[4]{0}) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  limit = s32[] constant(8)
  ROOT less = pred[] compare(j, limit), direction=LT
}
ENTRY main {
  a = (s32[], f32[4]{0}) parameter(0)
  ROOT w = (s32[], f32[4]{0}) while(a), condition=cond, body=body
}
"""


def test_a_difference_inside_a_loop_is_found_there() -> None:
    result = diff(parse_hlo_text(LOOP), parse_hlo_text(LOOP.replace("sine(x)", "cosine(x)")))
    root = root_of(result)
    assert root.kind in (K.INSERTED, K.REMOVED) and (root.after or root.before).computation == "body"  # type: ignore[union-attr]
    assert root.stack[0].line == 7
    result = diff(parse_hlo_text(LOOP), parse_hlo_text(LOOP.replace("constant(8)", "constant(9)")))
    assert (root_of(result).before_text, root_of(result).after_text) == ("8", "9")
    assert root_of(result).after is not None and root_of(result).after.computation == "cond"  # type: ignore[union-attr]
