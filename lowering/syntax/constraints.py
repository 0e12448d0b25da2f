"""`broken`: what an operation breaks of the specification's constraints on its attributes, regions and operands.

Shapes and dtypes of results are no part of them: they are checked where operations are read. The constraints here are
those that reading does not need, so that a module could break them and run nevertheless.

Source: StableHLO specification; (I) and (C) are its numbers of inputs and of constraints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from lowering.module_tree import Block, Operation, Type
from lowering.types import is_promotable
from tenferro.types import DType, TensorSpec

__all__ = ["Types", "broken"]

Types = Mapping[int, Type]
"""The types of values by number."""
Check = Callable[[Operation, Sequence[Type], Types], Iterable[str]]
"""Function that yields what is wrong with an operation whose operands have these types."""


def broken(operation: Operation, types: Types) -> str | None:
    """Return the first constraint that an operation breaks, in words; None if it keeps them all."""
    operands = [types[number] for number in operation.operands]
    checks = [CHECKS[operation.name]] if operation.name in CHECKS else []
    found = chain(kinds(operation), *[check(operation, operands, types) for check in checks])
    return next(iter(found), None)


# ---- attributes --------------------------------------------------------------------------------

_INTEGERS = frozenset(
    [
        "all_gather_dim",
        "batch_group_count",
        "concat_dimension",
        "dimension",
        "feature_group_count",
        "feature_index",
        "iota_dimension",
        "scatter_dimension",
        "split_count",
        "split_dimension",
    ]
)
_BOOLS = frozenset(
    [
        "has_side_effect",
        "indices_are_sorted",
        "is_host_transfer",
        "is_stable",
        "left_side",
        "lower",
        "unique_indices",
        "unit_diagonal",
    ]
)


def kinds(operation: Operation) -> Iterable[str]:
    """Yield attributes that are of another kind than their names have in every operation."""
    if not operation.name.startswith("stablehlo."):
        return
    for name, value in operation.attributes.items():
        is_bool = isinstance(value, bool)
        if name in _INTEGERS and (is_bool or not isinstance(value, int)):
            yield f"attribute '{name}' is an integer, got {value!r}"
        elif name in _BOOLS and not is_bool:
            yield f"attribute '{name}' is a bool, got {value!r}"
        elif name == "epsilon" and not isinstance(value, float):
            yield f"attribute 'epsilon' is a float, got {value!r}"
        elif name in ("padding", "source_target_pairs"):
            yield from _pairs(name, value)
        elif name == "replica_groups":
            yield from _groups(operation, value)


def _pairs(name: str, value: Any) -> Iterable[str]:
    """Yield what is wrong with pairs of integers."""
    array: Any = value if isinstance(value, np.ndarray) else np.zeros(0)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 2:
        yield f"attribute '{name}' holds pairs of integers, of shape (N, 2)"
    elif name == "source_target_pairs":
        sources, targets = array[:, 0].tolist(), array[:, 1].tolist()
        if min([*sources, *targets], default=0) < 0:
            yield "source_target_pairs holds a number below 0"
        elif len({*sources}) < len(sources) or len({*targets}) < len(targets):
            yield "source_target_pairs holds a source or a target twice"


def _groups(operation: Operation, value: Any) -> Iterable[str]:
    """Yield what is wrong with groups of devices; groups along the axes of a mesh are text."""
    if isinstance(value, str):
        return
    array = value if isinstance(value, np.ndarray) else np.zeros(0)
    if array.dtype.kind not in "iu" or array.ndim != 2:
        yield "attribute 'replica_groups' holds integers, of rank 2"
        return
    members = array.ravel().tolist()
    is_ragged = operation.name in ("stablehlo.all_reduce", "stablehlo.collective_reduce")
    named = [number for number in members if number >= 0 or not is_ragged or number < -1]
    if min(named, default=0) < 0:
        yield f"replica_groups has groups of different sizes, or a device below 0: {members}"
    elif len({*named}) < len(named):
        yield "replica_groups holds a device twice"
    elif operation.name != "stablehlo.collective_broadcast" and {*named} != {*range(len(named))}:
        yield f"replica_groups lacks a device below {len(named)}"
    elif not members and "use_global_device_ids" in operation.attributes:
        yield "use_global_device_ids needs replica_groups"


# ---- regions -----------------------------------------------------------------------------------


def _returned(block: Block, types: Types) -> list[Type]:
    """Return the types of what a block returns."""
    inner = dict(zip(block.arguments, block.types, strict=True))
    for operation in block.operations:
        inner.update(zip(operation.results, operation.types, strict=True))
    return [inner[n] if n in inner else types[n] for n in block.operations[-1].operands]


def _element(kind: Type) -> DType | None:
    return kind.dtype if isinstance(kind, TensorSpec) else None


def _scalars(kinds: Iterable[Type]) -> bool:
    return all([not isinstance(kind, TensorSpec) or kind.rank == 0 for kind in kinds])


def _combines(
    block: Block, types: Types, operands: Sequence[Type], starts: Sequence[Type]
) -> Iterable[str]:
    """Yield what is wrong with a region (E, .., E) -> (E, ..), to whose elements those of operands are promotable.

    Args:
        operands, starts: what the second and the first half of its arguments begin with.
    """
    if not block.operations:
        yield "has a region that does not end with a return"
        return
    results = _returned(block, types)
    count = len(operands)
    if len(results) != count or len(block.types) != 2 * count:
        yield f"has a region of {len(block.types)} arguments that returns {len(results)} values, for {count} operands"
        return
    if not _scalars(results):
        yield "has a region that returns more than scalars"
    for place, result in enumerate(results):
        wide = _element(result)
        for given in (block.types[place], block.types[count + place]):
            if _element(given) is not wide:
                yield f"has a region whose argument {given} differs from its result {result}"
        for given in (operands[place], starts[place]):
            narrow = _element(given)
            if wide is not None and narrow is not None and not is_promotable(narrow, wide):
                yield f"has a region of {result}, to which elements of {given} are not promotable"


def reduction(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#reduce (C6), #reduce_window (C13): a region on elements of inputs and initial values."""
    count = len(operands) // 2
    yield from _combines(operation.regions[0], types, operands[:count], operands[count:])


