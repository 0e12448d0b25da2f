"""Collective functions: they combine the slices of a batch along the axis that `vmap(.., axis_name=name)` names.

Source: the functions of the same names in `jax.lax`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tenferro.api.creation import arange, zeros_like
from tenferro.api.manipulation import broadcast_to, concat, moveaxis, reshape, stack
from tenferro.api.named_axes import NamedAxis, all_slices, axis_names, named_axis, slice_of
from tenferro.api.reductions import max as max_
from tenferro.api.reductions import min as min_
from tenferro.api.reductions import sum as sum_
from tenferro.api.tensor import TracedTensor, tracing
from tenferro.dispatch import as_operand
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import InvalidConfigError, ShapeError, UnsupportedError
from tenferro.types import ArrayLike, PyTree, flatten, unflatten

__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pbroadcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
]


def psum(x: PyTree, axis_name: Hashable, *, axis_index_groups: None = None) -> Any:
    """Sum x over all slices of the named axis. Each slice gets the same result.

    Args:
        x: a tree of tensors. A Python number has the same value in each slice.
        axis_name: the axis name of an enclosing `vmap`, or a tuple of axis names.

    Raises:
        InvalidConfigError: no enclosing `vmap` has the axis name `axis_name`.
        UnsupportedError: the call is in a loop, a branch or a derivative within the `vmap`; or `axis_index_groups` is
            not None.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    return _over("psum", x, axis_name, axis_index_groups, lambda y: sum_(y, axis=0, dtype=y.dtype))


