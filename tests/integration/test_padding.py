"""`BucketCollator` with real models: the sizes are the buckets', and what is learned is the same to rounding."""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, clean_environment
from tests.unit.analysis.shapes.recorded import problem_of, text_batch
from xla_insight.analysis.shapes import advise
from xla_insight.padding import BucketCollator

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
SCRIPT = Path(__file__).parent / "scripts" / "padded_trainer.py"


class Tokenizer:
    """What a collator asks of a tokenizer to pad."""

    pad_token_id = 3
    pad_token_type_id = 0
    padding_side = "right"


class Pad:
    """A collator as in transformers: pads to the longest text with a mask."""

    tokenizer = Tokenizer()

    def __call__(self, texts: list[list[int]]) -> dict[str, Any]:
        longest = max(map(len, texts))
        ids = torch.tensor([text + [3] * (longest - len(text)) for text in texts])
        mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def texts(seed: int, lengths: tuple[int, ...] = (5, 9, 13)) -> list[list[int]]:
    chance = torch.Generator().manual_seed(seed)
    return [torch.randint(4, 90, (length,), generator=chance).tolist() for length in lengths]


def small(name: str, **more: Any) -> Any:
    """A small model without dropout, the same every time."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(vocab_size=96, pad_token_id=3, **more)
    classes = {"Bert": "BertForMaskedLM", "GPT2": "GPT2LMHeadModel", "Bart": "BartForConditionalGeneration"}
    return getattr(transformers, classes[name])(config)


BERT: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
BERT |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT: dict[str, Any] = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}
BART: dict[str, Any] = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
BART |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "dropout": 0.0}
BART |= {"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": 2}


def loss_and_gradients(model: Any, batch: dict[str, Any]) -> tuple[float, list[Any]]:
    model.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    return loss.item(), [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def assert_learns_the_same(model: Any, plain: dict[str, Any], padded: dict[str, Any]) -> None:
    before, gradients = loss_and_gradients(model, plain)
    after, others = loss_and_gradients(model, padded)
    assert after == pytest.approx(before, rel=1e-5)
    for one, other in zip(gradients, others, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(("name", "config"), [("Bert", BERT), ("GPT2", GPT)])
def test_loss_and_gradients_do_not_change(name: str, config: dict[str, Any]) -> None:
    samples = texts(1)
    padded = BucketCollator(Pad(), {"input_ids": [8, 24]}, rows=5)(samples)
    assert {field: tuple(value.shape) for field, value in padded.items()} == dict.fromkeys(padded, (5, 24))
    assert padded["input_ids"][0, 5:].eq(3).all() and padded["attention_mask"][:, 13:].eq(0).all()
    assert padded["labels"][3:].eq(-100).all()
    assert_learns_the_same(small(name, **config), Pad()(samples), padded)


def test_two_lengths_of_an_encoder_and_a_decoder() -> None:
    source, target = Pad()(texts(2)), Pad()(texts(3, (4, 6, 13)))
    batch = {"input_ids": source["input_ids"], "attention_mask": source["attention_mask"], "labels": target["labels"]}
    buckets = {("input_ids", "attention_mask"): [16, 32], "labels": [13, 20]}
    padded = BucketCollator(lambda _: batch, buckets, pad_values={"input_ids": 3})([])
    assert (padded["input_ids"].shape[1], padded["attention_mask"].shape[1], padded["labels"].shape[1]) == (16, 16, 13)
    assert_learns_the_same(small("Bart", **BART), batch, padded)


def test_an_additive_mask_is_closed() -> None:
    mask = torch.zeros(2, 1, 6, 6)
    padded = BucketCollator(lambda _: {"mask": mask}, {(("mask", 2), ("mask", 3)): [8]})([])["mask"]
    assert tuple(padded.shape) == (2, 1, 8, 8)
    assert padded[..., 6:].eq(torch.finfo(torch.float32).min).all()
    assert padded[..., :6].eq(0).all()


def test_other_fields_and_types() -> None:
    batch = transformers.BatchEncoding(
        {
            "input_ids": torch.ones(2, 3, dtype=torch.long),
            "special_tokens_mask": torch.zeros(2, 3, dtype=torch.long),
            "seen_mask": torch.ones(2, 3, dtype=torch.bool),
            "token_type_ids": torch.ones(2, 3, dtype=torch.long),
            "values": torch.ones(2, 3),
            "names": ["a", "b"],
        }
    )
    padded = BucketCollator(lambda _: batch, {"input_ids": [4]}, rows=3, pad_values={"input_ids": 9})([])
    assert type(padded) is type(batch)
    assert batch["input_ids"].shape == (2, 3)
    last = {name: padded[name][0, 3].item() for name in padded if name != "names"}
    expected = {"input_ids": 9, "special_tokens_mask": 1, "seen_mask": False, "token_type_ids": 0, "values": 0.0}
    assert last == expected
    assert padded["names"] == ["a", "b"]
    assert padded["values"].shape == (3, 4)


def test_batches_of_a_plain_loader() -> None:
    Pair = collections.namedtuple("Pair", ("tokens", "labels"))
    tokens, labels = torch.ones(2, 3, dtype=torch.long), torch.tensor([0, 1])
    pair = BucketCollator(lambda _: Pair(tokens, labels), {"[0]": [8]}, rows=4, pad_values={"[1]": -100})([])
    assert type(pair) is Pair
    assert tuple(pair.tokens.shape) == (4, 8)
    as_list = BucketCollator(lambda _: [tokens, labels], {"[0]": [8]})([])
    assert type(as_list) is list and as_list[0].shape[1] == 8
    assert BucketCollator(lambda _: [tokens, labels], {"batch[0]": [8]})([])[0].shape[1] == 8, "as recorded"
    assert BucketCollator(lambda _: tokens, {"batch": [8]})([]).shape[1] == 8


def test_a_batch_larger_than_every_bucket_is_left_alone() -> None:
    batch = Pad()(texts(1))
    padded = BucketCollator(Pad(), {"input_ids": [8]}, rows=2)(texts(1))
    assert all(torch.equal(batch[name], padded[name]) for name in batch)


def test_what_cannot_be_known_is_refused() -> None:
    tokens = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="no pad token is known for input_ids"):
        BucketCollator(lambda _: {"input_ids": tokens, "mask": tokens}, {"input_ids": [8]})([])
    with pytest.raises(ValueError, match="the batch has tokens: name its fields"):
        BucketCollator(lambda _: {"tokens": tokens}, {"input_ids": [8]})([])
    with pytest.raises(ValueError, match="drop the last batch"):
        BucketCollator(lambda _: {"labels": torch.ones(2)}, rows=4)([])
    with pytest.raises(ValueError, match="at least one size"):
        BucketCollator(Pad(), {"input_ids": []})
    with pytest.raises(ValueError, match="a key of buckets"):
        BucketCollator(Pad(), {3: [8]})
    with pytest.warns(UserWarning, match="no attention_mask"):
        BucketCollator(lambda _: {"input_ids": tokens}, {"input_ids": [8]}, pad_values={"input_ids": 0})([])


def test_it_stands_in_for_the_collator_it_wraps() -> None:
    collator = BucketCollator(Pad(), {"input_ids": [8]})
    assert collator.tokenizer is Pad.tokenizer
    import pickle

    assert pickle.loads(pickle.dumps(collator)).rows is None


@pytest.mark.parametrize("lengths", [(5, 9, 13, 21, 30), (7, 16)])
def test_the_printed_lines_do_what_they_say(lengths: tuple[int, ...]) -> None:
    """The advice for a run is pasted and called on the very batches of that run; its last batch is smaller."""
    recorded = [length for length in lengths for _ in range(12)]
    problem = problem_of([*(text_batch(length) for length in recorded), text_batch(lengths[0], rows=3)])
    advice = advise(problem, 10_000, buckets=2)
    assert advice.chosen is not None and advice.chosen.buckets

    def batch(length: int, rows: int = 8) -> dict[str, Any]:
        return Pad()([list(range(4, 4 + length))] * rows)

    pad_value = {"data_collator": WithTokenizer(batch)}
    exec(advice.code, pad_value)
    collator: Any = pad_value["data_collator"]
    shapes = {tuple(collator(length)["labels"].shape) for length in recorded}
    assert shapes == {(8, end) for end in advice.chosen.buckets[0]}
    assert all(value.shape == collator(lengths[0])["labels"].shape for value in collator(lengths[0], 3).values())


class WithTokenizer:
    """A collator of any arguments that has a tokenizer."""

    tokenizer = Tokenizer()

    def __init__(self, call: Any) -> None:
        self.call = call

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


def test_a_trainer_learns_the_same_with_fewer_shapes(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch_xla") is None:  # never loaded into the process that runs the tests
        pytest.skip("needs torch_xla")
    environment = {**clean_environment(), "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    plain, padded = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert plain["losses"] == pytest.approx(padded["losses"], rel=2e-4)
    assert len(plain["losses"]) == 5
    assert len(plain["shapes"]) > 2
    assert padded["shapes"] == [[4, 24]]
    assert padded["compiles"] < plain["compiles"]


class Masked:
    """A collator whose chance masked no token."""

    def __call__(self, texts: list[list[int]]) -> dict[str, Any]:
        ids = torch.tensor(texts)
        return {"input_ids": ids, "labels": torch.full_like(ids, -100)}


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [([[2, 7, 9], [5, 6, 7]], [[-100, 7, -100], [-100] * 3]), ([[2, 3, 2]], [[-100] * 3])],
)
def test_a_batch_without_a_masked_token_still_teaches_one(tokens: list[list[int]], labels: list[list[int]]) -> None:
    from xla_insight.runner.batches import SomethingToLearn

    tokenizer = Tokenizer()
    tokenizer.all_special_ids = [2, 3]  # type: ignore[attr-defined]
    batch = SomethingToLearn(Masked(), tokenizer)(tokens)
    assert (batch["input_ids"].tolist(), batch["labels"].tolist()) == (tokens, labels)
