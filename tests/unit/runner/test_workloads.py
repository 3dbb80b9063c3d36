"""Workloads as options: to a child process and back, checked before anything starts, planned without a framework."""

from __future__ import annotations

import dataclasses
import errno
import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_insight.cli.train import WORKLOADS
from xla_insight.errors import UsageError
from xla_insight.runner import child, text
from xla_insight.runner.benchmark import Benchmark
from xla_insight.runner.from_scratch import FromScratch
from xla_insight.runner.kernels import Kernels
from xla_insight.runner.mlm import MaskedLanguageModel
from xla_insight.runner.ranks import ManyProcesses
from xla_insight.runner.spmd import ManyDevices
from xla_insight.runner.workload import LIVE_FILE, RESULT_FILE, Workload, read_exchange


def kind_of(name: str) -> type[Workload]:
    module, _, attribute = WORKLOADS[name].workload.partition(":")
    kind: type[Workload] = getattr(import_module(module), attribute)
    return kind


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_is_whole(name: str) -> None:
    kind = kind_of(name)
    workload = kind()
    assert (kind.name, kind.from_json(workload.to_json())) == (name, workload)
    assert all(item.metadata["help"] for item in dataclasses.fields(kind))
    plan = workload.plan()
    assert plan.title and all(label and words for label, words in plan.rows)
    module, _, attribute = WORKLOADS[name].summary.partition(":")
    assert callable(getattr(import_module(module), attribute))


@given(st.lists(st.text(max_size=8), max_size=3), st.none() | st.integers(1, 99), st.booleans(), st.text(max_size=8))
def test_options_reach_the_child(data: list[str], steps: int | None, resume: bool, model: str) -> None:
    options = MaskedLanguageModel(data=tuple(data), steps=steps, resume=resume, model=model, learning_rate=1e-3)
    assert MaskedLanguageModel.from_json(options.to_json()) == options
    assert options.command() == ["-m", "xla_insight.runner.mlm_train", options.to_json()]


@pytest.mark.parametrize("content", ["", "[]", "3", '{"no_such": 1}', '{"data": 3}'])
def test_other_words_are_no_options(content: str) -> None:
    with pytest.raises(UsageError, match="no options of the workload mlm"):
        MaskedLanguageModel.from_json(content)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (MaskedLanguageModel(padding="buckets"), "go together"),
        (MaskedLanguageModel(buckets="32"), "go together"),
        (MaskedLanguageModel(padding="buckets", buckets="32,x"), "takes sizes"),
        (MaskedLanguageModel(padding="buckets", buckets="4"), "takes sizes"),
        (MaskedLanguageModel(padding="buckets", buckets=","), "takes sizes"),
        (MaskedLanguageModel(padding="buckets", buckets="256"), "larger than --sequence-length"),
        (MaskedLanguageModel(resume=True), "--resume needs --save-to"),
        (MaskedLanguageModel(data=("no/such/file.txt",)), "no text at no/such/file.txt"),
        (MaskedLanguageModel(data=("missing.txt",)), "no text at missing.txt"),
        (FromScratch(use_shards=True), "need --save-to"),
        (FromScratch(prompt="no place"), "needs <mask> once"),
        (MaskedLanguageModel(resume=True, save_to="no/such"), "no folder no/such to resume from"),
        (MaskedLanguageModel(data=("",)), "--data needs the name"),
        (MaskedLanguageModel(model="missing.json"), "no model 'missing.json'"),
        (MaskedLanguageModel(learning_rate=float("inf")), "--learning-rate inf is no number"),
        (ManyProcesses(slow_ms=float("nan")), "--slow-ms nan is no number"),
        (FromScratch(resume=True, save_to="no/such"), "no tokenizer.json in no/such"),
        (ManyDevices(resume=True), "--resume needs --save-to"),
        (ManyDevices(resume=True, save_to="no/such"), "no folder no/such to resume from"),
        (Benchmark(data=("missing.txt",)), "no text at"),
        (Kernels(hlo=("missing.hlo",)), "no file missing.hlo"),
        (ManyDevices(sharding="manual", devices=3), "even number"),
        (ManyDevices(width=12), "no multiple of 8"),
        (ManyDevices(devices=3), "cannot be shared equally by 3 devices"),
        (ManyDevices(data=("missing.txt",)), "no text at"),
        (ManyProcesses(processes=65), "more than one machine"),
    ],
)
def test_what_cannot_work_is_said_before_it_starts(workload: Workload, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        workload.check()


def test_plans_say_sizes_and_graphs() -> None:
    def plan(**options: Any) -> dict[str, str]:
        return dict(MaskedLanguageModel(**options).plan().rows)

    fixed = plan()
    assert fixed["padded sizes"] == "16 x 128"
    assert fixed["graphs expected"].startswith("one for the first step, one for all others; beside them small ones")
    assert "recompiles" in plan(padding="dynamic")["graphs expected"]
    buckets = plan(padding="buckets", buckets="96,48,96", steps=7)
    assert (buckets["padded sizes"], buckets["steps"]) == ("16 x 48, 16 x 96", "7")
    assert "up to 2" in buckets["graphs expected"]
    assert plan(epochs=3, most_steps=9)["steps"] == "3 passes over the text, at most 9"


def test_several_devices_and_several_processes_are_arranged_before_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    assert ManyDevices(devices=2).variables() == {"CPU_NUM_DEVICES": "2", "TF_CPP_MIN_LOG_LEVEL": "2"}
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert ManyDevices().variables()["TF_CPP_MIN_LOG_LEVEL"] == "0"
    assert ManyDevices(sharding="manual").tensor_parallel == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert ManyProcesses().variables() == {}
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert ManyProcesses().variables() == {"OMP_NUM_THREADS": "1"}
    command = ManyProcesses(processes=3, diverge=True).command()
    assert command[:5] == ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    assert ManyProcesses.from_json(command[-1]) == ManyProcesses(processes=3, diverge=True)


def test_a_benchmark_is_one_training_for_each_precision() -> None:
    parts = Benchmark(steps=7, epochs=2, model="roberta-base").parts()
    assert [name for name, _ in parts] == ["fp32", "bf16"]
    for name, part in parts:
        assert isinstance(part, MaskedLanguageModel)
        assert (part.precision, part.most_steps, part.epochs, part.model) == (name, 7, 2, "roberta-base")
    assert [name for name, _ in Benchmark(precision="bf16").parts()] == ["bf16"]
    assert Kernels(hlo=("a",)).parts() == ()


def test_text_files_lose_no_word(tmp_path: Path) -> None:
    content = "one two\nthree\n\n\n  four \n\n\nfive"
    (tmp_path / "a.txt").write_text(content)
    (tmp_path / "b.txt").write_text("six")
    assert list(text.documents([str(tmp_path / "a.txt")])) == ["one two three", "four", "five"]
    assert list(text.documents([str(tmp_path)]))[-1] == "six"
    text.check([str(tmp_path), "wikitext:wikitext-2-raw-v1", "owner/name"])
    assert text.is_local([str(tmp_path)]) and not text.is_local(["wikitext"])
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Exception, match=r"cannot read the text of .*a\.txt"):
        list(text.documents([str(tmp_path / "a.txt")]))


