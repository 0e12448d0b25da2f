"""`vmap`: the transform of a function of one slice into a function of a batch of slices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from tenferro.ad import AdContext, batch_some
from tenferro.api.axes import normalize_axis
from tenferro.api.compile import name_of, output_value
from tenferro.api.manipulation import moveaxis
from tenferro.api.named_axes import NamedAxis, under_axis
from tenferro.api.pickling import reduced
from tenferro.api.stage import noted_run, noting_runtime
from tenferro.api.tensor import TracedTensor, tracing, value_in
from tenferro.api.written_files import traceable
from tenferro.dims import SymDim
from tenferro.dispatch import as_operand, spec_of
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import (
    ArityError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
    UnsupportedError,
)
from tenferro.graph import ArgumentBuilder, Graph, GraphBuilder, line_of
from tenferro.program import BoundedCache, CacheStats, Executor, GraphProgram, native_executor
from tenferro.rules.payload import as_int
from tenferro.tracebacks import public_methods
from tenferro.types import (
    PyTree,
    Tensor,
    TensorSpec,
    TreeDef,
    flatten,
    leaf_paths,
    prefix_leaves,
    unflatten,
)

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")


def vmap(
    fn: Callable[P, R],
    in_axes: PyTree = 0,
    out_axes: PyTree = 0,
    *,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    cache_size: int = 256,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Callable[P, R]:
    """Map `fn` over a batch. Result i is the result of `fn` for slice i. All slices are computed at once.

    Args:
        in_axes: the batch axis of each argument, or None for an argument that all slices share. A number is for all
            arguments. A tuple has one entry per argument, which may be a tree that is a prefix of the argument's tree.
        out_axes: the batch axis of each result, as a number, or as a tree that is a prefix of the result. None means
            that the result does not depend on the slice, and is returned once.
        axis_name: a name of the axis, for `tnf.lax.psum`, `pmean`, `pmax`, `all_gather` and `axis_index` in `fn`.
        axis_size: the size of the batch, which must equal that of the batched arguments.
        cache_size: the maximum number of cached programs. The least recently used program is dropped first. Each call
            traces `fn`, and equal graphs share a program. `jit(vmap(fn))` traces `fn` only once.
        context: batch rules of extension families, which replace the families' default rules.
        executor: the executor that runs the program on arrays. The default is native. In a trace, the executor of the
            outer program runs it.

    Raises:
        ShapeError: the batches have different sizes, or an axis does not exist.
        InvalidConfigError: no argument has a batch axis, and `axis_size` is None; an axis is neither a number nor None;
            or `out_axes` is None for a result that differs between slices.
        UnsupportedError: an op has no batch rule for its operands.

    >>> import numpy as np
    >>> vmap(lambda x, y: x @ y)(np.arange(6.0).reshape(2, 3), np.ones((2, 3)))
    array([ 3., 12.])
    >>> import tenferro as tnf
    >>> vmap(lambda x: x / tnf.lax.psum(x, "batch"), axis_name="batch")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    >>> vmap(lambda x, y: x + y, in_axes=(1, None))(np.ones((2, 3)), np.arange(2.0)).shape
    (3, 2)
    """
    if not callable(fn):
        raise InvalidConfigError(f"vmap: expected a function, got {fn!r:.60}")
    if axis_size is not None:
        axis_size = as_int("vmap", "axis_size", axis_size, 0)
    return cast(
        "Any", _Mapped(fn, in_axes, out_axes, axis_name, axis_size, cache_size, context, executor)
    )


@public_methods
class _Mapped:
    """Callable that `vmap` returns. It has a cache of its batched programs."""

    def __init__(
        self,
        fn: Callable[..., Any],
        in_axes: PyTree,
        out_axes: PyTree,
        axis_name: Hashable,
        axis_size: int | None,
        cache_size: int,
        context: AdContext | None,
        executor: Executor | None,
    ) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._in_axes = in_axes
        self._out_axes = out_axes
        self._name = getattr(fn, "__name__", "vmap")
        self._has_own_context = context is None
        self._context = AdContext() if context is None else context
        self._executor = executor
        self._axis_name = axis_name
        self._axis_size = axis_size
        self._cache_size = cache_size
        self._programs: BoundedCache[GraphProgram] = BoundedCache(cache_size)

    def __reduce__(self) -> Any:
        """Pickle the global name, or else the function and its options. Programs are traced again after loading.

        Raises:
            InvalidConfigError: `vmap` was called with a context, which cannot be pickled.
        """
        if not self._has_own_context:
            raise InvalidConfigError(
                f"{self.shown} has the AdContext that it was given, which is not pickled; pickle the function, "
                "and call vmap with a context where it is loaded"
            )
        return reduced(
            self,
            vmap,
            self._fn,
            self._in_axes,
            self._out_axes,
            axis_name=self._axis_name,
            axis_size=self._axis_size,
            cache_size=self._cache_size,
            executor=self._executor,
        )

    @property
    def shown(self) -> str:
        """The name of the transform and of the function."""
        return f"vmap of {name_of(self._fn)}"

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    def __call__(self, *args: Any) -> Any:
        leaves, tree = flatten(args)
        operands = [as_operand(leaf) for leaf in leaves]
        axes = _prefix("in_axes", self._in_axes, args)
        names = leaf_paths(args)
        axes = [
            None if axis is None else normalize_axis("vmap", axis, len(x.shape))
            for axis, x in zip(axes, operands, strict=True)
        ]
        size = _size(operands, axes, names, self._axis_size)
        moved = [
            x if axis in (None, 0) else moveaxis(x, axis, 0)
            for x, axis in zip(operands, axes, strict=True)
        ]
        specs = [
            spec if axis is None else TensorSpec.of(spec.shape[1:], spec.dtype)
            for spec, axis in zip(map(spec_of, moved), axes, strict=True)
        ]
        builder = current_builder() or next(
            (x.builder for x in moved if isinstance(x, TracedTensor)), None
        )
        if builder is not None:
            return self._placed(self._written(builder, moved, specs, axes, tree, size))
        return self._placed(self._run(moved, specs, axes, tree, size))

    def _run(
        self,
        moved: Sequence[Any],
        specs: Sequence[Any],
        axes: Sequence[Any],
        tree: TreeDef,
        size: int | SymDim,
    ) -> Any:
        """Trace the function on arrays, and run the batched program.

        Every call traces the function again, because captured values may have changed. Equal traces share a program.
        """
        builder = ArgumentBuilder(Graph())
        builder.caches = self._context.extension_caches
        graph = builder.graph
        inputs = [graph.add_input(spec_of(x)) for x in moved]
        tensors = [TracedTensor(builder, value) for value in inputs]
        try:
            result = self._written(builder, tensors, specs, axes, tree, size)
        except TenferroError as error:
            error.at(line_of(error.__traceback__))
            raise
        leaves, out_tree = flatten(result)
        outputs = [leaf.value for leaf in leaves]
        arguments = dict(zip(inputs, moved, strict=True)) | dict(builder.arguments.values())
        runtime = noting_runtime(graph, list(arguments.values()))
        if runtime is not None:
            if self._executor is not None:
                raise UnsupportedError(
                    "vmap: runs on the executor that was passed, which records nothing for backward; give it x.detach(), "
                    "or leave the executor out"
                )
            return unflatten(out_tree, noted_run(runtime, graph, arguments, outputs))

        outputs = graph.after_effects(outputs)
        program = GraphProgram.from_graph(graph, outputs, inputs=list(arguments), name=self._name)
        key = (program.instructions, program.types, program.output_slots)
        cached = self._programs.get(key, lambda: program)
        executor = self._executor or native_executor()
        return unflatten(out_tree, executor.run(cached, *arguments.values()))

    def _written(
        self,
        builder: GraphBuilder,
        moved: Sequence[Any],
        specs: Sequence[Any],
        axes: Sequence[Any],
        tree: TreeDef,
        size: int | SymDim,
    ) -> Any:
        """Trace `fn` on one slice, and batch the trace."""
        graph = builder.graph
        start, first = len(graph), len(graph.types)
        slices = [
            x if axis is None else TracedTensor(builder, graph.add_stand_in(spec))
            for x, spec, axis in zip(moved, specs, axes, strict=True)
        ]
        batched_values = {
            one.value: value_in(builder, x)
            for one, x, axis in zip(slices, moved, axes, strict=True)
            if axis is not None
        }
        axis = NamedAxis(self._axis_name, size, builder, start, batched_values, self._context)
        with tracing(builder), under_axis(axis):
            result = traceable(self._fn)(*unflatten(tree, slices))
        leaves, out_tree = flatten(result)
        outputs = [
            output_value(builder, leaf, path)
            for leaf, path in zip(leaves, leaf_paths(result), strict=True)
        ]
        out_axes = _prefix("out_axes", self._out_axes, result)
        effects = [value for value in graph.effects if value >= first]
        batched_outputs, has_batch = batch_some(
            self._context.emitter(graph),
            start,
            batched_values,
            [*outputs, *effects],
            size,
            [*[axis is not None for axis in out_axes], *[True] * len(effects)],
        )
        for axis, has, path in zip(out_axes, has_batch, leaf_paths(result), strict=False):
            if axis is None and has:
                raise InvalidConfigError(
                    f"vmap: result {path or 'of the function'} differs from slice to slice, and out_axes has None "
                    "for it"
                )
        # The effects of one slice, such as prints, are replaced by their batched versions.
        rest = [value for value in graph.effects if value not in effects]
        graph.effects = list(dict.fromkeys([*rest, *batched_outputs[len(outputs) :]]))
        batched_outputs = batched_outputs[: len(outputs)]
        return unflatten(out_tree, [TracedTensor(builder, value) for value in batched_outputs])

    def _placed(self, result: Tensor) -> Any:
        if self._out_axes == 0:
            return result
        leaves, tree = flatten(result)
        axes = _prefix("out_axes", self._out_axes, result)
        return unflatten(
            tree,
            [
                y if axis is None else moveaxis(y, 0, axis)
                for y, axis in zip(leaves, axes, strict=True)
            ],
        )

    def cache_stats(self) -> CacheStats:
        """Return the hits, misses and entries of the cache of batched programs."""
        return self._programs.stats()

    def cache_clear(self) -> None:
        """Empty the cache of batched programs."""
        self._programs.clear()


def _prefix(name: str, prefix: PyTree, full: PyTree) -> list[Any]:
    """Expand `in_axes` or `out_axes`, which is a prefix of a tree, to one axis for each leaf of the tree."""
    prefix = tuple(prefix) if isinstance(prefix, list) else prefix
    try:
        axes = prefix_leaves(prefix, full)
    except ValueError as error:
        raise ArityError(f"vmap: {name} {prefix!r} is not a prefix of the tree: {error}") from None
    for axis in axes:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int)):
            raise InvalidConfigError(f"vmap: {name} must be numbers or None, got {axis!r}")
    return axes


def _size(operands: list[Any], axes: list[Any], names: list[str], axis_size: int | None) -> Any:
    sizes = {
        name: x.shape[axis]
        for x, axis, name in zip(operands, axes, names, strict=True)
        if axis is not None
    }
    if axis_size is not None:
        sizes["axis_size"] = axis_size
    if not sizes:
        raise InvalidConfigError(
            "vmap: no argument has an axis to map over; in_axes has None alone, and there is no axis_size"
        )
    first = next(iter(sizes.values()))
    if any(size != first for size in sizes.values()):
        raise ShapeError(f"vmap: the batches have different sizes: {sizes}")
    return first
