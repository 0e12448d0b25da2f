"""Rows of text as columns."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned"]


def aligned(rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """One line per row, each column as wide as its widest cell.

    Args:
        right: how many columns, from the first, stand at the right.

    >>> aligned([("op", "ops"), ("multiply", "2")])
    ['op        ops', 'multiply  2']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                cell.rjust(width) if place < right else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
        ).rstrip()
        for row in rows
    ]
