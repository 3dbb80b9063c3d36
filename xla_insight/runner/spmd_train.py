"""Training on several devices of one process, by SPMD: to run, to read and to copy.

Owns the training of the workload `spmd`: the mesh, how the model lies on it, and checkpoints that another thread
writes. Knows nothing of being recorded.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch import distributed
from torch.nn import functional

from xla_insight.errors import TrainingDataError, UsageError
from xla_insight.runner import child, text
from xla_insight.runner.spmd import ManyDevices
from xla_insight.runner.spmd_model import BYTES, ByteModel

_OF_LIBRARIES = ("Full backward hook", "TypedStorage is deprecated", "The function definition for", "Using a non-tuple")
"""How warnings begin that torch and torch_xla give here about each other's code."""
AUTOMATIC = ("TPU",)
"""Devices whose compiler chooses shardings itself."""


def make_mesh(options: ManyDevices) -> xs.Mesh:
    """All devices, as data × model; FSDP's own name for the first axis is `fsdp`."""
    count = xr.global_runtime_device_count()
    if count % options.tensor_parallel or options.global_batch_size % (count // options.tensor_parallel):
        raise UsageError(
            f"--global-batch-size {options.global_batch_size} cannot be shared by the {count} devices here"
        )
    shape = (count // options.tensor_parallel, options.tensor_parallel)
    return xs.Mesh(np.arange(count), shape, ("fsdp" if options.sharding == "fsdp" else "data", "model"))


def place_by_hand(model: ByteModel, mesh: xs.Mesh) -> None:
    """Cut what widens by rows and what narrows by columns, so that a block needs one sum in each of its halves."""
    for block in model.blocks:
        for wide in (block.query_key_value, block.feed_in):
            xs.mark_sharding(wide.weight, mesh, ("model", None))
        for narrow in (block.attention_out, block.feed_out):
            xs.mark_sharding(narrow.weight, mesh, (None, "model"))


def place(model: ByteModel, mesh: xs.Mesh, sharding: str) -> torch.nn.Module:
    """The model, laid out on the mesh."""
    if sharding == "manual":
        place_by_hand(model, mesh)
    if sharding != "fsdp":
        return model
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

    def cut_output(output: torch.Tensor, mesh: xs.Mesh) -> None:
        xs.mark_sharding(output, mesh, ("fsdp", None, None))

    return SpmdFullyShardedDataParallel(model, mesh=mesh, shard_output=cut_output)


def batches(options: ManyDevices) -> Iterator[torch.Tensor]:
    """Bytes of the text, without end: (texts, bytes + 1), so that each has a next one."""
    whole = "\n".join(text.documents(options.data)).encode()
    size = options.global_batch_size * (options.sequence_length + 1)
    if len(whole) < size:
        raise UsageError(f"the text has {len(whole)} bytes, and a batch needs {size}")
    values = torch.frombuffer(bytearray(whole), dtype=torch.uint8).long()
    while True:
        for begin in range(0, len(values) - size + 1, size):
            yield values[begin : begin + size].view(options.global_batch_size, -1)


def make_optimizer(options: ManyDevices, model: torch.nn.Module) -> torch.optim.Optimizer:
    """The optimizer over all parameters, as they lie on the devices."""
    if options.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    return torch.optim.AdamW(model.parameters(), lr=options.learning_rate)


class Checkpoints:
    """Checkpoints of a sharded model: copied to the host while training waits, written while it goes on.

    One every so many steps; 0: only those that are forced.
    """

    def __init__(self, folder: str, every: int) -> None:
        from torch_xla.experimental.distributed_checkpoint import CheckpointManager

        # One process, so a file of its own is enough for it to meet itself.
        self._meeting = tempfile.TemporaryDirectory(prefix="spmd-checkpoints-")  # gone when the process ends
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self._told = False
        with _without_output():
            distributed.init_process_group("gloo", f"file://{self._meeting.name}/meeting", rank=0, world_size=1)
            self._manager = CheckpointManager(folder, every or sys.maxsize, max_to_keep=2, chkpt_on_preemption=False)

    def restore(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Load the newest checkpoint into both; its step. Raises UsageError for none, TrainingDataError for damage."""
        from torch_xla.experimental.distributed_checkpoint import prime_optimizer

        step = max(self._manager.all_steps(), default=None)
        if step is None:
            raise UsageError(f"no checkpoint in {self._folder} to resume from")
        prime_optimizer(optimizer)  # what is loaded goes into tensors that must be there
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        try:
            self._manager.restore(step, state)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            optimizer.zero_grad()  # of the priming; else the first step adds to them and has a graph of its own
            torch_xla.sync()  # as it would have when it copied what was loaded
        except (Exception, distributed.checkpoint.CheckpointException) as error:  # damage has many errors
            raise TrainingDataError(
                f"the checkpoint {self._folder}/{step} cannot be loaded into this model: {_innermost(error)}"
            ) from error
        return int(step)

    def after(self, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, last: bool) -> None:
        """Step ``step`` (from 1) is over, and is the last one when the training was asked to end."""
        self._manager.save_async(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, force=last)
        if not self._told and (failed := self._failures()):  # at once: hours may follow that nothing keeps
            self._told = True
            print(f"xla-insight: {failed}; the training goes on", file=sys.stderr, flush=True)

    def finish(self) -> list[str]:
        """Wait for what is still being written; what is to be said of it."""
        self._manager.join()
        kept = sorted(self._manager.all_steps())
        failed = self._failures()
        distributed.destroy_process_group()
        steps = f"steps {', '.join(map(str, kept))}" if len(kept) > 1 else f"step {max(kept, default=0)}"
        return [
            *([f"Checkpoints in {self._folder}: of {steps}."] if kept else []),
            *([f"{failed}."] if failed else []),
        ]

    def _failures(self) -> str:
        """What is to be said of checkpoints that another thread could not write so far; empty when there is nothing."""
        ended = [future for future in self._manager._async_futures if future.done()]
        failed = [error for future in ended if (error := future.exception()) is not None]
        if not failed:
            return ""
        return f"{len(failed)} of {len(ended)} checkpoints could not be written: {_innermost(failed[-1])}"


@contextmanager
def _without_output() -> Iterator[None]:
    """Keep what C++ prints off the output: gloo counts there the processes that it met, of which there are none."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _innermost(error: BaseException) -> str:
    """The last line of what a rank says of its error; those of `torch.distributed.checkpoint` hold tracebacks."""
    failures = getattr(error, "failures", None)
    inner = next(iter(failures.values()))[0] if failures else error
    said = str(inner).strip().split("\n")[0][:300]
    return f"{type(inner).__name__}: {said}" if said else type(inner).__name__


def begin_spmd(options: ManyDevices) -> None:
    """Switch to SPMD. Raises UsageError where the compiler cannot do what is asked."""
    if options.sharding == "auto" and xr.device_type() not in AUTOMATIC:
        raise UsageError(
            f"XLA on {xr.device_type()} does not choose shardings itself; give --sharding data-parallel, fsdp or manual"
        )
    xr.use_spmd(auto=options.sharding == "auto")


def train(options: ManyDevices, live: child.Live) -> dict[str, Any]:
    """Train; returns the result."""
    for warning in _OF_LIBRARIES:
        warnings.filterwarnings("ignore", warning)
    begin_spmd(options)
    device = child.require_device()
    mesh = make_mesh(options)
    data = batches(options)
    torch.manual_seed(1)
    again = import_module("torch_xla.utils.checkpoint").checkpoint if options.gradient_checkpointing else None
    model = ByteModel(options.layers, options.width, options.sequence_length, again).to(device)
    placed = place(model, mesh, options.sharding)
    optimizer = make_optimizer(options, placed)
    checkpoints = Checkpoints(options.save_to, options.save_steps) if options.save_steps or options.resume else None
    first = checkpoints.restore(placed, optimizer) if checkpoints is not None and options.resume else 0
    if options.resume and first >= options.steps:
        where = f"{options.save_to}/{first}"
        raise UsageError(f"{where} is of step {first}, and this training ends at {options.steps}: give more --steps")
    loss = torch.zeros(())
    done = first
    data = itertools.islice(data, first, None)
    live.training = True
    while done < options.steps and not live.stopping:
        batch = next(data).to(device)
        if options.sharding != "auto":
            xs.mark_sharding(batch, mesh, (mesh.axis_names[0], None))
        loss = functional.cross_entropy(placed(batch[:, :-1]).reshape(-1, BYTES), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        done += 1
        live.step(done, options.steps)
        if checkpoints is not None:
            checkpoints.after(done, placed, optimizer, last=bool(options.save_steps) and live.stopping)
    live.phase("writing the last checkpoint" if checkpoints is not None else "waiting for the device")
    resumed = [f"Resumed from step {first} in {options.save_to}."] if options.resume else []
    written = checkpoints.finish() if checkpoints is not None else []
    return {"steps": done - first, "loss": loss.item(), "lines": [*resumed, *written]}


if __name__ == "__main__":
    sys.exit(child.run(ManyDevices, train))
