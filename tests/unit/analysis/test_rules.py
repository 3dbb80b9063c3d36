"""Rules on small graphs written as text: what tells causes apart that look alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from xla_insight.analysis.recompiles.advice import advice
from xla_insight.analysis.recompiles.evidence import Evidence, Explanation
from xla_insight.analysis.recompiles.explain import Explained
from xla_insight.analysis.recompiles.history import Compile
from xla_insight.analysis.recompiles.rules import explanation_of
from xla_insight.analysis.recompiles.series import _grows_alike, _growth, _rewired, _sisters, _starts
from xla_insight.analysis.tables import NOWHERE
from xla_insight.facts.report import Site
from xla_insight.graph.diff import diff
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.model import Frame, Graph
from xla_insight.graph.nearest import Signature, signature

COMPILE = Compile(0, 0, 1, 1, "now", "sync", "", replace(NOWHERE, site=Site("train.py", 90, "<module>", "")), (0,))


def graph(*lines: str) -> Graph:
    """A module; ``@7 aten__mul`` at the end of a line is its source line in train.py and its operation."""
    body = []
    for text in lines:
        instruction, _, origin = text.partition(" @")
        line, _, operation = origin.partition(" ")
        metadata = f', metadata={{op_type="{operation}" source_file="train.py" source_line={line}}}' if origin else ""
        body.append(f"  {instruction}{metadata}")
    return parse_hlo_text("\n".join(["HloModule m", "", "ENTRY main {", *body, "}", ""]))


def explained(before: Graph, after: Graph, ran: int = -1, against_ran: int = -1) -> Explanation:
    """The cause of the second graph of a family."""
    difference = diff(before, after)
    return explanation_of(Evidence(COMPILE, 1, "before", difference, before, after, ran=ran, against_ran=against_ran))


def moving_average(shared: bool) -> Graph:
    """``target * decay + source * rate``, and a product with 1 at another line; equal scalars are one input."""
    rate = "decay" if shared else "rate"
    return graph(
        "target = f32[8] parameter(0) @3 xla__device_data",
        "source = f32[8] parameter(1) @2 xla__device_data",
        "decay = f32[] parameter(2) @7 xla__device_data",
        *([] if shared else ["rate = f32[] parameter(3) @7 xla__device_data"]),
        "one = f32[] constant(1) @4 prim__Constant",
        "ones = f32[8] broadcast(one), dimensions={} @4 aten__div",
        "decays = f32[8] broadcast(decay), dimensions={} @7 aten__mul",
        f"rates = f32[8] broadcast({rate}), dimensions={{}} @7 aten__add",
        "same = f32[8] divide(source, ones) @4 aten__div",
        "kept = f32[8] multiply(target, decays) @7 aten__mul",
        "new = f32[8] multiply(same, rates) @7 aten__add",
        "ROOT sum = f32[8] add(kept, new) @7 aten__add",
    )


def test_scalars_that_become_equal_are_no_constants_though_a_constant_is_used_alike() -> None:
    found = explained(moving_average(shared=False), moving_average(shared=True))
    assert found.cause == "shared_scalar"
    assert found.frame is not None and found.frame.line == 7
    again = explained(moving_average(shared=True), moving_average(shared=False))
    assert again.cause == "shared_scalar"


@pytest.mark.parametrize(("operation", "cause"), [("aten__expand", "special_scalar"), ("aten__pow", "baked_value")])
def test_a_counter_that_fills_a_tensor_is_no_part_of_an_operation(operation: str, cause: str) -> None:
    def step(value: int) -> Graph:
        return graph(
            "x = f32[8] parameter(0) @3 xla__device_data",
            f"n = f32[] constant({value}) @5 prim__Constant",
            f"many = f32[8] broadcast(n), dimensions={{}} @5 {operation}",
            f"ROOT y = f32[8] {'power' if operation == 'aten__pow' else 'multiply'}(x, many) @5 {operation}",
        )

    assert explained(step(0), step(1)).cause == cause


def test_an_argument_that_was_zero_switches_operations_on_and_creates_no_state() -> None:
    plain = graph("x = f32[8] parameter(0) @3 xla__device_data", "ROOT y = f32[8] negate(x) @9 aten__neg")
    noisy = graph(
        "x = f32[8] parameter(0) @3 xla__device_data",
        "p = f32[] parameter(1) @5 xla__device_data",
        *[f"a{n} = f32[] {op}({f'a{n - 1}' if n else 'p'}) @5 aten__bernoulli" for n, op in enumerate(
            ["exponential", "cosine", "sine", "tanh", "negate", "abs", "sqrt", "rsqrt"])],
        "many = f32[8] broadcast(a7), dimensions={} @5 aten__bernoulli",
        "z = f32[8] multiply(x, many) @5 aten__mul",
        "ROOT y = f32[8] negate(z) @9 aten__neg",
    )  # fmt: skip
    found = explained(plain, noisy, ran=9, against_ran=1)
    assert (found.cause, found.frame and found.frame.line) == ("control_flow", 5)


def test_a_sum_that_goes_on_is_state() -> None:
    first = graph("x = f32[] parameter(0) @3 xla__device_data", "ROOT y = f32[] negate(x) @8 aten__neg")
    second = graph(
        "x = f32[] parameter(0) @3 xla__device_data",
        "total = f32[] parameter(1) @8 xla__device_data",
        "y = f32[] negate(x) @8 aten__neg",
        "ROOT sum = f32[] add(y, total) @8 aten__add",
    )
    assert explained(first, second, ran=9, against_ran=1).cause == "warm_up"


def test_a_step_that_is_left_out_is_known_by_what_it_computes() -> None:
    whole = graph(
        "x = f32[8] parameter(0) @3 xla__device_data",
        "w = f32[8] parameter(1) @3 xla__device_data",
        "y = f32[8] multiply(x, x) @4 aten__mul",
        "seed = f32[] constant(0.3) @5 prim__Constant",
        "seeds = f32[8] broadcast(seed), dimensions={} @5 aten__expand",
        "grad = f32[8] multiply(y, seeds)",
        "new = f32[8] add(w, grad) @6 aten__add",
        "ROOT all = (f32[8], f32[8]) tuple(y, new)",
    )
    part = graph(
        "x = f32[8] parameter(0) @3 xla__device_data",
        "w = f32[8] parameter(1) @3 xla__device_data",
        "y = f32[8] multiply(x, x) @4 aten__mul",
        "ROOT all = (f32[8], f32[8]) tuple(y, w)",
    )
    found = explained(whole, part)
    assert (found.cause, found.frame and found.frame.line) == ("control_flow", 6)


def test_other_tensors_in_the_optimizer_follow_from_the_branch_that_the_family_takes() -> None:
    optimizer = (Frame("/site/torch/optim/sgd.py", 1, "step"), Frame("train.py", 27, "<module>"))
    branch = Explanation("control_flow", kind="inserted", stack=(Frame("net.py", 16, "forward"),), group=("net", 16))
    moved = Explanation("control_flow", kind="operands", stack=optimizer, group=("train", 27))
    items = [Explained(replace(COMPILE, graph=str(n)), e, "x") for n, e in enumerate([branch, branch, moved])]
    _rewired(items, [0, 1, 2])
    assert [item.explanation.group for item in items] == [("net", 16)] * 3
    assert items[2].explanation.inferred and not items[0].explanation.inferred
    alone = [items[0], replace(items[2], explanation=replace(moved, kind="inserted"))]
    _rewired(alone, [0, 1])
    assert alone[1].explanation.group == ("train", 27), "operations of its own"


def test_the_graph_that_creates_state_stands_for_the_one_that_has_it() -> None:
    def item(name: str, cause: str, against: str | None) -> Explained:
        return Explained(replace(COMPILE, graph=name), Explanation(cause), against)

    items = [item("A", "first_graph", None), item("B", "warm_up", "A"), item("C", "control_flow", "B"),
             item("D", "warm_up", "C")]  # fmt: skip
    assert _starts(items, [0, 1, 2, 3], Counter("ABBBCDDDD")) == {"A": "B", "C": "D"}
    assert _starts(items, [0, 1, 2, 3], Counter("AABBBCCDDDD")) == {}


def test_many_numbers_of_rows_are_no_matter_of_the_last_batch() -> None:
    def members(*rows: int) -> list[Explained]:
        return [
            Explained(
                COMPILE, Explanation("input_shape", before=f"f32[{x},4]", now=f"f32[{y},4]", dims=(("x", 0),)), "a"
            )
            for x, y in pairwise(rows)
        ]

    assert "drop_last" in advice(members(8, 3, 8))
    many = advice(members(8, 3, 5, 9))
    assert "drop_last" not in many and "fixed number of rows" in many


def test_a_size_that_was_read_is_taken_on_the_host() -> None:
    (read, selected) = (
        [Explained(COMPILE, Explanation("data_dependent_shape", note=n), "a")] for n in ("read", "nonzero")
    )
    assert "on the host" in advice(read) and "torch.where" in advice(selected)


def test_gradients_that_are_set_to_zero_from_the_second_step_on_are_warm_up() -> None:
    def step(*zeros: str, sum_of: str) -> Graph:
        return graph(
            "x = f32[8] parameter(0) @3 xla__device_data",
            "y = f32[8] multiply(x, x) @4 aten__mul",
            *zeros,
            f"ROOT new = f32[8] add(x, {sum_of})",
        )

    zeros = "none = f32[] constant(0)", "zeros = f32[8] broadcast(none), dimensions={}", "grad = f32[8] add(y, zeros)"
    plain, with_zeros = step(sum_of="y"), step(*zeros, sum_of="grad")
    set_zero = (Frame("/site/torch/optim/optimizer.py", 1042, "zero_grad"), Frame("train.py", 9, "<module>"))
    made = {"none": set_zero, "zeros": set_zero}
    module = with_zeros.entry
    instructions = tuple(
        i._replace(metadata=i.metadata._replace(op_type="aten__expand", stack=made[i.name])) if i.name in made else i
        for i in module.instructions
    )
    after = replace(with_zeros, computations=(replace(module, instructions=instructions),))
    found = explained(plain, after)
    assert (found.cause, found.note, found.expected) == ("warm_up", "gradients", True)


def test_what_the_optimizer_does_follows_from_what_the_model_left_out() -> None:
    whole = graph(
        "x = f32[8] parameter(0) @3 xla__device_data",
        "zero = f32[] constant(0.5) @9 prim__Constant",
        "y = f32[8] multiply(x, x) @4 aten__mul",
        "z = f32[8] tanh(y) @5 aten__tanh",
        "ROOT w = f32[8] add(z, x) @7 aten__add",
    )
    part = graph(
        "x = f32[8] parameter(0) @3 xla__device_data",
        "y = f32[8] multiply(x, x) @4 aten__mul",
        "ROOT w = f32[8] add(y, x) @7 aten__add",
    )
    found = explained(whole, part)
    assert (found.cause, found.operation, found.frame and found.frame.line) == ("control_flow", "aten::tanh", 5)


def signatures(*sizes: dict[int, int]) -> list[Signature]:
    """Signatures of graphs with so many multiplications at each line."""

    def products(line: int, count: int) -> list[str]:
        return [f"m{line}n{n} = f32[8] multiply(x0, x0) @{line} aten__mul" for n in range(count)]

    lines = [[text for item in size.items() for text in products(*item)] for size in sizes]
    return [signature(graph("x0 = f32[8] parameter(0)", *texts)) for texts in lines]


def test_growth_adds_about_the_same_each_time() -> None:
    assert _grows_alike(signatures({3: 4}, {3: 8}, {3: 12}))
    assert _grows_alike(signatures({3: 4}, {3: 6}, {3: 12}, {3: 14})), "more at one time than at another"
    assert not _grows_alike(signatures({3: 4}, {3: 4, 5: 6}, {3: 4, 5: 6, 7: 4}))


class Signed:
    """A library of graphs that are only known by their signatures."""

    def __init__(self, graphs: Sequence[Signature]) -> None:
        self._graphs = graphs

    def signature(self, graph: str | None) -> Signature:
        return self._graphs[int(graph or 0)]


@pytest.mark.parametrize(
    ("sizes", "grown"),
    [((4, 8, 12, 16), 4), ((20, 8, 30, 10, 25, 6, 14, 10, 14, 18, 22), 0), ((9, 4, 8, 12, 16, 20), 5)],
)
def test_sizes_that_go_up_and_down_do_not_grow(sizes: tuple[int, ...], grown: int) -> None:
    items = [
        Explained(replace(COMPILE, graph=str(n)), Explanation("python_shape", stack=(Frame("net.py", 3, "f"),)), None)
        for n in range(len(sizes))
    ]
    _growth(items, list(range(len(sizes))), {}, Signed(signatures(*({3: n} for n in sizes))))  # type: ignore[arg-type]
    assert sum(item.explanation.cause == "graph_growth" for item in items) == grown


def test_a_module_that_was_cast_in_the_graph_before_enters_with_another_dtype() -> None:
    casting = graph(
        "w = f32[8] parameter(0) @3 xla__device_data",
        "cast = bf16[8] convert(w) @3 xla__cast",
        "x = bf16[8] parameter(1) @5 xla__device_data",
        "ROOT y = bf16[8] multiply(cast, x) @7 aten__mul",
    )
    later = graph(
        "w = bf16[8] parameter(0) @7 xla__device_data",
        "x = bf16[8] parameter(1) @5 xla__device_data",
        "ROOT y = bf16[8] multiply(w, x) @7 aten__mul",
    )
    found = explained(casting, later)
    assert (found.cause, found.before, found.now) == ("input_dtype", "f32[8]", "bf16[8]")


def test_a_branch_where_the_family_changes_sizes_is_one_of_them() -> None:
    place = Frame("net.py", 20, "forward")
    size = Explanation("python_shape", kind="shape", stack=(place,), before="f32[7]", now="f32[8]", group=("net", 20))
    branch = Explanation("control_flow", stack=(Frame("net.py", 22, "forward"),), details=(("sized", (place,)),))
    alone = replace(branch, details=(("sized", ()),))
    items = [Explained(replace(COMPILE, graph=str(n)), e, "x") for n, e in enumerate([size, size, branch, alone])]
    _sisters(items, [0, 1, 2, 3])
    assert [item.explanation.cause for item in items] == ["python_shape"] * 3 + ["control_flow"]
    assert items[2].explanation.frame == place
