"""Runs a user's command so that it and its child processes are recorded: what ``xla-insight run`` does.

Owns the child's environment. Python itself loads ``startup/sitecustomize.py`` in each Python process that inherits it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xla_insight.errors import UsageError
from xla_insight.record import torch_xla as framework
from xla_insight.record.autostart import PLACES_VARIABLE
from xla_insight.record.session import GROUP_VARIABLE, LEVEL_VARIABLE, RUN_VARIABLE, WINDOWS_VARIABLE

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
STARTUP = Path(__file__).resolve().parent / "startup"


@dataclass(frozen=True, slots=True)
class Launched:
    """How a command ended: its exit status (128 + signal when killed), and where its processes said they recorded to.

    ``places`` is the place asked for, as it was written, unless a process could not write there; it is empty when none
    recorded.
    """

    status: int
    places: tuple[str, ...]


def command_line(words: list[str]) -> list[str]:
    """The command for ``words``: a script, ``-m module``, or any program (``torchrun …``). Raises UsageError."""
    if not words:
        raise UsageError("nothing to run: give a script, as in `xla-insight run train.py`")
    if words[0] in ("-m", "-c"):
        return [sys.executable, *words]
    if words[0].endswith(".py") or (Path(words[0]).is_file() and not os.access(words[0], os.X_OK)):
        if not Path(words[0]).is_file():
            raise UsageError(f"{words[0]} is not a file; give the path of the script to run")
        return [sys.executable, *words]
    if Path(words[0]).is_dir():
        raise UsageError(f"{words[0]} is a folder; give the path of the script to run")
    return words


def environment(run: str, level: str, inherited: Mapping[str, str], windows: str | None = None) -> dict[str, str]:
    """The environment in which every Python child records to ``run``; ``windows``: see ``window_plan``."""
    asked = {} if windows is None else {WINDOWS_VARIABLE: windows}
    paths = [str(STARTUP), *(part for part in inherited.get("PYTHONPATH", "").split(os.pathsep) if part)]
    return {
        **inherited,
        RUN_VARIABLE: run if "://" in run else os.path.abspath(run),
        GROUP_VARIABLE: uuid.uuid4().hex,
        LEVEL_VARIABLE: level,
        **asked,
        "XLA_INSIGHT_FRAMEWORK": framework.MODULE,
        "PYTHONPATH": os.pathsep.join(paths),
    }


def run_command(
    words: list[str], run: str, level: str, windows: str | None = None, inherited: Mapping[str, str] | None = None
) -> Launched:
    """Run to the end. Raises UsageError.

    ``inherited`` is the environment to start from, by default our own. Signals sent to us are passed on, so that a
    batch system that knows only our process reaches the training. Ctrl-C at a terminal reaches the child by itself.
    """
    command = command_line(words)
    children: list[subprocess.Popen[bytes]] = []
    told, places = tempfile.mkstemp(prefix="xla-insight-places-")

    def forward(number: int, _frame: object) -> None:
        if children and not (number == signal.SIGINT and sys.stdin is not None and sys.stdin.isatty()):
            children[0].send_signal(number)

    previous = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        try:
            surroundings = environment(run, level, inherited or os.environ, windows) | {PLACES_VARIABLE: places}
            children.append(subprocess.Popen(command, env=surroundings))
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror or error}") from error
        status = children[0].wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        with os.fdopen(told, encoding="utf-8", errors="replace") as file:
            lines = dict.fromkeys(line for line in file.read().split("\n") if line)
        os.unlink(places)
    recorded = tuple(run if _same_place(run, line) else line for line in lines)
    return Launched(status if status >= 0 else 128 - status, recorded)


def _same_place(asked: str, place: str) -> bool:
    return asked == place if "://" in asked else os.path.abspath(asked) == place
