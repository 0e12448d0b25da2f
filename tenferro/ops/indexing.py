"""Ops that read and write at positions that are data.

Dimension numbers and out-of-bounds behaviour are those of StableHLO. If a window does not fit into the bounds, gather
moves it inside, and scatter ignores it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tenferro.dims import GuardLog, at_least, is_exact
from tenferro.errors import DTypeError, NonStaticShapeError, ShapeError
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import ANY, COMPLEX, INTEGERS, require_dtype
from tenferro.rules.payload import as_bool, as_choice, as_dims, as_int, as_ints, distinct_axes
from tenferro.rules.shapes import same_extent
from tenferro.types import DType, TensorSpec

__all__ = [
    "CARDS",
    "COMBINERS",
    "DynamicSlice",
    "DynamicUpdateSlice",
    "Gather",
    "GatherDynamicSliceSizes",
    "Scatter",
]


@card
class GatherRule(StdTensorOp):
    """Base class of `Gather` and `GatherDynamicSliceSizes`. It contains the shape rule that both share."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...]
    start_indices_batching_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    slice_sizes: tuple[Any, ...]
    indices_are_sorted: bool = False

    def __post_init__(self) -> None:
        for name in (
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
        ):
            normalize(self, **{name: as_ints(self.name, name, getattr(self, name), 0)})
            distinct_axes(self.name, name, getattr(self, name))
        normalize(
            self,
            index_vector_dim=as_int(self.name, "index_vector_dim", self.index_vector_dim, 0),
            slice_sizes=as_dims(self.name, "slice_sizes", self.slice_sizes),
            indices_are_sorted=as_bool(self.name, "indices_are_sorted", self.indices_are_sorted),
        )

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, indices = inputs
        name = self.name
        require_dtype(name, "indices", indices.dtype, INTEGERS)
        rank = x.rank
        dropped = self.collapsed_slice_dims + self.operand_batching_dims
        distinct_axes(name, "collapsed_slice_dims and operand_batching_dims", dropped, rank)
        distinct_axes(
            name,
            "start_index_map and operand_batching_dims",
            self.start_index_map + self.operand_batching_dims,
            rank,
        )
        if self.index_vector_dim > indices.rank:
            raise ShapeError(
                f"{name}: index_vector_dim {self.index_vector_dim} is beyond indices {indices}"
            )
        require_index_vector(
            name, indices, self.index_vector_dim, len(self.start_index_map), guards
        )
        if len(self.slice_sizes) != rank:
            raise ShapeError(f"{name}: slice_sizes {self.slice_sizes} must cover each axis of {x}")
        if len(self.operand_batching_dims) != len(self.start_indices_batching_dims):
            raise ShapeError(
                f"{name}: batching axes must pair up, got {self.operand_batching_dims} and "
                f"{self.start_indices_batching_dims}"
            )
        distinct_axes(
            name, "start_indices_batching_dims", self.start_indices_batching_dims, indices.rank
        )
        if self.index_vector_dim in self.start_indices_batching_dims:
            raise ShapeError(f"{name}: index_vector_dim {self.index_vector_dim} is a batching axis")
        sizes = self.resolved("slice_sizes", (x.shape, indices.shape))
        for axis, (size, extent) in enumerate(zip(sizes, x.shape, strict=True)):
            if axis in self.operand_batching_dims and size in (0, 1):
                continue  # an empty batch axis has no window that could be out of bounds
            decided = at_least(extent, size)
            if decided is False:
                raise ShapeError(f"{name}: slice size {size} exceeds axis {axis} of {x}")
            if decided is None:
                guards.require(extent, ">=", size, f"{name}: axis {axis}")
            if axis in dropped and size not in (0, 1):
                raise ShapeError(
                    f"{name}: slice size of the dropped axis {axis} must be 1, got {size}"
                )
        for a, b in zip(self.operand_batching_dims, self.start_indices_batching_dims, strict=True):
            what = f"batching axis {a} of {x} and axis {b} of indices {indices}"
            same_extent(name, what, x.shape[a], indices.shape[b], guards)
        batch = [n for axis, n in enumerate(indices.shape) if axis != self.index_vector_dim]
        window = [size for axis, size in enumerate(sizes) if axis not in dropped]
        total = len(batch) + len(window)
        if len(self.offset_dims) != len(window):
            raise ShapeError(
                f"{name}: offset_dims {self.offset_dims} must place {len(window)} window axes"
            )
        distinct_axes(name, "offset_dims", self.offset_dims, total)
        places = dict(zip(sorted(self.offset_dims), window, strict=True))
        rest = iter(batch)
        shape = tuple(places[axis] if axis in places else next(rest) for axis in range(total))
        return (TensorSpec.of(shape, x.dtype),)


