"""Readers of operations with shapes as operands.

An integer that the module computes from the extents of its arguments is recorded symbolically, as a number or a
`SymDim`. A bool that the module computes from extents is recorded as True, False, or a `SymDim` that is 0 or 1. All
elements of a shape operand must have been recorded in this way. If they depend on an integer argument, this argument
becomes an extent of the program. If a size depends on other data, the declared type of the result may contain the size
or a bound, or `lowering.read.ranges` may compute a bound. With a bound, the program computes the result up to the
bound, and truncates it when it runs. Without a bound, reading raises an error.

Source: StableHLO spec #dynamic_broadcast_in_dim, #dynamic_conv, #dynamic_gather, #dynamic_iota, #dynamic_pad,
#dynamic_reshape, #get_dimension_size, #real_dynamic_slice; StableHLO's document on dynamism, for
#set_dimension_size.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowering.module_tree import Operation
from lowering.read import total_order
from lowering.read.bounded import element_of, elements_at, repeated, reshape, steps, truncated
from lowering.read.contraction import convolution
from lowering.read.indexing import gather
from lowering.read.ranges import note_range, piece_of, range_of
from lowering.read.reader import Reader, ReadRows
from lowering.read.reduction import reduce_window
from lowering.read.regions import combiner_operation
from tenferro.dims import (
    UNKNOWN,
    DimExpr,
    SymDim,
    UpperBound,
    at_least,
    dim_max,
    dim_min,
    is_exact,
    is_static,
    product,
)
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ops import elementwise as el
from tenferro.ops import structural as st
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.source import Iota, ShapeOf
from tenferro.types import DType, TensorSpec

__all__ = [
    "ROWS",
    "UndecidedExtentError",
    "dynamic_reduce_window",
    "dynamic_top_k",
    "extents_of",
    "extents_value",
    "gathered_pad",
    "note_extents",
]


class UndecidedExtentError(UnsupportedError):
    """Error: a shape operand is not computed from the extents of the arguments."""


def dimension_size(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    axis = operation.attributes["dimension"]
    extent = r.spec(operands[0]).shape[axis]
    if isinstance(extent, int):
        return r.constant(extent, operation.spec.dtype)
    size = r.convert(r.apply_one(ShapeOf(axis), operands[0]), operation.spec.dtype)
    if is_exact(extent):
        r.extents[size] = _array([extent], ())
    return size


def set_dimension_size(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `set_dimension_size`, which keeps the first n elements along an axis; the second operand is n."""
    x, size = operands
    axis = operation.attributes["dimension"]
    extents = extents_of(r, size)
    if extents is None:
        return r.apply_one(DynamicTruncate(axis), x, size)
    _note_need(r, extents)
    return r.slice(r.at_bound(x, axis), axis, 0, extents.item())


