"""`broken`, which finds a constraint of the specification that an operation's attributes, regions or operands violate.

The readers of operations check only the shapes and dtypes of results. The checks here reject modules that violate any
other constraint, which would otherwise run.

Source: StableHLO specification; (I1) and (C1) are its numbers for constraints of inputs and for other constraints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from lowering.bounds import bounded
from lowering.module_tree import Block, ForeignType, Operation, Type
from lowering.syntax.attributes import INTEGERS, tuple_types
from lowering.syntax.definitions import DEFINITIONS
from lowering.syntax.forms import ELEMENTWISE
from lowering.types import is_promotable, tensor_type
from tenferro.dims import UNKNOWN, UpperBound
from tenferro.types import DType, TensorSpec

__all__ = ["MOST_DEVICES", "Types", "broken"]

Types = Mapping[int, Type]
"""Dictionary from value numbers to the types of the values."""
Check = Callable[[Operation, Sequence[Type], Types], Iterable[str]]
"""Function of an operation, the types of its operands, and the types of all values.

It yields messages about violated constraints.
"""


def broken(operation: Operation, types: Types) -> str | None:
    """Return a message about the first constraint that an operation violates; None if it satisfies all.

    Args:
        types: the types of all values that the operation and its regions may use.
    """
    operands = [types[number] for number in operation.operands]
    checks = [CHECKS[operation.name]] if operation.name in CHECKS else []
    checks += [elementwise] if operation.name in ELEMENTWISE else []
    breaches = chain(
        kinds(operation),
        indices(operation, operands),
        *[check(operation, operands, types) for check in checks],
    )
    try:
        return next(iter(breaches), None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"is malformed: {error}"


MOST_DEVICES = 1 << 16
"""Maximum number of devices in groups, pairs and meshes, because their devices are stored as lists."""

# ---- attributes --------------------------------------------------------------------------------

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
    """Yield messages about attributes whose values have another type than the attribute's name requires."""
    if not operation.name.startswith("stablehlo."):
        return
    for name, value in operation.attributes.items():
        is_bool = isinstance(value, bool)
        if name in INTEGERS and (is_bool or not isinstance(value, int)):
            yield f"attribute '{name}' must be an integer, got {value!r}"
        elif name in _BOOLS and not is_bool:
            yield f"attribute '{name}' must be a bool, got {value!r}"
        elif name == "epsilon" and not isinstance(value, float):
            yield f"attribute 'epsilon' must be a float, got {value!r}"
        elif name in ("padding", "source_target_pairs"):
            yield from _pairs(name, value)
        elif name == "replica_groups":
            yield from _groups(operation, value)


_TAKES_INDICES: Mapping[str, int] = {
    "stablehlo.custom_call": 0, "stablehlo.dynamic_broadcast_in_dim": 1, "stablehlo.dynamic_gather": 2,
    "stablehlo.dynamic_iota": 0, "stablehlo.dynamic_pad": 2, "stablehlo.dynamic_reshape": 1,
    "stablehlo.real_dynamic_slice": 1, "stablehlo.rng": 2, "stablehlo.scatter": 1,
}  # fmt: skip
"""Number of leading operands that must not have the element type index; the operands after them may have it."""


def indices(operation: Operation, operands: Sequence[Type]) -> Iterable[str]:
    """Yield messages about values of element type `index`, which few operations accept and no operation returns."""
    if not operation.name.startswith(("chlo.", "stablehlo.")):
        return
    types = [*operands[: _TAKES_INDICES.get(operation.name)], *operation.types]
    for kind in types:
        if isinstance(kind, ForeignType) and kind.text.endswith("index>"):
            yield f"has no elements of type index, got {kind}"


def _pairs(name: str, value: Any) -> Iterable[str]:
    """Yield messages about an attribute that must be a list of pairs of integers."""
    array: Any = value if isinstance(value, np.ndarray) else np.zeros(0)
    if array.dtype != np.int64 or array.ndim != 2 or array.shape[1] != 2:
        yield f"attribute '{name}' holds pairs of integers, of shape (N, 2)"
    elif len(array) > MOST_DEVICES:
        yield f"attribute '{name}' holds {len(array)} pairs; {MOST_DEVICES} are the most"
    elif name == "source_target_pairs":
        sources, targets = array[:, 0].tolist(), array[:, 1].tolist()
        if min([*sources, *targets], default=0) < 0:
            yield "source_target_pairs holds a number below 0"
        elif len({*sources}) < len(sources) or len({*targets}) < len(targets):
            yield "source_target_pairs holds a source or a target twice"


