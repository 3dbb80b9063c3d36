"""Verb `train`: options from fields, the plan, errors in one line, progress in words, what is said at the end."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.synthetic import build_run
from xla_insight import cli
from xla_insight.cli import train, train_progress, train_summary
from xla_insight.record.launch import Launched
from xla_insight.runner import workload as contract
from xla_insight.runner.benchmark import Benchmark
from xla_insight.runner.kernels import Kernels
from xla_insight.runner.mlm import MaskedLanguageModel

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", train.WORKLOADS)
def test_help_and_plan(name: str, capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", name, "--help"]) == 0
    assert "--dry-run" in capsys.readouterr().out
    assert cli.main(["train", name, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert text.endswith("Nothing was run (--dry-run).\n") and text.count("\n") > 3
    assert list(tmp_path.iterdir()) == []


def test_options_are_those_of_the_fields(capsys: Output) -> None:
    words = [
        "--padding",
        "buckets",
        "--buckets",
        "32,64",
        "--data",
        __file__,
        "--data",
        __file__,
        "--precision",
        "bf16",
    ]
    assert cli.main(["train", "mlm", "--dry-run", "--global-batch-size", "8", *words]) == 0
    text = capsys.readouterr().out
    assert "8 x 32, 8 x 64" in text and "bf16" in text and f"{__file__}, {__file__}" in text


@pytest.mark.parametrize(
    "words",
    [
        ["mlm", "--precision", "fp8"],
        ["mlm", "--steps", "0"],
        ["mlm", "--no-such-option"],
        ["mlm", "--padding", "buckets"],
        ["mlm", "--data", "missing.txt"],
        ["mlm", "--level", "all"],
        ["from-scratch", "--shard-format", "csv"],
        ["kernels", "--hlo", "missing.hlo"],
        ["kernels", "--save-to", "folder"],
        ["nothing"],
    ],
)
def test_bad_usage_is_one_line(
    words: list[str], capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *words]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert list(tmp_path.iterdir()) == []


ENDINGS: dict[int, dict[str, dict[str, Any]]] = {
    9: {},
    8: {contract.ERROR_FILE: {"status": 2}},
    7: {contract.RESULT_FILE: {"steps": 3, "interrupted": True}},
    6: {contract.RESULT_FILE: {"steps": 30}},
    5: {contract.ERROR_FILE: {"status": 130}},
}
"""By epochs: what a training leaves that ends with status 1."""


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Trainings as they would have been launched; each writes a run by hand and a result."""
    found: list[dict[str, Any]] = []

    def launch(workload: contract.Workload, run: str, level: str, exchange: Path) -> Launched:
        found.append({"workload": workload, "run": run, "level": level})
        build_run(Path(run), steps=30, pattern="A")
        Path(workload.save_to).mkdir(parents=True)
        epochs = getattr(workload, "epochs", 0)
        if epochs not in ENDINGS:
            contract.write_exchange(exchange, contract.RESULT_FILE, {"steps": 30, "loss": 1.5, "steps_full": 300})
        for name, content in ENDINGS.get(epochs, {}).items():
            contract.write_exchange(exchange, name, content)
        return Launched(int(epochs in ENDINGS), ())

    monkeypatch.setattr(contract, "launch_recorded", launch)
    monkeypatch.setattr(contract.Workload, "missing", lambda _self: [])
    return found


def test_it_trains_and_reports(
    launched: list[dict[str, Any]], capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "mlm", "--steps", "30", "--level", "full"]) == 0
    text = capsys.readouterr().out
    assert (launched[0]["run"], launched[0]["level"]) == ("runs/mlm", "full")
    assert launched[0]["workload"] == MaskedLanguageModel(steps=30, save_to="runs/mlm-files")
    assert not Path("runs/mlm-files").exists(), "nothing was saved, so no empty folder stays"
    assert "Trained 30 steps, last loss 1.5." in text and "Again: xla-insight report runs/mlm" in text
    assert cli.main(["train", "mlm"]) == 0
    assert launched[1]["run"] == "runs/mlm-2"
    capsys.readouterr()
    assert cli.main(["train", "mlm", "--out", "runs/mlm"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_benchmark_ends_in_its_table(
    launched: list[dict[str, Any]], capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "benchmark", "--steps", "30"]) == 0
    text = capsys.readouterr().out
    assert [item["run"] for item in launched] == ["runs/benchmark-fp32", "runs/benchmark-bf16"]
    assert cli.main(["train", "benchmark", "--precision", "bf16"]) == 0
    assert launched[-1]["run"] == "runs/benchmark-2-bf16"
    assert launched[-1]["workload"].save_to == "runs/benchmark-2-files/bf16"
    assert "* fp32: extrapolated from 30 steps of 300." in text and "A step in BF16 takes 1 times" in text


def test_a_failed_part_ends_the_rest(
    launched: list[dict[str, Any]], capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "benchmark", "--epochs", "9"]) == 1
    assert len(launched) == 1
    said = "xla-insight: the training ended early, with status 1; see: xla-insight report runs/benchmark-fp32"
    assert capsys.readouterr().err.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("epochs", "status", "said"),
    [
        ("8", 2, []),
        ("7", 130, []),
        ("6", 1, ["xla-insight: the training was done, but its process ended with status 1; see: xla-insight report"]),
        ("5", 130, []),
    ],
)
def test_why_it_ended_is_said_once(
    epochs: str, status: int, said: list[str], launched: list[dict[str, Any]], capsys: Output, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "benchmark", "--epochs", epochs]) == status
    assert len(launched) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" runs/")[0] for line in lines] == said


