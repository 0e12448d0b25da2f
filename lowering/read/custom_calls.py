"""Readers of `stablehlo.custom_call`, one for each supported call target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.module_tree import ModuleTree, Operation
from lowering.read.comparators import sorted_by
from lowering.read.dynamic import dynamic_reduce_window, dynamic_top_k
from lowering.read.lapack import LAPACK, TPU
from lowering.read.reader import Reader, ReadRows, located
from lowering.read.reduction import top_k
from lowering.read.sparse import SPARSE
from tenferro.dims import Symbol, is_static
from tenferro.errors import ShapeError, UnsupportedError

__all__ = ["CUSTOM_CALLS", "unknown_targets"]


def same(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Return the operands unchanged, because the call is only an annotation."""
    return list(operands)


def checked(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Return no results: the call is a check in the reference interpreter's tests, and is omitted."""
    return []


def shape_assertion(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read an assertion about shapes: check it now if its value is constant, else add it as a guard of the program.

    Raises:
        ShapeError: the assertion is false; the error contains the module's message.
        UnsupportedError: the assertion depends on elements of arguments.
    """
    holds, *shown = [r.evaluated(value) for value in operands]
    message = str(operation.attributes.get("error_message", "no message"))
    claim = r.claims.get(operands[0])
    if claim is not None:
        lhs, relation, rhs = claim
        r.builder.guards.require(lhs, relation, rhs, _reason(message))
        name = str(lhs)
        if isinstance(rhs, int) and name.isidentifier():
            r.lowest[Symbol(name)] = rhs
        return []
    extents = r.extents.get(operands[0])
    if extents is not None:
        elements = extents.ravel().tolist()
        undecided = [extent for extent in elements if not is_static(extent)]
        for extent in undecided:
            r.builder.guards.require(extent, ">=", 1, _reason(message))
        holds = [extent for extent in elements if is_static(extent)]
    if holds is None:
        raise UnsupportedError(
            f"shape_assertion: whether it holds depends on the arguments' elements: {message}"
        )
    if not np.asarray(holds).all():
        raise ShapeError(f"shape_assertion does not hold: {_filled(message, shown)}")
    return []


def _reason(message: str) -> str:
    """Return the start of an error message that JAX wrote, without the values and the link at its end."""
    return f"shape_assertion: {message.partition(' Obtained')[0].partition(' Using')[0]}"


def _filled(message: str, values: Sequence[Any]) -> str:
    """Replace {0}, {1}, .. in a message by the values that are not None."""
    for i, value in enumerate(values):
        if value is not None:
            message = message.replace(f"{{{i}}}", str(np.asarray(value)))
    return message


def approx_top_k(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read an approximate top-k as an exact one: return the first k elements in the comparator's order.

    The operands are values and their indices, then an initial value and an initial index, which are not used.
    """
    options = operation.config or {}
    k, axis = int(options["top_k"]), int(options["reduction_dim"])
    comparator = r.tree.functions[operation.attributes["called_computations"][0]]
    values = list(operands[: len(operands) // 2])
    ordered = sorted_by(r, comparator.body, values, axis, True)
    return [r.slice(x, axis, 0, k) for x in ordered]


CUSTOM_CALLS: ReadRows = {
    **LAPACK,
    **SPARSE,
    **TPU,
    "ApproxTopK": approx_top_k,
    "LayoutConstraint": same,
    "MoveToDevice": same,
    "MoveToHost": same,
    "Sharding": same,
    "SPMDFullToShardShape": same,
    "SPMDShardToFullShape": same,
    "TopK": top_k,
    "check.eq": checked,
    "check.expect_almost_eq": checked,
    "check.expect_close": checked,
    "check.expect_eq": checked,
    "mhlo.topk": top_k,
    "stablehlo.dynamic_reduce_window": dynamic_reduce_window,
    "stablehlo.dynamic_top_k": dynamic_top_k,
    "shape_assertion": shape_assertion,
    "annotate_device_placement": same,
    "xla.sdy.FuncResultSharding": same,
}


def unknown_targets(tree: ModuleTree) -> str:
    """Return the error message for custom calls without a reader, which lists their targets and source locations."""
    places: dict[str, list[str]] = {}
    for operation in tree.operations():
        if operation.name == "stablehlo.custom_call":
            target = operation.attributes["call_target_name"]
            if target not in CUSTOM_CALLS:
                places.setdefault(target, []).append(located(operation))
    shown = ", ".join(
        f"custom_call @{target} ({', '.join(filter(None, sorted(locations)))})".removesuffix(" ()")
        for target, locations in sorted(places.items())
    )
    if all([target.endswith("python_cpu_callback") for target in places]):
        return (
            f"{shown}: it calls back into Python, as jax.pure_callback, jax.debug.print and runtime checks of equinox "
            "do, and a module does not have the functions; from_jax and native keep them, and EQX_ON_ERROR=off leaves "
            "equinox's checks out of a module"
        )
    return (
        f"{shown}: {'its meaning is' if len(places) == 1 else 'their meanings are'} not known here; give "
        "lowering.register_composite_reader an op for the target, or lowering.register_custom_call a Python function"
    )
