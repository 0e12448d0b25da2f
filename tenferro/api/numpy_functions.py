"""NumPy's functions on our tensors: a table from each to ours, by NumPy's own signature.

`np.sum(x, 0)` of a tensor is `tenferro.sum(x, axis=0)`, by NumPy's two protocols. An entry takes what NumPy's
function takes, in its order and under its names, and means what it means there. A parameter whose default
is `Only` has no meaning for tensors but the values listed. What is not in the table, and what a parameter
refuses, runs on the elements of eager tensors that are not tracked, and gives NumPy's arrays; for others
it is an error.

Source: NumPy 2.4, reference; NEP 13 and NEP 18, the protocols.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tenferro.api import (
    contraction,
    creation,
    elementwise,
    fft,
    indexing,
    linalg,
    linear,
    logarithms,
    manipulation,
    reductions,
    searching,
    sets,
)
from tenferro.api.axes import normalize_axes
from tenferro.api.promotion import (
    broadcast_arrays,
    broadcast_to,
    convert,
    inexact_dtype,
    result_type,
)
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.exec.dispatch import as_operand, is_traced, spec_of
from tenferro.types import DType, flatten, unflatten

__all__ = ["FUNCTIONS", "REDUCTIONS", "SCANS", "UFUNCS", "Only", "call_function", "call_ufunc"]


@dataclass(frozen=True)
class Only:
    """The values of a parameter that mean something for tensors; the first is NumPy's default."""

    values: tuple[Any, ...]

    def __contains__(self, value: Any) -> bool:
        return any(value is x or (type(value) is type(x) and value == x) for x in self.values)


ABSENT: Any = getattr(np, "_NoValue", None)
"""NumPy's own mark of an argument that was not given."""
NONE: Any = Only((None,))
TRUE: Any = Only((True,))
FALSE: Any = Only((False,))
UNGIVEN: Any = Only((ABSENT,))
KEEP: Any = Only(("K",))
SAME_KIND: Any = Only(("same_kind",))
EITHER: Any = Only((True, False))


# ---- functions whose arguments need more than a name ---------------------------------------------------------


def _masked(x: Any, where: Any, identity: Any) -> Any:
    """X with what a reduction leaves out replaced by its identity."""
    if where is ABSENT or where is True:
        return x
    x = as_operand(x)
    return elementwise.where(where, x, convert(identity, spec_of(x).dtype))


def _or_default(value: Any, default: Any) -> Any:
    return default if value is ABSENT else value


def _total(reduce: Any, pair: Any, identity: int) -> Any:
    """np.sum or np.prod; `initial` takes part, and `where` leaves out by the identity."""

    def of_array(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = NONE,
        keepdims: Any = ABSENT, initial: Any = ABSENT, where: Any = ABSENT,
    ) -> Any:  # fmt: skip
        a = _masked(a, where, identity)
        keepdims = bool(_or_default(keepdims, False))
        return _combined(pair, reduce(a, axis=axis, dtype=dtype, keepdims=keepdims), initial)

    return of_array


_sum = _total(reductions.sum, elementwise.add, 0)
_prod = _total(reductions.prod, elementwise.multiply, 1)


def _combined(function: Any, total: Any, initial: Any) -> Any:
    """The result of a reduction, and the value that NumPy starts from, in the result's dtype."""
    if initial is ABSENT or initial is None:
        return total
    return function(total, convert(initial, spec_of(total).dtype))


def _extreme(name: str, pair: Any) -> Any:
    """np.max or np.min; `initial` takes part, and stands for what `where` leaves out."""
    reduce = getattr(reductions, name)

    def of_array(
        a: Any, axis: Any = None, out: Any = NONE,
        keepdims: Any = ABSENT, initial: Any = ABSENT, where: Any = ABSENT,
    ) -> Any:  # fmt: skip
        keepdims = bool(_or_default(keepdims, False))
        if initial is ABSENT or initial is None:
            if where is not ABSENT and where is not True:
                raise InvalidConfigError(f"np.{name}: where= needs initial=, as in NumPy")
            return reduce(a, axis=axis, keepdims=keepdims)
        a = as_operand(a)
        initial = convert(initial, spec_of(a).dtype)
        a = _masked(a, where, initial)
        if spec_of(a).size == 0:
            return broadcast_to(initial, _reduced_shape(name, a, axis, keepdims))
        return pair(reduce(a, axis=axis, keepdims=keepdims), initial)

    return of_array


