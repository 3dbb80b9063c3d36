"""Numbers, durations, shares and places as a person reads them: one wording for sentences, reports and pages.

Three significant digits, a unit always, thousands separated by thin spaces, ``n/a`` for what was not measured and a
tilde before what was inferred. Owns the wording of a value; leaves sentences to ``analysis`` and layout to surfaces.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from xla_insight.facts.report import Site

THIN_SPACE = "\u2009"
NOT_MEASURED = "n/a"
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_INSTALL_FOLDERS = ("/site-packages/", "/dist-packages/")
_NOTEBOOK_CELL = re.compile(r"/ipykernel_\d+/(\d+)\.py$")
"""The file that a notebook's kernel makes up for a cell, named by a hash of its code."""
_NAMES: ContextVar[Mapping[str, str]] = ContextVar("names of files", default={})  # noqa: B039 - never changed in place


def significant(value: float, digits: int = 3) -> str:
    """``value`` with at most ``digits`` significant digits, without trailing zeros, never in exponent form.

    What is no number is ``NaN``, what is beyond all numbers ``inf`` or ``-inf``.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:.0f}"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, decimals)
    text = f"{rounded:,.{decimals}f}".replace(",", THIN_SPACE)
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: float | None) -> str:
    """A whole number with thin spaces between thousands, in full: ``41 234``."""
    return NOT_MEASURED if value is None else f"{round(value):,}".replace(",", THIN_SPACE)


def duration(seconds: float | None, *, inferred: bool = False) -> str:
    """Seconds as ``12 µs``, ``412 ms``, ``3.2 s``, ``2 m 14 s`` or ``3 h 5 m``."""
    if seconds is None:
        return NOT_MEASURED
    return ("~" if inferred else "") + ("-" if seconds < 0 else "") + _positive_duration(abs(seconds))


def _positive_duration(seconds: float) -> str:
    rounded = float(f"{seconds:.3g}")
    if rounded < 60:
        return _below_a_minute(rounded)
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{count(hours)} h {minutes} m"


@lru_cache(maxsize=4096)  # figures write thousands, of which many are the same to three digits
def _below_a_minute(rounded: float) -> str:
    if rounded == 0:
        return "0 s"
    if rounded < 1e-6:
        return f"{significant(rounded * 1e9)} ns"
    if rounded < 1e-3:
        return f"{significant(rounded * 1e6)} µs"
    if rounded < 1:
        return f"{significant(rounded * 1e3)} ms"
    return f"{significant(rounded)} s"


def nanoseconds(value: float | None, *, inferred: bool = False) -> str:
    """Like `duration`, from nanoseconds."""
    return duration(None if value is None else value / 1e9, inferred=inferred)


def age(seconds: float | None) -> str:
    """A long time in the unit that tells most: ``3 d``, ``5 h``, ``12 min``, ``now``."""
    if seconds is None:
        return NOT_MEASURED
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{count(seconds // length_s)} {unit}"
    return "now" if seconds < 1 else f"{count(seconds)} s"


def ago(seconds: float | None) -> str:
    """How long ago something was: ``3 d ago``, ``just now``."""
    text = age(None if seconds is None else max(0.0, seconds))
    return {"now": "just now", NOT_MEASURED: NOT_MEASURED}.get(text, f"{text} ago")


def size(n_bytes: float | None) -> str:
    """Bytes in decimal units: ``1.5 MB``."""
    if n_bytes is None:
        return NOT_MEASURED
    value, unit = float(n_bytes), 0
    while float(f"{value:.3g}") >= 1000 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{significant(value)} {_BYTE_UNITS[unit]}"


def share(part: float | None, whole: float | None, *, inferred: bool = False) -> str:
    """``part`` of ``whole`` in percent: ``38 %``, ``4.2 %``, ``<1 %``; ``n/a`` when either is unknown or whole is 0."""
    if part is None or not whole:
        return NOT_MEASURED
    return percent(100 * part / whole, inferred=inferred)


def percent(value: float | None, *, inferred: bool = False) -> str:
    """A percentage (0 to 100) as text."""
    if value is None:
        return NOT_MEASURED
    mark = "~" if inferred else ""
    if value == 0:
        return f"{mark}0 %"
    if 0 < value < 1:
        return f"<{mark}1 %"
    return f"{mark}{significant(value, 2)} %" if value < 99.5 else f"{mark}{value:.0f} %"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """``1 read``, ``412 reads``; ``many`` for nouns that do not take an s."""
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def short_hash(graph: str | None, digits: int = 6) -> str:
    """The first hex digits of a graph's hash; a graph named after its HLO keeps the word before them."""
    if not graph:
        return NOT_MEASURED
    word = "hlo-" if graph.startswith("hlo-") else ""
    return word + graph.removeprefix("0x").removeprefix("hlo-")[:digits]


