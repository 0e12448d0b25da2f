"""Search for the wrong collective in a module for several devices.

One collective at a time is changed in the module's text: to groups along other mesh axes, to reversed pairs of devices,
or to another reduction. If a change corrects the results, that collective is wrong.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowering import import_stablehlo
from tenferro.errors import TenferroError

__all__ = ["wrong_collective"]

MOST_TRIED = 64
"""Maximum number of changes of a module that are tried."""
MOST_CHARACTERS = 1 << 18
"""Maximum number of characters of a module's text that is searched."""

_COLLECTIVE = re.compile(
    r'"?stablehlo\.(all_reduce|all_gather|all_to_all|reduce_scatter|collective_broadcast|collective_permute)"?\('
)
_GROUPS = re.compile(r"replica_groups = dense<[^>]*> : tensor<\d+x\d+xi64>")
_PAIRS = re.compile(r"source_target_pairs = dense<([^>]*)> : tensor<\d+x2xi64>")
_MESH = re.compile(r"sdy\.mesh @\S+ = <(\[[^\]]*\])")
_SIZE = re.compile(r'"([^"]+)"=(\d+)')
_REDUCTION = re.compile(r"stablehlo\.(add|maximum|minimum|multiply)\b")


def wrong_collective(
    text: str, matches: Callable[[Any], bool], trusted: bool = False
) -> str | None:
    """Describe the wrong collective in a sentence; return None if no change corrects the results.

    Args:
        text: a module for several devices.
        matches: a function that returns whether an imported program computes the right results.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    for collective, change, changed in itertools.islice(_changes(text), MOST_TRIED):
        try:
            if matches(import_stablehlo(changed, trusted=trusted)):
                return f"{collective}: with {change} in its place the outputs agree"
        except TenferroError:  # because the changed text has inconsistent types
            continue
    return None


def _changes(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each possible change: the collective with its line, a description of the change, and the changed text."""
    sizes = {name: int(size) for name, size in _SIZE.findall("".join(_MESH.findall(text)))}
    calls = [*_COLLECTIVE.finditer(text)]
    for call, after in zip(calls, [*calls[1:], None], strict=True):
        end = len(text) if after is None else after.start()
        line = text.count("\n", 0, call.start()) + 1
        collective = f"{call[1]} in line {line}"
        for what, start, stop, new in _variants(text, call.start(), end, call[1], sizes):
            yield collective, what, text[:start] + new + text[stop:]


def _variants(
    text: str, start: int, end: int, name: str, sizes: dict[str, int]
) -> Iterator[tuple[str, int, int, str]]:
    """Yield the changes of one collective: a description, the span of text to replace, and the new text.

    Args:
        start, end: the span of the collective in the text.
        name: the name of the collective.
        sizes: the size of each axis of the mesh.
    """
    groups = _GROUPS.search(text, start, end)
    for axes in _subsets(sizes) if groups else ():
        rows = _along(sizes, axes)
        new = f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"
        assert groups is not None
        if new != groups[0]:
            yield f"groups along {' and '.join(axes)}, {rows},", *groups.span(), new
    pairs = _PAIRS.search(text, start, end)
    if pairs:
        reversed_pairs = [
            pair[::-1] for pair in np.array(_numbers(pairs[1])).reshape(-1, 2).tolist()
        ]
        new = f"source_target_pairs = dense<{reversed_pairs}> : tensor<{len(reversed_pairs)}x2xi64>"
        yield "the pairs the other way round", *pairs.span(), new
    reduction = (
        _REDUCTION.search(text, start, end) if name in ("all_reduce", "reduce_scatter") else None
    )
    if reduction:
        for name in ("add", "maximum", "minimum", "multiply"):
            if name != reduction[1]:
                yield name, *reduction.span(), f"stablehlo.{name}"


def _numbers(text: str) -> list[int]:
    return list(map(int, re.findall(r"\d+", text)))


def _subsets(sizes: dict[str, int]) -> Iterator[tuple[str, ...]]:
    for count in range(1, min(len(sizes), 4) + 1):
        yield from itertools.combinations(sizes, count)


def _along(sizes: dict[str, int], axes: Sequence[str]) -> list[list[int]]:
    """Return the groups of devices that differ only along these axes of a mesh."""
    grid = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    names = list(sizes)
    chosen = [names.index(axis) for axis in axes]
    others = [axis for axis in range(len(names)) if axis not in chosen]
    count = math.prod(sizes[axis] for axis in axes)
    return grid.transpose(*others, *chosen).reshape(-1, count).tolist()
