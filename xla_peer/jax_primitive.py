"""The JAX primitive for a call of a program on arrays.

JAX calls the primitive's rules when it transforms a call. Each rule returns a call of the same primitive with another
program: for tangents, cotangents or batches. So every transformation of JAX can be applied to the result again. The
`Owner` of a program evaluates it, lowers it, and creates these derived programs.

The file uses jax.extend.core.Primitive, and the modules ad, batching and mlir of jax.interpreters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from xla_peer import pjrt

__all__ = ["Owner", "program_primitive"]


class Owner(Protocol):
    """Owner of the programs or functions that the primitive calls, and of their derivatives.

    The programs that `tangents`, `transposed` and `batched` return have the type of `program`, which is hashable.
    """

    def evaluate(self, program: Any, leaves: Sequence[Any]) -> Any:
        """Compute the results on arrays, for a call outside of `jax.jit`."""
        ...

    def output_types(self, program: Any) -> list[Any]:
        """Return the shapes and dtypes of the results, as JAX's abstract values."""
        ...

    def lower(self, context: Any, program: Any, operands: Sequence[Any]) -> Any:
        """Lower the call into the module that JAX is lowering."""
        ...

    def tangents(self, program: Any, active: tuple[bool, ...]) -> Any:
        """Return the program of the tangents.

        The inputs of the returned program are the inputs of `program`, and then a tangent of each input that `active`
        flags. Its outputs are the tangents of the float and complex outputs.
        """
        ...

    def transposed(self, program: Any, linear: tuple[bool, ...], nonzero: tuple[bool, ...]) -> Any:
        """Return the program of the cotangents.

        The inputs of the returned program are the operands that `linear` does not flag, and then a cotangent of each
        output that `nonzero` flags. Its outputs are the cotangents of the operands that `linear` flags.
        """
        ...

    def batched(self, program: Any, mask: tuple[bool, ...], size: int) -> Any:
        """Return the program that computes `size` slices at once, and the axis of slices of each result.

        The operands that `mask` flags have a leading axis of slices. The axis of a result is 0, or None if the result
        is equal for all slices. Return None if an op has no batch rule.
        """
        ...


@cache
def program_primitive() -> Any:
    """Return the primitive with its rules; it is created only once, because jax compares primitives by identity."""
    jax, _ = pjrt.modules()
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    primitive = Primitive("tenferro_program")
    primitive.multiple_results = True

    def evaluate(*leaves: Any, owner: Owner, program: Any) -> Any:
        return owner.evaluate(program, leaves)

    def abstract(*avals: Any, owner: Owner, program: Any) -> Any:
        return owner.output_types(program)

    def lower(context: Any, *operands: Any, owner: Owner, program: Any) -> Any:
        return owner.lower(context, program, operands)

    def jvp(primals: Any, tangents: Any, *, owner: Owner, program: Any) -> Any:
        results = primitive.bind(*primals, owner=owner, program=program)
        active = tuple([type(x_dot) is not ad.Zero for x_dot in tangents])
        derived = owner.tangents(program, active)
        dots = [ad.instantiate_zeros(x_dot) for x_dot in tangents if type(x_dot) is not ad.Zero]
        y_dot_values = iter(primitive.bind(*primals, *dots, owner=owner, program=derived))
        y_dots = [
            next(y_dot_values)
            if jax.numpy.issubdtype(aval.dtype, jax.numpy.inexact)
            else ad.Zero(jax.core.ShapedArray(aval.shape, jax.dtypes.float0))
            for aval in owner.output_types(program)
        ]
        return results, y_dots

    def transpose(bars: Any, *operands: Any, owner: Owner, program: Any) -> Any:
        linear = tuple([ad.is_undefined_primal(x) for x in operands])
        nonzero = tuple([type(y_bar) is not ad.Zero for y_bar in bars])
        if not any(nonzero):
            return [
                ad.Zero(x.aval) if here else None for x, here in zip(operands, linear, strict=True)
            ]
        derived = owner.transposed(program, linear, nonzero)
        primals = [x for x, here in zip(operands, linear, strict=True) if not here]
        y_bars = [y_bar for y_bar, here in zip(bars, nonzero, strict=True) if here]
        cotangents = iter(primitive.bind(*primals, *y_bars, owner=owner, program=derived))
        return [next(cotangents) if here else None for here in linear]

    def batch(operands: Any, axes: Any, *, owner: Owner, program: Any) -> Any:
        mask = tuple([axis is not None for axis in axes])
        moved = [
            jax.numpy.moveaxis(x, axis, 0) if here else x
            for x, axis, here in zip(operands, axes, mask, strict=True)
        ]
        size = moved[mask.index(True)].shape[0]
        pair = owner.batched(program, mask, size)
        if pair is None:
            results = by_slice(moved, mask, owner, program)
            return results, [0] * len(results)
        derived, out_axes = pair
        return primitive.bind(*moved, owner=owner, program=derived), out_axes

    def by_slice(moved: Any, mask: Any, owner: Owner, program: Any) -> Any:
        def one(slices: Any) -> Any:
            here = iter(slices)
            xs = [next(here) if own else x for x, own in zip(moved, mask, strict=True)]
            return primitive.bind(*xs, owner=owner, program=program)

        return jax.lax.map(one, [x for x, own in zip(moved, mask, strict=True) if own])

    primitive.def_impl(evaluate)
    primitive.def_abstract_eval(abstract)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, lower)
    return primitive
