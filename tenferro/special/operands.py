"""Conversion of operands of special functions, and signatures of their public functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tenferro.api.promotion import convert, inexact_dtype, promote, result_type
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError
from tenferro.types import ArrayLike, DType

__all__ = ["as_order", "in_reals", "with_signature"]


def in_reals(name: str, function: Callable[..., Any], *operands: ArrayLike) -> Any:
    """Apply `function` to the operands after converting them to their common float dtype; 16-bit floats become float32.

    Raises:
        DTypeError: an operand is complex.
    """
    dtype = inexact_dtype(result_type(*operands))
    if dtype.is_complex:
        shown = ", ".join(str(spec_of(as_operand(x))) for x in operands)
        raise DTypeError(f"special.{name}: takes real numbers, got {shown}")
    wide = DType.F32 if dtype.itemsize == 2 else dtype
    return convert(function(*promote(*operands, dtype=wide)), dtype)


def as_order(name: str, parameter: str, value: Any, least: int) -> int:
    """Check that a value is an integer of at least `least`, and return it as an int. A traced tensor is an error.

    Raises:
        InvalidConfigError: the value is not an integer, is a traced tensor, or is less than `least`.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < least:
        raise InvalidConfigError(
            f"special.{name}: {parameter} must be an int of at least {least}, got {value!r}"
        )
    return value.__index__()


def with_signature(
    name: str, module: str, defaults: Mapping[str, Any], text: str, compute: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a public function with named parameters. It calls `compute` with the arguments in order.

    Args:
        defaults: the parameters in order, with the default of each; None for a parameter without a default.
        text: the function's docstring without the section "Raises", which is inserted before the first example.
    """
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    signature = inspect.Signature([
        inspect.Parameter(key, kind, default=empty if value is None else value, annotation=ArrayLike)
        for key, value in defaults.items()
    ])  # fmt: skip

    def public(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return compute(*bound.args)

    head, mark, example = inspect.cleandoc(text).partition("\n>>>")
    public.__doc__ = (
        f"{head.rstrip()}\n\nRaises:\n    DTypeError: an operand is complex.\n{mark}{example}"
    )
    public.__name__, public.__module__ = name.rpartition(".")[2], module
    public.__qualname__ = name
    vars(public)["__signature__"] = signature
    return public
