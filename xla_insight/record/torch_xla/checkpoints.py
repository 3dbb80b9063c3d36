"""Hooks on torch_xla's manager of distributed checkpoints: how long training stands still, and what is written behind.

Owns which of its calls are seen. A call that decides not to save is no checkpoint.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from xla_insight.facts.events import Kind
from xla_insight.record.patches import Patches
from xla_insight.record.torch_hooks import TorchHooks

MODULE = "torch_xla.experimental.distributed_checkpoint.manager"


def install_checkpoints(module: ModuleType, hooks: TorchHooks, patches: Patches) -> None:
    """Hook the manager, whose module was imported."""
    manager = module.CheckpointManager
    for name in ("save", "save_async"):
        patches.wrap(manager, name, lambda original, name=name: _saving(original, hooks, name))  # type: ignore[misc]
    # What `save_async` hands to a thread of its own.
    patches.wrap(manager, "_save", lambda original: hooks.timed(original, Kind.CHECKPOINT, "CheckpointManager"))


def _saving(original: Callable[..., Any], hooks: TorchHooks, name: str) -> Callable[..., Any]:
    def save(*args: Any, **kwargs: Any) -> Any:
        begin_ns = time.perf_counter_ns()
        saved = original(*args, **kwargs)
        if saved and hooks.recorder.active:
            hooks.add_span(Kind.CHECKPOINT, begin_ns, f"CheckpointManager.{name}", sys._getframe(1))
        return saved

    return save
