"""TensorFlow itself reads the TFRecord shards: in its own environment (``.ci/tensorflow``), or in this one."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from xla_insight.runner import shards

SIZE = 16
READ = f"""
import json, sys
import tensorflow as tf
features = {{"input_ids": tf.io.FixedLenFeature([{SIZE}], tf.int64)}}
records = tf.data.TFRecordDataset(sys.argv[1:])
print(json.dumps([tf.io.parse_single_example(r, features)["input_ids"].numpy().tolist() for r in records]))
"""


def python_with_tensorflow() -> Path | None:
    """The interpreter to read with; None when TensorFlow is not installed."""
    own = REPOSITORY / ".venv-tensorflow" / "bin" / "python"
    if own.exists():
        return own
    return Path(sys.executable) if importlib.util.find_spec("tensorflow") is not None else None


def test_tensorflow_reads_what_was_written(tmp_path: Path) -> None:
    python = python_with_tensorflow()
    if python is None:
        assert os.environ.get("CI") != "true", "CI does not go without: .ci/tensorflow installs it"
        pytest.skip("TensorFlow is not installed: .ci/tensorflow --install")
    chance = random.Random(1)
    chunks = [[chance.randrange(2**31) for _ in range(SIZE)] for _ in range(50)]
    index = shards.write_shards(str(tmp_path), chunks, "tfrecord", SIZE, 20)
    command = [str(python), "-c", READ, *(str(tmp_path / name) for name in index.files)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == chunks
