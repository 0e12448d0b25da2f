"""Symbolic extents of a program: named symbols and axes of the program's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenferro.dims.polynomial import Polynomial
from tenferro.errors import InvalidConfigError

__all__ = ["Dim", "InputAxis", "SymDim", "Symbol"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """Leaf of a `SymDim`: a named extent."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class InputAxis:
    """Leaf that stands for the extent of axis `axis` of input `input`.

    In a `SymDim`, it is an input of the program. In a `DimExpr`, it is an input of the op.

    Raises:
        InvalidConfigError: `input` or `axis` is not an int, or is negative.
    """

    input: int
    axis: int

    def __post_init__(self) -> None:
        for number in (self.input, self.axis):
            if not isinstance(number, int) or number < 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # because callers may pass another type
                raise InvalidConfigError(
                    "input_axis: the input's number and its axis count from 0, got "
                    f"{self.input!r:.60} and {self.axis!r:.60}"
                )

    def __str__(self) -> str:
        return f"x{self.input}.{self.axis}"


class SymDim(Polynomial):
    """Symbolic extent, which has a value when the program runs. Arithmetic with it returns an extent in normal form.

    >>> n, m = SymDim("n"), SymDim("m")
    >>> n * 2 + 1, n + n == 2 * n, (n + m) - m, (4 * n) // 2, n - n
    (n*2+1, True, n, n*2, 0)
    >>> SymDim.input_axis(0, 1)
    x0.1

    Raises:
        InvalidConfigError: the name is not a string, or not a Python identifier. Write a known extent as an int.
    """

    __slots__ = ()

    def __new__(cls, name: str) -> SymDim:
        if not isinstance(name, str) or not name.isidentifier():  # pyright: ignore[reportUnnecessaryIsInstance]  # because callers may pass another type
            help_ = "; a known extent is written as an int" if isinstance(name, int) else ""
            raise InvalidConfigError(
                f"SymDim: a symbol's name must be an identifier, got {name!r:.60}{help_}"
            )
        return cls._leaf(Symbol(name))

    @classmethod
    def input_axis(cls, index: int, axis: int) -> SymDim:
        """Return the extent of axis number `axis` of the program's input number `index`."""
        return cls._leaf(InputAxis(index, axis))

    def evaluate(self, bindings: Mapping[Symbol | InputAxis, int]) -> Dim:
        """Return the extent with the numbers in `bindings` in place of the leaves.

        >>> (SymDim("n") * 2 + 1).evaluate({Symbol("n"): 3})
        7
        """
        return self.substitute(
            lambda leaf: bindings[leaf] if leaf in bindings else SymDim._leaf(leaf)
        )

    def as_leaf(self) -> Symbol | InputAxis | None:
        """Return the leaf if this extent consists of a single symbol or input axis; None for any other expression."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            ((atom, power),) = self.terms[0][0]
            if power == 1 and isinstance(atom, Symbol | InputAxis):
                return atom
        return None


Dim = int | SymDim
"""An exact extent."""
