"""Broadcasting and promotion of operands, by the ops `BroadcastInDim` and `Convert`.

Dtypes are promoted as in NumPy 2. Two arrays are promoted to the smallest dtype that can represent both. A Python
number changes the dtype only if its kind (integer, float or complex) is higher. NumPy has no bfloat16; here it has the
rank of float16. Narrow dtypes are promoted only with bool and Python numbers, as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.dims import DimExpr, Extent, SymDim, UpperBound, is_exact, is_static
from tenferro.dispatch import PYTHON_SCALARS, apply_one, as_operand, is_traced, is_weak, spec_of
from tenferro.dispatch.tracing import apply_in_trace
from tenferro.errors import DTypeError, NonStaticShapeError, ShapeError
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.elementwise import Convert
from tenferro.ops.source import ShapeOf
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor

__all__ = [
    "as_inexact",
    "as_weak",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "convert",
    "inexact_dtype",
    "promote",
    "promote_dtypes",
    "promote_number",
    "result_type",
]

_DEFAULT = {"b": DType.Bool, "i": DType.I64, "f": DType.F64, "c": DType.C64}
_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_WEAK: dict[type, int] = {bool: 0, int: 1, SymDim: 1, float: 2, complex: 3}
"""Rank of the kind of each type of weak operand, as in `_RANK`. Weak operands are Python numbers and extents."""


def promote_dtypes(first: DType, second: DType) -> DType:
    """Return the smallest dtype that can represent the numbers of both dtypes.

    >>> promote_dtypes(DType.I32, DType.F32), promote_dtypes(DType.BF16, DType.F16)
    (DType.F64, DType.F32)

    Raises:
        DTypeError: one dtype is narrow, and the other is neither the same nor bool.
    """
    if first is second:
        return first
    if first.is_narrow or second.is_narrow:
        if DType.Bool in (first, second):
            return first if first.is_narrow else second
        raise DTypeError(
            f"{first} and {second} have no common dtype; convert one of them by astype"
        )
    if DType.BF16 in (first, second):
        partner = second if first is DType.BF16 else first
        if partner.is_bool or (partner.is_integer and partner.itemsize == 1):
            return DType.BF16
        return promote_dtypes(DType.F32, partner)
    return DType.of(np.promote_types(first.dtype, second.dtype))


def result_type(*operands: ArrayLike | DTypeLike) -> DType:
    """Return the common dtype of arrays, tensors, dtypes and Python numbers.

    >>> result_type(np.float32(1), 2.0), result_type(np.int8(1), 2), result_type(np.int32(1), 2.0)
    (DType.F32, DType.I8, DType.F64)
    >>> result_type(np.float32(1), 2j), result_type(np.int8(1), 2j)
    (DType.C32, DType.C64)

    Raises:
        DTypeError: there are no operands.
    """
    return common_dtype(*[DType.of(x) if isinstance(x, str) else x for x in operands])


def common_dtype(*operands: ArrayLike | DTypeLike) -> DType:
    """Return the common dtype, as `result_type` does. A string is an error, not the name of a dtype."""
    strong: DType | None = None
    weak = ""
    for operand in operands:
        x: Any = operand
        if type(x) in _WEAK:
            kind = DType.of(int if type(x) is SymDim else type(x)).kind
        elif is_weak(x):
            kind = x.dtype.kind
        else:
            dtype = x if isinstance(x, DType) else _dtype_of(x)
            strong = dtype if strong is None else promote_dtypes(strong, dtype)
            continue
        if not weak or _RANK[kind] > _RANK[weak]:
            weak = kind
    if strong is None:
        if not weak:
            raise DTypeError("result_type: needs at least one operand")
        return _DEFAULT[weak]
    if not weak or _RANK[weak] <= _RANK[strong.kind]:
        return strong
    if weak == "c" and strong.is_inexact:
        return strong.complex
    return _DEFAULT[weak]


def _dtype_of(operand: Any) -> DType:
    if isinstance(operand, type | np.dtype):
        return DType.of(operand)
    return spec_of(as_operand(operand)).dtype


def convert(x: ArrayLike, dtype: DType) -> Tensor:
    """Convert x to `dtype`. If x is a Python number, `dtype` must be able to represent it.

    Raises:
        DTypeError: `dtype` cannot represent a Python number, such as an integer out of range, NaN, an infinity or a
            complex number.
    """
    if type(x) in PYTHON_SCALARS:
        try:
            if dtype.is_narrow and dtype.is_integer and not _holds(dtype, x):
                raise OverflowError
            return np.array(x, dtype.dtype)
        except (OverflowError, TypeError, ValueError):
            raise DTypeError(f"the Python number {x!r} does not fit {dtype}") from None
    x = as_operand(x)
    return x if spec_of(x).dtype is dtype else apply_one(Convert(dtype), x)


def _holds(dtype: DType, number: Any) -> bool:
    """Return whether a narrow integer dtype can represent a number. NumPy would wrap a number out of range."""
    limits = ml_dtypes.iinfo(dtype.dtype)
    return type(number) is not complex and limits.min <= number <= limits.max


def promote(*operands: ArrayLike, dtype: DType | None = None) -> list[Any]:
    """Convert the operands to their common dtype and shape.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: a Python integer is outside the range of the common dtype.
    """
    if dtype is None and len(operands) == 2:
        # A fast path for the most common operands: two tensors of one type, or a tensor and a number of its kind.
        lhs, rhs = operands
        if type(lhs) is type(rhs) is np.ndarray:
            return _promoted_arrays(lhs, rhs)
        if type(lhs) in _WEAK or type(rhs) in _WEAK:
            operands = lhs, rhs = promote_number(lhs, rhs)
        lhs_spec, rhs_spec = getattr(lhs, "spec", None), getattr(rhs, "spec", None)
        if lhs_spec is not None and (lhs_spec is rhs_spec or lhs_spec == rhs_spec):
            return [lhs, rhs]
    common = common_dtype(*operands) if dtype is None else dtype
    return as_weak(operands, broadcast_arrays(*(convert(x, common) for x in operands)))


def as_weak(operands: Sequence[Any], converted: list[Any]) -> list[Any]:
    """Return the converted operands.

    If all original operands are Python numbers or weak tensors, the results are weak tensors.
    """
    like: Any = None
    for x in operands:
        if not is_weak(x):
            return converted
        if is_traced(x):
            like = x
    if like is None:
        return converted
    return [x if is_weak(x) else like.__tenferro_weak__(x) for x in converted]


def _promoted_arrays(lhs: Any, rhs: Any) -> list[Tensor]:
    if lhs.dtype != rhs.dtype:
        common = result_type(lhs, rhs)
        lhs, rhs = convert(lhs, common), convert(rhs, common)
    return [lhs, rhs] if lhs.shape == rhs.shape else broadcast_arrays(lhs, rhs)


def promote_number(x1: Any, x2: Any, is_inexact: bool = False) -> tuple[Any, Any]:
    """Convert a Python number to the type of the other operand, if the other operand's dtype is the common dtype.

    Args:
        is_inexact: whether the caller converts integers to floats. If so, a number beside an integer tensor is
            unchanged.
    """
    if type(x2) in _WEAK:
        is_of_x1 = _takes_dtype_of(x2, x1, is_inexact)
        return (x1, x1.__tenferro_number__(x2)) if is_of_x1 else (x1, x2)
    if type(x1) in _WEAK and _takes_dtype_of(x1, x2, is_inexact):
        return x2.__tenferro_number__(x1), x2
    return x1, x2


def _takes_dtype_of(number: Any, x: ArrayLike, is_inexact: bool) -> bool:
    """Return whether x is a tensor whose dtype is the common dtype of x and a Python number."""
    spec = getattr(x, "spec", None)
    if spec is None:
        return False
    rank = _RANK[spec.dtype.kind]
    return _WEAK[type(number)] <= rank and (rank >= 2 or not is_inexact)


def inexact_dtype(dtype: DType) -> DType:
    """Return the dtype in which NumPy's float functions, such as `exp`, compute: float16 for int8, float64 for int32.

    >>> inexact_dtype(DType.I32), inexact_dtype(DType.F32), inexact_dtype(DType.U8)
    (DType.F64, DType.F32, DType.F16)
    """
    if dtype.is_inexact:
        return dtype
    return {1: DType.F16, 2: DType.F32}.get(dtype.itemsize, DType.F64)


def as_inexact(x: ArrayLike) -> Tensor:
    """Convert an integer or bool tensor to float64, and return a float or complex tensor unchanged."""
    x = as_operand(x)
    return x if spec_of(x).dtype.is_inexact else convert(x, DType.F64)


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Compute the shape to which all shapes broadcast.

    If two extents differ and one of them is symbolic, they are assumed to be equal. The op on such operands records a
    guard, which is checked when the program runs.

    >>> broadcast_shapes((2, 1), (3,), ())
    (2, 3)

    Raises:
        ShapeError: two extents differ, and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    result: list[Extent] = []
    for axis in range(-rank, 0):
        extent: Any = 1
        for shape in shapes:
            if len(shape) < -axis:
                continue
            own_extent = shape[axis]
            if own_extent == 1 or own_extent == extent:
                continue
            if extent == 1:
                extent = own_extent
            elif isinstance(extent, int) and isinstance(own_extent, int):
                shown = ", ".join(str(tuple(shape)) for shape in shapes)
                raise ShapeError(
                    f"shapes {shown} do not broadcast: axis {axis} has {extent} and {own_extent}"
                )
            elif isinstance(own_extent, int):
                extent = own_extent
        result.append(extent)
    return tuple(result)


def broadcast_to(array: ArrayLike, shape: Any, subok: bool = False) -> Tensor:
    """Broadcast array to `shape`, or to one extent. Trailing axes are aligned.

    Args:
        subok: has no effect, because tensors have no subclasses.

    Raises:
        ShapeError: the array does not broadcast to `shape`.
        NonStaticShapeError: an extent of `shape` depends on data, or is symbolic outside of a trace.

    >>> broadcast_to([1, 2], (2, 2))
    array([[1, 2],
           [1, 2]])
    """
    x = as_operand(array)
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    shape = tuple([int(extent) if isinstance(extent, np.integer) else extent for extent in extents])
    if x.shape == shape:
        return x
    if len(shape) < len(x.shape):
        raise ShapeError(f"broadcast_to: {spec_of(x)} has more axes than shape {shape}")
    dims = tuple(range(len(shape) - len(x.shape), len(shape)))
    shape = _with_own_extents(x, shape)
    op = BroadcastInDim(shape, dims)
    if is_traced(x) or all(map(is_static, shape)):
        return apply_one(op, x)
    outputs = apply_in_trace(op, (x,))
    if outputs is None:
        raise NonStaticShapeError(
            f"broadcast_to: shape {shape} has symbols, which are numbers only where a program runs; "
            "call this in a traced function"
        )
    return outputs[0]


def _with_own_extents(x: Tensor, shape: Sequence[Any]) -> tuple[Any, ...]:
    """Replace data-dependent extents of the shape by the extents of x.

    Raises:
        NonStaticShapeError: the axis of x does not have the extent.
    """
    added = len(shape) - len(x.shape)
    extents = list(shape)
    for axis, extent in enumerate(shape):
        if is_exact(extent):
            continue
        if axis < added or x.shape[axis - added] != extent:
            raise NonStaticShapeError(
                f"broadcast_to: the data decide axis {axis} of {tuple(shape)}, and {spec_of(x)} does not have "
                "that extent; only exact extents may be a shape"
            )
        extents[axis] = DimExpr.input_axis(0, axis - added)
    return tuple(extents)


def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> list[Any]:
    """Broadcast the arrays to their common shape. NumPy's argument `subok` has no effect.

    Raises:
        ShapeError: the shapes do not broadcast.
    """
    arrays = tuple(map(as_operand, args))
    traced: Any = next((array for array in arrays if is_traced(array)), None)
    if traced is not None:
        # An array becomes a constant of the graph before it is broadcast, so that the constant stays small.
        arrays = tuple(array if is_traced(array) else traced.lift(array) for array in arrays)
    first = arrays[0].shape if arrays else ()
    if all(array.shape == first for array in arrays):
        return list(arrays)
    shape = broadcast_shapes(*(array.shape for array in arrays))
    like = next((array for array in arrays if array.shape == shape), None)
    return [
        array if _same_up_to_guards(array.shape, shape)
        else broadcast_to(array, shape) if like is None
        else broadcast_like(array, like)
        for array in arrays
    ]  # fmt: skip


def broadcast_like(x: Any, like: Any) -> Any:
    """Broadcast x to the shape of `like`.

    Along an axis with a data-dependent extent, x is broadcast to the bound of the extent and then truncated.

    Raises:
        ShapeError: x does not broadcast to the shape. NonStaticShapeError: an extent has no bound.
    """
    shape = like.shape
    added = len(shape) - len(x.shape)
    lacking = [
        axis
        for axis, extent in enumerate(shape)
        if isinstance(extent, UpperBound) and (axis < added or x.shape[axis - added] != extent)
    ]
    bounds = [extent.dim if axis in lacking else extent for axis, extent in enumerate(shape)]
    y: Any = broadcast_to(x, tuple(bounds) if lacking else shape)
    for axis in lacking:
        y = apply_one(DynamicTruncate(axis), y, apply_one(ShapeOf(axis), like))
    return y


def _same_up_to_guards(shape: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Return whether two shapes are equal, or may be equal once symbolic extents have values.

    The op on both operands records a guard that checks the equality.
    """
    return len(shape) == len(wanted) and all(
        a == b or (a != 1 and not (is_static(a) and is_static(b)))
        for a, b in zip(shape, wanted, strict=True)
    )