def window(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#reduce_window (C4) to (C13), #select_and_scatter (C4) to (C8)."""
    sizes = operation.attributes.get("window_dimensions")
    first = operands[0]
    rank = first.rank if isinstance(first, TensorSpec) else None
    for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations"):
        value = operation.attributes.get(name)
        if value is None:
            continue
        if np.ndim(value) != 1 or rank not in (None, np.size(value)):
            yield f"{name} must have an element for each axis of {first}"
        elif min(value, default=1) < 1:
            yield f"{name} must be positive, got {list(value)}"
    padding = operation.attributes.get("padding")
    if sizes is not None and padding is not None and len(padding) != len(sizes):
        yield f"padding must have a pair for each axis of {first}"


def reduce_window(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#reduce_window."""
    yield from window(operation, operands, types)
    yield from reduction(operation, operands, types)


def select_and_scatter(
    operation: Operation, operands: Sequence[Type], types: Types
) -> Iterable[str]:
    """#select_and_scatter: windows, and (C9) and (C10) of its two regions."""
    yield from window(operation, operands, types)
    select, scatter = operation.regions
    wanted = _element(operands[0])
    if [_element(kind) for kind in select.types] != [wanted, wanted]:
        yield f"has a selection of other arguments than elements of {operands[0]}"
    yield from _decides(select, types)
    yield from _combines(scatter, types, operands[:1], operands[2:3])
    if scatter.operations and [_element(kind) for kind in _returned(scatter, types)] != [
        _element(kind) for kind in operation.types
    ]:
        yield "has a region of another element type than its result"


def scatter(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#scatter (C23): a region on elements of inputs and updates."""
    count = len(operands) // 2
    yield from _combines(operation.regions[0], types, operands[:count], operands[count + 1 :])


def collective(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#all_reduce (C5), #reduce_scatter (C7): one region on elements of each operand."""
    for kind in operands[: len(operation.results)]:
        yield from _combines(operation.regions[0], types, [kind], [kind])


def mapped(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#map (C3), (C4): all dimensions, and a region from elements of the inputs to a scalar."""
    first = operands[0] if operands else None
    if isinstance(first, TensorSpec):
        dimensions = np.asarray(operation.attributes["dimensions"]).tolist()
        if dimensions != list(range(first.rank)):
            yield f"dimensions must be those of {first}, in order, got {dimensions}"
    (block,) = operation.regions
    if [_element(kind) for kind in block.types] != [_element(kind) for kind in operands]:
        yield "has a region of other arguments than elements of its operands"
    if not block.operations:
        yield "has a region that does not end with a return"
        return
    results = _returned(block, types)
    if len(results) != 1 or not _scalars(results):
        yield "has a region that returns more than one scalar"


def _decides(block: Block, types: Types) -> Iterable[str]:
    """Yield what is wrong with a region that returns a truth value."""
    results = _returned(block, types) if block.operations else []
    if results != [TensorSpec.of((), DType.Bool)]:
        yield f"has a region that returns {', '.join(map(str, results)) or 'nothing'}, and not one tensor<i1>"


def sort(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#sort (C4), (C5)."""
    if not operands:
        yield "needs an operand"
    first = operands[0] if operands else None
    axis = operation.attributes.get("dimension", -1)
    if isinstance(first, TensorSpec) and not -first.rank <= axis < first.rank:
        yield f"{first} has no dimension {axis}"
    yield from _decides(operation.regions[0], types)


def loop(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#while (C1): a condition."""
    yield from _decides(operation.regions[0], types)


def branches(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#case (I1), (C1) to (C3), #if (I1), (C1), (C2): a scalar decides between branches of the same results."""
    dtype = DType.Bool if operation.name == "stablehlo.if" else DType.I32
    if operands[0] != TensorSpec.of((), dtype):
        yield f"decides by {operands[0]}, and not by a scalar of {dtype}"
    if not operation.regions:
        yield "needs a branch"
    for block in operation.regions:
        if not block.operations:
            yield "has a region that does not end with a return"
        elif len(block.operations[-1].operands) != len(operation.results):
            yield f"has a region that returns {len(block.operations[-1].operands)} values"


# ---- operands ----------------------------------------------------------------------------------


def without(is_wrong: Callable[[DType], bool]) -> Check:
    """Return the check that no operand is of some dtypes."""

    def check(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
        for kind in operands:
            if isinstance(kind, TensorSpec) and is_wrong(kind.dtype):
                yield f"does not take {kind}"

    return check


def normalization(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#batch_norm_grad (C1) to (C4): vectors with an element for each feature."""
    image, axis = operands[0], operation.attributes["feature_index"]
    if not isinstance(image, TensorSpec):
        return
    if not 0 <= axis < image.rank:
        yield f"{image} has no axis {axis}"
        return
    last = -1 if operation.name == "stablehlo.batch_norm_grad" else None
    for kind in operands[1:last]:
        if isinstance(kind, TensorSpec):
            pair = image.shape[axis], *kind.shape[:1]
            is_known = all([isinstance(extent, int) for extent in pair])
            if kind.rank != 1 or (is_known and pair[0] != pair[1]) or kind.dtype != image.dtype:
                yield f"takes {kind} for the features of {image}"


def convolution(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#convolution (C27), #dynamic_conv (C27)."""
    elements = {_element(kind) for kind in operands[:2]} - {None}
    if len(elements) > 1:
        yield f"takes {operands[0]} and {operands[1]}, which differ in element type"


def contraction(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """#dot_general (I8) to (I14): an algorithm of one component and of 1, 3, 6 or 9 operations."""
    chosen = operation.attributes.get("algorithm")
    if chosen is None or chosen is False:
        return
    counts = re.findall(r"(?:component_count|primitive_operations) *= *(-?\d+)", str(chosen))
    if not str(chosen).startswith("#stablehlo.dot_algorithm<") or len(counts) != 3:
        yield f"attribute 'algorithm' is a dot_algorithm, got {chosen!r}"
    elif counts[:2] != ["1", "1"] or counts[2] not in ("1", "3", "6", "9"):
        yield f"no hardware has the algorithm {chosen}"


CHECKS: Mapping[str, Check] = {
    f"stablehlo.{name}": check
    for names, check in (
        ("abs sign", without(lambda dtype: dtype.kind == "u")),
        ("imag real", without(lambda dtype: not dtype.is_inexact)),
        ("all_reduce collective_reduce reduce_scatter", collective),
        ("batch_norm_grad batch_norm_inference batch_norm_training", normalization),
        ("case if", branches),
        ("convolution dynamic_conv", convolution),
        ("dot_general", contraction),
        ("map", mapped),
        ("reduce", reduction),
        ("reduce_window", reduce_window),
        ("scatter", scatter),
        ("select_and_scatter", select_and_scatter),
        ("sort", sort),
        ("while", loop),
    )
    for name in names.split()
}
"""Checks by operation."""
