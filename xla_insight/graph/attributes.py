"""Attributes of HLO instructions in one notation, whether they come from a proto or from text.

Owns the readable names and values (those of HLO text, defaults left out) and which parts are no attributes at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from xla_insight.graph.model import Attributes
from xla_insight.graph.schema import message_class

_MESSAGE = message_class("HloAttributesProto")
_FIELDS = tuple(_MESSAGE.DESCRIPTOR.fields_by_name)
_DIMENSIONS_ALWAYS = frozenset({"broadcast", "reduce", "transpose", "concatenate", "reverse", "sort", "map"})
_DISTRIBUTIONS = ("rng_invalid", "rng_uniform", "rng_normal")
_ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")
_TRANSPOSES = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
_PRECISIONS = ("default", "high", "highest", "packed_nibble")
_FFT_TYPES = ("FFT", "IFFT", "RFFT", "IRFFT")
_API_VERSIONS = ("API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
                 "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI")  # fmt: skip

# Named computations and places stand elsewhere in the model; replication and scheduling notes are no computation.
CALLED_NAMES = frozenset({"to_apply", "calls", "condition", "body", "branch_computations", "true_computation",
                          "false_computation", "called_computations", "select", "scatter"})  # fmt: skip
_DROPPED_NAMES = CALLED_NAMES | {"metadata", "sharding", "control-predecessors", "parameter_replication", "origin",
                                 "statistics", "original_value"}  # fmt: skip
_DEFAULTS = frozenset({("feature_group_count", "1"), ("batch_group_count", "1"), ("is_stable", "false"),
                       ("indices_are_sorted", "false"), ("unique_indices", "false"), ("type", "FLOAT"),
                       ("type", "SIGNED"), ("type", "UNSIGNED"), ("operand_precision", "{default,default}"),
                       ("api_version", "API_VERSION_ORIGINAL")})  # fmt: skip
_TEXT_FIELDS = (("direction", "comparison_direction"), ("type", "comparison_type"), ("kind", "fusion_kind"))

Pairs = Iterator[tuple[str, str]]


def attributes_from_proto(opcode: str, serialized: bytes) -> Attributes:
    """Attributes of an instruction from the fields that ``HloInstructionProto`` does not declare."""
    message = _MESSAGE.FromString(serialized)
    pairs = [pair for render in (_general, _notes, _geometry, _numbering, _flags) for pair in render(opcode, message)]
    for field in _FIELDS:
        message.ClearField(field)
    return _make(pairs, message.SerializeToString())


def attributes_from_pairs(pairs: Iterable[tuple[str, str]]) -> Attributes:
    """Attributes from the ``name=value`` pairs of HLO text."""
    return _make([(name, value) for name, value in pairs if name not in _DROPPED_NAMES], b"")


def _make(pairs: list[tuple[str, str]], opaque: bytes) -> Attributes:
    return Attributes(tuple(sorted(pair for pair in pairs if pair not in _DEFAULTS)), opaque)


def braces(numbers: Iterable[int]) -> str:
    """``{1,0}``, as HLO text writes lists."""
    return "{" + ",".join(map(str, numbers)) + "}"


def _general(opcode: str, m: Any) -> Pairs:
    if opcode == "iota":
        yield "iota_dimension", str(m.dimensions[0] if m.dimensions else 0)
    elif m.dimensions or opcode in _DIMENSIONS_ALWAYS:
        yield "dimensions", braces(m.dimensions)
    if opcode == "get-tuple-element":
        yield "index", str(m.tuple_index)
    for name, field in _TEXT_FIELDS:
        if getattr(m, field):
            yield name, getattr(m, field)
    if any(m.precision_config.operand_precision):
        names = [_named(_PRECISIONS, number) for number in m.precision_config.operand_precision]
        yield "operand_precision", "{" + ",".join(names) + "}"
    if m.precision_config.algorithm:
        yield "algorithm", str(m.precision_config.algorithm)
    if m.custom_call_target:
        yield "custom_call_target", f'"{m.custom_call_target}"'
    if m.custom_call_api_version:
        yield "api_version", _named(_API_VERSIONS, m.custom_call_api_version)
    if opcode.startswith("batch-norm"):
        yield "epsilon", f"{m.epsilon:.7g}"
        yield "feature_index", str(m.feature_index)


def _notes(opcode: str, m: Any) -> Pairs:
    if m.backend_config:
        yield "backend_config", m.backend_config.decode(errors="replace")
    if m.frontend_attributes.map:
        inside = ",".join(f'{key}="{value}"' for key, value in sorted(m.frontend_attributes.map.items()))
        yield "frontend_attributes", "{" + inside + "}"


def _geometry(opcode: str, m: Any) -> Pairs:
    if opcode == "slice":
        yield "slice", "{" + ", ".join(_range(d) for d in m.slice_dimensions) + "}"
    if opcode == "dynamic-slice":
        yield "dynamic_slice_sizes", braces(m.dynamic_slice_sizes)
    if opcode == "pad":
        yield "padding", "x".join(_edge(d) for d in m.padding_config.dimensions)
    if m.HasField("window") and m.window.dimensions:
        yield "window", _window(m.window.dimensions)
    if m.HasField("convolution_dimension_numbers"):
        yield "dim_labels", _dim_labels(m.convolution_dimension_numbers)
    if opcode == "fft":
        yield "fft_type", _named(_FFT_TYPES, m.fft_type)
        yield "fft_length", braces(m.fft_length)


def _range(d: Any) -> str:
    return f"[{d.start}:{d.limit}]" if d.stride in (0, 1) else f"[{d.start}:{d.limit}:{d.stride}]"


def _edge(d: Any) -> str:
    text = f"{d.edge_padding_low}_{d.edge_padding_high}"
    return text + f"_{d.interior_padding}" if d.interior_padding else text


def _window(dimensions: Any) -> str:
    def row(name: str, values: list[str], default: str) -> str:
        return "" if all(value == default for value in values) else f" {name}={'x'.join(values)}"

    text = row("size", [str(d.size) for d in dimensions], "").strip()
    text += row("stride", [str(d.stride) for d in dimensions], "1")
    text += row("pad", [f"{d.padding_low}_{d.padding_high}" for d in dimensions], "0_0")
    text += row("lhs_dilate", [str(d.base_dilation) for d in dimensions], "1")
    text += row("rhs_dilate", [str(d.window_dilation) for d in dimensions], "1")
    text += row("rhs_reversal", [str(int(d.window_reversal)) for d in dimensions], "0")
    return "{" + text + "}"


def _dim_labels(n: Any) -> str:
    def side(special: dict[int, str], spatial: Any) -> str:
        labels = {dimension: str(i) for i, dimension in enumerate(spatial)} | special
        return "".join(labels[key] for key in sorted(labels))

    left = side({n.input_batch_dimension: "b", n.input_feature_dimension: "f"}, n.input_spatial_dimensions)
    kernel = side(
        {n.kernel_input_feature_dimension: "i", n.kernel_output_feature_dimension: "o"}, n.kernel_spatial_dimensions
    )
    out = side({n.output_batch_dimension: "b", n.output_feature_dimension: "f"}, n.output_spatial_dimensions)
    return f"{left}_{kernel}->{out}"


def _numbering(opcode: str, m: Any) -> Pairs:
    if m.HasField("dot_dimension_numbers"):
        d = m.dot_dimension_numbers
        yield from _lists(d, (("lhs_batch_dims", "lhs_batch_dimensions"), ("rhs_batch_dims", "rhs_batch_dimensions"),
                              ("lhs_contracting_dims", "lhs_contracting_dimensions"),
                              ("rhs_contracting_dims", "rhs_contracting_dimensions")), always=False)  # fmt: skip
    if m.HasField("gather_dimension_numbers"):
        g = m.gather_dimension_numbers
        yield from _lists(g, _same("offset_dims", "collapsed_slice_dims", "start_index_map"), always=True)
        yield from _lists(g, _same("operand_batching_dims", "start_indices_batching_dims"), always=False)
        yield "index_vector_dim", str(g.index_vector_dim)
        yield "slice_sizes", braces(m.gather_slice_sizes)
    if m.HasField("scatter_dimension_numbers"):
        s = m.scatter_dimension_numbers
        yield from _lists(
            s, _same("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"), always=True
        )
        yield from _lists(s, _same("input_batching_dims", "scatter_indices_batching_dims"), always=False)
        yield "index_vector_dim", str(s.index_vector_dim)
    groups = m.replica_groups or m.collective_device_list.replica_groups
    if groups:
        yield "replica_groups", "{" + ",".join(braces(group.replica_ids) for group in groups) + "}"
    elif m.collective_device_list.HasField("iota_replica_group_list"):
        yield "replica_groups", _iota_groups(m.collective_device_list.iota_replica_group_list)


def _iota_groups(iota: Any) -> str:
    text = f"[{iota.num_replica_groups},{iota.num_devices_per_group}]<={list(iota.iota_reshape_dims)}".replace(" ", "")
    order = list(iota.iota_transpose_perm)
    return text if order == sorted(order) else f"{text}T({','.join(map(str, order))})"


def _same(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in names)


def _lists(message: Any, names: tuple[tuple[str, str], ...], *, always: bool) -> Pairs:
    for shown, field in names:
        values = getattr(message, field)
        if values or always:
            yield shown, braces(values)


def _flags(opcode: str, m: Any) -> Pairs:
    for name in ("feature_group_count", "batch_group_count", "delta", "channel_id", "exponent_bits", "mantissa_bits"):
        if getattr(m, name):
            yield name, str(getattr(m, name))
    for name in ("is_stable", "indices_are_sorted", "unique_indices", "use_global_device_ids",
                 "custom_call_has_side_effect"):  # fmt: skip
        if getattr(m, name):
            yield name, "true"
    if m.distribution:
        yield "distribution", _named(_DISTRIBUTIONS, m.distribution)
    if opcode == "rng-bit-generator":
        yield "algorithm", _named(_ALGORITHMS, m.rng_algorithm)
    if m.HasField("cholesky_options") and opcode == "cholesky":
        yield "lower", "true" if m.cholesky_options.lower else "false"
    if m.HasField("triangular_solve_options") and opcode == "triangular-solve":
        options = m.triangular_solve_options
        yield from ((n, "true") for n in ("left_side", "lower", "unit_diagonal") if getattr(options, n))
        yield "transpose_a", _named(_TRANSPOSES, options.transpose_a)
    if opcode == "topk":
        yield "k", str(m.k)
        yield "largest", "true" if m.largest else "false"


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)
