"""Conversion of VHLO's versioned operations, which portable artifacts contain, to operations of StableHLO.

Source: VHLO's operation definitions, and their conversion to StableHLO.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lowering.mlir_bindings import MlirDiagnosticError
from lowering.module_tree import Operation
from lowering.syntax.attributes import NAMED_NUMBERS, FunctionType
from lowering.syntax.definitions import DEFINITIONS

__all__ = ["unversioned_operation", "versioned_attributes"]

_NAME = re.compile(r"vhlo\.(.+)_v([12])")
_CONVOLUTION = (
    "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
    "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions",
    "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions",
)  # fmt: skip
_ALGORITHM = (
    "accumulation_type", "allow_imprecise_accumulation", "lhs_component_count", "lhs_precision_type",
    "num_primitive_operations", "rhs_component_count", "rhs_precision_type",
)  # fmt: skip
_GATHER = NAMED_NUMBERS["#stablehlo.gather"]
_SCATTER = NAMED_NUMBERS["#stablehlo.scatter"]
_NUMBERS = {
    "convolution": ("dimension_numbers", _CONVOLUTION),
    "dot_general": ("dot_dimension_numbers", NAMED_NUMBERS["#stablehlo.dot"]),
    "dynamic_conv": ("dimension_numbers", _CONVOLUTION),
    "dynamic_gather": ("dimension_numbers", _GATHER),
    "gather": ("dimension_numbers", _GATHER),
    "scatter": ("scatter_dimension_numbers", _SCATTER),
}
"""The name and fields of the attribute with dimension numbers, by operation; in VHLO each field is an attribute."""
_PRINTED = {"scattered_dims_to_operand_dims": "scatter_dims_to_operand_dims"}
_SECOND = frozenset({
    "operand_batching_dims", "start_indices_batching_dims", "input_batching_dims",
    "scatter_indices_batching_dims", "result_accuracy", "source_target_pairs",
    "has_dynamic_root",
})  # fmt: skip
"""Attributes that an operation has from its second version on."""
_FIRST = {
    "collective_permute": frozenset({"source_target_pairs"}),
    "collective_reduce": frozenset({"has_dynamic_root"}),
}
"""Exceptions to `_SECOND`: attributes that the first version of these operations already has."""
_RENAMED = {"func": "func.func", "call": "func.call"}

_LISTS = frozenset({
    "base_dilations", "broadcast_dimensions", "broadcast_sizes", "dimensions", "edge_padding_high",
    "edge_padding_low", "fft_length", "interior_padding", "known_expanding_dimensions",
    "known_nonexpanding_dimensions", "lhs_dilation", "limit_indices", "permutation", "rhs_dilation",
    "slice_sizes", "start_indices", "strides", "window_dilations", "window_dimensions", "window_reversal",
    "window_strides",
})  # fmt: skip
"""Attributes that the tree represents by tuples of numbers; VHLO stores them as arrays."""
_ONES = frozenset(
    {"base_dilations", "lhs_dilation", "rhs_dilation", "window_dilations", "window_strides"}
)
_OFTEN_ABSENT: dict[str, tuple[Any, ...]] = {
    "api_version": (1,),
    "arg_attrs": ((),),
    "backend_config": ("", {}),
    "called_computations": ((),),
    "compare_type": ("NOTYPE",),
    "composite_attributes": ({},),
    "has_dynamic_root": (False,),
    "has_side_effect": (False,),
    "indices_are_sorted": (False,),
    "is_host_transfer": (False,),
    "is_stable": (False,),
    "known_expanding_dimensions": ((),),
    "known_nonexpanding_dimensions": ((),),
    "layout": ((),),
    "output_operand_aliases": ((),),
    "res_attrs": ((),),
    "result_accuracy": (
        "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>",
    ),
    "sym_visibility": ("",),
    "unique_indices": (False,),
    "use_global_device_ids": (False,),
    "version": (0,),
}
"""Values of VHLO's attributes, by name, that are written if the attribute is absent in StableHLO."""


