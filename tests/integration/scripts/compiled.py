"""A function compiled by dynamo, with a read that breaks its graph. Prints what dynamo and the framework counted."""

import json

import torch
import torch._dynamo.utils
import torch_xla
from torch_xla.debug import metrics

device = torch_xla.device()
linear = torch.nn.Linear(8, 8).to(device)


def step(batch: torch.Tensor) -> torch.Tensor:
    out = linear(batch).to(torch.float16)
    if out.float().sum().item() > 1e9:
        out = out * 2
    return out.to(torch.float32)


compiled = torch.compile(step, backend="openxla")
with torch.no_grad():
    for rows in (4, 4, 6, 4):
        compiled(torch.ones(rows, 8).to(device))
        torch_xla.sync()

counts = {name: metrics.counter_value(name) for name in metrics.counter_names() if "ompile" in name}
# Not "frames": it counts every Python frame that dynamo glanced at, also the five of putting a variable back once.
shown = ("stats", "graph_break", "aot_autograd", "inline_call")
dynamo = {name: dict(torch._dynamo.utils.counters[name]) for name in shown}
print(json.dumps({"counts": counts, "dynamo": dynamo}, sort_keys=True))