def _reduced_shape(name: str, a: Any, axis: Any, keepdims: bool) -> tuple[Any, ...]:
    axes = normalize_axes(name, axis, len(a.shape))
    extents = [1 if i in axes else extent for i, extent in enumerate(a.shape)]
    return tuple(extent for i, extent in enumerate(extents) if keepdims or i not in axes)


_max, _min = _extreme("max", elementwise.maximum), _extreme("min", elementwise.minimum)


def _of_truths(name: str) -> Any:
    """np.all or np.any."""
    reduce = getattr(reductions, name)

    def of_array(
        a: Any, axis: Any = None, out: Any = NONE, keepdims: Any = ABSENT, *, where: Any = ABSENT
    ) -> Any:
        truths = _masked(convert(as_operand(a), DType.Bool), where, name == "all")
        return reduce(truths, axis=axis, keepdims=bool(_or_default(keepdims, False)))

    return of_array


_all, _any = _of_truths("all"), _of_truths("any")


def _mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = NONE, keepdims: Any = ABSENT,
    *, where: Any = Only((ABSENT, True)),
) -> Any:  # fmt: skip
    return reductions.mean(a, axis=axis, dtype=dtype, keepdims=bool(_or_default(keepdims, False)))


def _spread(name: str) -> Any:
    """np.var or np.std."""
    reduce = getattr(reductions, name)

    def of_array(
        a: Any, axis: Any = None, dtype: Any = NONE, out: Any = NONE, ddof: Any = 0, keepdims: Any = ABSENT,
        *, where: Any = Only((ABSENT, True)), mean: Any = UNGIVEN, correction: Any = ABSENT,
    ) -> Any:  # fmt: skip
        if correction is not ABSENT and ddof != 0:
            raise InvalidConfigError(
                f"np.{name}: ddof and correction are one thing; give one of them"
            )
        correction = _or_default(correction, ddof)
        return reduce(
            a, axis=axis, correction=correction, keepdims=bool(_or_default(keepdims, False))
        )

    return of_array


def _flattened(a: Any, axis: Any) -> tuple[Any, Any]:
    """An axis of None takes all elements in one row."""
    return (manipulation.ravel(a), 0) if axis is None else (a, axis)


def _scanned(function: Any) -> Any:
    """np.cumsum or np.cumprod."""

    def of_array(a: Any, axis: Any = None, dtype: Any = None, out: Any = NONE) -> Any:
        a, axis = _flattened(a, axis)
        return function(a, axis=axis, dtype=dtype)

    return of_array


def _cumulative(function: Any) -> Any:
    """The same by the standard's names."""

    def of_array(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = NONE, include_initial: bool = False
    ) -> Any:  # fmt: skip
        return function(x, axis=axis, dtype=dtype, include_initial=include_initial)

    return of_array


def _sorted(
    a: Any, axis: Any = -1, kind: Any = Only((None, "quicksort", "mergesort", "heapsort", "stable")),
    order: Any = NONE, *, stable: Any = Only((None, True, False)),
) -> Any:  # fmt: skip
    a, axis = _flattened(a, axis)
    return searching.sort(a, axis=axis)


def _argsorted(
    a: Any, axis: Any = -1, kind: Any = Only((None, "quicksort", "mergesort", "heapsort", "stable")),
    order: Any = NONE, *, stable: Any = Only((None, True, False)),
) -> Any:  # fmt: skip
    a, axis = _flattened(a, axis)
    return searching.argsort(a, axis=axis)


def _place(function: Any) -> Any:
    """np.argmax or np.argmin."""

    def of_array(a: Any, axis: Any = None, out: Any = NONE, *, keepdims: Any = ABSENT) -> Any:
        return function(a, axis=axis, keepdims=bool(_or_default(keepdims, False)))

    return of_array


