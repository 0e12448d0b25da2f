"""Conversion of the words of a command line to the arguments of a target.

2x3xf64          random numbers of that type; `f64` is a scalar, `nx3xf64` has a symbolic extent
x.npy            the array of a file
data.npz         the arrays of an archive, by name if the target has such names, else in their order
w=3x4xf32        a value for the input `w`; an archive becomes a dict of arrays
0.5              a number
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tenferro.archives import array_in, opened_archive
from tenferro.errors import ArityError, InvalidConfigError, TenferroError
from tenferro.files import reading
from tenferro.interruption import is_interruption
from tenferro.types import DType, TensorSpec, flatten, unflatten
from xla_peer.sampling import random_array
from xla_peer.storage import Arrays

__all__ = ["NamedInputs", "filled", "matched", "parse_type", "read_inputs"]

DTYPES = {name: dtype for dtype in DType for name in (dtype.value, dtype.short)}
EXTENT = re.compile(r"\d+|[a-wyzA-Z_][a-wyzA-Z_0-9]*")


@dataclass(frozen=True)
class NamedInputs:
    """Inputs that a command line gives, by position or by name: arrays, types, numbers, or dicts of arrays."""

    positional: tuple[Any, ...]
    named: dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.positional or self.named)


def read_inputs(tokens: Sequence[str], names: Sequence[str]) -> NamedInputs:
    """Parse the inputs on a command line, for a target whose inputs have the names `names`.

    Raises:
        InvalidConfigError: a token is no value, a file contains no arrays, or a name occurs twice or is no input of the
        target.
        FileNotFoundError: a file does not exist.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for token in tokens:
        name, equals, rest = token.partition("=")
        if equals and name in names:
            _put(named, name, _value(rest))
        elif equals and not Path(token).exists():
            known_names = ", ".join(names) or "none"
            raise InvalidConfigError(
                f"{token}: there is no input {name!r}; the inputs are {known_names}"
            )
        else:
            value = _value(token)
            if isinstance(value, dict) and set(value) <= set(names):
                for key, array in value.items():
                    _put(named, key, array)
            else:
                positional += list(value.values()) if isinstance(value, dict) else [value]
    return NamedInputs(tuple(positional), named)


def matched(inputs: NamedInputs, names: Sequence[str], what: str) -> list[Any]:
    """Return one value for each of the input names `names`, in this order.

    Raises:
        ArityError: there are too many values, or too few; the message has the missing names.
    """
    rest = [name for name in names if name not in inputs.named]
    if len(inputs.positional) > len(rest):
        raise ArityError(
            f"{what} takes {len(names)} inputs ({', '.join(names)}), got "
            f"{len(inputs.positional) + len(inputs.named)}"
        )
    missing = rest[len(inputs.positional) :]
    if missing:
        raise ArityError(
            f"{what}: no value for {', '.join(missing)}; give a file, a number or a type, such as "
            f"{missing[0]}=2x3xf64"
        )
    values = dict(zip(rest, inputs.positional, strict=True)) | inputs.named
    return [values[name] for name in names]


UNPACKED: ContextVar[int | None] = ContextVar("tenferro_unpacked_bytes", default=None)
"""Maximum unpacked size of a file of arrays, in bytes; None allows a fixed multiple of the file's size."""


def filled(values: Sequence[Any], generator: np.random.Generator) -> list[Any]:
    """Return the values, with each type replaced by a random array of the type.

    Raises:
        InvalidConfigError: a type has a symbolic extent.
    """
    leaves, tree = flatten(list(values))
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, TensorSpec):
            if not leaf.is_static:
                raise InvalidConfigError(f"{leaf}: give numbers for its extents")
            leaves[i] = random_array(leaf, generator)
    return unflatten(tree, leaves)


def parse_type(text: str) -> TensorSpec | None:
    """Return the type that a token denotes, or None if the token is not a type.

    >>> parse_type("2x3xf64"), parse_type("bool"), parse_type("nx4xcomplex128"), parse_type("x.npy")
    (f64[2,3], bool[], c128[n,4], None)
    """
    for name in sorted(DTYPES, key=len, reverse=True):
        if text == name:
            return TensorSpec((), DTYPES[name])
        if text.endswith(f"x{name}"):
            extents = text[: -len(name) - 1].split("x")
            if all(EXTENT.fullmatch(extent) for extent in extents):
                shape = [int(e) if e.isdigit() else e for e in extents]
                return TensorSpec(shape, DTYPES[name])
    return None


def _put(named: dict[str, Any], name: str, value: Any) -> None:
    if name in named:
        raise InvalidConfigError(f"{name} is given twice")
    named[name] = value


def _value(token: str) -> Any:
    if token.endswith((".npy", ".npz")):
        return _read(token)
    spec = parse_type(token)
    if spec is not None:
        return spec
    try:
        number = ast.literal_eval(token)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        number = None
    if not isinstance(number, bool | int | float | complex):
        raise InvalidConfigError(
            f"{token!r} is not an input: expected a .npy or .npz file, a type such as 2x3xf64, or a number"
        )
    return np.asarray(number)


def _read(path: str) -> Any:
    try:
        with reading(path) as file:
            if (
                file.read(2) != b"PK"
            ):  # the first bytes of every zip file, and so of every .npz file
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                return array_in(file, size, path)
            with opened_archive(file, path, UNPACKED.get()) as archive:
                arrays = Arrays(archive)
                return {name: arrays[name] for name in arrays.names}
    except (TenferroError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise InvalidConfigError(f"{path} holds no arrays: {error}") from None
