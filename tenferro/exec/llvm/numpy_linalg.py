"""Linear algebra with NumPy's bits, from compiled code: the calls of the loops behind `numpy.linalg`.

They take doubles, as `numpy.linalg` does for singles too, and write NaN where a routine fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tenferro.exec.llvm import ufunc_loops
from tenferro.exec.llvm.code import Code, Element, Index, literal
from tenferro.exec.llvm.columns import conjugate, either, hermitian, is_finite, spoil, vector
from tenferro.exec.llvm.conversion import convert
from tenferro.exec.llvm.tensor import Body, Memory, Tensor, same_place
from tenferro.exec.llvm.ufunc_loops import Loop, loop_of
from tenferro.ops.elementwise import Convert
from tenferro.program import Routine
from tenferro.types import DType, TensorSpec

__all__ = ["LOOPS", "TRIALS", "cholesky", "eigh", "is_known", "is_known_loop", "qr", "solve", "svd"]

WIDE = {DType.F32: DType.F64, DType.F64: DType.F64, DType.C32: DType.C64, DType.C64: DType.C64}
"""In which dtype `numpy.linalg` computes."""
DIMENSIONS: dict[str, tuple[str, ...]] = {
    "cholesky_lo": ("mm", "mm"),
    "solve": ("mm", "mn", "mn"),
    "eigh_lo": ("mm", "m", "mm"),
    "eigvalsh_lo": ("mm", "m"),
    "qr_r_raw": ("mn", "p"),
    "qr_reduced": ("mn", "p", "mp"),
    "qr_complete": ("mn", "n", "mm"),
    "svd": ("mn", "p"),
    "svd_s": ("mn", "mp", "p", "pn"),
    "svd_f": ("mn", "mm", "p", "nn"),
}
"""The axes of operands and results of each loop."""
REAL = {"eigh_lo": 1, "eigvalsh_lo": 1, "svd": 1, "svd_s": 2, "svd_f": 2}
"""Which of them is real."""


def cholesky(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The factor of the Hermitian part; NaN in the triangle of a matrix that is not positive definite."""
    (a,), (y,), code = operands, types, body.code
    mean = _hermitian(body, a)
    (factor,) = _called(body, "cholesky_lo", [mean], [mean.spec])
    lower = _narrow(body, factor, y)

    def element(index: tuple[Index, ...]) -> Element:
        *_, i, j = index
        above = code.value(f"icmp ugt i64 {j}, {i}")
        return either(code, y.dtype, above, literal(0, y.dtype), body.at(lower, index))

    return [body.copied(Tensor(y, element, lower.reads))]


