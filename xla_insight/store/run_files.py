"""The files of a run folder, local or at a URL, as bytes: regular files inside the folder and nothing else.

Owns what may be opened: a run can come from anybody, so links that lead out of it, pipes and files of absurd size are
refused. Leaves what the bytes mean to ``loading``.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from typing import Any

from xla_insight.errors import RunFormatError, RunNotFoundError
from xla_insight.store.shipping import LOCAL_URL, is_remote

MAX_JSON_BYTES = 8 << 20


class RefusedError(Exception):
    """A file of a run that is not opened; the text says why."""


class LocalFiles:
    """A run folder of this machine."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._root = os.path.realpath(self.path)

    def names(self, folder: str = "") -> list[str]:
        """Names in a folder of the run; empty when it cannot be listed."""
        try:
            return sorted(os.listdir(self._checked(folder)))
        except (OSError, RefusedError):
            return []

    def sizes(self, folder: str) -> dict[str, int]:
        """Name and bytes of each file in a folder of the run; empty when it cannot be listed."""
        found = {}
        for name in self.names(folder):
            with contextlib.suppress(OSError):
                found[name] = os.stat(os.path.join(self.path, folder, name)).st_size
        return found

    def read(self, name: str, limit: int | None = None) -> bytes:
        """The content of a file. Raises OSError, or RefusedError."""
        path = self._regular(name)
        with open(path, "rb") as file:
            if limit is not None and os.fstat(file.fileno()).st_size > limit:
                raise RefusedError(f"is larger than {limit >> 20} MB")
            return file.read()

    def local_path(self, name: str) -> str:
        """A path of the file on this machine. Raises OSError, or RefusedError."""
        return self._regular(name)

    def modified_unix_s(self, name: str) -> float:
        """When the file was last written; 0 when unknown."""
        try:
            return os.stat(self._regular(name)).st_mtime
        except (OSError, RefusedError):
            return 0.0

    def _checked(self, name: str) -> str:
        path = os.path.join(self.path, name) if name else self.path
        real = os.path.realpath(path)
        if real != self._root and not real.startswith(self._root.rstrip(os.sep) + os.sep):
            raise RefusedError("is a link to a place outside the run; it is not followed")
        return path

    def _regular(self, name: str) -> str:
        path = self._checked(name)
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise RefusedError("is not a regular file")
        return path


class RemoteFiles:
    """A run at a URL. Parts are copied to a temporary folder when they are needed; `close` removes it."""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self._filesystem, self._base = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise RunNotFoundError(f"cannot open {url}: {error}") from error
        self.path = url
        self._folder = tempfile.TemporaryDirectory(prefix="xla-insight-read-")
        self._copies = 0

    def names(self, folder: str = "") -> list[str]:
        """Names in a folder of the run; empty when it cannot be listed."""
        return sorted(_last_name(entry["name"]) for entry in self._list(folder))

    def sizes(self, folder: str) -> dict[str, int]:
        """Name and bytes of each file in a folder of the run, as far as the place tells; asked for once."""
        listed = ((_last_name(entry["name"]), entry.get("size")) for entry in self._list(folder))
        return {name: size for name, size in listed if isinstance(size, int)}

    def read(self, name: str, limit: int | None = None) -> bytes:
        """The content of a file. Raises OSError, or RefusedError."""
        path = self._join(name)
        try:
            if limit is not None and (self._filesystem.size(path) or 0) > limit:
                raise RefusedError(f"is larger than {limit >> 20} MB")
            content: bytes = self._filesystem.cat_file(path)
        except (OSError, RefusedError):
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        return content

    def local_path(self, name: str) -> str:
        """A copy of the file on this machine. Raises OSError, or RefusedError."""
        content = self.read(name)
        self._copies += 1
        path = os.path.join(self._folder.name, f"{self._copies}-{os.path.basename(name)}")
        with open(path, "wb") as file:
            file.write(content)
        return path

    def modified_unix_s(self, name: str) -> float:
        """When the file was last written; 0 when unknown."""
        try:
            return float(self._filesystem.modified(self._join(name)).timestamp())
        except Exception:
            return 0.0

    def close(self) -> None:
        """Remove the copies."""
        self._folder.cleanup()

    def _list(self, folder: str) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self._filesystem.ls(self._join(folder), detail=True)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise RunNotFoundError(f"{self.path} cannot be read ({type(error).__name__}: {error})") from error
        return found

    def _join(self, name: str) -> str:
        return f"{self._base}/{name}" if name else str(self._base)


def _last_name(path: object) -> str:
    return str(path).rstrip("/").rsplit("/", 1)[-1]


RunFiles = LocalFiles | RemoteFiles


def open_files(run: str) -> RunFiles:
    """The files of a run. Raises RunNotFoundError when there is no such folder."""
    if is_remote(run):
        return RemoteFiles(run)
    path = run.removeprefix(LOCAL_URL)
    if not os.path.exists(path):
        raise RunNotFoundError(f"there is no run at {run}")
    if not os.path.isdir(path):
        raise RunNotFoundError(f"{run} is a file; a run is a folder")
    return LocalFiles(path)


def read_json(files: RunFiles, name: str) -> dict[str, Any]:
    """A JSON object. Raises RunFormatError with a reason that reads after the file's name."""
    try:
        content = json.loads(files.read(name, MAX_JSON_BYTES))
    except FileNotFoundError as error:
        raise RunFormatError("is missing") from error
    except OSError as error:
        raise RunFormatError(f"cannot be read ({error.strerror or error})") from error
    except RefusedError as error:
        raise RunFormatError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise RunFormatError("is not valid JSON; it was damaged after recording") from error
    if not isinstance(content, dict):
        raise RunFormatError("does not hold a JSON object")
    return content