def test_what_is_missing_is_named(capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Benchmark, "missing", lambda _self: ["torch_xla", "accelerate"])
    assert cli.main(["train", "benchmark"]) == 2
    assert "benchmark needs torch_xla, accelerate: pip install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("live", "line"),
    [
        ({}, ""),
        ({"phase": "tokenizing"}, "tokenizing"),
        ({"phase": "", "compiles": 1, "compile_s": 2.0}, "1 compile · 2 s compiling"),
        (
            {"compiles": 7, "recompiles": 4, "compile_s": 0.5, "steps_per_s": 3.14159, "loss": 2.5},
            "3.14 steps/s · 4 recompiles · 500 ms compiling · loss 2.5",
        ),
        ({"loss": float("nan")}, ""),
    ],
)
def test_live_figures_in_words(live: dict[str, Any], line: str) -> None:
    assert train_progress.figures_line(live) == line


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_on_a_terminal_and_elsewhere(terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        written = threading.Event()

        def isatty(self) -> bool:
            return terminal

        def write(self, text: str) -> int:
            if "2 steps/s" in text:
                self.written.set()
            return super().write(text)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(train_progress, "BAR_INTERVAL_S", 0.01)
    monkeypatch.setattr(train_progress, "LINE_INTERVAL_S", 0.01)
    live = {"step": 3, "total": 9, "steps_per_s": 2.0, "compiles": 2, "compile_s": 1.0}
    contract.write_exchange(tmp_path, contract.LIVE_FILE, live)
    stream = Stream()
    stream.written.clear()
    with train_progress.progress(tmp_path, stream):
        assert stream.written.wait(30)
    assert ("3/9" in stream.getvalue()) and ("step 3/9" in stream.getvalue()) != terminal


def test_no_line_of_progress_follows_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_progress, "LINE_INTERVAL_S", 0.001)
    looked = threading.Event()

    def read(exchange: Path, name: str) -> dict[str, Any]:
        if name == contract.ERROR_FILE:
            looked.set()
        return contract.read_exchange(exchange, name)

    monkeypatch.setattr(train_progress, "read_exchange", read)
    contract.write_exchange(tmp_path, contract.LIVE_FILE, {"phase": "the first step is compiled"})
    contract.write_exchange(tmp_path, contract.ERROR_FILE, {"status": 2})
    stream = io.StringIO()
    with train_progress.progress(tmp_path, stream):
        assert looked.wait(30)
    assert stream.getvalue() == ""


def test_custom_calls_of_files(capsys: Output, tmp_path: Path) -> None:
    module = tmp_path / "with_call.txt"
    module.write_text(
        "HloModule m\n\nENTRY e {\n  p = f32[8,4]{1,0} parameter(0)\n  c = f32[8,4]{1,0} custom-call(p),"
        ' custom_call_target="tpu_custom_call"\n  ROOT a = f32[8,4]{1,0} add(c, p)\n}\n'
    )
    assert cli.main(["train", "kernels", "--hlo", str(module)]) == 0
    text = capsys.readouterr().out
    assert "with_call.txt · 1 call in 3 instructions" in text
    assert "tpu_custom_call (f32[8,4]) -> f32[8,4]: ~40 % of its bytes" in text
    module.write_text("HloModule torn")
    assert cli.main(["train", "kernels", "--hlo", str(module)]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "with_call.txt is no HLO module" in captured.err


def test_an_interrupted_training_says_so() -> None:
    outcome = train.Outcome("", Kernels(), "runs/a", 130, {"interrupted": True, "steps": 1, "lines": ["Model: x"]})
    assert train_summary.result_lines(outcome) == [
        "Interrupted: what was recorded until then is above.", "Trained 1 step.", "Model: x",
    ]  # fmt: skip


def test_a_loss_that_is_no_number_is_said() -> None:
    outcome = train.Outcome("", Kernels(), "runs/a", 0, {"steps": 2, "loss": float("nan")})
    assert train_summary.result_lines(outcome) == [
        "Trained 2 steps, last loss NaN.",
        "The loss is not a number any more: the weights are of no use. Try a lower learning rate.",
    ]
