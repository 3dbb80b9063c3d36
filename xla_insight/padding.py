"""`BucketCollator`: pads what a collator returns to a few fixed sizes, so that few graphs are compiled.

Wraps any collator of Hugging Face or of a plain ``DataLoader``. What it adds changes nothing that is learned: every
field is filled with the value that its readers ignore, and rows that fill up a last batch carry no label. Owns padding
only; which sizes are best comes from ``xla-insight shapes``. Needs torch when it is called, not when it is imported.
"""

from __future__ import annotations

import copy
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

Dimension = tuple[str, int]
Key = str | tuple[Any, ...]
"""A field, a (field, dimension) pair, or several of these; a field alone means its dimension 1."""

IGNORED_LABEL = -100
"""What loss functions of torch and transformers ignore."""


class BucketCollator:
    """A collator whose batches have one of a few sizes.

    ``buckets`` maps fields to the sizes they may have: ``{"input_ids": [48, 96]}``, with a tuple of fields for those
    that move together, and ``("mask", 2)`` for another dimension than 1. When it names a single field, every field of
    the same size there is padded along. A batch larger than the largest size is left as it is. ``rows`` fills a smaller
    batch up to so many rows. ``pad_values`` overrides what a field is filled with. ``side`` is where padding goes;
    the right side leaves the positions of tokens alone, also for a tokenizer that pads left.

    Fields are filled by name: ``attention_mask`` and other masks 0 (an additive float mask its lowest number),
    ``labels`` -100, ``input_ids`` the tokenizer's pad token, ``special_tokens_mask`` 1, all others 0. Added rows repeat
    the first one with labels -100. Raises ValueError where the right value cannot be known.
    """

    def __init__(
        self,
        collator: Callable[..., Any],
        buckets: Mapping[Any, Sequence[int]] | None = None,
        *,
        rows: int | None = None,
        pad_values: Mapping[str, float] | None = None,
        side: Literal["right", "left"] = "right",
    ) -> None:
        if side not in ("right", "left"):
            raise ValueError(f"side is 'right' or 'left', not {side!r}")
        self.collator = collator
        self.rows = rows
        self.pad_values = {_name(name): value for name, value in (pad_values or {}).items()}
        self.side = side
        self._groups = [(_members(key), _sizes(key, ends)) for key, ends in (buckets or {}).items()]
        self._follow = len(self._groups) == 1 and isinstance(next(iter(buckets or ())), str)
        self._warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the wrapped collator returns for the same arguments, padded."""
        batch = self.collator(*args, **kwargs)
        fields = dict(_fields(batch))
        count = next((int(value.shape[0]) for value in fields.values() if value.dim()), 0)
        self._check(fields)
        for members, ends in self._groups:
            for name, dimension, size in self._targets(members, ends, fields):
                fields[name] = self._pad(name, fields[name], dimension, size)
        if self.rows is not None and 0 < count < self.rows:
            for name, value in fields.items():
                if value.dim() and value.shape[0] == count:
                    fields[name] = self._fill(name, value, self.rows - count)
        return _rebuilt(batch, fields)

    def __getattr__(self, name: str) -> Any:
        """The wrapped collator's attributes, for code that looks for a tokenizer there."""
        if name.startswith("_") or name == "collator":
            raise AttributeError(name)
        return getattr(self.collator, name)

    def _check(self, fields: Mapping[str, Any]) -> None:
        wanted = {name for members, _ in self._groups for name, _ in members}
        if wanted and not wanted & set(fields):
            raise ValueError(
                f"buckets are given for {', '.join(sorted(wanted))}, but the batch has"
                f" {', '.join(sorted(fields)) or 'no tensors'}: name its fields"
            )
        masked = any(name.endswith("mask") for name in fields)
        if "input_ids" in wanted & set(fields) and not masked and not self._warned:
            self._warned = True
            warnings.warn(
                "the batch has no attention_mask, so a model that looks both ways will take padding for tokens;"
                " let the collator return one",
                stacklevel=3,
            )

    def _targets(
        self, members: Sequence[Dimension], ends: Sequence[int], fields: Mapping[str, Any]
    ) -> Iterator[tuple[str, int, int]]:
        """Each (field, dimension) to pad, with the size to pad it to."""
        present = [(name, dim) for name, dim in members if name in fields and fields[name].dim() > dim]
        if not present:
            return
        size = max(int(fields[name].shape[dim]) for name, dim in present)
        place = bisect_left(ends, size)
        if place == len(ends):
            return
        if self._follow:
            lead, along = present[0]
            others = [(name, along) for name, value in fields.items() if name != lead and value.dim() > along]
            present += [(name, along) for name, along in others if fields[name].shape[along] == size]
        for name, dim in present:
            yield name, dim, ends[place]

    def _pad(self, name: str, value: Any, dimension: int, size: int) -> Any:
        import torch

        missing = size - int(value.shape[dimension])
        if missing <= 0:
            return value
        shape = list(value.shape)
        shape[dimension] = missing
        filling = value.new_full(shape, self._value(name, value, dimension))
        parts = [value, filling] if self.side == "right" else [filling, value]
        return torch.cat(parts, dim=dimension)

    def _fill(self, name: str, value: Any, missing: int) -> Any:
        """``value`` with rows that repeat the first one; a label among them is ignored."""
        import torch

        added = value[:1].expand(missing, *value.shape[1:])
        if _is_label(name):
            added = torch.full_like(added, self._value(name, value, 0))
        return torch.cat([value, added], dim=0)

    def _value(self, name: str, value: Any, dimension: int) -> Any:
        """What a field is filled with."""
        import torch

        if name in self.pad_values:
            return self.pad_values[name]
        whole = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
        if _is_label(name):
            if not whole:
                raise ValueError(
                    f"{name} holds {value.dtype}, which has no number that a loss ignores: give"
                    f" pad_values={{{name!r}: …}}, or drop the last batch (drop_last=True) instead of filling it up"
                )
            return IGNORED_LABEL
        if name.endswith("input_ids"):
            return self._token(name)
        if name.endswith("mask"):
            additive = value.is_floating_point() and value.dim() > 2 and dimension == value.dim() - 1
            return torch.finfo(value.dtype).min if additive else int(name == "special_tokens_mask")
        if name.endswith("token_type_ids"):
            return getattr(self._tokenizer(), "pad_token_type_id", None) or 0
        return 0

    def _token(self, name: str) -> int:
        found = getattr(self._tokenizer(), "pad_token_id", None)
        if found is None:
            raise ValueError(f"no pad token is known for {name}: give pad_values={{{name!r}: tokenizer.pad_token_id}}")
        return int(found)

    def _tokenizer(self) -> Any:
        """The tokenizer of the wrapped collator, if it has one."""
        for name in ("tokenizer", "processing_class", "processor"):
            found = getattr(self.collator, name, None)
            if found is not None:
                return getattr(found, "tokenizer", found)
        return None


