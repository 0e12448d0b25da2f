"""Reader of scatters whose region is elementwise, but is no combiner that the op `Scatter` supports.

Windows are gathered, combined with the updates by the region, and written back. Windows that may overlap are combined
one after the other, in the order of their indices, as in XLA on CPUs and the reference interpreter. If the module
declares that indices are unique, or if they are constants that differ, all windows are combined at once. A window that
is out of bounds is gathered at clipped indices, and its result is not written back.

The op `Scatter` and XLA ignore a window that is partly out of bounds; by the specification, only its elements out of
bounds are ignored. Inputs therefore get margins, into which every such window fits, unless the range of the indices
shows that windows are within bounds.

Source: StableHLO spec #scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.module_tree import Block
from lowering.read.ranges import range_of
from lowering.read.reader import Reader
from tenferro.dims import at_least, is_exact, is_static
from tenferro.errors import UnsupportedError
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import structural as st
from tenferro.ops.control import Scan
from tenferro.types import DType, TensorSpec

__all__ = ["Margins", "Numbers", "scattered"]


@dataclass(frozen=True)
class Numbers:
    """Dimension numbers of a scatter, with StableHLO's names."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    input_batching_dims: tuple[int, ...]
    scatter_indices_batching_dims: tuple[int, ...]
    scattered_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int

    def scatter(self, combiner: str, **options: Any) -> ix.Scatter:
        """Return the `Scatter` op with this combiner."""
        return ix.Scatter(
            update_window_dims=self.update_window_dims,
            inserted_window_dims=self.inserted_window_dims,
            input_batching_dims=self.input_batching_dims,
            scatter_indices_batching_dims=self.scatter_indices_batching_dims,
            scatter_dims_to_operand_dims=self.scattered_dims_to_operand_dims,
            index_vector_dim=self.index_vector_dim,
            combiner=combiner,
            **options,
        )

    def gather(self, operand: Sequence[int], update: Sequence[int]) -> ix.Gather:
        """Return a `Gather` op that reads the same windows of the operand as the scatter writes.

        Args:
            operand, update: the shapes of the operand and of the updates.
        """
        windows = iter([update[axis] for axis in self.update_window_dims])
        single = {*self.inserted_window_dims, *self.input_batching_dims}
        return ix.Gather(
            offset_dims=self.update_window_dims,
            collapsed_slice_dims=self.inserted_window_dims,
            operand_batching_dims=self.input_batching_dims,
            start_indices_batching_dims=self.scatter_indices_batching_dims,
            start_index_map=self.scattered_dims_to_operand_dims,
            index_vector_dim=self.index_vector_dim,
            slice_sizes=tuple(
                [1 if axis in single else next(windows) for axis in range(len(operand))]
            ),
        )


@dataclass(frozen=True)
class Margins:
    """Margins of a scatter's inputs.

    Attributes:
        widths: the number of elements before the first and after the last element of each axis.
        starts: the width along the axis of each number of an index vector.
    """

    widths: tuple[int, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, r: Reader, numbers: Numbers, x: int, indices: int, update: int) -> Margins | None:
        """Return the margins into which all windows fit that are partly within bounds; None if there are none.

        Raises:
            UnsupportedError: the extents of windows, or of the inputs, are not known.
        """
        shape, windows = r.spec(x).shape, r.spec(update).shape
        single = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
        axes = [axis for axis in range(len(shape)) if axis not in single]
        sizes = dict(zip(axes, [windows[i] for i in numbers.update_window_dims], strict=True))
        widths = [0] * len(shape)
        low, high = range_of(r, indices)
        for axis in numbers.scattered_dims_to_operand_dims:
            size = sizes.get(axis, 1)
            if is_exact(size) and at_least(1, size) is True:
                continue
            if not is_static(size) or not is_exact(shape[axis]):
                raise UnsupportedError(
                    f"scatter: windows of extent {size} along axis {axis} of {r.spec(x)}, whose bounds are not known"
                )
            is_within = low is not None and high is not None and at_least(low, 0) is True
            if not is_within or at_least(shape[axis] - size, high) is not True:
                widths[axis] = size - 1
        starts = tuple([widths[axis] for axis in numbers.scattered_dims_to_operand_dims])
        return cls(tuple(widths), starts) if any(widths) else None

    def around(self, r: Reader, x: int) -> int:
        """Add the margins to an input."""
        none = (0,) * len(self.widths)
        # The region also runs on the margins. They are filled with 1, where more functions have finite derivatives than
        # at 0.
        one = r.constant(1, r.spec(x).dtype)
        return r.apply_one(st.Pad(self.widths, self.widths, none), x, one)

    def moved(self, r: Reader, numbers: Numbers, indices: int) -> int:
        """Add the widths to the index vectors, in int64; indices above half of its range are far out of bounds."""
        spec = r.spec(indices)
        if spec.dtype is DType.U64:
            indices = r.apply_one(el.Minimum(), indices, r.full(1 << 62, spec))
        indices = r.convert(indices, DType.I64)
        vector = r.constant(np.array(self.starts, np.int64))
        is_scalar = numbers.index_vector_dim == spec.rank
        dims = () if is_scalar else (numbers.index_vector_dim,)
        widths = r.apply_one(
            st.BroadcastInDim(spec.shape, dims),
            r.reshape(vector, () if is_scalar else (len(self.starts),)),
        )
        return r.apply_one(el.Add(), indices, widths)

    def inside(self, r: Reader, y: int) -> int:
        """Remove the margins from a result."""
        for axis, width in enumerate(self.widths):
            y = r.slice(y, axis, width, r.spec(y).shape[axis] - width)
        return y