class Gather(GatherRule):
    """Windows of x at the positions in `indices`. Each start is clamped so that its window is within bounds.

    The index r of an element of y is split into a batch part and an offset part. The batch part selects an index vector
    from `indices`, along axis `index_vector_dim`. The vector contains the start of a window along the axes
    `start_index_map` of x; the start along other axes is 0. Then y[r] = x[clamp(start) + offset part].

    Shapes:  x, indices -> batch axes of indices, with window axes at `offset_dims`
    Dtypes:  x every dtype; indices every integer dtype
    AD:      linear in x; its transpose scatters with add
    Errors:  ShapeError, AxisError, DTypeError where dimension numbers do not fit
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2


class GatherDynamicSliceSizes(GatherRule):
    """`Gather` with slice sizes that are expressions in the extents of x and indices.

    The sizes are evaluated for the arrays in native execution. For lowering to StableHLO, they must be numbers.

    Shapes:  x, indices -> batch axes of indices, with window axes at `offset_dims`
    Dtypes:  x every dtype; indices every integer dtype
    AD:      linear in x; its transpose scatters with add
    Lowers:  stablehlo.gather
    Errors:  as Gather
    Source:  docs/specification/primitives.md
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 2


COMBINERS = ("add", "multiply", "min", "max", "set")


@card
class Scatter(StdTensorOp):
    """Combine windows of `updates` into x at the positions in `indices`.

    A window that is not completely within bounds is ignored. y starts as a copy of x. The index u of an element of
    `updates` is split into a scatter part and a window part, and start = indices[scatter part] is the position of a
    window. Then y[start + window part] becomes combiner(y[start + window part], updates[u]). On bool, "add" is logical
    or, and "multiply" is logical and. If "set" writes one element several times, native execution keeps the last update
    in row-major order; StableHLO does not define which update remains.

    Shapes:  x S, indices, updates -> S
    Dtypes:  x and updates one of every dtype (min, max: not complex); indices every integer dtype
    AD:      linear in x and updates for "add"; rules for the other combiners
    Lowers:  stablehlo.scatter with a region
    Errors:  ShapeError, AxisError, DTypeError where dimension numbers do not fit; InvalidConfigError
             on another combiner
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    input_batching_dims: tuple[int, ...]
    scatter_indices_batching_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    combiner: str = "add"
    indices_are_sorted: bool = False
    unique_indices: bool = False

    accepts: ClassVar[frozenset[DType]] = ANY
    input_count: ClassVar[Any] = 3

    def __post_init__(self) -> None:
        for name in (
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims",
        ):
            normalize(self, **{name: as_ints("Scatter", name, getattr(self, name), 0)})
            distinct_axes("Scatter", name, getattr(self, name))
        normalize(
            self,
            index_vector_dim=as_int("Scatter", "index_vector_dim", self.index_vector_dim, 0),
            indices_are_sorted=as_bool("Scatter", "indices_are_sorted", self.indices_are_sorted),
            unique_indices=as_bool("Scatter", "unique_indices", self.unique_indices),
        )
        as_choice("Scatter", "combiner", self.combiner, COMBINERS)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, indices, updates = inputs
        require_dtype("Scatter", "indices", indices.dtype, INTEGERS)
        if x.dtype is not updates.dtype:
            raise DTypeError(
                f"Scatter: x and updates must have the same dtype, got {x} and {updates}"
            )
        if self.combiner in ("min", "max"):
            require_dtype("Scatter", "x", x.dtype, ANY - COMPLEX)
        dropped = self.inserted_window_dims + self.input_batching_dims
        distinct_axes("Scatter", "inserted_window_dims and input_batching_dims", dropped, x.rank)
        distinct_axes(
            "Scatter",
            "scatter_dims_to_operand_dims and input_batching_dims",
            self.scatter_dims_to_operand_dims + self.input_batching_dims,
            x.rank,
        )
        distinct_axes("Scatter", "update_window_dims", self.update_window_dims, updates.rank)
        distinct_axes(
            "Scatter",
            "scatter_indices_batching_dims",
            self.scatter_indices_batching_dims,
            indices.rank,
        )
        if self.index_vector_dim > indices.rank:
            raise ShapeError(
                f"Scatter: index_vector_dim {self.index_vector_dim} is beyond indices {indices}"
            )
        require_index_vector(
            "Scatter",
            indices,
            self.index_vector_dim,
            len(self.scatter_dims_to_operand_dims),
            guards,
        )
        if len(self.input_batching_dims) != len(self.scatter_indices_batching_dims):
            raise ShapeError(
                f"Scatter: batching axes must pair up, got {self.input_batching_dims} and "
                f"{self.scatter_indices_batching_dims}"
            )
        for a, b in zip(self.input_batching_dims, self.scatter_indices_batching_dims, strict=True):
            what = f"batching axis {a} of {x} and axis {b} of indices {indices}"
            same_extent("Scatter", what, x.shape[a], indices.shape[b], guards)
        window = [axis for axis in range(x.rank) if axis not in dropped]
        if len(window) != len(self.update_window_dims):
            raise ShapeError(
                f"Scatter: update_window_dims {self.update_window_dims} must place "
                f"{len(window)} window axes"
            )
        for axis, update_axis in zip(window, sorted(self.update_window_dims), strict=True):
            decided = at_least(x.shape[axis], updates.shape[update_axis])
            if decided is False:
                raise ShapeError(
                    f"Scatter: window axis {update_axis} of updates {updates} exceeds axis {axis} of {x}"
                )
            if decided is None:
                guards.require(
                    x.shape[axis], ">=", updates.shape[update_axis], f"Scatter: axis {axis}"
                )
        scattered = [
            axis for axis in range(updates.rank) if axis not in set(self.update_window_dims)
        ]
        batch = [n for axis, n in enumerate(indices.shape) if axis != self.index_vector_dim]
        if len(scattered) != len(batch):
            raise ShapeError(
                f"Scatter: updates {updates} must have {len(batch)} axes besides its windows"
            )
        for axis, extent in zip(scattered, batch, strict=True):
            what = f"axis {axis} of updates {updates} and its axis of indices {indices}"
            same_extent("Scatter", what, updates.shape[axis], extent, guards)
        return (x,)


def require_index_vector(
    op: str, indices: TensorSpec, axis: int, count: int, guards: GuardLog
) -> None:
    """Require that the axis `index_vector_dim` has the extent of an index vector.

    If `axis` equals the rank of `indices`, its extent counts as 1.
    """
    extent = 1 if axis == indices.rank else indices.shape[axis]
    what = f"the extent of indices {indices} along index_vector_dim {axis} and the index map"
    same_extent(op, what, extent, count, guards)


@card
class DynamicSlice(StdTensorOp):
    """Read a window of x at a position that is an operand: y[i] = x[start + i].

    Each start is clamped so that the window is within bounds.

    Shapes:  x of rank r, r starts of shape [] -> `sizes`
    Dtypes:  x every dtype; starts one integer dtype
    AD:      linear in x; its transpose is DynamicUpdateSlice into zeros
    Errors:  ShapeError unless sizes fit x and starts are scalars, one per axis
    """

    sizes: tuple[Any, ...]

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, sizes=as_dims("DynamicSlice", "sizes", self.sizes))

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of operands: x, and one start per axis."""
        return 1 + len(self.sizes)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, *starts = inputs
        if x.rank != len(self.sizes):
            raise ShapeError(f"DynamicSlice: sizes {self.sizes} must cover each axis of {x}")
        sizes = self.resolved("sizes", (x.shape,))
        require_starts("DynamicSlice", starts)
        for axis, (size, extent) in enumerate(zip(sizes, x.shape, strict=True)):
            require_window("DynamicSlice", "sizes", axis, size, extent, x, guards)
        return (TensorSpec.of(sizes, x.dtype),)


