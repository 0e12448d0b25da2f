"""NumPy's functions on tensors: for a tensor x, NumPy's protocols make `np.sum(x, 0)` call `tenferro.sum(x, 0)`.

Most NumPy functions call their counterpart, tenferro's function of the same name, with the same arguments. The tables
in this file list the functions whose meaning differs in NumPy. If there is no counterpart, or an argument has no
meaning for tensors, the elements of untracked eager tensors are passed to NumPy's function, which returns NumPy arrays.
For traced tensors and tracked eager tensors an error is raised.

Source: NumPy 2.4, reference; NEP 13 and NEP 18, the protocols.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Unpack

import numpy as np

import tenferro.api as surface
from tenferro.api import elementwise, fft, linalg, manipulation, reductions
from tenferro.api.arguments import ArgumentRefusedError, refuse
from tenferro.api.linalg.matrices import hermitian_of
from tenferro.api.namespace import namespace
from tenferro.api.promotion import convert, result_type
from tenferro.dispatch import as_operand, is_traced, spec_of
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor, UfuncOptions, flatten, unflatten

__all__ = ["DIFFERENT", "FUNCTIONS", "REDUCTIONS", "SCANS", "UFUNCS", "call_function", "call_ufunc"]


# ---- counterparts of functions whose meaning differs in NumPy ------------------------------------------------------


def _numpy_dtype(operand: Any) -> Any:
    """Return the NumPy dtype of a tensor; any other operand is unchanged."""
    return operand.spec.dtype.dtype if is_traced(operand) else operand


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Return NumPy's answer for the NumPy dtypes of tensors: its casting rules differ from tenferro's promotion."""
    return np.can_cast(_numpy_dtype(from_), _numpy_dtype(to), casting)


def _common_dtype(*arrays_and_dtypes: DTypeLike | ArrayLike) -> Any:
    """Return the common dtype as a NumPy dtype, instead of a `DType`."""
    return result_type(*arrays_and_dtypes).dtype


def _of_numbers(function: Callable[..., Any]) -> Any:
    """Wrap a function so that it converts bools to int8, as NumPy does."""

    def of_arrays(x1: ArrayLike, /, *x2: ArrayLike, **options: Unpack[UfuncOptions]) -> Any:
        operands = [
            as_operand(x) if not isinstance(x, int | float | complex) else x for x in (x1, *x2)
        ]
        if result_type(*operands).is_bool:
            operands = [convert(x, DType.I8) for x in operands]
        return function(*operands, **options)

    return of_arrays


def _reciprocal(x: Tensor, /, **options: Unpack[UfuncOptions]) -> Any:
    x = as_operand(x)
    if not spec_of(x).dtype.is_inexact:
        raise UnsupportedError(
            f"np.reciprocal of integers, got {spec_of(x)}, would be an integer; use 1 / x, or convert x to a float dtype"
        )
    return elementwise.reciprocal(x, **options)


def _cholesky(a: Tensor, /, *, upper: bool = False) -> Any:
    """Factorise the Hermitian matrix that one triangle of `a` defines, as NumPy does, instead of the Hermitian part."""
    triangle = "U" if upper else "L"
    return linalg.cholesky(hermitian_of(as_operand(a), triangle), upper=upper)


def _eigh(a: Tensor, UPLO: str = "L") -> Any:  # because `UPLO` is NumPy's name
    """Compute eigenvalues and eigenvectors of the Hermitian matrix that one triangle of `a` defines, as NumPy does."""
    return linalg.eigh(a, UPLO)


def _eigvalsh(a: Tensor, UPLO: str = "L") -> Any:  # because `UPLO` is NumPy's name
    return linalg.eigvalsh(a, UPLO)


def _i0(x: Tensor) -> Any:
    return namespace().module.i0(x)


_NOT_GIVEN: Any = getattr(np, "_NoValue", None)
"""Value by which NumPy recognises an omitted argument."""


def _pinv(
    a: Tensor, rcond: Tensor | None = None, hermitian: bool = False, *, rtol: Tensor = _NOT_GIVEN
) -> Any:
    """Compute the pseudoinverse with NumPy's default cutoff. If `rtol` is None, use that of `tenferro.linalg.pinv`."""
    if rcond is not None and rtol is not _NOT_GIVEN:
        raise InvalidConfigError("np.linalg.pinv: rcond and rtol name one option; give one of them")
    cutoff = (1e-15 if rcond is None else rcond) if rtol is _NOT_GIVEN else rtol
    return linalg.pinv(a, hermitian=hermitian, rtol=cutoff)


