"""Where training text comes from: text files, folders and names of `datasets`, or the manual that every Python ships.

Owns finding and reading documents, in order and one at a time. Leaves tokens to ``tokens``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from xla_insight.errors import UsageError

_BLANK_LINE = re.compile(r"\n\s*\n")


def check(sources: Sequence[str]) -> None:
    """Raise UsageError for a source that looks like a file and is none."""
    for source in sources:
        path = Path(source)
        looks_like_a_path = source.startswith((".", "/", "~")) or path.suffix == ".txt"
        if looks_like_a_path and not path.expanduser().exists():
            raise UsageError(f"no text at {source}: there is no such file or folder")


def describe(sources: Sequence[str]) -> str:
    """The sources in words."""
    return ", ".join(sources) or "demo text (the manual that every Python ships)"


def documents(sources: Sequence[str]) -> Iterator[str]:
    """Every document of the sources: a paragraph of a text file, a row of a data set. Raises UsageError."""
    if not sources:
        yield from demo_text()
    for source in sources:
        path = Path(source).expanduser()
        yield from _paragraphs_of(path)


def demo_text() -> Iterator[str]:
    """Every paragraph of Python's own manual that has at least four words."""
    from pydoc_data.topics import topics

    for page in topics.values():
        for part in _BLANK_LINE.split(page):
            paragraph = " ".join(part.split())
            if paragraph.count(" ") >= 3:
                yield paragraph


def _paragraphs_of(path: Path) -> Iterator[str]:
    """Paragraphs of a text file, read line by line."""
    lines: list[str] = []
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    lines.append(line.strip())
                elif lines:
                    yield " ".join(lines)
                    lines = []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the text of {path}: {error}") from error
    if lines:
        yield " ".join(lines)
