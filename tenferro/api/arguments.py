"""Errors for keyword arguments of NumPy's functions that have no meaning for tensors, such as `out`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenferro.errors import UnsupportedError

__all__ = ["ArgumentRefusedError", "refuse", "refuse_options"]


class ArgumentRefusedError(UnsupportedError):
    """An argument of a NumPy function that has no meaning for tensors.

    Attributes:
        reason: why the argument has no meaning for tensors, and what to do instead.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.reason = reason


_REMEDIES = {
    "out": "results are new tensors; assign the result",
    "where": "choose with tenferro.where(condition, x, y)",
    "dtype": "convert the operands first",
    "order": "the memory layout is not part of a tensor; leave it out",
    "mode": "give integers within the axis",
}
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "where": (True,), "casting": ("same_kind",), "order": ("K", "C", None), "subok": (True, False),
    "initial": (None,), "keepdims": (False,),
}  # fmt: skip
"""Values of each argument that are accepted, because they are NumPy's defaults and have no effect.

For an argument that is not listed, only None is accepted.
"""


def refuse(name: str, argument: str, value: Any) -> None:
    """Raise an error if `value` is not a default of the argument `argument`, and so would have an effect.

    >>> refuse("sum", "out", None)

    Raises:
        ArgumentRefusedError: `value` is not a default.
    """
    defaults = _DEFAULTS.get(argument, (None,))
    if not any(value is x or (type(value) is type(x) and value == x) for x in defaults):
        remedy = _REMEDIES.get(argument, "leave it out")
        raise ArgumentRefusedError(
            name, f"the argument {argument}= has no meaning for tensors ({remedy})"
        )


_OF_UFUNCS = (
    "out",
    "where",
    "casting",
    "order",
    "dtype",
    "subok",
    "signature",
    "axes",
    "axis",
    "keepdims",
)


def refuse_options(name: str, options: Mapping[str, Any], out: Any = None) -> None:
    """Raise an error if an option of a NumPy ufunc, such as `where` or `casting`, differs from its default.

    Args:
        options: the options that the caller passed by keyword.
        out: the argument `out`, which NumPy also accepts by position.

    Raises:
        ArgumentRefusedError: an option has a value other than its default.
        TypeError: NumPy's ufuncs have no option of this name.
    """
    refuse(name, "out", out)
    for option, value in options.items():
        if option not in _OF_UFUNCS:
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")
        refuse(name, option, value)
