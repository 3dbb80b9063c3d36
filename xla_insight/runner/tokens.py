"""Text as tokens: a Unigram tokenizer trained on the text itself, and chunks of one size that lose no token.

Owns both. Needs `tokenizers`, imported when it is used; leaves reading text to ``text`` and files to ``shards``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from xla_insight.errors import TrainingDataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL_TOKENS = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
"""In the order of their ids, which is that of RoBERTa: pad is 1."""
_DOCUMENTS_AT_ONCE = 1000


def train_unigram(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A Unigram tokenizer of at most ``vocabulary`` pieces, trained on ``texts``. Raises TrainingDataError."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = list(SPECIAL_TOKENS.values())
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=special, unk_token=SPECIAL_TOKENS["unk_token"], show_progress=False
    )
    try:
        tokenizer.train_from_iterator(texts, trainer)
    except Exception as error:  # the library raises plain Exceptions: too little text, a vocabulary too small
        raise TrainingDataError(f"no tokenizer of {vocabulary} pieces can be trained on this text: {error}") from error
    if tokenizer.get_vocab_size() <= len(special):
        raise TrainingDataError("no tokenizer can be trained: there is no text")
    return tokenizer


def load_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer of a ``tokenizer.json``. Raises TrainingDataError."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:
        raise TrainingDataError(f"{file} holds no tokenizer: {error}") from error


def encoded(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[int]]:
    """The ids of each text, without special tokens; in order, a thousand texts in memory at once."""
    remaining = iter(texts)
    while block := list(islice(remaining, _DOCUMENTS_AT_ONCE)):
        yield from (encoding.ids for encoding in tokenizer.encode_batch(block, add_special_tokens=False))


def end_of_document(tokenizer: Tokenizer) -> int:
    """The id that stands behind each document. Raises TrainingDataError for a tokenizer that has none."""
    found = tokenizer.token_to_id(SPECIAL_TOKENS["eos_token"])
    if found is None:
        raise TrainingDataError(f"the tokenizer has no {SPECIAL_TOKENS['eos_token']} to end a text with")
    return int(found)


def chunks(documents: Iterable[Sequence[int]], size: int, end: int) -> Iterator[list[int]]:
    """The ids of all documents in one row, each followed by ``end``, cut to chunks of ``size``.

    Nothing is lost: the last chunk is filled up with ids from the beginning, so no chunk needs padding.
    """
    rest: list[int] = []
    beginning: list[int] = []
    for document in documents:
        rest += [*document, end]
        if len(beginning) < size:
            beginning = [*beginning, *document, end][:size]
        cut = len(rest) - len(rest) % size
        yield from (rest[start : start + size] for start in range(0, cut, size))
        rest = rest[cut:]
    if rest:
        yield list(islice(chain(rest, chain.from_iterable(repeat(beginning))), size))
