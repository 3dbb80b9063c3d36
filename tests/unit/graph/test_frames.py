"""Which lines say why: none of the framework, of the standard library, or of generated code."""

from __future__ import annotations

import pytest

from xla_insight.graph.model import Frame
from xla_insight.graph.roots import in_framework, site_of

OWN = ("train.py", "/home/me/lib/train.py", "/venv/lib/python3.11/site-packages/transformers/trainer.py",
       "<ipython-input-3-abc>", "<stdin>", "/home/me/mytorch/net.py")  # fmt: skip
PLUMBING = ("/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", "/usr/lib/python3.11/copy.py",
            "/opt/conda/lib/python3.12/contextlib.py", "<eval_with_key>.16", "<frozen runpy>",
            "/venv/lib/python3.11/site-packages/typing_extensions.py")  # fmt: skip


@pytest.mark.parametrize("file", OWN)
def test_code_of_people_says_why(file: str) -> None:
    stack = (*(Frame(plumbing, 1) for plumbing in PLUMBING), Frame(file, 7), Frame("main.py", 9))
    assert site_of(stack) == Frame(file, 7)


@pytest.mark.parametrize("file", PLUMBING)
def test_plumbing_does_not(file: str) -> None:
    assert in_framework(Frame(file, 1)) and site_of((Frame(file, 1),)) == Frame(file, 1)
