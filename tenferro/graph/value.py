"""`Value`: a tensor in derivative rules, expansions, and algorithms that are written as text.

An `Emitter` writes the ops. The operators of `Value` neither broadcast nor promote. Only a Python number takes the
shape and dtype of the other operand. If it kept its own dtype, float64, it would widen a float32 graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from tenferro.dims import DimExpr, Extent, GuardLog, UpperBound, is_exact
from tenferro.errors import (
    ConcretizationError,
    DataDependentShapeError,
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
)
from tenferro.graph.mark import StopGradient
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.source import Constant, ShapeOf
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import DType, TensorSpec

__all__ = [
    "Emitter",
    "Value",
    "bound_of",
    "broadcast",
    "broadcast_like",
    "compare",
    "full",
    "number_in",
    "scalar",
    "truncated",
]


class Emitter(Protocol):
    """Interface of the destination to which a rule writes ops, such as a graph.

    A handle is the emitter's representation of a value: a number in a graph, or a string in a text.
    """

    def apply(self, op: StdTensorOp, *inputs: Any) -> tuple[Any, ...]:
        """Emit `op` with the operands `inputs`, and return the handles of its outputs."""
        ...

    def type_of(self, value: Any) -> TensorSpec:
        """Return the shape and dtype of the value of a handle."""
        ...

    def scalar(self, number: Any, dtype: DType) -> Any:
        """Emit a constant of rank 0, and return its handle."""
        ...

    def witness(self, value: Any) -> Any:
        """Return a handle whose value has the same shape and has elements at run time.

        A tangent may have no elements.
        """
        ...


ADD, SUBTRACT = el.Add(), el.Subtract()
MULTIPLY, DIVIDE = el.Multiply(), el.Divide()
NEGATE = el.Negate()


class Value:
    """Tensor in a rule or an expansion; `+`, `-`, `*`, `/` and comparisons are elementwise.

    tenferro's functions promote and broadcast a `Value` like a traced tensor. Its own operators do neither. Only a
    Python number takes the shape and dtype of the other operand.

    >>> from tenferro.graph import GraphBuilder
    >>> builder = GraphBuilder()
    >>> x = builder.value(builder.input((2, "n"), "float32"))
    >>> 2 * x + 1
    Value(f32[2,n])
    """

    __slots__ = ("emitter", "handle")
    __array_ufunc__ = (
        None  # makes operators of NumPy scalars and arrays call the reflected operators below
    )

    def __init__(self, emitter: Any, handle: Any) -> None:
        self.emitter = emitter
        self.handle = handle

    @property
    def spec(self) -> TensorSpec:
        """The shape and dtype of the tensor."""
        return self.emitter.type_of(self.handle)

    type = spec

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents of the axes."""
        return self.emitter.type_of(self.handle).shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.emitter.type_of(self.handle).dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.emitter.type_of(self.handle).shape)

    def __add__(self, rhs: Any) -> Value:
        return _one(ADD, self, broadcast_like(rhs, self))

    def __radd__(self, lhs: Any) -> Value:
        return _one(ADD, broadcast_like(lhs, self), self)

    def __sub__(self, rhs: Any) -> Value:
        return _one(SUBTRACT, self, broadcast_like(rhs, self))

    def __rsub__(self, lhs: Any) -> Value:
        return _one(SUBTRACT, broadcast_like(lhs, self), self)

    def __mul__(self, rhs: Any) -> Value:
        return _one(MULTIPLY, self, broadcast_like(rhs, self))

    def __rmul__(self, lhs: Any) -> Value:
        return _one(MULTIPLY, broadcast_like(lhs, self), self)

    def __truediv__(self, rhs: Any) -> Value:
        return _one(DIVIDE, self, broadcast_like(rhs, self))

    def __rtruediv__(self, lhs: Any) -> Value:
        return _one(DIVIDE, broadcast_like(lhs, self), self)

    def __neg__(self) -> Value:
        return _one(NEGATE, self)

    def __eq__(self, rhs: Any) -> Any:
        return self._compared("EQ", rhs)

    def __ne__(self, rhs: Any) -> Any:
        return self._compared("NE", rhs)

    def __lt__(self, rhs: Any) -> Any:
        return self._compared("LT", rhs)

    def __le__(self, rhs: Any) -> Any:
        return self._compared("LE", rhs)

    def __gt__(self, rhs: Any) -> Any:
        return self._compared("GT", rhs)

    def __ge__(self, rhs: Any) -> Any:
        return self._compared("GE", rhs)

    def _compared(self, direction: str, rhs: Any) -> Any:
        # None stands for a zero tangent. It is not a Value, and cannot be compared.
        return NotImplemented if rhs is None else compare(self, direction, rhs)

    __hash__ = None  # type: ignore[assignment]  # because == gives a tensor

    def __bool__(self) -> NoReturn:
        raise ConcretizationError(
            f"{self!r} has no elements while a rule is applied, so that Python cannot branch on it; "
            "choose between tensors by tenferro.where"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise DTypeError(
            f"{self!r} has no elements while a rule is applied, and is not a NumPy array; "
            "use its operators and tenferro's functions, such as tenferro.exp"
        )

    # ---- attributes that tenferro's functions need -----------------------------------------------

    @staticmethod
    def __tenferro_apply__(
        op: StdTensorOp, operands: Sequence[Any], like: Value
    ) -> tuple[Value, ...]:
        """Emit an op, and return its outputs; arrays become constants."""
        emitter = like.emitter
        handles = [like.lift(x).handle for x in operands]
        return tuple([Value(emitter, handle) for handle in emitter.apply(op, *handles)])

    @staticmethod
    def __tenferro_sequence__(entries: Any) -> NoReturn:
        """Raise an error, because a rule does not convert a sequence of values to a tensor."""
        raise DTypeError("a sequence of Values is not a tensor; join them by tenferro.stack")

    def __tenferro_number__(self, value: Any) -> Value:
        """Return a Python number as a value with the shape and dtype of this one."""
        return full(self, value)

    def __tenferro_stop__(self) -> Value:
        """Return a copy of this tensor that differentiation treats as a constant."""
        (handle,) = self.emitter.apply(StopGradient((0,)), self.handle)
        return Value(self.emitter, handle)

    def __tenferro_constant__(self) -> NoReturn:
        """Raise an error, because the tensors of a rule do not belong to a trace."""
        raise InvalidConfigError(
            f"{self!r} is a tensor of a rule, which a trace does not know; "
            "use only constants and the rule's arguments"
        )

    def __tenferro_elements__(self, asked: str, hint: str) -> NoReturn:
        """Raise an error for an operation whose result shape depends on the elements."""
        raise DataDependentShapeError(
            f"{asked} needs the elements of {self.spec}, which are not known in a rule; {hint}"
        )

    def lift(self, array: Any) -> Value:
        """Return `array` as a constant in the graph of this value; a `Value` of this graph is returned unchanged.

        Raises:
            InvalidConfigError: `array` is a tensor that does not belong to the rule.
        """
        if type(array) is Value:
            if array.emitter is not self.emitter:
                _require_one_graph(self, array)
            return array
        if hasattr(type(array), "__tenferro_apply__"):
            raise InvalidConfigError(
                f"{array!r:.60} meets {self!r}, but does not belong to the same rule; use only "
                "constants and the rule's arguments"
            )
        (handle,) = self.emitter.apply(Constant.of(np.asarray(array)))
        return Value(self.emitter, handle)

    @property
    def caches(self) -> Any:
        """None, because rules have no caches for the plans of extensions."""
        return None

    @property
    def guards(self) -> GuardLog:
        """The guards of the graph, which are conditions on symbolic extents."""
        return self.emitter.graph.guards

    def __tenferro_distrust__(self) -> None:
        """Mark the graph as not trusted, because one of its ops comes from a file of unknown origin."""
        self.emitter.graph.trusted = False

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.rank

    @property
    def size(self) -> Any:
        """Number of elements."""
        return self.spec.size

    def __repr__(self) -> str:
        return f"Value({self.type})"


def _one(op: StdTensorOp, *operands: Value) -> Value:
    """Emit an op on values of one graph, and return its only output."""
    emitter = operands[0].emitter
    for x in operands:
        if x.emitter is not emitter:
            _require_one_graph(operands[0], x)
    (handle,) = emitter.apply(op, *[x.handle for x in operands])
    return Value(emitter, handle)


def _require_one_graph(x: Value, y: Value) -> None:
    """Require that x and y belong to one graph. Emitters that write text or capture values from outside are exempt."""
    if getattr(x.emitter, "graph", None) is not getattr(y.emitter, "graph", None):
        raise InvalidConfigError(
            f"{x!r} and {y!r} belong to two graphs; use only the rule's arguments"
        )


def broadcast_like(operand: Any, like: Value) -> Value:
    """Return a `Value` unchanged, and a number as a `Value` with the shape and dtype of `like`."""
    return operand if isinstance(operand, Value) else full(like, operand)


def scalar(like: Value, number: Any, dtype: DType | None = None) -> Value:
    """Return `number` as a value of rank 0 in the graph of `like`; the default dtype is that of `like`."""
    emitter = like.emitter
    return Value(emitter, emitter.scalar(number, like.dtype if dtype is None else dtype))


def full(like: Value, number: Any, dtype: DType | None = None) -> Value:
    """Return a value of the shape of `like` with `number` in every element; the default dtype is that of `like`."""
    one = scalar(like, number, dtype)
    return broadcast(one, like, ()) if like.rank else one


def broadcast(x: Value, like: Value, dims: Sequence[int]) -> Value:
    """Broadcast x to the shape of `like`. Axis j of x becomes axis dims[j] of the result.

    An extent of `like` may depend on the data without being an extent of x. Then x is broadcast to the upper bound of
    that extent. When the program runs, the result is truncated to the actual extent of `like`.
    """
    shape = like.shape
    if all(map(is_exact, shape)):
        return _one(BroadcastInDim(shape, tuple(dims)), x)
    own = {
        axis: DimExpr.input_axis(0, j) for j, axis in enumerate(dims) if not is_exact(x.shape[j])
    }
    wanted = tuple([own[i] if i in own else bound_of(extent) for i, extent in enumerate(shape)])
    y = _one(BroadcastInDim(wanted, tuple(dims)), x)
    for axis, extent in enumerate(shape):
        if axis not in own and not is_exact(extent):
            y = truncated(y, axis, like, axis)
    return y


def truncated(x: Value, axis: int, like: Value, axis_of_like: int) -> Value:
    """Truncate x along `axis` to the extent of `like` along `axis_of_like`, which is measured when the program runs."""
    return _one(DynamicTruncate(axis), x, size_along(like, axis_of_like))


def size_along(x: Value, axis: int) -> Value:
    """Return the extent of an axis of x as a scalar, which is measured when the program runs."""
    return _one(ShapeOf(axis), Value(x.emitter, x.emitter.witness(x.handle)))


def bound_of(extent: Extent) -> Any:
    """Return an exact extent unchanged, and the upper bound of a data-dependent extent.

    Raises:
        NonStaticShapeError: the extent has no bound.
    """
    if is_exact(extent):
        return extent
    if isinstance(extent, UpperBound):
        return extent.dim
    raise NonStaticShapeError(
        "the derivative needs a bound on each extent, and one extent has none"
    )


def compare(x: Value, direction: str, y: Any) -> Value:
    """Return the elementwise comparison of x with y; `direction` is "EQ", "NE", "GE", "GT", "LE" or "LT"."""
    return _one(el.Compare(direction), x, broadcast_like(y, x))


def number_in(number: Any, dtype: DType) -> Any:
    """Return `number` as an array of dtype `dtype`.

    A float may be rounded to a narrower float dtype. All other conversions must be exact.
    """
    array: Any = np.asarray(number)
    if array.ndim or array.dtype.kind in "OSUM":
        raise DTypeError(
            f"{number!r:.60} meets a tensor of {dtype} in a rule; expected a Value or a number: "
            "value.lift(array) makes a Value of an array"
        )
    is_wider = array.dtype.kind == "c" and not dtype.is_complex
    with np.errstate(all="ignore"):
        cast = (array.real if is_wider else array).astype(dtype.dtype)
    if (is_wider or not dtype.is_inexact) and cast != array:
        raise DTypeError(
            f"{number!r:.60} meets a tensor of {dtype} in a rule, which cannot represent it; "
            "convert the tensor first"
        )
    return cast