# ---- the tables ------------------------------------------------------------------------------------------------

DIFFERENT: Mapping[Any, Callable[..., Any] | None] = MappingProxyType(
    {
        np.can_cast: _can_cast, np.linalg.cholesky: _cholesky,
        np.einsum_path: None, np.linalg.eigh: _eigh, np.linalg.eigvalsh: _eigvalsh,
        np.fill_diagonal: None, np.i0: _i0, np.place: None, np.put: None, np.put_along_axis: None, np.roots: None,
        np.linalg.pinv: _pinv, np.reciprocal: _reciprocal, np.result_type: _common_dtype,
    }
    | {
        getattr(np, name): _of_numbers(getattr(elementwise, name))
        for name in ("bitwise_left_shift", "bitwise_right_shift", "conj", "fmod", "square")
    }
)  # fmt: skip
"""NumPy functions whose meaning differs from that of tenferro's function of the same name.

The value is the counterpart, or None if there is no counterpart.
"""

_OF_NO_TENSOR = frozenset({
    "arange", "broadcast_shapes", "isscalar", "array", "asarray", "empty", "eye", "from_dlpack", "full", "identity", "isdtype", "ones", "tri", "zeros",
    "fftfreq", "rfftfreq", "bartlett", "blackman", "hamming", "hanning", "kaiser", "diag_indices", "fromfunction", "frompyfunc", "indices",
    "issubdtype", "iterable", "mask_indices", "promote_types", "tril_indices", "triu_indices", "vectorize",
})  # fmt: skip
"""Functions that NumPy does not dispatch, because none of their arguments is a tensor."""


def _counterparts(theirs: Any, ours: Any) -> dict[Any, Callable[..., Any]]:
    """Map the functions of a NumPy module to the functions of the same names in our module."""
    table: dict[Any, Callable[..., Any]] = {}
    for name in ours.__all__:
        function, own = getattr(theirs, name, None), getattr(ours, name)
        is_function = callable(function) and callable(own) and not isinstance(function, type)
        if is_function and name not in _OF_NO_TENSOR:
            own = DIFFERENT.get(function, own)
            if own is not None:
                table[function] = own
    return table


_ALL = {
    np.i0: _i0,
    **_counterparts(np, surface),
    **_counterparts(np.linalg, linalg),
    **_counterparts(np.fft, fft),
}

UFUNCS: Mapping[Any, Callable[..., Any]] = MappingProxyType(
    {function: own for function, own in _ALL.items() if isinstance(function, np.ufunc)}
)
FUNCTIONS: Mapping[Any, Callable[..., Any]] = MappingProxyType(
    {function: own for function, own in _ALL.items() if not isinstance(function, np.ufunc)}
)

REDUCTIONS: Mapping[np.ufunc, Callable[..., Any]] = MappingProxyType(
    {
        np.add: reductions.sum, np.multiply: reductions.prod, np.maximum: reductions.max,
        np.minimum: reductions.min, np.logical_and: reductions.all, np.logical_or: reductions.any,
    }
)  # fmt: skip
"""Counterparts of `ufunc.reduce`, by ufunc."""

SCANS: Mapping[np.ufunc, Callable[..., Any]] = MappingProxyType(
    {
        np.add: reductions.cumsum, np.multiply: reductions.cumprod, np.maximum: reductions.running_max,
        np.minimum: reductions.running_min,
    }
)  # fmt: skip
"""Counterparts of `ufunc.accumulate`, by ufunc."""


# ---- the protocols -----------------------------------------------------------------------------------------------


