"""`traced`, which converts a function to a program: tenferro traces it, or JAX if it is a function of JAX arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tenferro as tnf
from tenferro.api.jit import Jitted
from tenferro.program import GraphProgram
from tenferro.tracebacks import is_refusal_of_jax
from xla_peer.from_jax import from_jax

__all__ = ["differentiable", "traced"]


def traced(fn_or_program: GraphProgram | Callable[..., Any], *specs: Any) -> GraphProgram:
    """Return the program of a function for arguments of the given types; a program is returned unchanged.

    JAX traces functions that `jax.jit` or `native` has wrapped, and functions that refuse tenferro's traced tensors.
    tenferro traces all other functions.

    Args:
        specs: one tree of arrays or types per argument of a function.

    Raises:
        TenferroError: tracing fails, for the reasons that `tenferro.compile` and `from_jax` list. Exceptions that the
            function itself raises are passed on.

    >>> import jax.numpy as jnp, numpy as np
    >>> traced(lambda x: jnp.sin(x) * x, np.ones(3, "float32")).run(np.zeros(3, "float32"))
    array([0., 0., 0.], dtype=float32)
    """
    if isinstance(fn_or_program, GraphProgram):
        return fn_or_program
    if isinstance(fn_or_program, Jitted) and fn_or_program.kind == "native":
        native: Any = fn_or_program
        return native.lower(*specs)
    stages: Any = sys.modules.get("jax.stages")
    if stages is not None and isinstance(fn_or_program, stages.Wrapped):
        return from_jax(fn_or_program, *specs)
    try:
        return tnf.compile(fn_or_program, *specs)
    except Exception as error:
        if not is_refusal_of_jax(error):
            raise
    return from_jax(fn_or_program, *specs)


def differentiable(
    fn_or_program: GraphProgram | Callable[..., Any], program: GraphProgram
) -> Callable[..., Any]:
    """Return the callable to differentiate: the function if tenferro traced it, else the method `run` of its program.

    A function of JAX arrays cannot be called by tenferro's transforms, but its imported program can.
    """
    is_imported = program.origin is not None
    return program.run if is_imported or program is fn_or_program else fn_or_program
