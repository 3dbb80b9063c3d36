"""Ranks are compared step by step; programs and shardings become tables; what is not known is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.unit.analysis.conftest import MS, make_tables
from tests.unit.graph.modules import read
from xla_insight.analysis.checkpoint_facts import checkpoint_facts
from xla_insight.analysis.collective_facts import exchange_axes
from xla_insight.analysis.device_facts import FEWEST_STEPS, device_facts, steps_by_rank
from xla_insight.analysis.rank_syncs import sync_strip
from xla_insight.analysis.tables import Place, Process, RunTables
from xla_insight.facts.devices import MeshFacts

END = 10_000 * MS


def ranks_of(*lengths_ms: list[int]) -> RunTables:
    """One process a rank, with steps of these lengths."""
    processes = [
        Process(i, i, 0, END, "clean", {"devices": ["CPU:0"], "device": "CPU"}) for i in range(len(lengths_ms))
    ]
    steps, executions = [], []
    for process, lengths in enumerate(lengths_ms):
        now = 0
        for step, length in enumerate(lengths):
            duration = length * MS
            at = {"process": process, "step": step}
            steps.append(
                {**at, "start_ns": now, "end_ns": now + duration, "duration_ns": duration, "source": "prof.step"}
            )
            executions.append({**at, "time_ns": now, "duration_ns": MS, "graph": "g", "trigger": "sync"})
            now += duration
    return make_tables(processes, steps=steps, executions=executions)


def facts(tables: RunTables) -> Any:
    found = device_facts(tables, tables.main_process())
    assert found is not None
    return found


def test_the_slow_rank_is_named() -> None:
    found = facts(ranks_of([10] * 12, [10] * 12, [15] * 12))
    assert [rank.straggles for rank in found.ranks] == [False, False, True]
    assert found.ranks[2].slowest_steps == 12 and found.ranks[2].behind_s == 0.06
    assert "Rank 2 is behind: its steps took 60 ms longer than the fastest rank's." in found.summary
    assert found.summary.startswith("3 ranks with 3 devices.")


def test_equal_ranks_and_short_runs_name_nobody() -> None:
    assert not any(rank.straggles for rank in facts(ranks_of([10, 14] * 8, [14, 10] * 8)).ranks)
    assert not any(rank.straggles for rank in facts(ranks_of([10] * 20, [10, 14, 14, 14] * 5)).ranks)
    assert not any(
        rank.straggles for rank in facts(ranks_of([10] * (FEWEST_STEPS - 1), [90] * (FEWEST_STEPS - 1))).ranks
    )


def test_one_rank_is_compared_with_nobody() -> None:
    found = facts(ranks_of([10] * 6))
    assert (found.ranks[0].slowest_steps, found.ranks[0].behind_s, found.spmd) == (None, None, False)
    assert found.notes == () and sync_strip(ranks_of([10] * 6)) is None


def test_steps_of_ranks_stand_side_by_side() -> None:
    tables = ranks_of([10] * 3, [12] * 2)
    wide = steps_by_rank(tables, facts(tables).ranks)
    assert wide.shape == (3, 2)
    assert wide.iloc[0].tolist() == [10.0, 12.0] and wide.isna().to_numpy().sum() == 1


def test_a_program_becomes_collectives_on_the_axis_of_its_mesh() -> None:
    mesh = json.dumps({"axes": ["fsdp", "model"], "devices": [0, 1, 2, 3]})
    tables = make_tables(
        [Process(0, 0, 0, END, "clean", {"spmd": True, "devices": ["CPU:0"] * 4})],
        graphs=[{"graph": "g", "executions": 7}],
        meshes=[{"dims": "[4, 1]", "detail": mesh}],
        shardings=[
            {"parameter": "a.weight", "dims": "[32, 16]", "bytes": 2048, "sharding": "{devices=[4,1]0,1,2,3}"},
            {"parameter": "a.bias", "dims": "[32]", "bytes": 128, "sharding": "{replicated}"},
            {"parameter": "odd", "dims": "[3]", "bytes": None, "sharding": ""},
        ],
    )
    tables = replace(tables, programs=frozenset({"g", "gone"}), optimized={"g": read("fsdp.hlo.pb")}.get)
    found = facts(tables)
    assert sum(one.count for one in found.collectives if one.kind == "all-gather") == 4
    assert {(one.axes, one.group_size, one.executions) for one in found.collectives} == {(("fsdp",), 4, 7)}
    cut, whole, unknown = found.shardings
    assert (cut.pieces, cut.bytes_per_device, cut.axes) == (4, 512, ("fsdp", None))
    assert (whole.pieces, whole.bytes_per_device, whole.placement) == (1, 128, "replicated")
    assert (unknown.pieces, unknown.bytes_per_device, unknown.placement) == (None, None, "none")
    assert "1 program could not be read." in found.notes
    assert found.graphs_read == 1 and found.spmd


def test_without_a_program_what_is_exchanged_is_not_known() -> None:
    tables = make_tables(
        [Process(0, 0, 0, END, "clean", {"spmd": True})], meshes=[{"dims": "[2]", "detail": "no JSON"}]
    )
    assert facts(replace(tables, programs=frozenset())).meshes == ()


def test_axes_along_which_groups_exchange() -> None:
    mesh = MeshFacts(0, (("data", 2), ("model", 2)), (0, 1, 2, 3))
    assert exchange_axes(((0, 1), (2, 3)), mesh) == ("model",)
    assert exchange_axes(((0, 2), (1, 3)), mesh) == ("data",)
    assert exchange_axes(((0, 1, 2, 3),), mesh) == ("data", "model")
    assert exchange_axes(((0, 3), (1, 2)), mesh) == exchange_axes(((0, 9),), mesh) == exchange_axes((), mesh) == ()
    turned = MeshFacts(0, (("data", 2), ("model", 2)), (3, 2, 1, 0))
    assert exchange_axes(((3, 2), (1, 0)), turned) == ("model",)


def test_syncs_without_a_site_are_compared_too() -> None:
    syncs = [
        {"process": p, "time_ns": n, "trigger": "sync", "executions": 1, "graph": graph, "site": site}
        for p, graphs in ((0, "aab"), (1, "aac"))
        for n, (graph, site) in enumerate(zip(graphs, (1, None, None), strict=True))
    ]
    strip = sync_strip(make_tables([Process(i, i, 0, END) for i in (0, 1)], syncs=syncs))
    assert strip is not None
    assert (strip.parts_at, strip.first, strip.steps) == (2, 0, (None, None, None))


def test_saving_that_another_thread_does_overlaps() -> None:
    tables = make_tables(
        saves=[
            {"time_ns": 0, "duration_ns": 10 * MS, "thread": 0, "name": "save_async"},
            {"time_ns": 5 * MS, "duration_ns": 25 * MS, "thread": 3, "name": "write"},
        ]
    )
    found = checkpoint_facts(tables, tables.main_process())
    assert found is not None
    assert (found.saves, found.stall_s, found.behind_s, found.overlapped_s) == (1, 0.01, 0.025, 0.02)
    assert found.summary == (
        "1 checkpoint held the training thread up for 10 ms; another thread wrote for 25 ms, 80 % of it while training"
        " went on."
    )
    assert checkpoint_facts(make_tables(), make_tables().main_process()) is None


def test_what_is_written_after_the_last_step_is_no_overlap() -> None:
    saves = [
        {"time_ns": begin * MS, "duration_ns": (end - begin) * MS, "thread": thread, "name": "save_async"}
        for begin, end, thread in ((10, 12, 0), (12, 20, 3), (40, 42, 0), (42, 50, 3))
    ]
    steps = [{"step": 0, "start_ns": 0, "end_ns": 16 * MS, "duration_ns": 16 * MS}]
    for more, overlapped_s in (([], 0.004), ([{**steps[0], "step": 1, "end_ns": 40 * MS}], 0.008)):
        tables = make_tables(saves=saves, steps=[*steps, *more])
        found = checkpoint_facts(tables, tables.main_process())
        assert found is not None
        assert (found.saves, found.stall_s, found.behind_s, found.overlapped_s) == (2, 0.004, 0.016, overlapped_s)


def test_the_strip_stands_around_the_place_where_ranks_part(at_line: Callable[[int], Place]) -> None:
    syncs = [
        {
            "process": process, "step": step, "time_ns": step * MS, "duration_ns": 1, "trigger": "sync",
            "executions": 1, "compiles": 0, "graph": "own" if process and step >= 80 else "usual", "site": 1,
        }
        for process in (0, 1)
        for step in range(100)
    ]  # fmt: skip
    tables = make_tables([Process(i, i, 0, END) for i in (0, 1)], {1: at_line(9)}, syncs=syncs)
    strip = sync_strip(tables)
    assert strip is not None
    assert (strip.parts_at, strip.syncs, len(strip.steps)) == (80, 100, 60)
    assert strip.first <= 80 < strip.first + len(strip.steps)
    assert strip.graphs[1][80 - strip.first] == "own" and strip.graphs[1][79 - strip.first] == "usual"
