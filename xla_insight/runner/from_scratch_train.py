"""From raw text to fill-mask on the XLA device: tokenizer, shards, streaming, training, use. To run, to read, to copy.

Owns the training of the workload `from-scratch`. Knows nothing of being recorded.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.utils.data
from transformers import Trainer, TrainerCallback, pipeline, set_seed

from xla_insight.errors import TrainingDataError
from xla_insight.facts import numbers
from xla_insight.runner import child, shards, text, tokens, training
from xla_insight.runner.batches import collator_for
from xla_insight.runner.from_scratch import FromScratch
from xla_insight.runner.model_building import as_pretrained, build_model, load_config
from xla_insight.runner.models import TOKENIZER

SEED = 1
_WORDS_OF_PROMPT = 12


class ShardStream(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """The chunks of all shards in random order, another one in each epoch; as many in memory as the buffer holds.

    Batches are made in a thread of the device loader, where an exception is printed and lost. So damage ends the stream
    and is kept in ``damage``.
    """

    def __init__(self, place: str, index: shards.Index, buffer: int) -> None:
        self.place = place
        self.index = index
        self.buffer = buffer
        self.epoch = 0
        self.damage: TrainingDataError | None = None

    def __iter__(self) -> Iterator[dict[str, list[int]]]:
        try:
            for ids in shards.shuffled(self.place, self.index, SEED + self.epoch, self.buffer):
                yield {"input_ids": ids}
        except TrainingDataError as error:
            self.damage = error

    def set_epoch(self, epoch: int) -> None:
        """The Trainer says which epoch comes next."""
        self.epoch = epoch


class EndAtDamage(TrainerCallback):  # type: ignore[misc]
    """Ends the training once the stream has ended early."""

    def __init__(self, stream: ShardStream) -> None:
        self.stream = stream

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The batches of the stream are used up, for one reason or another."""
        if self.stream.damage is not None:
            control.should_training_stop = True


def prepare(options: FromScratch, live: child.Live) -> tuple[Any, shards.Index]:
    """The tokenizer and the index of the shards: made from the text, or those that were left earlier."""
    folder = Path(options.save_to)
    if options.use_shards or options.resume:
        return tokens.load_tokenizer(folder / TOKENIZER), shards.read_index(options.shard_place)
    live.phase("training the tokenizer")
    tokenizer = tokens.train_unigram(text.documents(options.data), options.vocabulary)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / TOKENIZER))
    live.phase(f"writing shards to {options.shard_place}")
    documents = tokens.encoded(tokenizer, text.documents(options.data))
    chunks = tokens.chunks(documents, options.sequence_length, tokens.end_of_document(tokenizer))
    size, each = options.sequence_length, options.chunks_per_shard
    return tokenizer, shards.write_shards(options.shard_place, chunks, options.shard_format, size, each)


def fill_mask(options: FromScratch, tokenizer: Any) -> list[str]:
    """What the saved model, loaded anew on the CPU, puts in the place of the mask."""
    fill = pipeline("fill-mask", model=options.save_to, tokenizer=options.save_to, device="cpu")
    prompt = options.prompt or _prompt_from(options, tokenizer.mask_token)
    guesses = ", ".join(f"{guess['token_str']!r} {100 * guess['score']:.1f} %" for guess in fill(prompt)[:3])
    return [f"fill-mask: {prompt}", f"  {guesses}"]


def _prompt_from(options: FromScratch, mask: str) -> str:
    """The first words of the text, one of them masked."""
    words = list(itertools.chain.from_iterable(map(str.split, itertools.islice(text.documents(options.data), 3))))
    shown = words[:_WORDS_OF_PROMPT]
    return " ".join([*shown[: len(shown) // 2], mask, *shown[len(shown) // 2 + 1 :]])


def train(options: FromScratch, live: child.Live) -> dict[str, Any]:
    """All stages; returns the result."""
    child.require_device()
    set_seed(SEED)
    config = load_config(options.model)
    backend, index = prepare(options, live)
    if index.size != options.sequence_length:
        raise TrainingDataError(f"the shards hold chunks of {index.size} tokens, not of {options.sequence_length}")
    live.phase("building the model")
    tokenizer = as_pretrained(backend)
    config.vocab_size = max(config.vocab_size, len(tokenizer))
    steps = options.steps or -(-index.chunks // options.global_batch_size)
    arguments = training.trainer_arguments(options, max_steps=steps, accelerator_config={"dispatch_batches": False})
    rows = arguments.per_device_train_batch_size
    stream = ShardStream(options.shard_place, index, options.shuffle_buffer)
    trainer = Trainer(
        model=build_model(options.model, config, tokenizer, options.sequence_length),
        args=arguments,
        train_dataset=stream,
        processing_class=tokenizer,
        data_collator=collator_for(tokenizer, "fixed", [options.sequence_length], rows),
        callbacks=[EndAtDamage(stream)],
    )
    # The Trainer warns of an epoch without a sample; when damage ended it, that is what is said.
    logging.getLogger("transformers.trainer").addFilter(lambda _record: stream.damage is None)
    result = training.train(trainer, live, options.resume)
    if stream.damage is not None:
        raise stream.damage
    live.phase("saving the model")
    trainer.save_model(options.save_to)
    live.phase("filling in a mask")
    lines = [
        f"{index.chunks} chunks of {index.size} tokens in {numbers.plural(len(index.files), 'file')}"
        f" ({index.format}) at {options.shard_place}.",
        f"Model: {options.save_to}",
        *fill_mask(options, tokenizer),
    ]
    return {**result, "examples": index.chunks, "lines": [*result["lines"], *lines]}


if __name__ == "__main__":
    sys.exit(child.run(FromScratch, train))