def _clip(
    a: Any, a_min: Any = ABSENT, a_max: Any = ABSENT, out: Any = NONE, *, min: Any = ABSENT, max: Any = ABSENT
) -> Any:  # fmt: skip
    if a_min is ABSENT and a_max is ABSENT:
        a_min, a_max = min, max
    elif min is not ABSENT or max is not ABSENT:
        raise InvalidConfigError("np.clip: a_min and min are one bound; give one of them")
    return elementwise.clip(a, _or_default(a_min, None), _or_default(a_max, None))


def _round(a: Any, decimals: Any = 0, out: Any = NONE) -> Any:
    if not isinstance(decimals, int | np.integer):
        raise InvalidConfigError(f"np.round: decimals is an integer, got {decimals!r}")
    a = as_operand(a)
    dtype = spec_of(a).dtype
    if dtype.is_bool:
        a, dtype = convert(a, DType.F16), DType.F16
    if decimals == 0 or (decimals > 0 and not dtype.is_inexact):
        return elementwise.round(a)
    if not dtype.is_inexact:
        raise UnsupportedError(
            f"np.round: decimals={decimals} of {spec_of(a)}; convert it to a float dtype first"
        )
    scale = convert(10.0 ** abs(decimals), dtype)
    up, down = elementwise.multiply, elementwise.divide
    if decimals < 0:
        up, down = down, up
    return down(elementwise.round(up(a, scale)), scale)


def _linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: Any = FALSE, dtype: Any = None,
    axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    points = creation.linspace(start, stop, num, endpoint=endpoint, dtype=dtype, device=device)
    return manipulation.moveaxis(points, 0, axis) if axis != 0 else points


def _filled_like(fill_value: int) -> Any:
    """np.zeros_like or np.ones_like."""

    def like(
        a: Any, dtype: Any = None, order: Any = KEEP, subok: Any = TRUE, shape: Any = None, *,
        device: Any = None,
    ) -> Any:  # fmt: skip
        return _full_like(a, fill_value, dtype, shape=shape, device=device)

    return like


def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = KEEP, subok: Any = TRUE, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    a = as_operand(a)
    dtype = spec_of(a).dtype if dtype is None else dtype
    shape = a.shape if shape is None else shape
    like = a if is_traced(a) else None
    return creation.full(shape, fill_value, dtype=dtype, device=device, like=like)


def _empty_like(
    prototype: Any, /, dtype: Any = None, order: Any = KEEP, subok: Any = TRUE, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    return _full_like(prototype, 0, dtype, shape=shape, device=device)


def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return sets.nonzero(condition)
    return elementwise.where(convert(as_operand(condition), DType.Bool), x, y)


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = ABSENT, append: Any = ABSENT) -> Any:
    a = as_operand(a)
    shape = list(a.shape)
    if shape:
        shape[axis] = 1
    ends = [_or_default(end, None) for end in (prepend, append)]
    ends = [
        broadcast_to(end, shape) if end is not None and not as_operand(end).shape else end
        for end in ends
    ]
    return reductions.diff(a, axis=axis, n=n, prepend=ends[0], append=ends[1])


def _take(
    a: Any, indices: Any, axis: Any = None, out: Any = NONE, mode: Any = Only(("raise",))
) -> Any:
    a, axis = _flattened(a, axis)
    return indexing.take(a, indices, axis=axis)


def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    arr, axis = _flattened(arr, axis)
    return indexing.take_along_axis(arr, indices, axis=axis)


def _pad(
    array: Any, pad_width: Any, mode: Any = Only(("constant",)), *, constant_values: Any = 0
) -> Any:
    return manipulation.pad(array, pad_width, constant_values=constant_values)


def _angle(z: Any, deg: bool = False) -> Any:
    z = as_operand(z)
    # np.angle writes arctan2(0, z), where 0 is an int64 beside bools.
    angle = elementwise.angle(convert(z, DType.F64) if spec_of(z).dtype.is_bool else z)
    return elementwise.multiply(angle, 180 / math.pi) if deg else angle


def _einsum(*operands: Any, out: Any = NONE, optimize: Any = False) -> Any:
    return contraction.einsum(*operands, optimize=optimize)


def _size(a: Any, axis: Any = None) -> Any:
    spec = spec_of(as_operand(a))
    if axis is None:
        return spec.size
    return math.prod(spec.shape[i] for i in (axis if isinstance(axis, tuple) else (axis,)))


