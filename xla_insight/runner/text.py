"""Where training text comes from: text files, folders and names of `datasets`, or the manual that every Python ships.

Owns finding and reading documents, in order and one at a time. Leaves tokens to ``tokens``. Standard library only;
`datasets` is imported when a source needs it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xla_insight.errors import MissingDependencyError, TrainingDataError, UsageError
from xla_insight.runner import hub

DEMO = "demo text (the manual that every Python ships)"
_BLANK_LINE = re.compile(r"\n\s*\n")
HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?(:[\w.-]+)?")
_SAVED_DATA_SET = ("state.json", "dataset_dict.json")


def check(sources: Sequence[str]) -> None:
    """Raise UsageError for a source that can be no name of a data set and is no file or folder."""
    for source in sources:
        if not source.strip():
            raise UsageError("--data needs the name of a file, a folder or a data set")
        if not _path(source).exists() and (source.endswith(".txt") or not HUB_NAME.fullmatch(source)):
            raise UsageError(f"no text at {source}: there is no such file or folder")


def describe(sources: Sequence[str]) -> str:
    """The sources in words."""
    return ", ".join(sources) or DEMO


def is_local(sources: Sequence[str]) -> bool:
    """Whether all of the text is on this machine."""
    return all(_path(source).exists() for source in sources)


def documents(sources: Sequence[str]) -> Iterator[str]:
    """Every document of the sources: a paragraph of a text file, a row of a data set. Raises InsightError."""
    if not sources:
        yield from demo_text()
    for source in sources:
        path = _path(source)
        if path.is_file():
            yield from _paragraphs_of(path)
        elif path.is_dir() and not any((path / name).exists() for name in _SAVED_DATA_SET):
            files = sorted(path.rglob("*.txt"))
            yield from (text for file in files for text in _paragraphs_of(file)) if files else _rows_of(source)
        else:
            yield from _rows_of(source)


def demo_text() -> Iterator[str]:
    """Every paragraph of Python's own manual that has at least four words."""
    from pydoc_data.topics import topics

    for page in topics.values():
        for part in _BLANK_LINE.split(page):
            paragraph = " ".join(part.split())
            if paragraph.count(" ") >= 3:
                yield paragraph


def _path(source: str) -> Path:
    return Path(source).expanduser()


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
        raise TrainingDataError(f"cannot read the text of {path}: {error}") from error
    if lines:
        yield " ".join(lines)


def _rows_of(source: str) -> Iterator[str]:
    """The text of every row of a data set: saved to a folder, a folder of data files, or on the hub."""
    try:
        import datasets
    except ImportError as error:
        raise MissingDependencyError(f"to read {source}, install datasets: pip install datasets") from error
    path = _path(source)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it warns of each retry; the failure is said once
    try:
        datasets.disable_progress_bars()
        if any((path / name).exists() for name in _SAVED_DATA_SET):
            found: Any = datasets.load_from_disk(str(path))
        elif path.is_dir():
            found = datasets.load_dataset(str(path), split="train")
        else:
            name, _, configuration = source.partition(":")
            # What was downloaded earlier can be read without the hub, but not streamed.
            streaming = hub.UNREACHABLE not in os.environ
            found = datasets.load_dataset(name, configuration or None, split="train", streaming=streaming)
        rows = found["train"] if isinstance(found, dict) else found
        for row in rows:
            text = _text_of(row, source)
            if text.strip():
                yield text
    except (OSError, ValueError, RuntimeError, KeyError) as error:  # the library's own errors derive from these
        reason = hub.reason_of(error, {} if path.exists() else os.environ)
        raise TrainingDataError(f"cannot read the data set {source}: {reason}") from error


def _text_of(row: dict[str, Any], source: str) -> str:
    """The column `text`, or the only one that holds text."""
    texts = {name: value for name, value in row.items() if isinstance(value, str)}
    if "text" in texts:
        return texts["text"]
    if len(texts) == 1:
        return next(iter(texts.values()))
    raise TrainingDataError(f"the data set {source} has no column named text (but {', '.join(row) or 'none at all'})")
