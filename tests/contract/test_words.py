"""The project speaks of itself only: no path of one machine, no package registry's host, nothing left unfinished."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TEXT = {".py", ".toml", ".md", ".txt", ".css", ".js", ".cfg", ".yml", ".yaml", ".sh", ".svg", ".ipynb", ""}
# In pieces, so that this file does not match itself.
MACHINE_PATHS = re.compile(r"(?<![\w.])/(" + "wo" + "rk|ro" + "ot)/")
HOSTS = re.compile("py" + r"pi\.org|python" + "hosted|npm" + r"js\.|registry\." + r"npm|deb\." + "debian")
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def project_files(repository: Path) -> list[Path]:
    """Files that belong to the project: what git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git work tree")
    paths = [repository / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and path.suffix in TEXT and path.name != "LICENSE"]


@pytest.mark.parametrize("pattern", [MACHINE_PATHS, HOSTS, UNFINISHED], ids=["machine path", "host", "unfinished"])
def test_no_file_says(repository: Path, pattern: re.Pattern[str]) -> None:
    files = project_files(repository)
    assert len(files) > 50
    found = [
        f"{path.relative_to(repository)}:{number}: {line.strip()[:100]}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (MACHINE_PATHS, 'open("/' + 'work/main/x")'),
        (MACHINE_PATHS, "see /" + "root/.cache"),
        (HOSTS, "https://" + "pypi" + ".org/simple"),
        (UNFINISHED, "# TO" + "DO later"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)
    assert not pattern.search("docs/framework/home page, pypi, network/")
