"""`xla-insight run`, `profile()` and `TrainerCallback` give the same log; own loops mark their steps."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xla_insight.analysis import analyze
from xla_insight.store.reader import Run, open_run

from .conftest import Recorded
from .programs import CLI, script
from .programs import run as run_program


def summary(run: Run) -> dict[str, object]:
    """What must not depend on how recording was started."""
    executions = run.executions.sort_values("time_ns")
    training = executions[executions["step"].notna()]
    reads = run.reads[run.reads["step"].notna()]
    return {
        "steps": len(run.steps),
        "source": run.steps["source"].unique().tolist(),
        "graphs": training["graph"].tolist(),
        "reads": reads.groupby(["method", "line"]).size().to_dict(),
        "inputs": sorted(run.inputs["name"].dropna().unique()),
        "checkpoints": sorted(run.host_spans.query("kind == 'checkpoint'")["name"].unique()),
    }


def test_three_ways_one_log(tmp_path: Path, trainer: Recorded) -> None:
    assert trainer.done.code == 0
    found = {}
    for way in ("profile", "callback"):
        done = script("tiny_trainer.py", TRAINER_WAY=way, TRAINER_OUT=str(tmp_path / way))
        assert done.code == 0, done.err
    for way in ("run", "profile", "callback"):
        with open_run(trainer.path if way == "run" else tmp_path / way) as run:
            found[way] = summary(run)
    assert found["run"]["steps"] == 8
    assert found["run"]["source"] == ["callback"]
    assert {"input_ids", "labels", "attention_mask"} <= set(found["run"]["inputs"])  # type: ignore[call-overload]
    assert "Trainer._save_checkpoint" in found["run"]["checkpoints"]  # type: ignore[operator]
    assert found["profile"] == found["run"]
    # The callback begins when training does: the model is on the device already, everything after is the same.
    assert found["callback"] == found["run"]


def test_a_trainer_says_where_its_epochs_end(trainer: Recorded) -> None:
    time = analyze(trainer.path).time
    assert [(period.first_step, period.last_step) for period in time.epochs] == [(0, 3), (4, 7)]
    assert time.steady is not None and time.warm_up is not None
    whole = time.steady.wall_s + time.warm_up.wall_s
    assert sum(period.wall_s for period in time.epochs) == pytest.approx(whole)


def test_a_pass_over_a_loader_is_an_epoch_and_an_evaluation_is_none(tmp_path: Path) -> None:
    done = script("epochs.py", EPOCHS_OUT=str(tmp_path / "run"))
    assert done.code == 0, done.err
    epochs = analyze(tmp_path / "run").time.epochs
    assert [(period.first_step, period.last_step) for period in epochs] == [(0, 2), (3, 5)]


def test_transformers_reads_the_mask_every_step(trainer: Recorded) -> None:
    with open_run(trainer.path) as run:
        mask = run.reads[run.reads["file"].str.endswith("masking_utils.py")]
        assert len(mask) == 8
        assert mask["user_file"].str.endswith("tiny_trainer.py").all()
        assert (mask["executions"] == 1).all()


@pytest.mark.parametrize(("mark", "source"), [("1", "prof.step"), ("", "sync_site")])
def test_own_loop(tmp_path: Path, mark: str, source: str) -> None:
    variables = {"LOOP_MARK": mark} if mark else {}
    done = script("loop.py", LOOP_PROFILE=str(tmp_path / "run"), **variables)
    assert done.code == 0, done.err
    assert done.result["hooked"] is False, "nothing stays hooked after the context"
    with open_run(tmp_path / "run") as run:
        assert run.steps["source"].tolist() == [source] * 6
        assert run.steps["inferred"].tolist() == [mark == ""] * 6
        per_step = run.compiles.groupby("step").size().to_dict()
        assert per_step == {0: 1, 1: 1, 3: 1}
        assert run.inputs.query("dims.str.len() == 2")["step"].tolist() == list(range(6))


def test_two_child_processes_record_into_one_run(tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    loop = Path(__file__).parent / "scripts" / "loop.py"
    parent.write_text(
        "import subprocess, sys, os\n"
        f"jobs = [subprocess.Popen([sys.executable, {str(loop)!r}], env={{**os.environ, 'RANK': str(r),"
        " 'WORLD_SIZE': '2', 'PJRT_LOCAL_PROCESS_RANK': str(r)}) for r in range(2)]\n"
        "sys.exit(max(job.wait() for job in jobs))\n"
    )
    done = run_program([*CLI, "run", "--out", str(tmp_path / "run"), str(parent)])
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as opened:
        assert sorted(process.rank for process in opened.processes) == [0, 1]
        first, second = (opened.executions.query(f"rank == {rank}")["graph"].tolist() for rank in range(2))
        assert len(first) == 6
        assert first == second, "a process that is not local rank 0 describes its graphs too"


def test_a_command_that_never_imports_the_framework_writes_nothing(tmp_path: Path) -> None:
    done = run_program([*CLI, "run", "--out", str(tmp_path / "run"), "-c", "print('hello')"])
    assert (done.code, done.out) == (0, "hello\n")
    assert "nothing recorded" in done.err
    assert not (tmp_path / "run").exists()


def test_activation_phases_are_stated(tmp_path: Path) -> None:
    code = """
import json, sys, torch
import xla_insight as xi
phase = sys.argv[1]
if phase != "before_runtime":
    import torch_xla
    device = torch_xla.device()
    x = torch.ones(4).to(device)
    if phase == "after_first_graph":
        y = x + 1; torch_xla.sync()
with xi.profile(sys.argv[2]):
    import torch_xla
    for step in range(3):
        z = torch.ones(4).to(torch_xla.device()) * 2
        torch_xla.sync()
"""

    for phase in ("before_runtime", "before_first_graph", "after_first_graph"):
        out = tmp_path / phase
        done = run_program([sys.executable, "-c", code, phase, str(out)])
        assert done.code == 0, done.err
        with open_run(out) as opened:
            capabilities = opened.processes[0].facts["capabilities"]
            assert capabilities["phase"] == phase
            known = phase != "after_first_graph"
            assert capabilities["graph_hash"] is known
            assert opened.executions["graph"].notna().all() == known
            assert len(opened.executions) == 3


def test_children_started_before_the_first_graph_record_only_their_own(tmp_path: Path) -> None:
    (tmp_path / "spawning.py").write_text(
        """
import multiprocessing
import torch, torch_xla

def work(steps):
    for _ in range(steps):
        z = torch.ones(4 + steps).to(torch_xla.device()) * 2
        torch_xla.sync()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(steps,)) for steps in (3, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [*CLI, "run", "--out", str(tmp_path / "run"), str(tmp_path / "spawning.py")]
    done = run_program(command, TMPDIR=str(temporary))
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as opened:
        assert sorted(opened.executions.groupby("process").size()) == [3, 5]
        assert opened.executions["graph"].notna().all()
        assert opened.counters.query("name == 'executions'")["delta"].sum() == 8
    assert list(temporary.glob("xla-insight-*")) == [], "nothing is left behind"


def test_signals_reach_the_script(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [*CLI, "run", "--out", str(tmp_path / "run"), str(tmp_path / "waiting.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(30) == 5
