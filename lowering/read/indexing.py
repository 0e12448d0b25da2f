"""Readers of gathers, scatters and dynamic slices."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Reader, ReadRows
from lowering.read.regions import ON_BOOL, SCATTERS, known_combiner
from tenferro.errors import UnsupportedError
from tenferro.ops import indexing as ix

__all__ = ["ROWS"]


def gather(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    a, numbers = operation.attributes, operation.attributes["dimension_numbers"]
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
    return r.emit(op, *operands)


ON_TRUTH = {"or": "add", "and": "multiply", "set": "set"}


def scatter(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    a, numbers = operation.attributes, operation.attributes["scatter_dimension_numbers"]
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    region = operation.regions[0]
    names = known_combiner(region)
    if names is None:
        raise UnsupportedError("a scatter whose region is more than one operation")
    made: list[int] = []
    for x, update, name in zip(inputs, updates, names, strict=True):
        is_bool = r.spec(x).dtype.is_bool
        known, name = (ON_TRUTH, ON_BOOL.get(name, name)) if is_bool else (SCATTERS, name)
        if name not in known:
            raise UnsupportedError(f"a scatter by {name} of {r.spec(x).dtype}")
        op = ix.Scatter(
            update_window_dims=numbers["update_window_dims"],
            inserted_window_dims=numbers["inserted_window_dims"],
            input_batching_dims=numbers["input_batching_dims"],
            scatter_indices_batching_dims=numbers["scatter_indices_batching_dims"],
            scatter_dims_to_operand_dims=numbers["scattered_dims_to_operand_dims"],
            index_vector_dim=numbers["index_vector_dim"],
            combiner=known[name],
            indices_are_sorted=bool(a.get("indices_are_sorted", False)),
            unique_indices=bool(a.get("unique_indices", False)),
        )
        made.append(r.emit(op, x, indices, update))
    return made


def dynamic_slice(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    sizes = tuple(operation.attributes["slice_sizes"])
    return r.emit(ix.DynamicSlice(sizes), *operands) if sizes else operands[0]


def dynamic_update_slice(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    rank = len(r.spec(operands[0]).shape)
    return r.emit(ix.DynamicUpdateSlice(rank), *operands) if rank else operands[1]


ROWS: ReadRows = {
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.gather": gather,
    "stablehlo.scatter": scatter,
}
