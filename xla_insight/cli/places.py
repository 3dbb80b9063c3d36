"""Where a verb may record to: whether a place is free, and a free name beside one that is not."""

from __future__ import annotations

from xla_insight.errors import UsageError


def is_taken(place: str) -> bool:
    """Whether anything is at ``place``, a folder or an fsspec URL; an empty folder is free.

    Raises UsageError when the place cannot be reached.
    """
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(place)
        if not filesystem.exists(path):
            return False
        return not filesystem.isdir(path) or bool(filesystem.ls(path, detail=False))
    except (ImportError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise UsageError(f"cannot record to {place}: {reason}") from error


def free_place(wanted: str) -> str:
    """``wanted``, or when something is there already the first of ``wanted-2``, ``wanted-3`` … that is free."""
    place, number = wanted, 2
    while is_taken(place):
        place = f"{wanted.rstrip('/')}-{number}"
        number += 1
    return place
