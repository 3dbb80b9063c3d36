"""Writing to stdout: in any encoding, and quietly when the reader has gone away."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import typer

BROKEN_PIPE_EXIT_CODE = 141
"""As a shell reports a program that SIGPIPE ended."""


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
        # The interpreter flushes stdout once more at exit; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from None
