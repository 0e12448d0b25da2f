"""`to_jax`, which converts a program to a JAX function that jit, jvp, grad, vmap and their compositions accept.

The primitive of `jax_primitive` represents the program in JAX's traces. Lowering merges the program into the module
that jax is lowering, so XLA fuses it with the surrounding code.

For a complex cotangent ct, jax computes J^T ct, but tenferro computes J^H ct, with the Jacobian J. The conversion is
J^T ct = conj(J^H conj(ct)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tenferro as tnf
from lowering import PLATFORMS
from lowering.extensions import lowerings_in
from tenferro.ad import AdContext, batch_program
from tenferro.errors import DTypeError, InvalidConfigError, UnsupportedError
from tenferro.program import BoundedCache, CacheStats, GraphProgram
from tenferro.tracebacks import public_methods
from tenferro.types import DType, agree, flatten, unflatten
from xla_peer import pjrt
from xla_peer.exporting import module_for
from xla_peer.jax_primitive import program_primitive

__all__ = ["JaxFunction", "to_jax"]


def to_jax(
    program: Any,
    *,
    precision: str = "highest",
    linalg: str = "auto",
    context: AdContext | None = None,
) -> Any:
    """Convert a program to a function of jax arrays and tracers.

    The function takes and returns the trees of the program. Under `jax.jit` it is fused with the surrounding code,
    and tenferro's rules differentiate it, to any order. `jax.vmap` batches it if every op has a batch rule, and
    otherwise maps it slice by slice.

    Args:
        program: the program; its symbolic extents are bound to the extents of the arguments.
        precision, linalg: see `xla_peer.export`.
        context: the context with the rules that differentiate and batch the program.

    Raises:
        ArityError, DTypeError, ShapeError, GuardError: the arguments of a call do not match the program's parameters.
            64-bit programs need `jax.config.update("jax_enable_x64", True)`.

    >>> import jax, numpy as np, tenferro as tnf
    >>> norm = to_jax(tnf.compile(lambda x: tnf.sum(x * x), tnf.TensorSpec(("n",), "float32")))
    >>> jax.jit(jax.grad(norm))(np.array([1.0, 2.0], "float32"))
    Array([2., 4.], dtype=float32)
    """
    if not isinstance(program, GraphProgram):
        raise InvalidConfigError(f"to_jax: expected a program, got {program!r:.60}; use compile")
    return JaxFunction(program, precision, linalg, context)


@public_methods
class JaxFunction:
    """A program as a JAX function, with a cache of its specialisations, derivatives and batched versions."""

    def __init__(
        self,
        program: GraphProgram,
        precision: str = "highest",
        linalg: str = "auto",
        context: AdContext | None = None,
    ) -> None:
        self.program = program
        self.precision = precision
        self.linalg = linalg
        self._derived: BoundedCache[Any] = BoundedCache(256)
        self._context = AdContext() if context is None else context

    def __repr__(self) -> str:
        return f"<JaxFunction of {self.program!r:.200}>"

    def __call__(self, *args: Any) -> Any:
        """Run the program, and return its results in the structure that its function returns."""
        jax, _ = pjrt.modules()
        leaves, tree = flatten(args)
        if not agree(tree, self.program.in_tree):
            self.program.check_arguments(args)  # raises an error that names the wrong argument
        leaves = [jax.numpy.asarray(leaf) for leaf in leaves]
        for leaf, name, spec in zip(
            leaves, self.program.input_names, self.program.input_specs, strict=True
        ):
            if DType.of(leaf.dtype) is not spec.dtype:
                wide = spec.dtype.bits == 64 or spec.dtype is DType.C64
                hint = ""
                if wide and not jax.config.jax_enable_x64:
                    hint = '; jax.config.update("jax_enable_x64", True) keeps 64 bits'
                raise DTypeError(
                    f"{name}: expected {spec}, got {leaf.dtype}{list(leaf.shape)}{hint}"
                )
        program = self._specialized(tuple([leaf.shape for leaf in leaves]))
        results = program_primitive().bind(*leaves, owner=self, program=program)
        return unflatten(self.program.out_tree, results)

    def cache_stats(self) -> CacheStats:
        """Return the statistics of the cache of derived programs."""
        return self._derived.stats()

    def cache_clear(self) -> None:
        """Forget every derived program."""
        self._derived.clear()

    # ---- derived programs ----------------------------------------------------------------------

    def _specialized(self, shapes: tuple[Any, ...]) -> GraphProgram:
        def make() -> GraphProgram:
            return _flat(self.program.specialize(self.program.bind(shapes)))

        return self._derived.get(("specialized", shapes), make)

    def output_types(self, program: GraphProgram) -> list[Any]:
        """Return the types of the program's results as JAX's abstract values."""
        jax, _ = pjrt.modules()
        return [jax.core.ShapedArray(spec.shape, spec.dtype.dtype) for spec in program.output_specs]

    def lower(self, context: Any, program: GraphProgram, operands: Sequence[Any]) -> Any:
        """Merge the program into the module that JAX is lowering."""
        text = self.module(program, context.module_context.platforms)
        pjrt.prepare(text)
        return pjrt.merge_module(context, text, operands)

    def evaluate(self, program: GraphProgram, leaves: Sequence[Any]) -> Any:
        """Compute the program's results on arrays, for a call outside of any jit."""
        jax, _ = pjrt.modules()

        def call(*leaves: Any) -> Any:
            return program_primitive().bind(*leaves, owner=self, program=program)

        rules = self._rules(program, PLATFORMS)
        return self._derived.get(("compiled", program, rules), lambda: jax.jit(call))(*leaves)

    def _rules(self, program: GraphProgram, platforms: Sequence[str]) -> tuple[Any, ...]:
        """Return the registered lowerings on which the program's text depends; they are part of the cache key."""
        places = ("library", "inline")
        return tuple([lowerings_in(program, name, at) for name in platforms for at in places])

    def module(self, program: GraphProgram, platforms: Sequence[str]) -> str:
        """Lower the program to the text of one StableHLO module for all the platforms."""
        named = tuple(name if name in PLATFORMS else "cpu" for name in platforms)

        def make() -> str:
            return module_for(program, named, self.precision, self.linalg)[0].plain_text

        return self._derived.get(("module", program, named, self._rules(program, named)), make)

    def tangents(self, program: GraphProgram, active: tuple[bool, ...]) -> GraphProgram:
        """Return a program that computes the tangents of the float outputs.

        Its inputs are all inputs of `program`, followed by a tangent for each input that `active` flags.
        """

        def fn(*primals_and_dots: Any) -> Any:
            xs, dots = list(primals_and_dots[: len(active)]), primals_and_dots[len(active) :]
            places = [i for i, here in enumerate(active) if here]

            def of_active(*chosen: Any) -> Any:
                for i, x in zip(places, chosen, strict=True):
                    xs[i] = x
                return tuple([y for y in program.run(*xs) if y.dtype.is_inexact])

            return tnf.jvp(of_active, tuple([xs[p] for p in places]), dots, context=self._context)[
                1
            ]

        specs = program.input_specs
        chosen = [spec for spec, here in zip(specs, active, strict=True) if here]
        return self._derived.get(
            ("tangents", program, active), lambda: _flat(tnf.compile(fn, *specs, *chosen))
        )

    def transposed(
        self, program: GraphProgram, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
    ) -> GraphProgram:
        """Return a program that computes cotangents of the inputs that `linear` flags.

        Its inputs are the other inputs of `program`, followed by cotangents of the outputs that `nonzero` flags.
        """

        def fn(*operands: Any) -> Any:
            fixed = iter(operands)
            xs = [None if here else next(fixed) for here in linear]
            bars = list(fixed)

            def of_linear(*chosen: Any) -> Any:
                free = iter(chosen)
                ys = program.run(*[next(free) if x is None else x for x in xs])
                return tuple([y for y, here in zip(ys, nonzero, strict=True) if here])

            zeros = [
                tnf.zeros(spec.shape, dtype=spec.dtype)
                for spec, here in zip(program.input_specs, linear, strict=True)
                if here
            ]
            _, pull = tnf.vjp(of_linear, *zeros, context=self._context)
            return tuple([tnf.conj(x) for x in pull(tuple([tnf.conj(y) for y in bars]))])

        specs = [s for s, here in zip(program.input_specs, linear, strict=True) if not here]
        specs += [s for s, here in zip(program.output_specs, nonzero, strict=True) if here]
        return self._derived.get(
            ("transposed", program, linear, nonzero), lambda: _flat(tnf.compile(fn, *specs))
        )

    def batched(
        self, program: GraphProgram, mask: tuple[bool, ...], size: int
    ) -> tuple[GraphProgram, Sequence[int]] | None:
        """Return the program batched over `size` slices, and axis 0 for each result; None if an op has no batch rule."""

        def make() -> tuple[GraphProgram, Sequence[int]] | None:
            try:
                batch = batch_program(program, mask, size, self._context)
            except UnsupportedError:
                return None
            return batch, [0] * len(batch.output_slots)

        return self._derived.get(("batched", program, mask, size), make)


def _flat(program: GraphProgram) -> GraphProgram:
    """Return the program with its arguments and results as flat tuples of arrays."""
    from dataclasses import replace

    return replace(
        program,
        in_tree=flatten(tuple(range(len(program.input_slots))))[1],
        out_tree=flatten(tuple(range(len(program.output_slots))))[1],
    )