def short_path(path: str, limit: int = 40) -> str:
    """A path shortened in the middle: installed files from their package on, others by their last folders.

    ``/usr/lib/python3/site-packages/transformers/models/bert/modeling_bert.py`` -> ``transformers/…/modeling_bert.py``.
    Files that would read the same are told apart by more of their folders, see `telling_apart`.
    """
    return _NAMES.get().get(path) or _shortened(path, 1, limit)


def _shortened(path: str, tail: int, limit: int = 40) -> str:
    """The last ``tail`` parts of a path, and before them the package of an installed file."""
    plain = path.replace("\\", "/")
    for folder in _INSTALL_FOLDERS:
        if folder in plain:
            package, *rest = plain.rsplit(folder, 1)[1].split("/")
            left_out = ["…"] if len(rest) > tail else []
            return "/".join([package, *left_out, *rest[-tail:]])
    if len(plain) <= limit and not plain.startswith("/"):
        return plain
    if cell := _NOTEBOOK_CELL.search(plain):
        return f"notebook cell {cell[1]}"
    return "/".join(plain.rstrip("/").split("/")[-tail:])


def same_names(files: Iterable[str]) -> dict[str, str]:
    """Longer names for those of ``files`` that `short_path` would call the same although they are not; most often none.

    ``/me/a/train.py`` and ``/me/b/train.py`` -> ``a/train.py`` and ``b/train.py``.
    """
    alike: dict[str, set[str]] = defaultdict(set)
    for file in files:
        alike[_shortened(file, 1)].add(file)
    names: dict[str, str] = {}
    for group in alike.values():
        # A relative name may be one of the absolute ones: the same file as the interpreter was given it.
        distinct = {file for file in group if not any(other.endswith(f"/{file}") for other in group)}
        most = max(file.count("/") for file in group)
        if len(distinct) > 1:
            told = next(
                (told for tail in range(2, most + 2)
                 if len(set((told := {file: _shortened(file, tail) for file in distinct}).values())) == len(distinct)),
                {file: file for file in distinct},
            )  # fmt: skip
            names.update(told)
    return names


@contextmanager
def telling_apart(names: Mapping[str, str]) -> Iterator[None]:
    """Within the block, files are called by these ``names`` (of `same_names`) where they have one."""
    token = _NAMES.set(names)
    try:
        yield
    finally:
        _NAMES.reset(token)


def tell_apart(names: Mapping[str, str]) -> None:
    """Like `telling_apart`, from here on in this thread: for servers, each of whose answers is about one run."""
    _NAMES.set(names)


def place(file: str | None, line: int | None, limit: int = 40) -> str:
    """A line of code: ``train.py:31``, ``transformers/…/masking_utils.py:354``."""
    if not file:
        return NOT_MEASURED
    return short_path(file, limit) if line is None else f"{short_path(file, limit)}:{line}"


def where(site: Site | None, user_site: Site | None) -> str:
    """A place in words: the site, and the user's own line behind it when that is another."""
    if site is None:
        return "an unknown place"
    text = place(site.file, site.line)
    if user_site is None or (user_site.file, user_site.line) == (site.file, site.line):
        return text
    return f"{text} (called from {place(user_site.file, user_site.line)})"
