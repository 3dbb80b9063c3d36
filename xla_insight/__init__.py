"""A training run: recorded (`record`), kept (`store`), concluded on (`analysis`), shown (`report`, `cli`, the app).

Public names are opened on first use: importing this package loads neither torch nor pandas and hooks nothing.

- ``prepare()``: at the top of a script, sets what must be set before the XLA runtime starts.
- ``profile(out)``: ``with xi.profile("runs/a") as prof: trainer.train()``; ``prof.step()`` marks a step of an own loop.
- ``TrainerCallback(out)``: the same for a Hugging Face ``Trainer``, passed in its ``callbacks``.
- ``open_run(path)``: a recorded run with its tables as pandas frames.
- ``analyze(path)``: all that the tool concludes about a run, as one record.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xla_insight.analysis import analyze as analyze
    from xla_insight.record.callback import TrainerCallback as TrainerCallback
    from xla_insight.record.session import prepare as prepare
    from xla_insight.record.session import profile as profile
    from xla_insight.store.reader import open_run as open_run

_HOMES = {
    "prepare": "xla_insight.record.session",
    "profile": "xla_insight.record.session",
    "TrainerCallback": "xla_insight.record.callback",
    "open_run": "xla_insight.store.reader",
    "analyze": "xla_insight.analysis",
}
"""Public name -> module that defines it."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