_RAGGED = frozenset(
    [f"stablehlo.{name}" for name in ("all_reduce", "collective_reduce", "cross-replica-sum")]
)
"""Operations whose groups may differ in size."""


def _groups(operation: Operation, value: Any) -> Iterable[str]:
    """Yield messages about invalid groups of devices.

    Groups along mesh axes are given as text, and are not checked here.
    """
    if isinstance(value, str):
        return
    array = value if isinstance(value, np.ndarray) else np.zeros(0)
    if array.dtype != np.int64 or array.ndim != 2:
        yield "attribute 'replica_groups' holds integers, of rank 2"
        return
    if array.size > MOST_DEVICES:
        yield f"replica_groups holds {array.size} devices; {MOST_DEVICES} are the most"
        return
    members = array.ravel().tolist()
    is_ragged = operation.name in _RAGGED
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
    """Return the types of the values that a block returns."""
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
    """Yield messages about a region that does not combine pairs of elements, one pair per operand.

    The arguments of the region must be a first element per operand, then a second element per operand. The region must
    return a scalar per operand, whose type E is also the type of both arguments. The elements of the operand must be
    promotable to E.

    Args:
        operands: the types of the operands, whose elements the region combines.
        starts: the types of the initial values or updates with which the elements are combined.
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
    """Check #reduce (C6), #reduce_window (C13): the region combines elements, and initial values are scalars."""
    count = len(operands) // 2
    if not _scalars(operands[count:]):
        yield "takes initial values that are no scalars"
    yield from _combines(operation.regions[0], types, operands[:count], operands[count:])


