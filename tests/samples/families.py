"""Samples of tenferro's own extension families.

Factorisations are not unique, so the tests compare a function of the outputs whose value is unique. The inputs are
computed from the expected output. For example, a matrix is the product of its Cholesky factor and the factor's
adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.ext.einsum.families import Einsum
from tenferro.ext.fft.families import Fft
from tenferro.ext.linalg import families as la
from tenferro.ext.random.families import Threefry2x32
from tenferro.extension import apply
from tenferro.types import DType
from tests.samples.sample import COMMON, Array, indices, ordinary_values

FAMILIES: list[type[Any]] = [
    family.op
    for family in tnf._families()
    if {"accuracy", "host", "lapack", "printing", "sharding", "special"}.isdisjoint(
        family.op.__module__.split(".")
    )
]
"""Families whose samples are in this table.

Other tests check the remaining families. LAPACK's packed forms are in tests/ext/test_lapack.py, functions of numbers
in tests/special, and calls of Python in tests/api/test_printing.py and tests/test_host_calls.py. Accuracy
requirements are in tests/lowering/test_import_accuracy.py, and shardings in tests/ext/test_sharding.py.
"""
WIDE = (DType.F64, DType.C64)
EXACT_ENOUGH = 100
"""Allowed difference of the results for small matrices, in multiples of the dtype's spacing at 1."""


NOT_INTERPRETED = "the reference interpreter does not have the operation"


def as_they_are(*outputs: Any) -> tuple[Any, ...]:
    """Return the outputs unchanged. This is the default of `shown`, for ops whose outputs are unique."""
    return outputs


@dataclass(frozen=True)
class FamilySample:
    """One extension op with its inputs and expected results.

    Attributes:
        op: the op, with its payload.
        inputs: NumPy arrays.
        expected: the value of `shown`, computed by definition.
        shown: a function of the op's outputs. Its value is unique even if the outputs are not.
        exempt: checks of the ledger that do not apply to this sample, each with a reason.
        given: a function that computes the op's operands from the inputs.
    """

    op: Any
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]
    shown: Callable[..., tuple[Any, ...]] = as_they_are
    exempt: Mapping[str, str] = field(default_factory=dict)
    given: Callable[..., tuple[Any, ...]] = as_they_are

    @property
    def name(self) -> str:
        """Name of the op's class."""
        return type(self.op).__name__

    @property
    def dtype(self) -> DType:
        """Dtype of the first input."""
        return DType.of(self.inputs[0].dtype)

    @property
    def is_differentiable(self) -> bool:
        """Whether the first input has a float or complex dtype. Only then are derivatives tested."""
        return self.dtype.is_inexact

    def fn(self, *inputs: Any) -> tuple[Any, ...]:
        """Apply the op to the inputs, and return the value of `shown` for its outputs."""
        outputs = apply(self.op, *self.given(*inputs))
        return self.shown(*(outputs if isinstance(outputs, tuple) else (outputs,)))

    def assert_right(self, found: Any, expected: Any) -> None:
        """Fail unless all elements equal the expected ones within rounding."""
        for y, wanted in zip(found, expected, strict=True):
            assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
            dtype = DType.of(wanted.dtype)
            allowed = EXACT_ENOUGH * tnf.finfo(dtype).eps if dtype.is_inexact else 0
            wide = complex if dtype.is_complex else float
            far = np.abs(y.astype(wide) - wanted.astype(wide))
            size = 1 + np.max(np.abs(wanted.astype(wide)), initial=0)
            assert np.max(far, initial=0) <= allowed * size, str(self)

    def __str__(self) -> str:
        types = ",".join(f"{DType.of(x.dtype).short}{list(x.shape)}" for x in self.inputs)
        return f"{self.op!r} {types}".replace(" ", "")


