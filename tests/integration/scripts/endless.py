"""Trains until it is killed, and writes down each finished step with its time.

For each folder on its standard input there is one training, in a process of its own: a copy of this one, made when the
framework is loaded and nothing of it has begun. Prints the number of each process. A killed one leaves at once.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch_xla

import xla_insight as xi


def train(folder: Path) -> None:
    with open(folder / "progress.txt", "a", buffering=1) as progress, xi.profile(str(folder / "run")) as prof:
        weight = torch.ones(8, 8).to(torch_xla.device())
        for step in range(10_000_000):
            weight = weight * 0.5 + step % 3
            torch_xla.sync()
            prof.step()
            progress.write(f"{step} {time.perf_counter_ns()}\n")
            time.sleep(0.001)
        os._exit(1)


signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
for line in sys.stdin:
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        train(Path(line.rstrip("\n")))
    print(process, flush=True)
