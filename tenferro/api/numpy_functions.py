"""NumPy's functions on our tensors: `np.sum(x, 0)` of a tensor is `tenferro.sum(x, 0)`, by NumPy's two protocols.

A function of NumPy's is ours of the same name, which takes the same arguments. The tables here hold the few
that mean something else in NumPy. What has no counterpart, and an argument that has no meaning for tensors, runs
on the elements of eager tensors that are not tracked, and gives NumPy's arrays; for others it is an error.

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
from tenferro.api.promotion import convert, result_type
from tenferro.door import as_operand, is_traced, spec_of
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types import ArrayLike, DType, DTypeLike, Tensor, UfuncOptions, flatten, unflatten

__all__ = ["DIFFERENT", "FUNCTIONS", "REDUCTIONS", "SCANS", "UFUNCS", "call_function", "call_ufunc"]


# ---- what NumPy means otherwise ----------------------------------------------------------------------------------


def _numpy_dtype(operand: Any) -> Any:
    """What NumPy calls the dtype of a tensor, or of what else decides one."""
    return operand.spec.dtype.dtype if is_traced(operand) else operand


def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """NumPy's table of casts, where ours asks for what promotes."""
    return np.can_cast(_numpy_dtype(from_), _numpy_dtype(to), casting)


def _common_dtype(*arrays_and_dtypes: DTypeLike | ArrayLike) -> Any:
    """A dtype of NumPy's, where ours is a `DType`."""
    return result_type(*(DType.of(x) if isinstance(x, str) else x for x in arrays_and_dtypes)).dtype


def _unsigned_count(x: Tensor, /) -> Any:
    """The bits of the magnitude, as uint8."""
    x = as_operand(x)
    if spec_of(x).dtype.is_bool:
        return convert(x, DType.U8)
    return convert(elementwise.bitwise_count(elementwise.abs(x)), DType.U8)


def _of_numbers(function: Callable[..., Any]) -> Any:
    """A function that NumPy computes in int8 of truths."""

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
            f"np.reciprocal of {spec_of(x)} is an integer; use 1 / x, or convert x to a float dtype"
        )
    return elementwise.reciprocal(x, **options)


def _cholesky(a: Tensor, /, *, upper: bool = False) -> Any:
    """NumPy reads one triangle, where ours takes the Hermitian part."""
    triangle = "U" if upper else "L"
    return linalg.cholesky(linalg.hermitian_of(as_operand(a), triangle), upper=upper)


def _eigh(a: Tensor, UPLO: str = "L") -> Any:  # because NumPy calls it so
    """NumPy reads the lower triangle by default, where ours takes the Hermitian part."""
    return linalg.eigh(a, UPLO)


def _eigvalsh(a: Tensor, UPLO: str = "L") -> Any:  # because NumPy calls it so
    return linalg.eigvalsh(a, UPLO)


_NOT_GIVEN: Any = getattr(np, "_NoValue", None)
"""NumPy's own mark of an argument that was not given."""


def _pinv(
    a: Tensor, rcond: Tensor | None = None, hermitian: bool = False, *, rtol: Tensor = _NOT_GIVEN
) -> Any:
    """NumPy's default cutoff is 1e-15, and that of rtol=None the one that ours has by default."""
    if rcond is not None and rtol is not _NOT_GIVEN:
        raise InvalidConfigError("np.linalg.pinv: rcond and rtol are one thing; give one of them")
    cutoff = (1e-15 if rcond is None else rcond) if rtol is _NOT_GIVEN else rtol
    return linalg.pinv(a, hermitian=hermitian, rtol=cutoff)


# ---- the tables ------------------------------------------------------------------------------------------------

DIFFERENT: Mapping[Any, Callable[..., Any] | None] = MappingProxyType(
    {
        np.bitwise_count: _unsigned_count, np.can_cast: _can_cast, np.linalg.cholesky: _cholesky,
        np.einsum_path: None, np.linalg.eig: None, np.linalg.eigh: _eigh, np.linalg.eigvals: None, np.linalg.eigvalsh: _eigvalsh,
        np.linalg.pinv: _pinv, np.reciprocal: _reciprocal, np.result_type: _common_dtype,
    }
    | {
        getattr(np, name): _of_numbers(getattr(elementwise, name))
        for name in ("bitwise_left_shift", "bitwise_right_shift", "conj", "fmod", "square")
    }
)  # fmt: skip
"""NumPy's functions that mean something else than ours of the name; None where there is no counterpart."""

