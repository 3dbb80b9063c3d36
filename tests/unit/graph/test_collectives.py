"""Collectives are counted as they run: calls multiply, loops too, a start and its done are one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph import modules
from xla_insight.graph.collectives import KINDS, collectives, device_groups, iota_order, kind_of
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.model import Frame, Metadata
from xla_insight.graph.schema import message_class

SUM = """sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT add = f32[] add(x, y)
}
"""
SIZES = {"f32": 4, "bf16": 2, "s8": 1, "pred": 1}
Entry = tuple[str, str, int, int]
"""Kind, dtype, elements, and how many groups 4 devices form."""


def line(number: int, entry: Entry, operand: str) -> str:
    """An instruction of the kind, on one value of that size."""
    kind, dtype, elements, groups = entry
    listed = "{{0,1,2,3}}" if groups == 1 else "{{0,1},{2,3}}"
    reducing = ", to_apply=sum" if kind in ("all-reduce", "reduce-scatter") else ""
    shape = f"{dtype}[{elements}]"
    return f"  c{number} = {shape} {kind}({shape} {operand}), replica_groups={listed}{reducing}"


def computation(name: str, entries: list[Entry], calls: list[str], *, entry: bool) -> str:
    """A computation with these collectives, which calls others."""
    lines = [f"{'ENTRY ' if entry else ''}{name} {{"]
    for number, one in enumerate(entries):
        lines.append(f"  p{number} = {one[1]}[{one[2]}] parameter({number})")
        lines.append(line(number, one, f"p{number}"))
    lines.append(f"  q = f32[] parameter({len(entries)})")
    lines += [f"  k{number} = f32[] call(q), to_apply={called}" for number, called in enumerate(calls)]
    return "\n".join([*lines, "  ROOT r = f32[] copy(q)", "}", ""])


entries = st.lists(
    st.tuples(
        st.sampled_from([kind for kind in KINDS if kind != "ragged-all-to-all"]),
        st.sampled_from(sorted(SIZES)), st.integers(1, 999), st.integers(1, 2),
    ),
    max_size=6,
)  # fmt: skip


def by_kind(text: str) -> dict[str, tuple[int, int]]:
    """(count, bytes) of each kind in a module."""
    found: dict[str, tuple[int, int]] = {}
    for one in collectives(parse_hlo_text(text)):
        count, size = found.get(one.kind, (0, 0))
        found[one.kind] = count + one.count, size + one.count * one.payload_bytes
    return found


@given(inner=entries, outer=entries, calls=st.integers(0, 3))
def test_counts_equal_those_of_the_text(inner: list[Entry], outer: list[Entry], calls: int) -> None:
    text = "HloModule m\n\n" + SUM + computation("inner", inner, [], entry=False)
    text += computation("main", outer, ["inner"] * calls, entry=True)
    expected: dict[str, tuple[int, int]] = {}
    for kind, dtype, elements, _groups in outer + inner * calls:
        count, size = expected.get(kind, (0, 0))
        expected[kind] = count + 1, size + elements * SIZES[dtype]
    assert by_kind(text) == expected


@given(st.text())
def test_any_text_of_groups_is_taken(text: str) -> None:
    try:
        groups = device_groups(text)
    except ValueError:
        return  # digits of other scripts are no numbers
    assert all(isinstance(device, int) for group in groups for device in group)


arrays = st.lists(st.integers(1, 4), min_size=1, max_size=3).flatmap(
    lambda sizes: st.tuples(st.just(sizes), st.permutations(range(len(sizes))))
)


@given(arrays)
def test_an_iota_names_every_device_once(drawn: tuple[list[int], list[int]]) -> None:
    sizes, order = drawn
    assert sorted(iota_order(sizes, order)) == list(range(math.prod(sizes)))


def test_groups_in_both_notations() -> None:
    assert device_groups("{{0,1},{2,3}}") == ((0, 1), (2, 3))
    assert device_groups("[2,2]<=[4]") == ((0, 1), (2, 3))
    assert device_groups("[2,2]<=[2,2]T(1,0)") == ((0, 2), (1, 3))
    assert device_groups("[3,2]<=[4]") == device_groups("") == ()


LOOP = """HloModule m

