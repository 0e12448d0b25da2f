"""The precision of products on accelerators, by jax.lax's names."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, TypeAlias

from tenferro.errors import InvalidConfigError

__all__ = ["Precision", "PrecisionLike", "precision_name"]


class Precision(enum.Enum):
    """Precision of products on accelerators. CPUs always compute in the dtype of the operands."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


PrecisionLike: TypeAlias = "str | Precision | Sequence[str | Precision | None] | None"
"""Precision of both operands, or a pair with one precision for each of them."""


def precision_name(name: str, precision: PrecisionLike) -> str | None:
    """Return the name of the precision, as ops store it. None leaves the choice to the lowering.

    Raises:
        InvalidConfigError: the precision is unknown, or is a pair of different precisions for the two operands.
    """
    words: Any = precision if isinstance(precision, tuple | list) else (precision,)
    names = {word.value if isinstance(word, Precision) else word for word in words}
    names = {ALIASES.get(word, word) for word in names}
    if len(names) != 1 or not names <= {None, *[member.value for member in Precision]}:
        raise InvalidConfigError(
            f'{name}: precision must be None, "default", "high" or "highest", for both operands, got {precision!r}'
        )
    return names.pop()


ALIASES = {
    "fastest": "default",
    "bfloat16": "default",
    "bfloat16_3x": "high",
    "tensorfloat32": "high",
    "float32": "highest",
}
"""JAX's other names of precisions."""
