"""Values of constants, read from protos and from text into one comparable form.

Owns ``Literal`` values: which bytes identify one, which elements are kept, how it is shown.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import numpy as np

from xla_insight.graph.dtypes import NUMPY_DTYPES, primitive_name
from xla_insight.graph.model import Literal, Shape

MAX_VALUES = 64
_SHOWN = 8
_NAN = float("nan")

# Fields of LiteralProto that hold packed elements as bytes, and those that hold numbers.
_BYTE_FIELDS = {
    "pred": "preds", "u8": "u8s", "s8": "s8s", "f32": "f32s", "f64": "f64s", "f16": "f16s", "bf16": "bf16s",
    "c64": "c64s", "c128": "c128s", "u16": "u16s", "s16": "s16s",
}  # fmt: skip
_NUMBER_FIELDS = {"s32": "s32s", "s64": "s64s", "u32": "u32s", "u64": "u64s"}

_NUMBER = re.compile(r"[-+]?(?:nan|inf|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|true|false")
_COMMENT = re.compile(r"/\*.*?\*/")

Array = np.ndarray[Any, np.dtype[Any]]


def literal_from_proto(message: Any, serialized: bytes) -> Literal:
    """The value of a LiteralProto. Raises ValueError when its data do not fit its type."""
    dtype = primitive_name(message.shape.element_type)
    if dtype in _BYTE_FIELDS:
        data = getattr(message, _BYTE_FIELDS[dtype])
        if dtype == "bf16":
            return _from_array(dtype, (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4"))
        return _from_array(dtype, np.frombuffer(data, NUMPY_DTYPES[dtype]))
    if dtype in _NUMBER_FIELDS:
        return _from_array(dtype, np.array(getattr(message, _NUMBER_FIELDS[dtype]), NUMPY_DTYPES[dtype]))
    return Literal(None, _digest(dtype, serialized), f"{dtype} …")


def literal_from_text(shape: Shape, text: str) -> Literal:
    """The value written as ``constant(text)`` in HLO text. Raises ValueError when it is no number of that type."""
    if "..." in text:
        return Literal(None, b"", "{…}")
    if shape.dtype not in NUMPY_DTYPES or shape.dtype in ("c64", "c128"):
        return Literal(None, _digest(shape.dtype, text.encode()), text[:80])
    words = _NUMBER.findall(_COMMENT.sub("", text))
    if shape.dtype == "pred":
        return _from_array("pred", np.array([word in ("true", "1") for word in words], "?"))
    if shape.dtype[0] in "su":
        return _from_array(shape.dtype, np.array([int(word) for word in words], NUMPY_DTYPES[shape.dtype]))
    values = np.array([float(word) for word in words], NUMPY_DTYPES[shape.dtype])
    return _from_array(shape.dtype, _round_to_bf16(values) if shape.dtype == "bf16" else values)


def literal_from_number(dtype: str, text: str) -> Literal:
    """The value of ``prim::Constant, value=text`` in IR text; text that is no number is kept as it is."""
    try:
        return literal_from_text(Shape(dtype), text)
    except (ValueError, OverflowError):
        return Literal(None, _digest(dtype, text.encode()), text[:80])


def _round_to_bf16(values: Array) -> Array:
    """Round f32 values to the nearest bf16 (ties to even), as XLA does when it reads a number."""
    bits = values.view("<u4")
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype("<u4").view("<f4")
    return np.where(np.isnan(values), values, rounded).astype("<f4")


def _from_array(dtype: str, array: Array) -> Literal:
    if array.dtype.kind == "f":
        # A NaN has many bit patterns and one text.
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array).astype(array.dtype)
    digest = _digest(dtype, array.tobytes())
    values = tuple(_short(value) for value in array[:MAX_VALUES])
    shown = ", ".join(_show(value) for value in values[:_SHOWN])
    if array.size != 1:
        shown = "{" + shown + (", …}" if array.size > _SHOWN else "}")
    return Literal(values if array.size <= MAX_VALUES else None, digest, shown)


def _short(value: Any) -> float | int | bool | complex:
    """The number a person wrote: 0.1 for the f32 that is 0.10000000149."""
    if isinstance(value, np.floating):
        # One object for all: tuples compare by identity first, and a NaN equals nothing else.
        return _NAN if np.isnan(value) else float(str(value))
    result: float | int | bool | complex = value.item()
    return result


def _show(value: float | int | bool | complex) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def _digest(dtype: str, data: bytes) -> bytes:
    return blake2b(dtype.encode() + b":" + data, digest_size=12).digest()
