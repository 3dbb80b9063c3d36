"""The child process of a workload: its options, its live figures, its result, and how it ends.

Owns what every training module shares: one line for a user's error, a usable run after Ctrl-C, the figures of the
progress bar. Leaves showing them to the command line. Imports no framework before the workload does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from xla_insight.errors import InsightError, UsageError
from xla_insight.runner.workload import (
    ERROR_FILE,
    EXCHANGE_VARIABLE,
    LIVE_FILE,
    RESULT_FILE,
    Workload,
    write_exchange,
)

FAILED, INTERRUPTED = 1, 130
"""Exit status of a training that failed on its way, and after Ctrl-C, as a shell gives it."""
WARM_UP_STEPS = 3
"""Steps after which nothing new should compile: the first makes optimizer state, the second has it as input, and the
Trainer cuts the graph of a step only when it fetches the batch of the next."""
_WRITE_INTERVAL_S = 0.25
_FULL_BYTES = 1 << 16
"""With less room than this a disk is full: what could not be written was larger."""

Options = TypeVar("Options", bound=Workload)


class Live:
    """Figures for the progress bar, and the wish to stop. Only the first process of several writes."""

    def __init__(self, exchange: str | None) -> None:
        self._folder = Path(exchange) if exchange and os.environ.get("RANK", "0") == "0" else None
        self._written_s = 0.0
        self._figures: dict[str, Any] = {}
        self._warm_up_compiles: int | None = None
        self._first: int | None = None
        self._warm: tuple[int, float] | None = None
        self.training = False
        self.stopping = False

    def phase(self, text: str) -> None:
        """What is done now that is not a step: reading text, tokenizing, saving."""
        self._write({"phase": text})

    def step(self, number: int, total: int | None, loss: float | None = None) -> None:
        """Step ``number`` (from 1; after a resume the first is higher) of ``total`` has ended."""
        if self._first is None:
            self._first = number
        if self._warm is None and number - self._first + 1 >= WARM_UP_STEPS:
            self._warm, self._warm_up_compiles = (number, time.monotonic()), compiled()[0]
        self._figures.update({"step": number, "total": total})
        if loss is not None:
            self._figures["loss"] = loss
        if time.monotonic() - self._written_s < _WRITE_INTERVAL_S and number != total:
            return
        count, seconds = compiled()
        again = None if self._warm_up_compiles is None else count - self._warm_up_compiles
        rate = None
        if self._warm is not None and number > self._warm[0]:
            rate = (number - self._warm[0]) / max(1e-9, time.monotonic() - self._warm[1])
        self._write({"phase": "", "compiles": count, "recompiles": again, "compile_s": seconds, "steps_per_s": rate})

    def result(self, facts: dict[str, Any]) -> None:
        """Leave the result for the command line."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                write_exchange(self._folder, RESULT_FILE, facts)

    def failed(self, status: int) -> None:
        """Leave for the command line that why the training ended has been said."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                write_exchange(self._folder, ERROR_FILE, {"status": status})

    def _write(self, figures: dict[str, Any]) -> None:
        self._figures.update(figures)
        self._written_s = time.monotonic()
        if self._folder is not None:
            with contextlib.suppress(OSError):  # a full disk costs the bar, not the training
                write_exchange(self._folder, LIVE_FILE, self._figures)


def compiled() -> tuple[int, float]:
    """Compiles of this process so far, and the seconds they took. (0, 0.0) before the framework is there."""
    if "torch_xla" not in sys.modules:
        return 0, 0.0
    from torch_xla.debug import metrics

    found = metrics.metric_data("CompileTime")
    return (int(found[0]), float(found[1]) / 1e9) if found else (0, 0.0)


def require_device() -> Any:
    """The XLA device. Raises UsageError where there is none."""
    import torch_xla

    try:
        device = torch_xla.device()
        torch_xla.runtime.global_runtime_device_count()  # under SPMD a device is virtual, and asks for no real one
        return device
    except (OSError, RuntimeError) as error:
        wanted = os.environ.get("PJRT_DEVICE", "any")
        reason = str(error).strip().split("\n")[0]
        raise UsageError(f"no XLA device (PJRT_DEVICE={wanted}): {reason}") from error


def run(kind: type[Options], train: Callable[[Options, Live], dict[str, Any]]) -> int:
    """Train with the options given as the only argument; returns the exit status.

    What ``train`` returns is the result. An InsightError is said in one line (2), and so is a full disk (1); Ctrl-C
    while ``live.training`` asks the training to end after its step (``live.stopping``), a second one ends it at once.
    """
    live = Live(os.environ.get(EXCHANGE_VARIABLE))
    _end_after_step(live)
    options: Options | None = None
    try:
        options = kind.from_json(sys.argv[1] if len(sys.argv) > 1 else "{}")
        options.check()
        result = train(options, live)
        live.result({**result, "interrupted": live.stopping})
    except InsightError as error:
        print(f"xla-insight: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        live.failed(error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        live.failed(INTERRUPTED)
        return INTERRUPTED
    except Exception as error:
        folder = options.save_to if options is not None else ""
        if not folder or not is_full_disk(error, folder):
            raise
        print(f"xla-insight: there is no space left to save to {folder}", file=sys.stderr, flush=True)
        return FAILED
    return INTERRUPTED if live.stopping else 0


def is_full_disk(error: BaseException, folder: str) -> bool:
    """Whether an error comes from a full disk. The libraries that write have errors of their own for it, and some say
    nothing of a disk; then that of ``folder`` is looked at."""
    chain: BaseException | None = error
    while chain is not None:
        if getattr(chain, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(chain):
            return True
        chain = chain.__cause__ or chain.__context__
    try:
        return shutil.disk_usage(folder).free < _FULL_BYTES
    except OSError:
        return False


def _end_after_step(live: Live) -> None:
    """Make the first Ctrl-C during training a wish."""

    def stop(_number: int, _frame: Any) -> None:
        if live.stopping or not live.training:
            raise KeyboardInterrupt
        live.stopping = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
