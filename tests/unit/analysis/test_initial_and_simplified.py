"""Rules on values that an earlier graph made, and on graphs that the compiler had simplified before they were seen."""

from __future__ import annotations

from dataclasses import replace

from xla_insight.analysis.recompiles.advice import advice
from xla_insight.analysis.recompiles.evidence import SAME_SIMPLIFIED, Evidence, Explanation
from xla_insight.analysis.recompiles.explain import Explained
from xla_insight.analysis.recompiles.happenings import Since, Upload
from xla_insight.analysis.recompiles.rules import explanation_of
from xla_insight.analysis.recompiles.wording import summary
from xla_insight.analysis.tables import NOWHERE
from xla_insight.facts.report import Site
from xla_insight.graph.diff import diff
from xla_insight.graph.model import Graph

from .test_rules import COMPILE, explained, graph


def windows(*, positions: str, offset: str, more: str = "") -> Graph:
    """Picks ``data[:, positions + offset]``; the positions are an iota made at line 13, or an input."""
    made = positions == "iota"
    return graph(
        "data = f32[16,64] parameter(0) @11 xla__device_data",
        "ps = s64[8] iota(), iota_dimension=0 @13 aten__arange" if made else
        "ps = s64[8] parameter(1) @17 xla__device_data",
        f"n = s64[] {offset} @17 {'xla__device_data' if 'parameter' in offset else 'prim__Constant'}",
        "ns = s64[8] broadcast(n), dimensions={} @17 aten__add",
        "where = s64[8] add(ps, ns) @17 aten__add",
        *([more] if more else []),
        f"y = f32[16,8] gather({'z' if more else 'data'}, where) @17 aten__index_select",
        "ROOT all = (s64[8], f32[16,8]) tuple(ps, y)" if made else "ROOT all = (f32[16,8]) tuple(y)",
    )  # fmt: skip


def test_a_tensor_that_was_still_pending_in_the_first_graph_is_state() -> None:
    first = windows(positions="iota", offset="constant(0)")
    for then in ("constant(1)", "parameter(2)"):
        found = explained(first, windows(positions="input", offset=then), ran=1, against_ran=1)
        assert (found.cause, found.expected, found.note) == ("warm_up", True, "state")
        assert found.frame is not None and found.frame.line == 13, "where it was made"


def test_what_is_computed_anew_beside_it_is_a_branch() -> None:
    first = windows(positions="iota", offset="constant(0)")
    other = windows(positions="input", offset="constant(1)", more="z = f32[16,64] negate(data) @18 aten__neg")
    found = explained(first, other, ran=1, against_ran=1)
    assert (found.cause, found.frame and found.frame.line) == ("control_flow", 18)


def rotated(rows: int, table: int = 0) -> Graph:
    """``x`` times a table of its length, made from numbers at line 22 and returned, or read from a longer ``table``."""
    return graph(
        f"x = f32[{rows},4] parameter(0) @31 xla__device_data",
        *([f"table = f32[{table},4] parameter(1) @25 xla__device_data",
           f"cos = f32[{rows},4] slice(table), slice={{[0:{rows}], [0:4]}} @25 xla__select"] if table else
          [f"n = f32[{rows},4] iota(), iota_dimension=0 @22 aten__arange",
           f"cos = f32[{rows},4] cosine(n) @23 aten__cos"]),
        f"y = f32[{rows},4] multiply(x, cos) @25 aten__mul",
        f"ROOT all = (f32[{rows},4]) tuple(y)" if table else f"ROOT all = (f32[{rows},4], f32[{rows},4]) tuple(cos, y)",
    )  # fmt: skip


def test_a_table_that_was_made_anew_in_another_size_is_state_and_no_branch() -> None:
    found = explained(rotated(8), rotated(8, table=24), ran=1, against_ran=1)
    assert (found.cause, found.expected, found.note) == ("warm_up", True, "table")
    assert (found.before, found.now, found.frame and found.frame.line) == ("f32[8,4]", "f32[24,4]", 23)
    said = summary([Explained(COMPILE, found, "before")])
    assert "was made once more, in another size, and is an input now: now f32[24,4], before f32[8,4]" in said


def head(classes: int, rows: int = 8) -> Graph:
    """``batch @ weight`` and the weight's update; the weight gives its buffer away, the batch does not."""
    made = graph(
        f"x = f32[{rows},4] parameter(0) @21 xla__device_data",
        f"w = f32[4,{classes}] parameter(1) @23 xla__device_data",
        f"y = f32[{rows},{classes}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} @23 aten__addmm",
        f"new = f32[4,{classes}] negate(w) @25 aten__add",
        f"ROOT all = (f32[{rows},{classes}], f32[4,{classes}]) tuple(y, new)",
    )
    return replace(made, donors=(1,))