def call_function(
    function: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call the counterpart of a NumPy function that was called with tensors among its arguments.

    Raises:
        UnsupportedError: a tensor is traced or tracked, and the function or an argument has no meaning for tensors.
    """
    if any(_is_foreign(kind, "__array_function__") for kind in types):
        return NotImplemented
    counterpart = FUNCTIONS.get(function)
    if counterpart is None:
        reason = f"{_name_of(function)} has no counterpart"
        return _on_elements(function, args, kwargs, reason)
    try:
        return counterpart(*args, **kwargs)
    except ArgumentRefusedError as refused:
        reason = f"{_name_of(function)}: {refused.reason}"
    return _on_elements(function, args, kwargs, reason)


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call the counterpart of a ufunc, or of a ufunc's method, that was called with tensors among its operands.

    Raises:
        UnsupportedError: a tensor is traced or tracked, and the ufunc, method or option has no meaning for tensors.
    """
    if any(_is_foreign(type(x), "__array_ufunc__") for x in inputs):
        return NotImplemented
    if method == "__call__" and not options and ufunc in UFUNCS:
        return UFUNCS[ufunc](*inputs)
    function, name = ufunc, f"np.{ufunc.__name__}"
    if method != "__call__":
        function, name = getattr(ufunc, method), f"{name}.{method}"
    if method == "at" and is_traced(inputs[0]):
        # This is also an error for eager tensors, because NumPy's `at` would write into their arrays, even read-only
        # arrays.
        raise UnsupportedError(
            f"{name} writes into its operand, and {inputs[0].spec} is a value; "
            "x.at[index].add(values) and its like give a new tensor"
        )
    if method in ("reduce", "accumulate"):
        options = {"axis": 0, **options}
    counterpart = _method(ufunc, method)
    if counterpart is None:
        return _on_elements(function, inputs, options, f"{name} has no counterpart")
    try:
        return counterpart(*inputs, **_understood(name, method, counterpart, options))
    except ArgumentRefusedError as refused:
        reason = f"{name}: {refused.reason}"
    return _on_elements(function, inputs, options, reason)


def _method(ufunc: np.ufunc, method: str) -> Callable[..., Any] | None:
    """Return the counterpart of a ufunc's method; None if there is none."""
    function = UFUNCS.get(ufunc)
    if method == "__call__":
        return function
    if method == "outer" and function is not None and ufunc.nin == 2 and ufunc.signature is None:
        return lambda a, b, /, **options: _all_pairs(function, a, b, options)
    return {"reduce": REDUCTIONS, "accumulate": SCANS}.get(method, {}).get(ufunc)


def _understood(
    name: str, method: str, counterpart: Callable[..., Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Remove options with default values that the counterpart of a reduction or a scan does not have.

    For other methods, return all options.

    Raises:
        ArgumentRefusedError: the counterpart lacks an option whose value is not the default.
    """
    if method not in ("reduce", "accumulate"):
        return dict(options)
    parameters = inspect.signature(counterpart).parameters
    explicit = {option: value for option, value in options.items() if value is not _NOT_GIVEN}
    for option in explicit.keys() - parameters.keys():
        refuse(name, option, explicit[option])
    return {option: value for option, value in explicit.items() if option in parameters}


def _all_pairs(
    function: Callable[..., Any], a: Tensor, b: Tensor, options: Mapping[str, Any]
) -> Any:
    """Apply a function to all pairs of an element of `a` and an element of `b`, as `ufunc.outer` does."""
    a, b = as_operand(a), as_operand(b)
    return function(manipulation.reshape(a, (*a.shape, *[1] * len(b.shape))), b, **options)


def _is_foreign(kind: type, protocol: str) -> bool:
    """Return whether a class of another library implements the protocol. NumPy must then call that library."""
    if kind is np.ndarray or hasattr(kind, "__tenferro_apply__"):
        return False
    return hasattr(kind, protocol) and not issubclass(kind, np.ndarray | np.generic)


def _on_elements(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], reason: str
) -> Any:
    """Apply NumPy's function to the elements of eager tensors.

    Raises:
        UnsupportedError: a tensor is traced, and so has no elements, or is tracked, and its gradient would be lost.
    """
    leaves, treedef = flatten((tuple(args), dict(kwargs)))
    for x in leaves:
        if is_traced(x) and getattr(x, "is_tracked", True):
            is_eager = hasattr(x, "is_tracked")
            raise UnsupportedError(
                f"{reason}, and {x.spec} {'is tracked' if is_eager else 'belongs to a trace'}; "
                f"use tenferro's functions on it{', or detach() it' if is_eager else ''}"
            )
    if not any(
        map(is_traced, leaves)
    ):  # then the tensor was the argument like=, which NumPy removes before it calls the protocol
        raise UnsupportedError(
            f"{reason} with a tensor as like=; tenferro's creation functions take one"
        )
    arrays = [np.asarray(x) if is_traced(x) else x for x in leaves]
    args, kwargs = unflatten(treedef, arrays)
    return function(*args, **kwargs)


def _name_of(function: Callable[..., Any]) -> str:
    """Return the name by which users call a NumPy function, such as `np.linalg.norm`."""
    module = function.__module__ or ""
    if not module.startswith("numpy"):
        return f"{module}.{function.__name__}"
    submodule = next((part for part in ("linalg", "fft") if part in module), None)
    return ".".join(["np", *([submodule] if submodule else []), function.__name__])