_OF_NO_TENSOR = frozenset({
    "arange", "broadcast_shapes", "isscalar", "array", "asarray", "empty", "eye", "from_dlpack", "full", "identity", "isdtype", "ones", "tri", "zeros",
    "fftfreq", "rfftfreq",
})  # fmt: skip
"""Functions that NumPy does not ask us for, because none of their arguments is a tensor."""


def _counterparts(theirs: Any, ours: Any) -> dict[Any, Callable[..., Any]]:
    """NumPy's functions of a module, and ours of the same names."""
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
"""What `ufunc.reduce` is."""

SCANS: Mapping[np.ufunc, Callable[..., Any]] = MappingProxyType(
    {np.add: reductions.cumsum, np.multiply: reductions.cumprod}
)
"""What `ufunc.accumulate` is."""


# ---- the protocols -----------------------------------------------------------------------------------------------


def call_function(
    function: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """What a function of NumPy gives for arguments some of which are tensors.

    Raises:
        UnsupportedError: a function or an argument without meaning for tensors of a trace or tracked ones.
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
    """What a ufunc, or a method of one, gives for operands some of which are tensors.

    Raises:
        UnsupportedError: a ufunc, method or option without meaning for tensors of a trace or tracked ones.
    """
    if any(_is_foreign(type(x), "__array_ufunc__") for x in inputs):
        return NotImplemented
    if method == "__call__" and not options and ufunc in UFUNCS:
        return UFUNCS[ufunc](*inputs)
    function, name = ufunc, f"np.{ufunc.__name__}"
    if method != "__call__":
        function, name = getattr(ufunc, method), f"{name}.{method}"
    if method == "at" and is_traced(inputs[0]):
        # NumPy writes into vectors even where they are marked as not to be written to.
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
    """Our function for a method of a ufunc; None without one."""
    function = UFUNCS.get(ufunc)
    if method == "__call__":
        return function
    if method == "outer" and function is not None and ufunc.nin == 2 and ufunc.signature is None:
        return lambda a, b, /, **options: _all_pairs(function, a, b, options)
    return {"reduce": REDUCTIONS, "accumulate": SCANS}.get(method, {}).get(ufunc)


def _understood(
    name: str, method: str, counterpart: Callable[..., Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The options that our function has, of a reduction or a scan; all of another, which refuses them itself.

    Raises:
        ArgumentRefusedError: an option that it has not, and that says something.
    """
    if method not in ("reduce", "accumulate"):
        return dict(options)
    known = inspect.signature(counterpart).parameters
    explicit = {option: value for option, value in options.items() if value is not _NOT_GIVEN}
    for option in explicit.keys() - known.keys():
        refuse(name, option, explicit[option])
    return {option: value for option, value in explicit.items() if option in known}


def _all_pairs(
    function: Callable[..., Any], a: Tensor, b: Tensor, options: Mapping[str, Any]
) -> Any:
    """The function of every element of one operand with every element of the other."""
    a, b = as_operand(a), as_operand(b)
    return function(manipulation.reshape(a, (*a.shape, *[1] * len(b.shape))), b, **options)


def _is_foreign(kind: type, protocol: str) -> bool:
    """Whether a class that is neither NumPy's nor ours takes part, so that NumPy is to ask it."""
    if kind is np.ndarray or hasattr(kind, "__tenferro_apply__"):
        return False
    return hasattr(kind, protocol) and not issubclass(kind, np.ndarray | np.generic)


def _on_elements(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], reason: str
) -> Any:
    """NumPy's function of the elements of eager tensors.

    Raises:
        UnsupportedError: a tensor of a trace, which has none, or a tracked one, whose gradient would be lost.
    """
    leaves, treedef = flatten((tuple(args), dict(kwargs)))
    for x in leaves:
        if is_traced(x) and getattr(x, "is_tracked", True):
            is_eager = hasattr(x, "is_tracked")
            raise UnsupportedError(
                f"{reason}, and {x.spec} {'is tracked' if is_eager else 'belongs to a trace'}; "
                f"use tenferro's functions on it{', or detach() it' if is_eager else ''}"
            )
    if not any(map(is_traced, leaves)):  # NumPy takes its like= away before it asks
        raise UnsupportedError(
            f"{reason} with a tensor as like=; tenferro's creation functions take one"
        )
    arrays = [np.asarray(x) if is_traced(x) else x for x in leaves]
    args, kwargs = unflatten(treedef, arrays)
    return function(*args, **kwargs)


def _name_of(function: Callable[..., Any]) -> str:
    """The function as a caller writes it."""
    module = function.__module__ or ""
    if not module.startswith("numpy"):
        return f"{module}.{function.__name__}"
    place = next((part for part in ("linalg", "fft") if part in module), None)
    return ".".join(["np", *([place] if place else []), function.__name__])
