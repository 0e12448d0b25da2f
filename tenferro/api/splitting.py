"""Tensors split along the first, second and third axis, like NumPy's `vsplit`, `hsplit` and `dsplit`.

Source: NumPy 2.4, reference, "Splitting arrays".
"""

from __future__ import annotations

from typing import Any

from tenferro.api.manipulation import split
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import ShapeError
from tenferro.types import ArrayLike

__all__ = ["dsplit", "hsplit", "vsplit"]


def _with_rank(name: str, ary: ArrayLike, rank: int) -> Any:
    x = as_operand(ary)
    if len(x.shape) < rank:
        raise ShapeError(f"{name}: needs {rank} axes at least, got {spec_of(x)}")
    return x


def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Any]:
    """Split ary along its second axis, or along its only axis if it is a vector; `split` describes the arguments.

    >>> hsplit([1, 2, 3, 4], 2)
    [array([1, 2]), array([3, 4])]
    """
    x = _with_rank("hsplit", ary, 1)
    return split(x, indices_or_sections, axis=1 if len(x.shape) > 1 else 0)


def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Any]:
    """Split ary along its first axis; `split` describes the arguments. ary must have at least two axes.

    >>> vsplit([[1], [2]], 2)
    [array([[1]]), array([[2]])]
    """
    return split(_with_rank("vsplit", ary, 2), indices_or_sections, axis=0)


def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Any]:
    """Split ary along its third axis; `split` describes the arguments. ary must have at least three axes.

    >>> dsplit([[[1, 2]]], [1])
    [array([[[1]]]), array([[[2]]])]
    """
    return split(_with_rank("dsplit", ary, 3), indices_or_sections, axis=2)
