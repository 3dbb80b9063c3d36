"""The workload `spmd`: one process trains on several devices; its options, its check and its plan.

Leaves the training to ``spmd_train``. Imports the standard library only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from xla_insight.errors import UsageError
from xla_insight.runner import hub, text
from xla_insight.runner.workload import Plan, Workload, option

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_TENSOR_PARALLEL = 2
_PLACEMENTS = {
    "data-parallel": "every device holds the whole model; gradients are summed over all",
    "fsdp": "every parameter cut over all devices, gathered where it is used",
    "manual": "attention and feed-forward weights cut over pairs of devices, batches over the pairs",
    "auto": "chosen by the compiler (on a TPU; on a CPU the training says that it cannot)",
}


@dataclass(frozen=True)
class ManyDevices(Workload):
    """Train a small language model on several devices of one process (SPMD): data parallel, FSDP, or cut by hand."""

    sharding: Literal["data-parallel", "fsdp", "manual", "auto"] = option(
        "fsdp", "How the model lies on the devices. auto: where the compiler can choose (TPU)."
    )
    devices: int = option(4, "Virtual devices, where the device is a CPU; others have as many as there are.", minimum=1)
    layers: int = option(2, "Transformer blocks.", minimum=1)
    width: int = option(64, "Of the model; a multiple of 8 for each device.", minimum=8)
    data: tuple[str, ...] = option(
        (), "Text file, `datasets` folder, or NAME[:CONFIG] on the hub; several times for more (default: demo text)."
    )
    global_batch_size: int = option(8, "Texts of a step, over all devices.", minimum=1)
    sequence_length: int = option(64, "Bytes of a text.", minimum=8)
    steps: int = option(12, "How many.", minimum=1)
    optimizer: Literal["adamw", "sgd"] = option("adamw", "sgd: with momentum; a smaller graph.")
    learning_rate: float = option(1e-3, "Of the optimizer.", minimum=0)
    gradient_checkpointing: bool = option(False, "Compute activations again in the backward pass; saves memory.")
    save_steps: int = option(0, "Write a checkpoint every so many steps while training goes on; 0: none.", minimum=0)
    resume: bool = option(False, "Go on from the last checkpoint in --save-to.")

    name: ClassVar[str] = "spmd"
    windows: ClassVar[str | None] = "6-8"
    module: ClassVar[str] = "xla_insight.runner.spmd_train"

    def check(self) -> None:
        """Raise UsageError for sizes that the devices cannot share."""
        super().check()
        text.check(self.data)
        if self.resume and not self.save_to:
            raise UsageError("--resume needs --save-to FOLDER with the checkpoints of an earlier training")
        if self.resume and not Path(self.save_to).is_dir():
            raise UsageError(f"no folder {self.save_to} to resume from")
        if self.sharding == "manual" and self.devices % _TENSOR_PARALLEL:
            raise UsageError("--sharding manual needs an even number of --devices")
        if self.width % 8:
            raise UsageError(f"--width {self.width} is no multiple of 8")
        data_size = self.devices // self.tensor_parallel
        if self.global_batch_size % data_size:
            raise UsageError(
                f"--global-batch-size {self.global_batch_size} cannot be shared equally by {data_size} devices"
            )

    @property
    def tensor_parallel(self) -> int:
        """How many devices share each layer."""
        return _TENSOR_PARALLEL if self.sharding == "manual" else 1

    def variables(self) -> dict[str, str]:
        """The number of virtual devices, at which only a CPU looks; and whether the hub answers, when it is needed.

        XLA warns at every compile that the partitioner which torch_xla chose will be replaced: its errors are enough.
        """
        needed = {} if text.is_local(self.data) else hub.variables()
        said = os.environ.get(_LOG_LEVEL, "2")
        return {"CPU_NUM_DEVICES": str(self.devices), _LOG_LEVEL: said, **needed}

    def plan(self) -> Plan:
        """The model, the devices, and the graphs to expect."""
        rows = (
            ("model", f"{self.layers} transformer blocks of width {self.width} over bytes, random weights"),
            ("data", text.describe(self.data)),
            ("devices", f"{self.devices} (virtual, where the device is a CPU)"),
            ("sharding", f"{self.sharding}: {_PLACEMENTS[self.sharding]}"),
            ("global batch size", f"{self.global_batch_size} texts of {self.sequence_length} bytes"),
            ("gradient checkpointing", "on" if self.gradient_checkpointing else "off"),
            ("checkpoints", f"every {self.save_steps} steps, written behind" if self.save_steps else "none"),
            ("steps", str(self.steps)),
            ("graphs expected", "2: the first step, and all after it (with optimizer state)"),
        )
        return Plan(f"Language model on {self.devices} devices", rows)