# ---- linear algebra ------------------------------------------------------------------------------


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of x."""
    return tnf.conj(tnf.matrix_transpose(x))


def reflection(order: int, dtype: DType) -> Array:
    """Return a unitary matrix: the reflection I - 2 v v^H / v^H v with a random vector v."""
    v = wide(ordinary_values((order, 1), dtype, 5))
    return np.eye(order) - 2 * v @ v.conj().T / np.sum(np.abs(v) ** 2)


def wide(x: Array) -> Array:
    """Return x in double precision."""
    return x.astype(complex if x.dtype.kind == "c" else float)


def in_dtype(dtype: DType, *arrays: Array) -> tuple[Array, ...]:
    """Convert each array to the dtype. A real array gets the dtype of the real part."""
    return tuple(x.astype((dtype if x.dtype.kind == "c" else dtype.real).dtype) for x in arrays)


def lower(order: int, dtype: DType) -> Array:
    """Return a lower triangular matrix. It has 1.5 on the diagonal and small numbers below."""
    return np.tril(wide(ordinary_values((order, order), dtype, 3)) / 4, -1) + 1.5 * np.eye(order)


def cholesky(dtype: DType) -> Iterator[FamilySample]:
    factor = lower(3, dtype)
    x = in_dtype(dtype, factor @ factor.conj().T)
    exempt = {"interpreter": NOT_INTERPRETED}
    yield FamilySample(la.Cholesky(), x, in_dtype(dtype, factor), exempt=exempt)


def qr(dtype: DType) -> Iterator[FamilySample]:
    unitary, r = reflection(4, dtype), lower(3, dtype).T
    for full in (False, True):
        x = in_dtype(dtype, unitary[:, :3] @ r)

        def shown(q: Any, r: Any) -> Any:
            return q @ r, q[:, :3] @ adjoint(q[:, :3])

        projector = unitary[:, :3] @ unitary[:, :3].conj().T
        yield FamilySample(la.Qr(full), x, (*x, *in_dtype(dtype, projector)), shown)


def svd(dtype: DType) -> Iterator[FamilySample]:
    left, right, s = reflection(4, dtype)[:, :3], reflection(3, dtype), np.array([3.0, 2.0, 1.0])

    def shown(u: Any, s: Any, vh: Any) -> Any:
        return s, u[:, :3] @ (tnf.reshape(s**3, (3, 1)) * vh[:3])

    for full in (False, True):
        x = in_dtype(dtype, left * s @ right)
        yield FamilySample(la.Svd(full), x, in_dtype(dtype, s, left * s**3 @ right), shown)


def eigh(dtype: DType) -> Iterator[FamilySample]:
    vectors, w = reflection(3, dtype), np.array([-1.0, 0.5, 2.0])

    def shown(w: Any, v: Any) -> Any:
        return w, v @ (tnf.reshape(w**2, (3, 1)) * adjoint(v))

    x = in_dtype(dtype, vectors * w @ vectors.conj().T)
    squared = in_dtype(dtype, w, vectors * w**2 @ vectors.conj().T)
    yield FamilySample(la.Eigh(), x, squared, shown)


def eig(dtype: DType) -> Iterator[FamilySample]:
    s, w = lower(3, dtype) @ lower(3, dtype).T, np.array([1.0, 2.0, 3.0])

    def shown(w: Any, v: Any) -> Any:
        return (v @ (tnf.reshape(w**2, (3, 1)) * tnf.linalg.inv(v)),)

    x = in_dtype(dtype, s * w @ np.linalg.inv(s))
    squared = (s * w**2 @ np.linalg.inv(s)).astype(dtype.complex.dtype)
    library_only = "general eigenvalues are a call of LAPACK's, and have no form in plain StableHLO"
    exempt = {"interpreter": library_only, "import": library_only}
    yield FamilySample(la.Eig(), x, (squared,), shown, exempt)


def lu(dtype: DType) -> Iterator[FamilySample]:
    low, up = lower(3, dtype) - 0.5 * np.eye(3), 2 * lower(3, dtype).T
    permutation = np.array([2, 0, 1])
    x = (low @ up)[np.argsort(permutation)]
    packed = in_dtype(dtype, np.tril(low, -1) + up)
    yield FamilySample(la.Lu(), in_dtype(dtype, x), (*packed, permutation))


TRANSPOSED: dict[str, Callable[[Array], Array]] = {
    "N": lambda x: x,
    "T": np.transpose,
    "C": lambda x: x.conj().T,
}


def solve(dtype: DType) -> Iterator[FamilySample]:
    a = 3 * np.eye(3) + wide(ordinary_values((3, 3), dtype, 1)) / 2
    x = wide(ordinary_values((3, 2), dtype, 2))
    for name, turned in TRANSPOSED.items():
        yield FamilySample(la.Solve(name), in_dtype(dtype, a, turned(a) @ x), in_dtype(dtype, x))


def lu_solve(dtype: DType) -> Iterator[FamilySample]:
    def with_factors(a: Any, b: Any) -> Any:
        return (a, *apply(la.Lu(), a), b)

    for sample in solve(dtype):
        op = la.LuSolve(sample.op.transpose)
        yield FamilySample(
            op,
            sample.inputs,
            sample.expected,
            exempt={"interpreter": NOT_INTERPRETED},
            given=with_factors,
        )


def triangular_solve(dtype: DType) -> Iterator[FamilySample]:
    x = wide(ordinary_values((3, 2), dtype, 2))
    other = np.triu(wide(ordinary_values((3, 3), dtype, 4)), 1)
    for name, turned in TRANSPOSED.items():
        for is_lower in (True, False):
            for unit in (True, False):
                triangle = lower(3, dtype) - 0.5 * unit * np.eye(3)
                # An implementation that reads the other triangle must give a wrong result, so it is not zero.
                a = triangle + other if is_lower else (triangle + other).T
                triangle = triangle if is_lower else triangle.T
                yield FamilySample(
                    la.TriangularSolve(is_lower, unit, name),
                    in_dtype(dtype, a, turned(triangle) @ x),
                    in_dtype(dtype, x),
                    exempt={"interpreter": NOT_INTERPRETED},
                )


def distinct(dtype: DType) -> Iterator[FamilySample]:
    x = np.array([1.0, 2.0, 4.0], dtype.dtype)
    exempt = dict.fromkeys(("PJRT", "interpreter", "import", "export"), "it runs natively only")
    yield FamilySample(la.Distinct(), (x,), (x,), exempt=exempt)


# ---- sums, transforms, bits ----------------------------------------------------------------------


def einsum(dtype: DType) -> Iterator[FamilySample]:
    for op, shapes in (
        (Einsum(("ij", "jk"), "ki"), [(2, 3), (3, 4)]),
        (Einsum(("iij", "jk", "k"), "ik"), [(3, 3, 2), (2, 4), (4,)]),
        (Einsum(("ij",), "iji"), [(2, 3)]),
    ):
        inputs = [small(ordinary_values(shape, dtype, n)) for n, shape in enumerate(shapes)]
        yield FamilySample(op, tuple(inputs), (summed(op, inputs),))


def small(x: Array) -> Array:
    """Return x. Integers are reduced modulo 3, so that no product overflows."""
    return x % 3 if x.dtype.kind in "iu" else x


def summed(op: Einsum, inputs: list[Array]) -> Array:
    """Compute an einsum by a loop over all values of all labels."""
    extents = {
        label: extent
        for labels, x in zip(op.inputs, inputs, strict=True)
        for label, extent in zip(labels, x.shape, strict=True)
    }
    exact = [x.astype(object) if x.dtype.kind in "biu" else wide(x) for x in inputs]
    result = np.zeros([extents[label] for label in op.output], complex)
    for values in indices(tuple(extents.values())):
        at = dict(zip(extents, values, strict=True))
        terms = [
            complex(x[tuple(at[label] for label in labels)])
            for labels, x in zip(op.inputs, exact, strict=True)
        ]
        result[tuple(at[label] for label in op.output)] += np.prod(terms)
    dtype = inputs[0].dtype
    return (result if dtype.kind == "c" else result.real).astype(dtype)


def fourier(dtype: DType) -> Iterator[FamilySample]:
    """Yield samples of each kind of Fourier transform for a dtype: along one axis, and along two axes."""
    for lengths in ((5,), (3, 4)):
        x = wide(ordinary_values((2, *lengths), dtype.real, 1))
        half = lengths[-1] // 2 + 1
        spectrum = transformed(x, len(lengths))
        if dtype.is_float:
            y = spectrum[..., :half].astype(dtype.complex.dtype)
            yield transform("rfft", lengths, in_dtype(dtype, x), (y,))
            continue
        z = x + 1j * wide(ordinary_values(x.shape, dtype.real, 2))
        z_spectrum = transformed(z, len(lengths))
        yield transform("fft", lengths, in_dtype(dtype, z), in_dtype(dtype, z_spectrum))
        yield transform("ifft", lengths, in_dtype(dtype, z_spectrum), in_dtype(dtype, z))
        yield transform("irfft", lengths, in_dtype(dtype, spectrum[..., :half]), in_dtype(dtype, x))


def transform(kind: str, lengths: tuple[int, ...], x: Any, y: Any) -> FamilySample:
    """Return a sample of a Fourier transform. The reference interpreter does not support these transforms."""
    return FamilySample(Fft(kind, lengths), x, y, exempt={"interpreter": NOT_INTERPRETED})


def transformed(x: Array, axes: int) -> Array:
    """Return the Fourier transform along the last axes.

    Along each axis, y[k] is the sum over j of x[j] exp(-2 pi i j k / n).
    """
    for axis in range(x.ndim - axes, x.ndim):
        n = x.shape[axis]
        matrix = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ matrix, -1, axis)
    return x


PUBLISHED = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
"""Known answers that Random123 publishes for Threefry-2x32 with 20 rounds.

