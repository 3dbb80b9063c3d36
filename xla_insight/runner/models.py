"""Models that are built in: published configurations by name, with random weights and without a download.

Standard library only, so that the command line can name them. Leaves building a model to ``model_building``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from xla_insight.errors import UsageError

TOKENIZER = "tokenizer.json"

_TINY: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
_ROBERTA: dict[str, Any] = {
    "model_type": "roberta",
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}

BUILT_IN: dict[str, dict[str, Any]] = {
    "bert-tiny": {"model_type": "bert", **_TINY, "vocab_size": 4000},
    "roberta-tiny": {**_ROBERTA, **_TINY, "vocab_size": 4000},
    "bert-large-uncased": {
        "model_type": "bert",
        "vocab_size": 30522,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "roberta-base": {**_ROBERTA, "vocab_size": 50265},
}
"""Configurations of transformers by name; what is left out has the default of its ``model_type``."""
_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def check(model: str) -> None:
    """Raise UsageError for what is neither built in, nor a file or folder, nor can be a name on the hub."""
    path = Path(model).expanduser()
    is_name = path.suffix != ".json" and _HUB_NAME.fullmatch(model) is not None
    if model not in BUILT_IN and not is_name and not (model.strip() and path.exists()):
        known = ", ".join(BUILT_IN)
        raise UsageError(f"no model {model!r}: there is no such file or folder; built in are {known}")


def is_local(model: str) -> bool:
    """Whether the model needs no hub."""
    return model in BUILT_IN or Path(model).expanduser().exists()
