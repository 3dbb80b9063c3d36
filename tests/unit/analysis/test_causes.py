"""The cause of real recompiles, with the sentence that a user reads: now and before, and only what differs.

The graphs are those of one script (``tests/unit/graph/fixtures``), in which each step changes one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.graph.modules import NAMES, read
from xla_insight.analysis.recompiles import GraphLibrary, explained_compiles, library
from xla_insight.analysis.recompiles.entries import Totals, recompile_entries
from xla_insight.analysis.tables import Place, RunTables
from xla_insight.facts.report import Recompile, Severity, ShapeFacts
from xla_insight.graph.hlo_text import parse_hlo_text

MS = 1_000_000
Make = Callable[..., RunTables]
At = Callable[..., Place]


def hlo(graph: str) -> bytes | None:
    name = graph.partition("-")[0]
    return read(f"{name}.hlo.pb") if name in NAMES else None


def steps(*graphs: str) -> dict[str, list[dict[str, Any]]]:
    """A compile and an execution of each graph, in a sync of 5 ms every 10 ms."""
    times = [10 * MS * (n + 1) for n in range(len(graphs))]
    rows = list(zip(graphs, times, range(len(graphs)), strict=True))
    return {
        "compiles": [
            {"graph": g, "time_ns": t, "duration_ns": 4 * MS, "trigger": "sync", "sentence": "", "site": 1, "step": n,
             "cut_ns": t}
            for g, t, n in rows
        ],
        "syncs": [
            {"graph": g, "time_ns": t, "duration_ns": 5 * MS, "trigger": "sync", "site": 1, "step": n, "executions": 1}
            for g, t, n in rows
        ],
        "executions": [
            {"graph": g, "time_ns": t + 4 * MS, "duration_ns": MS, "trigger": "sync", "site": 1, "outcome": "compile"}
            for g, t, n in rows
        ],
    }  # fmt: skip


def upload(at_ms: float, dims: str, name: str | None = None, site: int = 2, maker: int | None = None) -> dict[str, Any]:
    return {"time_ns": round(at_ms * MS), "name": name, "dims": dims, "dtype": "int64", "site": site, "maker": maker}


def entries(tables: RunTables) -> dict[str, Recompile]:
    history, explained = explained_compiles(tables, GraphLibrary(tables.hlo))
    found = recompile_entries(explained, history, tables, Totals(len(history.compiles), 1.0))
    assert sum(entry.count for entry in found) == len(history.compiles)
    return {entry.cause: entry for entry in found}


@pytest.fixture
def run(tables: Make, at_line: At) -> Callable[..., dict[str, Recompile]]:
    places = {1: at_line(32), 2: at_line(23), 3: at_line(7, "collate")}
    return lambda *graphs, **rows: entries(tables(places=places, hlo=hlo, **{**steps(*graphs), **rows}))


Run = Callable[..., dict[str, Recompile]]


def test_the_second_graph_has_the_optimizers_state(run: Run) -> None:
    found = run("first", "base", "base")
    entry = found["warm_up"]
    assert entry.expected and entry.severity is Severity.INFO and entry.advice == ""
    assert entry.summary == (
        "Second graph at train.py:32: the optimizer's state was created in the first step (14 more inputs, from"
        " step.py:29). Once per run."
    )
    assert entry.members[0].against == "first"
    assert found["first_graph"].count == 1


def test_another_length_of_a_named_input(run: Run) -> None:
    batch = [upload(5, "[4, 12]", "input_ids", maker=3), upload(15, "[4, 16]", "input_ids", maker=3)]
    entry = run("base", "longer", uploads=batch)["input_shape"]
    assert not entry.expected and entry.severity is Severity.WARNING
    assert entry.summary == (
        "At input_ids (collate, train.py:7): now s64[4,16], before s64[4,12]; only dimension 1 differs."
    )
    assert "BucketCollator" in entry.advice and "drop_last" not in entry.advice
    assert (entry.root["input"], entry.root["dimension"], entry.root["kind"]) == ("input_ids", 1, "shape")
    assert (entry.root["before"], entry.root["now"]) == ("s64[4,12]", "s64[4,16]")
    assert entry.root["site"]["line"] == 7 and entry.root["follows"] > 50


def test_the_advice_names_the_plan_of_the_run(tables: Make, at_line: At) -> None:
    batch = [upload(5, "[4, 12]", "input_ids", maker=3), upload(15, "[4, 16]", "input_ids", maker=3)]
    places = {1: at_line(32), 2: at_line(23), 3: at_line(7, "collate")}
    made = tables(places=places, hlo=hlo, **{**steps("base", "longer"), "uploads": batch})
    history, explained = explained_compiles(made, GraphLibrary(made.hlo))
    plan = ShapeFacts("", "optimal_1", ((16,),), 3.0, 2, "", change="padding all to 16", dimensions=("input_ids[1]",))

    def told(shapes: ShapeFacts) -> str:
        found = recompile_entries(explained, history, made, Totals(2, 1.0, shapes))
        return next(entry.advice for entry in found if entry.cause == "input_shape")

    assert "for this run padding all to 16 is best" in told(plan)
    assert "no plan pays for itself" in told(replace(plan, plan=None))
    assert "pad_to_multiple_of" in told(replace(plan, dimensions=("input_ids[0]", "other[1]")))


def test_an_input_without_a_name_is_known_by_the_line_that_uploads_it(run: Run) -> None:
    entry = run("base", "longer", uploads=[upload(15, "[4, 16]")])["input_shape"]
    assert entry.summary.startswith("At the tensor that enters the device at train.py:23: now s64[4,16]")


def test_a_python_number_in_the_graph(run: Run) -> None:
    entry = run("longer", "power")["baked_value"]
    assert entry.summary == "A Python number is part of pow at step.py:15: now 1.7, before 1.5."
    assert entry.root["kind"] == "literal" and entry.root["opcode"] == "power"
    assert "torch.exp(exponent * torch.log(x))" in entry.advice


def test_a_slice_that_starts_elsewhere(run: Run) -> None:
    entry = run("longer", "start")["baked_value"]
    assert entry.summary.startswith("A Python number is part of slice at step.py:")
    assert "slice={[5:13]}" in entry.summary and "slice={[3:11]}" in entry.summary
    assert "index_select" in entry.advice


def test_a_scalar_that_became_one(run: Run) -> None:
    entry = run("longer", "weight")["special_scalar"]
    assert entry.summary == (
        "The value of a scalar used by mul at step.py:25 decides how it enters the graph (0, 1 and -1 as constants, all"
        " others as an input): now the constant 1, before an input."
    )
    assert not entry.expected and entry.severity is Severity.INFO, "once, it is harmless"
    assert entry.advice.startswith("Nothing has to change") and "torch.tensor([value], device=device)" in entry.advice


def test_another_branch(run: Run) -> None:
    entry = run("longer", "extra")["control_flow"]
    assert "Python took another branch at step.py:27" in entry.summary and "added" in entry.summary
    assert "torch.where" in entry.advice


def test_graphs_of_one_cut_are_parts_of_one_pass(run: Run) -> None:
    made = steps("longer", "extra", "start")
    made["compiles"][1]["cut_ns"] = made["compiles"][0]["cut_ns"]
    found = run("longer", "extra", "start", **made)
    assert {cause: entry.count for cause, entry in found.items()} == {"first_graph": 2, "baked_value": 1}
    assert found["baked_value"].members[0].against == "longer"


def test_graphs_that_alternate_are_modes(run: Run) -> None:
    order = ["longer", "extra"] * 3
    made = steps(*order)
    made["compiles"] = made["compiles"][:2]
    found = run(*order, compiles=made["compiles"], executions=made["executions"], syncs=made["syncs"])
    assert set(found) == {"first_graph", "mode_switch"}
    assert found["mode_switch"].expected


def test_without_the_graphs_the_cause_is_unknown_and_says_so(tables: Make, at_line: At) -> None:
    found = entries(tables(places={1: at_line(32)}, **steps("base", "longer")))
    assert set(found) == {"first_graph", "unknown"}
    assert found["unknown"].root == {}


def test_after_enough_graphs_the_inputs_alone_tell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_insight.analysis.recompiles.repeats.ENOUGH", 1)
    batch = [upload(10 * n + 5, dims, "input_ids", maker=3) for n, dims in enumerate(["[4, 12]", "[4, 16]", "[4, 12]"])]
    entry = run("base", "longer", "base-again", uploads=batch)["input_shape"]
    assert entry.count == 2
    assert [(m.graph, m.against, m.inferred) for m in entry.members] == [
        ("longer", "base", False),
        ("base-again", "longer", True),
    ]
    assert "(1 of 2 recompiles compared in full, the others only in what varied there)." in entry.summary
    assert [m.summary for m in entry.members] == [
        "At input_ids (collate, train.py:7): now s64[4,16], before s64[4,12]; only dimension 1 differs.",
        "At input_ids (collate, train.py:7): now s64[4,12], before s64[4,16]; only dimension 1 differs (not compared in"
        " full, but in what varies in graphs like it).",
    ]
    assert [(m.root["before"], m.root["now"]) for m in entry.members] == [
        ("s64[4,12]", "s64[4,16]"), ("s64[4,16]", "s64[4,12]")
    ]  # fmt: skip
    found = run("base", "longer", "extra-again", uploads=batch)
    assert "input_shape" in found and "control_flow" in found, "other inputs stay the same: compared in full"


def test_after_enough_graphs_the_same_instructions_tell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_insight.analysis.recompiles.repeats.ENOUGH", 1)
    entry = run("longer", "power", "longer-again")["baked_value"]
    assert [(m.graph, m.against, m.inferred) for m in entry.members] == [
        ("power", "longer", False),
        ("longer-again", "power", True),
    ]
    assert entry.root["before"] and entry.root["now"] and entry.root["site"]["line"]
    assert entry.members[1].summary == (
        "A Python number is part of pow at step.py:15 (not compared in full, but in what varies in graphs like it)."
    )
    assert "control_flow" in run("longer", "power", "extra-again"), "other instructions differ: compared in full"


def scaled(length: int, *, doubled: bool) -> bytes:
    """A batch, doubled at line 22 or not, and enough else for graphs of one length to be alike."""
    at = 'metadata={{op_type="{}" source_file="train.py" source_line={}}}'
    first = "y" if doubled else "x"
    chain = [
        f"h{n} = s64[4,{length}] negate({f'h{n - 1}' if n else first}), {at.format('aten__neg', 40 + n)}"
        for n in range(9)
    ]
    lines = [
        f"x = s64[4,{length}] parameter(0), {at.format('xla__device_data', 23)}",
        *([f"y = s64[4,{length}] add(x, x), {at.format('aten__add', 22)}"] if doubled else []),
        *chain,
        f"ROOT all = (s64[4,{length}]) tuple(h8)",
    ]
    return "\n".join(["HloModule m", "", "ENTRY main {", *(f"  {line}" for line in lines), "}", ""]).encode()


def test_a_length_that_was_compiled_before_is_no_cause(
    tables: Make, at_line: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lengths, each compiled in two forms: what differs is the form, though the latest graph has that, too."""
    monkeypatch.setattr(library, "parse_hlo_proto", lambda content: parse_hlo_text(content.decode()))
    order = [(8, False), (16, False), (16, True), (8, True)]
    modules = {
        f"{length}{'twice' if doubled else 'once'}": scaled(length, doubled=doubled) for length, doubled in order
    }
    batches = [upload(10 * n + 5, f"[4, {length}]", "input_ids") for n, (length, _) in enumerate(order)]
    rows = {**steps(*modules), "uploads": batches}
    made = tables(places={1: at_line(32), 2: at_line(23)}, hlo=modules.get, **rows)
    _, explained = explained_compiles(made, GraphLibrary(made.hlo))
    told = [(item.explanation.cause, item.against) for item in explained]
    assert told == [
        ("first_graph", None),
        ("input_shape", "8once"),
        ("control_flow", "16once"),
        ("control_flow", "8once"),
    ]
    assert [item.explanation.frame and item.explanation.frame.line for item in explained[2:]] == [22, 22]
