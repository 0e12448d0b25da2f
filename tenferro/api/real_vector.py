"""Conversion of trees of real and complex tensors to one real vector, for solvers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api import tree
from tenferro.api.creation import asarray
from tenferro.api.elementwise import imag, real
from tenferro.api.manipulation import astype, reshape
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import ArityError, DTypeError
from tenferro.types import PyTree, TensorSpec, flatten, leaf_paths, unflatten

__all__ = ["RealVector"]


class RealVector:
    """Conversion between a tree and one real vector, in which the leaves are concatenated.

    A complex leaf is stored as all its real parts followed by all its imaginary parts.

    Attributes:
        start: the vector of the tree, in the promoted dtype of its leaves.
        specs, paths: the types and the paths of the leaves.

    Raises:
        ArityError: the tree has no elements.
        DTypeError: a leaf is not floating-point or complex.

    >>> vector = RealVector("example", "x0", {"a": 1.0, "b": np.array([2 + 3j])})
    >>> vector.start
    array([1., 2., 3.])
    >>> vector.tree_of(-vector.start)
    {'a': array(-1.), 'b': array([-2.-3.j])}
    """

    def __init__(self, name: str, label: str, start: PyTree) -> None:
        leaves, self.tree = flatten(start)
        operands = [as_operand(asarray(leaf)) for leaf in leaves]
        self.paths = leaf_paths(start)
        self.specs = [spec_of(leaf) for leaf in operands]
        for spec, path in zip(self.specs, self.paths, strict=True):
            if not spec.dtype.is_inexact:
                raise DTypeError(
                    f"{name}: {label}{path} is {spec}, which has no derivative; convert it to a float"
                )
        self.start = tree.ravel(self.parts(operands))[0]
        self.dtype = spec_of(self.start).dtype
        if not math.prod(self.start.shape):
            raise ArityError(f"{name}: {label} has no elements")

    @staticmethod
    def parts(leaves: Sequence[Any]) -> list[Any]:
        """Replace each complex leaf by its real part and its imaginary part."""
        result: list[Any] = []
        for leaf in leaves:
            result += [real(leaf), imag(leaf)] if spec_of(leaf).dtype.is_complex else [leaf]
        return result

    def tree_of(self, vector: Any, rows: tuple[int, ...] = ()) -> Any:
        """Return the tree of a vector. For a matrix of vectors, the leaves have the leading extents `rows`."""
        leaves: list[Any] = []
        start = 0

        def part(spec: TensorSpec) -> Any:
            nonlocal start
            size = math.prod(spec.shape)
            start += size
            return reshape(vector[..., start - size : start], (*rows, *spec.shape))

        for spec in self.specs:
            if spec.dtype.is_complex:
                re, im = part(spec), part(spec)
                unit = np.asarray(1j, np.complex64)
                leaves.append(astype(re + unit * im, spec.dtype, copy=False))
            else:
                leaves.append(astype(part(spec), spec.dtype, copy=False))
        return unflatten(self.tree, leaves)
