"""The algebra that derivative rules are written in.

A `Value` is a handle on a tensor that rules combine with operators and the functions below. Where the
ops go is the `Emitter`'s business: into a graph, or, eagerly, to the kernels at once. Nothing here
broadcasts or promotes, except that a Python number takes the shape and dtype of what it meets: a
float64 literal in a rule would widen a float32 graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from tenferro.dims import Extent, UpperBound, is_exact
from tenferro.errors import ConcretizationError, DTypeError, NonStaticShapeError
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.source import Constant, Iota, ShapeOf
from tenferro.ops.structural import BroadcastInDim, Reshape, Reverse, Slice, Transpose
from tenferro.types import DType, TensorSpec

__all__ = [
    "Emitter",
    "Value",
    "abs_",
    "add",
    "broadcast",
    "ceil_log2",
    "clamp",
    "compare",
    "complex_",
    "constant_like",
    "conj",
    "convert",
    "cos",
    "cosh",
    "emit",
    "emit_all",
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
    "slice_along",
    "transpose",
    "zeros",
]


class Emitter(Protocol):
    """Where the ops of a rule go. A handle is whatever it likes: a number, or an array."""

    def emit_all(self, op: StdTensorOp, *inputs: Any) -> tuple[Any, ...]:
        """The outputs of `op` on these handles."""
        ...

    def type_of(self, value: Any) -> TensorSpec:
        """Shape and dtype of a handle."""
        ...

    def scalar(self, number: Any, dtype: DType) -> Any:
        """A rank-0 constant."""
        ...

    def witness(self, value: Any) -> Any:
        """A handle whose elements exist and whose shape is this one's."""
        ...


ADD, SUBTRACT, MULTIPLY = el.Add(), el.Subtract(), el.Multiply()
DIVIDE, NEGATE = el.Divide(), el.Negate()


