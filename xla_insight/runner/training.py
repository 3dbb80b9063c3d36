"""What the workloads with a Trainer share: its arguments, steps for the progress bar, checkpoints, and the result.

Checkpoints are the Trainer's own: on XLA it moves tensors to the CPU and only the master writes. Owns finding a
checkpoint and telling a damaged one before the training starts. Needs torch_xla and transformers.
"""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch_xla import runtime
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils.logging import disable_progress_bar

from xla_insight.errors import TrainingDataError, UsageError
from xla_insight.runner.child import Live

LOGGING_STEPS = 20

disable_progress_bar()  # of saving and loading: the steps have one already


class Progress(TrainerCallback):  # type: ignore[misc]
    """Passes steps on to the progress bar, and ends the training after a step when that is wished."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.loss: float | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """From here on Ctrl-C ends the training after its step."""
        self.live.training = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step was traced; its graph may still run."""
        self.live.step(state.global_step, state.max_steps, self.loss)
        if self.live.stopping:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """A loss was read from the device."""
        self.loss = (logs or {}).get("loss", self.loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What follows can be ended at once."""
        self.live.training = False


def per_device_batch_size(global_batch_size: int) -> int:
    """Rows for each device. Raises UsageError when the devices cannot share a batch evenly."""
    devices = runtime.world_size()
    if global_batch_size % devices:
        raise UsageError(f"a global batch of {global_batch_size} cannot be shared evenly by {devices} devices")
    return int(global_batch_size // devices)


def trainer_arguments(options: Any, max_steps: int, **more: Any) -> TrainingArguments:
    """Arguments of the Trainer from the options that mlm and from-scratch have in common."""
    saving = {"save_strategy": "steps", "save_steps": options.save_steps} if options.save_steps else {}
    return TrainingArguments(
        output_dir=options.save_to,
        max_steps=max_steps,
        per_device_train_batch_size=per_device_batch_size(options.global_batch_size),
        learning_rate=options.learning_rate,
        optim="adamw_torch",  # the fused default of transformers 5 refuses XLA tensors
        bf16=options.precision == "bf16",
        logging_steps=LOGGING_STEPS,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        log_level="error",
        report_to=[],
        **{"save_strategy": "no", **saving, **more},
    )


def train(trainer: Trainer, live: Live, resume: bool) -> dict[str, Any]:
    """Train, from the last checkpoint when ``resume``, and return the result: steps, loss, seconds, rows, files."""
    progress = Progress(live)
    trainer.remove_callback(PrinterCallback)  # the bar shows the loss
    trainer.add_callback(progress)
    checkpoint = last_checkpoint(trainer.args.output_dir) if resume else None
    first = int(Path(checkpoint).name.rpartition("-")[2]) if checkpoint else 0
    if checkpoint and first >= trainer.args.max_steps:
        raise UsageError(
            f"{checkpoint} is of step {first}, and this training ends at {trainer.args.max_steps}: give more --steps"
        )
    begun_s = time.perf_counter()
    live.phase("the first step is traced and compiled")
    done = trainer.train(resume_from_checkpoint=checkpoint)
    lines = [f"Resumed from {checkpoint}."] if checkpoint else []
    if trainer.args.save_strategy != "no":
        lines.append(f"Checkpoints: {trainer.args.output_dir}")
    return {
        "steps": done.global_step - first,
        "loss": progress.loss if progress.loss is not None else done.training_loss,
        "train_s": time.perf_counter() - begun_s,
        "steps_planned": trainer.state.max_steps,
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "device": runtime.device_type(),
        "lines": lines,
    }


def last_checkpoint(folder: str) -> str:
    """The newest checkpoint in ``folder``, looked through. Raises UsageError for none, TrainingDataError for damage."""
    found = get_last_checkpoint(folder)
    if found is None:
        raise UsageError(f"no checkpoint in {folder} to resume from")
    for path in sorted(Path(found).iterdir()):
        try:
            _look_through(path)
        except (OSError, ValueError, SafetensorError, zipfile.BadZipFile) as error:
            reason = str(error).strip().split("\n")[0]
            raise TrainingDataError(f"the checkpoint {found} is damaged: {path.name}: {reason}") from error
    for name in ("trainer_state.json", "optimizer.pt"):
        if not (Path(found) / name).is_file():
            raise TrainingDataError(f"the checkpoint {found} is damaged: {name} is missing")
    return str(found)


def _look_through(path: Path) -> None:
    """Raise what reading the file raises when it is torn. Sizes and checksums are looked at, tensors are not kept."""
    if path.suffix == ".json":
        json.loads(path.read_text(encoding="utf-8"))
    elif path.suffix == ".safetensors":
        with safe_open(path, framework="pt") as opened:
            opened.keys()
    elif path.suffix in (".pt", ".pth"):
        with zipfile.ZipFile(path) as archive:
            torn = archive.testzip()
        if torn is not None:
            raise ValueError(f"{torn} has a wrong checksum")
