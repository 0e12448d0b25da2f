"""Calls of public functions must have NumPy's values and dtypes, both on arrays and in a traced program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf

R = np.random.default_rng(0)
A, B = R.normal(size=(2, 3, 4)), R.normal(size=(3, 1))
K, J = R.integers(-9, 9, (3, 4)), R.integers(1, 9, (3, 4))
M, N = R.normal(size=(5, 3, 4)), R.normal(size=(4, 2))
C = A + 1j * A[::-1]
TIED = np.array([[1 + 1j, 1 - 2j, 0], [1 + 1j, np.nan * 1j, complex(np.inf, 3)]])
F4 = A.astype("f4")
TENSOR = np.random.default_rng(1).normal(size=(2, 3, 6))
P = np.abs(A) + 0.5
BOOLS = K > 0

CASES: list[tuple[str, Any, Any, tuple[Any, ...]]] = [
    ("add", lambda x, y: x + y, None, (A, B)),
    ("weak scalar", lambda x: x * 2.0 + 1, None, (F4,)),
    ("int and float", lambda x, y: x + y, None, (K, B)),
    ("int8 and int", lambda x: x + 1, None, (K.astype("i1"),)),
    ("true divide", lambda x, y: x / y, None, (K, J)),
    ("floor divide", lambda x, y: x // y, None, (K, J)),
    ("float floor divide", lambda x, y: x // y, None, (A, B)),
    ("modulo", lambda x, y: x % y, None, (K, J)),
    ("float modulo", lambda x, y: x % y, None, (A, B)),
    ("modulo by zero", lambda x: x % 0, None, (K,)),
    ("power", lambda x: x**3, None, (A,)),
    ("power half", lambda x: x**0.5, None, (P,)),
    ("shift", lambda x, y: (x << 1) >> 2, None, (K, J)),
    ("compare", lambda x, y: (x < y) & (x != 2), None, (K, J)),
    ("invert", lambda x: ~x, None, (BOOLS,)),
    ("abs", lambda x: abs(x), None, (C,)),
    ("sqrt of int", tnf.sqrt, np.sqrt, (J,)),
    ("exp of int8", tnf.exp, np.exp, (K.astype("i1"),)),
    ("hypot", tnf.hypot, np.hypot, (A, B)),
    ("logaddexp", tnf.logaddexp, np.logaddexp, (A, B)),
    ("copysign", tnf.copysign, np.copysign, (A, B)),
    ("trunc", tnf.trunc, np.trunc, (A * 3,)),
    ("round", tnf.round, np.round, (A * 3,)),
    ("log2", tnf.log2, np.log2, (P,)),
    ("log10", tnf.log10, np.log10, (P,)),
    ("exp2", tnf.exp2, np.exp2, (A,)),
    ("clip", lambda x: tnf.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5), (A,)),
    ("where", lambda x: tnf.where(x > 0, x, 0), lambda x: np.where(x > 0, x, 0), (F4,)),
    ("conj", tnf.conj, np.conj, (C,)),
    ("sum", lambda x: tnf.sum(x, axis=(0, -1)), lambda x: np.sum(x, (0, -1)), (A,)),
    ("sum int8", tnf.sum, np.sum, (K.astype("i1"),)),
    ("sum bool", lambda x: tnf.sum(x, axis=0), lambda x: np.sum(x, 0), (BOOLS,)),
    (
        "mean",
        lambda x: tnf.mean(x, axis=1, keepdims=True),
        lambda x: np.mean(x, 1, keepdims=True),
        (A,),
    ),
    ("mean int", tnf.mean, np.mean, (K,)),
    ("var", lambda x: tnf.var(x, axis=1, correction=1), lambda x: np.var(x, 1, ddof=1), (A,)),
    ("var complex", tnf.var, np.var, (C,)),
    ("std", tnf.std, np.std, (F4,)),
    ("prod", lambda x: tnf.prod(x, axis=0), lambda x: np.prod(x, 0), (J,)),
    ("max", lambda x: tnf.max(x, axis=-1), lambda x: np.max(x, -1), (A,)),
    ("max complex", lambda x: tnf.max(x, axis=0), lambda x: np.max(x, 0), (TIED,)),
    (
        "min complex",
        lambda x: tnf.min(x, axis=1, keepdims=True, initial=1 - 1j),
        lambda x: np.min(x, 1, keepdims=True, initial=1 - 1j),
        (TIED,),
    ),
    ("all", lambda x: tnf.all(x, axis=1), lambda x: np.all(x, 1), (K,)),
    ("any", tnf.any, np.any, (K,)),
    ("cumulative_sum", lambda x: tnf.cumulative_sum(x, axis=1), lambda x: np.cumsum(x, 1), (A,)),
    ("diff", tnf.diff, np.diff, (A,)),
    ("argmax", lambda x: tnf.argmax(x, axis=1), lambda x: np.argmax(x, 1), (A,)),
    ("argmin flat", tnf.argmin, np.argmin, (A,)),
    ("sort", tnf.sort, np.sort, (A,)),
    ("argsort", lambda x: tnf.argsort(x, axis=0), lambda x: np.argsort(x, 0, kind="stable"), (K,)),
    ("sort down", lambda x: tnf.sort(x, descending=True), lambda x: np.sort(x)[..., ::-1], (A,)),
    ("searchsorted", tnf.searchsorted, np.searchsorted, (np.sort(A[0, 0]), A)),
    (
        "searchsorted right",
        lambda x, y: tnf.searchsorted(x, y, side="right"),
        lambda x, y: np.searchsorted(x, y, "right"),
        (np.array([1, 2, 2, 5]), K),
    ),
    ("matmul", lambda x, y: x @ y, None, (M, N)),
    ("matmul batch", lambda x, y: x @ y, None, (M[:, None], R.normal(size=(7, 4, 2)))),
    ("matmul left matrix", lambda x, y: x @ y, None, (N.T, R.normal(size=(6, 4, 3)))),
    ("matmul vector", lambda x, y: x @ y, None, (M, N[:, 0])),
    ("vector matmul", lambda x, y: x @ y, None, (N[:, 0], R.normal(size=(5, 4, 3)))),
    ("inner", lambda x, y: x @ y, None, (N[:, 0], N[:, 1])),
    (
        "tensordot",
        lambda x, y: tnf.tensordot(x, y, axes=1),
        lambda x, y: np.tensordot(x, y, 1),
        (M, N),
    ),
    (
        "tensordot lists",
        lambda x, y: tnf.tensordot(x, y, axes=([2, 1], [0, 1])),
        lambda x, y: np.tensordot(x, y, ([2, 1], [0, 1])),
        (M, R.normal(size=(4, 3, 6))),
    ),
    ("vecdot", tnf.vecdot, np.vecdot, (C, C[0])),
    ("outer", tnf.outer, np.outer, (A[0, 0], B[:, 0])),
    ("outer flattens", tnf.outer, np.outer, (K, M)),
    ("outer of vectors", tnf.linalg.outer, np.linalg.outer, (A[0, 0], B[:, 0])),
    ("trace", tnf.trace, np.trace, (M,)),
    ("trace of axes", lambda x: tnf.trace(x, 1, 2, 0), lambda x: np.trace(x, 1, 2, 0), (M,)),
    ("trace of int8", tnf.trace, np.trace, (K.astype("i1"),)),
    (
        "trace below",
        lambda x: tnf.trace(x, offset=-1, dtype="float32"),
        lambda x: np.trace(x, -1, dtype="f4"),
        (M,),
    ),
    ("trace of matrices", tnf.linalg.trace, np.linalg.trace, (M,)),
    ("diagonal", tnf.diagonal, np.diagonal, (M,)),
    (
        "extract_diag",
        lambda x: tnf.extract_diag(x, 0, 2),
        lambda x: np.diagonal(x, 0, 0, 2).T,
        (C[:, :, :2],),
    ),
    ("embed_diag", lambda x: tnf.embed_diag(x), np.diag, (C[0, 0],)),
    ("clamp_min", lambda x: tnf.clamp_min(x, 0.5), lambda x: np.maximum(x, 0.5), (A,)),
    ("clamp_max", lambda x: tnf.clamp_max(x, 0.5), lambda x: np.minimum(x, 0.5), (A,)),
    ("tensorinv", lambda x: tnf.linalg.tensorinv(x), np.linalg.tensorinv, (TENSOR,)),
    (
        "tensorinv of one axis",
        lambda x: tnf.linalg.tensorinv(x, 1),
        lambda x: np.linalg.tensorinv(x, 1),
        (TENSOR.reshape(6, 3, 2),),
    ),
    ("tensorsolve", tnf.linalg.tensorsolve, np.linalg.tensorsolve, (TENSOR, TENSOR[..., 0])),
    (
        "tensorsolve of axes",
        lambda a, b: tnf.linalg.tensorsolve(a, b, (0,)),
        lambda a, b: np.linalg.tensorsolve(a, b, (0,)),
        (np.moveaxis(TENSOR, -1, 0), TENSOR[..., 0]),
    ),
    (
        "diagonal of axes",
        lambda x: tnf.diagonal(x, 1, -1, 0),
        lambda x: np.diagonal(x, 1, -1, 0),
        (M,),
    ),
    ("diagonal below", lambda x: tnf.diagonal(x, offset=-2), lambda x: np.diagonal(x, -2), (M,)),
    ("diagonal far", lambda x: tnf.diagonal(x, 9), lambda x: np.diagonal(x, 9), (M,)),
    (
        "diagonal of matrices",
        lambda x: tnf.linalg.diagonal(x, offset=1),
        lambda x: np.linalg.diagonal(x, offset=1),
        (M,),
    ),
    ("reshape", lambda x: tnf.reshape(x, (4, -1)), lambda x: x.reshape(4, -1), (A,)),
    ("transpose", lambda x: x.T, None, (A,)),
    (
        "moveaxis",
        lambda x: tnf.moveaxis(x, (0, 1), (2, 0)),
        lambda x: np.moveaxis(x, (0, 1), (2, 0)),
        (A,),
    ),
    ("swapaxes", lambda x: tnf.swapaxes(x, 0, 2), lambda x: np.swapaxes(x, 0, 2), (A,)),
    ("squeeze", lambda x: tnf.squeeze(x[:1]), lambda x: np.squeeze(x[:1]), (A,)),
    (
        "expand",
        lambda x: tnf.expand_dims(x, axis=(0, -1)),
        lambda x: np.expand_dims(x, (0, -1)),
        (A,),
    ),
    (
        "concat",
        lambda x, y: tnf.concat([x, y], axis=1),
        lambda x, y: np.concatenate([x, y], 1),
        (A, A[:, :2]),
    ),
    ("stack", lambda x, y: tnf.stack([x, y], axis=-1), lambda x, y: np.stack([x, y], -1), (A, A)),
    ("split", lambda x: tnf.split(x, [1, 3], axis=2), lambda x: np.split(x, [1, 3], 2), (A,)),
    ("split from the end", lambda x: tnf.split(x, [-1]), lambda x: np.split(x, [-1]), (A,)),
    ("angle of real numbers", tnf.angle, np.angle, (A,)),
    ("flip", lambda x: tnf.flip(x, axis=1), lambda x: np.flip(x, 1), (A,)),
    (
        "roll",
        lambda x: tnf.roll(x, (1, -2), axis=(0, 2)),
        lambda x: np.roll(x, (1, -2), (0, 2)),
        (A,),
    ),
    ("roll flat", lambda x: tnf.roll(x, 5), lambda x: np.roll(x, 5), (A,)),
    ("repeat", lambda x: tnf.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, 1), (A,)),
    ("tile", lambda x: tnf.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), (A,)),
    (
        "pad",
        lambda x: tnf.pad(x, ((1, 0), (0, 2), (3, 1)), constant_values=7),
        lambda x: np.pad(x, ((1, 0), (0, 2), (3, 1)), constant_values=7),
        (A,),
    ),
    ("tril", lambda x: tnf.tril(x, k=-1), lambda x: np.tril(x, -1), (A,)),
    (
        "meshgrid",
        lambda x, y: tnf.meshgrid(x, y),
        lambda x, y: np.meshgrid(x, y),
        (A[0, 0], B[:, 0]),
    ),
    ("astype", lambda x: tnf.astype(x, "int32"), lambda x: x.astype("int32"), (A * 9,)),
    (
        "take",
        lambda x: tnf.take(x, np.array([2, 0, -1]), axis=1),
        lambda x: np.take(x, [2, 0, -1], 1),
        (A,),
    ),
    (
        "take traced",
        lambda x, i: tnf.take(x, i, axis=0),
        lambda x, i: np.take(x, i, 0),
        (A, np.array([[0, 1], [1, -1]])),
    ),
    (
        "take along",
        lambda x, i: tnf.take_along_axis(x, i, axis=1),
        lambda x, i: np.take_along_axis(x, i, 1),
        (K, np.argsort(K, 1)),
    ),
    ("int index", lambda x: x[1], None, (A,)),
    ("slices", lambda x: x[:, ::-1, 1:4:2], None, (A,)),
    ("steps down", lambda x: x[..., 3:0:-2], None, (A,)),
    ("none and ellipsis", lambda x: x[None, ..., -1, None], None, (A,)),
    ("array index", lambda x: x[:, np.array([[0, 2], [1, -1]])], None, (A,)),
    ("two arrays", lambda x: x[np.array([0, 1]), :, np.array([3, 0])], None, (A,)),
    ("arrays together", lambda x: x[:, np.array([0, 1, 2]), np.array([3, 0, 1])], None, (A,)),
    ("int and array", lambda x: x[0, :, np.array([3, 0])], None, (A,)),
    ("array, none, int", lambda x: x[np.array([1, 0]), None, 2], None, (A,)),
    (
        "einsum trace",
        lambda x: tnf.einsum("aab->b", x),
        lambda x: np.einsum("aab->b", x),
        (R.normal(size=(3, 3, 2)),),
    ),
    (
        "einsum three",
        lambda x, y: tnf.einsum("bij,jk,bik->b", x, y, x[..., :2]),
        lambda x, y: np.einsum("bij,jk,bik->b", x, y, x[..., :2]),
        (M, N),
    ),
    (
        "einsum dots",
        lambda x, y: tnf.einsum("...j,jk", x, y),
        lambda x, y: np.einsum("...j,jk", x, y),
        (M, N),
    ),
    ("einsum implicit", lambda x: tnf.einsum("ba", x), lambda x: np.einsum("ba", x), (N,)),
    (
        "einsum hadamard",
        lambda x, y: tnf.einsum("ij,ji->ij", x, y),
        lambda x, y: np.einsum("ij,ji->ij", x, y),
        (N, N.T),
    ),
    ("methods", lambda x: x.sum(axis=0).reshape(-1).max(), None, (A,)),
]


@pytest.mark.parametrize(
    ("fn", "reference", "arrays"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_values_and_dtypes_are_numpys(fn: Any, reference: Any, arrays: tuple[Any, ...]) -> None:
    with np.errstate(all="ignore"):
        expected = (reference or fn)(*arrays)
    wanted = list(expected) if isinstance(expected, tuple | list) else [expected]
    program = tnf.compile(lambda *xs: fn(*xs), *arrays)
    runs = [program.run(*arrays)]
    if reference is not None:
        runs.append(fn(*arrays))
    for result in runs:
        given = list(result) if isinstance(result, tuple | list) else [result]
        assert len(given) == len(wanted)
        for y, e in zip(given, wanted, strict=True):
            e = np.asarray(e)
            assert y.dtype == e.dtype
            assert y.shape == e.shape
            tolerance = 1e-2 if e.dtype == np.float16 else 1e-5 if e.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(y, e, rtol=tolerance, atol=tolerance)
