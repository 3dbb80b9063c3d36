"""A loop with one limit, chosen by LIMIT: input, host_sync, trace, transfer, checkpoint, device.

Prints what its clock says: the last line is JSON, for each step its length and the time spent in what limits it, both
in ns.
"""

import io
import json
import os
import time
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

LIMIT = os.environ["LIMIT"]
STEPS = int(os.environ.get("LIMIT_STEPS", "50"))
SLEEP_S = 0.04
DEVICE = torch_xla.device()


class Batches(Dataset):
    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if LIMIT == "input":
            time.sleep(SLEEP_S)
        return torch.full((8,), float(index))


class SlowDisk(io.BytesIO):
    def write(self, data: Any) -> int:
        time.sleep(SLEEP_S / 10)
        return super().write(data)


class Stopwatch:
    """Adds up the time spent inside ``with``."""

    spent = 0

    def __enter__(self) -> None:
        self.began = time.perf_counter_ns()

    def __exit__(self, *exception: object) -> None:
        self.spent += time.perf_counter_ns() - self.began


def many_operations(value: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count):
        value = value * 1.0001 + 0.0001
    return value


watch = Stopwatch()
size = {"device": 1000, "host_sync": 600}.get(LIMIT, 8)
weights = torch.randn(size, size)
weights = (weights / weights.norm()).to(DEVICE)
traced = torch.ones(8, device=DEVICE)
table = torch.randn(4000, 4000) if LIMIT == "transfer" else traced  # 64 MB, the same in each step
saved = {f"layer{number}": torch.randn(64, 64) for number in range(4)}
steps = []
batches = iter(DataLoader(Batches(), batch_size=1))
for number in range(STEPS):
    began, watch.spent = time.perf_counter_ns(), 0
    if LIMIT == "input":
        with watch:
            batch = next(batches)
        weights = weights + batch.to(DEVICE).sum() * 0.001
    elif LIMIT == "trace":
        with watch:
            weights = many_operations(weights, 400)
    elif LIMIT == "transfer":
        with watch:
            moved = table.to(DEVICE)
        weights = weights * 0.99 + moved[:8, :8].mean()
    elif LIMIT == "host_sync":
        traced = many_operations(traced, 300)  # small for the device: the host's half of the turns
        for _ in range(2):
            weights = weights @ weights
        weights = weights / weights.norm()
    elif LIMIT == "device":
        for _ in range(12):
            weights = weights @ weights
        weights = weights / weights.norm()
    else:
        weights = weights * 1.0001
    if LIMIT == "device":
        with watch:
            torch_xla.sync()
            xm.wait_device_ops()
    else:
        torch_xla.sync(wait=LIMIT == "trace")
    if LIMIT == "host_sync":
        with watch:
            weights.cpu()
    if LIMIT == "checkpoint" and number % 2:
        with watch:
            torch.save(saved, SlowDisk())
    steps.append((time.perf_counter_ns() - began, watch.spent))
print(json.dumps({"steps": steps}))
