"""Functions of all slices of a batch, along an axis that `vmap(.., axis_name=)` names.

Source: the functions of these names in `jax.lax`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tenferro.api.creation import arange
from tenferro.api.manipulation import broadcast_to, concat, moveaxis
from tenferro.api.named_axes import NamedAxis, all_slices, axis_names, named_axis, slice_of
from tenferro.api.reductions import max as max_
from tenferro.api.reductions import min as min_
from tenferro.api.reductions import sum as sum_
from tenferro.api.tensor import TracedTensor, tracing
from tenferro.door import as_operand
from tenferro.door.tracing import current_builder
from tenferro.errors import UnsupportedError
from tenferro.types import ArrayLike, PyTree, flatten, unflatten

__all__ = ["all_gather", "axis_index", "axis_size", "pmax", "pmean", "pmin", "psum"]


def psum(x: PyTree, axis_name: Hashable, *, axis_index_groups: None = None) -> Any:
    """y = sum of x over all slices of the named axis, the same for each slice.

    Args:
        x: a tree of tensors; a Python number stands for itself in each slice.
        axis_name: the axis_name of a `vmap` that is under way, or a tuple of several.

    Raises:
        InvalidConfigError: no such `vmap` is under way.
        UnsupportedError: inside of a loop, a branch or a derivative that the `vmap` is around; axis_index_groups.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    return _over("psum", x, axis_name, axis_index_groups, lambda y: sum_(y, axis=0, dtype=y.dtype))


def pmean(x: PyTree, axis_name: Hashable, *, axis_index_groups: None = None) -> Any:
    """y = mean of x over all slices of the named axis; see `psum`.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    totals = psum(x, axis_name, axis_index_groups=axis_index_groups)
    count = 1
    for name in axis_names("pmean", axis_name):
        count *= axis_size(name)
    leaves, tree = flatten(totals)
    return unflatten(tree, [leaf / count for leaf in leaves])


def pmax(x: PyTree, axis_name: Hashable, *, axis_index_groups: None = None) -> Any:
    """y = maximum of x over all slices of the named axis; see `psum`.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x - pmax(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-2.,  0.])
    """
    return _over("pmax", x, axis_name, axis_index_groups, lambda y: max_(y, axis=0))


def pmin(x: PyTree, axis_name: Hashable, *, axis_index_groups: None = None) -> Any:
    """y = minimum of x over all slices of the named axis; see `psum`.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x - pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0., 2.])
    """
    return _over("pmin", x, axis_name, axis_index_groups, lambda y: min_(y, axis=0))


def all_gather(
    x: PyTree,
    axis_name: Hashable,
    *,
    axis_index_groups: None = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """y[.., i, ..] = x of slice i, for each slice.

    Args:
        axis: where the new axis of y is.
        tiled: x is joined along `axis` instead.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: all_gather(x, "i"), axis_name="i", out_axes=None)(np.array([1.0, 3.0]))
    array([1., 3.])
    """

    def gathered(y: Any) -> Any:
        if not tiled:
            return moveaxis(y, 0, axis)
        return concat([y[i] for i in range(y.shape[0])], axis=axis)

    return _over("all_gather", x, axis_name, axis_index_groups, gathered)


def axis_index(axis_name: Hashable) -> Any:
    """The number of the slice along the named axis, an int32 of rank 0.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x * axis_index("i"), axis_name="i")(np.ones(3))
    array([0., 1., 2.])

    Raises:
        InvalidConfigError, UnsupportedError: as for `psum`.
    """
    axis = named_axis("axis_index", axis_name)
    builder = current_builder()
    if builder is None or builder.graph is not axis.builder.graph:
        raise UnsupportedError(
            f"axis_index: axis {axis_name!r} is that of a vmap around a loop or branch, whose body is a program of "
            "its own; call it before the loop"
        )
    with tracing(axis.builder):
        numbers: Any = broadcast_to(arange(axis.size, dtype="int32"), (axis.size,))
    number = numbers.value if isinstance(numbers, TracedTensor) else axis.builder.lift(numbers)
    return TracedTensor(axis.builder, slice_of(axis, number))


def axis_size(axis_name: Hashable) -> Any:
    """The number of slices along the named axis.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x / axis_size("i"), axis_name="i")(np.ones(2))
    array([0.5, 0.5])
    """
    return named_axis("axis_size", axis_name).size


def _over(
    name: str, x: PyTree, axis_name: Hashable, groups: None, reduce: Callable[[Any], Any]
) -> Any:
    """A function of the leading axis of all slices, for each leaf and each name."""
    if groups is not None:
        raise UnsupportedError(f"{name}: axis_index_groups are not supported; use a further axis")
    leaves, tree = flatten(x)
    for each in axis_names(name, axis_name):
        axis = named_axis(name, each)
        leaves = [reduce(_all(name, axis, leaf)) for leaf in leaves]
    return unflatten(tree, leaves)


def _all(name: str, axis: NamedAxis, leaf: ArrayLike) -> Any:
    operand = as_operand(leaf)
    if not isinstance(operand, TracedTensor):
        return broadcast_to(operand, (axis.size, *operand.shape))
    return all_slices(name, axis, operand, current_builder())