def window(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #reduce_window (C4) to (C13), #select_and_scatter (C4) to (C8): sizes, strides, dilations and padding."""
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
    """Check #reduce_window: the windows, the region and the initial values."""
    yield from window(operation, operands, types)
    yield from reduction(operation, operands, types)


def select_and_scatter(
    operation: Operation, operands: Sequence[Type], types: Types
) -> Iterable[str]:
    """Check #select_and_scatter: the windows, and constraints (C9) and (C10) of the two regions."""
    yield from window(operation, operands, types)
    select, scatter = operation.regions
    wanted = _element(operands[0])
    if [_element(kind) for kind in select.types] != [wanted, wanted]:
        yield f"has a selection of other arguments than elements of {operands[0]}"
    yield from _decides(select, types)
    yield from _sources(operation, operands[0], operands[1])
    yield from _combines(scatter, types, operands[:1], operands[2:3])
    if scatter.operations and [_element(kind) for kind in _returned(scatter, types)] != [
        _element(kind) for kind in operation.types
    ]:
        yield "has a region of another element type than its result"


def _sources(operation: Operation, image: Type, source: Type) -> Iterable[str]:
    """Check #select_and_scatter (C11): the source has one element per window."""
    if not isinstance(image, TensorSpec) or not isinstance(source, TensorSpec):
        return
    ones = [1] * image.rank
    sizes, strides = [
        operation.attributes.get(name, ones) for name in ("window_dimensions", "window_strides")
    ]
    padding = operation.attributes.get("padding", [(0, 0)] * image.rank)
    windows = [
        max(0, (extent + int(low) + int(high) - int(size)) // int(stride) + 1)
        if isinstance(extent, int)
        else extent
        for extent, size, stride, (low, high) in zip(
            image.shape, sizes, strides, padding, strict=True
        )
    ]
    if not _agree(windows, source.shape):
        yield f"takes {source} for windows of shape {windows}"


def scatter(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #scatter (C8), (C9), (C13), (C23): dimension numbers are sorted, and the region combines elements."""
    numbers = operation.attributes["scatter_dimension_numbers"]
    yield from _sorted(numbers, "update_window_dims", "inserted_window_dims", "input_batching_dims")
    if numbers.get("index_vector_dim", 0) in numbers.get("scatter_indices_batching_dims", ()):
        yield "scatter_indices_batching_dims names index_vector_dim"
    count = len(operands) // 2
    yield from _combines(operation.regions[0], types, operands[:count], operands[count + 1 :])


def gather(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #gather (C4), (C6), (C9), (C13): dimension numbers are sorted."""
    numbers = operation.attributes["dimension_numbers"]
    yield from _sorted(numbers, "offset_dims", "collapsed_slice_dims", "operand_batching_dims")
    if numbers.get("index_vector_dim", 0) in numbers.get("start_indices_batching_dims", ()):
        yield "start_indices_batching_dims names index_vector_dim"


def _sorted(numbers: Mapping[str, Any], *names: str) -> Iterable[str]:
    """Yield messages about those of the dimension numbers `names` that are not sorted or contain a number twice."""
    for name in names:
        dimensions = list(numbers.get(name, ()))
        if dimensions != sorted({*dimensions}):
            yield f"{name} is not in order: {dimensions}"


def collective(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #all_reduce (C5), #reduce_scatter (C7): the region combines elements of each operand."""
    for kind in operands[: len(operation.results)]:
        yield from _combines(operation.regions[0], types, [kind], [kind])


def along(*names: str) -> Check:
    """Return a check that the attributes `names` are axes of every operand.

    It checks #all_gather (C1), #reduce_scatter (C1), (C2), #all_to_all (C1), (C3).
    """

    def check(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
        for name in names:
            for kind in operands:
                if isinstance(kind, TensorSpec) and not 0 <= operation.attributes[name] < kind.rank:
                    yield f"{kind} has no axis {name} = {operation.attributes[name]}"
        if operation.regions:
            yield from collective(operation, operands, types)

    return check


def mapped(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #map (C3), (C4): `dimensions` lists all axes, and the region maps elements of the operands to a scalar."""
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
    """Yield a message if a region does not return a scalar bool."""
    results = _returned(block, types) if block.operations else []
    if results != [TensorSpec.of((), DType.Bool)]:
        yield f"has a region that returns {', '.join(map(str, results)) or 'nothing'}, and not one tensor<i1>"


def sort(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #sort (C4), (C5): the axis exists, and the comparator returns a scalar bool."""
    if not operands:
        yield "needs an operand"
    first = operands[0] if operands else None
    axis = operation.attributes.get("dimension", -1)
    if isinstance(first, TensorSpec) and not -first.rank <= axis < first.rank:
        yield f"{first} has no dimension {axis}"
    yield from _decides(operation.regions[0], types)


def loop(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #while (C1): the condition returns a scalar bool."""
    yield from _decides(operation.regions[0], types)


def branches(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #case (I1), (C1) to (C3), #if (I1), (C1), (C2).

    The first operand must be a scalar, and each branch must return as many values as the operation.
    """
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
    """Return a check that no operand has a dtype for which the predicate `is_wrong` is true."""

    def check(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
        for kind in operands:
            if isinstance(kind, TensorSpec) and is_wrong(kind.dtype):
                yield f"does not take {kind}"

    return check


def normalization(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #batch_norm_grad (C1) to (C4): vector operands have one element per feature."""
    image, axis = operands[0], operation.attributes["feature_index"]
    if not isinstance(image, TensorSpec):
        return
    if not 0 <= axis < image.rank:
        yield f"{image} has no axis {axis}"
        return
    yield from _FLOAT(operation, operands, types)
    last = -1 if operation.name == "stablehlo.batch_norm_grad" else None
    for kind in operands[1:last]:
        if isinstance(kind, TensorSpec):
            pair = image.shape[axis], *kind.shape[:1]
            is_known = all([isinstance(extent, int) for extent in pair])
            if kind.rank != 1 or (is_known and pair[0] != pair[1]) or kind.dtype != image.dtype:
                yield f"takes {kind} for the features of {image}"


def convolution(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #convolution (C27), #dynamic_conv (C27): both operands have the same element type.

    MLIR's verifier also requires windows with elements.
    """
    elements = {_element(kind) for kind in operands[:2]} - {None}
    if len(elements) > 1:
        yield f"takes {operands[0]} and {operands[1]}, which differ in element type"
    kernel = operands[1]
    numbers = operation.attributes.get("dimension_numbers")
    if isinstance(kernel, TensorSpec) and isinstance(numbers, Mapping):
        axes = numbers["kernel_spatial_dimensions"]
        if any([axis < kernel.rank and kernel.shape[axis] == 0 for axis in axes]):
            yield f"takes windows without elements: {kernel}"


_MULTIPLIED = frozenset(
    ["f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"]
)
"""Floats of 8 bits. Some hardware can multiply any two of these types, and accumulate the products in f32."""
_ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "bf16 bf16 bf16": ("1",),
    "bf16 bf16 f32": ("1", "3", "6", "9"),
    "f16 f16 f16": ("1",),
    "f16 f16 f32": ("1",),
    "f32 f32 f32": ("1",),
    "f64 f64 f64": ("1",),
    "tf32 tf32 f32": ("1", "3"),
}
"""Numbers of primitive operations that hardware supports, by the types of `lhs`, `rhs` and the accumulator."""


def contraction(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #dot_general (I8) to (I14): some hardware supports the algorithm, according to MLIR's verifier."""
    chosen = operation.attributes.get("algorithm")
    if chosen is None or chosen is False:
        return
    fields = re.findall(r"\w+ *= *([-\w]+)", str(chosen))
    if not str(chosen).startswith("#stablehlo.dot_algorithm<") or len(fields) != 7:
        yield f"attribute 'algorithm' must be a dot_algorithm, got {chosen!r}"
        return
    *kinds, of_lhs, of_rhs, count, is_imprecise = fields
    are_narrow = all([kind in _MULTIPLIED for kind in kinds[:2]]) and kinds[2] == "f32"
    counts = ("1",) if are_narrow else _ALGORITHMS.get(" ".join(kinds), ())
    is_known = count in counts and (are_narrow or is_imprecise == "false")
    if not is_known or (of_lhs, of_rhs) != ("1", "1"):
        yield f"no hardware has the algorithm {chosen}"
    if set(operation.attributes.get("precision_config") or ()) - {"DEFAULT"}:
        yield "must specify DEFAULT precision config when algorithm is set"


def same_elements(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #compare (C2), #triangular_solve (C1): operands have the same element type."""
    elements = {_element(kind) for kind in operands} - {None}
    if len(elements) > 1:
        yield f"takes {' and '.join(map(str, operands))}, which differ in element type"


def solve(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #triangular_solve (I1), (I2), (C1): operands are floats or complex, of the same element type."""
    yield from _INEXACT(operation, operands, types)
    yield from same_elements(operation, operands, types)


def gives(dtype: DType) -> Check:
    """Return a check that the result is a scalar of this dtype."""

    def check(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
        if operation.types[0] != TensorSpec.of((), dtype):
            yield f"gives {operation.types[0]}, and not a scalar of {dtype}"

    return check


def resize(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #set_dimension_size: the operand with the size is a scalar int32."""
    if operands[1] != TensorSpec.of((), DType.I32):
        yield f"takes {operands[1]} as a size, and not a scalar int32"


def vector(*places: int) -> Check:
    """Return a check that the operands at the positions `places` are integer vectors of static length and of one type.

    Such operands are shapes or amounts of padding of a dynamic operation.
    """

    def check(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
        shapes = [operands[place] for place in places]
        for kind in shapes:
            if not _is_shape(kind):
                yield f"takes {kind} as a shape"
        if len({*shapes}) > 1:
            yield f"takes shapes of different types, {' and '.join(map(str, shapes))}"
        yield from _hints(operation, operands[0])

    return check


def _is_shape(kind: Type) -> bool:
    """Return whether a type is a vector of known length whose elements are integers or of the type index."""
    if isinstance(kind, TensorSpec):
        return kind.rank == 1 and kind.is_static and kind.dtype.kind in "iu"
    return re.fullmatch(r"tensor<\d+xindex>", kind.text) is not None


def dynamic_gather(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #dynamic_gather: the dimension numbers, as for #gather, and (I3), the slice sizes."""
    yield from gather(operation, operands, types)
    yield from vector(2)(operation, operands, types)


def _hints(operation: Operation, first: Type) -> Iterable[str]:
    """Check #dynamic_broadcast_in_dim (C5), (C7) to (C9).

    The attributes `known_expanding_dimensions` and `known_nonexpanding_dimensions` must list each axis at most once,
    and the extents must be broadcastable.
    """
    named = [
        int(axis)
        for kind in ("expanding", "nonexpanding")
        for axis in operation.attributes.get(f"known_{kind}_dimensions", ())
    ]
    rank = first.rank if isinstance(first, TensorSpec) else None
    if len({*named}) < len(named):
        yield f"names an axis twice among those that expand or do not: {named}"
    elif rank is not None and any([not 0 <= axis < rank for axis in named]):
        yield f"names an axis that {first} has not: {named}"
    result = operation.types[0]
    if isinstance(first, TensorSpec) and isinstance(result, TensorSpec):
        for axis, place in enumerate(operation.attributes.get("broadcast_dimensions", ())):
            extents = first.shape[axis], result.shape[place]
            if all([isinstance(n, int) for n in extents]) and extents[0] not in (1, extents[1]):
                yield f"axis {axis} of {first} does not become axis {place} of {result}"


def unchanged(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #optimization_barrier (C1): results have the types of the operands."""
    if tuple(operands) != operation.types:
        yield "has results of other types than its operands"


def element(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #get_tuple_element (C1), (C2): the index is in range, and the result has the element's type."""
    (kind,), index = operands, operation.attributes["index"]
    elements = tuple_types(kind) if isinstance(kind, ForeignType) else []
    if not 0 <= index < len(elements):
        yield f"index {index} is not in the {len(elements)} elements of {kind}"
    elif bounded(elements[index]) != operation.types[0]:
        yield f"gives {operation.types[0]}, and not {elements[index]}"


def tupled(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #tuple (C1): the elements of the result's type are the types of the operands."""
    parts = ", ".join([_text(kind) for kind in operands])
    if str(operation.types[0]).replace(" ", "") != f"tuple<{parts}>".replace(" ", ""):
        yield f"gives {operation.types[0]}, and not tuple<{parts}>"


def _text(kind: Type) -> str:
    return tensor_type(kind) if isinstance(kind, TensorSpec) else kind.text


def expresses(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #uniform_dequantize (I1): the operand is quantised."""
    if isinstance(operands[0], TensorSpec):
        yield f"takes {operands[0]}, which is not quantised"


def fixed(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #constant (C1): the result has a static shape."""
    kind = operation.types[0]
    if isinstance(kind, TensorSpec) and not kind.is_static:
        yield f"gives {kind}, which has open extents"


def stacked(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check the result's shape and the sizes of the deprecated operation `broadcast`, which adds leading axes."""
    sizes, kind, result = operation.attributes["broadcast_sizes"], operands[0], operation.types[0]
    if min(sizes, default=0) < 0:
        yield f"broadcast_sizes holds {min(sizes)}"
    if isinstance(kind, TensorSpec) and isinstance(result, TensorSpec):
        yield from _fits((*map(int, sizes), *kind.shape), result)


def _fits(shape: Sequence[Any], result: TensorSpec) -> Iterable[str]:
    """Yield a message if the type of a result does not have this shape; dynamic extents match any number."""
    if not _agree(shape, result.shape):
        yield f"gives {result}, and not one of shape {list(shape)}"


def _agree(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether two shapes may be equal; a dynamic extent matches any number up to its bound."""
    if len(first) != len(second):
        return False
    for pair in zip(first, second, strict=True):
        numbers = {extent for extent in pair if isinstance(extent, int)}
        bounds = [
            extent.dim
            for extent in pair
            if isinstance(extent, UpperBound) and isinstance(extent.dim, int)
        ]
        if len(numbers) > 1 or (numbers and bounds and max(numbers) > min(bounds)):
            return False
    return True


def elementwise(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check that all operands and results of an elementwise operation may have the same shape."""
    kinds = [kind for kind in (*operands, *operation.types) if isinstance(kind, TensorSpec)]
    for place, kind in enumerate(kinds):
        for other in kinds[:place]:
            if not _agree(kind.shape, other.shape):
                yield f"takes or gives {other} and {kind}"


def sliced(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #slice (C3) for extents with a bound: the limit is at most the bound."""
    kind, limits = operands[0], operation.attributes["limit_indices"]
    if isinstance(kind, TensorSpec):
        for extent, limit in zip(kind.shape, limits, strict=False):
            if (
                isinstance(extent, UpperBound)
                and isinstance(extent.dim, int)
                and limit > extent.dim
            ):
                yield f"ends at {limit} along an axis of {kind}"


def padded(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #pad (C4) for extents with a bound: the result's extent cannot be negative for all allowed extents."""
    names = ("edge_padding_low", "interior_padding", "edge_padding_high")
    kind, amounts = operands[0], zip(*[operation.attributes[name] for name in names], strict=False)
    if isinstance(kind, TensorSpec):
        for extent, (low, interior, high) in zip(kind.shape, amounts, strict=False):
            if isinstance(extent, UpperBound) and isinstance(extent.dim, int):
                most = low + extent.dim + max(extent.dim - 1, 0) * interior + high
                if most < 0:
                    yield f"gives an extent of {most} for a bound of {kind}"


def permuted(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check #transpose (C2): `permutation` contains each axis once."""
    kind, order = operands[0], np.asarray(operation.attributes["permutation"]).tolist()
    if isinstance(kind, TensorSpec) and sorted(order) != list(range(kind.rank)):
        yield f"permutation must name each axis of {kind} once, got {order}"


_AXIS = re.compile(r'"[^"]*"(?::\s*\(\s*\d+\s*\)\s*\d+)?')
"""Pattern of the axis of a mesh, such as `"x"`, or of a part of an axis, such as `"x":(2)4`."""


def sharded(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check `sdy.sharding_constraint`: the result has the operand's type, and each axis has an entry."""
    yield from unchanged(operation, operands, types)
    kind, text = operands[0], str(operation.attributes["sharding"])
    entries = re.search(r"\[((?:\s*\{[^{}]*\}(?:p\d+)?\s*,?)*)\]", text)
    if isinstance(kind, TensorSpec) and entries and entries[1].count("{") != kind.rank:
        yield f"shards {entries[1].count('{')} axes of {kind}"
    for entry in re.findall(r"\{([^{}]*)\}", entries[1] if entries else ""):
        axes = [axis.strip() for axis in entry.split(",")] if entry.strip() else []
        if not all([axis == "?" or _AXIS.fullmatch(axis) for axis in axes]):
            yield f"has no sharding in {{{entry}}}"


# ---- CHLO --------------------------------------------------------------------------------------


def broadcast(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check that the result has the broadcast shape of the operands."""
    shapes = [kind.shape for kind in operands if isinstance(kind, TensorSpec)]
    result = operation.types[0]
    if len(shapes) < len(operands) or not isinstance(result, TensorSpec):
        return
    if operation.attributes.get("broadcast_dimensions"):
        return
    rank = max(map(len, shapes))
    common = []
    for extents in zip(*[[*[1] * (rank - len(shape)), *shape] for shape in shapes], strict=True):
        numbers = {n for n in extents if isinstance(n, int)} - {1}
        if len(numbers) > 1:
            yield f"takes {' and '.join(map(str, operands))}, which do not broadcast"
            return
        is_open = any([not isinstance(n, int) for n in extents])
        common.append(numbers.pop() if numbers else extents[0] if not is_open else UNKNOWN)
    yield from _fits(common, result)


def likened(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check `constant_like`: the value has the result's element type."""
    dtype, value = _element(operation.types[0]), operation.attributes["value"]
    kind = isinstance(value, bool), isinstance(value, float)
    if dtype is not None and not dtype.is_complex and kind != (dtype.is_bool, dtype.is_float):
        yield f"has the value {value!r} for elements of {operation.types[0]}"


def largest(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check `top_k`: the operand's last axis has at least k elements, and the last axis of each result has k."""
    kind, count = operands[0], operation.attributes["k"]
    if (
        count < 0
        or not isinstance(kind, TensorSpec)
        or not kind.rank
        or (isinstance(kind.shape[-1], int) and count > kind.shape[-1])
    ):
        yield f"takes the {count} largest of {kind}"
    else:
        for result in operation.types:
            if isinstance(result, TensorSpec):
                yield from _fits((*kind.shape[:-1], count), result)


def same_types(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check that both operands are floats of the same element type and shape."""
    yield from _FLOAT(operation, operands, types)
    yield from same_elements(operation, operands, types)
    first, second = operands
    if isinstance(first, TensorSpec) and isinstance(second, TensorSpec):
        yield from _fits(first.shape, second)


def scanned(operation: Operation, operands: Sequence[Type], types: Types) -> Iterable[str]:
    """Check `scan`: the region's arguments are slices of inputs and carries, and all extents of the axis are equal."""
    attributes, (block,) = operation.attributes, operation.regions
    count, axis = int(attributes["operandSegmentSizes"][0]), attributes["dimension"]
    size = attributes.get("scan_dim_size")
    if len(block.types) != len(operands):
        yield f"has a region of {len(block.types)} arguments, for {len(operands)} operands"
        return
    for place, (kind, argument) in enumerate(zip(operands, block.types, strict=True)):
        if not isinstance(kind, TensorSpec) or not isinstance(argument, TensorSpec):
            continue
        shape = list(kind.shape)
        if place < count:
            if not 0 <= axis < kind.rank:
                yield f"{kind} has no axis {axis}"
                return
            extent = shape.pop(axis)
            if size is not None and not _agree((extent,), (size,)):
                yield f"scans {extent} elements of {kind}, and declares {size}"
        if argument.dtype is not kind.dtype or not _agree(shape, argument.shape):
            yield f"has a region that takes {argument} for {kind}"


_FLOAT = without(lambda dtype: not dtype.is_float)
_INEXACT = without(lambda dtype: not dtype.is_inexact)
_UNARY_CHLO = """acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc lgamma sinh square
    tan"""
_CHLO: Mapping[str, Check] = {
    **{f"chlo.{name}": _INEXACT for name in _UNARY_CHLO.split()},
    **{f"chlo.{name}": _FLOAT for name in ("is_inf", "is_neg_inf", "is_pos_inf")},
    **{f"chlo.{name}": same_types for name in ("next_after", "polygamma", "zeta")},
    **{name: broadcast for name in DEFINITIONS if name.startswith("chlo.broadcast_")},
    "chlo.constant_like": likened,
    "chlo.mulhi": without(lambda dtype: dtype.kind not in "iu"),
    "chlo.scan": scanned,
    "chlo.top_k": largest,
}

CHECKS: Mapping[str, Check] = {
    **_CHLO,
    "sdy.sharding_constraint": sharded,
    **{
        f"stablehlo.{name}": check
        for names, check in (
            ("abs sign", without(lambda dtype: dtype.kind == "u")),
            ("imag real square", _INEXACT),
            ("broadcast", stacked),
            ("compare", same_elements),
            ("constant", fixed),
            ("dynamic_broadcast_in_dim dynamic_reshape", vector(1)),
            ("dynamic_iota", vector(0)),
            ("dynamic_pad", vector(2, 3, 4)),
            ("real_dynamic_slice", vector(1, 2, 3)),
            ("dynamic_gather", dynamic_gather),
            ("gather", gather),
            ("get_dimension_size", gives(DType.I32)),
            ("optimization_barrier", unchanged),
            ("pad", padded),
            ("slice", sliced),
            ("partition_id replica_id", gives(DType.U32)),
            ("set_dimension_size", resize),
            ("transpose", permuted),
            ("triangular_solve", solve),
            ("get_tuple_element", element),
            ("tuple", tupled),
            ("uniform_dequantize", expresses),
            ("all_reduce collective_reduce", collective),
            ("all_gather", along("all_gather_dim")),
            ("all_to_all", along("split_dimension", "concat_dimension")),
            ("reduce_scatter", along("scatter_dimension")),
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
    },
}
"""Checks by operation name; `elementwise` also checks elementwise operations."""
