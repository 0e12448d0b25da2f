"""Named axes of `vmap`: reductions over all slices of a batch, computed from within one slice.

`vmap` traces its function on one slice and batches the trace. A reduction over a named axis batches the part of the
trace that its operand needs, and reduces the leading axis. The trace continues with a tensor that all slices share.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from tenferro.ad import AdContext
from tenferro.ad.batch import batch_all
from tenferro.api.tensor import TracedTensor, value_in
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.graph import BodyBuilder, GraphBuilder
from tenferro.types import TensorSpec

__all__ = ["NamedAxis", "all_slices", "differentiating", "named_axis", "slice_of", "under_axis"]


@dataclass(frozen=True, eq=False)
class NamedAxis:
    """A `vmap` that is being traced.

    Attributes:
        name: its axis_name; None for one without.
        size: the number of slices.
        builder: the builder of the trace, whose first instruction of the slice is `start`.
        batched: the value of all slices, for each value that stands for one slice.
        is_differentiated: whether a derivative was started inside.
    """

    name: Hashable
    size: Any
    builder: GraphBuilder
    start: int
    batched: dict[int, int]
    context: AdContext
    is_differentiated: bool = False


_AXES: ContextVar[tuple[NamedAxis, ...]] = ContextVar("tenferro_named_axes", default=())


@contextmanager
def under_axis(axis: NamedAxis) -> Generator[None]:
    """Make this the innermost `vmap` while the body runs.

    Raises:
        InvalidConfigError: an outer one has the same name.
    """
    axes = _AXES.get()
    if axis.name is not None and any([outer.name == axis.name for outer in axes]):
        raise InvalidConfigError(f"vmap: axis_name {axis.name!r} is that of an outer vmap too")
    token = _AXES.set((*axes, axis))
    try:
        yield
    finally:
        _AXES.reset(token)


@contextmanager
def differentiating() -> Generator[None]:
    """Record, while the body runs, that a function is traced for its derivative."""
    axes = _AXES.get()
    if not axes:
        yield
        return
    token = _AXES.set(tuple([replace(axis, is_differentiated=True) for axis in axes]))
    try:
        yield
    finally:
        _AXES.reset(token)


def named_axis(name: str, axis_name: Hashable) -> NamedAxis:
    """Return the `vmap` of this axis_name.

    Raises:
        InvalidConfigError: no such axis.
    """
    axes = _AXES.get()
    for axis in reversed(axes):
        if axis.name is not None and axis.name == axis_name:
            return axis
    names = ", ".join([repr(axis.name) for axis in axes if axis.name is not None])
    raise InvalidConfigError(
        f"{name}: no vmap(.., axis_name={axis_name!r}) is under way; "
        f"{f'there are {names}' if names else 'there is none with a name'}"
    )


def _require_same_trace(name: str, axis: NamedAxis, builder: GraphBuilder | None) -> None:
    if isinstance(builder, BodyBuilder) or (
        builder is not None and builder.graph is not axis.builder.graph
    ):
        raise UnsupportedError(
            f"{name}: axis {axis.name!r} is that of a vmap around a loop or branch, whose body is a program of its "
            "own; use it before or after the loop, or vmap inside of the body"
        )
    if axis.is_differentiated:
        raise UnsupportedError(
            f"{name}: axis {axis.name!r} is that of a vmap around a derivative, which would hold other slices fixed; "
            "differentiate the function that vmap gives, or apply it to the derivative"
        )


def all_slices(
    name: str, axis: NamedAxis, tensor: Any, builder: GraphBuilder | None
) -> TracedTensor:
    """Convert a tensor per slice, with a leading axis, to one tensor for all slices of the axis.

    Inside nested maps, the values belong to the same slices of the inner maps.

    Raises:
        UnsupportedError: inside a loop, a branch or a derivative within the map.
    """
    _require_same_trace(name, axis, builder)
    graph = axis.builder.graph
    value = value_in(axis.builder, tensor)
    axes = _AXES.get()
    place = max([i for i, each in enumerate(axes) if each.batched is axis.batched])
    inner = axes[place + 1 :]
    for each in reversed(inner):
        value = _batched(each, value)
    value = _batched(axis, value)
    if not inner:
        return TracedTensor(axis.builder, value)
    # The leading axes are now this axis, which was batched last, and the inner axes, outermost first.
    from tenferro.api.manipulation import moveaxis

    moved: Any = moveaxis(TracedTensor(axis.builder, value), 0, len(inner))
    value = moved.value
    for each in inner:
        value = slice_of(each, value)
    assert graph.types[value].shape[0] == axis.size
    return TracedTensor(axis.builder, value)


def _batched(axis: NamedAxis, value: int) -> int:
    emitter = axis.context.emitter(axis.builder.graph)
    (result,) = batch_all(emitter, axis.start, axis.batched, [value], axis.size)
    return result


def slice_of(axis: NamedAxis, value: int) -> int:
    """Return a placeholder for a slice of a value along its leading axis."""
    graph = axis.builder.graph
    spec = graph.types[value]
    one = graph.add_stand_in(TensorSpec.of(spec.shape[1:], spec.dtype))
    axis.batched[one] = value
    return one


def axis_names(name: str, axis_name: Hashable) -> Sequence[Any]:
    """Return one name, or several from a tuple or list, as a list."""
    names = list(axis_name) if isinstance(axis_name, tuple | list) else [axis_name]
    if not names:
        raise InvalidConfigError(f"{name}: axis_name is empty")
    return names
