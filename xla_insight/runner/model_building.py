"""A masked language model and its tokenizer, from a built-in name, a configuration, a folder or the hub.

Needs transformers, imported by this module. Leaves training to ``training``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedTokenizerFast

from xla_insight.errors import TrainingDataError, UsageError
from xla_insight.runner import hub, tokens
from xla_insight.runner.models import BUILT_IN, TOKENIZER

CONFIG = "config.json"
TRAINED_VOCABULARY = 4000
"""Pieces of a tokenizer that is trained because the model brings none; a smaller vocabulary of the model bounds it."""
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def load_config(model: str) -> Any:
    """The configuration that ``model`` names. Raises UsageError."""
    try:
        if model in BUILT_IN:
            return AutoConfig.for_model(**BUILT_IN[model])
        path = Path(model).expanduser()
        if path.is_file():
            facts = json.loads(path.read_text(encoding="utf-8"))
            return AutoConfig.for_model(**facts)
        return AutoConfig.from_pretrained(str(path) if path.is_dir() else model)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = hub.reason_of(error, {} if Path(model).expanduser().exists() else os.environ)
        known = ", ".join(BUILT_IN)
        raise UsageError(f"no model {model}: neither built in ({known}) nor to be loaded: {reason}") from error


def tokenizer_for(model: str, config: Any, texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """The tokenizer that lies beside the model, else one trained on ``texts``. Raises InsightError."""
    file = Path(model).expanduser() / TOKENIZER
    if model not in BUILT_IN and file.is_file():
        return PreTrainedTokenizerFast.from_pretrained(str(file.parent))
    vocabulary = min(int(config.vocab_size), TRAINED_VOCABULARY)
    return as_pretrained(tokens.train_unigram(texts, vocabulary))


def as_pretrained(tokenizer: Any) -> PreTrainedTokenizerFast:
    """A tokenizer of `tokenizers` as transformers takes it."""
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens.SPECIAL_TOKENS)


def build_model(model: str, config: Any, tokenizer: PreTrainedTokenizerFast, longest: int) -> Any:
    """The model: with the weights of its folder or of the hub when there are any, else random ones.

    Raises UsageError where tokenizer, length and model do not fit each other, TrainingDataError for damaged weights.
    """
    if len(tokenizer) > config.vocab_size:
        raise UsageError(f"the tokenizer has {len(tokenizer)} pieces, {model} takes {config.vocab_size}")
    first = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    if longest + first > config.max_position_embeddings:
        raise UsageError(f"{model} has room for {config.max_position_embeddings - first} tokens, not for {longest}")
    path = Path(model).expanduser()
    has_weights = path.is_dir() and any(any(path.glob(pattern)) for pattern in _WEIGHTS)
    if not has_weights and (model in BUILT_IN or path.exists()):
        config.pad_token_id, config.bos_token_id, config.eos_token_id = (
            tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id,
        )  # fmt: skip
        return AutoModelForMaskedLM.from_config(config)
    try:
        return AutoModelForMaskedLM.from_pretrained(str(path) if has_weights else model)
    except Exception as error:  # safetensors and torch have many errors for a damaged file
        reason = hub.reason_of(error, {} if path.exists() else os.environ)
        raise TrainingDataError(f"the weights of {model} cannot be loaded: {reason}") from error
