"""What recording costs the training thread, beside the other ways to watch torch_xla at work.

Each way runs in its own process, several times, interleaved, so that a change of the machine's mood hits all of them.
Two loops, below a stack as deep as the Trainer's: ``sync`` cuts a tiny graph again and again, for the cost of one sync;
``step`` trains a small transformer with AdamW, for the share of a real step. Of each the fastest block counts: CPU time
of the training thread (what the way itself costs it) and wall time (which also holds waiting, and other programs).

    python benchmarks/overhead.py [--json] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

WAYS = {
    "bare": "nothing",
    "again": "nothing, once more (the noise)",
    "xla-insight": "xla-insight, level light",
    "debug": "PT_XLA_DEBUG_LEVEL=2 to a file",
    "metrics": "metrics_report() every step",
    "tensors": "XLA_SAVE_TENSORS_FILE",
}
BLOCKS = {"sync": (20, 100), "step": (6, 10)}
"""Loop -> (blocks, iterations a block)."""
STACK_DEPTH = 30

Step = Callable[[], None]


def sync_loop() -> Step:
    """A graph of two operations."""
    import torch
    import torch_xla

    device = torch_xla.device()
    weight, update = torch.ones(16, 16).to(device), torch.ones(16, 16).to(device)

    def step() -> None:
        nonlocal weight
        weight = weight * 0.5 + update
        torch_xla.sync()

    return step


def transformer_loop() -> Step:
    """One optimizer step of a transformer encoder of 4 layers, width 128, on 8 sequences of 64."""
    import torch
    import torch_xla

    device = torch_xla.device()
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.randn(8, 64, 128)

    def step() -> None:
        optimizer.zero_grad()
        model(batch.to(device)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()

    return step


def nothing() -> None:
    """What most ways do after a step."""


def report_metrics() -> None:
    """What a training loop that logs the framework's metrics does after a step, without the printing."""
    from torch_xla.debug import metrics

    metrics.metrics_report()


def below(depth: int, step: Step) -> None:
    """Call ``step`` with that many more frames on the stack."""
    if depth:
        below(depth - 1, step)
    else:
        step()


def measured(way: str, folder: Path) -> dict[str, dict[str, float]]:
    """Run both loops in this process; loop -> least microseconds an iteration, ``cpu_us`` and ``wall_us``."""
    recording: AbstractContextManager[Any] = nullcontext()
    if way == "xla-insight":
        import xla_insight as xi

        recording = xi.profile(folder / "run")
    after = report_metrics if way == "metrics" else nothing
    with recording:
        return {"sync": timed("sync", sync_loop(), after), "step": timed("step", transformer_loop(), after)}


def timed(loop: str, step: Step, after: Step) -> dict[str, float]:
    """The fastest block of a loop, after as many iterations as fill torch_xla's rings of samples."""
    from torch_xla.core import xla_model

    blocks, iterations = BLOCKS[loop]
    for _ in range(iterations):
        below(STACK_DEPTH, step)
    cpu_us, wall_us = [], []
    for _ in range(blocks):
        xla_model.wait_device_ops()  # what earlier blocks left running is not this block's
        cpu_ns, wall_ns = time.thread_time_ns(), time.perf_counter_ns()
        for _ in range(iterations):
            below(STACK_DEPTH, step)
            after()
        cpu_us.append((time.thread_time_ns() - cpu_ns) / iterations / 1000)
        wall_us.append((time.perf_counter_ns() - wall_ns) / iterations / 1000)
    return {"cpu_us": min(cpu_us), "wall_us": min(wall_us)}


def environment(way: str, folder: Path) -> dict[str, str]:
    """The environment of a way; nothing of the caller's own settings of the framework."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "PT_XLA_"))}
    extra = {
        "debug": {"PT_XLA_DEBUG_LEVEL": "2", "PT_XLA_DEBUG_FILE": str(folder / "debug.txt")},
        "tensors": {"XLA_SAVE_TENSORS_FILE": str(folder / "tensors.txt")},
    }
    return {**kept, "PJRT_DEVICE": "CPU", **extra.get(way, {})}


def run_way(way: str) -> dict[str, dict[str, float]]:
    """Measure one way in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, __file__, "--way", way, "--folder", name]
        done = subprocess.run(command, env=environment(way, Path(name)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{WAYS[way]}: failed\n{done.stderr}")
        result: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(repeats: int) -> dict[str, Any]:
    """Every way, ``repeats`` times in turn; the least of each figure, and what it is above bare."""
    found: dict[str, list[dict[str, dict[str, float]]]] = {way: [] for way in WAYS}
    for number in range(repeats):
        for way, name in WAYS.items():
            print(f"  round {number + 1} of {repeats}: {name}", file=sys.stderr, flush=True)
            found[way].append(run_way(way))
    best = {
        way: {
            f"{loop}_{kind}": min(result[loop][kind] for result in results)
            for loop in BLOCKS
            for kind in ("cpu_us", "wall_us")
        }
        for way, results in found.items()
    }
    bare = best["bare"]
    for figures in best.values():
        figures["sync_added_cpu_us"] = figures["sync_cpu_us"] - bare["sync_cpu_us"]
        figures["step_added_cpu_us"] = figures["step_cpu_us"] - bare["step_cpu_us"]
        figures["step_added_share"] = figures["step_added_cpu_us"] / bare["step_wall_us"]
        figures["sync_cpu_ratio"] = figures["sync_cpu_us"] / bare["sync_cpu_us"]
    return {"machine": machine_facts(), "repeats": repeats, "stack_depth": STACK_DEPTH, "ways": best, "all": found}


def machine_facts() -> dict[str, Any]:
    """What the figures were taken on."""
    cpus = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "cpu": cpus[0] if cpus else platform.processor(),
        "cores": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "torch_xla", "xla-insight")},
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def print_table(result: dict[str, Any]) -> None:
    """The comparison as text."""
    print(", ".join(f"{name} {value}" for name, value in result["machine"].items()), end="\n\n")
    print(f"{'':34}{'one sync, thread CPU':>24}{'wall':>12}{'one step, thread CPU':>26}{'wall':>12}{'share':>9}")
    for way, name in WAYS.items():
        figures = result["ways"][way]
        sync = f"{figures['sync_cpu_us']:,.0f} us (x{figures['sync_cpu_ratio']:.2f})"
        step = f"{figures['step_cpu_us'] / 1000:,.2f} ms ({figures['step_added_cpu_us']:+,.0f} us)"
        share = "" if way == "bare" else f"{figures['step_added_share']:+.1%}"
        walls = f"{figures['sync_wall_us']:,.0f} us", f"{figures['step_wall_us'] / 1000:,.2f} ms"
        print(f"{name:34}{sync:>24}{walls[0]:>12}{step:>26}{walls[1]:>12}{share:>9}")
    added = result["ways"]["xla-insight"]["sync_added_cpu_us"]
    print(f"\nxla-insight adds {added:.0f} us of the training thread to a sync (budget: 100 us),")
    print(f"which is {added / 100_000:.2%} of a step of 100 ms with one sync (budget: 1 %).")
    print("share: added thread CPU of a step over the bare step's wall time. Fastest block of each; lower is better.")
    print("A share no larger than the noise row's, or below zero, could not be told from nothing.")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What recording costs the training thread, beside other tools.")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measured(options.way, options.folder)))
        return
    result = compare(options.repeats)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
