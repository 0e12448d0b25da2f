"""`debug_print`, which prints while programs run, and the format templates for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

import numpy as np

from tenferro.api.tensor import TracedTensor, value_in
from tenferro.dispatch import as_operand
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import DTypeError, InvalidConfigError
from tenferro.ext.printing.families import DebugPrint
from tenferro.ops.extension import Extension

__all__ = ["debug_print", "numbered_template"]


def debug_print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print fmt.format(*args, **kwargs) with the values of tensors, each time the program reaches this line.

    The function works in jitted functions, programs, loops and branches. Outside of traces it prints at once. Prints
    are never optimised away, and lines are printed in the order of the calls.

    A derivative prints the lines of its function once. When `checkpoint` computes values again, it does not print
    again, except in loops. Under `vmap`, one line per slice is printed if a value differs between slices, otherwise one
    line.

    Only the native executor prints. Lowering raises an error that says how to remove the print.

    Args:
        fmt: a template as for `str.format`. Tensors are formatted as NumPy arrays. A tensor of rank 0 is formatted as
            its element.
        ordered: has no effect, because lines are always in order.

    Raises:
        InvalidConfigError: a field of fmt has no value, or an argument has no field; or the traced function, or a loop
            in it, returns no tensor that could depend on the print.

    >>> import tenferro as tnf
    >>> @tnf.jit
    ... def f(x):
    ...     y = x * x
    ...     debug_print("x={} y={y:.2f}", x, y=y)
    ...     return y + 1
    >>> f(3.0)
    x=3.0 y=9.00
    array(10.)
    """
    template, tensors = numbered_template("debug_print", fmt, args, kwargs)
    builder = current_builder() or next(
        (x.builder for x in tensors if isinstance(x, TracedTensor)), None
    )
    if builder is None:
        print(template.format(*[np.asarray(x)[()] for x in tensors]))
        return
    values = [value_in(builder, as_operand(x)) for x in tensors]
    builder.apply(Extension(DebugPrint(template, len(values))), builder.graph.awaited(), *values)


def numbered_template(
    name: str, fmt: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, list[Any]]:
    """Rewrite a format so that its fields are numbered tensors. Other values are formatted at once.

    Returns:
        The new format, and the tensors in the order of their numbers.

    Raises:
        InvalidConfigError: a field has no value, or a value has no field.
    """
    everything: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}
    places: dict[int | str, int] = {}
    tensors: list[Any] = []
    used: set[int | str] = set()
    pieces: list[str] = []
    counted = iter(range(len(args) + 1))
    for text, field, spec, conversion in _parsed(name, fmt):
        pieces.append(_escaped(text))
        if field is None:
            continue
        head, rest = _first(field)
        key: int | str = next(counted) if head == "" else int(head) if head.isdigit() else head
        if key not in everything:
            raise InvalidConfigError(
                f"{name}: the format {fmt!r} asks for {key!r}, which was not passed"
            )
        if spec and "{" in spec:
            raise InvalidConfigError(
                f"{name}: the format {fmt!r}: a format within a format is not supported; write {spec!r} out"
            )
        used.add(key)
        tail = rest + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        value = everything[key]
        if _is_text(value):
            pieces.append(_escaped(f"{{0{tail}}}".format(value)))
            continue
        if key not in places:
            places[key] = len(tensors)
            tensors.append(value)
        pieces.append(f"{{{places[key]}{tail}}}")
    if unused := [key for key in everything if key not in used]:
        shown = ", ".join(map(repr, unused))
        raise InvalidConfigError(f"{name}: the format {fmt!r} does not use argument {shown}")
    return "".join(pieces), tensors


def _parsed(name: str, fmt: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(fmt))
    except (TypeError, ValueError) as error:
        raise InvalidConfigError(f"{name}: the format {fmt!r:.60}: {error}") from None


def _first(field: str) -> tuple[str, str]:
    """Split a field into the argument that it names, and the attributes and indices that follow."""
    end = min(
        [index for index in (field.find("."), field.find("[")) if index >= 0], default=len(field)
    )
    return field[:end], field[end:]


def _is_text(value: Any) -> bool:
    """Return whether a value cannot be a tensor, such as a string, None or a type."""
    try:
        as_operand(value)
    except DTypeError:
        return True
    return False


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
