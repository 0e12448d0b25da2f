"""`from_jax`: what jax lowers a function to, as a program of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lowering import import_stablehlo
from tenferro.api.compile import parameter_names
from tenferro.program import GraphProgram
from tenferro.types import DType, flatten, leaf_paths, unflatten

__all__ = ["from_jax"]


def from_jax(fn: Callable[..., Any], *specs: Any) -> GraphProgram:
    """A function written for jax as a program: it runs on NumPy, is differentiated by tenferro's rules,
    compared and exported.

    Args:
        fn: traced and lowered by jax, for the CPU.
        specs: for each argument a tree of arrays, `TensorSpec`s or `jax.ShapeDtypeStruct`s.

    Raises:
        UnsupportedError: jax lowers it to operations that have no counterpart, with their places.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> program = from_jax(lambda x: {"norm": jnp.sqrt(jnp.sum(x * x))}, np.ones(2, "float32"))
    >>> program.run(np.array([3.0, 4.0], "float32"))
    {'norm': array(5., dtype=float32)}
    """
    import jax  # because importing it takes long

    leaves, in_tree = flatten(specs)
    shapes = [
        jax.ShapeDtypeStruct(tuple(leaf.shape), DType.of(leaf.dtype).dtype) for leaf in leaves
    ]
    is_wide = any(DType.of(shape.dtype).real.itemsize == 8 for shape in shapes)
    with jax.enable_x64(is_wide or bool(jax.config.read("jax_enable_x64"))):
        arguments = unflatten(in_tree, shapes)
        lowered = jax.jit(fn, keep_unused=True).lower(*arguments)
        _, out_tree = flatten(lowered.out_info)
        text = lowered.as_text()
    return replace(
        import_stablehlo(text, trusted=True),
        name=getattr(fn, "__name__", "main"),
        in_tree=in_tree,
        out_tree=out_tree,
        input_names=tuple(
            [
                base + path
                for base, tree in zip(_bases(fn, len(specs)), specs, strict=True)
                for path in leaf_paths(tree)
            ]
        ),
    )


def _bases(fn: Callable[..., Any], count: int) -> list[str]:
    """What arguments are called: by the function's parameters, as far as it has names for them."""
    names = parameter_names(fn)[:count]
    return [*names, *[f"x{i}" for i in range(len(names), count)]]
