"""The files of a cache folder, here or at an fsspec URL: listed, looked into, and deleted one by one.

Owns the rule that nothing outside the folder is ever touched: links are neither followed nor deleted, a file is deleted
only when it still is the regular file that was listed, and names come from the folder itself. Leaves which files make
an entry to ``layouts``.
"""

from __future__ import annotations

import contextlib
import os
import stat
import weakref
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from xla_insight.errors import InsightError, UsageError

LOCAL_URL = "file://"
_KIND, _REGULAR, _FOLDER = 0o170000, stat.S_IFREG, stat.S_IFDIR
"""The bits of a file's mode that say what it is, and two of their values."""


class CacheNotFoundError(InsightError):
    """The given place is no folder that can be listed."""


class FileFact(NamedTuple):
    """One item of a folder. ``regular``: a file and no link, device or pipe."""

    name: str
    size: int
    modified_unix_s: float
    regular: bool
    folder: bool


class CacheFolder(Protocol):
    """What the inspection of a cache needs of its place."""

    path: str
    local: str | None
    """The folder's real path on this machine; None for a URL."""

    def items(self, folder: str = "") -> Iterator[FileFact]:
        """What is directly in a folder below this one. Raises CacheNotFoundError when it cannot be listed."""

    def read(self, name: str, limit: int) -> bytes:
        """The first ``limit`` bytes of a file. Raises OSError."""

    def remove(self, name: str, expected: FileFact) -> str | None:
        """Delete a file when it is as expected; None, or why it was left."""

    def remove_folder(self, name: str) -> None:
        """Delete a folder that is empty; nothing when it is not."""


def open_cache(place: str) -> CacheFolder:
    """The folder at a path or URL. Raises CacheNotFoundError, or UsageError for a URL of an unknown kind."""
    if "://" in place and not place.startswith(LOCAL_URL):
        return RemoteCache(place)
    return LocalCache(place.removeprefix(LOCAL_URL))


class LocalCache:
    """A folder of this machine. The folder itself may be given by a link; nothing in it is followed."""

    def __init__(self, path: str) -> None:
        self.path = path
        if not os.path.isdir(path):
            what = "is a file, not a folder" if os.path.exists(path) else "is not there"
            raise CacheNotFoundError(f"{path} {what}; give the folder of a compile cache")
        self.local: str | None = os.path.realpath(path)
        # Kept open: a million deletions then need no opening, and whatever takes the folder's place is another folder.
        self._root = self._opened(self.local)
        weakref.finalize(self, os.close, self._root)

    def items(self, folder: str = "") -> Iterator[FileFact]:
        """See `CacheFolder`."""
        handle = self._open(folder)
        new = tuple.__new__  # a third of the time that calling the class takes, and there can be a million
        try:
            with os.scandir(handle) as found:
                for item in found:
                    try:
                        status = item.stat(follow_symlinks=False)
                    except FileNotFoundError:  # gone since: somebody else cleans up, too
                        continue
                    kind = status.st_mode & _KIND
                    fact = (item.name, status.st_size, status.st_mtime, kind == _REGULAR, kind == _FOLDER)
                    yield new(FileFact, fact)
        except OSError as error:
            raise CacheNotFoundError(f"{self.path} cannot be listed ({error.strerror})") from error
        finally:
            os.close(handle)

    def read(self, name: str, limit: int) -> bytes:
        """See `CacheFolder`."""
        folder, _, last = name.rpartition("/")
        parent = self._open(folder)
        try:
            handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            with open(handle, "rb") as file:
                return file.read(limit)
        finally:
            os.close(parent)

    def remove(self, name: str, expected: FileFact) -> str | None:
        """See `CacheFolder`."""
        folder, _, last = name.rpartition("/")
        try:
            parent = self._open(folder) if folder else self._root
        except CacheNotFoundError:
            return "its folder is gone or became a link"
        try:
            status = os.stat(last, dir_fd=parent, follow_symlinks=False)
            if status.st_mode & _KIND != _REGULAR:
                return "it is no regular file"
            if status.st_size != expected.size or status.st_mtime != expected.modified_unix_s:
                return "it changed meanwhile"
            os.unlink(last, dir_fd=parent)
        except FileNotFoundError:
            return "it is gone already"
        except OSError as error:
            return error.strerror or str(error)
        finally:
            if folder:
                os.close(parent)
        return None

    def remove_folder(self, name: str) -> None:
        """See `CacheFolder`."""
        folder, _, last = name.rpartition("/")
        with contextlib.suppress(OSError, CacheNotFoundError):
            parent = self._open(folder)
            try:
                os.rmdir(last, dir_fd=parent)
            finally:
                os.close(parent)

    def _open(self, folder: str) -> int:
        """A handle of a folder below this one, step by step, so that no link on the way is followed."""
        handle = self._opened(".", self._root)
        for part in filter(None, folder.split("/")):
            try:
                if part in (".", ".."):
                    raise OSError(0, "leads out of the folder")
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            except OSError as error:
                raise CacheNotFoundError(f"{self.path}/{folder} cannot be listed ({error.strerror})") from error
            finally:
                os.close(handle)
            handle = inner
        return handle

    def _opened(self, place: str, within: int | None = None) -> int:
        try:
            return os.open(place, os.O_RDONLY | os.O_DIRECTORY, dir_fd=within)
        except OSError as error:
            raise CacheNotFoundError(f"{self.path} cannot be listed ({error.strerror})") from error


