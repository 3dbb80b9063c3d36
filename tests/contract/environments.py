"""An environment of its own that takes what packages it may have from this one, by links.

Owns which packages those are: what is asked for and what that requires, by the packages' own word. Whether all is there
is for pip to say, which is then run in it; what is missing it installs.
"""

from __future__ import annotations

import os
import sysconfig
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def linked_environment(folder: Path, requirements: list[str]) -> Path:
    """The folder of the programs of a new environment in which ``requirements`` can be imported, and pip."""
    venv.create(folder, with_pip=False)
    base = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", base))
    for package in needed([*requirements, "pip"]):
        for file in package.files or ():
            if ".." not in file.parts:  # programs and manual pages lie outside of the packages
                link = packages / file
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.exists():
                    os.symlink(Path(str(package.locate_file(file))).resolve(), link)
    return folder / "bin"


def needed(requirements: list[str]) -> Iterator[Distribution]:
    """The packages of this environment that ``requirements`` name and, in turn, require."""
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, str]] = set()
    found: dict[str, Distribution] = {}
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                found[name] = package = distribution(name)
            except PackageNotFoundError:
                continue
            waiting += [one for one in map(Requirement, package.requires or ()) if _applies(one, extra)]
    return iter(found.values())


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})
