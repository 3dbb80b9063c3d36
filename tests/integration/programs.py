"""Runs the scripts of this folder in processes of their own and gives back what they printed and recorded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

SCRIPTS = Path(__file__).parent / "scripts"
CLI = [sys.executable, "-c", "import sys; from xla_insight.cli import main; sys.exit(main())"]
TIMEOUT_S = 300
EXECUTION = re.compile(r"Execution Analysis:   Graph Hash: (\w+)")


class Done(NamedTuple):
    """A finished process."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object of the last printed line."""
        found: dict[str, Any] = json.loads(self.out.strip().splitlines()[-1])
        return found


def run(command: list[str], **variables: str) -> Done:
    """Run to the end on XLA:CPU; ``variables`` are added to the environment."""
    environment = {**os.environ, "PJRT_DEVICE": "CPU", **variables}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
    return Done(done.returncode, done.stdout, done.stderr)


def script(name: str, **variables: str) -> Done:
    """A script on its own."""
    return run([sys.executable, str(SCRIPTS / name)], **variables)


def recorded(name: str, out: Path, **variables: str) -> Done:
    """A script under ``xla-insight run --out``."""
    return run([*CLI, "run", "--out", str(out), str(SCRIPTS / name)], **variables)