class RemoteCache:
    """A folder at an fsspec URL."""

    def __init__(self, url: str) -> None:
        import fsspec

        self.path = url
        self.local: str | None = None
        try:
            self._filesystem, self._base = fsspec.core.url_to_fs(url)
            there = self._filesystem.isdir(self._base)
        except (ImportError, ValueError) as error:
            raise UsageError(f"cannot open {url}: {error}") from error
        except Exception as error:  # every kind of remote file system has errors of its own
            raise CacheNotFoundError(f"{url} cannot be reached ({type(error).__name__}: {error})") from error
        if not there:
            raise CacheNotFoundError(f"{url} is not there; give the folder of a compile cache")

    def items(self, folder: str = "") -> Iterator[FileFact]:
        """See `CacheFolder`."""
        try:
            found = self._filesystem.ls(self._join(folder), detail=True, refresh=True)
        except TypeError:
            found = self._filesystem.ls(self._join(folder), detail=True)
        except Exception as error:
            raise CacheNotFoundError(f"{self.path} cannot be listed ({type(error).__name__}: {error})") from error
        for item in found:
            yield self._fact(item)

    def read(self, name: str, limit: int) -> bytes:
        """See `CacheFolder`."""
        try:
            content: bytes = self._filesystem.cat_file(self._join(name), start=0, end=limit)
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        return content

    def remove(self, name: str, expected: FileFact) -> str | None:
        """See `CacheFolder`."""
        try:
            now = self._fact(self._filesystem.info(self._join(name)))
            if (now.size, now.modified_unix_s, now.regular) != (expected.size, expected.modified_unix_s, True):
                return "it changed meanwhile"
            self._filesystem.rm_file(self._join(name))
        except FileNotFoundError:
            return "it is gone already"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None

    def remove_folder(self, name: str) -> None:
        """See `CacheFolder`. Object stores have no empty folders."""
        with contextlib.suppress(Exception):
            self._filesystem.rmdir(self._join(name))

    def _fact(self, item: dict[str, Any]) -> FileFact:
        name = str(item["name"]).rstrip("/").rsplit("/", 1)[-1]
        kind = item.get("type")
        regular = kind == "file" and not item.get("islink", False)
        return FileFact(name, int(item.get("size") or 0), _modified(item), regular, kind == "directory")

    def _join(self, name: str) -> str:
        return f"{self._base}/{name}" if name else str(self._base)


def _modified(item: dict[str, Any]) -> float:
    """File systems name the time of the last change differently; 0 when they do not say."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = item.get(name)
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return 0.0