def test_weights_of_another_size_are_another_module_and_no_input() -> None:
    found = explained(head(3), head(2))
    assert (found.cause, found.note, found.before, found.now) == ("control_flow", "weights", "f32[4,3]", "f32[4,2]")
    assert found.frame is not None and found.frame.line == 23
    assert "another module's weights" in summary([Explained(COMPILE, found, "before")])
    assert "index_select" in advice([Explained(COMPILE, found, "before")])


def test_an_input_whose_sharding_differs_is_known_by_its_upload() -> None:
    def step(sharding: str) -> Graph:
        made = graph("x = f32[16,4] parameter(0)", "ROOT y = f32[16,4] negate(x) @9 aten__neg")
        entry = made.entry
        instructions = (entry.instructions[0]._replace(sharding=sharding), *entry.instructions[1:])
        return replace(made, computations=(replace(entry, instructions=instructions),), parameter_shardings=(sharding,))

    one, two = step("{devices=[4,1]0,1,2,3}"), step("{replicated}")
    site = Site("train.py", 14, "<module>", "")
    since = Since(uploads=(Upload("", "float32", (16, 4), replace(NOWHERE, site=site, user_site=site), None),))
    found = explanation_of(Evidence(COMPILE, 2, "before", diff(one, two), one, two, since))
    assert (found.cause, found.site) == ("sharding", site)
    said = summary([Explained(COMPILE, found, "before")])
    assert said.startswith("The sharding of the tensor that enters the device at train.py:14 differs: now {replicated}")


def optimized(factor: str, *more: str, line: int = 12) -> Graph:
    """``upload * factor`` and a product with a weight, as the compiler leaves them: a factor of 1 is gone."""
    scaled = [
        *([f"k = f32[] {factor} @{line} {'xla__device_data' if 'parameter' in factor else 'prim__Constant'}",
           f"ks = f32[8] broadcast(k), dimensions={{}} @{line} aten__mul",
           f"x = f32[8] multiply(upload, ks) @{line} aten__mul"] if factor else ["x = f32[8] copy(upload)"]),
    ]  # fmt: skip
    product = "fusion(x, w), kind=kLoop" if factor else "dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    return graph(
        "upload = f32[8] parameter(0) @12 xla__device_data",
        "w = f32[8] parameter(1) @13 xla__device_data",
        *scaled,
        f"y = f32[8] {product} @13 aten__addmm",
        "f = f32[8] fusion(y), kind=kLoop",
        *more,
        f"ROOT all = (f32[8]) tuple({'z' if more else 'f'})",
    )


def simplified(before: Graph, after: Graph, **evidence: tuple[Graph, ...]) -> Explanation:
    difference = diff(before, after)
    return explanation_of(Evidence(COMPILE, 3, "before", difference, before, after, **evidence))  # type: ignore[arg-type]


def test_a_factor_that_the_compiler_left_out_is_a_special_scalar_and_no_branch() -> None:
    forms = {"zero": optimized("constant(0)"), "one": optimized(""), "two": optimized("parameter(2)")}
    for one, other in (("one", "zero"), ("two", "one"), ("one", "two")):
        found = simplified(forms[one], forms[other])
        assert (found.cause, found.frame and found.frame.line) == ("special_scalar", 12), (one, other)


def test_arithmetic_in_a_line_that_only_one_graph_runs_is_a_branch() -> None:
    found = simplified(optimized(""), optimized("parameter(2)", line=15))
    assert (found.cause, found.frame and found.frame.line) == ("control_flow", 15)


def test_what_a_read_ran_explains_only_operations_that_are_more_than_before() -> None:
    one, two = optimized(""), optimized("parameter(2)", "z = f32[8] tanh(f) @18 aten__tanh")
    read = graph(
        "upload = f32[8] parameter(0) @12 xla__device_data",
        "ROOT y = f32[8] negate(upload) @13 aten__addmm",
    )
    reading = Evidence(COMPILE, 3, "before", diff(two, one), two, one, read_graphs=(read,))
    assert explanation_of(reading).note != "leftover", "its addmm was there, as a fusion"
    assert explanation_of(replace(reading, difference=diff(one, two), before=one, after=two)).cause == "control_flow"


def test_graphs_that_the_compiler_made_one_say_so() -> None:
    found = simplified(optimized("constant(0)"), optimized("constant(0)"))
    assert (found.cause, found.note) == ("unknown", SAME_SIMPLIFIED)
