"""`from_jax`, which converts a JAX function to a program: jax lowers the function to StableHLO, which is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from lowering import import_stablehlo
from tenferro.api.compile import parameter_names
from tenferro.errors import NonStaticShapeError, PlatformUnavailableError, UnsupportedError
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec, flatten, leaf_paths, unflatten
from xla_peer import pjrt
from xla_peer.forking import forked
from xla_peer.jax_rules import with_rules

__all__ = ["from_jax", "from_jitted", "in_dtypes_of"]


def from_jax(fn: Callable[..., Any], *specs: Any) -> GraphProgram:
    """Convert a JAX function to a program, which can be run on NumPy, differentiated, compared and exported.

    JAX's derivative rules are kept: `custom_jvp`, `custom_vjp`, `stop_gradient`, custom linear solves and roots, and
    the derivative formulas of functions that jax lowers to loops. A `custom_vjp` has no forward mode. The rules are
    lost if an extent is symbolic, and in pickled programs. Differentiation of a call whose rule is lost raises an error
    that names the rule.

    Args:
        fn: the function, which jax traces and lowers for the CPU.
        specs: for each argument a tree of arrays, `TensorSpec`s, `jax.ShapeDtypeStruct`s, or Python numbers,
            which are weakly typed. Extents are numbers or symbols. jax assumes that a symbolic extent is at least 1,
            which the program checks.

    Raises:
        NonStaticShapeError: jax cannot trace the function for symbolic extents; the message is jax's.
        PlatformUnavailableError: the process was forked after jax had started.
        UnsupportedError: jax lowers the function to operations that tenferro lacks; the message has their locations.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> program = from_jax(lambda x: {"norm": jnp.sqrt(jnp.sum(x * x))}, np.ones(2, "float32"))
    >>> program.run(np.array([3.0, 4.0], "float32"))
    {'norm': array(5., dtype=float32)}
    >>> from_jax(lambda x: x.sum(0), TensorSpec(("b", 2), "float32")).input_specs
    (f32[b,2],)
    >>> import jax, tenferro as tnf
    >>> relu = from_jax(lambda x: jnp.sum(jax.nn.relu(x)), np.zeros(2, "float32"))
    >>> tnf.grad(relu)(np.zeros(2, "float32"))
    array([0., 0.], dtype=float32)
    """
    import jax  # because it is slow to import

    return from_jitted(jax.jit(fn, keep_unused=True), *specs, names=_input_names(fn, specs))


def from_jitted(
    jitted: Any, *specs: Any, names: tuple[str, ...] | None = None, keeps_rules: bool = True
) -> GraphProgram:
    """Convert a function that `jax.jit(.., keep_unused=True)` has wrapped; see `from_jax`.

    Args:
        jitted: the wrapped function.
        specs: see `from_jax`.
        names: names of the leaves of the arguments; None for the names in the lowered module.
        keeps_rules: whether to keep JAX's derivative rules, which takes longer and which only derivatives need.
    """
    if forked():
        raise PlatformUnavailableError(
            "from_jax: this process was forked from one in which JAX had started, and JAX would wait here for "
            "threads that it does not have; import before the fork, whose programs run here, or start processes "
            'with multiprocessing\'s "spawn"'
        )
    leaves, in_tree = flatten(specs)
    leaves = [_typed(leaf) for leaf in leaves]
    types = [TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]
    with in_dtypes_of(types):
        arguments = unflatten(in_tree, _shapes(types, leaves))
        out_tree, text, rules, callbacks = _lowered(jitted, arguments, keeps_rules)
    program = import_stablehlo(
        text, types, trusted=True, rules=rules, callbacks=callbacks, drops_windows=True
    )
    return replace(
        program,
        name=getattr(jitted, "__name__", "main"),
        in_tree=in_tree,
        out_tree=out_tree,
        input_names=names or program.input_names,
    )


def in_dtypes_of(types: Sequence[Any]) -> Any:
    """Return a context that enables 64-bit dtypes in JAX if a type has 64 bits, and else keeps the user's setting."""
    is_wide = any([DType.of(spec.dtype).real.itemsize == 8 for spec in types])
    return pjrt.wide_dtypes() if is_wide else nullcontext()


def _typed(leaf: Any) -> Any:
    """Convert a Python number to JAX's type of a weakly typed scalar; return any other leaf unchanged."""
    import jax  # because it is slow to import

    if not isinstance(leaf, bool | int | float | complex):
        return leaf
    dtype = jax.numpy.result_type(leaf)
    return jax.ShapeDtypeStruct((), dtype, weak_type=not isinstance(leaf, bool))