def versioned_attributes(name: str) -> tuple[str, ...]:
    """Return the names of the attributes of a versioned operation, in alphabetical order.

    Raises:
        MlirDiagnosticError: VHLO has no operation of this name.
    """
    match = _NAME.fullmatch(name)
    title = match[1] if match else ""
    definition = DEFINITIONS.get(_RENAMED.get(title, f"stablehlo.{title}"))
    if match is None or definition is None:
        raise MlirDiagnosticError([(f"unknown operation {name}", "bytecode")])
    version = int(match[2])
    if title == "call":
        return ("callee",)
    names = {item for item, _ in definition.attributes} - {"no_inline", "algorithm"}
    numbers, fields = _NUMBERS.get(title, ("", ()))
    names.discard(numbers)
    names |= {_PRINTED.get(item, item) for item in fields}
    if "channel_handle" in names:
        names.remove("channel_handle")
        names |= {"channel_id", "channel_type"} if title in ("send", "recv") else {"channel_id"}
    if version == 1:
        names -= _SECOND - _FIRST.get(title, frozenset())
        names |= {"padding"} if title == "dynamic_conv" else set()
    if title == "dot_general" and version > 1:
        names |= set(_ALGORITHM)
    return tuple(sorted(names))


def unversioned_operation(operation: Operation, parent: str) -> None:
    """Replace the name and attributes of a versioned operation by those of StableHLO's operation, in place.

    Args:
        parent: the name of the enclosing operation.

    Raises:
        MlirDiagnosticError: StableHLO has no corresponding operation.
    """
    match = _NAME.fullmatch(operation.name)
    title = match[1] if match else ""
    if title == "return":
        operation.name = "func.return" if parent == "func.func" else "stablehlo.return"
        return
    operation.name = _RENAMED.get(title, f"stablehlo.{title}")
    if operation.name not in DEFINITIONS:
        raise MlirDiagnosticError([(f"unknown operation vhlo.{title}", operation.location)])
    given = operation.attributes
    attributes: dict[str, Any] = {}
    if title in _NUMBERS:
        name, fields = _NUMBERS[title]
        attributes[name] = {field: _number(given, field) for field in fields}
    for name, value in given.items():
        if name in _LISTS and isinstance(value, np.ndarray):
            value = tuple(value.reshape(-1).tolist())
        attributes[name] = value
    if title in _NUMBERS:
        for field in _NUMBERS[title][1]:
            attributes.pop(_PRINTED.get(field, field), None)
    _join_channel(title, attributes)
    _join_algorithm(title, attributes)
    _drop_absent(title, attributes)
    operation.attributes = attributes


def _number(given: dict[str, Any], field: str) -> Any:
    value = given.get(_PRINTED.get(field, field), ())
    return tuple(value.reshape(-1).tolist()) if isinstance(value, np.ndarray) else value


def _join_channel(title: str, attributes: dict[str, Any]) -> None:
    if "channel_id" not in attributes:
        return
    handle = attributes.pop("channel_id")
    kind = attributes.pop("channel_type", 0)
    if handle or title in ("send", "recv"):
        attributes["channel_handle"] = (
            f"#stablehlo.channel_handle<handle = {handle}, type = {kind}>"
        )


def _join_algorithm(title: str, attributes: dict[str, Any]) -> None:
    if title != "dot_general" or "lhs_precision_type" not in attributes:
        return
    parts = {name: attributes.pop(name) for name in _ALGORITHM}
    if parts["lhs_precision_type"] == "none":
        return
    is_imprecise = "true" if parts["allow_imprecise_accumulation"] else "false"
    attributes["algorithm"] = (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {parts['lhs_precision_type']}, "
        f"rhs_precision_type = {parts['rhs_precision_type']}, accumulation_type = {parts['accumulation_type']}, "
        f"lhs_component_count = {parts['lhs_component_count']}, "
        f"rhs_component_count = {parts['rhs_component_count']}, "
        f"num_primitive_operations = {parts['num_primitive_operations']}, "
        f"allow_imprecise_accumulation = {is_imprecise}>"
    )


def _drop_absent(title: str, attributes: dict[str, Any]) -> None:
    """Remove each attribute of a VHLO operation whose value means that the attribute is absent in StableHLO."""
    for name, value in list(attributes.items()):
        if isinstance(value, FunctionType) and name != "function_type":
            attributes[name] = value.text
        elif _is_absent(title, name, value):
            del attributes[name]
    if attributes.get("operand_layouts") == () and attributes.get("result_layouts") == ():
        del attributes["operand_layouts"], attributes["result_layouts"]


def _is_absent(title: str, name: str, value: Any) -> bool:
    if name in _OFTEN_ABSENT:
        return any(value == item for item in _OFTEN_ABSENT[name])
    if name in _ONES:
        return isinstance(value, tuple) and all(item == 1 for item in value)
    match name:
        case "window_reversal":
            return not any(value)
        case "source_target_pairs":
            return not np.size(value)
        case "padding":
            return isinstance(value, np.ndarray) and not value.any()
        case "precision_config":
            return all(item == "DEFAULT" for item in value)
        case "dimension":
            return title == "sort" and value == -1
        case "lower":
            return title == "cholesky" and value is False
        case _:
            return False