def broadcast_in_dim(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a broadcast to sizes that are an operand.

    An axis of the operand whose extent is a number other than 1 has the size of the result's axis.
    """
    x, sizes = operands
    dims = tuple(operation.attributes["broadcast_dimensions"])
    own = dict(zip(dims, r.spec(x).shape, strict=True))
    sized = {
        axis: extent for axis, extent in own.items() if isinstance(extent, int) and extent != 1
    }
    shape, cuts = _result_shape(r, operation, sizes, sized)
    bounds = list(shape)
    for axis, dim in enumerate(dims):
        if own[dim] == 1 or not (dim in cuts or not is_exact(own[dim])):
            continue
        line = r.apply_one(Iota((shape[dim],), 0, DType.I64))
        if dim in cuts:
            line = r.apply_one(DynamicTruncate(0), line, cuts.pop(dim))
            bounds[dim] = DimExpr.input_axis(0, axis)
        x = repeated(r, x, axis, line)
    return truncated(r, r.apply_one(st.BroadcastInDim(tuple(bounds), dims), x), cuts)


def dynamic_reshape(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a reshape to sizes that are an operand; one size may depend on data, because the others determine it."""
    x, sizes = operands
    extents = _declared_extents(r, operation, sizes)
    unknown = [axis for axis, extent in enumerate(extents) if extent is None]
    if not r.spec(x).is_exact:
        reshaped = reshape(r, x, [UNKNOWN if extent is None else extent for extent in extents])
        if reshaped is None:
            raise undecided(operation)
        return reshaped
    if len(unknown) > 1:
        raise undecided(operation)
    if unknown:
        rest = product([extent for extent in extents if extent is not None])
        extents[unknown[0]] = product(r.spec(x).shape) // rest if rest else 0
    return r.reshape(x, tuple(extents))


def dynamic_iota(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    shape, cuts = _result_shape(r, operation, operands[0])
    line = Iota(shape, operation.attributes["iota_dimension"], operation.spec.dtype)
    return truncated(r, r.apply_one(line), cuts)


def _declared_extents(
    r: Reader, operation: Operation, sizes: int, extents: Mapping[int, Any] | None = None
) -> list[Any]:
    """Return the extents of a result with the shape operand `sizes`; None for extents that depend on data.

    Args:
        extents: extents that are known without the operand, by axis.

    Raises:
        UndecidedExtentError: sizes depend on data, and `r.truncates` is false.
    """
    recorded = extents_of(r, sizes)
    if recorded is not None:
        _note_need(r, recorded)
        return recorded.ravel().tolist()
    if not r.truncates:
        raise undecided(operation)
    shape: list[Any] = []
    for axis, declared in enumerate(operation.spec.shape):
        if is_static(declared):
            shape.append(declared)
        elif extents is not None and axis in extents:
            shape.append(extents[axis])
        else:
            piece, index = piece_of(r, sizes, axis)
            element = extents_of(r, piece)
            shape.append(None if element is None else element[index])
    return shape


def _result_shape(
    r: Reader, operation: Operation, sizes: int, extents: Mapping[int, Any] | None = None
) -> tuple[tuple[Any, ...], dict[int, int]]:
    """Return the shape of a result, with bounds of sizes that depend on data, and the scalar sizes of these axes.

    Raises:
        UndecidedExtentError: a size depends on data and has no bound.
    """
    shape = _declared_extents(r, operation, sizes, extents)
    cuts: dict[int, int] = {}
    for axis, extent in enumerate(shape):
        if extent is None:
            cuts[axis] = element_of(r, sizes, axis)
            shape[axis] = _bound(r, operation, axis, sizes)
    return tuple(shape), cuts


def _bound(r: Reader, operation: Operation, axis: int, sizes: int) -> Any:
    declared = operation.spec.shape[axis]
    if isinstance(declared, UpperBound):
        return declared.dim
    bound = range_of(r, piece_of(r, sizes, axis)[0]).high
    if bound is None or at_least(bound, LARGEST_BOUND + 1) is True:
        raise undecided(operation)
    return bound


LARGEST_BOUND = 1 << 24
"""Largest computed bound of a size that is used; a larger bound is only the limit of the size's dtype."""


def dynamic_slice(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a slice whose starts, limits and strides are operands.

    If they depend on the data, the elements of each axis at start + i * stride are gathered, and truncated when the
    program runs to ceil((limit - start) / stride) elements.
    """
    x, *edges = operands
    bounds = [extents_of(r, value) for value in edges]
    if all([extents is not None for extents in bounds]):
        _note_need(r, *bounds)
        starts, limits, strides = [tuple(extents.tolist()) for extents in bounds]
        numbers = tuple([stride if is_static(stride) else 1 for stride in strides])
        x = r.apply_one(st.Slice(starts, limits, numbers), x)
        for axis, stride in enumerate(strides):
            x = x if is_static(stride) else _strided(r, x, axis, stride)
        return x
    if not r.spec(x).is_exact or not (r.truncates or bounds[2] is not None):
        raise undecided(operation)
    cuts: dict[int, int] = {}
    for axis, declared in enumerate(operation.spec.shape):
        start, limit, stride = [element_of(r, value, axis) for value in edges]
        extent: Any = r.spec(x).shape[axis]
        one = r.constant(1, DType.I64)
        stride = r.apply_one(el.Maximum(), stride, one)
        length = r.apply_one(el.Add(), r.apply_one(el.Subtract(), limit, start), stride)
        count = r.apply_one(el.Divide(), r.apply_one(el.Subtract(), length, one), stride)
        if is_static(declared):
            extent = declared
        else:
            cuts[axis] = count
        x = elements_at(r, x, axis, steps(r, start, stride, extent))
    return truncated(r, x, cuts)


def _strided(r: Reader, x: int, axis: int, stride: Any) -> int:
    """Select every n-th element along an axis, where n is the extent `stride`, which may be symbolic.

    The op `Slice` needs a number as its stride. So the axis is padded and reshaped to rows of n elements, and the first
    element of each row is selected.
    """
    r.builder.guards.require(stride, ">=", 1, "a stride of real_dynamic_slice is at least 1")
    shape = r.spec(x).shape
    rank, extent = len(shape), shape[axis]
    count = (extent + stride - 1) // stride
    high = tuple([count * stride - extent if a == axis else 0 for a in range(rank)])
    none = (0,) * rank
    x = r.apply_one(st.Pad(none, high, none), x, r.constant(0, r.spec(x).dtype))
    x = r.reshape(x, (*shape[:axis], count, stride, *shape[axis + 1 :]))
    first = r.slice(x, axis + 1, 0, 1)
    return r.reshape(first, (*shape[:axis], count, *shape[axis + 1 :]))


def _spaced(r: Reader, x: int, axis: int, between: Any, filler: int) -> int:
    """Insert `between` copies of `filler` between neighbouring elements along an axis.

    `between` is an extent, so it may be symbolic.
    """
    shape = r.spec(x).shape
    rank, extent = len(shape), shape[axis]
    x = r.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    high = tuple([between if a == axis + 1 else 0 for a in range(rank + 1)])
    none = (0,) * (rank + 1)
    x = r.apply_one(st.Pad(none, high, none), x, filler)
    x = r.reshape(x, (*shape[:axis], extent * (between + 1), *shape[axis + 1 :]))
    return r.slice(x, axis, 0, dim_max(extent * (between + 1) - between, 0))


def dynamic_pad(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a padding whose amounts are operands; if any depends on data, the elements are gathered."""
    if r.truncates and any([extents_of(r, value) is None for value in operands[2:]]):
        return gathered_pad(r, operation, operands)
    low, high, interior = [_shape(r, operation, value) for value in operands[2:]]
    x, filler = operands[:2]
    for axis, between in enumerate(interior):
        x = x if is_static(between) else _spaced(r, x, axis, between, filler)
    numbers = tuple([between if is_static(between) else 0 for between in interior])
    return r.apply_one(st.Pad(low, high, numbers), x, filler)


def gathered_pad(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Pad by amounts, or along axes, that depend on data.

    Element k of an axis is x[(k - low) / (interior + 1)], if the quotient is an index of x, and else the filler.
    """
    x, filler, *amounts = operands
    lengths = [r.apply_one(ShapeOf(axis), x) for axis in range(len(r.spec(x).shape))]
    for axis in range(len(lengths)):
        x = r.at_bound(x, axis)
    cuts: dict[int, int] = {}
    for axis, declared in enumerate(operation.spec.shape):
        low, high, interior = [element_of(r, value, axis) for value in amounts]
        one = r.constant(1, DType.I64)
        zero = r.constant(0, DType.I64)
        step = r.apply_one(el.Add(), interior, one)
        extent = lengths[axis]
        inner = r.apply_one(el.Multiply(), r.apply_one(el.Subtract(), extent, one), step)
        inner = r.apply_one(el.Maximum(), r.apply_one(el.Add(), inner, one), zero)
        size = r.apply_one(el.Add(), r.apply_one(el.Add(), low, high), inner)
        count: Any = declared
        if not is_static(declared):
            cuts[axis] = size
            count = _padded_bound(r, operation, x, axis, amounts)
        first = steps(r, r.apply_one(el.Negate(), low), one, count)
        spacing = r.spread(step, (count,))
        quotient = r.apply_one(el.Divide(), first, spacing)
        whole = r.apply_one(el.Compare("EQ"), r.apply_one(el.Multiply(), quotient, spacing), first)
        extents = r.spread(extent, (count,))
        inside = r.apply_one(el.Compare("LT"), quotient, extents)
        started = r.apply_one(el.Compare("GE"), first, r.spread(zero, (count,)))
        inside = r.apply_one(el.And(), r.apply_one(el.And(), inside, started), whole)
        x = elements_at(r, x, axis, quotient)
        shape = r.spec(x).shape
        mask = r.apply_one(st.BroadcastInDim(shape, (axis,)), inside)
        x = r.apply_one(el.Select(), mask, x, r.spread(filler, shape))
    return truncated(r, x, cuts)


def _padded_bound(
    r: Reader, operation: Operation, x: int, axis: int, amounts: Sequence[int]
) -> Any:
    """Return the bound of a padded axis: that of its declared type, or computed from bounds of the amounts."""
    declared = operation.spec.shape[axis]
    if isinstance(declared, UpperBound):
        return declared.dim
    extent = r.spec(x).shape[axis]
    low, high, interior = [range_of(r, piece_of(r, value, axis)[0]).high for value in amounts]
    bound = low + high + extent + dim_max(extent - 1, 0) * interior
    if at_least(bound, LARGEST_BOUND + 1) is True:
        raise undecided(operation)
    return bound


def dynamic_gather(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a gather whose slice sizes are an operand.

    If a slice size is symbolic, but the declared type of the result contains a number for it, that number is used. A
    guard then checks that the size equals the number.
    """
    numbers, shape = operation.attributes["dimension_numbers"], operation.spec.shape
    rank = len(r.spec(operands[0]).shape)
    dropped = {*numbers["collapsed_slice_dims"], *numbers["operand_batching_dims"]}
    window_axes = [axis for axis in range(rank) if axis not in dropped]
    declared: dict[int, Any] = dict.fromkeys(dropped, 1)
    declared |= {a: shape[n] for a, n in zip(window_axes, numbers["offset_dims"], strict=False)}
    if r.truncates and all(map(is_static, declared.values())):
        sizes = [declared[axis] for axis in range(rank)]
    else:
        sizes = list(_shape(r, operation, operands[2]))
    for axis, extent in declared.items():
        if isinstance(extent, int) and not is_static(sizes[axis]):
            reason = f"dynamic_gather: the slice's size of axis {axis}"
            r.builder.guards.require(sizes[axis], "==", extent, reason)
            sizes[axis] = extent
    attributes = operation.attributes | {"slice_sizes": tuple(sizes)}
    return gather(r, replace(operation, attributes=attributes), operands[:2])


def dynamic_convolution(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a convolution whose padding is an operand.

    If the padding is symbolic, the op `Pad` pads the input before the convolution.
    """
    lhs, rhs, padding = operands
    edges = _shape(r, operation, padding)
    attributes = operation.attributes | {"padding": _array(edges, (len(edges) // 2, 2))}
    if not all(map(is_static, edges)):
        spatial = attributes["dimension_numbers"]["input_spatial_dimensions"]
        dilation = attributes.pop("lhs_dilation", None) or (1,) * len(spatial)
        del attributes["padding"]
        places = {axis: number for number, axis in enumerate(spatial)}
        rank = len(r.spec(lhs).shape)
        low, high = [
            tuple([edges[2 * places[a] + side] if a in places else 0 for a in range(rank)])
            for side in (0, 1)
        ]
        interior = tuple([dilation[places[a]] - 1 if a in places else 0 for a in range(rank)])
        zero = r.constant(0, r.spec(lhs).dtype)
        lhs = r.apply_one(st.Pad(low, high, interior), lhs, zero)
    return convolution(r, replace(operation, attributes=attributes), (lhs, rhs))


def dynamic_top_k(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read JAX's custom call for the k largest elements, in the total order, and their indices; k is an operand."""
    (k,) = _shape(r, operation, operands[1])
    values, places = total_order.top_k(r, operands[0], k)
    return [values, r.convert(places, DType.I32)]


def dynamic_reduce_window(
    r: Reader, operation: Operation, operands: Sequence[int]
) -> Sequence[int]:
    """Read JAX's custom call for a window reduction whose sizes, strides, dilations and padding are operands."""
    *arrays, sizes, strides, base, dilations, edges = operands
    name = operation.attributes["called_computations"][0]
    region = r.tree.functions[name.removeprefix("@")].body
    attributes = {
        "window_dimensions": _shape(r, operation, sizes),
        "window_strides": _shape(r, operation, strides),
        "base_dilations": _shape(r, operation, base),
        "window_dilations": _shape(r, operation, dilations),
        "padding": _array(_shape(r, operation, edges), (len(r.spec(arrays[0]).shape), 2)),
    }
    return reduce_window(r, replace(operation, attributes=attributes, regions=(region,)), arrays)


def _shape(r: Reader, operation: Operation, value: int) -> tuple[Any, ...]:
    """Return the elements of a shape operand as extents, numbers or `SymDim`s.

    Raises:
        UndecidedExtentError: an element is not computed from the extents of the arguments.
    """
    extents = extents_of(r, value)
    if extents is None:
        raise undecided(operation)
    _note_need(r, extents)
    return tuple(extents.ravel().tolist())


def _note_need(r: Reader, *extents: Any) -> None:
    for extent in [extent for array in extents for extent in array.ravel().tolist()]:
        if not is_static(extent):
            r.needed |= extent.leaves()


def extents_value(r: Reader, argument: int, spec: TensorSpec, extents: Sequence[Any]) -> int:
    """Return a tensor of the type `spec` whose elements are the extents of an input of the program, and record them.

    The module declares an integer argument of the type `spec`. The program has an empty array with these extents
    instead.
    """
    sizes = [
        r.convert(r.apply_one(ShapeOf(axis), argument), spec.dtype) for axis in range(len(extents))
    ]
    if spec.rank:
        sizes = [r.reshape(size, (1,)) for size in sizes]
        value = r.reshape(r.apply_one(st.Concatenate(0, len(sizes)), *sizes), spec.shape)
    else:
        (value,) = sizes
    r.extents[value] = _array(extents, spec.shape)
    return value


def undecided(operation: Operation) -> UndecidedExtentError:
    """Return the error for an operation with a shape operand that depends on the data."""
    return UndecidedExtentError(
        f"{operation.name}: its shapes and bounds must be constants or made of the arguments' extents, or of "
        "integer arguments, by arithmetic; other elements, or another operation, decide one of them, and it has no "
        "bound: declare one as #stablehlo.bounds, or take the minimum of the size and a constant"
    )


# ---- known integers ---------------------------------------------------------------------------


def extents_of(r: Reader, value: int) -> Any:
    """Return the elements of an integer or bool tensor as an array of numbers, `SymDim`s and bools.

    Return None if an element is neither constant nor computed from extents.
    """
    extents = r.extents.get(value)
    if extents is not None:
        return extents
    array = r.constant_array(value)
    if array is None:
        array = r.evaluated(value)
    if array is None or np.asarray(array).dtype.kind not in "iub":
        return None
    return _array(np.asarray(array).ravel().tolist(), np.shape(array))


def note_extents(
    r: Reader, operation: Operation, operands: Sequence[int], results: Sequence[int]
) -> None:
    """Record the range of a result and, if operands are recorded as extents, the extents that a rule computes."""
    note_range(r, operation, operands, results)
    rule = RULES.get(operation.name)
    if rule is None or len(results) != 1 or r.extents.keys().isdisjoint(operands):
        return
    spec = r.spec(results[0])
    if spec.dtype.is_inexact or spec.rank > 2 or not spec.is_static:
        return
    try:
        extents = rule(r, operation, *[extents_of(r, value) for value in operands])
    except InvalidConfigError:  # the symbolic expression would be too large
        return
    if extents is not None:
        r.extents[results[0]] = extents
    if operation.name == "stablehlo.compare" and not spec.rank:
        is_decided = extents is not None and isinstance(extents.item(), bool)
        if not is_decided:
            _note_claim(r, operation, operands, results[0])


def _note_claim(r: Reader, operation: Operation, operands: Sequence[int], result: int) -> None:
    """Record a comparison of two extents, so that a `shape_assertion` of its result can become a guard."""
    sides = [extents_of(r, value) for value in operands]
    if any([side is None for side in sides]):
        return
    lhs, rhs = [side.flat[0] for side in sides]
    match operation.attributes["comparison_direction"]:
        case "EQ":
            r.claims[result] = (lhs, "==", rhs)
        case "GE":
            r.claims[result] = (lhs, ">=", rhs)
        case "GT":
            r.claims[result] = (lhs, ">=", rhs + 1)
        case "LE":
            r.claims[result] = (rhs, ">=", lhs)
        case "LT":
            r.claims[result] = (rhs, ">=", lhs + 1)
        case _:
            pass


def _at_least(r: Reader, lhs: Any, rhs: Any) -> bool | None:
    """Return whether lhs >= rhs for all extents that satisfy the lower bounds that the module asserts.

    Return None if the bounds do not decide the relation.
    """
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs >= rhs
    shifted: dict[Any, Any] = {
        symbol: SymDim(symbol.name) + low for symbol, low in r.lowest.items()
    }
    sides = [x if isinstance(x, int) else x.evaluate(shifted) for x in (lhs, rhs)]
    return at_least(*sides)


def _array(elements: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Create an array of objects of this shape; `np.array` would try to convert a `SymDim` to a number."""
    array = np.empty(len(elements), object)
    for i, element in enumerate(elements):
        array[i] = element
    return array.reshape(shape)


def _each(function: Callable[..., Any], partly: bool = False) -> Callable[..., Any]:
    """Return a rule that applies `function(r, *elements)` elementwise to recorded operands.

    The rule returns None if the function returns None for any element.

    Args:
        partly: whether the function also accepts None, for elements of operands that are not recorded.
    """

    def rule(r: Reader, operation: Operation, *operands: Any) -> Any:
        present = [x for x in operands if x is not None]
        if len(present) < len(operands) and not partly:
            return None
        rows = [[None] * present[0].size if x is None else x.ravel().tolist() for x in operands]
        if len({len(row) for row in rows}) > 1:
            return None
        elements = [function(r, *row) for row in zip(*rows, strict=True)]
        unknown = any([element is None for element in elements])
        return None if unknown else _array(elements, present[0].shape)

    return rule


def _magnitude(r: Reader, x: Any) -> Any:
    if _at_least(r, x, 0):
        return x
    return -x if _at_least(r, 0, x) else dim_max(x, -x)


def _quotient(r: Reader, lhs: Any, rhs: Any) -> Any:
    """Divide two extents, rounding towards zero as StableHLO does; the operator `//` of extents rounds down."""
    if isinstance(rhs, int) and not rhs:
        return None
    if not _at_least(r, rhs, 0):
        return _sign(r, rhs) * _quotient_by_magnitude(r, lhs, _magnitude(r, rhs))
    return _quotient_by_magnitude(r, lhs, rhs)


def _quotient_by_magnitude(r: Reader, lhs: Any, rhs: Any) -> Any:
    if _at_least(r, lhs, 0):
        return lhs // rhs
    if _at_least(r, 0, lhs):
        quotient = -(-lhs // rhs)
    else:
        quotient = dim_max(lhs, 0) // rhs - dim_max(-lhs, 0) // rhs
    r.quotients[quotient] = lhs, rhs
    return quotient


def _remainder(r: Reader, lhs: Any, rhs: Any) -> Any:
    """Compute the remainder of lhs divided by rhs, with the sign of lhs, as StableHLO does."""
    if isinstance(rhs, int) and not rhs:
        return None
    if _at_least(r, lhs, 0) and _at_least(r, rhs, 0):
        return lhs % rhs
    if _at_least(r, 0, lhs) and _at_least(r, rhs, 0):
        return -(-lhs % rhs)
    return lhs - rhs * _quotient(r, lhs, rhs)


def _sign(r: Reader, x: Any) -> Any:
    if isinstance(x, int):
        return (x > 0) - (x < 0)
    if _at_least(r, x, 0):
        return 1 if _at_least(r, x, 1) else dim_min(x, 1)
    if _at_least(r, 0, x):
        return -_sign(r, -x)
    return dim_max(dim_min(x, 1), -1)


def _and(r: Reader, lhs: Any, rhs: Any) -> Any:
    if lhs is False or rhs is False:
        return False
    if lhs is None or rhs is None:
        return None
    return rhs if lhs is True else lhs if rhs is True else lhs * rhs


def _or(r: Reader, lhs: Any, rhs: Any) -> Any:
    if lhs is True or rhs is True:
        return True
    if lhs is None or rhs is None:
        return None
    return rhs if lhs is False else lhs if rhs is False else lhs + rhs - lhs * rhs


def _not(r: Reader, x: Any) -> Any:
    return not x if isinstance(x, bool) else 1 - x


def _differs(r: Reader, lhs: Any, rhs: Any) -> Any:
    return _decided(r, "NE", lhs, rhs)


def _either(on_bools: Callable[..., Any], on_integers: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule for an operation that is logical on bools and bitwise on integers."""
    logical, bitwise = _each(on_bools, partly=True), _each(on_integers)

    def rule(r: Reader, operation: Operation, *operands: Any) -> Any:
        return (logical if operation.spec.dtype.is_bool else bitwise)(r, operation, *operands)

    return rule


def _masked(r: Reader, lhs: Any, rhs: Any) -> Any:
    """Compute the bitwise `and` of two integers, one of which may be symbolic.

    A mask of the bits below a power of two p computes the remainder modulo p. A mask of the bits from p upwards rounds
    down to a multiple of p.
    """
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs & rhs
    x, mask = (rhs, lhs) if isinstance(lhs, int) else (lhs, rhs)
    if not isinstance(mask, int):
        return None
    if mask >= 0:
        return x % (mask + 1) if mask & (mask + 1) == 0 else None
    return x - x % -mask if mask & -mask == -mask else None


def _of_numbers(function: Callable[[int, int], int]) -> Callable[..., Any]:
    """Return a function of two elements, for a rule, that calls `function` on numbers and returns None for symbols."""

    def constant_array(r: Reader, lhs: Any, rhs: Any) -> Any:
        return function(lhs, rhs) if isinstance(lhs, int) and isinstance(rhs, int) else None

    return constant_array


def _shifted(scale: Callable[[Reader, Any, int], Any]) -> Callable[..., Any]:
    """Return a rule for a shift by a constant, as a multiplication or division by a power of two.

    The constant must be less than the number of bits of an element.
    """

    def rule(r: Reader, operation: Operation, x: Any, counts: Any) -> Any:
        bits = operation.spec.dtype.bits

        def shift(r: Reader, x: Any, count: Any) -> Any:
            is_known = isinstance(count, int) and 0 <= count < bits
            return scale(r, x, 1 << count) if is_known else None

        return _each(shift)(r, operation, x, counts)

    return rule


def _power(r: Reader, x: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or not 0 <= exponent <= LARGEST_EXPONENT:
        return None
    return math.prod([x] * exponent)


LARGEST_EXPONENT = 8
"""Largest constant exponent of a symbolic extent; the power is computed as a product."""


def _select(r: Reader, pred: Any, on_true: Any, on_false: Any) -> Any:
    if pred is None:
        return None
    if isinstance(pred, bool):
        return on_true if pred else on_false
    if on_true is None or on_false is None:
        return None
    sides = r.quotients.get(on_false)
    if sides is not None and on_true == on_false - 1 and pred == _is_rounded_up(r, *sides):
        return sides[0] // sides[1]
    return on_false + pred * (on_true - on_false)


def _is_rounded_up(r: Reader, lhs: Any, rhs: Any) -> Any:
    """Return whether a quotient rounded towards zero exceeds the exact quotient.

    JAX writes a floor division as a division and a selection with this predicate.
    """
    is_negative = _decided(r, "NE", _sign(r, lhs), _sign(r, rhs))
    return _and(r, is_negative, _decided(r, "NE", _remainder(r, lhs, rhs), 0))


def _compare(r: Reader, operation: Operation, lhs: Any, rhs: Any) -> Any:
    """Compare extents elementwise.

    A result is a bool if it is the same for all values of the symbols, else a `SymDim` that is 0 or 1.
    """
    if lhs is None or rhs is None:
        return None
    direction = operation.attributes["comparison_direction"]
    return _each(lambda r, a, b: _decided(r, direction, a, b))(r, operation, lhs, rhs)


def _decided(r: Reader, direction: str, lhs: Any, rhs: Any) -> Any:
    lhs, rhs = [int(side) if isinstance(side, bool) else side for side in (lhs, rhs)]
    match direction:
        case "GE":
            decided = _at_least(r, lhs, rhs)
            return dim_max(dim_min(lhs - rhs + 1, 1), 0) if decided is None else decided
        case "LE":
            return _decided(r, "GE", rhs, lhs)
        case "GT":
            return _not(r, _decided(r, "GE", rhs, lhs))
        case "LT":
            return _not(r, _decided(r, "GE", lhs, rhs))
        case "NE":
            if lhs == rhs:
                return False
            if _at_least(r, lhs, rhs + 1) or _at_least(r, rhs, lhs + 1):
                return True
            return dim_min(_magnitude(r, lhs - rhs), 1)
        case _:
            return _not(r, _decided(r, "NE", lhs, rhs))


def _converted(r: Reader, operation: Operation, x: Any) -> Any:
    """Convert recorded integers to the dtype of the result; the conversion to bool is the comparison with 0.

    Return None for a symbolic extent and an integer dtype of fewer than 32 bits, which might not hold it.
    """
    dtype = operation.spec.dtype
    if x is None or not dtype.is_bool:
        is_held = x is None or dtype.bits >= 32 or all(map(is_static, x.ravel().tolist()))
        return x if is_held else None
    return _each(lambda r, a: a if isinstance(a, bool) else _decided(r, "NE", a, 0))(
        r, operation, x
    )


def _repeated(r: Reader, operation: Operation, x: Any) -> Any:
    shape = operation.spec.shape
    if x is None or (x.size != 1 and x.shape != shape):
        return None
    return _array(x.ravel().tolist() * (math.prod(shape) // x.size), shape)


def _joined(r: Reader, operation: Operation, *xs: Any) -> Any:
    is_known = not any([x is None for x in xs])
    return np.concatenate(xs, operation.attributes["dimension"]) if is_known else None


def _sliced(r: Reader, operation: Operation, x: Any) -> Any:
    if x is None:
        return None
    a = operation.attributes
    return _cut(x, a["start_indices"], a["limit_indices"], a["strides"])


def _cut(x: Any, starts: Any, limits: Any, strides: Any) -> Any:
    return x[tuple([slice(*map(int, edge)) for edge in zip(starts, limits, strides, strict=True)])]


def _cut_by_operands(r: Reader, operation: Operation, x: Any, *edges: Any) -> Any:
    """Slice an array of extents by operands, which must be constants."""
    if x is None or any([edge is None or not all(map(is_static, edge)) for edge in edges]):
        return None
    return _cut(x, *edges)


def _fixed_slice(r: Reader, operation: Operation, x: Any, *starts: Any) -> Any:
    """Slice an array of extents as `dynamic_slice` does, which clips the starts so that the slice is in bounds.

    Return None if a start is not a constant.
    """
    if x is None or any([start is None or not is_static(start.item()) for start in starts]):
        return None
    sizes = operation.attributes["slice_sizes"]
    firsts = [
        min(max(start.item(), 0), extent - size)
        for start, extent, size in zip(starts, x.shape, sizes, strict=True)
    ]
    return x[tuple([slice(n, n + size) for n, size in zip(firsts, sizes, strict=True)])]


def _reshaped(r: Reader, operation: Operation, x: Any, *shape: Any) -> Any:
    return None if x is None else x.reshape(operation.spec.shape)


def _total(r: Reader, operation: Operation, x: Any, initial: Any) -> Any:
    """Compute the sum, product, maximum or minimum of a vector of extents, as the reduction's region says."""
    combiners = {
        "add": "stablehlo.add",
        "multiply": "stablehlo.multiply",
        "max": "stablehlo.maximum",
    }
    names = combiner_operation(operation.regions[0])
    rule = RULES.get(combiners.get(names[0], f"stablehlo.{names[0]}imum")) if names else None
    if x is None or initial is None or rule is None or x.ndim != 1:
        return None
    total = initial
    for element in x:
        total = rule(r, operation, total, _array([element], ()))
        if total is None:
            return None
    return total


RULES: Mapping[str, Callable[..., Any]] = {
    "stablehlo.abs": _each(_magnitude),
    "stablehlo.add": _each(lambda r, x, y: x + y),
    "stablehlo.and": _either(_and, _masked),
    "stablehlo.broadcast_in_dim": _repeated,
    "stablehlo.clamp": _each(lambda r, low, x, high: dim_min(dim_max(x, low), high)),
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": _joined,
    "stablehlo.convert": _converted,
    "stablehlo.divide": _each(_quotient),
    "stablehlo.dynamic_broadcast_in_dim": lambda r, operation, x, shape: _repeated(r, operation, x),
    "stablehlo.dynamic_reshape": _reshaped,
    "stablehlo.dynamic_slice": _fixed_slice,
    "stablehlo.maximum": _each(lambda r, x, y: dim_max(x, y)),
    "stablehlo.minimum": _each(lambda r, x, y: dim_min(x, y)),
    "stablehlo.multiply": _each(lambda r, x, y: x * y),
    "stablehlo.negate": _each(lambda r, x: -x),
    "stablehlo.not": _either(_not, lambda r, x: -1 - x),
    "stablehlo.or": _either(_or, _of_numbers(operator.or_)),
    "stablehlo.power": _each(_power),
    "stablehlo.real_dynamic_slice": _cut_by_operands,
    "stablehlo.reduce": _total,
    "stablehlo.remainder": _each(_remainder),
    "stablehlo.reshape": _reshaped,
    "stablehlo.reverse": lambda r, operation, x: (
        None if x is None else np.flip(x, operation.attributes["dimensions"])
    ),
    "stablehlo.select": _each(_select, partly=True),
    "stablehlo.shift_left": _shifted(lambda r, x, scale: x * scale),
    "stablehlo.shift_right_arithmetic": _shifted(lambda r, x, scale: x // scale),
    "stablehlo.shift_right_logical": _shifted(
        lambda r, x, scale: x // scale if _at_least(r, x, 0) else None
    ),
    "stablehlo.sign": _each(_sign),
    "stablehlo.slice": _sliced,
    "stablehlo.subtract": _each(lambda r, x, y: x - y),
    "stablehlo.xor": _either(_differs, _of_numbers(operator.xor)),
}
"""Rules that compute the extents of an operation's result from the extents of its operands, by operation name."""

ROWS: ReadRows = {
    "stablehlo.dynamic_broadcast_in_dim": broadcast_in_dim,
    "stablehlo.dynamic_conv": dynamic_convolution,
    "stablehlo.dynamic_gather": dynamic_gather,
    "stablehlo.dynamic_iota": dynamic_iota,
    "stablehlo.dynamic_pad": dynamic_pad,
    "stablehlo.dynamic_reshape": dynamic_reshape,
    "stablehlo.get_dimension_size": dimension_size,
    "stablehlo.real_dynamic_slice": dynamic_slice,
    "stablehlo.set_dimension_size": set_dimension_size,
}
