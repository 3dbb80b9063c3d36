"""Parts of the workloads that need tokenizers, datasets or transformers, but no XLA device."""

from __future__ import annotations

import errno
import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from xla_insight.errors import InsightError, TrainingDataError, UsageError
from xla_insight.runner import text, tokens

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
    "vocab_size": 200, "max_position_embeddings": 48, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from xla_insight.runner.model_building import as_pretrained

    paragraphs = [paragraph for number, paragraph in enumerate(text.demo_text()) if number % 50 == 0]
    return as_pretrained(tokens.train_unigram(paragraphs, 200))


def test_special_tokens_have_the_ids_of_roberta(tokenizer: Any) -> None:
    assert [tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id] == [0, 1, 2]
    assert tokenizer.mask_token_id == 4 and len(tokenizer) <= 200
    found = list(tokens.encoded(tokenizer.backend_tokenizer, ["the value", "", "a name"]))
    assert [len(ids) > 0 for ids in found] == [True, False, True]
    assert tokenizer.decode(found[0]).strip() == "the value"


def test_too_little_text_is_one_error() -> None:
    with pytest.raises(TrainingDataError, match="there is no text"):
        tokens.train_unigram([], 100)
    with pytest.raises(TrainingDataError, match="no tokenizer of 4 pieces"):
        tokens.train_unigram(["hello world"] * 3, 4)


def batch_of(tokenizer: Any, padding: str, sizes: list[int], lengths: tuple[int, ...], rows: int) -> dict[str, Any]:
    from xla_insight.runner.batches import collator_for

    torch.manual_seed(0)
    features = [{"input_ids": [10 + place % 50 for place in range(length)]} for length in lengths]
    found: dict[str, Any] = collator_for(tokenizer, padding, sizes, rows)(features)
    return found


def test_each_way_of_padding(tokenizer: Any) -> None:
    fixed = batch_of(tokenizer, "fixed", [16], (16, 16), 4)
    assert {name: tuple(value.shape) for name, value in fixed.items()} == {"input_ids": (4, 16), "labels": (4, 16)}
    assert fixed["labels"][2:].eq(-100).all()
    dynamic = batch_of(tokenizer, "dynamic", [32], (9, 12), 4)
    assert {tuple(value.shape) for value in dynamic.values()} == {(2, 16)}
    padded = batch_of(tokenizer, "buckets", [16, 32], (9, 12), 4)
    assert tuple(padded["input_ids"].shape) == (4, 16)
    assert tuple(padded["attention_mask"].shape) == (4, 1, 1, 16) and padded["attention_mask"].dtype == torch.bool
    assert tuple(batch_of(tokenizer, "max", [32], (9, 12), 2)["input_ids"].shape) == (2, 32)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_wide_mask_learns_the_same_and_is_not_read(
    kind: str, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **SIZES, pad_token_id=1)
    model = transformers.AutoModelForMaskedLM.from_config(config)
    batch = batch_of(tokenizer, "buckets", [16], (9, 12), 2)
    plain = {**batch, "attention_mask": batch["attention_mask"][:, 0, 0].long()}
    expected = model(**plain).loss.item()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the mask was looked at in Python")

    monkeypatch.setattr(transformers.masking_utils, "_ignore_bidirectional_mask_sdpa", refuse)
    assert model(**batch).loss.item() == pytest.approx(expected, rel=1e-5)


def test_models_come_from_names_files_and_folders(tokenizer: Any, tmp_path: Path) -> None:
    from xla_insight.runner.model_building import build_model, load_config, tokenizer_for

    sizes = {name: load_config(name) for name in ("bert-large-uncased", "roberta-base")}
    large, base = sizes["bert-large-uncased"], sizes["roberta-base"]
    assert (large.num_hidden_layers, large.hidden_size, large.vocab_size) == (24, 1024, 30522)
    assert (base.num_hidden_layers, base.hidden_size, base.vocab_size, base.max_position_embeddings) == (
        12,
        768,
        50265,
        514,
    )

    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "roberta", **SIZES, "pad_token_id": 1}))
    config = load_config(str(file))
    model = build_model(str(file), config, tokenizer, 32)
    with pytest.raises(UsageError, match="room for 46 tokens, not for 47"):
        build_model(str(file), config, tokenizer, 47)
    small = load_config(str(file))
    small.vocab_size = 10
    with pytest.raises(UsageError, match="pieces"):
        build_model(str(file), small, tokenizer, 32)

    folder = tmp_path / "model"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    again = build_model(str(folder), load_config(str(folder)), tokenizer, 32)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
    assert tokenizer_for(str(folder), config, []).get_vocab() == tokenizer.get_vocab()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(TrainingDataError, match=r"the weights of .* cannot be loaded"):
        build_model(str(folder), load_config(str(folder)), tokenizer, 32)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"model_type": "no such"}'])
def test_no_model_is_one_error(content: str, tmp_path: Path) -> None:
    from xla_insight.runner.model_building import load_config

    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UsageError, match=r"no model .*neither built in"):
        load_config(str(tmp_path / "config.json"))


def test_data_sets_of_a_folder(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"text": ["one", "", "two"], "label": [1, 2, 3]})
    rows.save_to_disk(tmp_path / "saved")
    assert list(text.documents([str(tmp_path / "saved")])) == ["one", "two"]
    datasets.DatasetDict({"train": rows}).save_to_disk(tmp_path / "splits")
    assert list(text.documents([str(tmp_path / "splits")])) == ["one", "two"]
    datasets.Dataset.from_dict({"label": [1]}).save_to_disk(tmp_path / "none")
    with pytest.raises(TrainingDataError, match="no column named text"):
        list(text.documents([str(tmp_path / "none")]))
    (tmp_path / "saved" / "state.json").write_text("{")
    with pytest.raises(InsightError, match="cannot read the data set"):
        list(text.documents([str(tmp_path / "saved")]))


def test_a_checkpoint_that_another_thread_could_not_write_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch_xla")
    from xla_insight.runner.spmd_train import Checkpoints

    class Manager:
        """Fails from the second one on; the last one is still being written."""

        def __init__(self) -> None:
            self._async_futures: list[Future[None]] = []

        def save_async(self, step: int, state: Any, force: bool) -> None:
            future: Future[None] = Future()
            if step < 4:
                fails = step > 1
                future.set_exception(OSError(errno.ENOSPC, "No space left on device") if fails else None)
            self._async_futures.append(future)

    checkpoints = Checkpoints.__new__(Checkpoints)
    checkpoints._manager, checkpoints._told = Manager(), False
    model = torch.nn.Linear(1, 1)
    said = []
    for step in range(1, 5):
        checkpoints.after(step, model, torch.optim.SGD(model.parameters()), last=False)
        said.append(capsys.readouterr().err)
    assert said[0] == said[2] == said[3] == "" and "1 of 2 checkpoints could not be written: OSError" in said[1]
    assert "No space left on device; the training goes on" in said[1]
    assert checkpoints._failures().startswith("2 of 3 checkpoints could not be written")
