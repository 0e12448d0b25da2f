"""`einsum`: sums of products over labelled axes.

In a trace it is written as standard ops at once, along a path planned by opt_einsum. Where the path
depends on extents that are symbols, the extension family of `tenferro.ext.einsum` stands in until they
are known.

Source: NumPy's einsum; opt_einsum (Smith and Gray, 2018, doi:10.21105/joss.00753).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from tenferro.api.manipulation import expand_dims
from tenferro.api.promotion import broadcast_shapes, broadcast_to, convert, result_type
from tenferro.dims import is_static
from tenferro.errors import InvalidConfigError, ShapeError
from tenferro.exec.dispatch import apply, as_operand, is_traced, spec_of
from tenferro.extension import apply as apply_extension
from tenferro.program import ExtensionCacheKey, ExtensionCaches, native_executor

__all__ = ["einsum", "einsum_path"]

_SURFACE = SimpleNamespace(emit=apply, type_of=spec_of)
"""What expansions write with: here ops on tensors, where elsewhere it is a graph builder."""


def einsum(*arguments: Any, optimize: Any = "auto") -> Any:
    """The sum over all labels that the output leaves out, of products of the operands' elements.

    Args:
        arguments: subscripts and operands, in NumPy's notation, as `einsum("ij,jk->ik", x, y)`; or
            operands each followed by its labels, as `einsum(x, [0, 1], y, [1, 2], [0, 2])`. `...`
            stands for axes that broadcast; without an arrow the output has the labels that occur
            once, in alphabetical order. A label repeated in an operand takes its diagonal; repeated
            in the output it embeds one.
        optimize: which operands to contract first: the name of an opt_einsum optimiser, True for
            "auto", False for left to right, a path as `einsum_path` gives it, an optimiser with a
            limit on the elements of intermediates, or an opt_einsum optimiser.

    Operands promote as in NumPy; a sum of bools is true where any product is.

    Plans are kept by who traces (`GraphCompiler.extension_caches`, `AdContext.extension_caches`) or
    executes (`GraphExecutor.extensions.caches`).

    Raises:
        InvalidConfigError: subscripts that cannot be read or do not match the operands; a path that
            does not fit.
        ShapeError: one label with two extents.

    >>> import numpy as np
    >>> einsum("ij,j->i", np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
    array([3., 7.])
    >>> einsum(np.array([1.0, 2.0]), [0], [0, 0])
    array([[1., 0.],
           [0., 2.]])
    """
    from tenferro.ext import einsum as ext

    notation, tensors, caches = _read(arguments)
    optimize = ext.checked_optimize(optimize, len(tensors))
    dtype = result_type(*tensors)
    tensors = [convert(tensor, dtype) for tensor in tensors]
    inputs, output = notation.inputs, notation.output
    shapes = tuple([tuple(spec_of(tensor).shape) for tensor in tensors])
    waits = ext.waits_for_extents(len(inputs), optimize)
    if callable(optimize):
        _require_static(shapes)
        optimize = ext.plan(inputs, output, shapes, optimize)
    op = ext.Einsum(inputs, output, optimize)
    op.extents(shapes)
    if any(map(is_traced, tensors)) and (not waits or _static(shapes)):
        path = _kept(
            caches,
            ext.PLANS,
            (op, shapes),
            lambda: ext.plan(inputs, output, shapes, optimize),
        )
        return ext.expand(_SURFACE, inputs, output, path, tensors)
    return apply_extension(op, *tensors)


def einsum_path(*arguments: Any, optimize: Any = "auto") -> tuple[list[tuple[int, ...]], Any]:
    """The path that `einsum` of these arguments takes, and what it costs.

    The path can be given as `optimize`. The second part, printed, shows the scaling, the number of
    operations, the largest intermediate and each step; it is opt_einsum's `PathInfo`.

    >>> import numpy as np
    >>> x, y, z = np.ones((2, 9)), np.ones((9, 9)), np.ones((9, 2))
    >>> path, info = einsum_path("ij,jk,kl->il", x, y, z)
    >>> path, int(info.largest_intermediate)
    ([(0, 1), (0, 1)], 18)
    """
    from tenferro.ext import einsum as ext

    notation, tensors, _ = _read(arguments)
    shapes = [tuple(spec_of(tensor).shape) for tensor in tensors]
    ext.Einsum(notation.inputs, notation.output).extents(shapes)
    return ext.plan_info(
        notation.inputs, notation.output, shapes, ext.checked_optimize(optimize, len(tensors))
    )


def _read(arguments: Sequence[Any]) -> tuple[Any, list[Any], ExtensionCaches | None]:
    """Notation, operands with their ellipsis broadcast, and who keeps plans."""
    from tenferro.ext import einsum as ext

    if len(arguments) < 2:
        raise InvalidConfigError("einsum: needs subscripts and at least one operand")
    if isinstance(arguments[0], str):
        subscripts, operands = arguments[0], arguments[1:]
    else:
        subscripts, operands = ext.interleaved(arguments)
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
    """Give every operand with an ellipsis the same axes there."""
    slots, widest = notation.slots, len(notation.dots)
    if not widest:
        return tensors
    plain = [len(part) - widest for part in notation.inputs]
    widths = [len(x.shape) - count for x, count in zip(tensors, plain, strict=True)]
    dotted = [place for place, slot in enumerate(slots) if slot is not None]
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