def _numpy_dtype(operand: Any) -> Any:
    """What NumPy calls the dtype of a tensor, or of what else decides one."""
    return operand.spec.dtype.dtype if is_traced(operand) else operand


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(_numpy_dtype(from_), _numpy_dtype(to), casting)


def _common_dtype(*arrays_and_dtypes: Any) -> Any:
    return result_type(*(DType.of(x) if isinstance(x, str) else x for x in arrays_and_dtypes)).dtype


def _unsigned_count(x: Any, /) -> Any:
    """np.bitwise_count: the bits of the magnitude, as uint8."""
    x = as_operand(x)
    if spec_of(x).dtype.is_bool:
        return convert(x, DType.U8)
    return convert(elementwise.bitwise_count(elementwise.abs(x)), DType.U8)


def _in_float(function: Any) -> Any:
    """A function that NumPy computes in the float dtype of integers."""

    def of_array(x: Any, /) -> Any:
        x = as_operand(x)
        return function(convert(x, inexact_dtype(spec_of(x).dtype)))

    return of_array


def _of_numbers(function: Any) -> Any:
    """A function that NumPy computes in int8 of truths."""

    def of_arrays(x1: Any, /, *x2: Any) -> Any:
        operands = [
            as_operand(x) if not isinstance(x, int | float | complex) else x for x in (x1, *x2)
        ]
        if result_type(*operands).is_bool:
            operands = [convert(x, DType.I8) for x in operands]
        return function(*operands)

    return of_arrays


def _reciprocal(x: Any, /) -> Any:
    x = as_operand(x)
    if not spec_of(x).dtype.is_inexact:
        raise UnsupportedError(
            f"np.reciprocal of {spec_of(x)} is an integer; use 1 / x, or convert x to a float dtype"
        )
    return elementwise.reciprocal(x)


def _triangle(a: Any, lower: bool) -> Any:
    """The Hermitian matrix of which NumPy reads one triangle."""
    half, rest = (creation.tril, creation.triu) if lower else (creation.triu, creation.tril)
    a = half(as_operand(a))
    k = -1 if lower else 1
    strict = elementwise.conj(manipulation.matrix_transpose(half(a, k=k)))
    return elementwise.add(a, rest(strict, k=-k))


def _eigh(a: Any, UPLO: Any = "L") -> Any:
    return linalg.eigh(_triangle(a, _is_lower(UPLO)))


def _eigvalsh(a: Any, UPLO: Any = "L") -> Any:
    return linalg.eigvalsh(_triangle(a, _is_lower(UPLO)))


def _is_lower(triangle: Any) -> bool:
    if triangle not in ("L", "U", "l", "u"):
        raise InvalidConfigError(f'np.linalg.eigh: UPLO is "L" or "U", got {triangle!r}')
    return triangle in "Ll"


def _svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: Any = FALSE
) -> Any:
    return linalg.svd(a, full_matrices=full_matrices) if compute_uv else linalg.svdvals(a)


def _pinv(a: Any, rcond: Any = None, hermitian: Any = FALSE, *, rtol: Any = ABSENT) -> Any:
    if rtol is ABSENT:
        rtol = 1e-15 if rcond is None else rcond
    elif rcond is not None:
        raise InvalidConfigError("np.linalg.pinv: rcond and rtol are one thing; give one of them")
    return linalg.pinv(a, rtol=rtol)


def _along_axis(function: Any) -> Any:
    """A transform along one axis."""

    def of_array(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = NONE) -> Any:
        return function(a, n=n, axis=axis, norm=norm or "backward")

    return of_array


def _along_axes(function: Any, default: Any) -> Any:
    """A transform along several axes."""

    def of_array(
        a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = NONE
    ) -> Any:
        return function(a, s=s, axes=axes, norm=norm or "backward")

    return of_array


# ---- the tables ------------------------------------------------------------------------------------------------

