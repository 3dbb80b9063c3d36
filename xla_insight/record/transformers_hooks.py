"""Hooks on Hugging Face transformers: optimizer steps and checkpoints of the Trainer.

Owns what is seen of ``Trainer``. Seen from inside, so a user's script needs no change for its steps to be marked.

``on_step_end`` comes before the graph of its step is cut (the loader cuts it when the next batch is fetched), so the
mark is set where the next step begins, or where the epoch or the training ends: a step then holds its own graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_insight.facts.events import EpochSource, Kind, StepSource
from xla_insight.record.patches import Patches
from xla_insight.record.torch_hooks import TorchHooks


class StepMarks:
    """Turns the Trainer's callback events into marks of steps and epochs."""

    def __init__(self, hooks: TorchHooks) -> None:
        self._recorder = hooks.recorder
        self._done = False

    def install(self, module: Any, patches: Patches) -> None:
        """``module`` is ``transformers.trainer_callback``."""
        patches.wrap(module.CallbackHandler, "on_step_end", lambda original: self._around(original, self._ended))
        for name in ("on_step_begin", "on_train_end"):
            patches.wrap(module.CallbackHandler, name, lambda original: self._around(original, self._mark))
        patches.wrap(module.CallbackHandler, "on_epoch_end", lambda original: self._around(original, self._epoch))

    def _around(self, original: Callable[..., Any], action: Callable[[], None]) -> Callable[..., Any]:
        guarded = self._recorder.faults.guard("step")(action)

        def event(*args: Any, **kwargs: Any) -> Any:
            if self._recorder.active:
                guarded()
            return original(*args, **kwargs)

        return event

    def _ended(self) -> None:
        self._done = True

    def _mark(self) -> None:
        if self._done:
            self._done = False
            self._recorder.mark_step(StepSource.CALLBACK)

    def _epoch(self) -> None:
        self._mark()
        self._recorder.mark_epoch(EpochSource.CALLBACK)


def install_trainer(module: Any, hooks: TorchHooks, patches: Patches) -> None:
    """``module`` is ``transformers.trainer``."""
    for name in ("_save_checkpoint", "save_model"):
        label = f"Trainer.{name}"
        patches.wrap(module.Trainer, name, lambda original, label=label: hooks.timed(original, Kind.CHECKPOINT, label))  # type: ignore[misc]
