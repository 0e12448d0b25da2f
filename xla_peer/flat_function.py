"""`FlatFunction`, a JAX function of arrays with its native program, and the functions that JAX derives from it.

JAX's transformations treat a native function as one primitive, like a program (see `jax_primitive`). The function's
tangents, transpose and batched version are again JAX functions, so all of JAX's rules apply. Each of these functions
runs natively: directly on arrays, and through a callback in a module that JAX compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tenferro.program import BoundedCache, CacheStats, GraphProgram
from tenferro.types import TensorSpec
from xla_peer import pjrt
from xla_peer.from_jax import from_jitted, in_dtypes_of

__all__ = ["FlatFunction", "NativeOwner"]


class FlatFunction:
    """A JAX function from arrays to a list of arrays.

    Args:
        fn: the JAX function.
        avals: the type of each argument, a `jax.ShapeDtypeStruct` or a `TensorSpec`.
        name: the name of the function in prints of the program.
        primal: for a function that `NativeOwner.tangents` returned, a pair of the original function and a flag per
            argument, true if the argument has a tangent. Else None.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        avals: Sequence[Any],
        name: str,
        primal: tuple[FlatFunction, tuple[bool, ...]] | None = None,
    ) -> None:
        jax, _ = pjrt.modules()
        fn.__name__ = name
        self.fn = jax.jit(fn, keep_unused=True)
        self.avals = tuple(avals)
        self.name = name
        self.primal = primal

    def __repr__(self) -> str:
        return f"<FlatFunction {self.name}: {len(self.avals)} arguments>"

    def with_captured(self) -> tuple[FlatFunction, tuple[Any, ...]]:
        """Return the function with the tracers in its closure as additional leading arguments, and these tracers.

        The closure contains tracers if the function is defined inside a function that JAX transforms. A tracer of
        random keys is replaced by the tracer of their data.
        """
        from jax.extend.core import ClosedJaxpr, jaxpr_as_fun  # because it is slow to import

        jax, _ = pjrt.modules()
        if any([isinstance(x, TensorSpec) for x in self.avals]):
            return self, ()
        with in_dtypes_of(self.avals):
            closed = jax.make_jaxpr(self.fn)(*self.avals)
        is_captured = [isinstance(x, jax.core.Tracer) for x in closed.consts]
        captured = _chosen(closed.consts, is_captured)
        if not captured:
            return self, ()

        def fn(*operands: Any) -> list[Any]:
            free = iter(operands)
            constants = [
                _like(x, next(free)) if here else x
                for x, here in zip(closed.consts, is_captured, strict=True)
            ]
            return jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, constants))(*free)

        captured = [jax.random.key_data(x) if _is_key(x) else x for x in captured]
        types = [
            jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=jax.typeof(x).weak_type)
            for x in captured
        ]
        return FlatFunction(fn, [*types, *self.avals], self.name), tuple(captured)

    @cached_property
    def program(self) -> GraphProgram:
        """The native program, which takes and returns a tuple of arrays; it does not keep JAX's derivative rules.

        Raises:
            UnsupportedError: an operation of JAX has no counterpart in tenferro.
        """
        return from_jitted(self.fn, *self.avals, keeps_rules=False)

    @cached_property
    def differentiable(self) -> GraphProgram:
        """The native program with JAX's derivative rules, for traces of tenferro."""
        return from_jitted(self.fn, *self.avals)

    @cached_property
    def results(self) -> list[Any]:
        """The types of the results, as JAX's shapes and dtypes."""
        jax, _ = pjrt.modules()
        with in_dtypes_of(self.avals):
            return list(jax.eval_shape(self.fn, *self.avals))

    @cached_property
    def is_weak(self) -> tuple[bool, ...]:
        """Flag for each result that is true if the result is weakly typed; with symbolic extents, all are false."""
        if any([isinstance(x, TensorSpec) for x in self.avals]):
            return (False,) * len(self.program.output_slots)
        return tuple([y.weak_type for y in self.results])


