"""Masked-language-model training with the Hugging Face Trainer on the XLA device: to run, to read and to copy.

Owns the training of the workload `mlm`. Knows nothing of being recorded.
"""

from __future__ import annotations

import sys
from typing import Any

from transformers import Trainer, set_seed

from xla_insight.errors import TrainingDataError
from xla_insight.runner import child, text, tokens, training
from xla_insight.runner.batches import collator_for
from xla_insight.runner.mlm import MaskedLanguageModel
from xla_insight.runner.model_building import build_model, load_config, tokenizer_for

SEED = 1


def examples(options: MaskedLanguageModel, tokenizer: Any, texts: list[str]) -> list[dict[str, list[int]]]:
    """The text as chunks of one size, or text by text, cut at the longest size."""
    fast = tokenizer.backend_tokenizer
    ids = tokens.encoded(fast, texts)
    if options.padding == "fixed":
        rows = tokens.chunks(ids, options.sequence_length, tokenizer.eos_token_id)
    else:
        longest = options.padded_sizes()[-1]
        rows = (document[:longest] for document in ids if document)
    found = [{"input_ids": row} for row in rows]
    if not found:
        raise TrainingDataError(f"there is no text in {text.describe(options.data)}")
    return found


def train(options: MaskedLanguageModel, live: child.Live) -> dict[str, Any]:
    """Train one pass over the text, or for ``steps``; returns the result."""
    child.require_device()
    set_seed(SEED)
    config = load_config(options.model)
    live.phase("reading the text")
    texts = list(text.documents(options.data))
    live.phase("tokenizing")
    tokenizer = tokenizer_for(options.model, config, texts)
    data = examples(options, tokenizer, texts)
    live.phase("building the model")
    model = build_model(options.model, config, tokenizer, options.padded_sizes()[-1])
    full = options.epochs * -(-len(data) // options.global_batch_size)
    steps = options.steps or min(full, options.most_steps or full)
    arguments = training.trainer_arguments(options, max_steps=steps)
    rows = arguments.per_device_train_batch_size
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=data,
        processing_class=tokenizer,
        data_collator=collator_for(tokenizer, options.padding, options.padded_sizes(), rows),
    )
    result = training.train(trainer, live, options.resume)
    return {**result, "examples": len(data), "steps_full": full}


if __name__ == "__main__":
    sys.exit(child.run(MaskedLanguageModel, train))
