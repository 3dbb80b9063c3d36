"""Trains until it is killed, and writes down each finished step with its time."""

import os
import sys
import time

import torch
import torch_xla

import xla_insight as xi

with open(sys.argv[2], "a", buffering=1) as progress, xi.profile(sys.argv[1]) as prof:
    weight = torch.ones(8, 8).to(torch_xla.device())
    for step in range(10_000_000):
        weight = weight * 0.5 + step % 3
        torch_xla.sync()
        prof.step()
        progress.write(f"{step} {time.perf_counter_ns()}\n")
        time.sleep(0.001)
    os._exit(1)
