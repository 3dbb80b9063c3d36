"""Element types: XLA's numbers and names, and how constants of each type are stored.

Owns nothing but the table.
"""

from __future__ import annotations

# Position = number of the type in XLA's protos.
PRIMITIVE_NAMES: tuple[str, ...] = (
    "invalid", "pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "tuple", "opaque",
    "c64", "bf16", "token", "c128", "f8e5m2", "f8e4m3fn", "s4", "u4", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz",
    "s2", "u2", "f8e4m3", "f8e3m4", "s1", "u1", "f4e2m1fn", "f8e8m0fnu", "buffer",
)  # fmt: skip

KNOWN_DTYPES = frozenset(PRIMITIVE_NAMES)

# Types whose elements numpy can hold; bf16 is widened to f32 by the reader of literals.
NUMPY_DTYPES: dict[str, str] = {
    "pred": "?", "s8": "i1", "s16": "<i2", "s32": "<i4", "s64": "<i8", "u8": "u1", "u16": "<u2", "u32": "<u4",
    "u64": "<u8", "f16": "<f2", "f32": "<f4", "f64": "<f8", "c64": "<c8", "c128": "<c16", "bf16": "<f4",
}  # fmt: skip


def primitive_name(number: int) -> str:
    """Name of a type by its number in XLA's protos; numbers newer than this table become "type<number>"."""
    return PRIMITIVE_NAMES[number] if 0 <= number < len(PRIMITIVE_NAMES) else f"type{number}"
