"""Conversion of operands of `tenferro.lax`, which must have one dtype and one shape, except Python numbers.

Source: jax.lax, whose functions neither promote nor broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.api.creation import full
from tenferro.api.promotion import as_weak, convert, result_type
from tenferro.dispatch import as_operand, is_weak, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, DType

__all__ = ["axis_list", "same_dtype", "same_types"]


def same_dtype(name: str, *operands: ArrayLike) -> list[Any]:
    """Convert operands to tensors of one dtype. Python numbers take the dtype of the tensors.

    Raises:
        DTypeError: the tensors have different dtypes, or their dtype cannot represent a number.
    """
    tensors = [as_operand(x) for x in operands if not is_weak(x)]
    dtypes = list(dict.fromkeys(spec_of(x).dtype for x in tensors))
    if len(dtypes) > 1:
        raise DTypeError(
            f"lax.{name}: operands must have one dtype, got {', '.join(map(str, dtypes))}; convert them with "
            f"convert_element_type, or call a function of tnf, which promotes"
        )
    dtype = dtypes[0] if dtypes else result_type(*operands)
    return as_weak(operands, [_in_dtype(name, x, dtype) for x in operands])


def _in_dtype(name: str, x: ArrayLike, dtype: DType) -> Any:
    if not is_weak(x):
        return as_operand(x)
    if result_type(dtype, x) is not dtype:
        raise DTypeError(
            f"lax.{name}: operands must have one dtype, got {dtype} and the number {x!r}"
        )
    return convert(x, dtype)


def same_types(name: str, *operands: ArrayLike) -> list[Any]:
    """Convert operands to tensors, which must have equal dtypes and shapes. Tensors of rank 0 are broadcast.

    Raises:
        DTypeError, ShapeError: the dtypes or shapes differ.
    """
    tensors = same_dtype(name, *operands)
    shapes = list(dict.fromkeys(tuple(x.shape) for x in tensors if x.shape))
    if len(shapes) > 1:
        shown = ", ".join(str(spec_of(x)) for x in tensors)
        raise ShapeError(
            f"lax.{name}: operands must have one shape, or rank 0, got {shown}; use broadcast_in_dim, or a "
            f"function of tnf, which broadcasts"
        )
    return [full(shapes[0], x) if shapes and not x.shape else x for x in tensors]


def axis_list(name: str, what: str, axes: Any) -> tuple[int, ...]:
    """Return `axes`, a sequence of integers, as a tuple.

    Raises:
        InvalidConfigError: `axes` is a single integer.
    """
    if not isinstance(axes, Sequence) and not hasattr(axes, "__iter__"):
        raise InvalidConfigError(f"lax.{name}: {what} must be a sequence of integers, got {axes!r}")
    return tuple(axes)
