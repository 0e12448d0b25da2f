"""Checks of conditions in running programs, and calls of Python functions from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.api.compile import name_of
from tenferro.api.printing import numbered_template
from tenferro.api.tensor import TracedTensor, value_in
from tenferro.door import as_operand, spec_of
from tenferro.door.tracing import current_builder
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.ext.host.families import Callback, Check
from tenferro.extension import apply
from tenferro.ops.extension import Extension
from tenferro.types import ArrayLike, PyTree, TensorSpec, TreeDef, flatten, unflatten

__all__ = ["check", "pure_callback"]

METHODS = ("sequential", "expand_dims", "broadcast_all")


def check(condition: ArrayLike, message: str, *args: Any, **kwargs: Any) -> None:
    """Raise message.format(*args, **kwargs) unless all elements of the condition are true when this call runs.

    A check works in jitted functions and programs, also in loops and branches, and outside of traces. Under `vmap`, the
    message shows the first example that fails. A derivative runs the checks of its function.

    An `XlaExecutor` computes the conditions as further results and raises after the run; in loops and branches it
    refuses them.

    Args:
        condition: a bool tensor.
        message: as for `str.format`; tensors are formatted as NumPy arrays.

    Raises:
        CheckFailedError: the condition is not true; with your line.
        DTypeError: the condition is not of bools.
        InvalidConfigError: a field without a value, or a value without a field.

    >>> import tenferro as tnf
    >>> @tnf.jit
    ... def root(x):
    ...     tnf.check(x >= 0, "root of a negative number, {}", x)
    ...     return tnf.sqrt(x)
    >>> root(4.0)
    array(2.)
    >>> root(-1.0)
    Traceback (most recent call last):
        ...
    tenferro.errors.CheckFailedError: check: root of a negative number, -1.0

    Source: JAX's checkify.check, which works only in functions transformed by checkify.
    """
    if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # because callers may not check
        raise InvalidConfigError(f"check: the message must be a string, got {message!r:.60}")
    template, tensors = numbered_template("check", message, args, kwargs)
    operand = as_operand(condition)
    spec = spec_of(operand)
    if not spec.dtype.is_bool:
        raise DTypeError(f"check: the condition is {spec}; compare it with something")
    op = Check(template, len(tensors))
    everything = [operand, *tensors]
    builder = current_builder() or next(
        (x.builder for x in everything if isinstance(x, TracedTensor)), None
    )
    if builder is None:
        error = op.failure([None, *[np.asarray(x) for x in everything]])
        if error is not None:
            raise error
        return
    values = [value_in(builder, as_operand(x)) for x in everything]
    builder.apply(Extension(op), builder.graph.awaited(), *values)


@dataclass(frozen=True)
class _FlatFunction:
    """Wrapper of a function of trees that takes and returns lists of arrays."""

    function: Callable[..., Any]
    tree: TreeDef
    out_tree: TreeDef
    types: tuple[TensorSpec, ...]

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        """Call the function, and return the leaves of the results in the declared dtypes.

        Raises:
            ArityError, ShapeError, DTypeError: the function returns something else than it declares.
        """
        args, kwargs = unflatten(self.tree, arrays)
        leaves, tree = flatten(self.function(*args, **kwargs))
        name = name_of(self.function)
        if tree != self.out_tree:
            raise ArityError(
                f"pure_callback: {name} returns another structure than result_shape_dtypes has"
            )
        results: list[Any] = []
        for leaf, spec in zip(leaves, self.types, strict=True):
            array = np.asarray(leaf)
            batch = array.ndim - spec.rank
            if batch < 0 or array.shape[batch:] != spec.shape:
                raise ShapeError(
                    f"pure_callback: {name} returns shape {array.shape}, declared is {spec}"
                )
            if not np.can_cast(array.dtype, spec.dtype.dtype, "same_kind"):
                raise DTypeError(f"pure_callback: {name} returns {array.dtype}, declared is {spec}")
            results.append(array.astype(spec.dtype.dtype, copy=False))
        return results


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: PyTree,
    *args: PyTree,
    vmap_method: str | None = None,
    **kwargs: PyTree,
) -> Any:
    """callback(*args, **kwargs), called with NumPy arrays whenever the program gets here.

    The callback must be pure and must not write to its arguments: equal calls may be merged, and calls with unused
    results are omitted. The native executor calls it, and an `XlaExecutor` on the CPU in this process; lowering to
    text is an error. To differentiate it, use `custom_jvp` or `custom_vjp`.

    Args:
        result_shape_dtypes: the tree of the types of its results: `TensorSpec`s, or anything with `shape` and
            `dtype`.
        vmap_method: "sequential" calls it once per slice of a batch; "broadcast_all" once, with all arguments
            broadcast to the batch; "expand_dims" once, with a leading axis of extent 1 for arguments without a batch.
            With None, `vmap` is an error.

    Raises:
        ADRuleUnsupportedError: it is differentiated.
        UnsupportedError: it is batched without vmap_method, or lowered for another platform, process or file; on the
            peer, elements of less than 8 bits.
        ArityError, ShapeError, DTypeError: the callback returns something else than declared.
        InvalidConfigError: another vmap_method.

    >>> import numpy as np, scipy.special, tenferro as tnf
    >>> @tnf.jit
    ... def f(x):
    ...     return 2 * tnf.pure_callback(scipy.special.j0, x, x, vmap_method="broadcast_all")
    >>> f(np.zeros(2))
    array([2., 2.])

    Source: jax.pure_callback.
    """
    if not callable(callback):
        raise InvalidConfigError(f"pure_callback: expected a function, got {callback!r:.60}")
    if vmap_method is not None and vmap_method not in METHODS:
        raise InvalidConfigError(
            f"pure_callback: vmap_method must be None or one of {', '.join(METHODS)}, got {vmap_method!r}"
        )
    specs, out_tree = flatten(result_shape_dtypes)
    types = tuple([TensorSpec(tuple(spec.shape), spec.dtype) for spec in specs])
    leaves, tree = flatten((args, kwargs))
    operands = [as_operand(leaf) for leaf in leaves]
    if not types:
        raise InvalidConfigError(
            "pure_callback: result_shape_dtypes has no leaf; use check or debug_print for effects"
        )
    function = _FlatFunction(callback, tree, out_tree, types)
    if not operands:
        raise InvalidConfigError(
            "pure_callback: needs at least one argument, of which its result is a function"
        )
    outputs = apply(Callback(function, types, len(operands), vmap_method), *operands)
    return unflatten(out_tree, list(outputs) if len(types) > 1 else [outputs])
