"""`einsum`: sums of products over labelled axes.

A trace expands it at once into standard ops, along a path planned by opt_einsum. If the path depends on symbolic
extents, the trace holds an extension op of `tenferro.ext.einsum` until they are known.

Source: NumPy's einsum; opt_einsum (Smith and Gray, 2018, doi:10.21105/joss.00753).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.api.arguments import refuse
from tenferro.api.manipulation import cast_dtype, expand_dims, squeeze
from tenferro.api.promotion import broadcast_shapes, broadcast_to, convert, result_type
from tenferro.dims import is_static
from tenferro.door import as_operand, is_traced, spec_of
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.extension import apply as apply_extension
from tenferro.program import ExtensionCacheKey, ExtensionCaches, native_executor
from tenferro.types import ArrayLike, DTypeLike

__all__ = ["einsum", "einsum_path", "positions_of_ones", "subscripts_and_operands"]


def einsum(
    *arguments: ArrayLike | str, out: None = None, dtype: DTypeLike | None = None, order: str = "K", casting: str = "safe",
    optimize: bool | str | Sequence[Any] = "auto",
) -> Any:  # fmt: skip
    """Multiply the operands' elements, and sum over all labels that the output leaves out.

    Args:
        arguments: subscripts and operands, in NumPy's notation, as `einsum("ij,jk->ik", x, y)`; or
            operands each followed by its labels, as `einsum(x, [0, 1], y, [1, 2], [0, 2])`. `...` stands for axes
            that broadcast; without an arrow the output has the labels that occur once, in the order of their code
            points. A label is any character but `,->.` and the space, or an integer. A label repeated within one
            operand selects its diagonal. An axis of extent 1 broadcasts.
        optimize: which operands to contract first: the name of an opt_einsum optimiser, True for
            "auto", False for left to right, a path as `einsum_path` gives it, an optimiser with a
            limit on the elements of intermediates, or an opt_einsum optimiser. Optimisers of exponential time are
            refused for networks that would take them minutes: "optimal" and "branch-all" above 8 operands,
            "branch-2" above 20, "dp" and "auto-hq" where an operand shares summed labels with more than 10 others.
            An opt_einsum optimiser itself has no limit.
        dtype: the dtype of the computation; by default the promoted dtype of the operands.
        casting: NumPy's rule for conversions to `dtype`.

    Operands promote as in NumPy; a sum of bools is true where any product is true.

    Plans are cached by the tracer (`GraphCompiler.extension_caches`, `AdContext.extension_caches`) or the
    executor (`GraphExecutor.extensions.caches`).

    Raises:
        InvalidConfigError: subscripts that cannot be read or do not match the operands; a path that
            does not fit; an optimiser by name that would not end soon.
        ShapeError: one label with two extents other than 1.

    >>> import numpy as np
    >>> einsum("ij,j->i", np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([3., 7.])
    >>> einsum(np.array([[1.0, 2.0]]), [0, 1], np.ones((3, 2)), range(2), [0])
    array([3., 3., 3.])
    """
    from tenferro.ext import einsum as ext

    refuse("einsum", "out", out)
    refuse("einsum", "order", order)
    notation, tensors, caches = _read(arguments)
    optimize = ext.checked_optimize(optimize, len(tensors))
    dtype = (
        result_type(*tensors) if dtype is None else cast_dtype("einsum", tensors, dtype, casting)
    )
    tensors = [convert(tensor, dtype) for tensor in tensors]
    inputs, output, tensors = _without_ones(notation, tensors)
    shapes = tuple([tuple(spec_of(tensor).shape) for tensor in tensors])
    waits = ext.waits_for_extents(len(inputs), optimize)
    if callable(optimize):
        _require_static(shapes)
        optimize = ext.plan(inputs, output, shapes, optimize)
    op = ext.Einsum(inputs, output, optimize)
    op.extents(shapes)
    if any(map(is_traced, tensors)) and (not waits or _static(shapes)):
        path = _kept(
            caches, ext.PLANS, (op, shapes), lambda: ext.plan(inputs, output, shapes, optimize)
        )
        return ext.expand(inputs, output, path, tensors)
    return apply_extension(op, *tensors)


def einsum_path(
    *arguments: ArrayLike | str, optimize: bool | str | Sequence[Any] = "auto"
) -> tuple[list[Any], Any]:
    """Find the contraction path of `einsum` for these arguments, after NumPy's marker "einsum_path", and its cost.

    The path can be passed as `optimize`. The second part, printed, shows the scaling, the number of
    operations, the largest intermediate and each step; it is opt_einsum's `PathInfo`.

    >>> import numpy as np
    >>> x, y, z = np.ones((2, 9)), np.ones((9, 9)), np.ones((9, 2))
    >>> path, info = einsum_path("ij,jk,kl->il", x, y, z)
    >>> path, int(info.largest_intermediate)
    (['einsum_path', (0, 1), (0, 1)], 18)
    """
    from tenferro.ext import einsum as ext

    notation, tensors, _ = _read(arguments)
    inputs, output, tensors = _without_ones(notation, tensors)
    shapes = [tuple(spec_of(tensor).shape) for tensor in tensors]
    ext.Einsum(inputs, output).extents(shapes)
    path, info = ext.plan_info(inputs, output, shapes, ext.checked_optimize(optimize, len(tensors)))
    return ["einsum_path", *path], info


def _without_ones(notation: Any, tensors: list[Any]) -> tuple[tuple[str, ...], str, list[Any]]:
    """Drop the labels and axes of extent 1 that broadcast against another extent of their label."""
    positions = positions_of_ones(notation.inputs, [spec_of(tensor).shape for tensor in tensors])
    parts, squeezed = [], []
    for part, ones, tensor in zip(notation.inputs, positions, tensors, strict=True):
        parts.append("".join([label for i, label in enumerate(part) if i not in ones]))
        squeezed.append(squeeze(tensor, axis=ones) if ones else tensor)
    return tuple(parts), notation.output, squeezed


def positions_of_ones(
    inputs: Sequence[str], shapes: Sequence[Sequence[Any]]
) -> list[tuple[int, ...]]:
    """Return the axes of extent 1 of each operand that broadcast against another extent of their label."""
    labelled = [
        (label, extent)
        for part, shape in zip(inputs, shapes, strict=True)
        for label, extent in zip(part, shape, strict=True)
    ]
    longer = {label for label, extent in labelled if extent != 1}
    if not any([extent == 1 and label in longer for label, extent in labelled]):
        return [()] * len(inputs)
    positions: list[tuple[int, ...]] = []
    for part, shape in zip(inputs, shapes, strict=True):
        # A diagonal does not broadcast, as in NumPy.
        here = {label for label, extent in zip(part, shape, strict=True) if extent != 1}
        positions.append(tuple([i for i, x in enumerate(part) if x in longer and x not in here]))
    return positions


def subscripts_and_operands(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts and unchanged operands from both forms of the arguments."""
    from tenferro.ext import einsum as ext

    if len(arguments) < 2:
        raise InvalidConfigError("einsum: needs subscripts and at least one operand")
    if isinstance(arguments[0], str):
        return arguments[0], list(arguments[1:])
    return ext.interleaved(arguments)


def _read(arguments: Sequence[Any]) -> tuple[Any, list[Any], ExtensionCaches | None]:
    """Return the parsed notation, operands with broadcast ellipses, and the cache of plans."""
    from tenferro.ext import einsum as ext

    subscripts, operands = subscripts_and_operands(arguments)
    tensors = [as_operand(operand) for operand in operands]
    caches = _caches(tensors)
    ranks = tuple([len(tensor.shape) for tensor in tensors])
    notation = _kept(
        caches, ext.NOTATIONS, (subscripts, ranks), lambda: ext.read(subscripts, ranks)
    )
    return notation, _broadcast_dots(notation, tensors), caches


def _caches(tensors: Sequence[Any]) -> ExtensionCaches | None:
    for tensor in tensors:
        if is_traced(tensor):
            return tensor.caches
    return native_executor().extensions.caches


def _kept(
    caches: ExtensionCaches | None, key: ExtensionCacheKey, what: Any, make: Callable[[], Any]
) -> Any:
    return make() if caches is None else caches.store(key).get(what, make)


def _broadcast_dots(notation: Any, tensors: list[Any]) -> list[Any]:
    """Broadcast the operands to equal axes for the ellipsis."""
    slots, widest = notation.slots, len(notation.dots)
    if not widest:
        return tensors
    plain = [len(part) - widest for part in notation.inputs]
    widths = [len(x.shape) - count for x, count in zip(tensors, plain, strict=True)]
    dotted = [operand_index for operand_index, slot in enumerate(slots) if slot is not None]
    shape = broadcast_shapes(*[tensors[i].shape[slots[i] : slots[i] + widths[i]] for i in dotted])
    result = list(tensors)
    for i in dotted:
        slot, tensor = slots[i], tensors[i]
        if widths[i] < widest:
            tensor = expand_dims(tensor, axis=tuple(range(slot, slot + widest - widths[i])))
        wanted = (*tensor.shape[:slot], *shape, *tensor.shape[slot + widest :])
        result[i] = broadcast_to(tensor, wanted)
    return result


def _static(shapes: Sequence[Any]) -> bool:
    return all(is_static(extent) for shape in shapes for extent in shape)


def _require_static(shapes: Sequence[Any]) -> None:
    if not _static(shapes):
        raise ShapeError(
            "einsum: an optimiser given as a function needs extents that are numbers; name one"
        )
