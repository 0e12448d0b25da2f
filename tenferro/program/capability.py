"""`capabilities`: whether a platform supports an op or an extension family at a dtype.

Source: docs/specification/backends.md and failures.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from tenferro.errors import InvalidConfigError
from tenferro.ops import ALL_OPS, StdTensorOp
from tenferro.ops.extension import Extension
from tenferro.types import DType, DTypeLike

__all__ = ["Capability", "capabilities", "install_platforms"]

Refusal: TypeAlias = Callable[[type[StdTensorOp] | str, DType, str], str | None]
"""Function of an op class or family id, a dtype and a platform that returns why the platform does not support the op.

It returns None if the platform supports the op.
"""
_REFUSALS: dict[str, Refusal] = {}


class Capability(NamedTuple):
    """Result of `capabilities`; its truth value tells whether the op is supported.

    Attributes:
        reason: why the op is not supported; "" if the op is supported.
    """

    is_supported: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.is_supported


def install_platforms(names: Iterable[str], refusal: Refusal) -> None:
    """Set the function that decides which ops and dtypes the platforms `names` support."""
    _REFUSALS.update(dict.fromkeys(names, refusal))


def capabilities(op: Any, dtype: DTypeLike, platform: str = "native") -> Capability:
    """Return whether a platform supports an op for operands of the dtype `dtype`.

    Args:
        op: an op, its class or its name; or the id of an extension family.
        platform: "native". If `xla_peer` or `lowering` is imported, also "cpu", "cuda", "rocm" or "tpu".

    Raises:
        InvalidConfigError: the op or the platform is unknown.
        DTypeError: the dtype is unknown.

    >>> capabilities("Sin", "float64"), bool(capabilities("Sin", "int32"))
    (Capability(is_supported=True, reason=''), False)
    >>> capabilities("Sin", "int32").reason
    'Sin: takes bfloat16, complex128, complex64, float16, float32, float64; got int32'
    """
    kind, element_type = _kind(op), DType.of(dtype)
    if platform not in _REFUSALS:
        raise InvalidConfigError(
            f"capabilities: platform must be one of {sorted(_REFUSALS)}, got {platform!r}; those of XLA are known "
            "once xla_peer or lowering is imported"
        )
    if not isinstance(kind, str) and element_type not in kind.accepts:
        accepted = ", ".join(sorted([each.value for each in kind.accepts if not each.is_narrow]))
        return Capability(False, f"{kind.__name__}: takes {accepted}; got {element_type.value}")
    reason = _REFUSALS[platform](kind, element_type, platform)
    return Capability(reason is None, reason or "")


def _kind(op: Any) -> type[StdTensorOp] | str:
    """Return the class of an op, or the id of an extension family."""
    family = getattr(op, "family_id", None)
    if isinstance(family, str):
        return family
    names = {card.__name__: card for card in ALL_OPS if card is not Extension}
    if isinstance(op, StdTensorOp):
        op = type(op)
    if isinstance(op, type):
        op = op.__name__
    if not isinstance(op, str) or (op not in names and "." not in op):
        raise InvalidConfigError(
            f"capabilities: {op!r} is neither an op nor the id of a family; tenferro.STD_OPS lists the ops"
        )
    return names.get(op, op)