UFUNCS: Mapping[np.ufunc, Callable[..., Any]] = MappingProxyType(
    {
        getattr(np, name): getattr(elementwise, name)
        for name in (
            "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
            "bitwise_invert", "bitwise_or", "bitwise_xor", "cbrt",
            "ceil", "copysign", "cos", "cosh", "divide", "equal", "exp", "exp2", "expm1", "floor",
            "floor_divide", "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan", "less",
            "less_equal", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
            "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "positive",
            "pow", "remainder", "sign", "signbit", "sin", "sinh", "sqrt", "subtract", "tan", "tanh",
            "trunc",
        )
    }
    | {
        getattr(np, name): _of_numbers(getattr(elementwise, name))
        for name in ("bitwise_left_shift", "bitwise_right_shift", "conj", "fmod", "square")
    }
    | {
        np.bitwise_count: _unsigned_count, np.logaddexp: logarithms.logaddexp, np.matmul: linear.matmul,
        np.reciprocal: _reciprocal, np.rint: _in_float(elementwise.round), np.vecdot: linear.vecdot,
    }
)  # fmt: skip

REDUCTIONS: Mapping[np.ufunc, Callable[..., Any]] = MappingProxyType(
    {
        np.add: _sum, np.multiply: _prod, np.maximum: _max, np.minimum: _min, np.logical_and: _all,
        np.logical_or: _any,
    }
)  # fmt: skip
"""What `ufunc.reduce` is."""

SCANS: Mapping[np.ufunc, Callable[..., Any]] = MappingProxyType(
    {
        np.add: _scanned(reductions.cumulative_sum),
        np.multiply: _scanned(reductions.cumulative_prod),
    }
)
"""What `ufunc.accumulate` is."""

_NUMPY: Mapping[Any, Callable[..., Any]] = {
    # Reductions and scans.
    np.sum: _sum, np.prod: _prod, np.max: _max, np.amax: _max, np.min: _min, np.amin: _min, np.all: _all,
    np.any: _any, np.mean: _mean, np.var: _spread("var"), np.std: _spread("std"),
    np.argmax: _place(searching.argmax), np.argmin: _place(searching.argmin),
    np.count_nonzero: lambda a, axis=None, *, keepdims=False: reductions.count_nonzero(
        a, axis=axis, keepdims=keepdims
    ),
    np.cumsum: _scanned(reductions.cumulative_sum), np.cumprod: _scanned(reductions.cumulative_prod),
    np.cumulative_sum: _cumulative(reductions.cumulative_sum),
    np.cumulative_prod: _cumulative(reductions.cumulative_prod), np.diff: _diff,
    # Elementwise.
    np.clip: _clip, np.round: _round, np.around: _round, np.where: _where, np.angle: _angle,
    np.real: lambda val: elementwise.real(val), np.imag: lambda val: elementwise.imag(val),
    # Creation.
    np.linspace: _linspace, np.zeros_like: _filled_like(0), np.ones_like: _filled_like(1),
    np.full_like: _full_like, np.empty_like: _empty_like,
    np.meshgrid: lambda *xi, copy=EITHER, sparse=FALSE, indexing="xy": tuple(
        creation.meshgrid(*xi, indexing=indexing)
    ),
    np.tril: lambda m, k=0: creation.tril(m, k=k), np.triu: lambda m, k=0: creation.triu(m, k=k),
    # Shape and order.
    np.reshape: lambda a, /, shape, order="C", *, copy=None: manipulation.reshape(a, shape, order=order, copy=copy),
    np.ravel: lambda a, order="C": manipulation.ravel(a, order=order),
    np.transpose: lambda a, axes=None: manipulation.transpose(a, axes),
    np.matrix_transpose: lambda x, /: manipulation.matrix_transpose(x),
    np.swapaxes: lambda a, axis1, axis2: manipulation.swapaxes(a, axis1, axis2),
    np.moveaxis: lambda a, source, destination: manipulation.moveaxis(a, source, destination),
    np.expand_dims: lambda a, axis: manipulation.expand_dims(a, axis=axis),
    np.squeeze: lambda a, axis=None: manipulation.squeeze(a, axis=axis),
    np.broadcast_to: lambda array, shape, subok=FALSE: broadcast_to(
        array, shape if isinstance(shape, tuple | list) else (shape,)
    ),
    np.broadcast_arrays: lambda *args, subok=FALSE: tuple(broadcast_arrays(*args)),
    np.concatenate: lambda arrays, /, axis=0, out=NONE, *, dtype=NONE, casting=SAME_KIND: manipulation.concat(
        arrays, axis=axis
    ),
    np.stack: lambda arrays, axis=0, out=NONE, *, dtype=NONE, casting=SAME_KIND: manipulation.stack(
        arrays, axis=axis
    ),
    np.unstack: lambda x, /, *, axis=0: manipulation.unstack(x, axis=axis),
    np.split: lambda ary, indices_or_sections, axis=0: manipulation.split(ary, indices_or_sections, axis=axis),
    np.tile: lambda A, reps: manipulation.tile(A, reps),
    np.repeat: lambda a, repeats, axis=None: sets.repeat(a, repeats, axis=axis),
    np.flip: lambda m, axis=None: manipulation.flip(m, axis=axis),
    np.roll: lambda a, shift, axis=None: manipulation.roll(a, shift, axis=axis), np.pad: _pad,
    np.astype: lambda x, dtype, /, *, copy=True, device=None: manipulation.astype(
        x, dtype, copy=copy, device=device
    ),
    np.diagonal: lambda a, offset=0, axis1=0, axis2=1: manipulation.diagonal(a, offset, axis1, axis2),
    # Searching, sorting, sets.
    np.sort: _sorted, np.argsort: _argsorted, np.nonzero: lambda a: sets.nonzero(a),
    np.searchsorted: lambda a, v, side="left", sorter=None: searching.searchsorted(a, v, side=side, sorter=sorter),
    np.take: _take, np.take_along_axis: _take_along_axis,
    np.isin: lambda element, test_elements, assume_unique=False, invert=False, *, kind=None: sets.isin(
        element, test_elements, assume_unique=assume_unique, invert=invert, kind=kind
    ),
    np.unique_all: lambda x: sets.unique_all(x), np.unique_counts: lambda x: sets.unique_counts(x),
    np.unique_inverse: lambda x: sets.unique_inverse(x), np.unique_values: lambda x: sets.unique_values(x),
    # Products.
    np.einsum: _einsum, np.tensordot: lambda a, b, axes=2: linear.tensordot(a, b, axes=axes),
    np.outer: lambda a, b, out=NONE: linear.outer(a, b),
    np.trace: lambda a, offset=0, axis1=0, axis2=1, dtype=None, out=NONE: linear.trace(
        a, offset, axis1, axis2, dtype
    ),
    # Inspection.
    np.shape: lambda a: as_operand(a).shape, np.ndim: lambda a: spec_of(as_operand(a)).rank, np.size: _size,
    np.iscomplexobj: lambda x: spec_of(as_operand(x)).dtype.is_complex,
    np.isrealobj: lambda x: not spec_of(as_operand(x)).dtype.is_complex, np.result_type: _common_dtype,
    np.can_cast: _can_cast,
}  # fmt: skip