def _shapes(types: list[TensorSpec], leaves: list[Any]) -> list[Any]:
    """Convert types to JAX's types; if a leaf is weakly typed, its type is too.

    All symbols are created in one scope, because JAX can relate only symbols of the same scope.

    Raises:
        NonStaticShapeError: jax cannot express an extent.
    """
    import jax  # because it is slow to import

    scope = jax.export.SymbolicScope()

    def shape_of(spec: TensorSpec) -> Any:
        if spec.is_static:
            return spec.shape
        text = "".join([f"{extent}, " for extent in spec.shape])
        try:
            return jax.export.symbolic_shape(text, scope=scope)
        except ValueError as error:
            raise NonStaticShapeError(
                f"from_jax: jax has no extents such as {spec}: {error}"
            ) from None

    return [
        jax.ShapeDtypeStruct(
            shape_of(spec), spec.dtype.dtype, weak_type=getattr(leaf, "weak_type", False)
        )
        for spec, leaf in zip(types, leaves, strict=True)
    ]


def _lowered(
    jitted: Any, arguments: Any, keeps_rules: bool
) -> tuple[Any, str, dict[str, Any], Sequence[Any]]:
    """Lower a function, and return the structure of its results, the module, the rules of its calls, and callbacks.

    Raises:
        NonStaticShapeError: JAX cannot trace the function with symbolic extents.
    """
    import jax  # because it is slow to import
    from jax.extend import core

    leaves = jax.tree_util.tree_leaves(arguments)
    is_static = all([isinstance(n, int) for leaf in leaves for n in leaf.shape])
    try:
        traced = jitted.trace(*arguments)
        _require_closed(traced.jaxpr, len(leaves))
        jaxpr, rules = with_rules(traced.jaxpr, from_jax) if keeps_rules else (traced.jaxpr, {})
        out_tree = flatten(traced.out_info)[1]
        if is_static and not rules:
            return _module(out_tree, traced.lower(), rules)
        flat: Any = core.jaxpr_as_fun(jaxpr)
        flat.__name__ = getattr(jitted, "__name__", "main")
        with_calls = jax.jit(flat, keep_unused=True)
        if is_static:
            return _module(out_tree, with_calls.lower(*leaves), rules)
        exported = jax.export.export(with_calls, platforms=["cpu"])(*leaves)
        return out_tree, exported.mlir_module(), rules, ()
    except _inconclusive() as error:
        raise NonStaticShapeError(
            f"from_jax: jax does not export this for symbolic extents, give numbers instead: {error}"
        ) from error


def _require_closed(jaxpr: Any, count: int) -> None:
    """Raise an error if a traced function of `count` arrays depends on an outer transformation of JAX.

    Raises:
        UnsupportedError: the function captures a tracer, or uses the named axis of an outer transformation.
    """
    if len(jaxpr.in_avals) > count:  # because jax.jit puts captured tracers before the arguments
        raise UnsupportedError(
            f"from_jax: the function captures {jaxpr.in_avals[0].str_short()}, which an outer transformation of JAX "
            "traces; pass it as an argument, or leave out the specs of a native function"
        )
    axes = [e.name for e in jaxpr.effects if type(e).__name__ == "NamedAxisEffect"]
    if axes:
        raise UnsupportedError(
            f"from_jax: the function uses the axis {axes[0]!r} of an outer transformation of JAX; import or decorate "
            f"the whole, such as native(jax.vmap(f, axis_name={axes[0]!r}))"
        )


def _module(
    out_tree: Any, lowered: Any, rules: dict[str, Any]
) -> tuple[Any, str, dict[str, Any], Sequence[Any]]:
    """Return the module text of a lowered function, and the Python functions that the module calls back.

    JAX has no public attribute for the Python functions. If the private attribute is missing, the list is empty, and
    importing a call of a Python function raises an error.
    """
    arguments = getattr(getattr(lowered, "_lowering", None), "compile_args", {})
    return (
        out_tree,
        lowered.as_text(debug_info=True),
        rules,
        tuple(arguments.get("host_callbacks", ())),
    )


def _inconclusive() -> Any:
    """Return the class of JAX's errors about symbolic extents, whose module differs among versions of JAX."""
    import jax  # because it is slow to import

    errors: Any = jax.errors
    if not hasattr(errors, "InconclusiveDimensionOperation"):
        errors = importlib.import_module("jax.core")
    return errors.InconclusiveDimensionOperation


def _input_names(fn: Callable[..., Any], specs: tuple[Any, ...]) -> tuple[str, ...]:
    """Return a name for each leaf of the arguments: the name of the parameter, followed by the leaf's path in it."""
    bases = _bases(fn, len(specs))
    return tuple(
        [base + path for base, tree in zip(bases, specs, strict=True) for path in leaf_paths(tree)]
    )


def _bases(fn: Callable[..., Any], count: int) -> list[str]:
    """Return names of `count` arguments: the names of the function's parameters, then x0, x1, .. by position."""
    names = parameter_names(fn)[:count]
    return [*names, *[f"x{i}" for i in range(len(names), count)]]
