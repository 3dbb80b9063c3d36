"""Several devices in one process, and several processes in one run: what is recorded equals what was there."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import xla_insight
from tests.conftest import CommandLine
from xla_insight.facts.report import Report
from xla_insight.graph.schema import message_class

pytest.importorskip("torch_xla")

STEPS = 9
"""The device window is that of the workload: steps 6 to 8."""
ELEMENT_BYTES = {11: 4, 12: 8, 5: 8, 16: 2, 1: 1, 4: 4, 8: 4}
"""Bytes of an element, by its number in XLA's PrimitiveType, as far as the model here has them."""


SMALL = ("--layers", 1, "--width", 32, "--optimizer", "sgd")


class Trained(NamedTuple):
    """A finished training: what it printed, where it was recorded, and the report."""

    text: str
    run: Path
    report: Report


def train(command_line: CommandLine, run: Path, *words: object) -> Trained:
    done = command_line("train", *words, "--out", run)
    assert done.returncode == 0, done.stderr
    return Trained(done.stdout, run, xla_insight.analyze(run))


@pytest.fixture(scope="module")
def spmd(command_line: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """FSDP over four virtual devices, with gradient checkpointing and checkpoints written behind."""
    run = tmp_path_factory.mktemp("spmd") / "run"
    return train(command_line, run, "spmd", *SMALL, "--gradient-checkpointing", "--steps", STEPS, "--save-steps", 3)


@pytest.fixture(scope="module")
def ranks(command_line: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two processes that differ in one line."""
    run = tmp_path_factory.mktemp("ranks") / "run"
    return train(command_line, run, "ranks", "--steps", STEPS, "--diverge")


def by_hand(program: bytes) -> tuple[Counter[str], Counter[str]]:
    """(count, bytes) of each kind of collective, read from the messages of a program itself."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    shape_of = message_class("ShapeProto").FromString
    for computation in message_class("HloProto").FromString(program).hlo_module.computations:
        shapes = {item.id: shape_of(item.shape) for item in computation.instructions}
        for item in computation.instructions:
            if item.opcode.startswith(("all-", "reduce-scatter", "collective-")):
                counts[item.opcode] += 1
                ends = [[shapes[item.id]], [shapes[operand] for operand in item.operand_ids]]
                sizes[item.opcode] += max(sum(map(size_of, end)) for end in ends)
    return counts, sizes


def size_of(shape: Any) -> int:
    if shape.tuple_shapes:
        return sum(map(size_of, shape.tuple_shapes))
    return ELEMENT_BYTES[shape.element_type] * math.prod(map(int, shape.dimensions))


def test_collectives_equal_those_of_the_program(spmd: Trained) -> None:
    assert spmd.report.devices is not None
    with xla_insight.open_run(spmd.run) as run:
        programs = {graph: run.optimized(graph) or b"" for graph in run.programs()}
        assert programs.keys() == set(run.sql("select distinct graph from executions")["graph"])
    for graph, program in programs.items():
        counts, sizes = by_hand(program)
        assert counts, "FSDP exchanges parameters"
        own = [fact for fact in spmd.report.devices.collectives if fact.graph == graph]
        assert Counter({kind: sum(f.count for f in own if f.kind == kind) for kind in counts}) == counts
        assert Counter({kind: sum(f.graph_bytes for f in own if f.kind == kind) for kind in sizes}) == sizes
        assert {fact.kind for fact in own} == set(counts)
        assert {fact.axes for fact in own if fact.group_size == 4} == {("fsdp",)}
    assert spmd.report.devices.graphs_read == len(programs)
    files = {Path(fact.file).name for fact in spmd.report.devices.collectives if fact.file is not None}
    assert "spmd_model.py" in files and not files & {"linear.py", "functional.py"}, "lines of the model, not of layers"


def test_the_mesh_and_every_parameter_are_known(spmd: Trained) -> None:
    devices = spmd.report.devices
    assert devices is not None and devices.spmd
    assert devices.meshes[0].axes == (("fsdp", 4), ("model", 1))
    names = {fact.parameter for fact in devices.shardings}
    assert {"embedding.weight", "blocks.0.query_key_value.weight", "blocks.0.feed_out.bias", "head.bias"} <= names
    assert len(names) == len(devices.shardings) == 18
    weight = next(fact for fact in devices.shardings if fact.parameter == "blocks.0.feed_in.weight")
    assert (weight.pieces, weight.bytes_per_device) == (4, (weight.bytes or 0) // 4)
    assert "fsdp" in weight.axes
    (rank,) = devices.ranks
    assert (rank.devices, rank.executions_per_device) == (4, spmd.report.graphs.executions)


def test_a_healthy_run_on_several_devices_has_no_warning(spmd: Trained) -> None:
    report = spmd.report
    assert report.data.dropped == 0 and report.data.faults == {} and report.data.lost == {}
    assert [entry.cause for entry in report.recompiles if not entry.expected] == []
    assert sum(entry.count for entry in report.recompiles) == report.graphs.compiles


def test_checkpoints_are_written_behind_the_training(spmd: Trained) -> None:
    saved = spmd.report.checkpoints
    assert saved is not None
    assert saved.saves == 3 and saved.stall_s > 0 and saved.behind_s > 0
    assert 0 <= saved.overlapped_s <= saved.behind_s
    assert ": of steps 6, 9." in spmd.text and "another thread wrote for" in " ".join(spmd.text.split())


def test_each_device_is_measured_in_the_window(spmd: Trained) -> None:
    assert spmd.report.devices is not None
    measured = spmd.report.devices.measured
    assert [one.device for one in measured] == [f"CPU:{number}" for number in range(4)]
    assert len({one.executions for one in measured}) == 1 and measured[0].executions >= 2
    assert all(0 < one.busy_s < one.measured_s for one in measured)
    assert "In device windows" in spmd.text


def test_it_goes_on_from_its_checkpoint(spmd: Trained, command_line: CommandLine, tmp_path: Path) -> None:
    saved = spmd.run.with_name("run-files")
    words = ("spmd", *SMALL, "--save-to", saved, "--resume")
    again = train(command_line, tmp_path / "again", *words, "--steps", STEPS + 2)
    assert f"Resumed from step {STEPS} in {saved}" in again.text and "Trained 2 steps" in again.text
    assert {entry.cause for entry in again.report.recompiles} == {"first_graph"}  # its first step is like all others
    assert "[Gloo]" not in again.text and "GSPMD" not in again.text
    done = command_line("train", *words, "--steps", STEPS, "--out", tmp_path / "over")
    assert done.returncode == 2 and "give more --steps" in done.stderr and "Traceback" not in done.stderr


def test_a_compiler_that_cannot_choose_is_one_line(command_line: CommandLine, tmp_path: Path) -> None:
    done = command_line("train", "spmd", "--sharding", "auto", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "does not choose shardings itself" in done.stderr and "Traceback" not in done.stderr


def test_the_line_in_which_two_ranks_differ(ranks: Trained) -> None:
    (finding,) = [finding for finding in ranks.report.findings if finding.id == "rank_divergence"]
    source = Path(xla_insight.__file__).parent / "runner" / "ranks_train.py"
    (line,) = [n for n, text in enumerate(source.read_text().splitlines(), 1) if "loss.square()" in text]
    assert finding.site is not None
    assert (Path(finding.site.file).name, finding.site.line) == ("ranks_train.py", line)
    assert finding.details["sync"] == 0 and f"ranks_train.py:{line}" in finding.summary


def test_two_processes_are_one_run(ranks: Trained) -> None:
    assert ranks.report.run.ranks == 2 and ranks.report.devices is not None
    assert [(rank.rank, rank.steps, rank.devices) for rank in ranks.report.devices.ranks] == [
        (0, STEPS, 1),
        (1, STEPS, 1),
    ]
    assert ranks.report.devices.collectives == () and not ranks.report.devices.spmd