_LINALG: Mapping[Any, Callable[..., Any]] = {
    np.linalg.cholesky: lambda a, /, *, upper=False: linalg.cholesky(_triangle(a, not upper), upper=upper),
    np.linalg.cond: lambda x, p=None: linalg.cond(x, p),
    np.linalg.cross: lambda x1, x2, /, *, axis=-1: linalg.cross(x1, x2, axis=axis),
    np.linalg.det: lambda a: linalg.det(a),
    np.linalg.diagonal: lambda x, /, *, offset=0: linalg.diagonal(x, offset=offset),
    np.linalg.eigh: _eigh, np.linalg.eigvalsh: _eigvalsh, np.linalg.inv: lambda a: linalg.inv(a),
    np.linalg.matmul: lambda x1, x2, /: linear.matmul(x1, x2),
    np.linalg.matrix_norm: lambda x, /, *, keepdims=False, ord="fro": linalg.matrix_norm(x, keepdims=keepdims, ord=ord),
    np.linalg.matrix_power: lambda a, n: linalg.matrix_power(a, n),
    np.linalg.matrix_rank: lambda A, tol=NONE, hermitian=FALSE, *, rtol=None: linalg.matrix_rank(A, rtol=rtol),
    np.linalg.matrix_transpose: lambda x, /: manipulation.matrix_transpose(x),
    np.linalg.multi_dot: lambda arrays, *, out=NONE: linalg.multi_dot(arrays),
    np.linalg.norm: lambda x, ord=None, axis=None, keepdims=False: linalg.norm(x, ord, axis, keepdims),
    np.linalg.outer: lambda x1, x2, /: linalg.outer(x1, x2), np.linalg.pinv: _pinv,
    np.linalg.qr: lambda a, mode="reduced": linalg.qr(a, mode=mode),
    np.linalg.slogdet: lambda a: linalg.slogdet(a), np.linalg.solve: lambda a, b: linalg.solve(a, b),
    np.linalg.svd: _svd, np.linalg.svdvals: lambda x, /: linalg.svdvals(x),
    np.linalg.tensordot: lambda x1, x2, /, *, axes=2: linear.tensordot(x1, x2, axes=axes),
    np.linalg.trace: lambda x, /, *, offset=0, dtype=None: linalg.trace(x, offset=offset, dtype=dtype),
    np.linalg.vecdot: lambda x1, x2, /, *, axis=-1: linear.vecdot(x1, x2, axis=axis),
    np.linalg.vector_norm: lambda x, /, *, axis=None, keepdims=False, ord=2: linalg.vector_norm(
        x, axis=axis, keepdims=keepdims, ord=ord
    ),
}  # fmt: skip

