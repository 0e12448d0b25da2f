"""`export_for_jax`, which serialises programs as bytes that `jax.export.deserialize` reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lowering import PLATFORMS
from tenferro.ad import AdContext
from tenferro.errors import InvalidConfigError, NonStaticShapeError
from tenferro.files import replacing
from tenferro.program import GraphProgram
from tenferro.types import unflatten
from xla_peer import pjrt
from xla_peer.exporting import as_program
from xla_peer.inside_jax import to_jax

__all__ = ["export_for_jax"]


def export_for_jax(
    fn_or_program: GraphProgram | Callable[..., Any],
    *specs: Any,
    platforms: Sequence[str] = ("cpu",),
    vjp_order: int = 1,
    path: Any = None,
    precision: str = "highest",
    linalg: str = "inline",
    context: AdContext | None = None,
) -> bytes:
    """Serialise a program in the format of `jax.export`, with gradients, for use without tenferro.

    `jax.export.deserialize(content).call` is a function of the program's trees. JAX can jit it, and differentiate it
    `vjp_order` times, by JAX's convention for complex gradients.

    Args:
        fn_or_program, specs, platforms, precision: see `xla_peer.export`.
        linalg: "inline" writes plain StableHLO. "library" calls the platform's routines, which is faster. With jax
            before 0.9, a process that runs such a file on a CPU crashes unless it has lowered linear algebra before.
        vjp_order: the number of derivatives that are included.
        path: the file to write, for example with the suffix ".jax".
        context: the context with the derivative rules to use.

    Raises:
        NonStaticShapeError: the program has symbolic extents, which only `xla_peer.export` supports.
        InvalidConfigError: a platform is unknown, or the order is negative.

    >>> import jax, numpy as np, tenferro as tnf
    >>> content = export_for_jax(lambda x: tnf.sum(x * x), tnf.TensorSpec((2,), "float32"))
    >>> square = jax.export.deserialize(bytearray(content)).call
    >>> jax.grad(square)(np.array([1.0, 2.0], "float32"))
    Array([2., 4.], dtype=float32)

    Source: jax.export.
    """
    if isinstance(platforms, str) or not platforms or not set(platforms) <= set(PLATFORMS):
        raise InvalidConfigError(
            f"platforms must be a tuple of some of {PLATFORMS}, got {platforms!r}"
        )
    if isinstance(vjp_order, bool) or vjp_order < 0:
        raise InvalidConfigError(
            f"vjp_order must be the number of derivatives to include, got {vjp_order!r}"
        )
    program = as_program(fn_or_program, specs)
    if not program.is_static:
        raise NonStaticShapeError(
            f"export_for_jax: {program.name} has symbolic extents; give concrete specs, or use "
            "xla_peer.export, which keeps them"
        )
    jax, _ = pjrt.modules()
    from jax import export

    with pjrt.wide_dtypes():
        avals = [jax.ShapeDtypeStruct(spec.shape, spec.dtype.dtype) for spec in program.input_specs]
        function = jax.jit(to_jax(program, precision=precision, linalg=linalg, context=context))
        exported = export.export(function, platforms=platforms)(*unflatten(program.in_tree, avals))
        content = bytes(exported.serialize(vjp_order=vjp_order))
    if path is not None:
        with replacing(path) as file:
            file.write(content)
    return content