Each has the key, the counter words, and the resulting words.
"""


def threefry() -> Iterator[FamilySample]:
    for key, words, answer in PUBLISHED:
        inputs = [np.array(x, np.uint32) for x in (key, *words)]
        yield FamilySample(
            Threefry2x32(), tuple(inputs), tuple(np.array(x, np.uint32) for x in answer)
        )


def in_each(make: Callable[[DType], Iterator[FamilySample]], dtypes: Any) -> list[FamilySample]:
    """Return the samples that `make` yields for each of the dtypes."""
    return [sample for dtype in dtypes for sample in make(dtype)]


REAL = (DType.F32, DType.F64)
FOUR = (*REAL, DType.C32, DType.C64)

FAMILY_SAMPLES: dict[type[Any], list[FamilySample]] = {
    la.Cholesky: in_each(cholesky, FOUR),
    la.Qr: in_each(qr, FOUR),
    la.Svd: in_each(svd, FOUR),
    la.Eigh: in_each(eigh, FOUR),
    la.Eig: in_each(eig, FOUR),
    la.Lu: in_each(lu, FOUR),
    la.Solve: in_each(solve, FOUR),
    la.LuSolve: in_each(lu_solve, FOUR),
    la.TriangularSolve: in_each(triangular_solve, FOUR),
    la.Distinct: in_each(distinct, REAL),
    Fft: in_each(fourier, FOUR),
    Einsum: in_each(einsum, COMMON),
    Threefry2x32: list(threefry()),
}
