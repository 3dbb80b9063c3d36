"""What shows only in hindsight: patterns of graphs, and sizes that follow a number that was read."""

from __future__ import annotations

import pytest

from xla_insight.analysis.recompiles.series import _follow_reads, _is_pattern


@pytest.mark.parametrize(
    ("sequence", "is_pattern"),
    [
        ("AAABAAABAAAB", True),  # a penalty every four steps
        ("ABBCABBCABBC", True),  # accumulation: first, middle, update
        ("XAAABAAABAAAB", True),  # after a start-up graph
        ("AAAAABBBBB", True),  # a layer unfrozen
        ("AAABBBCCC", True),
        ("AABABBBABAAB", False),  # a random choice
        ("ABABBABAAB", False),
        ("AAAAA", False),
        ("AAAAAB", False),  # used once: not known to come again
        ("ABCDEFGH", False),
        ("", False),
    ],
)
def test_modes_are_patterns(sequence: str, is_pattern: bool) -> None:
    assert _is_pattern(list(sequence)) is is_pattern


def test_sizes_that_follow_what_was_read() -> None:
    def details(size: int, *reads: int) -> dict[str, tuple[int, ...]]:
        return {"sizes": (size, 8), "reads": reads}

    assert _follow_reads([details(3, 1), details(6, 4, 9), details(7, 5)])
    assert not _follow_reads([details(3, 1), details(6, 4)]), "two may agree by chance"
    assert not _follow_reads([details(3, 1), details(6, 4), details(9, 2)])
    assert not _follow_reads([details(3, 1), details(3, 1), details(3, 1)]), "nothing varied"
