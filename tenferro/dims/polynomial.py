"""The algebra of extents: integer polynomials over atoms, in a normal form.

An extent is a sum of products of atoms with integer coefficients. An atom is a leaf, which `SymDim` or `DimExpr`
defines, or an operation that polynomials cannot express: `//`, `%`, `min` or `max`. Equal polynomials have equal normal
forms, so `n + n == n*2` is decided by comparing tuples. A result without atoms is an `int`, never a constant
polynomial.

A leaf is assumed to be at least zero. Nothing else is assumed about its value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

from tenferro.errors import ConcretizationError, InvalidConfigError

__all__ = [
    "DEEPEST",
    "HIGHEST_DEGREE",
    "LARGEST_BITS",
    "Operation",
    "Polynomial",
    "at_least",
    "cost",
    "dim_max",
    "dim_min",
    "is_static",
    "product",
    "total",
]

Monomial = tuple[tuple[Hashable, int], ...]

MOST_PARTS = 4096
"""Maximum number of terms, leaves and operations of an extent."""
MOST_WORK = 1 << 16
"""Maximum work of one arithmetic operation: the number of terms, leaves and operations that it reads; see `cost`."""
HIGHEST_DEGREE = 256
LARGEST_BITS = 4096
"""Maximum number of bits of a coefficient. The number of elements of a tensor of 64 axes needs fewer."""
DEEPEST = 40
"""Maximum nesting depth of operations."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation `lhs kind rhs` that is not polynomial; `kind` is `//`, `%`, `min` or `max`."""

    kind: str
    lhs: int | Polynomial
    rhs: int | Polynomial

    @property
    def parts(self) -> int:
        """The number of terms, leaves and operations in `lhs` and `rhs`, plus one for this operation."""
        return 1 + _parts(self.lhs) + _parts(self.rhs)

    @property
    def depth(self) -> int:
        """The nesting depth of operations, counting this one."""
        return 1 + max(_depth(self.lhs), _depth(self.rhs))

    def __str__(self) -> str:
        if self.kind in ("min", "max"):
            return f"{self.kind}({self.lhs}, {self.rhs})"
        return f"{_in_parentheses(self.lhs)}{self.kind}{_in_parentheses(self.rhs)}"

    def __repr__(self) -> str:
        return str(self)


APPLY: Mapping[str, Callable[[Any, Any], Any]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "min": lambda lhs, rhs: dim_min(lhs, rhs),
    "max": lambda lhs, rhs: dim_max(lhs, rhs),
}


