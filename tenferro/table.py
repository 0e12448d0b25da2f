"""Layout of rows of text in aligned columns, and of lists in lines."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned", "first_of", "wrapped"]


def aligned(rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """Return one line per row. The columns are aligned, and each column is as wide as its widest cell.

    Args:
        right: the number of leading columns to align to the right.

    >>> aligned([("op", "ops"), ("multiply", "2")])
    ['op        ops', 'multiply  2']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                cell.rjust(width) if i < right else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
        ).rstrip()
        for row in rows
    ]


def first_of(items: Sequence[object], most: int = 4) -> str:
    """Return a short line with the first `most` items of a list, and the number of further items.

    >>> first_of(range(3)), first_of(range(20), 2)
    ('0, 1, 2', '0, 1, .. 18 more')
    """
    shown = ", ".join([str(item) for item in items[:most]])
    return f"{shown}, .. {len(items) - most} more" if len(items) > most else shown


def wrapped(items: Sequence[str], first: str, last: str, width: int = 96) -> list[str]:
    """Return a list between two texts as lines.

    It is one line if it fits into `width`, or else as few lines as possible.

    >>> wrapped(["x: f64", "y: f64"], "f(", ")")
    ['f(x: f64, y: f64)']
    >>> wrapped(["x: f64", "y: f64"], "f(", ")", width=12)
    ['f(', '    x: f64,', '    y: f64', ')']
    """
    line = f"{first}{', '.join(items)}{last}"
    if len(line) <= width:
        return [line]
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 3 <= width:
            lines[-1] += f" {item},"
        else:
            lines.append(f"    {item},")
    return [first, *lines[:-1], *[line.removesuffix(",") for line in lines[-1:]], last]
