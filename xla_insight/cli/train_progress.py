"""The progress of a training in a child process: a bar on a terminal, a line now and then elsewhere.

Owns the thread that reads the child's live figures. Leaves the figures to ``runner.child``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from xla_insight.facts import numbers
from xla_insight.runner.workload import ERROR_FILE, LIVE_FILE, read_exchange

BAR_INTERVAL_S = 0.25
LINE_INTERVAL_S = 15.0
WIDE = 110
"""Columns of a terminal from which on there is room for a bar beside the figures."""


@contextmanager
def progress(exchange: Path, stream: TextIO) -> Iterator[None]:
    """Show on ``stream`` what the child writes to ``exchange`` until the block ends."""
    over = threading.Event()
    show = _bar if stream.isatty() else _lines
    thread = threading.Thread(target=show, args=(exchange, stream, over), name="train-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def figures_line(live: dict[str, Any]) -> str:
    """The live figures in words: steps a second, recompiles (compiles, until the warm-up is over), seconds, loss."""
    if live.get("phase"):
        return str(live["phase"])
    rate, again, loss = live.get("steps_per_s"), live.get("recompiles"), live.get("loss")
    parts = [f"{numbers.significant(rate)} steps/s" if rate else ""]
    if "compiles" in live:
        counted = numbers.plural(live["compiles"], "compile")
        parts.append(counted if again is None else numbers.plural(again, "recompile"))
        parts.append(f"{numbers.duration(live['compile_s'])} compiling")
    parts.append(f"loss {numbers.significant(loss)}" if loss is not None and math.isfinite(loss) else "")
    return " · ".join(filter(None, parts))


def _lines(exchange: Path, stream: TextIO, over: threading.Event) -> None:
    said = ""
    while not over.wait(LINE_INTERVAL_S):
        live = read_exchange(exchange, LIVE_FILE)
        line = figures_line(live)
        if live.get("step"):
            line = f"step {live['step']}{'/' + str(live['total']) if live.get('total') else ''} · {line}"
        if line and line != said and not read_exchange(exchange, ERROR_FILE):  # else the last word is said already
            print(line, file=stream, flush=True)
            said = line


def _bar(exchange: Path, stream: TextIO, over: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(file=stream)
    figures = TextColumn("{task.description}", markup=False)
    columns: list[ProgressColumn] = [SpinnerColumn(), MofNCompleteColumn(), figures]
    if console.width >= WIDE:  # else the figures need the whole line
        columns[1:1] = [BarColumn(bar_width=24), TimeRemainingColumn(compact=True)]
    bar = Progress(*columns, console=console, redirect_stdout=False, redirect_stderr=False)
    with bar:
        task = bar.add_task("starting", total=None)
        while not over.wait(BAR_INTERVAL_S):
            live = read_exchange(exchange, LIVE_FILE)
            if live:
                description = figures_line(live) or "starting"
                bar.update(task, description=description, completed=live.get("step", 0), total=live.get("total"))