@card
class DynamicUpdateSlice(StdTensorOp):
    """Write a window at a position that is an operand: y is x, except that y[start + i] = update[i].

    Each start is clamped so that the window is within bounds.

    Shapes:  x S of `rank`, update within S, `rank` starts of shape [] -> S
    Dtypes:  x and update one of every dtype; starts one integer dtype
    AD:      linear in x and update
    Errors:  ShapeError unless update fits x and starts are scalars, one per axis
    """

    rank: int

    accepts: ClassVar[frozenset[DType]] = ANY

    def __post_init__(self) -> None:
        normalize(self, rank=as_int("DynamicUpdateSlice", "rank", self.rank, 0))

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of operands: x, the update, and one start per axis."""
        return 2 + self.rank

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, update, *starts = inputs
        if x.dtype is not update.dtype:
            raise DTypeError(
                f"DynamicUpdateSlice: x and update must have the same dtype, got {x} and {update}"
            )
        if x.rank != self.rank or update.rank != self.rank:
            raise ShapeError(
                f"DynamicUpdateSlice: x and update must have rank {self.rank}, got {x} and {update}"
            )
        require_starts("DynamicUpdateSlice", starts)
        for axis, (size, extent) in enumerate(zip(update.shape, x.shape, strict=True)):
            require_window("DynamicUpdateSlice", "update", axis, size, extent, x, guards)
        return (x,)


def require_starts(op: str, starts: list[TensorSpec]) -> None:
    """Require that starts are integer scalars of one dtype."""
    for index, start in enumerate(starts):
        require_dtype(op, f"start {index}", start.dtype, INTEGERS)
        if start.rank:
            raise ShapeError(f"{op}: start {index} must have rank 0, got {start}")
        if start.dtype is not starts[0].dtype:
            raise DTypeError(
                f"{op}: starts must have one dtype, got {starts[0].dtype} and {start.dtype}"
            )


def require_window(
    op: str, role: str, axis: int, size: Any, extent: Any, x: TensorSpec, guards: GuardLog
) -> None:
    """Require that the size of a window is at most the extent of the axis along which it moves."""
    if not is_exact(size) or not is_exact(extent):
        raise NonStaticShapeError(f"{op}: the extent of axis {axis} of {x} depends on the data")
    decided = at_least(extent, size)
    if decided is False:
        raise ShapeError(f"{op}: {role} has extent {size} on axis {axis}, more than {x} has")
    if decided is None:
        guards.require(extent, ">=", size, f"{op}: axis {axis}")


CARDS = (Gather, GatherDynamicSliceSizes, Scatter, DynamicSlice, DynamicUpdateSlice)
