"""Fourier transforms in compiled loops: Stockham's algorithm, by factors of 4, 2, 3, 5 and 7.

A stage with the factor r takes r elements that lie n / r apart to r that lie beside each other, and leaves them in order;
so nothing is permuted, and elements of one stage lie along the lanes of a vector. Real and imaginary parts lie apart.

Source: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.exec.llvm.code import Code, Element, Index, literal, llvm_type
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec

__all__ = ["row_of"]

LONGEST = 4096
"""Length up to which a call from Python costs more than a transform."""
RADICES = (4, 2, 3, 5, 7)
Parts = tuple[str, str]
Pointers = tuple[str, str]
"""Where the real and the imaginary parts of numbers lie."""


def row_of(routine: Routine, inputs: Sequence[TensorSpec]) -> Row | None:
    """How a transform is compiled; None for lengths that are large, or have larger prime factors."""
    (x,) = inputs
    lengths = _lengths(routine, x)
    is_short = all([0 < n <= LONGEST and _factors(n) is not None for n in lengths])
    if not is_short:
        return None

    def write(
        body: Body, _: object, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        return [_transformed(body, routine.kind, operands[0], lengths, types[0])]

    return Row(write, moves=True, settles=True, is_exact=False)


def _lengths(routine: Routine, x: TensorSpec) -> tuple[int, ...]:
    own = x.shape[len(x.shape) - len(routine.lengths) :]
    return tuple([m if n is None else n for n, m in zip(routine.lengths, own, strict=True)])


def _factors(n: int) -> list[int] | None:
    """The radices of the stages; None where there are others."""
    factors: list[int] = []
    for radix in RADICES:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return factors if n == 1 else None


def _transformed(body: Body, kind: str, x: Tensor, lengths: Sequence[int], y: TensorSpec) -> Tensor:
    """Axis after axis: the last one first where it is real before, last where it is real afterwards."""
    rank, first = x.spec.rank, x.spec.rank - len(lengths)
    axes = [*range(first, rank)]
    if kind == "rfft":
        axes.reverse()
    kind_of_last, kind_of_others = {"rfft": ("rfft", "fft"), "irfft": ("irfft", "ifft")}.get(
        kind, (kind, kind)
    )
    for axis in axes:
        of_axis = kind_of_last if axis == rank - 1 else kind_of_others
        shape = [*x.spec.shape]
        shape[axis] = y.shape[axis]
        dtype = x.spec.dtype
        if of_axis == "irfft":
            dtype = dtype.real
        elif of_axis == "rfft":
            dtype = y.dtype
        x = _along(
            body, of_axis, x, axis, lengths[axis - first], TensorSpec.of(tuple(shape), dtype)
        )
    return x


def _along(body: Body, kind: str, x: Tensor, axis: int, n: int, y: TensorSpec) -> Tensor:
    """The transform of every line along an axis."""
    code, real = body.code, y.dtype.real
    result = body.memory(y)
    scratch = _Line(body, n, real, is_inverse=kind in ("ifft", "irfft"))

    def line(index: tuple[Index, ...]) -> None:
        def at(i: Index) -> tuple[Index, ...]:
            return (*index[:axis], i, *index[axis:])

        if kind == "irfft":
            scratch.load_half(lambda i: body.at(x, at(i)))
        else:
            scratch.load(lambda i: body.at(x, at(i)), is_real=kind == "rfft")
        re, im = scratch.run()
        scale = literal(real.dtype.type(1.0 / n), real)

        def put(i: Index) -> None:
            parts = [code.load(memory.pointer, i, real) for memory in (re, im)]
            if scratch.is_inverse:
                parts = [code.value(f"fmul {llvm_type(real)} {part}, {scale}") for part in parts]
            value: Element = tuple(parts) if y.dtype.is_complex else parts[0]
            code.store(value, result.pointer, code.linear(at(i), y.shape), y.dtype)

        code.loop(y.shape[axis], put)

    code.loops([extent for number, extent in enumerate(y.shape) if number != axis], line)
    return body.stored(result)


class _Line:
    """Memory of a line of n elements, and its transform, which is a function of the text.

    Attributes:
        is_inverse: whether the transform is the inverse one, but for its factor 1 / n.
    """

    def __init__(self, body: Body, n: int, dtype: DType, is_inverse: bool) -> None:
        self.code, self.n, self.dtype, self.is_inverse = body.code, n, dtype, is_inverse
        self.stages = _Stages(n, dtype, is_inverse)
        spec = TensorSpec.of((n,), dtype)
        self.parts = [body.memory(spec) for _ in range(4)]
        self.table = body.outside(self.stages.table)

    def load(self, element: Callable[[Index], Element], is_real: bool) -> None:
        """Write a line's elements."""
        zero = literal(0.0, self.dtype)
        self.code.loop(
            self.n, lambda i: self._put((element(i), zero) if is_real else element(i), i)
        )

    def load_half(self, element: Callable[[Index], Element]) -> None:
        """Write a line's elements of half a spectrum; the other half follows, conjugate.

        The first element, and the middle one, are real: what is given of their imaginary parts has no meaning.
        """
        code, n = self.code, self.n
        ends = [0] if n % 2 else [0, n // 2]
        for i in ends:
            self._put((element(i)[0], literal(0.0, self.dtype)), i)

        def both(k: Index) -> None:
            i = code.add(k, 1)
            re, im = element(i)
            self._put((re, im), i)
            negative = code.value(f"fneg {llvm_type(self.dtype)} {im}")
            self._put((re, negative), code.add(code.scaled(i, -1), n))

        code.loop((n - 1) // 2, both)

    def _put(self, value: Element, i: Index) -> None:
        for memory, part in zip(self.parts, value, strict=False):
            self.code.store(part, memory.pointer, i, self.dtype)

    def run(self) -> Sequence[Memory]:
        """Transform; the memory with the real and imaginary parts of the result."""
        code, stages = self.code, self.stages
        name = f"fourier_{self.n}_{llvm_type(self.dtype)}{'_inverse' if self.is_inverse else ''}"
        code.functions[name] = stages.text(name)
        code.work += code.often * stages.work
        pointers = [memory.pointer for memory in (*self.parts, self.table)]
        code.line(f"call void @{name}({', '.join([f'ptr {each}' for each in pointers])})")
        return self.parts[2:] if len(stages.factors) % 2 else self.parts[:2]


class _Stages:
    """The stages of the transform of n elements: a function of their parts, of room for as many, and of a table.

    Attributes:
        table: the roots of unity that stages multiply by, real parts before imaginary ones, by j and then p.
        work: instructions that run, by estimate.
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
        self.table = np.concatenate(tables).astype(dtype.dtype)
        self.work = self.code.work

    def text(self, name: str) -> str:
        """The definition."""
        pointers = ", ".join([f"ptr noalias {each}" for each in ("%a", "%b", "%c", "%d", "%table")])
        head = f"define internal void @{name}({pointers}) noinline nounwind {{"
        return "\n".join([head, "entry:", *self.code.lines, "  ret void", "}"])

    def stage(
        self, radix: int, m: int, stride: int, source: Pointers, target: Pointers, offset: int
    ) -> None:
        """y[q + s (r p + j)] = w^(p j) sum_k x[q + s (p + m k)] e^(-2 pi i j k / r), w = e^(-2 pi i / (r m))."""
        code = self.code

        def column(p: Index) -> None:
            roots = [
                self.load(("%table", "%table"), code.add(p, offset + j * m), (radix - 1) * m)
                for j in range(radix - 1)
            ]

            def butterfly(q: Index) -> None:
                inputs = [
                    self.load(source, code.add(q, code.scaled(code.add(p, m * k), stride)))
                    for k in range(radix)
                ]
                for j, value in enumerate(self.small(inputs)):
                    turned = value if not j or m == 1 else self.times(value, roots[j - 1])
                    element = code.add(q, code.scaled(code.add(code.scaled(p, radix), j), stride))
                    for pointer, part in zip(target, turned, strict=True):
                        code.store(part, pointer, element, self.dtype)

            code.loop(stride, butterfly)

        code.loop(m, column)

    def load(self, pointers: Pointers, element: Index, beyond: int = 0) -> Parts:
        """A complex number, with its imaginary part `beyond` in the other memory."""
        re, im = (
            self.code.load(pointer, self.code.add(element, more), self.dtype)
            for pointer, more in zip(pointers, (0, beyond), strict=True)
        )
        return re, im

    def roots(self, powers: Any, n: int) -> Any:
        """e^(-2 pi i k / n) of each k, or the conjugate; computed with more digits than are kept, where there are."""
        angle = 2 * np.pi * (powers % n).astype(np.longdouble) / n
        if np.finfo(np.longdouble).nmant > 52:
            angle = np.longdouble("6.283185307179586476925286766559") * (powers % n) / n
        return np.cos(angle) + (1j if self.is_inverse else -1j) * np.sin(angle)

    # ---- complex numbers -------------------------------------------------------------------------

    def small(self, xs: Sequence[Parts]) -> list[Parts]:
        """The transform of as many elements as a radix has."""
        if len(xs) == 2:
            return [self.plus(*xs), self.minus(*xs)]
        if len(xs) == 4:
            a, b = self.plus(xs[0], xs[2]), self.minus(xs[0], xs[2])
            c, d = self.plus(xs[1], xs[3]), self.minus(xs[1], xs[3])
            # i d, of which the inverse adds and the transform subtracts.
            turned = self.negated(d[1]), d[0]
            first, last = self.minus(b, turned), self.plus(b, turned)
            if self.is_inverse:
                first, last = last, first
            return [self.plus(a, c), first, self.minus(a, c), last]
        return self.odd(xs)

    def odd(self, xs: Sequence[Parts]) -> list[Parts]:
        """Of an odd number: sums and differences of pairs, by cosines and sines."""
        n, half = len(xs), len(xs) // 2
        pairs = [
            (self.plus(xs[k], xs[n - k]), self.minus(xs[k], xs[n - k])) for k in range(1, half + 1)
        ]
        total = xs[0]
        for even, _ in pairs:
            total = self.plus(total, even)
        outputs: list[Parts] = [total] * n
        for j in range(1, half + 1):
            roots = self.roots(np.array([(j * k) % n for k in range(1, half + 1)]), n)
            level = xs[0]
            rise: Parts | None = None
            for (even, odd), root in zip(pairs, roots, strict=True):
                level = self.plus(level, self.scaled(even, float(root.real)))
                term = self.scaled(odd, float(root.imag))
                rise = term if rise is None else self.plus(rise, term)
            assert rise is not None
            turned = self.negated(rise[1]), rise[0]
            outputs[j], outputs[n - j] = self.plus(level, turned), self.minus(level, turned)
        return outputs

    def instruction(self, name: str, x: str, y: str) -> str:
        """One of floats."""
        return self.code.value(f"{name} {llvm_type(self.dtype)} {x}, {y}")

    def plus(self, x: Parts, y: Parts) -> Parts:
        """A sum."""
        return self.instruction("fadd", x[0], y[0]), self.instruction("fadd", x[1], y[1])

    def minus(self, x: Parts, y: Parts) -> Parts:
        """A difference."""
        return self.instruction("fsub", x[0], y[0]), self.instruction("fsub", x[1], y[1])

    def negated(self, x: str) -> str:
        """-x."""
        return self.code.value(f"fneg {llvm_type(self.dtype)} {x}")

    def scaled(self, x: Parts, factor: float) -> Parts:
        """A real multiple."""
        number = literal(self.dtype.dtype.type(factor), self.dtype)
        return self.instruction("fmul", x[0], number), self.instruction("fmul", x[1], number)

    def times(self, x: Parts, y: Parts) -> Parts:
        """A product."""
        re = self.instruction(
            "fsub", self.instruction("fmul", x[0], y[0]), self.instruction("fmul", x[1], y[1])
        )
        im = self.instruction(
            "fadd", self.instruction("fmul", x[0], y[1]), self.instruction("fmul", x[1], y[0])
        )
        return re, im
