"""Checks of arguments against specs: structure, dtype, rank and extents. Arrays are never cast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.dims import GuardLog, SymDim, Unknown, UpperBound
from tenferro.errors import (
    ArityError,
    BackendFailureError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
)
from tenferro.interruption import is_interruption
from tenferro.types import DType, TensorSpec, TreeDef, agree, difference, flatten, host_array

__all__ = [
    "as_extents",
    "bind_symbols",
    "check_arguments",
    "check_leaves",
    "extents_spec",
    "is_extents",
]

_KEPT_KINDS = {"b": "biufc", "i": "iufc", "f": "fc", "c": "c"}
"""Kinds of array dtypes that NumPy keeps in arithmetic with a Python number, by the kind of the number."""


def check_arguments(
    in_tree: TreeDef, specs: Sequence[TensorSpec], names: Sequence[str], arguments: tuple[Any, ...]
) -> list[Any]:
    """Return the leaves of `arguments` as arrays that have the declared dtypes and ranks.

    A Python number is converted to the declared dtype if NumPy would keep that dtype in arithmetic with the number.

    Raises:
        ArityError: the number of arguments, or their structure, is wrong.
        DTypeError, ShapeError: a leaf has a wrong dtype or rank; the message names the leaf.
        BackendFailureError: a leaf is not on the host, or is sharded over several devices.
    """
    leaves, tree = flatten(arguments)
    if not agree(tree, in_tree):
        if len(leaves) != len(specs):
            raise ArityError(
                f"the program takes {len(specs)} arrays ({', '.join(names)}), got {len(leaves)}"
            )
        parting = difference(in_tree, tree, ("expected", "got"))
        raise ArityError(f"the arguments have another structure: {parting}")
    return check_leaves(specs, names, leaves)


def check_leaves(
    specs: Sequence[TensorSpec], names: Sequence[str], leaves: Sequence[Any]
) -> list[Any]:
    """Return `leaves` as arrays that have the declared dtypes and ranks.

    Raises:
        DTypeError, ShapeError: a leaf has a wrong dtype or rank; the message names the leaf.
        BackendFailureError: a leaf is not on the host, or is sharded over several devices.
    """
    return [
        leaf
        if type(leaf) is np.ndarray and leaf.dtype == spec.dtype.dtype and leaf.ndim == spec.rank
        else _as_array(leaf, spec, name)
        for leaf, spec, name in zip(leaves, specs, names, strict=True)
    ]


def extents_spec(extents: Sequence[Any]) -> TensorSpec:
    """Return the type of an argument that passes shapes as integers: an empty array whose shape begins with `extents`.

    >>> extents_spec([SymDim("n"), 3])
    bool[n,3,0]
    """
    return TensorSpec.of((*extents, 0), DType.Bool)


def is_extents(spec: TensorSpec) -> bool:
    """Return whether `spec` is a type that `extents_spec` returns."""
    return spec.dtype is DType.Bool and spec.rank > 1 and spec.shape[-1] == 0


def as_extents(leaf: Any, spec: TensorSpec, name: str) -> Any:
    """Convert integers to the empty array of `extents_spec`; return anything else, and tensors of a trace, unchanged.

    Raises:
        ShapeError: an integer is negative.

    >>> as_extents(5, extents_spec([SymDim("n")]), "n").shape
    (5, 0)
    """
    if not is_extents(spec) or hasattr(type(leaf), "__tenferro_apply__"):
        return leaf
    numbers = host_array(leaf, name)
    if numbers.dtype.kind not in "iu" or numbers.size != spec.rank - 1:
        return leaf
    if (numbers < 0).any():
        raise ShapeError(f"{name}: an extent must be at least 0, got {numbers.tolist()}")
    return np.empty((*numbers.ravel().tolist(), 0), np.bool_)


def bind_symbols(
    specs: Sequence[TensorSpec],
    names: Sequence[str],
    shapes: Sequence[Sequence[Any]],
    guards: GuardLog | None = None,
) -> dict[Any, Any]:
    """Return the extent of each symbol in `specs`, as determined by the shapes of the arguments.

    An axis determines a symbol if its declared extent is that symbol, or is linear in a single symbol that is not yet
    determined. All other declared extents are checked against the symbols.

    Args:
        shapes: one shape for each argument. The extents are numbers or, if a trace calls the program, extents of the
            trace.
        guards: the guards of that trace, to which conditions on the trace's symbols are added.

    Raises:
        ShapeError: an extent contradicts its spec, or no axis determines a symbol.
    """
    bindings: dict[Any, Any] = {}
    pending: list[tuple[str, int, Any, Any]] = []
    for spec, name, shape in zip(specs, names, shapes, strict=True):
        if len(shape) != len(spec.shape):
            raise ShapeError(f"{name}: expected {spec}, got shape {tuple(shape)}")
        for axis, (extent, actual) in enumerate(zip(spec.shape, shape, strict=True)):
            if isinstance(extent, int):
                if not _may_be_equal(extent, actual, guards, name, axis):
                    raise ShapeError(
                        f"{name}: axis {axis} must have extent {extent}, got {actual}; "
                        f"expected {spec}, got shape {tuple(shape)}"
                    )
                continue
            if isinstance(extent, UpperBound | Unknown):
                continue  # because a data-dependent extent determines no symbol
            leaf = extent.as_leaf()
            if leaf is not None and leaf not in bindings:
                bindings[leaf] = actual
            else:
                pending.append((name, axis, extent, actual))
    for _ in range(len(pending)):
        for _name, _axis, extent, actual in pending:
            _solve(extent, actual, bindings)
    for name, axis, extent, actual in pending:
        if not extent.leaves() <= bindings.keys():
            raise ShapeError(
                f"{name}: axis {axis} has extent {extent}, which no other extent determines"
            )
        value = extent.evaluate(bindings)
        if not _may_be_equal(value, actual, guards, name, axis):
            raise ShapeError(
                f"{name}: axis {axis} must have extent {extent} = {value}, got {actual}"
            )
    return bindings


def _may_be_equal(extent: Any, actual: Any, guards: GuardLog | None, name: str, axis: int) -> bool:
    """Return whether two extents may be equal. If only their values at run time decide, add a guard."""
    if guards is None:
        return extent == actual
    return guards.meet(actual, extent, f"{name}: axis {axis}") is not None


def _solve(extent: SymDim, actual: Any, bindings: dict[Any, Any]) -> None:
    """Solve a linear extent for its only unbound symbol. Add the symbol to `bindings` if the solution is an integer."""
    unbound = extent.leaves() - bindings.keys()
    if len(unbound) != 1 or extent.operations:
        return
    (leaf,) = unbound
    constant, once, twice = (extent.evaluate({**bindings, leaf: n}) for n in range(3))
    factor = once - constant
    if not isinstance(factor, int) or not factor or twice - once != factor:
        return
    rest = actual - constant
    if isinstance(rest, int) and rest % factor:
        return
    if isinstance(rest, int) or abs(factor) == 1:
        bindings[leaf] = rest // factor


def _as_array(leaf: Any, spec: TensorSpec, name: str) -> Any:
    wanted = spec.dtype.dtype
    leaf = as_extents(leaf, spec, name)
    if isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
        array = _from_number(leaf, spec, name)
    else:
        if isinstance(leaf, np.ma.MaskedArray):
            raise DTypeError(f"{name}: a masked array, whose mask would be lost; fill it first")
        try:
            array = host_array(leaf, name)
        except (BackendFailureError, InvalidConfigError):
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            raise DTypeError(f"{name}: {type(leaf).__name__} is not an array: {error}") from None
    if array.dtype != wanted:
        raise DTypeError(
            f"{name}: expected {spec}, got an array of {array.dtype}; "
            f"convert it with astype({spec.dtype.value!r})"
        )
    if array.ndim != spec.rank:
        raise ShapeError(f"{name}: expected {spec}, got shape {array.shape}")
    return array


def _from_number(number: bool | float | complex, spec: TensorSpec, name: str) -> Any:
    """Convert a Python number to the declared dtype, if NumPy 2 would keep that dtype in arithmetic with the number."""
    kind = DType.of(type(number)).kind
    if spec.dtype.kind not in _KEPT_KINDS[kind]:
        raise DTypeError(f"{name}: expected {spec}, got the {type(number).__name__} {number!r}")
    try:
        return np.array(number, spec.dtype.dtype)
    except OverflowError:
        raise DTypeError(f"{name}: {number!r} does not fit {spec.dtype}") from None
