"""LLVM lowerings of Fourier transforms of few points.

A transform of n = a b points is computed by products with the Fourier matrices of a points and of b points.

Source: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, section 1.3, on Cooley and Tukey.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Element, literal
from tenferro.exec.llvm.contraction import dot_general
from tenferro.exec.llvm.folding import Indices
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors
from tenferro.ops.contraction import DotGeneral
from tenferro.program import Routine
from tenferro.types import TensorSpec

__all__ = ["row_of"]

MAX_EXTENTS = 64
"""Maximum sum of the factors a and b of a compiled transform's length; the interpreter is faster for larger sums."""


def row_of(routine: Routine, inputs: Specs) -> Row | None:
    """Return the lowering of a transform; None if a length is large or has a large prime factor."""
    shape = inputs[0].shape
    own = shape[len(shape) - len(routine.lengths) :]
    lengths = [m if n is None else n for n, m in zip(routine.lengths, own, strict=True)]
    if not all([n > 0 and sum(factors(n)) <= MAX_EXTENTS for n in lengths]):
        return None

    def write(body: Body, _: object, operands: Tensors, types: Specs) -> Tensors:
        (x,), (y,), kind = operands, types, routine.kind
        axes = [*range(len(shape) - len(lengths), len(shape))]
        # rfft transforms the last axis first, and irfft transforms it last.
        for axis in reversed(axes) if kind == "rfft" else axes:
            axis_kind = kind if axis == axes[-1] else kind.replace("r", "")
            extents = (*x.spec.shape[:axis], y.shape[axis], *x.spec.shape[axis + 1 :])
            spec = TensorSpec.of(extents, y.dtype if "r" in axis_kind else x.spec.dtype)
            x = _transformed(body, axis_kind, x, axis, lengths[axis - axes[0]], spec)
        return [x]

    return Row(write, moves=True, materialises=True)


def factors(n: int) -> tuple[int, int]:
    """Return the integers a <= b with n = a b and the smallest sum.

    >>> factors(12), factors(7)
    ((3, 4), (1, 7))
    """
    a = next(a for a in range(isqrt(n), 0, -1) if n % a == 0)
    return a, n // a


def _transformed(body: Body, kind: str, x: Tensor, axis: int, n: int, y: TensorSpec) -> Tensor:
    """Write the transform of x along an axis, and return it as a tensor of type y.

    With X[p, q] = x[p b + q], Y[r, s] = y[r + a s], and w_n = e^(-2 pi i / n) (conjugated in an inverse transform):
    Y[r, s] = sum_q w_n^(q r) w_b^(q s) sum_p w_a^(p r) X[p, q].
    """
    code, (a, b), real = body.code, factors(n), y.dtype.real
    dtype, body.target = real.complex, None  # because an intermediate value is not the result
    outer = (*y.shape[:axis], *y.shape[axis + 1 :])

    def roots(rows: int, columns: int, count: int) -> Tensor:
        """Return the constant matrix with elements w_count^(i j)."""
        powers = np.outer(np.arange(rows), np.arange(columns)) % count
        angle = np.longdouble("6.283185307179586476925286766559") * powers / count
        sign = 1j if kind in ("ifft", "irfft") else -1j
        return body.stored(
            body.constant_memory((np.cos(angle) + sign * np.sin(angle)).astype(dtype.dtype))
        )

    def point(index: Indices) -> Element:
        """Return element p, q, .. of X as a complex number; for irfft, x is extended by its conjugate symmetry."""
        p, q, *rest = index
        i = code.add(code.scaled(p, b), q)
        if kind != "irfft":
            value = body.at(x, (*rest[:axis], i, *rest[axis:]))
            return (value, literal(0.0, real)) if kind == "rfft" else value
        mirrored = code.add(code.scaled(i, -1), n)
        is_above = code.icmp("ugt", i, n // 2)
        re, im = body.at(x, (*rest[:axis], code.select(is_above, mirrored, i), *rest[axis:]))
        im = code.select(is_above, code.value("fneg", im), im)
        # By symmetry, the first and the middle element are real; their imaginary parts are ignored.
        is_real = code.value("or", code.icmp("eq", i, 0), code.icmp("eq", i, mirrored))
        return re, code.select(is_real, literal(0.0, real), im)

    def product(lhs: Tensor, rhs: Tensor, axes: tuple[int, int], *extents: int) -> Tensor:
        op, spec = DotGeneral(axes[:1], axes[1:]), TensorSpec.of(extents, dtype)
        return dot_general(body, op, (lhs, rhs), (spec,))[0]

    points = Tensor(TensorSpec.of((a, b, *outer), dtype), point, x.reads)
    columns = product(roots(a, a, a), points, (1, 0), a, b, *outer)
    twiddles = roots(a, b, n)

    def turned(index: Indices) -> Element:
        return el.multiply(
            code, None, dtype, [body.at(columns, index), body.at(twiddles, index[:2])]
        )

    turned_columns = Tensor(columns.spec, turned, columns.reads | twiddles.reads)
    rows = product(turned_columns, roots(b, b, b), (1, 0), a, *outer, b)
    scale = literal(real.dtype.type(1.0 / n), real)

    def element(index: Indices) -> Any:
        s, r = code.divmod(index[axis], a)
        value = body.at(rows, (r, *index[:axis], *index[axis + 1 :], s))
        if kind in ("ifft", "irfft"):
            value = tuple([code.value("fmul", part, scale) for part in value])
        return value if y.dtype.is_complex else value[0]

    return body.materialised(Tensor(y, element, rows.reads))
