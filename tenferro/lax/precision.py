"""The precision of products on accelerators, by jax.lax's names."""

from __future__ import annotations

import enum
from typing import Any

from tenferro.errors import InvalidConfigError

__all__ = ["Precision"]


class Precision(enum.Enum):
    """The precision of products on accelerators; CPUs compute in the operands' dtype in any case."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


def precision_name(name: str, precision: Any) -> str | None:
    """Return the precision as a name for ops; None leaves it to the lowering.

    Raises:
        InvalidConfigError: the name is unknown, or the names for the two operands differ.
    """
    words = precision if isinstance(precision, tuple | list) else (precision,)
    names = {word.value if isinstance(word, Precision) else word for word in words}
    if len(names) != 1 or not names <= {None, *[member.value for member in Precision]}:
        raise InvalidConfigError(
            f'lax.{name}: precision must be None, "default", "high" or "highest", for both operands, got {precision!r}'
        )
    return names.pop()