class NativeOwner:
    """Owner of native functions in JAX's traces: it runs them, and caches the functions that JAX derives from them."""

    def __init__(self, run: Callable[[GraphProgram, Sequence[Any]], Any]) -> None:
        self._run = run
        self._derived: BoundedCache[Any] = BoundedCache(256)

    def cache_stats(self) -> CacheStats:
        """Return the statistics of the cache of derived functions."""
        return self._derived.stats()

    def cache_clear(self) -> None:
        """Forget every derived function."""
        self._derived.clear()

    # ---- interface of the primitive -------------------------------------------------------------

    def output_types(self, function: FlatFunction) -> list[Any]:
        """Return the types of the function's results as JAX's abstract values."""
        jax, _ = pjrt.modules()
        return [
            jax.core.ShapedArray(y.shape, y.dtype, weak_type=y.weak_type) for y in function.results
        ]

    def evaluate(self, function: FlatFunction, leaves: Sequence[Any]) -> list[Any]:
        """Run the native program on arrays, and return the results as JAX arrays."""
        jax, _ = pjrt.modules()
        types = zip(leaves, function.avals, strict=True)
        arrays = [np.asarray(leaf, aval.dtype) for leaf, aval in types]
        with in_dtypes_of(function.avals):
            results = [jax.numpy.asarray(y) for y in self._run(function.program, arrays)]
            return pjrt.weakly_typed(results, function.is_weak)

    def lower(self, context: Any, function: FlatFunction, operands: Sequence[Any]) -> Any:
        """Add to the module that JAX is lowering a callback, which runs the program natively."""
        program = function.program  # computed here, because a callback must not trace

        def run(*arrays: Any) -> tuple[Any, ...]:
            return tuple(map(np.asarray, self._run(program, list(map(np.asarray, arrays)))))

        return pjrt.emit_callback(context, run, operands)

    def tangents(self, function: FlatFunction, active: tuple[bool, ...]) -> FlatFunction:
        """Return a function that computes the tangents of the float outputs.

        Its arguments are all inputs, followed by a tangent for each input that `active` flags.
        """
        jax, _ = pjrt.modules()

        def fn(*operands: Any) -> list[Any]:
            xs, dots = list(operands[: len(active)]), operands[len(active) :]
            chosen = [x for x, here in zip(xs, active, strict=True) if here]
            return jax.jvp(self._of_active(function, active, xs), chosen, list(dots))[1]

        avals = [*function.avals, *_chosen(function.avals, active)]
        name = f"jvp_{function.name}"
        return self._derived.get(
            ("tangents", function, active),
            lambda: FlatFunction(fn, avals, name, (function, active)),
        )

    def _of_active(
        self, function: FlatFunction, active: Sequence[bool], xs: Sequence[Any]
    ) -> Callable[..., list[Any]]:
        """Return the float outputs as a function of the active arguments; the other arguments are fixed to `xs`."""

        def fn(*chosen: Any) -> list[Any]:
            free = iter(chosen)
            ys = function.fn(
                *[next(free) if here else x for x, here in zip(xs, active, strict=True)]
            )
            return [y for y in ys if _is_inexact(y.dtype)]

        return fn

    def transposed(
        self, function: FlatFunction, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
    ) -> FlatFunction:
        """Return a function that computes cotangents of the inputs that `linear` flags.

        Its arguments are the other inputs, followed by cotangents of the outputs that `nonzero` flags.
        """
        jax, _ = pjrt.modules()
        unknown = _chosen(function.avals, linear)

        def fn(*operands: Any) -> list[Any]:
            fixed = iter(operands)
            xs = [None if here else next(fixed) for here in linear]
            bars = iter(fixed)
            y_bars = [
                next(bars) if here else jax.numpy.zeros(y.shape, y.dtype)
                for y, here in zip(function.results, nonzero, strict=True)
            ]
            return list(pull(xs, y_bars))

        def pull(xs: list[Any], y_bars: list[Any]) -> Sequence[Any]:
            def of_linear(*chosen: Any) -> Any:
                free = iter(chosen)
                return function.fn(*[next(free) if x is None else x for x in xs])

            return jax.linear_transpose(of_linear, *unknown)(y_bars)

        def pull_tangents(xs: list[Any], y_bars: list[Any]) -> Sequence[Any]:
            primal, active = function.primal  # pyright: ignore[reportGeneralTypeIssues]  # because it has one
            count = len(primal.avals)
            of_active = self._of_active(primal, active, xs[:count])
            chosen = [x for x, here in zip(xs, active, strict=False) if here]
            x_bars = jax.vjp(of_active, *chosen)[1](y_bars)
            return [x_bar for x_bar, here in zip(x_bars, linear[count:], strict=True) if here]

        if function.primal is not None and not any(linear[: len(function.primal[0].avals)]):
            pull = pull_tangents  # the pullback may have a rule even if the transpose has none
        known = _chosen(function.avals, [not here for here in linear])
        avals = [*known, *_chosen(function.results, nonzero)]
        return self._derived.get(
            ("transposed", function, linear, nonzero),
            lambda: FlatFunction(fn, avals, f"transpose_{function.name}"),
        )

    def batched(
        self, function: FlatFunction, mask: tuple[bool, ...], size: int
    ) -> tuple[FlatFunction, Sequence[int | None]]:
        """Return the function that computes `size` slices at once, and the axis of slices of each result.

        `mask` marks the batched arguments.
        """
        jax, _ = pjrt.modules()
        axes = [0 if here else None for here in mask]
        avals = [
            jax.ShapeDtypeStruct((size, *x.shape), x.dtype, weak_type=x.weak_type) if here else x
            for x, here in zip(function.avals, mask, strict=True)
        ]

        def make() -> tuple[FlatFunction, tuple[int | None, ...]]:
            out_axes = _out_axes(function, axes, avals)
            mapped = jax.vmap(function.fn, axes, list(out_axes))

            def fn(*operands: Any) -> list[Any]:
                return mapped(*operands)

            return FlatFunction(fn, avals, f"vmap_{function.name}"), out_axes

        return self._derived.get(("batched", function, mask, size), make)


def _out_axes(function: FlatFunction, axes: list[Any], avals: list[Any]) -> tuple[int | None, ...]:
    """Return 0 for each result that JAX computes for each slice, and None for the others."""
    jax, _ = pjrt.modules()
    flags = [False] * len(function.results)

    @jax.custom_batching.custom_vmap
    def recorded(results: list[Any]) -> list[Any]:
        return results

    @recorded.def_vmap
    def record(size: int, is_batched: Any, results: list[Any]) -> Any:
        flags[:] = is_batched[0]
        return results, is_batched[0]

    with in_dtypes_of(function.avals):
        jax.eval_shape(jax.vmap(lambda *xs: recorded(function.fn(*xs)), axes), *avals)
    return tuple([0 if here else None for here in flags])


def _chosen(types: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    return [each for each, here in zip(types, mask, strict=True) if here]


def _is_key(x: Any) -> bool:
    jax, _ = pjrt.modules()
    return jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)


def _like(x: Any, operand: Any) -> Any:
    """Return the operand, as random keys if x is an array of keys."""
    jax, _ = pjrt.modules()
    return jax.random.wrap_key_data(operand, impl=jax.random.key_impl(x)) if _is_key(x) else operand


def _is_inexact(dtype: Any) -> bool:
    jax, _ = pjrt.modules()
    return jax.numpy.issubdtype(dtype, jax.numpy.inexact)
