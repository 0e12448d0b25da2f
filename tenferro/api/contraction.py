"""`einsum`: sums of products over labelled axes.

In a trace, `einsum` is expanded at once into standard ops, along a contraction path that opt_einsum plans. If the path
depends on symbolic extents, the trace instead contains an extension op of `tenferro.ext.einsum`. That op is expanded
once the extents have values.

Source: NumPy's einsum; opt_einsum (Smith and Gray, 2018, doi:10.21105/joss.00753).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.api.arguments import refuse
from tenferro.api.linear import summed_dtype
from tenferro.api.manipulation import cast_dtype, expand_dims, squeeze
from tenferro.api.precision import PrecisionLike, precision_name
from tenferro.api.promotion import broadcast_shapes, broadcast_to, convert, result_type
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, is_traced, spec_of
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.extension import apply as apply_extension
from tenferro.program import ExtensionCacheKey, ExtensionCaches, native_executor
from tenferro.types import ArrayLike, DTypeLike

__all__ = ["einsum", "einsum_path", "positions_of_ones", "subscripts_and_operands"]


def einsum(
    *arguments: ArrayLike | str, out: None = None, dtype: DTypeLike | None = None, order: str = "K", casting: str = "safe",
    optimize: bool | str | Sequence[Any] = "auto",
    precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
) -> Any:  # fmt: skip
    """Multiply the operands elementwise along equal labels, and sum over every label that is not in the output.

    Args:
        arguments: subscripts and operands, in NumPy's notation, as `einsum("ij,jk->ik", x, y)`; or
            operands each followed by its labels, as `einsum(x, [0, 1], y, [1, 2], [0, 2])`. `...` stands for axes
            that broadcast. Without an arrow the output has the labels that occur once, in the order of their code
            points. A label is an integer, or any character except `,->.` and the space. A label repeated within one
            operand selects its diagonal. An axis of extent 1 broadcasts.
        optimize: the order in which the operands are contracted: the name of an opt_einsum optimiser, True for
            "auto", False for left to right, a path that `einsum_path` returned, a pair of an optimiser's name and a
            limit on the elements of intermediates, or an opt_einsum optimiser as a function. A name is refused if the
            search would take minutes: "optimal" and "branch-all" above 8 operands, "branch-2" above 20, "dp" and
            "auto-hq" if an operand shares summed labels with more than 10 other operands. A function has no such limit.
        dtype: the dtype of the computation; by default the promoted dtype of the operands.
        casting: NumPy's rule for conversions to `dtype`.
        precision: "highest", "high" or "default", for products on accelerators; None leaves the choice to the lowering.
        preferred_element_type: the dtype of the result. The computation has its promoted dtype with the operands.

    Operands are promoted to one dtype as in NumPy. A sum of bools is true if any product is true.

    Contraction plans are cached: in a trace by the tracer (`GraphCompiler.extension_caches`,
    `AdContext.extension_caches`), otherwise by the executor (`GraphExecutor.extensions.caches`).

    Raises:
        InvalidConfigError: the subscripts cannot be parsed or do not match the operands; a path does
            not fit the operands; the search of the named optimiser would take minutes.
        ShapeError: a label has two different extents, neither of which is 1.
        DTypeError: `preferred_element_type` cannot hold the products.

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
    result = dtype
    if preferred_element_type is not None:
        result = summed_dtype("einsum", dtype, preferred_element_type)
        dtype = result_type(dtype, result)
    precision = precision_name("einsum", precision)
    tensors = [convert(tensor, dtype) for tensor in tensors]
    inputs, output, tensors = _without_ones(notation, tensors)
    shapes = tuple([tuple(spec_of(tensor).shape) for tensor in tensors])
    waits = ext.waits_for_extents(len(inputs), optimize)
    if callable(optimize):
        _require_static(shapes)
        optimize = ext.plan(inputs, output, shapes, optimize)
    op = ext.Einsum(inputs, output, optimize, precision)
    op.extents(shapes)
    if any(map(is_traced, tensors)) and (not waits or _static(shapes)):
        path = _cached(
            caches, ext.PLANS, (op, shapes), lambda: ext.plan(inputs, output, shapes, optimize)
        )
        return convert(ext.expand(inputs, output, path, tensors, precision), result)
    return convert(apply_extension(op, *tensors), result)


def einsum_path(
    *arguments: ArrayLike | str, optimize: bool | str | Sequence[Any] = "auto"
) -> tuple[list[Any], Any]:
    """Plan the contraction of `einsum` for these arguments; return its path and a description of its cost.

    The path is a list that begins with NumPy's marker "einsum_path". It can be passed to `einsum` as `optimize`.
    The description is opt_einsum's `PathInfo`. When printed, it shows the scaling, the number of operations, the
    largest intermediate and each step.

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
    """Remove the axes of extent 1 whose label has another extent in another operand; such axes broadcast."""
    positions = positions_of_ones(notation.inputs, [spec_of(tensor).shape for tensor in tensors])
    parts, squeezed = [], []
    for part, ones, tensor in zip(notation.inputs, positions, tensors, strict=True):
        parts.append("".join([label for i, label in enumerate(part) if i not in ones]))
        squeezed.append(squeeze(tensor, axis=ones) if ones else tensor)
    return tuple(parts), notation.output, squeezed


def positions_of_ones(
    inputs: Sequence[str], shapes: Sequence[Sequence[Any]]
) -> list[tuple[int, ...]]:
    """Return, for each operand, its axes of extent 1 that broadcast: their labels have a different extent elsewhere."""
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
        # As in NumPy, a label does not broadcast if the same operand also has it with another extent: that is a
        # diagonal.
        here = {label for label, extent in zip(part, shape, strict=True) if extent != 1}
        positions.append(tuple([i for i, x in enumerate(part) if x in longer and x not in here]))
    return positions


def subscripts_and_operands(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """Split the arguments of `einsum`, in either of their two forms, into subscripts and operands."""
    from tenferro.ext import einsum as ext

    if len(arguments) < 2:
        raise InvalidConfigError("einsum: needs subscripts and at least one operand")
    if isinstance(arguments[0], str):
        return arguments[0], list(arguments[1:])
    return ext.interleaved(arguments)


def _read(arguments: Sequence[Any]) -> tuple[Any, list[Any], ExtensionCaches | None]:
    """Parse the arguments of `einsum`.

    Returns:
        The notation; the operands, with the axes of ellipses broadcast; and the cache of plans.
    """
    from tenferro.ext import einsum as ext

    subscripts, operands = subscripts_and_operands(arguments)
    tensors = [as_operand(operand) for operand in operands]
    caches = _caches(tensors)
    ranks = tuple([len(tensor.shape) for tensor in tensors])
    notation = _cached(
        caches, ext.NOTATIONS, (subscripts, ranks), lambda: ext.read(subscripts, ranks)
    )
    return notation, _broadcast_dots(notation, tensors), caches


def _caches(tensors: Sequence[Any]) -> ExtensionCaches | None:
    for tensor in tensors:
        if is_traced(tensor):
            return tensor.caches
    return native_executor().extensions.caches


def _cached(
    caches: ExtensionCaches | None, key: ExtensionCacheKey, what: Any, make: Callable[[], Any]
) -> Any:
    return make() if caches is None else caches.store(key).get(what, make)


def _broadcast_dots(notation: Any, tensors: list[Any]) -> list[Any]:
    """Broadcast the axes for which the ellipsis `...` stands to one shape in all operands."""
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
