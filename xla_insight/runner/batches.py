"""Batches of masked tokens: each way of padding as a collator.

A batch with an ordinary mask makes BERT and RoBERTa read it in every forward pass (to see whether it hides anything),
which cuts the graph. So fixed chunks, which have no padding, go without a mask, and padded batches carry theirs in the
four-dimensional form that is used as it comes. Only ``dynamic`` is left as most scripts have it. In all of them each
batch has something to learn. Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from transformers import DataCollatorForLanguageModeling

from xla_insight.padding import BucketCollator

MASKED_SHARE = 0.15
IGNORED = -100
"""The label that carries no loss."""
MULTIPLE = 8
"""Dynamic padding rounds up to a multiple of this, as is usual."""

Collator = Callable[[Any], Any]


class SomethingToLearn:
    """Gives a batch in which chance masked no token one label: of its first ordinary token, which stays as it is.

    Without any, the mean loss is 0/0, and the gradients that XLA computes from it turn every weight into NaN.
    """

    def __init__(self, collator: Collator, tokenizer: Any) -> None:
        self.collator = collator
        self.tokenizer = tokenizer  # where `BucketCollator` looks up what to pad with
        self.special = set(tokenizer.all_special_ids)

    def __call__(self, features: Any) -> Any:
        """The batch with one label at least, unless it has no ordinary token."""
        batch = self.collator(features)
        if not (batch["labels"] != IGNORED).any():
            for row, tokens in enumerate(batch["input_ids"].tolist()):
                place = next((index for index, token in enumerate(tokens) if token not in self.special), None)
                if place is not None:
                    batch["labels"][row, place] = tokens[place]
                    break
        return batch


class WithoutMask:
    """Leaves the attention mask out: right where nothing is padded."""

    def __init__(self, collator: Collator) -> None:
        self.collator = collator

    def __call__(self, features: Any) -> Any:
        """The batch without its mask."""
        batch = self.collator(features)
        batch.pop("attention_mask", None)
        return batch


class WideMask:
    """Gives the attention mask the shape [rows, 1, 1, tokens] and the type bool."""

    def __init__(self, collator: Collator) -> None:
        self.collator = collator

    def __call__(self, features: Any) -> Any:
        """The batch with its mask in the form that attention takes."""
        batch = self.collator(features)
        batch["attention_mask"] = batch["attention_mask"].bool()[:, None, None, :]
        return batch


def collator_for(tokenizer: Any, padding: str, sizes: Sequence[int], rows: int) -> Collator:
    """The collator of a way of padding: ``sizes`` are those to pad to, ``rows`` those of a full batch.

    All ways but ``dynamic`` fill up a smaller last batch with rows that carry no label.
    """
    masking = DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=MASKED_SHARE, pad_to_multiple_of=MULTIPLE if padding == "dynamic" else None
    )
    plain: Collator = SomethingToLearn(masking, tokenizer)
    if padding == "dynamic":
        return plain
    if padding == "fixed":
        return WithoutMask(BucketCollator(plain, rows=rows))
    return WideMask(BucketCollator(plain, {"input_ids": list(sizes)}, rows=rows))
