"""Inference of the result types of tenferro's ops and of StableHLO operations.

Source: StableHLO spec, the constraints of each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowering.operations import Value
from tenferro.dims import GuardLog, is_static
from tenferro.errors import InvalidConfigError
from tenferro.ops import StdTensorOp
from tenferro.ops.extension import Extension
from tenferro.rules.shapes import same_type
from tenferro.types import DType, TensorSpec

__all__ = ["agree", "result_of", "result_type", "result_types"]


def result_types(op: Any, operands: Sequence[Value]) -> tuple[TensorSpec, ...]:
    """Return the types of all outputs of a standard or extension op for these operands."""
    typed = op if isinstance(op, StdTensorOp) else Extension(op)
    return typed.infer(*[operand.spec for operand in operands])


def result_type(op: Any, *operands: Value) -> TensorSpec:
    """Return the type of an op's single output for these operands."""
    (spec,) = result_types(op, operands)
    return spec


def result_of(name: str, operands: Sequence[Value], result: TensorSpec | None = None) -> TensorSpec:
    """Return the result type of the operation `stablehlo.<name>`.

    The type is inferred for elementwise operations. For all other operations, the caller must pass the type as
    `result`.

    Raises:
        DTypeError, ShapeError: the operands of an elementwise operation have different types.
        InvalidConfigError: the operation is not elementwise and `result` is None, or `result` differs from the inferred
            type.
    """
    dtype_of = _ELEMENTWISE.get(name)
    if dtype_of is None:
        if result is None:
            raise InvalidConfigError(
                f"stablehlo.{name}: its operands ({_types(operands)}) do not determine its type; "
                "give result="
            )
        return result
    # Two different symbols count as equal here. When the module runs, it asserts the program's guards, which check that
    # such symbols are equal.
    common = same_type(f"stablehlo.{name}", [operand.spec for operand in operands], GuardLog())
    dtype = dtype_of(common.dtype)
    inferred = common if dtype is common.dtype else TensorSpec.of(common.shape, dtype)
    if result is not None and not agree(result, inferred):
        raise InvalidConfigError(
            f"stablehlo.{name}: its type on ({_types(operands)}) is {inferred}, got result={result}"
        )
    return inferred if result is None else result


def agree(one: TensorSpec, other: TensorSpec) -> bool:
    """Return whether two types are equal; a symbolic extent counts as equal to every extent."""
    return one == other or (
        one.dtype is other.dtype
        and one.rank == other.rank
        and all(
            n == m or not (is_static(n) and is_static(m))
            for n, m in zip(one.shape, other.shape, strict=True)
        )
    )


def _types(operands: Sequence[Value]) -> str:
    return ", ".join([str(operand.spec) for operand in operands])


_SAME_TYPE = [
    "add", "and", "atan2", "cbrt", "ceil", "cosine", "count_leading_zeros", "divide", "exponential",
    "exponential_minus_one", "floor", "log", "log_plus_one", "logistic", "maximum", "minimum", "multiply",
    "negate", "not", "or", "popcnt", "power", "remainder", "round_nearest_afz", "round_nearest_even", "rsqrt",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sine", "sqrt", "subtract", "tan",
    "tanh", "xor",
]  # fmt: skip

_ELEMENTWISE: Mapping[str, Callable[[DType], DType]] = {
    **dict.fromkeys(_SAME_TYPE, lambda dtype: dtype),
    **dict.fromkeys(("abs", "imag", "real"), lambda dtype: dtype.real),
    "complex": lambda dtype: dtype.complex,
    "is_finite": lambda dtype: DType.Bool,
}
"""Functions from the operands' dtype to the result's dtype, by the name of the elementwise StableHLO operation."""
