"""`from_jax`: what jax lowers a function to, as a program of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lowering import import_stablehlo
from tenferro.api.compile import parameter_names
from tenferro.errors import NonStaticShapeError
from tenferro.program import GraphProgram
from tenferro.types import DType, flatten, leaf_paths, unflatten

__all__ = ["from_jax"]


def from_jax(fn: Callable[..., Any], *specs: Any) -> GraphProgram:
    """A function written for jax as a program: it runs on NumPy, is differentiated by tenferro's rules,
    compared and exported.

    Args:
        fn: traced and lowered by jax, for the CPU.
        specs: for each argument a tree of arrays, `TensorSpec`s or `jax.ShapeDtypeStruct`s; their extents
            are numbers.

    Raises:
        NonStaticShapeError: a symbolic extent, by name.
        UnsupportedError: jax lowers it to operations that have no counterpart, with their places.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> program = from_jax(lambda x: {"norm": jnp.sqrt(jnp.sum(x * x))}, np.ones(2, "float32"))
    >>> program.run(np.array([3.0, 4.0], "float32"))
    {'norm': array(5., dtype=float32)}
    """
    import jax  # because importing it takes long

    leaves, in_tree = flatten(specs)
    names = _input_names(fn, specs)
    for name, leaf in zip(names, leaves, strict=True):
        _require_numbers(name, leaf)
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
        input_names=names,
    )


def _require_numbers(name: str, leaf: Any) -> None:
    """Raises NonStaticShapeError for an extent that is no number."""
    symbols = [extent for extent in leaf.shape if not isinstance(extent, int | np.integer)]
    if symbols:
        raise NonStaticShapeError(
            f"from_jax: {name} has shape ({', '.join(map(str, leaf.shape))}), and the modules that jax writes "
            f"for unknown extents cannot be imported; give a number for {symbols[0]}, and call from_jax "
            "once for each size"
        )


def _input_names(fn: Callable[..., Any], specs: tuple[Any, ...]) -> tuple[str, ...]:
    """Each leaf by the parameter that holds it."""
    bases = _bases(fn, len(specs))
    return tuple(
        [base + path for base, tree in zip(bases, specs, strict=True) for path in leaf_paths(tree)]
    )


def _bases(fn: Callable[..., Any], count: int) -> list[str]:
    """What arguments are called: by the function's parameters, as far as it has names for them."""
    names = parameter_names(fn)[:count]
    return [*names, *[f"x{i}" for i in range(len(names), count)]]
