"""Call stacks as small integers: captured in a few microseconds on the training thread, described later elsewhere.

Owns which frame counts as the *site* (innermost outside the framework and the standard library) and which as the
*user site* (innermost in the user's own files). Frames of this package are never part of a stack.
"""

from __future__ import annotations

import itertools
import json
import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import NamedTuple

MAX_DEPTH = 64
MAX_SAMPLED = 20_000
"""Different places of samples that are kept in memory; what is seen after that is not recorded."""

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FRAMEWORKS = ("torch", "torch_xla", "functorch", "_dynamo")


class Place(NamedTuple):
    """One frame: absolute file, line, function."""

    file: str
    line: int
    function: str


def _library_roots() -> tuple[str, ...]:
    found = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    found.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    found.add(site.getusersitepackages())
    return tuple(sorted({os.path.realpath(path) + os.sep for path in found} | {path + os.sep for path in found}))


def _standard_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)}
    return tuple(sorted({os.path.realpath(path) + os.sep for path in found} | {path + os.sep for path in found}))


LIBRARY_ROOTS = _library_roots()
STANDARD_ROOTS = _standard_roots()


def is_ours(file: str) -> bool:
    """Whether the file belongs to the recorder itself."""
    return file.startswith(_HERE)


def is_library(file: str) -> bool:
    """Whether the file is installed code: site-packages, dist-packages or the standard library; or generated code."""
    return file.startswith((*LIBRARY_ROOTS, *STANDARD_ROOTS)) or _is_generated(file)


def _is_generated(file: str) -> bool:
    """Code that no person wrote there: dynamo's `<eval_with_key>`, `<frozen runpy>`, dataclasses' `<string>`."""
    return file.startswith("<") and not file.startswith(("<ipython", "<stdin"))


def is_framework(file: str) -> bool:
    """Whether the file belongs to the framework, to thin wrappers around it, or to the standard library."""
    for root in LIBRARY_ROOTS:
        if file.startswith(root):
            first = file[len(root) :].split(os.sep, 1)[0]
            # `typing_extensions.deprecated` wraps mark_step: its frame says nothing.
            return first in _FRAMEWORKS or first == "typing_extensions.py"
    return file.startswith(STANDARD_ROOTS) or _is_generated(file)


def _main_file() -> str | None:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(main) if isinstance(main, str) else None


def describe(stack: list[Place]) -> str:
    """The JSON text of a SITE event (see ``facts.events.Kind.SITE``) for a stack, innermost frame first."""
    main = _main_file()
    place = next((frame for frame in stack if not is_framework(frame.file) or frame.file == main), None)
    user = next((frame for frame in stack if frame.file == main or not is_library(frame.file)), None)
    place = place or user or (stack[0] if stack else None)

    def source(frame: Place | None) -> str:
        return linecache.getline(frame.file, frame.line).strip()[:300] if frame else ""

    return json.dumps(
        {
            "site": place,
            "user_site": user,
            "stack": stack,
            "source": source(place),
            "user_source": source(user),
        }
    )


def named_places(description: str) -> list[tuple[str, int]]:
    """(file, line) of the site and the user site of a text made by ``describe``."""
    described = json.loads(description)
    return [(place[0], place[1]) for key in ("site", "user_site") if (place := described[key])]


def _place(code: CodeType, line: int) -> Place:
    file = code.co_filename
    return Place(file if file.startswith("<") else os.path.abspath(file), line, code.co_name)


class Stacks:
    """Interns stacks. ``capture`` runs on the training thread; all else on the drain thread."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int, ...], int] = {}
        self._text_ids: dict[tuple[Place, ...], int] = {}
        self._kept: dict[int, CodeType] = {}
        self._pending: list[tuple[int, list[tuple[CodeType, int]] | list[Place]]] = []
        self._sorts: dict[int, tuple[bool, bool]] = {}
        self._sampled: dict[tuple[int, ...], int] = {}
        self._numbers = itertools.count()  # asked by several threads

    def capture(self, frame: FrameType | None) -> int:
        """Id of the stack that starts at ``frame``. Keys are ids of code objects, which are kept alive for that."""
        key: list[int] = []
        walked = frame
        depth = 0
        while walked is not None and depth < MAX_DEPTH:
            key.append(id(walked.f_code))
            key.append(walked.f_lineno)
            walked = walked.f_back
            depth += 1
        known = self._ids.get(tuple(key))
        return self._intern(tuple(key), frame) if known is None else known

    def _intern(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        raw: list[tuple[CodeType, int]] = []
        walked = frame
        while walked is not None and len(raw) < MAX_DEPTH:
            self._kept[id(walked.f_code)] = walked.f_code
            raw.append((walked.f_code, walked.f_lineno))
            walked = walked.f_back
        identity = self._ids[key] = next(self._numbers)
        self._pending.append((identity, raw))
        return identity

    def intern_sample(self, stack: Sequence[tuple[CodeType, int | None]]) -> int | None:
        """Id of the two places of a stack that matter (innermost frame first); None when there is none or too many.

        Of the whole stack there would be a new one in nearly every sample.
        """
        places: list[tuple[CodeType, int]] = []
        for code, line in stack:
            of_framework, of_library = self._sort(code)
            if not of_library or not (of_framework or places):
                places.append((code, line or 0))
            if not of_library:
                break
        key = tuple(number for code, line in places for number in (id(code), line))
        known = self._sampled.get(key)
        if known is None and places and len(self._sampled) < MAX_SAMPLED:
            known = self._sampled[key] = next(self._numbers)
            self._pending.append((known, places))
        return known

    def _sort(self, code: CodeType) -> tuple[bool, bool]:
        """Whether code belongs to the framework or the recorder, and whether to any library."""
        found = self._sorts.get(id(code))
        if found is None:
            self._kept[id(code)] = code
            file = os.path.abspath(code.co_filename) if not code.co_filename.startswith("<") else code.co_filename
            main = file == _main_file()
            ours = is_ours(file)
            found = (ours or (is_framework(file) and not main), ours or (is_library(file) and not main))
            self._sorts[id(code)] = found
        return found

    def intern_places(self, places: list[Place]) -> int:
        """Id of a stack given as text, innermost first (frames that the framework printed)."""
        key = tuple(places)
        known = self._text_ids.get(key)
        if known is None:
            known = self._text_ids[key] = next(self._numbers)
            self._pending.append((known, list(places)))
        return known

    def new_sites(self) -> list[tuple[int, str]]:
        """(id, JSON) of every stack seen since the last call."""
        pending, self._pending = self._pending, []
        described = []
        for identity, raw in pending:
            places = [item if isinstance(item, Place) else _place(*item) for item in raw]
            described.append((identity, describe([place for place in places if not is_ours(place.file)])))
        return described