class Value:
    """One tensor in a rule: `+`, `-`, `*`, `/` and comparisons work element by element."""

    __slots__ = ("emitter", "handle")
    __array_ufunc__ = None  # so that NumPy leaves its numbers' operators to those below

    def __init__(self, emitter: Any, handle: Any) -> None:
        self.emitter = emitter
        self.handle = handle

    @property
    def type(self) -> TensorSpec:
        """Shape and dtype."""
        return self.emitter.type_of(self.handle)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents."""
        return self.emitter.type_of(self.handle).shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.emitter.type_of(self.handle).dtype

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.emitter.type_of(self.handle).shape)

    def __add__(self, other: Any) -> Value:
        return emit(ADD, self, _as(other, self))

    def __radd__(self, other: Any) -> Value:
        return emit(ADD, _as(other, self), self)

    def __sub__(self, other: Any) -> Value:
        return emit(SUBTRACT, self, _as(other, self))

    def __rsub__(self, other: Any) -> Value:
        return emit(SUBTRACT, _as(other, self), self)

    def __mul__(self, other: Any) -> Value:
        return emit(MULTIPLY, self, _as(other, self))

    def __rmul__(self, other: Any) -> Value:
        return emit(MULTIPLY, _as(other, self), self)

    def __truediv__(self, other: Any) -> Value:
        return emit(DIVIDE, self, _as(other, self))

    def __rtruediv__(self, other: Any) -> Value:
        return emit(DIVIDE, _as(other, self), self)

    def __neg__(self) -> Value:
        return emit(NEGATE, self)

    def __eq__(self, other: Any) -> Any:
        return self._compared("EQ", other)

    def __ne__(self, other: Any) -> Any:
        return self._compared("NE", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("LT", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("LE", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared("GT", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared("GE", other)

    def _compared(self, direction: str, other: Any) -> Any:
        # None stands for a zero tangent, which is no Value.
        return NotImplemented if other is None else compare(self, direction, other)

    __hash__ = None  # type: ignore[assignment]  # because == gives a tensor

    def __bool__(self) -> bool:
        raise ConcretizationError(
            f"{self!r} has no elements while a rule is applied, so that Python cannot branch on it; "
            "choose between tensors by tenferro.extension.algebra.select"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise DTypeError(
            "a Value is a tensor inside a derivative rule; use its operators and the functions of "
            "tenferro.extension.algebra, such as select, exp or reduce_sum"
        )

    def __repr__(self) -> str:
        return f"Value({self.type})"


_handle_of = attrgetter("handle")


def emit(op: StdTensorOp, *operands: Value) -> Value:
    """The one output of `op`."""
    emitter = operands[0].emitter
    (handle,) = emitter.emit_all(op, *map(_handle_of, operands))
    return Value(emitter, handle)


def emit_all(op: StdTensorOp, *operands: Value) -> tuple[Value, ...]:
    """Every output of `op`."""
    emitter = operands[0].emitter
    handles = emitter.emit_all(op, *map(_handle_of, operands))
    return tuple([Value(emitter, handle) for handle in handles])


def _source(op: StdTensorOp, like: Value) -> Value:
    (handle,) = like.emitter.emit_all(op)
    return Value(like.emitter, handle)


def _as(operand: Any, like: Value) -> Value:
    return operand if isinstance(operand, Value) else full(like, operand)


# ---- constants -----------------------------------------------------------------------------------


def scalar(like: Value, number: Any, dtype: DType | None = None) -> Value:
    """`number` in rank 0, beside `like`, and in its dtype unless given."""
    emitter = like.emitter
    return Value(emitter, emitter.scalar(number, like.dtype if dtype is None else dtype))


def full(like: Value, number: Any, dtype: DType | None = None) -> Value:
    """`number` everywhere, in the shape of `like`, and in its dtype unless given."""
    one = scalar(like, number, dtype)
    return broadcast(one, like, ()) if like.rank else one


def zeros(like: Value, dtype: DType | None = None) -> Value:
    """Zeros in the shape of `like`, and in its dtype unless given."""
    return full(like, 0, dtype)


def iota(like: Value, axis: int, dtype: DType = DType.I64) -> Value:
    """The index along `axis`, in the shape of `like`."""
    return iota_along(like, like.shape, axis, dtype)


def iota_along(like: Value, shape: Sequence[Any], axis: int, dtype: DType = DType.I64) -> Value:
    """The index along `axis`, in a shape of its own."""
    return _source(Iota(tuple(shape), axis, dtype), like)


# ---- shapes --------------------------------------------------------------------------------------


def broadcast(x: Value, like: Value, dims: Sequence[int]) -> Value:
    """X with axis j at dims[j] of the shape of `like`.

    Where the data decide an extent of `like`, its bound is filled and cut to the extent that a value
    of that shape has when the program runs.
    """
    shape = like.shape
    if all(map(is_exact, shape)):
        return emit(BroadcastInDim(shape, tuple(dims)), x)
    measured = Value(like.emitter, like.emitter.witness(like.handle))
    y = emit(BroadcastInDim(tuple(map(_bound, shape)), tuple(dims)), x)
    for axis, extent in enumerate(shape):
        if not is_exact(extent):
            y = emit(DynamicTruncate(axis), y, emit(ShapeOf(axis), measured))
    return y


def lead(x: Value, size: Any) -> Value:
    """X repeated along a new leading axis."""
    return emit(BroadcastInDim((size, *x.shape), tuple(range(1, x.rank + 1))), x)


def lead_all(inputs: Sequence[Value], batched: Sequence[bool]) -> list[Value]:
    """Inputs that all have the leading axis that some of them have."""
    size = inputs[batched.index(True)].shape[0]
    return [x if has else lead(x, size) for x, has in zip(inputs, batched, strict=True)]


def _bound(extent: Extent) -> Any:
    if is_exact(extent):
        return extent
    if isinstance(extent, UpperBound):
        return extent.dim
    raise NonStaticShapeError("a derivative needs a bound of each extent, and one has none")


def reshape(x: Value, shape: Sequence[Any]) -> Value:
    """The elements in column-major order, with a new shape."""
    return x if x.shape == tuple(shape) else emit(Reshape(tuple(shape)), x)


def transpose(x: Value, perm: Sequence[int]) -> Value:
    """Axis i of the result is axis perm[i] of x."""
    return x if tuple(perm) == tuple(range(len(perm))) else emit(Transpose(tuple(perm)), x)


def reduce_sum(x: Value, axes: Sequence[int]) -> Value:
    """The sum over axes."""
    return emit(ReduceSum(tuple(axes)), x) if axes else x


def reverse(x: Value, axes: Sequence[int]) -> Value:
    """The order along axes turned around."""
    return emit(Reverse(tuple(axes)), x) if axes else x


def slice_along(x: Value, axis: int, start: Any, limit: Any, stride: int = 1) -> Value:
    """The elements start, start + stride, .. below limit along one axis."""
    shape = x.shape
    starts: list[Any] = [0] * len(shape)
    limits: list[Any] = list(shape)
    strides = [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return emit(Slice(tuple(starts), tuple(limits), tuple(strides)), x)


def ceil_log2(count: int) -> int:
    """The number of doublings from 1 to at least `count`."""
    return max(count - 1, 0).bit_length()


# ---- elementwise ---------------------------------------------------------------------------------


def add(x: Value | None, y: Value | None) -> Value | None:
    """The sum of two tangents, None being zero."""
    if x is None:
        return y
    return x if y is None else x + y


def compare(x: Value, direction: str, y: Any) -> Value:
    """The predicate x `direction` y."""
    return emit(el.Compare(direction), x, _as(y, x))


def is_zero(x: Value) -> Value:
    """The predicate x == 0."""
    return compare(x, "EQ", 0)


def select(pred: Value, on_true: Any, on_false: Any) -> Value:
    """`on_true` where pred, else `on_false`; a number for one of them."""
    like = on_true if isinstance(on_true, Value) else on_false
    return emit(el.Select(), pred, _as(on_true, like), _as(on_false, like))


def logical_and(x: Value, y: Value) -> Value:
    """Both."""
    return emit(el.And(), x, y)


def logical_or(x: Value, y: Value) -> Value:
    """Either."""
    return emit(el.Or(), x, y)


def convert(x: Value, dtype: DType) -> Value:
    """X in another dtype."""
    return x if x.dtype is dtype else emit(el.Convert(dtype), x)


def conj(x: Value) -> Value:
    """The complex conjugate; a real x as it is."""
    return emit(el.Conj(), x) if x.dtype.is_complex else x


def real(x: Value) -> Value:
    """The real part; a real x as it is."""
    return emit(el.Real(), x) if x.dtype.is_complex else x


def imag(x: Value) -> Value:
    """The imaginary part."""
    return emit(el.Imag(), x)


def complex_(re: Value, im: Value) -> Value:
    """Re + i im."""
    return emit(el.Complex(), re, im)


def maximum(x: Value, y: Value) -> Value:
    """The larger."""
    return emit(el.Maximum(), x, y)


def clamp(x: Value, lower: float, upper: float) -> Value:
    """min(max(x, lower), upper); held fixed at a bound and beyond."""
    return emit(el.Clamp(), x, full(x, lower), full(x, upper))


def power(x: Value, y: Value) -> Value:
    """X to the power y."""
    return emit(el.Power(), x, y)


def abs_(x: Value) -> Value:
    """The magnitude."""
    return emit(el.Abs(), x)


def sign(x: Value) -> Value:
    """The sign, or x / |x|."""
    return emit(el.Sign(), x)


def exp(x: Value) -> Value:
    """E to the power x."""
    return emit(an.Exp(), x)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return emit(an.Log(), x)


def sin(x: Value) -> Value:
    """The sine."""
    return emit(an.Sin(), x)


def cos(x: Value) -> Value:
    """The cosine."""
    return emit(an.Cos(), x)


def sinh(x: Value) -> Value:
    """The hyperbolic sine."""
    return emit(an.Sinh(), x)


def cosh(x: Value) -> Value:
    """The hyperbolic cosine."""
    return emit(an.Cosh(), x)


def rsqrt(x: Value) -> Value:
    """One over the square root."""
    return emit(an.Rsqrt(), x)


def constant_like(like: Value, array: Any) -> Value:
    """An array as a constant beside `like`."""
    return _source(Constant.of(np.asarray(array)), like)
