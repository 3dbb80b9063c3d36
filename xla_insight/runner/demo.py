"""The demo workload as a command: which script it is, what it needs, and how it is recorded.

The script itself is ``demo_train.py``, which knows nothing of being recorded. Leaves the recording to ``record`` and
everything that is said about the run to the command line.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from xla_insight.record import launch

SCRIPT = Path(__file__).with_name("demo_train.py")
NEEDS = ("torch_xla", "transformers", "accelerate", "tokenizers")
"""Modules the script imports or needs; looked for, never imported, before it starts."""


def missing() -> list[str]:
    """Which of `NEEDS` are not installed."""
    return [name for name in NEEDS if importlib.util.find_spec(name) is None]


def record(run: str, arguments: Sequence[str] = ()) -> launch.Launched:
    """Train in a child process that is recorded to ``run``, as any script would be."""
    return launch.run_command([str(SCRIPT), *arguments], run, "light")
