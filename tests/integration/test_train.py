"""`xla-insight train`: each workload at tiny size on the real framework, its summary, and the report of its run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import xla_insight
from tests.conftest import CommandLine, clean_environment
from xla_insight.runner import shards
from xla_insight.runner.text import demo_text

pytest.importorskip("torch_xla")

SMALL = ("--global-batch-size", "4", "--sequence-length", "32")
DYNAMIC = ("--padding", "dynamic", "--global-batch-size", "2", "--sequence-length", "32")
STEPS = 5
MODEL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 400,
    "max_position_embeddings": 64,
}


class Files(NamedTuple):
    """What the trainings here are given."""

    text: Path
    uneven: Path
    """Texts of very different lengths, for dynamic padding."""
    bert: Path
    roberta: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("files")
    text = folder / "text.txt"
    paragraphs = [paragraph for number, paragraph in enumerate(demo_text()) if number % 20 == 0]
    text.write_text("\n\n".join(paragraphs), encoding="utf-8")
    uneven = folder / "uneven.txt"
    cut = [paragraph[: (12, 30, 90)[number % 3]] for number, paragraph in enumerate(paragraphs)]
    uneven.write_text("\n\n".join(cut), encoding="utf-8")
    for name, more in (("bert", {}), ("roberta", {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2})):
        (folder / f"{name}.json").write_text(json.dumps({"model_type": name, **MODEL, **more}))
    return Files(text, uneven, folder / "bert.json", folder / "roberta.json")


def report_of(run: Path) -> dict[str, Any]:
    return xla_insight.analyze(run).to_json()


def unexpected(report: dict[str, Any]) -> list[str]:
    return [entry["cause"] for entry in report["recompiles"] if not entry["expected"]]


def is_sound(report: dict[str, Any], steps: int) -> None:
    assert report["steps"]["count"] == steps
    assert sum(entry["count"] for entry in report["recompiles"]) == report["graphs"]["compiles"]
    assert report["data"]["faults"] == {} and report["data"]["dropped"] == 0


class Benchmarked(NamedTuple):
    """The runs of a benchmark, and what it printed."""

    fp32: Path
    bf16: Path
    text: str


@pytest.fixture(scope="module")
def benchmark(files: Files, tmp_path_factory: pytest.TempPathFactory, command_line: CommandLine) -> Benchmarked:
    folder = tmp_path_factory.mktemp("benchmark")
    words = ("--model", files.bert, "--data", files.text, "--steps", STEPS, "--out", folder / "run", *SMALL)
    done = command_line("train", "benchmark", *words)
    assert done.returncode == 0, done.stderr
    return Benchmarked(folder / "run-fp32", folder / "run-bf16", done.stdout)


def test_fixed_chunks_compile_nothing_after_the_warm_up(benchmark: Benchmarked) -> None:
    report = report_of(benchmark.fp32)
    is_sound(report, STEPS)
    assert unexpected(report) == []
    assert max(step for entry in report["recompiles"] for step in entry["steps"]) <= 2
    assert [entry["id"] for entry in report["findings"] if entry["severity"] != "info"] == []
    sizes = xla_insight.open_run(benchmark.fp32).sql("select distinct dims from inputs where name = 'input_ids'")
    assert len(sizes) == 1


def test_bf16_computes_in_bf16(benchmark: Benchmarked) -> None:
    report = report_of(benchmark.bf16)
    is_sound(report, STEPS)
    assert unexpected(report) == []
    for path, expected in ((benchmark.fp32, False), (benchmark.bf16, True)):
        run = xla_insight.open_run(path)
        modules = [run.hlo(graph) or b"" for graph in run.graph_hashes()]
        assert any(_has_dtype(module, "bf16") for module in modules) == expected


def _has_dtype(module: bytes, dtype: str) -> bool:
    from xla_insight.graph.hlo_proto import parse_hlo_proto

    return any(item.opcode == "dot" and item.shape.dtype == dtype for item in parse_hlo_proto(module).instructions)


def test_the_table_has_a_row_for_each_precision(benchmark: Benchmarked) -> None:
    lines = benchmark.text.splitlines()
    (head,) = [line for line in lines if line.lstrip().startswith("name ")]
    assert head.split() == [
        "name",
        "batch",
        "precision",
        "minutes",
        "compile",
        "step",
        "trace",
        "input",
        "device",
        "overlap",
    ]
    for precision in ("FP32", "BF16"):
        (row,) = [line for line in lines if line.lstrip().startswith("bert.json") and precision in line]
        assert re.search(r"\s4\s+\w+\s+[\d.]+\*\s", row), row
        assert f"* {precision.lower()}: extrapolated from {STEPS} steps of" in benchmark.text
    assert "A step in BF16 takes" in benchmark.text


class Stopped(NamedTuple):
    """A training that Ctrl-C ended."""

    code: int
    out: str
    err: str
    run: Path
    saved: Path


@pytest.fixture(scope="module")
def stopped(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """Dynamic padding, ended by Ctrl-C once a checkpoint is there."""
    folder = tmp_path_factory.mktemp("stopped")
    run, saved = folder / "run", folder / "saved"
    words = ["mlm", "--model", files.bert, "--data", files.uneven, "--save-steps", "4", *DYNAMIC]
    command = [
        sys.executable,
        "-m",
        "xla_insight",
        "train",
        *map(str, words),
        "--out",
        str(run),
        "--save-to",
        str(saved),
    ]
    with subprocess.Popen(
        command,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as training:
        for _ in _until(
            lambda: (saved / "checkpoint-4" / "trainer_state.json").exists() or training.poll() is not None
        ):
            time.sleep(0.05)
        training.send_signal(signal.SIGINT)
        out, err = training.communicate(timeout=300)
    return Stopped(training.returncode, out, err, run, saved)


def _until(reached: Any, seconds: float = 300) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while not reached() and time.monotonic() < deadline:
        yield


def test_ctrl_c_leaves_a_usable_run_and_a_checkpoint(stopped: Stopped) -> None:
    assert stopped.code == 130, stopped.err
    assert "Interrupted" in stopped.out and "Traceback" not in stopped.err
    assert xla_insight.open_run(stopped.run).state == "ended"
    report = report_of(stopped.run)
    steps = report["steps"]["count"]
    is_sound(report, steps)
    assert steps >= 4 and (stopped.saved / f"checkpoint-{steps}").is_dir()


def test_dynamic_padding_is_named(stopped: Stopped) -> None:
    (entry,) = [entry for entry in report_of(stopped.run)["recompiles"] if entry["cause"] == "input_shape"]
    assert (entry["root"]["input"], entry["root"]["dimension"]) == ("input_ids", 1)
    assert "input_shape" in stopped.out


def test_checkpoints_hold_tensors_of_the_cpu(stopped: Stopped) -> None:
    torch = pytest.importorskip("torch")
    state = torch.load(stopped.saved / "checkpoint-4" / "optimizer.pt", weights_only=True)
    tensors = [value for entry in state["state"].values() for value in entry.values() if torch.is_tensor(value)]
    assert tensors and {tensor.device.type for tensor in tensors} == {"cpu"}


def test_a_training_goes_on_from_its_checkpoint(
    stopped: Stopped, files: Files, tmp_path: Path, command_line: CommandLine
) -> None:
    last = max(int(path.name.rpartition("-")[2]) for path in stopped.saved.glob("checkpoint-*"))
    words = ("--model", files.bert, "--data", files.uneven, "--steps", last + 2, *DYNAMIC)
    again = ("--save-to", stopped.saved, "--resume", "--out", tmp_path / "run")
    done = command_line("train", "mlm", *words, *again)
    assert done.returncode == 0, done.stderr
    assert f"Resumed from {stopped.saved}/checkpoint-{last}" in done.stdout and "Trained 2 steps" in done.stdout
    is_sound(report_of(tmp_path / "run"), 2)
    newest = stopped.saved / f"checkpoint-{last}" / "optimizer.pt"
    newest.write_bytes(newest.read_bytes()[:-200])
    done = command_line("train", "mlm", *words, *again[:-1], tmp_path / "other")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert f"the checkpoint {stopped.saved}/checkpoint-{last} is damaged: optimizer.pt" in done.stderr


def test_from_scratch_ends_in_a_working_fill_mask(files: Files, tmp_path: Path, command_line: CommandLine) -> None:
    words = ("--model", files.roberta, "--data", files.text, "--vocabulary", 300, "--steps", STEPS, *SMALL)
    places = ("--out", tmp_path / "run", "--save-to", tmp_path / "saved", "--chunks-per-shard", 100)
    done = command_line("train", "from-scratch", *words, *places)
    assert done.returncode == 0, done.stderr
    assert re.search(r"fill-mask: .*<mask>.*\n  '.*' [\d.]+ %, '", done.stdout), done.stdout[-2000:]
    report = report_of(tmp_path / "run")
    is_sound(report, STEPS)
    assert unexpected(report) == []
    index = shards.read_index(str(tmp_path / "saved" / "shards"))
    assert (index.format, index.size, len(index.files) > 1) == ("tfrecord", 32, True)
    assert sum(1 for _ in shards.shuffled(str(tmp_path / "saved" / "shards"), index, 1, 50)) == index.chunks
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(os.listdir(tmp_path / "saved"))
    for name in index.files:
        whole = (tmp_path / "saved" / "shards" / name).read_bytes()
        (tmp_path / "saved" / "shards" / name).write_bytes(whole[: len(whole) // 400])
    again = ("--out", tmp_path / "torn", "--save-to", tmp_path / "saved", "--use-shards")
    done = command_line("train", "from-scratch", *words, *again)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert re.search(r"chunks-0000\d\.tfrecord, record 1: the file ends in the middle of a record", done.stderr)
    assert "not to be a single sample" not in done.stderr


def test_custom_calls_are_listed(tmp_path: Path, command_line: CommandLine) -> None:
    done = command_line("train", "kernels", "--steps", "8", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert re.search(r"TopK \(f32\[128,128\]\) -> \(f32\[128,4\], s32\[128,4\]\): [<\d]", done.stdout), done.stdout
    said = " ".join(done.stdout.split())
    assert re.search(r"TopK [^:]+: <?\d+ % of its device time, measured, from kernels_train\.py:\d+", said), said
    # XLA:CPU expands it to loops, in which nearly all the time of this graph goes by
    assert re.search(r"Eigh [^:]+: [5-9]\d % of its device time, measured \(the compiler put", said), said
    is_sound(report_of(tmp_path / "run"), 8)


@pytest.mark.parametrize("workload", ["mlm", "spmd"])
def test_without_a_device_it_says_so_in_one_line(workload: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "xla_insight", "train", workload, "--out", str(tmp_path / "run")]
    environment = {**clean_environment(), "PJRT_DEVICE": "TPU"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "no XLA device (PJRT_DEVICE=TPU)" in done.stderr
