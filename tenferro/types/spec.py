"""`TensorSpec`: the type of a tensor, which consists of a shape and a dtype."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenferro.dims import UNKNOWN, DimExpr, Extent, SymDim, UpperBound, is_exact, parse_dim
from tenferro.errors import ConcretizationError, InvalidConfigError, ShapeError
from tenferro.types.dtype import DType

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["TensorSpec"]

_BY_SHORT = {member.short: member for member in DType}
MOST_AXES = 64
"""Maximum number of axes of a tensor, which is NumPy's limit."""
_PUNCTUATION = re.compile(r"[(),]")
_PRINTED = re.compile(r"([a-z0-9]+)\[(.*)\]")


class TensorSpec:
    """Shape and dtype of a tensor. An extent in the shape is an int, the name of a symbol, or a `SymDim`.

    >>> TensorSpec((2, "n"), "float64")
    f64[2,n]
    >>> TensorSpec.parse("c128[n*2,3]").shape
    (n*2, 3)

    Raises:
        ShapeError: an extent is negative, or an entry is not an extent.
        DTypeError: the dtype is unknown.
    """

    __slots__ = ("dtype", "shape")

    dtype: DType
    shape: tuple[Any, ...]

    def __init__(self, shape: int | str | SymDim | Sequence[Any], dtype: DTypeLike | DType) -> None:
        entries = [shape] if isinstance(shape, int | str | SymDim) else shape
        self.shape = tuple(_extent(entry) for entry in entries)
        self.dtype = DType.of(dtype)

    @classmethod
    def of(cls, shape: tuple[Any, ...], dtype: DType) -> TensorSpec:
        """Create a spec without checks.

        Shape rules call this method, because the extents that they compute are valid.
        """
        self = object.__new__(cls)
        self.shape = shape
        self.dtype = dtype
        return self

    @classmethod
    def parse(cls, text: str) -> TensorSpec:
        """Read a spec from its printed form.

        Raises:
            InvalidConfigError: the text is not a spec.

        >>> TensorSpec.parse("f32[2,max(n, 3),<=4,?]").rank
        4
        """
        match = _PRINTED.fullmatch(text.strip())
        if match is None or match[1] not in _BY_SHORT:
            raise InvalidConfigError(f"{text[:80]!r} is not a spec, such as f64[2,n]")
        parts = _entries(match[2])
        if len(parts) > MOST_AXES:
            raise InvalidConfigError(
                f"{text[:80]!r} has {len(parts)} axes; a tensor has at most {MOST_AXES}"
            )
        return cls.of(tuple(_parse_extent(part.strip()) for part in parts), _BY_SHORT[match[1]])

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes, as NumPy's attribute `ndim`."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements; symbolic for a symbolic shape."""
        total: Any = 1
        for extent in self.shape:
            total = total * extent
        return total

    @property
    def is_static(self) -> bool:
        """Whether every extent is a number."""
        return all([isinstance(extent, int) for extent in self.shape])

    @property
    def is_exact(self) -> bool:
        """Whether no extent depends on the data: each is a number or a `SymDim`."""
        return all(is_exact(extent) for extent in self.shape)

    @property
    def nbytes(self) -> Any:
        """The size in bytes of a dense array of this type."""
        return self.size * self.dtype.itemsize

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TensorSpec)
            and self.dtype is other.dtype
            and self.shape == other.shape
        )

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __repr__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return (TensorSpec.parse, (str(self),))


def _extent(entry: Any) -> Extent:
    if isinstance(entry, (bool, DimExpr)):
        raise ShapeError(f"TensorSpec: an extent must be an int, a name or a SymDim, got {entry!r}")
    if isinstance(entry, SymDim | UpperBound) or entry is UNKNOWN:
        return entry
    if isinstance(entry, str):
        return parse_dim(entry)
    try:
        extent = operator.index(entry)
    except (TypeError, ConcretizationError):
        raise ShapeError(
            f"TensorSpec: an extent must be an int, a name or a SymDim, got {entry!r}"
        ) from None
    if extent < 0:
        raise ShapeError(f"TensorSpec: an extent must be at least 0, got {extent}")
    return extent


def _entries(text: str) -> list[str]:
    """Split the text of a shape into its entries, at commas outside parentheses."""
    if not text.strip():
        return []
    entries, begin, depth = [], 0, 0
    for match in _PUNCTUATION.finditer(text):
        depth += (match[0] == "(") - (match[0] == ")")
        if match[0] == "," and depth == 0:
            entries.append(text[begin : match.start()])
            begin = match.end()
    return [*entries, text[begin:]]


def _parse_extent(text: str) -> Extent:
    if text == "?":
        return UNKNOWN
    return UpperBound(parse_dim(text[2:])) if text.startswith("<=") else parse_dim(text)