def _is_label(name: str) -> bool:
    return name in ("label", "label_ids") or name.endswith("labels")


def _members(key: Key) -> tuple[Dimension, ...]:
    """The dimensions that a key of ``buckets`` names."""
    if isinstance(key, str):
        return ((_name(key), 1),)
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], int):
        return ((_name(key[0]), key[1]),)
    if isinstance(key, tuple) and key:
        return tuple(member for part in key for member in _members(part))
    raise ValueError(f"a key of buckets is a field, (field, dimension), or a tuple of these, not {key!r}")


def _name(key: str) -> str:
    """A field as the recording calls it; of a batch without names, ``[0]`` is short for ``batch[0]``."""
    return f"batch{key}" if key.startswith("[") else key


def _sizes(key: Key, ends: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(sorted({int(end) for end in ends}))
    if not sizes or sizes[0] < 1:
        raise ValueError(f"the buckets of {key!r} are at least one size, each 1 or more, not {list(ends)!r}")
    return sizes


def _fields(batch: Any) -> Iterator[tuple[str, Any]]:
    """The tensors of a batch by name: keys of a mapping, places of a sequence (``batch[0]``), or ``batch`` itself."""
    if isinstance(batch, Mapping):
        pairs: Iterator[tuple[str, Any]] = ((str(name), value) for name, value in batch.items())
    elif isinstance(batch, list | tuple):
        pairs = ((f"batch[{place}]", value) for place, value in enumerate(batch))
    else:
        pairs = iter([("batch", batch)])
    return ((name, value) for name, value in pairs if hasattr(value, "new_full"))


def _rebuilt(batch: Any, fields: Mapping[str, Any]) -> Any:
    """A batch of the same type with these tensors; what was no tensor stays."""
    if isinstance(batch, Mapping):
        result = copy.copy(batch)
        for name in batch:
            if str(name) in fields:
                result[name] = fields[str(name)]  # type: ignore[index]
        return result
    if isinstance(batch, list | tuple):
        values = [fields.get(f"batch[{place}]", value) for place, value in enumerate(batch)]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return fields.get("batch", batch)