def scattered(
    r: Reader,
    block: Block,
    numbers: Numbers,
    inputs: Sequence[int],
    indices: int,
    updates: Sequence[int],
    unique: bool,
) -> list[int]:
    """Combine every window of the inputs with its updates by the region `block`, and return the new inputs.

    Raises:
        UnsupportedError: the region is not elementwise.
    """
    index_axes, update_axes = _turning_axes(r, numbers, indices, updates[0])
    extents = [r.spec(indices).shape[axis] for axis in index_axes]
    values = list(inputs)
    if 0 in r.spec(updates[0]).shape:
        return values
    if unique or _differ(r, numbers, indices) or int(np.prod(extents)) == 1:
        return _combine_windows(r, block, numbers, values, indices, updates)
    xs = [_pieces(r, indices, index_axes), *[_pieces(r, x, update_axes) for x in updates]]
    slices = [TensorSpec.of(r.spec(x).shape[1:], r.spec(x).dtype) for x in xs]

    def combine(arguments: Sequence[int]) -> list[int]:
        carry, (part, *pieces) = arguments[: len(values)], arguments[len(values) :]
        return _combine_windows(r, block, numbers, carry, part, pieces)

    (body,), captured = r.parts((combine, [*map(r.spec, values), *slices]))
    loop = Scan(body, int(np.prod(extents)), len(captured), len(values))
    return list(r.apply(loop, *captured, *values, *xs))


def _combine_windows(
    r: Reader,
    block: Block,
    numbers: Numbers,
    values: Sequence[int],
    indices: int,
    updates: Sequence[int],
) -> list[int]:
    """Combine all windows with their updates at once; the windows must not overlap."""
    shape = r.spec(updates[0]).shape
    read = [r.apply_one(numbers.gather(r.spec(x).shape, shape), x, indices) for x in values]
    combined = r.lifted(block, [*read, *updates])
    write = numbers.scatter("set")
    return [r.apply_one(write, x, indices, y) for x, y in zip(values, combined, strict=True)]


def _turning_axes(
    r: Reader, numbers: Numbers, indices: int, update: int
) -> tuple[list[int], list[int]]:
    """Return the axes of the indices, and of the updates, along which windows may overlap.

    Batching axes are omitted, because windows at different indices along these axes never overlap.
    """
    every = [axis for axis in range(len(r.spec(indices).shape)) if axis != numbers.index_vector_dim]
    others = [
        axis for axis in range(len(r.spec(update).shape)) if axis not in numbers.update_window_dims
    ]
    unbatched = [
        i for i, axis in enumerate(every) if axis not in numbers.scatter_indices_batching_dims
    ]
    return [every[i] for i in unbatched], [others[i] for i in unbatched]


def _differ(r: Reader, numbers: Numbers, indices: int) -> bool:
    """Return whether the indices are constant and distinct, and each window is a single element."""
    constant = r.evaluated(indices)
    axis = numbers.index_vector_dim
    if constant is None or numbers.update_window_dims or numbers.scatter_indices_batching_dims:
        return False
    vectors = constant.reshape(-1, 1) if axis == constant.ndim else np.moveaxis(constant, axis, -1)
    vectors = vectors.reshape(-1, vectors.shape[-1])
    return len(np.unique(vectors, axis=0)) == len(vectors)


def _pieces(r: Reader, x: int, axes: Sequence[int]) -> int:
    """Merge the axes `axes` of x into a new leading axis; the axes themselves remain, with extent 1."""
    shape = r.spec(x).shape
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    count = int(np.prod([shape[axis] for axis in axes]))
    piece = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    return r.reshape(r.transpose(x, [*axes, *rest]), (count, *piece))
