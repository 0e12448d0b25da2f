"""Checks of conditions in running programs, and calls of Python functions from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.api.compile import name_of
from tenferro.api.printing import numbered_template
from tenferro.api.tensor import TracedTensor, value_in
from tenferro.dispatch import as_operand, spec_of
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.ext.host.families import Callback, Check
from tenferro.extension import apply
from tenferro.ops.extension import Extension
from tenferro.types import ArrayLike, PyTree, TensorSpec, TreeDef, flatten, unflatten

__all__ = ["check", "pure_callback"]

METHODS = ("sequential", "expand_dims", "broadcast_all")


def check(condition: ArrayLike, message: str, *args: Any, **kwargs: Any) -> None:
    """Raise an error with the text message.format(*args, **kwargs), unless all elements of the condition are true.

    In a jitted function or a program, including its loops and branches, the check runs with the program. Outside of
    traces it runs at once. Under `vmap`, the message shows the first slice that fails. A derivative also runs the
    checks of its function.

    An `XlaExecutor` computes the conditions as additional results and raises the error after the run. It does not
    accept checks in loops and branches.

    Args:
        condition: a bool tensor.
        message: a template as for `str.format`, in which tensors are formatted as NumPy arrays.

    Raises:
        CheckFailedError: an element of the condition is false; the error shows the line of your code.
        DTypeError: the condition is not a bool tensor.
        InvalidConfigError: a field of the message has no value, or a value has no field.

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

    Source: `jax.experimental.checkify.check`, which in JAX requires that the function is transformed by `checkify`.
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
    """Function from arrays to a list of arrays that calls a function of trees, whose result types are declared."""

    function: Callable[..., Any]
    tree: TreeDef
    out_tree: TreeDef
    types: tuple[TensorSpec, ...]

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        """Call the function, and return the leaves of the results, converted to the declared dtypes.

        Raises:
            ArityError, ShapeError, DTypeError: the results do not match the declared structure or types.
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
    """Call the Python function `callback(*args, **kwargs)` on NumPy arrays when the program runs; return its results.

    The callback must be pure and must not write to its arguments: equal calls may be merged, and calls with unused
    results are omitted. The native executor and an `XlaExecutor` on the CPU of this process support callbacks; lowering
    to text is an error. To differentiate a callback, wrap it in `custom_jvp` or `custom_vjp`.

    Args:
        result_shape_dtypes: the types of the callback's results, as a tree of `TensorSpec`s, or of other objects with
            `shape` and `dtype`.
        vmap_method: how `vmap` calls the callback. "sequential" calls it once per slice of a batch. "broadcast_all"
            calls it once, with all arguments broadcast to the batch. "expand_dims" calls it once, with a leading axis
            of extent 1 for arguments without a batch. With None, `vmap` raises an error.

    Raises:
        ADRuleUnsupportedError: the callback is differentiated.
        UnsupportedError: `vmap` is applied and `vmap_method` is None; or the program is lowered for another platform,
            process or file; or, through XLA, elements have less than 8 bits.
        ArityError, ShapeError, DTypeError: the callback's results do not match `result_shape_dtypes`.
        InvalidConfigError: `vmap_method` is unknown.

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
