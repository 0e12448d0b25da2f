"""Compiled Fourier transforms: Stockham's autosort algorithm with radices 4, 2, 3, 5 and 7.

A stage of radix r reads r elements with stride n / r and writes them contiguously, so that no permutation is needed and
the butterflies of a stage vectorise. Real and imaginary parts are stored separately.

Source: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.exec.llvm import elementwise as el
from tenferro.exec.llvm.code import Code, Element, Index, literal, llvm_type
from tenferro.exec.llvm.ir import Function, Value
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec

__all__ = ["row_of"]

MAX_LENGTH = 4096
"""Break-even length against a call of the interpreter's kernel."""
RADICES = (4, 2, 3, 5, 7)
Complex = tuple[str, str]
"""Real and imaginary part of a value."""
Pointers = tuple[str, str]
"""Pointers to the real and to the imaginary parts of an array."""


def row_of(routine: Routine, inputs: Specs) -> Row | None:
    """Return the lowering of a transform; None for lengths that are large or have larger prime factors."""
    shape = inputs[0].shape
    own = shape[len(shape) - len(routine.lengths) :]
    lengths = [m if n is None else n for n, m in zip(routine.lengths, own, strict=True)]
    if not all([0 < n <= MAX_LENGTH and _factors(n) is not None for n in lengths]):
        return None

    def write(body: Body, _: object, operands: Tensors, types: Specs) -> Tensors:
        return [_transformed(body, routine.kind, operands[0], lengths, types[0])]

    return Row(write, moves=True, materialises=True, is_exact=False)


def _factors(n: int) -> list[int] | None:
    """Return the radices of the stages; None if there are other prime factors."""
    factors: list[int] = []
    for radix in RADICES:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return factors if n == 1 else None


def _transformed(body: Body, kind: str, x: Tensor, lengths: Sequence[int], y: TensorSpec) -> Tensor:
    """Transform axis by axis: the last axis comes first for rfft and last for irfft."""
    rank, first = x.spec.rank, x.spec.rank - len(lengths)
    axes = [*range(first, rank)]
    if kind == "rfft":
        axes.reverse()
    for axis in axes:
        axis_kind = kind if axis == rank - 1 else kind.replace("r", "")
        shape = [*x.spec.shape]
        shape[axis] = y.shape[axis]
        spec = TensorSpec.of(tuple(shape), y.dtype if "r" in axis_kind else x.spec.dtype)
        x = _transform_axis(body, axis_kind, x, axis, lengths[axis - first], spec)
    return x


