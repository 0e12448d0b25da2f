"""Python code of reductions, cumulative functions and sorts, as calls of NumPy's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowering.numpy_source.expression import Code, Expression, Rows, call, tuple_of
from lowering.numpy_source.structural import reshape
from tenferro.ops import reduction as ops
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.types import DType

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS", "axes_of"]


def axes_of(op: Any, x: Expression) -> Any:
    """Return the argument `axis` of a reduction; None if all axes are reduced, so that `call` omits the argument."""
    if len(op.axes) == x.spec.rank:
        return None
    return op.axes[0] if len(op.axes) == 1 else tuple_of(op.axes)


def _accumulator(w: Writer, dtype: DType) -> tuple[str | None, str]:
    """Return the argument `dtype` of a sum, or None, and the text of a conversion of its result, or "".

    float16 is summed in float32 and converted back. For narrow integers, `dtype` keeps NumPy from summing in int64.
    """
    w.dtype(dtype)
    if dtype is DType.F16:
        return "np.float32", ".astype(np.float16)"
    is_narrow = dtype.is_integer and dtype.itemsize < 8
    return (w.dtype(dtype) if is_narrow else None), ""


def _is_single(op: Any, x: Expression) -> bool:
    """Return whether each element of the result is computed from one element of x."""
    return all(isinstance(x.spec.shape[axis], int) and x.spec.shape[axis] == 1 for axis in op.axes)


def _alone(op: Any, w: Writer, x: Expression) -> Code:
    """Return x without the reduced axes, whose extents are 1."""
    return x.code if not op.axes else reshape(Reshape(w.specs[0].shape), w, x)


def total(name: str) -> Any:
    """Return the function that writes a sum or product, `np.<name>`, whose result has the operand's dtype."""

    def cell(op: Any, w: Writer, x: Expression) -> Code:
        inner = x.operands[0].op if isinstance(x.op, Reshape | BroadcastInDim) else x.op
        # The sum of the array [-0.0] is 0.0, and no sum is -0.0.
        is_exact = name == "prod" or x.spec.dtype.is_integer or isinstance(inner, ops.ReduceSum)
        if not op.axes or (_is_single(op, x) and is_exact):
            return _alone(op, w, x)
        dtype, converted = _accumulator(w, x.spec.dtype)
        return Code(call(f"np.{name}", x, axis=axes_of(op, x), dtype=dtype).text + converted)

    return cell


def extreme(name: str) -> Any:
    """Return the function that writes `np.max` or `np.min`, with an initial value if a reduced axis may be empty."""

    def cell(op: Any, w: Writer, x: Expression) -> Code:
        if _is_single(op, x):
            return _alone(op, w, x)
        initial = None
        if not all(isinstance(x.spec.shape[axis], int) and x.spec.shape[axis] for axis in op.axes):
            identity = op.identity(x.spec.dtype)
            initial = str(identity).replace("inf", "np.inf")
        return call(f"np.{name}", x, axis=axes_of(op, x), initial=initial)

    return cell


def bitwise(name: str) -> Any:
    """Return the function that writes a reduction by the ufunc `np.<name>`, or for bools by `np.all` or `np.any`."""

    def cell(op: Any, w: Writer, x: Expression) -> Code:
        if not op.axes:
            return x.code
        if x.spec.dtype.is_bool:
            return call(f"np.{'all' if name == 'bitwise_and' else 'any'}", x, axis=axes_of(op, x))
        axis = axes_of(op, x)
        return call(f"np.{name}.reduce", x, axis=tuple_of(op.axes) if axis is None else axis)

    return cell


def winner(name: str) -> Any:
    """Return the function that writes a call of `np.argmax` or `np.argmin`."""
    return lambda op, w, x: call(f"np.{name}", x, axis=op.axis)


def cumulative(name: str) -> Any:
    """Return the function that writes a cumulative function, such as `np.cumsum`.

    If the op accumulates in reverse, the operand and the result are flipped along the axis.
    """

    def cell(op: Any, w: Writer, x: Expression) -> Code:
        options: dict[str, Any] = {"axis": op.axis}
        converted = ""
        if name in ("cumsum", "cumprod"):
            options["dtype"], converted = _accumulator(w, x.spec.dtype)
        operand = call("np.flip", x, op.axis).text if op.reverse else x
        code = call(f"np.{name}", operand, **options)
        if op.reverse:
            code = call("np.flip", code.text, op.axis)
        return Code(code.text + converted)

    return cell


def sort(op: ops.Sort, w: Writer, *operands: Expression) -> Any:
    """Write `np.sort`, or for several operands a call of `sorted_by_first` in `functions.py`."""
    if op.count == 1:
        return call("np.sort", *operands, axis=op.axis, kind='"stable"')
    w.functions.add("sorted_by_first")
    return call("sorted_by_first", op.axis, *operands).text


def top_k(op: ops.TopK, w: Writer, x: Expression) -> str:
    """Write a call of the function `top_k`, which the generated file includes."""
    return call(w.function("top_k"), x, op.k).text


ROWS: Rows = {
    ops.ReduceSum: total("sum"),
    ops.ReduceProd: total("prod"),
    ops.ReduceMax: extreme("max"),
    ops.ReduceMin: extreme("min"),
    ops.ReduceAnd: bitwise("bitwise_and"),
    ops.ReduceOr: bitwise("bitwise_or"),
    ops.ArgMax: winner("argmax"),
    ops.ArgMin: winner("argmin"),
    ops.CumSum: cumulative("cumsum"),
    ops.CumProd: cumulative("cumprod"),
    ops.CumMax: cumulative("maximum.accumulate"),
    ops.CumMin: cumulative("minimum.accumulate"),
    ops.Sort: sort,
    ops.TopK: top_k,
}
