"""``TrainerCallback``: recording as a callback of the Hugging Face Trainer.

Owns the callback class only. Importing this module imports transformers.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

from transformers import TrainerCallback as _Base

from xla_insight.record.session import prepare, profile
from xla_insight.record.window_plan import Asked


class TrainerCallback(_Base):  # type: ignore[misc]
    """``Trainer(..., callbacks=[xi.TrainerCallback("runs/a")])`` records each ``train()`` to the folder or URL ``out``.

    ``level`` and ``windows`` as in ``profile``. A second ``train()`` of the same trainer adds a second part
    to the same run.
    """

    def __init__(self, out: str | os.PathLike[str], level: str | None = None, windows: Asked | None = None) -> None:
        prepare()
        self._out = os.fspath(out)
        self._level = level
        self._windows = windows
        self._group = uuid.uuid4().hex
        self._profile: profile | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to record."""
        if self._profile is None:
            self._profile = profile(self._out, level=self._level, group=self._group, windows=self._windows)
            self._profile.__enter__()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the recording."""
        if self._profile is not None:
            finished, self._profile = self._profile, None
            self._out = finished.path
            finished.__exit__(None, None, None)
