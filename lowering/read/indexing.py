"""Readers of gathers, scatters and dynamic slices."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read import bounded
from lowering.read.promotion import promoted
from lowering.read.reader import Reader, ReadRows
from lowering.read.regions import combiner_operation, scatter_combiner
from lowering.read.scatters import Margins, Numbers, scattered
from tenferro.errors import InvalidConfigError
from tenferro.ops import indexing as ix

__all__ = ["ROWS"]


def gather(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    a, numbers = operation.attributes, operation.attributes["dimension_numbers"]
    dropped = (*numbers["collapsed_slice_dims"], *numbers["operand_batching_dims"])
    if 0 in [a["slice_sizes"][axis] for axis in dropped] and 0 not in operation.spec.shape:
        raise InvalidConfigError(
            f"stablehlo.gather: slices of sizes {tuple(a['slice_sizes'])} have no elements, and the result "
            f"{operation.spec} has some; give the axes {dropped} the size 1"
        )
    op = ix.Gather(
        offset_dims=numbers["offset_dims"],
        collapsed_slice_dims=numbers["collapsed_slice_dims"],
        operand_batching_dims=numbers["operand_batching_dims"],
        start_indices_batching_dims=numbers["start_indices_batching_dims"],
        start_index_map=numbers["start_index_map"],
        index_vector_dim=numbers["index_vector_dim"],
        slice_sizes=tuple(a["slice_sizes"]),
        indices_are_sorted=bool(a.get("indices_are_sorted", False)),
    )
    return r.apply_one(op, *operands)


def index_select(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `torch_index_select`, which gathers slices along one axis; the second operand contains the indices.

    Both operands may have leading batch axes.
    """
    axis, batch = operation.attributes["dim"], operation.attributes["batch_dims"]
    x, places = operands
    shape, rank = r.spec(x).shape, len(r.spec(places).shape)
    if not 0 <= batch <= min(rank, axis) <= axis < len(shape):
        raise InvalidConfigError(
            f"torch_index_select: batch_dims = {batch}, dim = {axis} of {r.spec(x)} and {r.spec(places)}"
        )
    after = axis + rank - batch
    op = ix.Gather(
        offset_dims=(*range(batch, axis), *range(after, len(operation.spec.shape))),
        collapsed_slice_dims=(axis,),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
        start_index_map=(axis,),
        index_vector_dim=rank,
        slice_sizes=tuple([1 if i == axis or i < batch else n for i, n in enumerate(shape)]),
    )
    return r.apply_one(op, x, places)


def scatter(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a scatter as the op `Scatter` for each operand, if the region combines elements by a supported op.

    A scatter with any other region is read as a loop that combines one window after the other.
    """
    a = operation.attributes
    numbers = Numbers(**a["scatter_dimension_numbers"])
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    margins = None
    if not r.drops_windows:
        margins = Margins.of(r, numbers, inputs[0], indices, updates[0])
    if margins is None:
        return _scattered(r, operation, numbers, inputs, indices, updates)
    inputs = [margins.around(r, x) for x in inputs]
    indices = margins.moved(r, numbers, indices)
    outputs = _scattered(r, operation, numbers, inputs, indices, updates)
    return [margins.inside(r, y) for y in outputs]


def _scattered(
    r: Reader,
    operation: Operation,
    numbers: Numbers,
    inputs: Sequence[int],
    indices: int,
    updates: Sequence[int],
) -> Sequence[int]:
    a = operation.attributes
    combiners = _combiners(r, operation, inputs)
    unique = bool(a.get("unique_indices", False))
    if combiners is None:
        return scattered(r, operation.regions[0], numbers, inputs, indices, updates, unique)
    flags = {
        "indices_are_sorted": bool(a.get("indices_are_sorted", False)),
        "unique_indices": unique,
    }
    return [
        r.apply_one(numbers.scatter(combiner, **flags), x, indices, update)
        for x, update, combiner in zip(inputs, updates, combiners, strict=True)
    ]


def _combiners(r: Reader, operation: Operation, inputs: Sequence[int]) -> list[str] | None:
    """Return the combiner of the op `Scatter` for each operand; None if there is no combiner for one of them."""
    names = combiner_operation(operation.regions[0])
    if names is None:
        return None
    pairs = zip(inputs, names, strict=True)
    combiners = [scatter_combiner(name, r.spec(x).dtype) for x, name in pairs]
    supported = [combiner for combiner in combiners if combiner is not None]
    return supported if len(supported) == len(combiners) else None


def dynamic_slice(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    sizes = tuple(operation.attributes["slice_sizes"])
    x, *starts = operands
    if not r.spec(x).is_exact:
        x, starts = bounded.dynamic_slice(r, x, starts, sizes)
    return r.apply_one(ix.DynamicSlice(sizes), x, *starts) if sizes else x


def dynamic_update_slice(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    x, update, *starts = operands
    if not all([r.spec(value).is_exact for value in (x, update)]):
        return bounded.dynamic_update_slice(r, x, update, starts)
    rank = r.spec(x).rank
    return r.apply_one(ix.DynamicUpdateSlice(rank), *operands) if rank else update


def inputs_and_updates(count: int) -> Sequence[int]:
    """Return the positions of inputs and updates among the `count` operands of a scatter.

    The operands are inputs, then one tensor of indices, then updates.
    """
    half = count // 2
    return [*range(half), *range(half + 1, count)]


ROWS: ReadRows = {
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.gather": gather,
    "stablehlo.scatter": promoted(scatter, inputs_and_updates),
    "stablehlo.torch_index_select": index_select,
}
