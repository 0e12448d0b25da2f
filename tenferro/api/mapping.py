"""Functions that apply the caller's function along axes, to elements, by conditions, or to indices.

Source: NumPy 2.4, reference, section "Functional programming"; `jax.numpy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Any

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.axes import normalize_axis
from tenferro.api.creation import asarray
from tenferro.api.elementwise import not_equal, where
from tenferro.api.grids import indices, within
from tenferro.api.indexing import take_along_axis
from tenferro.api.manipulation import expand_dims, moveaxis, reshape, stack, unstack
from tenferro.api.promotion import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    convert,
    promote,
)
from tenferro.api.tree import map as map_leaves
from tenferro.api.vmap import vmap
from tenferro.dims import product
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor

__all__ = [
    "apply_along_axis", "apply_over_axes", "choose", "fromfunction", "frompyfunc", "piecewise", "vectorize",
]  # fmt: skip


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Any:  # fmt: skip
    """Apply func1d to each vector of arr along `axis`. The axes of its results replace `axis`.

    Raises:
        AxisError: the axis is outside the rank.

    >>> import tenferro as tnf
    >>> apply_along_axis(tnf.sort, 0, [[2, 1], [1, 3]])
    array([[1, 1],
           [2, 3]])
    """
    x = as_operand(arr)
    axis = normalize_axis("apply_along_axis", axis, len(x.shape))

    def mapped(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    rest = len(x.shape) - 1
    for _ in range(rest):
        mapped = vmap(mapped)
    result = mapped(moveaxis(x, axis, -1))
    new = len(result.shape) - rest
    return moveaxis(result, tuple(range(rest, rest + new)), tuple(range(axis, axis + new)))


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Any:
    """Apply func(a, axis) for one axis after another. If func removes the axis, it is inserted again, with extent 1.

    Raises:
        ShapeError: the rank of a result is neither that of `a` nor one less.

    >>> import tenferro as tnf
    >>> apply_over_axes(tnf.sum, [[1, 2], [3, 4]], [0, 1])
    array([[10]])
    """
    x = as_operand(a)
    rank = len(x.shape)
    for axis in np.atleast_1d(np.asarray(axes)).tolist():
        axis = normalize_axis("apply_over_axes", axis, rank)
        result = as_operand(func(x, axis))
        if len(result.shape) == rank - 1:
            result = expand_dims(result, axis=axis)
        if len(result.shape) != rank:
            raise ShapeError(
                f"apply_over_axes: the function's result {spec_of(result)} is not of {spec_of(x)}'s rank"
            )
        x = result
    return x


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """Select each element from one of several arrays: y[i] = choices[a[i]][i], where all arrays broadcast.

    Args:
        mode: how to treat an index out of range: "raise" an error, reduce it modulo the number of choices ("wrap"), or
            use the nearest valid index ("clip"). "raise" does not accept traced indices.

    Raises:
        DTypeError: the indices are not integers. OutOfBoundsError: an index is out of range, for mode "raise".
        InvalidConfigError: `mode` is unknown, or is "raise" for traced indices.

    >>> choose([0, 1, 0], [[1, 2, 3], [7, 8, 9]])
    array([1, 8, 3])
    """
    refuse("choose", "out", out)
    index = as_operand(a)
    if spec_of(index).dtype.is_bool:
        index = convert(index, DType.I64)
    if not spec_of(index).dtype.is_integer:
        raise DTypeError(f"choose: indices must be integers, got {spec_of(index)}")
    options = promote(*choices)
    index = within("choose", index, len(options), mode)
    index, *options = broadcast_arrays(index, *options)
    return take_along_axis(stack(options), index[None], axis=0)[0]


def fromfunction(
    function: Callable[..., Any], shape: Sequence[int], *, dtype: DTypeLike = float, like: Tensor | None = None, **kwargs: Any
) -> Any:  # fmt: skip
    """Call `function` with one array per axis of `shape`. The array contains the index of each element along the axis.

    >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    array([[0, 1],
           [1, 2]])
    """
    grid = indices(shape, DType.of(dtype))
    return function(*[grid[i] for i in range(len(shape))], **kwargs)


def piecewise(
    x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """Compute each element by the function of the last condition that is true for the element; 0 if none is true.

    Args:
        condlist: one condition, or a list of conditions, each of the shape of x.
        funclist: for each condition, a function of x or a number. An additional entry is used where no condition is
            true.

    Raises:
        InvalidConfigError: the number of functions does not match the number of conditions.

    >>> piecewise(np.array([-1.0, 2.0]), [np.array([True, False])], [lambda x: -x, lambda x: x * 10])
    array([ 1., 20.])
    """
    x, condition = as_operand(x), not_equal(asarray(condlist), 0)
    if len(condition.shape) == len(x.shape):
        condition = condition[None]
    conditions = unstack(condition)
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise InvalidConfigError(
            f"piecewise: {len(conditions)} conditions take as many functions or one more, got {len(funclist)}"
        )
    functions = [*funclist]
    default = functions.pop() if len(functions) > len(conditions) else 0
    dtype = spec_of(x).dtype

    def value(function: Any) -> Any:
        y: Any = function(x, *args, **kwargs) if callable(function) else function
        return broadcast_to(convert(as_operand(y), dtype), x.shape)

    result = value(default)
    for condition, function in zip(conditions, functions, strict=True):
        result = where(condition, value(function), result)
    return result


def frompyfunc(
    func: Callable[..., Any], nin: int, nout: int, *, identity: float | None = None
) -> Any:
    """Return `vectorize(func)`, which checks in each call that there are `nin` operands and `nout` results.

    Raises:
        InvalidConfigError: in a call, the number of operands or results differs.

    >>> frompyfunc(lambda x, y: x * y, 2, 1)(np.array([1, 2]), 3)
    array([3, 6])
    """
    mapped = vectorize(func)

    def checked(*operands: Any) -> Any:
        if len(operands) != nin:
            raise InvalidConfigError(f"frompyfunc: takes {nin} operands, got {len(operands)}")
        results = mapped(*operands)
        count = len(results) if isinstance(results, tuple) else 1
        if count != nout:
            raise InvalidConfigError(f"frompyfunc: {nout} results were declared, got {count}")
        return results

    return checked


_SIGNATURE = re.compile(
    r"\s*\(([\w\s,]*)\)(?:\s*,\s*\(([\w\s,]*)\))*\s*->\s*\(([\w\s,]*)\)(?:\s*,\s*\(([\w\s,]*)\))*\s*"
)


def _core_axes(signature: str) -> tuple[list[list[str]], list[list[str]]]:
    if not _SIGNATURE.fullmatch(signature):
        raise InvalidConfigError(
            f'vectorize: a signature must have the form "(n),(n)->()", got {signature!r}'
        )
    sides = signature.split("->")
    named = [re.findall(r"\(([^)]*)\)", side) for side in sides]
    operands, results = (
        [[name.strip() for name in part.split(",") if name.strip()] for part in side]
        for side in named
    )
    return operands, results


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = (), signature: str | None = None
) -> Callable[..., Any]:  # fmt: skip
    """Return pyfunc mapped over the leading axes of its operands, which broadcast together.

    Args:
        excluded: the positions and names of operands that are passed to pyfunc unchanged.
        signature: the trailing axes of operands and results that pyfunc itself handles, as in "(n),(n)->()". By
            default, pyfunc is a function of scalars.

    Raises:
        InvalidConfigError: the signature is malformed, or does not have the number of operands of a call.
        ShapeError: an operand lacks axes of the signature, or axes of one name have different extents.

    >>> vectorize(lambda x, y: x + y)(np.array([1, 2]), np.array([[10], [20]]))
    array([[11, 12],
           [21, 22]])
    """
    core = None if signature is None else _core_axes(signature)

    @wraps(pyfunc)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        kept = {name: value for name, value in kwargs.items() if name in excluded}
        names = [name for name in kwargs if name not in excluded]
        positions = [i for i in range(len(args)) if i not in excluded]
        operands = [as_operand(args[i]) for i in positions] + [as_operand(kwargs[n]) for n in names]

        def called(*values: Any) -> Any:
            full = [*args]
            for i, value in zip(positions, values, strict=False):
                full[i] = value
            named = dict(zip(names, values[len(positions) :], strict=True))
            return pyfunc(*full, **named, **kept)

        ranks = [0] * len(operands)
        if core is not None:
            if len(core[0]) != len(operands):
                raise InvalidConfigError(
                    f"vectorize: the signature {signature!r} has {len(core[0])} operands, got {len(operands)}"
                )
            ranks = [len(axes) for axes in core[0]]
            _require_extents(core[0], operands)
        leading = [x.shape[: len(x.shape) - rank] for x, rank in zip(operands, ranks, strict=True)]
        shape = broadcast_shapes(*leading)
        if not shape:
            return called(*operands)
        flat = [_with_one_axis(x, lead, shape) for x, lead in zip(operands, leading, strict=True)]
        axes = tuple(0 if lead else None for lead in leading)
        results = vmap(called, in_axes=axes)(*flat)
        return map_leaves(lambda y: reshape(y, (*shape, *y.shape[1:])), results)

    return mapped


def _require_extents(core: Sequence[Sequence[str]], operands: Sequence[Any]) -> None:
    """Raise an error unless each operand has the trailing axes of the signature, and axes of one name have one extent.

    Args:
        core: for each operand, the names of its trailing axes in the signature.
    """
    extents: dict[str, Any] = {}
    for names, x in zip(core, operands, strict=True):
        if len(x.shape) < len(names):
            raise ShapeError(f"vectorize: {spec_of(x)} has no axes {tuple(names)}")
        for name, extent in zip(names, x.shape[len(x.shape) - len(names) :], strict=True):
            if extents.setdefault(name, extent) != extent:
                raise ShapeError(f"vectorize: axis {name} has extents {extents[name]} and {extent}")


def _with_one_axis(x: Any, leading: Sequence[Any], shape: Sequence[Any]) -> Any:
    """Broadcast the leading axes of x to `shape`, and merge them into one axis. If x has none, return x."""
    if not leading:
        return x
    trailing = x.shape[len(leading) :]
    x = reshape(x, (*[1] * (len(shape) - len(leading)), *x.shape))
    return reshape(broadcast_to(x, (*shape, *trailing)), (product(shape), *trailing))
