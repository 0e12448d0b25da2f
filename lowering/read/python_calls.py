"""Readers of custom calls of Python functions: functions that are registered for a target, and JAX's callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.families.callbacks import HANDLER
from lowering.module_tree import Operation
from lowering.read.custom_calls import CUSTOM_CALLS
from lowering.read.reader import Reader
from tenferro.errors import (
    ArityError,
    DTypeError,
    DuplicateFamilyError,
    InvalidConfigError,
    ShapeError,
    UnsupportedError,
)
from tenferro.ext.host.families import Callback
from tenferro.ops.extension import Extension
from tenferro.types import DType, TensorSpec

__all__ = ["python_call", "register_custom_call"]

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_LOCK = threading.Lock()


def register_custom_call(
    target: str, function: Callable[..., Any], *, replace: bool = False
) -> None:
    """Register a Python function for a target: custom calls of this target are read as calls of the function.

    The function's arguments are the operands as NumPy arrays, and the entries of the call's `backend_config` as keyword
    arguments. If `backend_config` is a string, it is passed as `backend_config=`. The function returns an
    array, or a sequence with one array per result. Its results must depend only on its arguments, and it must
    not modify its arguments.

    A program with such a call runs natively. Differentiation and batching treat the call like
    `tenferro.pure_callback`. Lowering raises an error.

    Args:
        target: the call's `call_target_name`.
        function: the Python function.
        replace: whether the function may replace a registered function.

    Raises:
        DuplicateFamilyError: the target already has a function, and `replace` is not set; or it has a built-in
            reader.
        InvalidConfigError: `function` is not a function.

    When a program runs the call, it raises BackendFailureError if the function fails, or if its results do not have the
    declared types. The cause of this error is the function's error, or an error about the types.

    >>> import numpy as np
    >>> from lowering import import_stablehlo
    >>> register_custom_call("example.scale", lambda x, factor: factor * x)
    >>> program = import_stablehlo('''
    ... func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    ...   %0 = stablehlo.custom_call @example.scale(%x) {api_version = 4 : i32,
    ...     backend_config = {factor = 3.0 : f64}} : (tensor<2xf64>) -> tensor<2xf64>
    ...   return %0 : tensor<2xf64>
    ... }''')
    >>> program.run(np.array([1.0, 2.0]))
    array([3., 6.])

    Source: StableHLO spec #custom_call.
    """
    if not callable(function):
        raise InvalidConfigError(
            f"register_custom_call: function must be a function, got {function!r:.60}"
        )
    if target in CUSTOM_CALLS:
        raise DuplicateFamilyError(f"calls to {target!r} already have a built-in reader")
    with _LOCK:
        if target in _FUNCTIONS and not replace:
            raise DuplicateFamilyError(f"calls to {target!r} already have a function")
        _FUNCTIONS[target] = function


def python_call(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int] | None:
    """Read a call of the Python function that is registered for its target; return None if there is none.

    Raises:
        UnsupportedError: the call has no operands or no results, or a result has a dynamic extent.
    """
    a = operation.attributes
    target = a["call_target_name"]
    if target == HANDLER and r.callbacks:
        return _jax_callback(r, operation, operands)
    function = _FUNCTIONS.get(target)
    if function is None:
        return None
    types = [spec for spec in operation.types if isinstance(spec, TensorSpec)]
    if not operands or not types or not all([spec.is_static for spec in types]):
        raise UnsupportedError(
            f"custom_call @{target}: a Python function has operands and results here, and the extents of results are "
            "numbers"
        )
    config = operation.config
    keywords = config if isinstance(config, dict) else {"backend_config": config} if config else {}
    call = _Call(target, function, keywords, tuple(types))
    return r.apply(Extension(Callback(call, tuple(types), len(operands))), *operands)


def _jax_callback(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a call of one of the Python functions that JAX passes to the compiler with the module.

    A call with effects is ordered after the preceding calls with effects. Its first operands may be tokens.
    """
    attributes = operation.attributes
    function = r.callbacks[int(operation.config["index"])]
    types = [spec for spec in operation.types if isinstance(spec, TensorSpec)]
    tokens = len(operation.types) - len(types)
    values = operands[tokens:]
    has_effects = bool(attributes.get("has_side_effect"))
    call = _JaxCallback(function, bool(tokens))
    op = Callback(
        call,
        (TensorSpec((), "bool"), *types),
        1 + len(values),
        method="sequential",
        effects=has_effects,
    )
    if has_effects:
        done, *results = r.builder.apply_effect(Extension(op), *values, source=r.source)
    else:
        done, *results = r.apply(Extension(op), r.constant(False), *values)
    return [*[done] * tokens, *results]


@dataclass(frozen=True, eq=False)
class _JaxCallback:
    """Wrapper of a Python function of JAX, which adds an operand and a result that order calls with effects.

    The added result is always False.

    Attributes:
        takes_token: whether the function has a token as its first argument and result.
    """

    function: Callable[..., Any]
    takes_token: bool

    def __repr__(self) -> str:
        return "<callback of JAX>"

    def __call__(self, after: Any, *arrays: Any) -> Sequence[Any]:
        """Call the function, and return False and its results."""
        if self.takes_token:
            return [np.False_, *self.function(after, *arrays)[1:]]
        return [np.False_, *self.function(*arrays)]


@dataclass(frozen=True, eq=False)
class _Call:
    """Wrapper of a registered function, which checks the number, shapes and dtypes of its results."""

    target: str
    function: Callable[..., Any]
    keywords: Mapping[str, Any]
    types: tuple[TensorSpec, ...]

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        """Call the function, and return its results as a list of arrays.

        Raises:
            ArityError, ShapeError, DTypeError: the results do not match the module's declarations.
        """
        returned = self.function(*arrays, **self.keywords)
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        where = f"custom_call @{self.target}: its function returns"
        if len(results) != len(self.types):
            raise ArityError(f"{where} {len(results)} results, declared are {len(self.types)}")
        checked: list[Any] = []
        for result, spec in zip(results, self.types, strict=True):
            array = np.asarray(result)
            if array.shape != spec.shape:
                raise ShapeError(f"{where} shape {array.shape}, declared is {spec}")
            if array.dtype.kind not in "biufcV" or DType.of(array.dtype) is not spec.dtype:
                raise DTypeError(f"{where} {array.dtype}, declared is {spec}")
            checked.append(array)
        return checked
