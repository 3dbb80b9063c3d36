"""A plain training loop of two layers. Prints the losses' bits and what the framework itself counts.

Behaviour is chosen by LOOP_* variables, so that one script serves many tests:
LOOP_STEPS, LOOP_PROFILE (record in the script, to that folder), LOOP_MARK (call prof.step()), LOOP_FAULT (what goes
wrong after step 2), LOOP_RUNTIME (start the runtime before recording).
"""

import contextlib
import json
import os
import shutil
import struct

import torch
import torch_xla
from torch_xla.debug import metrics, profiler

import xla_insight as xi

STEPS = int(os.environ.get("LOOP_STEPS", "6"))
FAULT = os.environ.get("LOOP_FAULT", "")
PROFILE = os.environ.get("LOOP_PROFILE", "")

torch.manual_seed(0)
losses: list[str] = []


def train(prof: "xi.profile | None") -> None:
    device = torch_xla.device()
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(STEPS):
        batch = torch.randn(4 if step != 3 else 6, 16).to(device)
        loss = net(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(struct.pack("f", loss.item()).hex())
        if prof is not None and "LOOP_MARK" in os.environ:
            prof.step()
        misbehave(step)


def misbehave(step: int) -> None:
    if FAULT == "trace" and step == 3:
        profiler.stop_trace()
    if step != 2:
        return
    if FAULT == "clear":
        metrics.clear_all()
    elif FAULT == "exit":
        os._exit(7)
    elif FAULT == "raise":
        raise ValueError("the loss is a banana")
    elif FAULT == "interrupt":
        os.kill(os.getpid(), 2)
    elif FAULT == "trace":
        profiler.start_trace(os.environ["LOOP_TRACE"])
    elif FAULT == "delete":
        shutil.rmtree(os.environ["LOOP_DELETE"])
    elif FAULT == "full":
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


if "LOOP_RUNTIME" in os.environ:
    torch_xla.device()
with contextlib.ExitStack() as stack:
    prof = stack.enter_context(xi.profile(PROFILE)) if PROFILE else None
    train(prof)

counts = {name: metrics.counter_value(name) for name in ("CachedCompile", "UncachedCompile")}
data = metrics.metric_data("ExecuteTime")
counts["ExecuteTime"] = data[0] if data else 0
item = torch.Tensor.__dict__.get("item")
print(json.dumps({"losses": losses, "counts": counts, "hooked": item is not None}))
