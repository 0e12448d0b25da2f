"""Parser of NumPy's einsum notation. It returns labels: one string per operand and one for the result.

Source: NumPy's `einsum`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.extension import ExtensionCacheKey

__all__ = ["NOTATIONS", "Notation", "interleaved", "read", "spare_labels"]

RESERVED = frozenset(",->.")
"""Characters that cannot be labels. Spaces are ignored."""
MOST_LABELS = 1_000_000

NOTATIONS = ExtensionCacheKey("tenferro.einsum.v1", "notations")
"""Key of the cache of parsed notations, whose keys are the subscripts with the ranks of the operands."""


@dataclass(frozen=True)
class Notation:
    """Labels of the operands and of the result, with one character for every axis.

    Attributes:
        dots: the labels that replace the ellipsis.
        slots: for each operand, the position of the ellipsis in its labels; None if it has no ellipsis.
    """

    inputs: tuple[str, ...]
    output: str
    dots: str
    slots: tuple[int | None, ...]


def read(subscripts: str, ranks: Sequence[int]) -> Notation:
    """Read the labels of operands of these ranks from `subscripts`.

    All characters but `,->.` and the space are labels. Without an arrow, the axes of the result are those of the
    ellipsis and then those of labels that occur once, in the order of their code points.

    Raises:
        InvalidConfigError: the subscripts are invalid, or do not fit the ranks.

    >>> read("...ij,jk", (3, 2))
    Notation(inputs=('\u0100ij', 'jk'), output='\u0100ik', dots='\u0100', slots=(0, None))
    """
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise InvalidConfigError(
            f"einsum: {subscripts!r} names {len(inputs)} operands, got {len(ranks)}"
        )
    for part in [*inputs, output]:
        if not RESERVED.isdisjoint(part.replace("...", "", 1)):
            raise InvalidConfigError(
                f"einsum: {part!r} in {subscripts!r} is not labels and one ..."
            )
    widths = [_ellipsis_width(part, rank) for part, rank in zip(inputs, ranks, strict=True)]
    fresh = spare_labels(text)
    dots = "".join([next(fresh) for _ in range(max(widths, default=0))])
    slots = tuple([part.index("...") if "..." in part else None for part in inputs])
    inputs = [part.replace("...", dots) for part in inputs]
    if arrow:
        output = output.replace("...", dots)
    else:
        counts = Counter("".join(inputs))
        once = [label for label in counts if counts[label] == 1 and label not in dots]
        output = dots + "".join(sorted(once))
    for label, times in Counter(output).items():
        if not any(label in part for part in inputs):
            raise InvalidConfigError(f"einsum: output label {label!r} is in no operand")
        if times > 1:
            raise InvalidConfigError(
                f"einsum: output label {label!r} occurs {times} times, but may occur only once; for a "
                "diagonal matrix from a vector x, write x[:, None] * tenferro.eye(n)"
            )
    return Notation(tuple(inputs), output, dots, slots)


def _ellipsis_width(part: str, rank: int) -> int:
    width = rank - len(part.replace("...", ""))
    if width < 0 or (width and "..." not in part):
        raise InvalidConfigError(f"einsum: {part!r} does not label the axes of rank {rank}")
    return width


def interleaved(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts and operands for arguments in the form operand, labels, operand, labels, .., output labels.

    Labels are sequences of integers and Ellipsis. Without output labels, the result has the labels that occur once.

    Raises:
        InvalidConfigError: a label is neither an integer nor Ellipsis.

    >>> interleaved(["x", [0, 1], "y", [1, 2], [0, 2]])
    ('ab,bc->ac', ['x', 'y'])
    """
    pairs, output = list(arguments), None
    if len(pairs) % 2:
        output = _letters(pairs.pop())
    subscripts = ",".join([_letters(labels) for labels in pairs[1::2]])
    return (subscripts if output is None else f"{subscripts}->{output}"), pairs[::2]


def _letters(labels: Any) -> str:
    if isinstance(labels, str | dict | set) or not isinstance(labels, Iterable):
        raise InvalidConfigError(
            f"einsum: labels must be a string before the operands, or a list after each, got {labels!r:.60}"
        )
    return "".join([_letter(label) for label in labels])


def _letter(label: Any) -> str:
    if label is Ellipsis:
        return "..."
    try:
        number = -1 if isinstance(label, bool) else operator.index(label)
    except TypeError:  # for example, the argument is an array instead of labels
        number = -1
    if not 0 <= number < MOST_LABELS:
        raise InvalidConfigError(
            f"einsum: labels must be integers from 0 to {MOST_LABELS - 1} in a list after each operand, or a string "
            f"before all, got {label!r:.60}"
        )
    if number < 52:
        return chr(ord("a") + number) if number < 26 else chr(ord("A") + number - 26)
    return chr(
        0x10000 + number
    )  # no code point from here on is reserved, and their order is that of the numbers


def spare_labels(used: str) -> Iterator[str]:
    """Yield labels that `used` does not contain."""
    unavailable = set(used)
    return (label for label in map(chr, count(0x100)) if label not in unavailable)