def _transform_axis(body: Body, kind: str, x: Tensor, axis: int, n: int, y: TensorSpec) -> Tensor:
    """Transform every line along an axis."""
    code, real, is_inverse = body.code, y.dtype.real, kind in ("ifft", "irfft")
    stages = _Stages(n, real, is_inverse)
    name = f"fourier_{n}_{llvm_type(real)}{'_inverse' if is_inverse else ''}"
    code.functions[name] = stages.function(name)
    result, table = body.memory(y), body.constant_memory(stages.table)
    parts = [body.memory(TensorSpec.of((n,), real)) for _ in range(4)]
    zero, scale = literal(0.0, real), literal(real.dtype.type(1.0 / n), real)

    def line(index: tuple[Index, ...]) -> None:
        def at(i: Index) -> tuple[Index, ...]:
            return (*index[:axis], i, *index[axis:])

        def put(value: Element, i: Index) -> None:
            for memory, part in zip(parts, value, strict=False):
                code.store(part, memory.pointer, i, real)

        def load(i: Index) -> None:
            value = body.at(x, at(i))
            put((value, zero) if kind == "rfft" else value, i)

        def load_pair(k: Index) -> None:
            """Load an element of half a spectrum, and its conjugate as the other half."""
            i = code.add(k, 1)
            re, im = body.at(x, at(i))
            put((re, im), i)
            put((re, code.value("fneg", im)), code.add(code.scaled(i, -1), n))

        def store(i: Index) -> None:
            re, im = parts[2:] if len(stages.factors) % 2 else parts[:2]
            values = [code.load(memory.pointer, i, real) for memory in (re, im)]
            if is_inverse:
                values = [code.value("fmul", value, scale) for value in values]
            value: Element = tuple(values) if y.dtype.is_complex else values[0]
            code.store(value, result.pointer, code.ravel_index(at(i), y.shape), y.dtype)

        if kind == "irfft":
            # The first and the middle element are real; their imaginary parts are ignored.
            for i in [0] if n % 2 else [0, n // 2]:
                put((body.at(x, at(i))[0], zero), i)
            code.loop((n - 1) // 2, load_pair)
        else:
            code.loop(n, load)
        code.work += code.frequency * stages.work
        code.call_void(name, [memory.pointer for memory in (*parts, table)])
        code.loop(y.shape[axis], store)

    code.loops([extent for number, extent in enumerate(y.shape) if number != axis], line)
    return body.stored(result)


class _Stages:
    """The function that transforms n elements: its arguments are the parts, scratch of the same size, and the table.

    Attributes:
        table: twiddle factors, by stage: real parts, then imaginary parts, by j and then p.
        work: estimated number of instructions.
    """

    def __init__(self, n: int, dtype: DType, is_inverse: bool) -> None:
        self.dtype, self.is_inverse = dtype, is_inverse
        self.factors = _factors(n) or []
        self.code = Code()
        source, target = ("%a", "%b"), ("%c", "%d")
        tables, offset, stride = [np.zeros(0)], 0, 1
        for radix in self.factors:
            n //= radix
            self.stage(radix, n, stride, source, target, offset)
            roots = self.roots(np.arange(1, radix)[:, None] * np.arange(n), radix * n)
            tables += [roots.real.ravel(), roots.imag.ravel()]
            offset, stride = offset + 2 * roots.size, stride * radix
            source, target = target, source
        self.code.ret(None)
        self.table = np.concatenate(tables).astype(dtype.dtype)
        self.work = self.code.work - 1

    def function(self, name: str) -> Function:
        """Return the definition of the function."""
        pointers = tuple([Value(each, "ptr") for each in ("%a", "%b", "%c", "%d", "%table")])
        attributes, code = " noinline nounwind", self.code
        return Function(name, "void", pointers, code.region, (), attributes, True, is_noalias=True)

    def stage(
        self, radix: int, m: int, stride: int, source: Pointers, target: Pointers, offset: int
    ) -> None:
        """Write y[q + s (r p + j)] = w^(p j) sum_k x[q + s (p + m k)] e^(-2 pi i j k / r), with w = e^(-2 pi i / (r m))."""
        code = self.code

        def column(p: Index) -> None:
            roots = [
                self.load(("%table", "%table"), code.add(p, offset + j * m), (radix - 1) * m)
                for j in range(radix - 1)
            ]

            def element(q: Index) -> None:
                inputs = [
                    self.load(source, code.add(q, code.scaled(code.add(p, m * k), stride)))
                    for k in range(radix)
                ]
                for j, value in enumerate(self.butterfly(inputs)):
                    result = value if not j or m == 1 else self.times(value, roots[j - 1])
                    position = code.add(q, code.scaled(code.add(code.scaled(p, radix), j), stride))
                    for pointer, part in zip(target, result, strict=True):
                        code.store(part, pointer, position, self.dtype)

            code.loop(stride, element)

        code.loop(m, column)

    def load(self, pointers: Pointers, element: Index, beyond: int = 0) -> Complex:
        """Load a complex number, whose imaginary part is `beyond` elements further in its memory."""
        re, im = (
            self.code.load(pointer, self.code.add(element, more), self.dtype)
            for pointer, more in zip(pointers, (0, beyond), strict=True)
        )
        return re, im

    def roots(self, powers: Any, n: int) -> Any:
        """Return e^(-2 pi i k / n) for each k, or the conjugate, computed in long double."""
        angle = np.longdouble("6.283185307179586476925286766559") * (powers % n) / n
        return np.cos(angle) + (1j if self.is_inverse else -1j) * np.sin(angle)

    # ---- complex numbers -------------------------------------------------------------------------

    def butterfly(self, xs: Sequence[Complex]) -> list[Complex]:
        """Write the transform of `radix` elements."""
        if len(xs) == 2:
            return [self.plus(*xs), self.minus(*xs)]
        if len(xs) == 4:
            a, b = self.plus(xs[0], xs[2]), self.minus(xs[0], xs[2])
            c, d = self.plus(xs[1], xs[3]), self.minus(xs[1], xs[3])
            rotated = self.code.value("fneg", d[1]), d[0]  # i d
            first, last = self.minus(b, rotated), self.plus(b, rotated)
            if self.is_inverse:
                first, last = last, first
            return [self.plus(a, c), first, self.minus(a, c), last]
        return self.odd_butterfly(xs)

    def odd_butterfly(self, xs: Sequence[Complex]) -> list[Complex]:
        """Write the transform of an odd radix, by cosines of sums of pairs and sines of their differences."""
        n, half = len(xs), len(xs) // 2
        pairs = [
            (self.plus(xs[k], xs[n - k]), self.minus(xs[k], xs[n - k])) for k in range(1, half + 1)
        ]
        total = xs[0]
        for even, _ in pairs:
            total = self.plus(total, even)
        outputs: list[Complex] = [total] * n
        for j in range(1, half + 1):
            roots = self.roots(np.array([(j * k) % n for k in range(1, half + 1)]), n)
            cosines = xs[0]
            sines: Complex | None = None
            for (even, odd), root in zip(pairs, roots, strict=True):
                cosines = self.plus(cosines, self.scaled(even, float(root.real)))
                term = self.scaled(odd, float(root.imag))
                sines = term if sines is None else self.plus(sines, term)
            assert sines is not None
            rotated = self.code.value("fneg", sines[1]), sines[0]
            outputs[j] = self.plus(cosines, rotated)
            outputs[n - j] = self.minus(cosines, rotated)
        return outputs

    def plus(self, x: Complex, y: Complex) -> Complex:
        return el.add(self.code, None, DType.C64, [x, y])

    def minus(self, x: Complex, y: Complex) -> Complex:
        return el.subtract(self.code, None, DType.C64, [x, y])

    def times(self, x: Complex, y: Complex) -> Complex:
        return el.multiply(self.code, None, DType.C64, [x, y])

    def scaled(self, x: Complex, factor: float) -> Complex:
        number = literal(self.dtype.dtype.type(factor), self.dtype)
        return self.code.value("fmul", x[0], number), self.code.value("fmul", x[1], number)
