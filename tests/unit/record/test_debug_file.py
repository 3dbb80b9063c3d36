"""The growing, rotated debug file: each block is handed out once, in the hook it was written in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_insight.record import debug_file
from xla_insight.record.blocks import Block
from xla_insight.record.debug_file import DebugFile

from .test_blocks import block_text


@pytest.fixture
def file() -> Iterator[DebugFile]:
    opened = DebugFile()
    yield opened
    opened.remove()


def write(file: DebugFile, number: int) -> None:
    with open(file.path, "a") as stream:
        stream.write(block_text("Execution", graph=f"{number:032x}"))


def numbers(found: list[Block]) -> list[int]:
    return [int(block.graph or "", 16) for block in found]


def test_blocks_between_two_positions(file: DebugFile) -> None:
    before = file.position()
    write(file, 1)
    write(file, 2)
    middle = file.position()
    write(file, 3)
    after = file.position()
    file.poll()
    assert file.take(before) == []
    assert numbers(file.take(middle)) == [1, 2]
    assert numbers(file.take(after)) == [3]


def test_rotation_loses_nothing_and_keeps_order(file: DebugFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_file, "ROTATE_BYTES", 3000)
    positions = []
    taken: list[int] = []
    for number in range(40):
        positions.append(file.position())
        write(file, number)
        positions.append(file.position())
        if number % 3 == 0:
            file.poll()
        if number % 7 == 6:
            for position in positions:
                taken += numbers(file.take(position))
            positions.clear()
    file.poll()
    for position in positions:
        taken += numbers(file.take(position))
    assert taken == list(range(40))
    size = os.stat(file.path).st_size if os.path.exists(file.path) else 0
    assert size < 12 * 1200, "the file must not grow for ever"


def test_a_half_written_block_waits(file: DebugFile) -> None:
    text = block_text("Execution", graph="a" * 32)
    Path(file.path).write_text(text[:200])
    file.poll()
    with open(file.path, "a") as stream:
        stream.write(text[200:])
    end = file.position()
    file.poll()
    assert len(file.take(end)) == 1


def test_after_stop_the_framework_writes_to_nowhere(file: DebugFile) -> None:
    write(file, 1)
    file.stop()
    write(file, 2)
    assert os.path.islink(file.path)
    assert os.readlink(file.path) == os.devnull
    file.start()
    write(file, 3)
    end = file.position()
    file.poll()
    assert numbers(file.take(end)) == [3]


def test_what_runs_between_preparing_and_recording_is_not_read(file: DebugFile) -> None:
    file.leave()
    write(file, 1)
    file.start()
    write(file, 2)
    file.poll()
    assert numbers(file.take(file.position())) == [2]


def test_a_file_of_the_users_own_is_read_from_now_on_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(block_text("Execution", graph="1" * 32))
    theirs = DebugFile(str(path))
    with open(path, "a") as stream:
        stream.write(block_text("Execution", graph="2" * 32))
    theirs.poll()
    assert [block.graph for block in theirs.take(theirs.position())] == ["2" * 32]
    theirs.stop()
    theirs.remove()
    assert path.exists()
    assert not path.is_symlink()
