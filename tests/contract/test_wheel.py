"""The wheel: everything of the source tree is in it, and it works on a machine that has no torch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import Recording, clean_environment
from tests.contract.environments import linked_environment

SOURCES = ("xla_insight", "app", "pyproject.toml", "setup.py", "README.md", "LICENSE", "constraints.txt")


def copied(repository: Path, target: Path, names: tuple[str, ...]) -> Path:
    """The named parts of the source tree, without what building and running left in it."""
    for name in names:
        source = repository / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    return target


def metadata_of(wheel: Path) -> str:
    archive = zipfile.ZipFile(wheel)
    return archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = copied(repository, tmp_path_factory.mktemp("tree"), SOURCES)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tree / "dist"), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((tree / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def laptop(wheel: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a fresh environment with the wheel and its dashboard, and no torch."""
    # grpcio-tools: a unit test compiles our schema again and compares.
    tools = ["pytest", "pytest-xdist", "hypothesis", "grpcio-tools"]
    requires = [Requirement(text) for text in re.findall(r"^Requires-Dist: (.+)$", metadata_of(wheel), re.MULTILINE)]
    allowed = [str(one) for one in requires if one.marker is None or one.marker.evaluate({"extra": "app"})]
    programs = linked_environment(tmp_path_factory.mktemp("laptop"), [*allowed, *tools])
    command = [str(programs / "python"), "-m", "pip", "install", "-qq", "-c", str(repository / "constraints.txt")]
    subprocess.run([*command, f"{wheel}[app]", *tools], check=True, timeout=1200)
    return programs


def test_the_steps_of_the_image(laptop: Path, repository: Path) -> None:
    """The pip line of the Dockerfile, its program over a recorded run, and its health check."""
    command = [sys.executable, str(repository / ".ci" / "docker_steps"), "--environment", str(laptop.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "healthy after" in done.stdout


def outside(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing of the source tree or of this environment can be imported."""
    kept = {name: value for name, value in clean_environment().items() if not name.startswith("PYTHONPATH")}
    return {**kept, "HOME": str(tmp_path)}


def test_the_wheel_holds_the_whole_source_tree(wheel: Path, repository: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = set()
    for folder, package in (("xla_insight", "xla_insight"), ("app", "xla_insight_app")):
        for path in (repository / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                expected.add(f"{package}/{path.relative_to(repository / folder).as_posix()}")
    assert names == expected
    assert {"xla_insight/py.typed", "xla_insight_app/assets/style.css"} <= names


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    assert "License-Expression: Apache-2.0" in metadata
    required = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    always = {re.split(r"[^\w-]", line)[0] for line in required if "extra ==" not in line}
    assert not always & {"torch", "torch_xla", "transformers", "dash", "plotly"}
    assert {"pyarrow", "duckdb", "pandas"} <= always


def test_the_unit_tests_pass_without_torch(laptop: Path, repository: Path, tmp_path: Path) -> None:
    tree = copied(repository, tmp_path, ("tests", "pyproject.toml"))
    command = [str(laptop / "python"), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "tests/unit"]
    done = subprocess.run(command, cwd=tree, env=outside(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout.splitlines()[-1]


def test_a_recorded_run_is_read_without_torch(laptop: Path, trainer_run: Recording, tmp_path: Path) -> None:
    def run(*words: str | Path) -> str:
        command = [str(laptop / "xla-insight"), *map(str, words)]
        done = subprocess.run(command, cwd=tmp_path, env=outside(tmp_path), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    report = json.loads(run("report", trainer_run.path, "--json"))
    assert report["graphs"]["compiles"] > 1
    assert "compiles" in run("report", trainer_run.path)
    assert str(report["steps"]["count"]) in run("sql", trainer_run.path, "select count(*) from steps")
    run("export", trainer_run.path, "--csv", tmp_path / "csv")
    assert (tmp_path / "csv" / "steps.csv").read_text().count("\n") == report["steps"]["count"] + 1


def test_the_demo_without_torch_says_what_to_install(laptop: Path, tmp_path: Path) -> None:
    command = [str(laptop / "xla-insight"), "demo"]
    done = subprocess.run(command, cwd=tmp_path, env=outside(tmp_path), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "torch_xla" in done.stderr
    assert 'pip install "xla-insight[all]"' in done.stderr
    assert not (tmp_path / "runs").exists()


@contextmanager
def dashboard(program: Path, run: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a dashboard over ``run``, as the program announces it."""
    command = [str(program), "app", str(run), "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            announced = server.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/", announced)
            assert found, announced
            yield found.group()
        finally:
            server.terminate()


def test_the_dashboard_starts_without_torch(laptop: Path, trainer_run: Recording, tmp_path: Path) -> None:
    with dashboard(laptop / "xla-insight", trainer_run.path, {**outside(tmp_path), "PYTHONUNBUFFERED": "1"}) as address:
        for path, expected in (("", "xla-insight"), ("_dash-layout", "props"), ("assets/style.css", "{")):
            with urllib.request.urlopen(address + path, timeout=60) as answer:
                assert answer.status == 200
                assert expected in answer.read().decode()
    assert os.listdir(tmp_path) == []