def pmean(x: PyTree, axis_name: Hashable, *, axis_index_groups: None = None) -> Any:
    """Return the mean of x over all slices of the named axis; `psum` describes the arguments.

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
    """Return the maximum of x over all slices of the named axis; `psum` describes the arguments.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x - pmax(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([-2.,  0.])
    """
    return _over("pmax", x, axis_name, axis_index_groups, lambda y: max_(y, axis=0))


def pmin(x: PyTree, axis_name: Hashable, *, axis_index_groups: None = None) -> Any:
    """Return the minimum of x over all slices of the named axis; `psum` describes the arguments.

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
    """Gather all slices along a new axis of y: y[.., i, ..] is the x of slice i, and is the same for each slice.

    Args:
        axis: the position of the new axis in y.
        tiled: whether to concatenate the slices along the existing axis `axis` instead.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: all_gather(x, "i"), axis_name="i", out_axes=None)(np.array([1.0, 3.0]))
    array([1., 3.])
    """

    def gathered(y: Any) -> Any:
        if not tiled:
            return moveaxis(y, 0, axis)
        return concat([y[i] for i in range(y.shape[0])], axis=axis)

    return _over("all_gather", x, axis_name, axis_index_groups, gathered)


def all_to_all(
    x: PyTree,
    axis_name: Hashable,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: None = None,
    tiled: bool = False,
) -> Any:
    """Exchange the named axis and `split_axis`: on slice i, y stacks the elements x[.., i, ..] of all slices.

    Args:
        split_axis: the axis of x that is distributed over the slices. Its extent must equal that of the named axis.
        concat_axis: the axis of y along which the source slices are stacked.
        tiled: whether to split `split_axis` into equal parts, and concatenate these parts along `concat_axis`.

    Raises:
        ShapeError: the extent of `split_axis` is not that of the named axis or, with `tiled`, not a multiple of it.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]])
    """

    def exchanged(y: Any, count: int) -> Any:
        source, target = split_axis % (len(y.shape) - 1), concat_axis % (len(y.shape) - 1)
        parts = _parts("all_to_all", y, source, count, tiled)
        if not tiled:
            return moveaxis(parts, 1, target + 1)
        by_slice = [parts[:, i] for i in range(count)]
        return concat(by_slice, axis=target + 1)

    return _for_each_slice("all_to_all", x, axis_name, axis_index_groups, exchanged)


def pswapaxes(x: PyTree, axis_name: Hashable, axis: int, *, axis_index_groups: None = None) -> Any:
    """Exchange the named axis and `axis` of x. The result is that of `all_to_all` with `axis` as both axes.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]])
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def psum_scatter(
    x: PyTree,
    axis_name: Hashable,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: None = None,
    tiled: bool = False,
) -> Any:
    """Sum x over all slices, and distribute the sum: slice i gets the elements [.., i, ..] of the sum.

    Args:
        scatter_dimension: the axis of the sum along which slice i gets element i.
        tiled: whether to split `scatter_dimension` into equal parts, of which slice i gets part i.

    Raises:
        ShapeError: the extent of `scatter_dimension` is not that of the named axis or, with `tiled`, not a multiple of
            it.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(np.array([[1, 2], [3, 4]]))
    array([4, 6])
    """

    def scattered(y: Any, count: int) -> Any:
        total = sum_(y, axis=0, keepdims=True, dtype=y.dtype)
        axis = scatter_dimension % (len(y.shape) - 1)
        return _parts("psum_scatter", total, axis, count, tiled)[:, 0]

    return _for_each_slice("psum_scatter", x, axis_name, axis_index_groups, scattered)


def ppermute(x: PyTree, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Send slices: for each pair (i, j) of `perm`, y on slice j is x of slice i. On all other slices y is 0.

    Raises:
        InvalidConfigError: a source or a target is repeated, or is not the number of a slice.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: ppermute(x, "i", [(0, 1)]), axis_name="i")(np.array([1.0, 3.0]))
    array([0., 1.])
    """

    def permuted(y: Any, count: int) -> Any:
        pairs = [(int(i), int(j)) for i, j in perm]
        sources, targets = {i for i, _ in pairs}, {j for _, j in pairs}
        is_inside = sources | targets <= set(range(count))
        if not is_inside or not len(sources) == len(targets) == len(pairs):
            raise InvalidConfigError(
                f"ppermute: perm must have pairs of different sources and different targets below {count}, got {perm!r}"
            )
        source_of = {j: i for i, j in pairs}
        rows = [y[source_of[j]] if j in source_of else zeros_like(y[0]) for j in range(count)]
        return stack(rows, axis=0)

    return _for_each_slice("ppermute", x, axis_name, None, permuted)


def pshuffle(x: PyTree, axis_name: Hashable, perm: Sequence[int]) -> Any:
    """Permute slices: y on slice i is x of slice perm[i].

    Raises:
        InvalidConfigError: perm is not a permutation of the slices.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: pshuffle(x, "i", [1, 0]), axis_name="i")(np.array([1.0, 3.0]))
    array([3., 1.])
    """
    if sorted(perm) != list(range(axis_size(axis_name))):
        raise InvalidConfigError(
            f"pshuffle: perm must be a permutation of the slices, got {perm!r}"
        )
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def pbroadcast(x: PyTree, axis_name: Hashable, source: int) -> Any:
    """Return the x of slice `source` on every slice.

    Raises:
        InvalidConfigError: the axis has no slice with the number `source`.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x - pbroadcast(x, "i", 0), axis_name="i")(np.array([1.0, 3.0]))
    array([0., 2.])
    """
    if not 0 <= source < axis_size(axis_name):
        raise InvalidConfigError(f"pbroadcast: there is no slice {source} of axis {axis_name!r}")
    return _over("pbroadcast", x, axis_name, None, lambda y: y[source])


def axis_index(axis_name: Hashable) -> Any:
    """Return the number of the current slice along the named axis, as an int32 of rank 0.

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
    """Return the number of slices along the named axis.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.vmap(lambda x: x / axis_size("i"), axis_name="i")(np.ones(2))
    array([0.5, 0.5])
    """
    return named_axis("axis_size", axis_name).size


def _over(
    name: str, x: PyTree, axis_name: Hashable, groups: None, reduce: Callable[[Any], Any]
) -> Any:
    """Apply `reduce`, which removes a leading axis, to all slices of each leaf, stacked along this axis.

    With several axis names, the slices of one axis after another are reduced.
    """
    if groups is not None:
        raise UnsupportedError(f"{name}: axis_index_groups are not supported; use a further axis")
    leaves, tree = flatten(x)
    for each in axis_names(name, axis_name):
        axis = named_axis(name, each)
        leaves = [reduce(_all(name, axis, leaf)) for leaf in leaves]
    return unflatten(tree, leaves)


def _for_each_slice(
    name: str, x: PyTree, axis_name: Hashable, groups: None, function: Callable[[Any, int], Any]
) -> Any:
    """Stack all slices of each leaf along a leading axis, apply `function`, and return this slice of its result.

    Raises:
        UnsupportedError: there are several axis names, `axis_index_groups` is not None, or as for `psum`.
    """
    names = axis_names(name, axis_name)
    if groups is not None or len(names) != 1:
        raise UnsupportedError(f"{name}: takes one axis_name, without axis_index_groups")
    axis = named_axis(name, names[0])
    leaves, tree = flatten(x)
    results = []
    for leaf in leaves:
        value = function(_all(name, axis, leaf), axis.size)
        traced = value.value if isinstance(value, TracedTensor) else axis.builder.lift(value)
        results.append(TracedTensor(axis.builder, slice_of(axis, traced)))
    return unflatten(tree, results)


def _parts(name: str, y: Any, axis: int, count: int, tiled: bool) -> Any:
    """Split `axis` of every slice into `count` parts. Return y with the leading axes [part, slice, ..].

    Raises:
        ShapeError: the extent does not fit the number of parts.
    """
    extent = y.shape[axis + 1]
    if extent % count if tiled else extent != count:
        kind = "a multiple of" if tiled else "equal to"
        raise ShapeError(
            f"{name}: the extent of axis {axis} must be {kind} the size {count} of the named axis, got {extent}"
        )
    shape = tuple(y.shape)
    if tiled:
        y = reshape(y, (*shape[: axis + 1], count, extent // count, *shape[axis + 2 :]))
    return moveaxis(y, axis + 1, 0)


def _all(name: str, axis: NamedAxis, leaf: ArrayLike) -> Any:
    operand = as_operand(leaf)
    if not isinstance(operand, TracedTensor):
        return broadcast_to(operand, (axis.size, *operand.shape))
    return all_slices(name, axis, operand, current_builder())
