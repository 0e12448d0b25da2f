"""Functions that derivative rules apply to a `Value`, in addition to the operators of `Value`.

The operands must have equal shapes and dtypes: only a Python number takes the shape and dtype of the other operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.dims import DimExpr, is_exact
from tenferro.dispatch import apply, apply_one
from tenferro.graph.value import (
    Value,
    bound_of,
    broadcast,
    broadcast_like,
    compare,
    full,
    scalar,
    size_along,
    truncated,
)
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.source import Iota
from tenferro.ops.structural import BroadcastInDim, Reshape, Reverse, Slice, Transpose
from tenferro.types import DType

__all__ = [
    "Value",
    "abs_",
    "add",
    "apply",
    "apply_one",
    "broadcast",
    "ceil_log2",
    "clamp",
    "compare",
    "complex_",
    "conj",
    "constant_like",
    "convert",
    "cos",
    "cosh",
    "exp",
    "full",
    "imag",
    "iota",
    "iota_along",
    "is_zero",
    "lead",
    "lead_all",
    "log",
    "logical_and",
    "logical_or",
    "maximum",
    "power",
    "real",
    "reduce_sum",
    "reshape",
    "reverse",
    "rsqrt",
    "scalar",
    "select",
    "sign",
    "sin",
    "sinh",
    "size_along",
    "slice_along",
    "transpose",
    "truncated",
    "zeros",
]


# ---- constants -----------------------------------------------------------------------------------


def zeros(like: Value, dtype: DType | None = None) -> Value:
    """Return zeros in the shape of `like`, by default in its dtype."""
    return full(like, 0, dtype)


def iota(like: Value, axis: int, dtype: DType = DType.I64) -> Value:
    """Return a tensor of the shape of `like` in which each element is its own index along `axis`."""
    if all(map(is_exact, like.shape)):
        return iota_along(like, like.shape, axis, dtype)
    index = iota_along(like, (bound_of(like.shape[axis]),), 0, dtype)
    if not is_exact(like.shape[axis]):
        index = truncated(index, 0, like, axis)
    return broadcast(index, like, (axis,))


def iota_along(like: Value, shape: Sequence[Any], axis: int, dtype: DType = DType.I64) -> Value:
    """Return a tensor of `shape` in which each element is its own index along `axis`."""
    return apply_one(Iota(tuple(shape), axis, dtype), like=like)


# ---- shapes --------------------------------------------------------------------------------------


def lead(x: Value, size: Any) -> Value:
    """Broadcast x along a new leading axis."""
    shape = [n if is_exact(n) else DimExpr.input_axis(0, axis) for axis, n in enumerate(x.shape)]
    return apply_one(BroadcastInDim((size, *shape), tuple(range(1, x.rank + 1))), x)


def lead_all(inputs: Sequence[Value], batched: Sequence[bool]) -> list[Value]:
    """Add a leading axis of the batch's size, by broadcasting, to each input that `batched` does not flag."""
    size = inputs[batched.index(True)].shape[0]
    return [x if has else lead(x, size) for x, has in zip(inputs, batched, strict=True)]


def reshape(x: Value, shape: Sequence[Any]) -> Value:
    """Reshape x in column-major order."""
    return x if x.shape == tuple(shape) else apply_one(Reshape(tuple(shape)), x)


def transpose(x: Value, perm: Sequence[int]) -> Value:
    """Permute axes: axis i of the result is axis perm[i] of x."""
    return x if tuple(perm) == tuple(range(len(perm))) else apply_one(Transpose(tuple(perm)), x)


def reduce_sum(x: Value, axes: Sequence[int]) -> Value:
    """Sum x over `axes`."""
    return apply_one(ReduceSum(tuple(axes)), x) if axes else x


def reverse(x: Value, axes: Sequence[int]) -> Value:
    """Reverse x along `axes`."""
    return apply_one(Reverse(tuple(axes)), x) if axes else x


