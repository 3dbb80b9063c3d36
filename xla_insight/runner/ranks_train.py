"""One of several processes that train side by side: to run, to read and to copy.

Owns the training of the workload `ranks`. Knows nothing of being recorded. On a TPU the gradients are reduced over all
processes; processes on CPUs have no exchange in torch_xla and train by themselves.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from torch import nn
from torch.nn import functional

from xla_insight.runner import child
from xla_insight.runner.ranks import ManyProcesses

CLASSES = 8


def train(options: ManyProcesses, live: child.Live) -> dict[str, Any]:
    """Train; returns the result."""
    device = child.require_device()
    rank, last = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")) - 1
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(options.width, options.width), nn.ReLU(), nn.Linear(options.width, CLASSES)).to(
        device
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    torch.manual_seed(rank)
    loss = torch.zeros(())
    done = 0
    live.training = True
    while done < options.steps and not live.stopping:
        rows = torch.randn(options.batch_size, options.width).to(device)
        classes = torch.randint(CLASSES, (options.batch_size,)).to(device)
        loss = functional.cross_entropy(model(rows), classes)
        if options.diverge and rank == last:
            loss = loss + loss.square()  # the line in which this rank differs
        loss.backward()
        if xr.device_type() != "CPU":
            xm.reduce_gradients(optimizer)
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        if rank == last:
            time.sleep(options.slow_ms / 1e3)
        done += 1
        live.step(done, options.steps)
    return {"steps": done, "loss": loss.item()}


if __name__ == "__main__":
    sys.exit(child.run(ManyProcesses, train))