def test_the_demo_text_is_there() -> None:
    found = list(text.documents(()))
    assert len(found) > 1000 and all(paragraph.count(" ") >= 3 for paragraph in found)


def run_child(monkeypatch: pytest.MonkeyPatch, exchange: Path, train: Any) -> int:
    monkeypatch.setenv("XLA_INSIGHT_TRAIN_EXCHANGE", str(exchange))
    monkeypatch.setattr("sys.argv", ["train", '{"steps": 3}'])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return child.run(Kernels, train)


def test_the_child_leaves_figures_and_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(options: Kernels, live: child.Live) -> dict[str, Any]:
        live.phase("reading")
        assert read_exchange(tmp_path, LIVE_FILE)["phase"] == "reading"
        for step in range(1, options.steps + 1):
            live.step(step, options.steps, 0.5)
        return {"steps": options.steps}

    assert run_child(monkeypatch, tmp_path, train) == 0
    live = read_exchange(tmp_path, LIVE_FILE)
    assert (live["step"], live["total"], live["compiles"], live["loss"]) == (3, 3, 0, 0.5)
    assert read_exchange(tmp_path, RESULT_FILE) == {"steps": 3, "interrupted": False}
    assert read_exchange(tmp_path, "nothing.json") == {}


def test_a_users_error_is_one_line_of_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_options: Kernels, _live: child.Live) -> dict[str, Any]:
        raise UsageError("no such\nthing")

    def interrupt(_options: Kernels, live: child.Live) -> dict[str, Any]:
        raise KeyboardInterrupt

    def stop(_options: Kernels, live: child.Live) -> dict[str, Any]:
        live.stopping = True
        return {"steps": 1}

    assert run_child(monkeypatch, tmp_path, refuse) == 2
    assert capsys.readouterr().err == "xla-insight: no such thing\n"
    assert run_child(monkeypatch, tmp_path, interrupt) == 130
    assert run_child(monkeypatch, tmp_path, stop) == 130
    assert read_exchange(tmp_path, RESULT_FILE) == {"steps": 1, "interrupted": True}


def test_a_full_disk_is_one_line_whatever_the_library_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_options: MaskedLanguageModel, _live: child.Live) -> dict[str, Any]:
        raise RuntimeError("unexpected pos 64 vs 0")

    def run() -> int:
        monkeypatch.setattr("sys.argv", ["train", json.dumps({"save_to": str(tmp_path)})])
        monkeypatch.setattr("signal.signal", lambda *_: None)
        return child.run(MaskedLanguageModel, fail)

    with pytest.raises(RuntimeError):  # there is room, so it is another matter
        run()
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=0))
    assert run() == 1
    assert capsys.readouterr().err == f"xla-insight: there is no space left to save to {tmp_path}\n"


def test_errors_of_a_full_disk(tmp_path: Path) -> None:
    where = str(tmp_path)
    assert child.is_full_disk(OSError(errno.ENOSPC, "full"), where)
    assert child.is_full_disk(ValueError("I/O error: No space left on device (os error 28)"), where)
    wrapped = ValueError("cannot save")
    wrapped.__cause__ = OSError(errno.EDQUOT, "quota")
    assert child.is_full_disk(wrapped, "/no/such/folder")
    assert not child.is_full_disk(ValueError("other"), where)
    assert not child.is_full_disk(ValueError("other"), "/no/such/folder")


def test_ctrl_c_is_a_wish_once_and_then_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[Any] = []
    monkeypatch.setattr("signal.signal", lambda _number, handler: handlers.append(handler))
    live = child.Live(None)
    child._end_after_step(live)
    with pytest.raises(KeyboardInterrupt):
        handlers[0](2, None)
    live.training = True
    handlers[0](2, None)
    assert live.stopping
    with pytest.raises(KeyboardInterrupt):
        handlers[0](2, None)


def test_a_full_disk_costs_figures_only(tmp_path: Path) -> None:
    live = child.Live(str(tmp_path / "gone"))
    live.phase("reading")
    live.step(1, 1)