def slice_along(x: Value, axis: int, start: Any, limit: Any, stride: int = 1) -> Value:
    """Return the elements `start`, `start + stride`, .. below `limit` along one axis."""
    shape = x.shape
    starts: list[Any] = [0] * len(shape)
    limits: list[Any] = list(shape)
    strides = [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return apply_one(Slice(tuple(starts), tuple(limits), tuple(strides)), x)


def ceil_log2(count: int) -> int:
    """Return ceil(log2(count)): how often 1 must be doubled to reach at least `count`."""
    return max(count - 1, 0).bit_length()


# ---- elementwise ---------------------------------------------------------------------------------


def add(x: Value | None, y: Value | None) -> Value | None:
    """Return the sum of two tangents, where None is zero."""
    if x is None:
        return y
    return x if y is None else x + y


def is_zero(x: Value) -> Value:
    """Return the predicate x == 0."""
    return compare(x, "EQ", 0)


def select(pred: Value, on_true: Any, on_false: Any) -> Value:
    """Return, elementwise, `on_true` where `pred` is true, else `on_false`. Either choice may be a Python number."""
    like = on_true if isinstance(on_true, Value) else on_false
    return apply_one(
        el.Select(), pred, broadcast_like(on_true, like), broadcast_like(on_false, like)
    )


def logical_and(x: Value, y: Value) -> Value:
    """Return the elementwise logical and of x and y."""
    return apply_one(el.And(), x, y)


def logical_or(x: Value, y: Value) -> Value:
    """Return the elementwise logical or of x and y."""
    return apply_one(el.Or(), x, y)


def convert(x: Value, dtype: DType) -> Value:
    """Convert x to another dtype."""
    return x if x.dtype is dtype else apply_one(el.Convert(dtype), x)


def conj(x: Value) -> Value:
    """Return the complex conjugate; a real x is unchanged."""
    return apply_one(el.Conj(), x) if x.dtype.is_complex else x


def real(x: Value) -> Value:
    """Return the real part; a real x is unchanged."""
    return apply_one(el.Real(), x) if x.dtype.is_complex else x


def imag(x: Value) -> Value:
    """Return the imaginary part."""
    return apply_one(el.Imag(), x)


def complex_(re: Value, im: Value) -> Value:
    """Return the complex number re + i im."""
    return apply_one(el.Complex(), re, im)


def maximum(x: Value, y: Value) -> Value:
    """Return the elementwise maximum of x and y."""
    return apply_one(el.Maximum(), x, y)


def clamp(x: Value, lower: float, upper: float) -> Value:
    """min(max(x, lower), upper). Its derivative with respect to x is 0 at `lower` and `upper`, and outside them."""
    return apply_one(el.Clamp(), x, full(x, lower), full(x, upper))


def power(x: Value, y: Value) -> Value:
    """Return x^y."""
    return apply_one(el.Power(), x, y)


def abs_(x: Value) -> Value:
    """Return the magnitude."""
    return apply_one(el.Abs(), x)


def sign(x: Value) -> Value:
    """Return the sign of a real x, or x / |x| for a complex x."""
    return apply_one(el.Sign(), x)


def exp(x: Value) -> Value:
    """Return e^x."""
    return apply_one(an.Exp(), x)


def log(x: Value) -> Value:
    """Return the natural logarithm."""
    return apply_one(an.Log(), x)


def sin(x: Value) -> Value:
    """Return the sine."""
    return apply_one(an.Sin(), x)


def cos(x: Value) -> Value:
    """Return the cosine."""
    return apply_one(an.Cos(), x)


def sinh(x: Value) -> Value:
    """Return the hyperbolic sine."""
    return apply_one(an.Sinh(), x)


def cosh(x: Value) -> Value:
    """Return the hyperbolic cosine."""
    return apply_one(an.Cosh(), x)


def rsqrt(x: Value) -> Value:
    """Return one over the square root."""
    return apply_one(an.Rsqrt(), x)


def constant_like(like: Value, array: Any) -> Value:
    """Return a constant with the elements of `array`, in the graph of `like`."""
    return like.lift(array)
