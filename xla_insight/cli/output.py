"""Writing to stdout: in any encoding, and quietly when the reader has gone away."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import typer

BROKEN_PIPE_EXIT_CODE = 141
"""As a shell reports a program that SIGPIPE ended."""
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What writing fails with when there is no room: said in one line, see ``main``."""


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Stdout for results. A closed pipe ends the program without a message; unencodable characters become ``?``."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from None


def tell_damage(*damages: str) -> None:
    """What could not be read of a run, one line each on stderr: results that lack it look like those of a whole run."""
    for damage in filter(None, damages):
        text = "".join(char if char.isprintable() else "\ufffd" for char in damage)
        print(f"xla-insight: {text}", file=sys.stderr)


def discard_output() -> None:
    """Drop what stdout still holds: the interpreter flushes it once more at exit, and that must not fail again."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
