"""Named axes of `vmap`: reductions over all slices of a batch, computed from within one slice.

`vmap` traces its function on one slice, and then batches the trace. A reduction over a named axis needs all slices
before that. So it batches the part of the trace that computes its operand, and reduces the leading axis. The trace
continues with the result, which all slices share.
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
    """Call of `vmap` whose function is being traced on one slice.

    Attributes:
        name: the argument `axis_name` of the `vmap`, or None.
        size: the number of slices.
        builder: the builder of the trace.
        start: the number of instructions in the graph before the function was traced.
        batched: a map from each graph value that stands for one slice to the value that contains all slices.
        context: the rules by which the trace is batched.
        is_differentiated: whether a derivative inside of the `vmap` is being traced.
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
    """Make `axis` the innermost named axis while the body runs.

    Raises:
        InvalidConfigError: an outer `vmap` has the same axis name.
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
    """Mark all current `vmap`s as differentiated in the `with` block, which traces a function for its derivative."""
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
    """Return the innermost current `vmap` whose axis name is `axis_name`.

    Raises:
        InvalidConfigError: no current `vmap` has this axis name.
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
    """Return all slices, stacked along axis 0, of a tensor that stands for one slice of `axis`.

    If other `vmap`s are nested inside the `vmap` of `axis`, the result still stands for one slice of the inner `vmap`s.

    Raises:
        UnsupportedError: the call is in a loop, a branch or a derivative inside the `vmap` of the axis.
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
    # The leading axes are now `axis`, which was batched last, and then the inner axes, outermost first. Move `axis`
    # behind the inner axes, and replace each inner axis by a placeholder for one slice.
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
    """Return a new graph value that stands for one slice of `value` along its leading axis."""
    graph = axis.builder.graph
    spec = graph.types[value]
    one = graph.add_stand_in(TensorSpec.of(spec.shape[1:], spec.dtype))
    axis.batched[one] = value
    return one


def axis_names(name: str, axis_name: Hashable) -> Sequence[Any]:
    """Return the axis names as a list; `axis_name` is one name, or a tuple or list of names."""
    names = list(axis_name) if isinstance(axis_name, tuple | list) else [axis_name]
    if not names:
        raise InvalidConfigError(f"{name}: axis_name is empty")
    return names