_FFT: Mapping[Any, Callable[..., Any]] = {
    **{
        getattr(np.fft, name): _along_axis(getattr(fft, name))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{
        getattr(np.fft, name): _along_axes(getattr(fft, name), None)
        for name in ("fftn", "ifftn", "rfftn", "irfftn")
    },
    **{
        getattr(np.fft, name): _along_axes(getattr(fft, name), (-2, -1))
        for name in ("fft2", "ifft2", "rfft2", "irfft2")
    },
    np.fft.fftshift: lambda x, axes=None: fft.fftshift(x, axes=axes),
    np.fft.ifftshift: lambda x, axes=None: fft.ifftshift(x, axes=axes),
}

FUNCTIONS: Mapping[Any, Callable[..., Any]] = MappingProxyType({**_NUMPY, **_LINALG, **_FFT})


# ---- the protocols -----------------------------------------------------------------------------------------------


def call_function(function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What a function of NumPy gives for arguments some of which are tensors.

    Raises:
        UnsupportedError: a function or an argument without meaning for tensors of a trace or tracked ones.
    """
    if any(_is_foreign(kind, "__array_function__") for kind in types):
        return NotImplemented
    counterpart = FUNCTIONS.get(function)
    name = _name_of(function)
    if counterpart is None:
        return _on_elements(function, args, kwargs, f"{name} has no counterpart")
    count, names = _UNDOUBTED[counterpart]
    if len(args) <= count and names.issuperset(kwargs):
        return counterpart(*args, **kwargs)
    bound = _bound(inspect.signature(counterpart), args, kwargs)
    if isinstance(bound, str):
        return _on_elements(function, args, kwargs, f"{name}: {_refusal(bound)}")
    return counterpart(*bound.args, **bound.kwargs)


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """What a ufunc, or a method of one, gives for operands some of which are tensors.

    Raises:
        UnsupportedError: a ufunc, method or option without meaning for tensors of a trace or tracked ones.
    """
    if any(_is_foreign(type(x), "__array_ufunc__") for x in inputs):
        return NotImplemented
    if method == "__call__" and not options and ufunc in UFUNCS:
        return UFUNCS[ufunc](*inputs)
    function, name = ufunc, f"np.{ufunc.__name__}"
    if method != "__call__":
        function, name = getattr(ufunc, method), f"{name}.{method}"
    if method == "at" and is_traced(inputs[0]):
        # NumPy writes into vectors even where they are marked as not to be written to.
        raise UnsupportedError(
            f"{name} writes into its operand, and {inputs[0].spec} is a value; "
            "x.at[index].add(values) and its like give a new tensor"
        )
    if method in ("reduce", "accumulate"):
        options = {"axis": 0, **options}
    counterpart = _method(ufunc, method)
    if counterpart is None:
        return _on_elements(function, inputs, options, f"{name} has no counterpart")
    said = {k: v for k, v in options.items() if k not in _DEFAULTS or v not in _DEFAULTS[k]}
    bound = _bound(inspect.signature(counterpart), inputs, said)
    if isinstance(bound, str):
        return _on_elements(function, inputs, options, f"{name}: {_refusal(bound)}")
    return counterpart(*bound.args, **bound.kwargs)


def _undoubted(function: Callable[..., Any]) -> tuple[int, frozenset[str]]:
    """How many arguments need no look before they are passed on, and under which names."""
    parameters = list(inspect.signature(function).parameters.values())
    only = [isinstance(parameter.default, Only) for parameter in parameters]
    names = [p.name for p, is_only in zip(parameters, only, strict=True) if not is_only]
    return (only.index(True) if True in only else len(only)), frozenset(names)


_UNDOUBTED = {function: _undoubted(function) for function in FUNCTIONS.values()}

_DEFAULTS: Mapping[str, Only] = {
    "where": TRUE, "casting": SAME_KIND, "order": KEEP, "dtype": NONE, "subok": TRUE, "signature": NONE,
    "initial": Only((ABSENT, None)), "keepdims": FALSE,
}  # fmt: skip
"""Options of ufuncs, where they say what is so without them."""


def _method(ufunc: np.ufunc, method: str) -> Callable[..., Any] | None:
    """Our function for a method of a ufunc; None without one."""
    function = UFUNCS.get(ufunc)
    if method == "__call__":
        return function
    if method == "outer" and function is not None and ufunc.nin == 2 and ufunc.signature is None:
        return lambda a, b, /: _all_pairs(function, a, b)
    return {"reduce": REDUCTIONS, "accumulate": SCANS}.get(method, {}).get(ufunc)


def _all_pairs(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """The function of every element of one operand with every element of the other."""
    a, b = as_operand(a), as_operand(b)
    return function(manipulation.reshape(a, (*a.shape, *[1] * len(b.shape))), b)


def _is_foreign(kind: type, protocol: str) -> bool:
    """Whether a class that is neither NumPy's nor ours takes part, so that NumPy is to ask it."""
    if kind is np.ndarray or hasattr(kind, "__tenferro_apply__"):
        return False
    return hasattr(kind, protocol) and not issubclass(kind, np.ndarray | np.generic)


def _bound(
    signature: inspect.Signature, args: Sequence[Any], options: Mapping[str, Any]
) -> inspect.BoundArguments | str:
    """The arguments by parameters; or the name of one that has no meaning for tensors."""
    for name in options:
        if name not in signature.parameters:
            return name
    bound = signature.bind(*args, **options)
    for name, value in list(bound.arguments.items()):
        default = signature.parameters[name].default
        if isinstance(default, Only):
            if value not in default:
                return name
            del bound.arguments[name]
    return bound


def _refusal(name: str) -> str:
    """Why an argument is refused, and what to write instead."""
    remedy = {
        "out": "results are new tensors; assign the result",
        "where": "choose with tenferro.where(condition, x, y)",
        "dtype": "convert the operands first",
    }.get(name, "leave it out")
    return f"the argument {name}= has no meaning for tensors ({remedy})"


def _on_elements(function: Any, args: Any, kwargs: Any, reason: str) -> Any:
    """NumPy's function of the elements of eager tensors.

    Raises:
        UnsupportedError: a tensor of a trace, which has none, or a tracked one, whose gradient would be lost.
    """
    leaves, treedef = flatten((tuple(args), dict(kwargs)))
    for x in leaves:
        if is_traced(x) and getattr(x, "is_tracked", True):
            is_eager = hasattr(x, "is_tracked")
            raise UnsupportedError(
                f"{reason}, and {x.spec} {'is tracked' if is_eager else 'belongs to a trace'}; "
                f"use tenferro's functions on it{', or detach() it' if is_eager else ''}"
            )
    if not any(map(is_traced, leaves)):  # NumPy takes its like= away before it asks
        raise UnsupportedError(
            f"{reason} with a tensor as like=; tenferro's creation functions take one"
        )
    arrays = [np.asarray(x) if is_traced(x) else x for x in leaves]
    args, kwargs = unflatten(treedef, arrays)
    return function(*args, **kwargs)


def _name_of(function: Any) -> str:
    """The function as a caller writes it."""
    module = function.__module__ or ""
    if not module.startswith("numpy"):
        return f"{module}.{function.__name__}"
    place = next((part for part in ("linalg", "fft") if part in module), None)
    return ".".join(["np", *([place] if place else []), function.__name__])