{sum}body {{
  v = f32[8] parameter(0)
  ROOT a = f32[8] all-reduce(v), replica_groups={{{{0,1}}}}, to_apply=sum
}}
test {{
  w = f32[8] parameter(0)
  ROOT t = pred[] constant(true)
}}
ENTRY main {{
  p = f32[8] parameter(0)
  ROOT l = f32[8] while(p), condition=test, body=body{config}
}}
"""


def test_a_loop_multiplies_when_it_says_how_often_it_turns() -> None:
    config = ', backend_config={"known_trip_count":{"n":"5"},"known_init_step":{"init":"0","step":"1"}}'
    (told,) = collectives(parse_hlo_text(LOOP.format(sum=SUM, config=config)))
    assert (told.count, told.looped, told.payload_bytes) == (5, False, 32)
    (untold,) = collectives(parse_hlo_text(LOOP.format(sum=SUM, config="")))
    assert (untold.count, untold.looped) == (1, True)


def test_a_start_and_its_done_are_one() -> None:
    text = """HloModule m

ENTRY main {
  p = f32[2] parameter(0)
  s = (f32[2], f32[8]) all-gather-start(p), replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT d = f32[8] all-gather-done(s)
}
"""
    (found,) = collectives(parse_hlo_text(text))
    assert (found.kind, found.count, found.payload_bytes, str(found.shape)) == ("all-gather", 1, 32, "f32[8]")


def test_each_line_outside_the_framework_has_its_own() -> None:
    reduced = "".join(f"  r{n} = f32[8]{{0}} all-reduce(p), replica_groups={{}}, to_apply=sum\n" for n in range(4))
    text = f"HloModule m\n\n{SUM}\nENTRY e {{\n  p = f32[8]{{0}} parameter(0)\n{reduced}  ROOT t = () tuple()\n}}\n"
    graph = parse_hlo_text(text)
    layer = Frame("/site-packages/torch/nn/modules/linear.py", 134, "forward")
    stacks = iter(
        [(layer, Frame("/me/model.py", 33)), (layer, Frame("/me/model.py", 39)), (), (layer, Frame("/me/model.py", 33))]
    )
    changed = tuple(
        one._replace(metadata=Metadata(stack=next(stacks))) if one.opcode == "all-reduce" else one
        for one in graph.entry.instructions
    )
    entry = replace(graph.entry, instructions=changed)
    found = collectives(replace(graph, computations=(*graph.computations[:-1], entry)))
    assert {one.site and one.site.line: one.count for one in found} == {33: 2, 39: 1, None: 1}


def test_an_asynchronous_computation_counts_once() -> None:
    text = """HloModule m

inner {
  x = f32[8] parameter(0)
  ROOT a = f32[8] all-to-all(x), replica_groups={{0,1}}, dimensions={0}
}
ENTRY main {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[8], u32[]) async-start(p), calls=inner
  u = ((f32[8]), f32[8], u32[]) async-update(s), calls=inner
  ROOT d = f32[8] async-done(u), calls=inner
}
"""
    (found,) = collectives(parse_hlo_text(text))
    assert (found.kind, found.count) == ("all-to-all", 1)


def test_a_real_program_has_what_its_proto_lists() -> None:
    data = modules.read("fsdp.hlo.pb")
    listed: dict[str, int] = {}
    for part in message_class("HloProto").FromString(data).hlo_module.computations:
        for instruction in part.instructions:
            if instruction.opcode in KINDS:
                listed[instruction.opcode] = listed.get(instruction.opcode, 0) + 1
    found = collectives(parse_hlo_proto(data))
    counted = {kind: sum(one.count for one in found if one.kind == kind) for kind in {one.kind for one in found}}
    assert counted == listed == {"all-gather": 4, "all-reduce": 5}
    assert all(one.groups == ((0, 1, 2, 3),) for one in found)
    assert {(one.shape, one.payload_bytes) for one in found if one.kind == "all-gather"} == {
        ("f32[8]", 32), ("f32[8,16]", 512), ("f32[8,8]", 256), ("f32[16,8]", 512),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("opcode", "kind"), [("all-reduce-start", "all-reduce"), ("all-reduce-done", None), ("add", None)]
)
def test_kinds(opcode: str, kind: str | None) -> None:
    assert kind_of(opcode) == kind
