"""Inside the training process: hooks, buffers, and the thread that turns them into a log.

Owns everything that runs beside the user's training and the promise that none of it can hurt it. torch_xla is named in
one file only (``torch_xla.py``). Leaves bytes on disk to ``store`` and every conclusion to ``analysis``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xla_insight.record.callback import TrainerCallback
    from xla_insight.record.session import prepare, profile

__all__ = ["TrainerCallback", "prepare", "profile"]

_HOMES = {"TrainerCallback": "callback", "prepare": "session", "profile": "session"}


def __getattr__(name: str) -> Any:
    """Loaded on first use: a child process at start-up needs none of it, and ``callback`` imports transformers."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