def solve(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The solution; NaN where a matrix is singular."""
    (a, b), (y,), code = operands, types, body.code

    def transposed(index: tuple[Index, ...]) -> Element:
        *batch, i, j = index
        value = body.at(a, (*batch, j, i))
        return conjugate(code, a.spec.dtype, value) if op.transpose == "C" else value

    of_a = a if op.transpose == "N" else Tensor(a.spec, transposed, a.reads)
    matrices, rights = _wide(body, of_a), _wide(body, b)
    (x,) = _called(body, "solve", [matrices, rights], [rights.spec])
    return [body.settled(_narrow(body, x, y))]


def eigh(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """Eigenvalues, and eigenvectors, of the Hermitian part; NaN where a matrix is not finite."""
    mean = _hermitian(body, operands[0])
    specs = [TensorSpec.of(spec.shape, WIDE[spec.dtype]) for spec in types]
    name = "eigh_lo" if op.vectors else "eigvalsh_lo"
    results = _called_where_finite(body, name, mean, specs)
    return [body.settled(_narrow(body, x, y)) for x, y in zip(results, types, strict=True)]


def svd(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The singular value decomposition; NaN where a matrix is not finite."""
    matrices = _wide(body, operands[0])
    specs = [TensorSpec.of(spec.shape, WIDE[spec.dtype]) for spec in types]
    name = "svd" if not op.vectors else "svd_f" if op.full else "svd_s"
    results = _called_where_finite(body, name, matrices, specs)
    return [body.settled(_narrow(body, x, y)) for x, y in zip(results, types, strict=True)]


def qr(
    body: Body, op: Routine, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """QR by Householder reflections."""
    (a,), code, r = operands, body.code, types[-1]
    *batch, m, n = a.spec.shape
    packed = _wide(body, a)
    spec = TensorSpec.of((*batch, min(m, n)), packed.spec.dtype)
    # The loop writes over its operand.
    (factors,) = _called(body, "qr_r_raw", [packed], [spec])
    in_place = _narrow(body, packed, TensorSpec.of(a.spec.shape, r.dtype))

    def above(index: tuple[Index, ...]) -> Element:
        *_, i, j = index
        is_above = code.value(f"icmp uge i64 {j}, {i}")
        return either(code, r.dtype, is_above, body.at(in_place, index), literal(0, r.dtype))

    upper = body.copied(Tensor(r, above, in_place.reads))
    if not op.vectors:
        return [upper]
    (y, _) = types
    name = "qr_complete" if op.full and m > n else "qr_reduced"
    (q,) = _called(body, name, [packed, factors], [TensorSpec.of(y.shape, packed.spec.dtype)])
    return [body.settled(_narrow(body, q, y)), upper]


# ---- parts -----------------------------------------------------------------------------------------


def _hermitian(body: Body, a: Tensor) -> Memory:
    """The Hermitian part, in a wide dtype."""
    mean = Tensor(a.spec, lambda index: hermitian(body, a, index), a.reads)
    return _wide(body, mean)


def _wide(body: Body, x: Tensor) -> Memory:
    """A copy in the dtype in which NumPy computes."""
    return body.copy(_cast(body, x, WIDE[x.spec.dtype]))


def _narrow(body: Body, memory: Memory, y: TensorSpec) -> Tensor:
    """What lies in memory in the dtype of a result."""
    return _cast(body, body.stored(memory), y.dtype)


def _cast(body: Body, x: Tensor, dtype: DType) -> Tensor:
    if dtype is x.spec.dtype:
        return x
    op = Convert(dtype)
    spec = TensorSpec.of(x.spec.shape, dtype)
    return same_place(spec, lambda index: convert(body.code, op, x.spec.dtype, [body.at(x, index)]), [x])  # fmt: skip


def _called(
    body: Body, name: str, operands: Sequence[Memory], results: Sequence[TensorSpec]
) -> list[Memory]:
    """The results of a loop, for all matrices of a batch at once."""
    memories = [body.memory(spec) for spec in results]
    _call(body.code, name, [*operands, *memories], None)
    return memories


def _called_where_finite(
    body: Body, name: str, a: Memory, results: Sequence[TensorSpec]
) -> list[Memory]:
    """The same, matrix by matrix; NaN for each that is not finite, on which LAPACK may never end."""
    code, count = body.code, prod(a.spec.shape[:-2])
    memories = [body.memory(spec) for spec in results]

    def one(number: Index) -> None:
        code.branch(
            is_finite(code, a, number),
            lambda: _call(code, name, [a, *memories], number),
            lambda: spoil(code, memories, number, count),
        )

    code.loop(count, one)
    return memories


def _call(code: Code, name: str, memories: Sequence[Memory], number: Index | None) -> None:
    """Call a loop on whole memories, or on the part of one matrix."""
    loop = _loop(name, memories[0].spec.dtype)
    assert loop is not None
    counts, steps = _extents(name, [memory.spec for memory in memories])
    pointers = [memory.pointer for memory in memories]
    if number is not None:
        count, counts[0] = counts[0], 1
        pointers = [vector(code, memory, number, memory.spec.size // count) for memory in memories]
    ufunc_loops.call(code, loop, pointers, counts, steps)


def _extents(name: str, specs: Sequence[TensorSpec]) -> tuple[list[int], list[int]]:
    """The counts of a call of a loop on row-major arrays, and its steps in bytes."""
    dimensions = DIMENSIONS[name]
    rank = specs[0].rank - len(dimensions[0])
    sizes: dict[str, int] = {}
    outer, inner = list[int](), list[int]()
    for letters, spec in zip(dimensions, specs, strict=True):
        shape = spec.shape[rank:]
        outer.append(prod(shape) * spec.dtype.itemsize)
        for position, letter in enumerate(letters):
            sizes.setdefault(letter, shape[position])
            inner.append(prod(shape[position + 1 :]) * spec.dtype.itemsize)
    return [prod(specs[0].shape[:rank]), *sizes.values()], [*outer, *inner]


def _loop(name: str, dtype: DType) -> Loop | None:
    """NumPy's loop of that name, of what it takes for a dtype."""
    module = getattr(np.linalg, "_umath_linalg", None)
    ufunc = getattr(module, name, None)
    if ufunc is None:
        return None
    positions = range(len(DIMENSIONS[name]))
    return loop_of(
        ufunc, tuple([dtype.real if each == REAL.get(name) else dtype for each in positions])
    )


# ---- whether NumPy is as it is known ---------------------------------------------------------------


def _of_definite(function: Callable[..., Any]) -> Callable[[Any], tuple[list[Any], Any]]:
    def trial(a: Any) -> tuple[list[Any], Any]:
        a = a[..., : a.shape[-2], :] @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-2])
        return [a], function(a)

    return trial


def _of_reflections(mode: Any) -> Callable[[Any], tuple[list[Any], Any]]:
    def trial(a: Any) -> tuple[list[Any], Any]:
        packed, factors = np.linalg.qr(a, "raw")
        return [np.ascontiguousarray(np.swapaxes(packed, -1, -2)), factors], np.linalg.qr(a, mode)[
            0
        ]

    return trial


def _of_regular(a: Any) -> tuple[list[Any], Any]:
    # The identity keeps a product of few columns from being singular, which LU meets or not by its rounding.
    regular = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-2])
    return [regular, a], np.linalg.solve(regular, a)


