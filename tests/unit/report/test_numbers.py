"""Numbers as people read them: three significant digits, a unit always, never a fake zero."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_insight.facts.numbers import same_names, telling_apart
from xla_insight.facts.report import Site
from xla_insight.report import numbers


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "n/a"),
        (0, "0 s"),
        (1.23456e-5, "12.3 µs"),
        (2e-8, "20 ns"),
        (0.412, "412 ms"),
        (0.9996, "1 s"),
        (3.2, "3.2 s"),
        (12.345, "12.3 s"),
        (59.97, "1 m 0 s"),
        (134, "2 m 14 s"),
        (3599.9, "1 h 0 m"),
        (11_100, "3 h 5 m"),
        (-2.5, "-2.5 s"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert numbers.duration(seconds) == text


def test_what_was_inferred_has_a_tilde() -> None:
    assert numbers.duration(0.5, inferred=True) == "~500 ms"
    assert numbers.share(31, 100, inferred=True) == "~31 %"
    assert numbers.share(None, 100, inferred=True) == "n/a" and numbers.share(0.1, 100, inferred=True) == "<~1 %"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(38, 100, "38 %"), (4.23, 100, "4.2 %"), (0.2, 100, "<1 %"), (0, 100, "0 %"), (99.7, 100, "100 %"), (1, 0, "n/a")],
)
def test_shares(part: float, whole: float, text: str) -> None:
    assert numbers.share(part, whole) == text


def test_thousands_are_separated_by_thin_spaces() -> None:
    assert numbers.count(41234) == "41\u2009234"
    assert numbers.plural(1, "read") == "1 read" and numbers.plural(0, "read") == "0 reads"
    assert numbers.plural(2, "entry", "entries") == "2 entries"
    assert numbers.count(None) == "n/a"


def test_sizes() -> None:
    assert [numbers.size(n) for n in (None, 0, 999, 999.9, 1_499_999)] == ["n/a", "0 B", "999 B", "1 kB", "1.5 MB"]


@settings(deadline=None)
@given(st.floats(min_value=1e-9, max_value=1e9))
def test_three_significant_digits_are_within_half_a_percent(value: float) -> None:
    text = numbers.significant(value).replace(numbers.THIN_SPACE, "")
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=0.0051)


def test_what_is_no_number_is_said() -> None:
    assert [numbers.significant(float(word)) for word in ("nan", "inf", "-inf")] == ["NaN", "inf", "-inf"]


def test_paths_are_shortened_in_the_middle() -> None:
    deep = "/usr/lib/python3.11/site-packages/transformers/models/bert/modeling_bert.py"
    assert numbers.place(deep, 354) == "transformers/…/modeling_bert.py:354"
    assert numbers.place("/x/site-packages/transformers/masking_utils.py", 1) == "transformers/masking_utils.py:1"
    assert numbers.place("/home/me/project/train.py", 31) == "train.py:31"
    assert numbers.place("train.py", None) == "train.py" and numbers.place(None, 3) == "n/a"


def test_files_of_one_name_are_told_apart() -> None:
    installed = "/x/site-packages/transformers"
    files = [
        "/me/a/train.py", "/me/b/train.py", "/me/model.py", "model.py", f"{installed}/models/bert/modeling.py",
        f"{installed}/models/gpt2/modeling.py", f"{installed}/modeling.py", "/x/run/a/loop.py", "/y/run/a/loop.py",
    ]  # fmt: skip
    names = same_names(files)
    assert names == {
        "/me/a/train.py": "a/train.py", "/me/b/train.py": "b/train.py",
        f"{installed}/models/bert/modeling.py": "transformers/…/bert/modeling.py",
        f"{installed}/models/gpt2/modeling.py": "transformers/…/gpt2/modeling.py",
        "/x/run/a/loop.py": "x/run/a/loop.py", "/y/run/a/loop.py": "y/run/a/loop.py",
    }  # fmt: skip
    with telling_apart(names):
        assert numbers.place("/me/a/train.py", 3) == "a/train.py:3" and numbers.place("/me/model.py", 3) == "model.py:3"
    assert numbers.place("/me/a/train.py", 3) == "train.py:3"


def test_where_names_the_users_line_only_when_it_is_another() -> None:
    library, user = Site("/x/site-packages/a/b.py", 1, "f"), Site("/home/me/train.py", 9, "g")
    assert numbers.where(library, user) == "a/b.py:1 (called from train.py:9)"
    assert numbers.where(user, user) == "train.py:9"
    assert numbers.where(None, None) == "an unknown place"


def test_short_hashes() -> None:
    assert numbers.short_hash("e5b3f1907d") == "e5b3f1" and numbers.short_hash("0xe5b3f1907d") == "e5b3f1"
    assert numbers.short_hash(None) == "n/a"


def test_a_cell_of_a_notebook_is_called_one() -> None:
    assert numbers.place("/tmp/ipykernel_11306/2656039418.py", 2) == "notebook cell 2656039418:2"
    assert numbers.place("/tmp/ipykernel_11306/train.py", 2) == "train.py:2"