class Polynomial:
    """Arithmetic that `SymDim` and `DimExpr` share.

    Objects are immutable, hashable, and equal if their terms are equal.

    The size of a result is bounded, because a short program or file could otherwise cause computations without end.

    Raises:
        InvalidConfigError: the result exceeds `MOST_PARTS`, `HIGHEST_DEGREE`, `LARGEST_BITS` or `DEEPEST`.
    """

    __slots__ = ("_hash", "depth", "operations", "parts", "terms")

    _hash: int
    parts: int
    """Number of terms, leaves and operations of this polynomial."""
    depth: int
    """Nesting depth of the operations of this polynomial."""
    terms: tuple[tuple[Monomial, int], ...]
    """Pairs (monomial, coefficient) in printing order. The empty monomial stands for the constant."""
    operations: tuple[Operation, ...]
    """All operations in this extent. Inner operations come first, so that evaluation is a loop."""
    leaf_types: ClassVar[tuple[type, ...]] = ()

    @classmethod
    def _from_terms(cls, terms: Mapping[Monomial, int]) -> Self | int:
        """Build the normal form of a sum of terms. The result is an `int` if no term has an atom."""
        nonzero = {monomial: value for monomial, value in terms.items() if value}
        if not nonzero:
            return 0
        if len(nonzero) == 1 and () in nonzero:
            return nonzero[()]
        self = object.__new__(cls)
        self.parts, self.depth = _measured(nonzero)
        self.terms = tuple(sorted(nonzero.items(), key=_printing_order))
        self.operations = _operations_below(self.terms)
        self._hash = hash((cls.__name__, self.terms))
        return self

    @classmethod
    def _leaf(cls, leaf: Hashable) -> Self:
        value = cls._from_terms({((leaf, 1),): 1})
        assert not isinstance(value, int)
        return value

    @classmethod
    def operation(cls, kind: str, lhs: int | Polynomial, rhs: int | Polynomial) -> Self:
        return cls._leaf(Operation(kind, lhs, rhs))

    # ---- arithmetic ------------------------------------------------------------------------

    def _terms_of(self, side: object) -> dict[Monomial, int] | None:
        if isinstance(side, int):
            return {(): int(side)}
        if type(side) is type(self):
            return dict(side.terms)
        try:
            return {(): operator.index(side)}  # type: ignore[arg-type]  # because a value that is no integer raises
        except TypeError:  # for example a tensor, whose operators accept an extent
            return None

    def __add__(self, rhs: object) -> Self | int:
        terms = self._terms_of(rhs)
        if terms is None:
            return NotImplemented
        for monomial, value in self.terms:
            terms[monomial] = terms.get(monomial, 0) + value
        return self._from_terms(terms)

    __radd__ = __add__

    def __neg__(self) -> Self | int:
        return self * -1

    def __sub__(self, rhs: object) -> Self | int:
        terms = self._terms_of(rhs)
        if terms is None:
            return NotImplemented
        difference = dict(self.terms)
        for monomial, value in terms.items():
            difference[monomial] = difference.get(monomial, 0) - value
        return self._from_terms(difference)

    def __rsub__(self, lhs: object) -> Self | int:
        negative: Any = -self
        return negative + lhs

    def __mul__(self, rhs: object) -> Self | int:
        terms = self._terms_of(rhs)
        if terms is None:
            return NotImplemented
        if isinstance(rhs, Polynomial) and cost(self, rhs) > MOST_WORK:
            _too_large(f"a product of {len(self.terms)} and {len(rhs.terms)} terms")
        result: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in terms.items():
                monomial = _times(left, right)
                result[monomial] = result.get(monomial, 0) + a * b
        return self._from_terms(result)

    __rmul__ = __mul__

    def __floordiv__(self, rhs: object) -> Self | int:
        return self._divide(self, rhs)

    def __rfloordiv__(self, lhs: object) -> Self | int:
        return self._divide(lhs, self)

    def __mod__(self, rhs: object) -> Self | int:
        return self._modulo(self, rhs)

    def __rmod__(self, lhs: object) -> Self | int:
        return self._modulo(lhs, self)

    def _divide(self, lhs: Any, rhs: Any) -> Self | int:
        if self._terms_of(lhs) is None or self._terms_of(rhs) is None:
            return NotImplemented
        if isinstance(rhs, int) and not isinstance(lhs, int):
            if rhs == 0:
                raise ZeroDivisionError(f"extent {lhs} // 0")
            if all(value % rhs == 0 for _, value in lhs.terms):
                return self._from_terms({m: value // rhs for m, value in lhs.terms})
        if lhs == rhs:
            return 1
        exact = _exact_quotient(lhs, rhs)
        return exact if exact is not None else self.operation("//", lhs, rhs)

    def _modulo(self, lhs: Any, rhs: Any) -> Self | int:
        if self._terms_of(lhs) is None or self._terms_of(rhs) is None:
            return NotImplemented
        if isinstance(rhs, int) and not isinstance(lhs, int):
            if rhs == 0:
                raise ZeroDivisionError(f"extent {lhs} % 0")
            lhs = self._from_terms({m: v % rhs for m, v in lhs.terms})
            if isinstance(lhs, int):
                return lhs % rhs
        if lhs == rhs or _exact_quotient(lhs, rhs) is not None:
            return 0
        return self.operation("%", lhs, rhs)

    @property
    def sides(self) -> tuple[Self | int, Self | int]:
        """Two extents (a, b) whose difference a - b is this extent: the sums of its positive and of its negative terms.

        >>> from tenferro.dims import SymDim
        >>> (SymDim("n") * 2 - SymDim("m") - 3).sides
        (n*2, m+3)
        """
        added = {monomial: value for monomial, value in self.terms if value > 0}
        subtracted = {monomial: -value for monomial, value in self.terms if value < 0}
        return self._from_terms(added), self._from_terms(subtracted)

    # ---- meaning ---------------------------------------------------------------------------

    def substitute(self, value_of: Callable[[Any], Any]) -> Any:
        """Replace each leaf of this polynomial by `value_of(leaf)`; the result is an int if all replacements are ints.

        Raises:
            InvalidConfigError: a divisor is zero.
        """
        values: dict[Hashable, Any] = {}

        def total(terms: tuple[tuple[Monomial, int], ...]) -> Any:
            result: Any = 0
            for monomial, coefficient in terms:
                term: Any = coefficient
                for atom, power in monomial:
                    value = values[atom] if isinstance(atom, Operation) else value_of(atom)
                    for _ in range(power):
                        term = term * value
                result = result + term
            return result

        for operation in self.operations:
            lhs, rhs = (
                side if isinstance(side, int) else total(side.terms)
                for side in (operation.lhs, operation.rhs)
            )
            try:
                values[operation] = APPLY[operation.kind](lhs, rhs)
            except ZeroDivisionError:
                raise InvalidConfigError(f"extent {operation}: division by zero") from None
        return total(self.terms)

    def leaves(self) -> set[Any]:
        """Return the leaves on which this extent depends."""
        sides = [side for op in self.operations for side in (op.lhs, op.rhs)]
        leaf_set: set[Any] = set()
        for polynomial in (self, *sides):
            if not isinstance(polynomial, int):
                leaf_set |= {
                    atom
                    for monomial, _ in polynomial.terms
                    for atom, _ in monomial
                    if not isinstance(atom, Operation)
                }
        return leaf_set

    # ---- Python protocols ------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, rhs: object) -> bool:
        return self._holds(">=", rhs, self, rhs)

    def __gt__(self, rhs: object) -> bool:
        return self._holds(">", rhs, self - 1, rhs)

    def __le__(self, rhs: object) -> bool:
        return self._holds("<=", rhs, rhs, self)

    def __lt__(self, rhs: object) -> bool:
        return self._holds("<", rhs, rhs, self + 1)

    def _holds(self, comparison: str, rhs: object, larger: object, smaller: object) -> bool:
        """Return whether larger >= smaller, the meaning of the comparison, for all values of the leaves.

        Raises:
            ConcretizationError: the answer depends on the values.
        """
        if self._terms_of(rhs) is None:
            return NotImplemented
        answer = at_least(larger, smaller)
        if answer is None:
            raise ConcretizationError(
                f"{self} {comparison} {rhs} is unknown until the program runs; compare tensors that "
                "shape_of returns, or give a number"
            )
        return answer

    def __bool__(self) -> bool:
        raise ConcretizationError(
            f"the truth value of extent {self} is unknown until the program runs; "
            "compare it with == or give a number"
        )

    def __index__(self) -> int:
        raise ConcretizationError(
            f"extent {self} has no number until the program runs; "
            "pass the SymDim itself where a shape is wanted"
        )

    __int__ = __index__

    def __str__(self) -> str:
        match self.terms:
            case ((((Operation() as lone, 1),), 1),):
                return str(lone)
            case _:
                text = ""
        for monomial, value in self.terms:
            body = "*".join(_power(atom, power) for atom, power in monomial)
            number = abs(value)
            part = str(number) if not body else body if number == 1 else f"{body}*{number}"
            text += ("-" if value < 0 else "+" if text else "") + part
        return text

    def __repr__(self) -> str:
        return str(self)


# ---- functions over int and polynomial alike ------------------------------------------------


def cost(lhs: Any, rhs: Any) -> int:
    """Estimate the work of multiplying two extents: the number of terms, leaves and operations that are read."""
    terms = [1 if isinstance(side, int) else len(side.terms) for side in (lhs, rhs)]
    return terms[0] * _parts(rhs) + terms[1] * _parts(lhs)


def total(summands: Any) -> Any:
    """Add extents in one pass over their terms.

    >>> from tenferro.dims import SymDim
    >>> total([SymDim("n"), 2, SymDim("n"), -1])
    n*2+1
    """
    terms: dict[Monomial, int] = {}
    algebra: Any = None
    for summand in summands:
        if isinstance(summand, int):
            terms[()] = terms.get((), 0) + summand
            continue
        algebra = summand
        for monomial, value in summand.terms:
            terms[monomial] = terms.get(monomial, 0) + value
    return terms.get((), 0) if algebra is None else algebra._from_terms(terms)


def is_static(dim: object) -> bool:
    """Return whether an extent is a number."""
    return isinstance(dim, int)


def product(dims: Any) -> Any:
    """Multiply extents; the product of no extents is 1."""
    total: Any = 1
    for dim in dims:
        total = dim * total
    return total


def at_least(lhs: Any, rhs: Any) -> bool | None:
    """Return whether lhs >= rhs for all values of the leaves; None if the answer depends on the values."""
    difference = lhs - rhs
    if isinstance(difference, int):
        return difference >= 0
    if not isinstance(difference, Polynomial):
        return None  # a bounded or unknown extent, which depends on data
    constant = dict(difference.terms).get((), 0)
    others = [value for monomial, value in difference.terms if monomial]
    bounded = all([
        _not_negative(atom) for monomial, _ in difference.terms for atom, _ in monomial
    ])  # fmt: skip
    if bounded and constant >= 0 and min(others) > 0:
        return True
    if bounded and constant < 0 and max(others) < 0:
        return False
    return None


def dim_max(lhs: Any, rhs: Any) -> Any:
    """max(lhs, rhs). The result is one of the operands if it is the larger for all values of the symbols.

    >>> from tenferro.dims import SymDim
    >>> n = SymDim("n")
    >>> dim_max(n, 0), dim_max(n + 1, n), dim_max(n, 3), dim_max(2, 5)
    (n, n+1, max(n, 3), 5)
    """
    return _extremum("max", lhs, rhs)


def dim_min(lhs: Any, rhs: Any) -> Any:
    """min(lhs, rhs). The result is one of the operands if it is the smaller for all values of the symbols."""
    return _extremum("min", lhs, rhs)


def _extremum(kind: str, lhs: Any, rhs: Any) -> Any:
    for side, opposite in ((lhs, rhs), (rhs, lhs)):
        if not isinstance(side, int | Polynomial):
            return side.extremum(kind, opposite)
    decided = at_least(lhs, rhs)
    if decided is None:
        swapped = at_least(rhs, lhs)
        decided = None if swapped is None else not swapped
    if decided is not None:
        return lhs if decided == (kind == "max") else rhs
    algebra = lhs if isinstance(lhs, Polynomial) else rhs
    first, second = sorted((lhs, rhs), key=lambda side: (isinstance(side, int), str(side)))
    return algebra.operation(kind, first, second)


def _not_negative(atom: Hashable) -> bool:
    """Return whether an atom is certainly nonnegative: it is a leaf, or an operation on suitable operands."""
    if not isinstance(atom, Operation):
        return True
    sides = [at_least(side, 0) is True for side in (atom.lhs, atom.rhs)]
    if atom.kind == "%":
        return sides[1]  # because Python's remainder has the sign of rhs
    return any(sides) if atom.kind == "max" else all(sides)


def _exact_quotient(lhs: Any, rhs: Any) -> Any:
    """Return lhs / rhs if rhs is a single term that divides every term of lhs, else None."""
    if isinstance(rhs, int) or isinstance(lhs, int) or len(rhs.terms) != 1:
        return None
    ((divisor, factor),) = rhs.terms
    quotient: dict[Monomial, int] = {}
    for monomial, value in lhs.terms:
        powers = dict(monomial)
        for atom, power in divisor:
            powers[atom] = powers.get(atom, 0) - power
        if value % factor or any(power < 0 for power in powers.values()):
            return None
        quotient[tuple((atom, power) for atom, power in powers.items() if power)] = value // factor
    return lhs._from_terms(quotient)


def _parts(side: Any) -> int:
    return 1 if isinstance(side, int) else side.parts


def _depth(side: Any) -> int:
    return 0 if isinstance(side, int) else side.depth


def _measured(terms: Mapping[Monomial, int]) -> tuple[int, int]:
    """Return the number of terms, leaves and operations in a sum of terms, and the nesting depth of the operations.

    Raises:
        InvalidConfigError: the sum exceeds the limits.
    """
    parts, depth = 0, 0
    for monomial, value in terms.items():
        parts += 1
        if value.bit_length() > LARGEST_BITS:
            _too_large(f"a coefficient of {value.bit_length()} bits, at most {LARGEST_BITS}")
        degree = 0
        for atom, power in monomial:
            degree += power
            if isinstance(atom, Operation):
                parts += atom.parts
                depth = max(depth, atom.depth)
            else:
                parts += 1
        if degree > HIGHEST_DEGREE:
            _too_large(f"degree {degree}, at most {HIGHEST_DEGREE}")
        if parts > MOST_PARTS:
            _too_large(f"more than {MOST_PARTS} terms, leaves and operations, its parts")
    if depth > DEEPEST:
        _too_large(f"more than {DEEPEST} operations inside each other")
    return parts, depth


def _too_large(what: str) -> NoReturn:
    raise InvalidConfigError(
        f"a symbolic extent is too large: {what}; name this extent by a new symbol"
    )


def _times(lhs: Monomial, rhs: Monomial) -> Monomial:
    if not lhs or not rhs:
        return lhs or rhs
    powers = dict(lhs)
    for atom, power in rhs:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _operations_below(terms: tuple[tuple[Monomial, int], ...]) -> tuple[Operation, ...]:
    ordered: dict[Operation, None] = {}
    for monomial, _ in terms:
        for atom, _ in monomial:
            if isinstance(atom, Operation):
                for side in (atom.lhs, atom.rhs):
                    if not isinstance(side, int):
                        ordered.update(dict.fromkeys(side.operations))
                ordered[atom] = None
    return tuple(ordered)


def _printing_order(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    """Return the sort key that puts terms in printing order: by falling degree, then by name, the constant last."""
    monomial, _ = term
    return (-sum(power for _, power in monomial), tuple(str(atom) for atom, _ in monomial))


def _power(atom: Hashable, power: int) -> str:
    text = f"({atom})" if isinstance(atom, Operation) and atom.kind in ("//", "%") else str(atom)
    return text if power == 1 else f"{text}^{power}"


def _in_parentheses(side: int | Polynomial) -> str:
    text = str(side)
    return f"({text})" if any(sign in text for sign in "+-*/%") else text