TRIALS: dict[str, Callable[[Any], tuple[list[Any], Any]]] = {
    "cholesky_lo": _of_definite(np.linalg.cholesky),
    "solve": _of_regular,
    "eigh_lo": _of_definite(np.linalg.eigh),
    "eigvalsh_lo": _of_definite(np.linalg.eigvalsh),
    "qr_r_raw": lambda a: ([a.copy()], np.linalg.qr(a, "raw")[1]),
    "qr_reduced": _of_reflections("reduced"),
    "qr_complete": _of_reflections("complete"),
    "svd": lambda a: ([a], np.linalg.svd(a, compute_uv=False)),
    "svd_s": lambda a: ([a], np.linalg.svd(a, full_matrices=False)),
    "svd_f": lambda a: ([a], np.linalg.svd(a)),
}
"""For each loop, its operands for a matrix and the results of the function of NumPy that calls it."""
LOOPS = {
    "cholesky": ("cholesky_lo",),
    "solve": ("solve",),
    "eigh": ("eigh_lo", "eigvalsh_lo"),
    "qr": ("qr_r_raw", "qr_reduced", "qr_complete"),
    "svd": ("svd", "svd_s", "svd_f"),
}
"""The loops of each routine."""
TRIED = ((1, 1), (5, 3), (3, 5), (2, 4, 4), (12, 9))


def is_known(routine: str, dtype: DType) -> bool:
    """Whether NumPy's functions come down to calls of these loops."""
    return all([is_known_loop(name, WIDE[dtype]) for name in LOOPS[routine]])


@cache
def is_known_loop(name: str, dtype: DType) -> bool:
    """Whether a call of a loop gives the bits of NumPy's function."""
    loop, rng = _loop(name, dtype), np.random.default_rng(0)
    if loop is None:
        return False
    for shape in TRIED:
        if name == "qr_complete" and shape[-2] <= shape[-1]:
            continue
        parts = rng.standard_normal((2, *shape))
        operands, wanted = TRIALS[name](parts[0] + 1j * parts[1] if dtype.is_complex else parts[0])
        results = [*wanted] if isinstance(wanted, tuple) else [wanted]
        arrays = [np.empty(y.shape, y.dtype) for y in results]
        specs = [TensorSpec.of(x.shape, DType.of(x.dtype)) for x in (*operands, *arrays)]
        ufunc_loops.run(loop, [*operands, *arrays], *_extents(name, specs))
        if [x.tobytes() for x in arrays] != [y.tobytes() for y in results]:
            return False
    return True
