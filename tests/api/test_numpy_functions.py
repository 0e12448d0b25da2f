"""NumPy's functions, called on tensors, must have the results of the same call on arrays, for every argument."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.api.numpy_functions import FUNCTIONS, REDUCTIONS, SCANS, UFUNCS

RT = tnf.EagerRuntime()
R = np.random.default_rng(0)
V, W = R.normal(size=4), R.normal(size=4)
M, N = R.normal(size=(3, 4)), R.normal(size=(3, 4))
T = R.normal(size=(2, 3, 4))
S = R.normal(size=(3, 3)) + 3 * np.eye(3)
B = np.stack([S, S.T @ S])
H = S @ S.T
CUBE = (R.normal(size=(6, 6)) + 6 * np.eye(6)).reshape(2, 3, 3, 2)
C = M + 1j * N
K = R.integers(-9, 9, (3, 4))
MASK = K > 0
ROW = np.array([True, False, True, True])
SORTED = np.sort(V)
ORDER = np.argsort(W)


class Call:
    """Arguments of one call of a function. Arrays among them become tensors, except arrays inside `Static`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


class Static:
    """An array that determines the shape of a result, so that it cannot become a tensor."""

    def __init__(self, array: Any) -> None:
        self.array = array


def each(*functions: Any, calls: list[Call]) -> dict[Any, list[Call]]:
    return dict.fromkeys(functions, calls)


REDUCED = [
    Call(T), Call(T, 1), Call(T, (0, 2)), Call(T, axis=-1, keepdims=True), Call(M, 0, None, False),
    Call(M, None, None, True),
]  # fmt: skip
EXTREME = [
    *REDUCED, Call(K), Call(M, 1, None, True, 0.5), Call(M, initial=9.0), Call(M, 0, initial=-9.0, where=MASK),
    Call(np.zeros((2, 0)), 1, initial=3.0), Call(np.zeros((2, 0)), 1, keepdims=True, initial=3.0),
    Call(K, initial=100),
]  # fmt: skip
SUMMED = [
    Call(T), Call(T, 1), Call(T, (0, 2), "float32"), Call(M, axis=-1, keepdims=True), Call(K), Call(K.astype("i1"), 0),
    Call(MASK, 1), Call(C), Call(M, 0, None, None, True, 2.0), Call(M, initial=3, where=MASK), Call(M, where=ROW, axis=1),
    Call(K.astype("u1"), dtype="int8"), Call(M.astype("f2"), 1),
]  # fmt: skip
MEANT = [
    Call(T), Call(T, 1), Call(M, (0, 1)), Call(K, 0), Call(C, axis=-1, keepdims=True), Call(M.astype("f4"), where=True),
    Call(MASK),
]  # fmt: skip
SPREAD = [
    *MEANT[:-1], Call(M, 1, None, None, 1), Call(M, ddof=2, keepdims=True), Call(M, axis=0, correction=1),
]  # fmt: skip
ALONG = [Call(M, 1), Call(M, axis=0), Call(V, 0)]
LIKE = [
    Call(M), Call(K), Call(M, "float32"), Call(M, dtype=bool), Call(M, shape=(2, 2)), Call(M, None, "K", True, 3),
    Call(M, device="cpu"),
]  # fmt: skip
FFT = [
    Call(M), Call(M, 6), Call(C, 3, 0), Call(M, axis=0, norm="ortho"), Call(M.astype("f4"), None, -1, "forward"),
    Call(K, n=2),
]  # fmt: skip
IRFFT = [
    Call(C), Call(C, 6), Call(C, 4, 0), Call(C, n=5, axis=0, norm="ortho"), Call(C.astype("c8"), None, -1, "forward"),
]  # fmt: skip
FFTN = [
    Call(T), Call(T, (2, 2), (1, 2)), Call(T, axes=(0, 1)), Call(M, (4, 5), (0, 1), "ortho"), Call(M, norm="forward"),
    Call(T.astype("f4"), s=(3, 3), axes=(0, 2)),
]  # fmt: skip

DOWN = [Call(V, descending=True)] if "descending" in inspect.signature(np.sort).parameters else []
"""Calls with `descending=True`, an argument of NumPy since version 2.5. NaN comes last even then."""
CALLS: dict[Any, list[Call]] = {
    **each(np.sum, np.prod, calls=SUMMED),
    **each(np.max, np.amax, np.min, np.amin, calls=EXTREME),
    **each(np.all, np.any, calls=[
        Call(MASK), Call(K, 0), Call(M > -9, axis=(0, 1)), Call(MASK, 1, None, True), Call(MASK, where=ROW, axis=1),
        Call(MASK, keepdims=True),
    ]),
    np.mean: [*MEANT, Call(K, 0, "float32"), Call(M, dtype="float32", axis=1)],
    **each(np.var, np.std, calls=SPREAD),
    **each(np.argmax, np.argmin, calls=[Call(M), Call(M, 1), Call(K, axis=0, keepdims=True), Call(T, None, None)]),
    np.count_nonzero: [Call(K), Call(K, 1), Call(MASK, axis=(0, 1), keepdims=True)],
    **each(np.cumsum, np.cumprod, calls=[Call(M), Call(M, 1), Call(K.astype("i1"), 0), Call(M, axis=0, dtype="float32"), Call(V)]),
    **each(np.cumulative_sum, np.cumulative_prod, calls=[Call(V), Call(M, axis=1, include_initial=True), Call(K, axis=0, dtype="float64")]),
    np.diff: [
        Call(M), Call(M, 2), Call(M, 1, 0), Call(M, n=0), Call(V, prepend=0.0), Call(V, 1, -1, 1.0, 2.0),
        Call(M, axis=0, append=V[None]), Call(MASK), Call(M, prepend=5.0, axis=0), Call(M, 0, prepend=5.0, append=M),
    ],
    np.clip: [
        Call(M, -0.5, 0.5), Call(M, 0.0, None), Call(M, None, 0.2), Call(M, a_min=0, a_max=1), Call(M, min=-0.1, max=V),
        Call(K, -2, 3), Call(M, max=0.0), Call(M, -0.5, 0.5, None),
    ],
    **each(np.round, np.around, calls=[Call(M * 5), Call(M, 1), Call(M * 999, -2), Call(K), Call(K, 1), Call(M.astype("f4"), decimals=2), Call(C, 1)]),
    np.where: [Call(MASK, M, N), Call(K, M, 0.0), Call(MASK, 1, M.astype("f4")), Call(MASK)],
    np.angle: [Call(C), Call(M), Call(C, True), Call(C, deg=False), Call(C.astype("c8"), deg=True), Call(MASK), Call(K.astype("i1"))],
    np.real: [Call(C), Call(M)], np.imag: [Call(C), Call(M)],
    np.linspace: [
        Call(V[0], 2.0, 5), Call(V, W), Call(V, W, 3, False), Call(V, 1.0, num=4, endpoint=True, dtype="float32"),
        Call(V, W, 3, True, False, None, -1), Call(V, W, 3, axis=1), Call(V, W, 3, device="cpu"),
    ],
    **each(np.zeros_like, np.ones_like, calls=LIKE),
    np.empty_like: [],
    np.full_like: [
        Call(M, 2), Call(K, 3.5), Call(M, V), Call(M, 1, "int8"), Call(M, 7, shape=(5,)), Call(M, fill_value=1, dtype=bool),
        Call(M, 1, None, "K", True, 3), Call(M, 2.0, device="cpu"),
    ],
    np.meshgrid: [Call(V, W), Call(V, W, V, indexing="ij"), Call(V), Call(V, W, copy=True)],
    **each(np.tril, np.triu, calls=[Call(M), Call(M, 1), Call(T, k=-1)]),
    np.reshape: [Call(M, (4, 3)), Call(M, (2, -1), "F"), Call(M, 12), Call(M, shape=(6, 2), order="C"), Call(M, (4, 3), copy=True)],
    np.ravel: [Call(M), Call(M, "F"), Call(T, order="C")],
    np.transpose: [Call(T), Call(T, (1, 0, 2)), Call(T, axes=(2, 0, 1)), Call(M, None)],
    np.matrix_transpose: [Call(T)], np.swapaxes: [Call(T, 0, 2), Call(T, axis1=-1, axis2=0)],
    np.moveaxis: [Call(T, 0, -1), Call(T, (0, 1), (2, 0)), Call(T, source=[0], destination=[1])],
    np.expand_dims: [Call(M, 0), Call(M, axis=(0, -1))], np.squeeze: [Call(M[:1]), Call(M[None], 0), Call(M[:1, :1], axis=(0, 1))],
    np.broadcast_to: [Call(V, (3, 4)), Call(V[:1], 4), Call(V, shape=(2, 3, 4), subok=False)],
    np.broadcast_arrays: [Call(M, V), Call(M, V[0], subok=False)],
    np.concatenate: [Call((M, N)), Call((M, N), 1), Call([M, K], axis=None), Call((M, N), 0, None), Call([M.astype("f4"), K.astype("i1")])],
    np.stack: [Call((M, N)), Call((M, N), 1), Call([M, N], axis=-1), Call((M, N), 0, None, casting="same_kind")],
    np.unstack: [Call(T), Call(T, axis=1)],
    np.split: [Call(M, 3), Call(M, 2, 1), Call(T, [1, 2], axis=2), Call(V, [-1]), Call(V, [3, 1]), Call(M, Static(np.array([1, 9])), 1), Call(V, [-3, -1])],
    np.tile: [Call(M, 2), Call(M, (2, 1, 3)), Call(V, reps=[2])],
    np.repeat: [Call(M, 2), Call(M, 2, 1), Call(M, Static(np.array([1, 0, 2])), axis=0), Call(M, repeats=3)],
    np.flip: [Call(T), Call(T, 1), Call(T, axis=(0, 2))],
    np.roll: [Call(M, 1), Call(M, -1, 1), Call(M, (1, 2), axis=(0, 1)), Call(M, shift=5)],
    np.pad: [
        Call(M, 1), Call(M, (1, 2)), Call(M, ((1, 0), (0, 2)), "constant", constant_values=3), Call(V, (3,)), Call(M, ((2, 1),)),
        Call(M, ((1,), (2,))),
    ],
    np.astype: [Call(M * 9, "int32"), Call(K, np.float32, copy=True), Call(C, "complex64", device="cpu")],
    np.diagonal: [Call(M), Call(T), Call(T, 1), Call(T, -1, 1, 2), Call(T, axis1=2, axis2=0), Call(M, offset=2)],
    np.sort: [Call(M), Call(M, 0), Call(M, None), Call(K, axis=0, kind="stable"), Call(M, -1, None, None, stable=True), *DOWN],
    np.argsort: [Call(M), Call(M, 0), Call(M, None), Call(K, axis=1, kind="stable"), Call(K, stable=True), *DOWN],
    np.nonzero: [Call(K), Call(MASK)],
    np.searchsorted: [Call(SORTED, M), Call(SORTED, SORTED, "right"), Call(SORTED, 0.1, side="left"), Call(W, V, sorter=ORDER), Call(np.array([1, 2, 2, 5]), K)],
    np.take: [
        Call(M, np.array([0, 2]), 1), Call(M, np.array([[1, -1]])), Call(M, [0, -1], axis=0), Call(M, 2, 1), Call(V, indices=np.array([1])),
        Call(M, [1], 0, None, "raise"),
    ],
    np.take_along_axis: [Call(M, np.argsort(M, 1), 1), Call(M, np.argsort(M, 0), axis=0), Call(M, np.array([5, 0]), None), Call(M, K[:, :1] % 4, 1)],
    np.isin: [Call(K, np.array([1, 2])), Call(K, [3], False, True), Call(K, K[0], assume_unique=False, invert=True, kind="sort")],
    np.unique_all: [Call(K)], np.unique_counts: [Call(K)], np.unique_inverse: [Call(K)], np.unique_values: [Call(K)],
    np.einsum: [Call("ij,kj->ik", M, N), Call("ij->j", M), Call("ij,jk,kl", M, N.T, M, optimize=True), Call(M, [0, 1], [1, 0])],
    np.tensordot: [Call(M, N), Call(M, N.T, 1), Call(T, M, axes=([1, 2], [0, 1]))],
    np.outer: [Call(V, W), Call(M, K), Call(V[0], W), Call(V, W, None)],
    np.trace: [Call(M), Call(T), Call(T, 1), Call(T, -1, 1, 2), Call(T, 0, axis1=2, axis2=0), Call(K.astype("i1")), Call(M, 0, 0, 1, "float32"), Call(M, dtype="complex64")],
    np.shape: [Call(T), Call(V[0])], np.ndim: [Call(T)], np.size: [Call(T), Call(T, 1), Call(T, axis=0)],
    np.iscomplexobj: [Call(C), Call(M)], np.isrealobj: [Call(C), Call(M)],
    np.result_type: [Call(M.astype("f4"), 2.0), Call(K.astype("i1"), "float32"), Call(K, M.astype("f4")), Call(M.astype("f4"), np.dtype("i8"))],
    np.can_cast: [Call(M, "float32"), Call(K.astype("i1"), np.int64, "safe"), Call(M, "float32", casting="same_kind")],
    np.linalg.cholesky: [Call(H), Call(H + np.triu(np.ones((3, 3)), 1)), Call(np.stack([H, H]), upper=True), Call(H + np.tril(np.ones((3, 3)), -1), upper=True)],
    np.linalg.cond: [Call(S), Call(B, 1), Call(S, p=-2), Call(S, "fro"), Call(S, "nuc"), Call(S, np.inf)],
    np.linalg.cross: [Call(M[:, :3], N[:, :3]), Call(M, N, axis=0)], np.linalg.det: [Call(S), Call(B)],
    np.linalg.diagonal: [Call(T), Call(T, offset=1)], np.linalg.inv: [Call(S), Call(B)],
    np.linalg.eig: [Call(S), Call(B + 0j)], np.linalg.eigvals: [Call(S), Call(B + 0j)],
    np.linalg.eigh: [Call(H), Call(S), Call(S, "U"), Call(B, UPLO="L")], np.linalg.eigvalsh: [Call(H), Call(S), Call(S, "U"), Call(B, UPLO="L")],
    np.linalg.matmul: [Call(M, N.T), Call(V, W)],
    np.linalg.matrix_norm: [Call(T), Call(T, ord="nuc"), Call(T, keepdims=True, ord=1)],
    np.linalg.matrix_power: [Call(S, 3), Call(B, n=-2), Call(S, 0)], np.linalg.matrix_rank: [Call(S), Call(M[:, :1] * V), Call(B, rtol=0.5), Call(S, hermitian=True)],
    np.linalg.matrix_transpose: [Call(T)], np.linalg.multi_dot: [Call([M, N.T, S]), Call([V, N.T, S, S[0]])],
    np.linalg.norm: [Call(V), Call(T), Call(M, 1), Call(M, "nuc"), Call(T, 2, (0, 1)), Call(T, None, 1, True), Call(V, 3), Call(V, -np.inf), Call(M, ord="fro", axis=(1, 0), keepdims=True)],
    np.linalg.outer: [Call(V, W)], np.linalg.pinv: [Call(M), Call(T, 0.3), Call(S, rtol=0.5), Call(M[:, :1] * V), Call(M[:, :1] * V, rtol=None), Call(S, hermitian=True)],
    np.linalg.qr: [Call(M), Call(T, "r"), Call(M.T, mode="complete")], np.linalg.slogdet: [Call(S), Call(-B)],
    np.linalg.solve: [Call(S, M), Call(B, V[:3]), Call(S, T), Call(a=S, b=M)],
    np.linalg.svd: [Call(M), Call(T, False), Call(M, compute_uv=False), Call(M.T, full_matrices=False, compute_uv=True), Call(S, compute_uv=False, hermitian=True)],
    np.linalg.svdvals: [Call(T)], np.linalg.tensordot: [Call(M, N.T, axes=1), Call(M, N)],
    np.linalg.tensorinv: [Call(CUBE), Call(CUBE.reshape(6, 3, 2), 1), Call(CUBE, ind=2)],
    np.linalg.tensorsolve: [Call(CUBE, M.ravel()[:6].reshape(2, 3)), Call(CUBE.reshape(6, 2, 3), V[0] * np.arange(6.0)), Call(CUBE, K[:2, :3], (1,)), Call(CUBE.transpose(2, 0, 1, 3), M[:2, :3], axes=[1, 2]), Call(CUBE, M.ravel()[:6].reshape(3, 2))],
    np.linalg.trace: [Call(T), Call(T, offset=-1), Call(K.astype("i1"), dtype="float32")], np.linalg.vecdot: [Call(C, C), Call(M, N, axis=0)],
    np.linalg.vector_norm: [Call(T), Call(T, axis=(0, 1)), Call(M, axis=1, keepdims=True, ord=1), Call(V, ord=np.inf)],
    **each(np.fft.fft, np.fft.ifft, calls=FFT), **each(np.fft.rfft, np.fft.ihfft, calls=[c for c in FFT if not np.iscomplexobj(c.args[0])] + [Call(M, 3, 0)]),
    **each(np.fft.irfft, np.fft.hfft, calls=IRFFT),
    **each(np.fft.fftn, np.fft.ifftn, np.fft.fft2, np.fft.ifft2, np.fft.rfftn, np.fft.rfft2, calls=FFTN),
    **each(np.fft.irfftn, np.fft.irfft2, calls=[
        Call(C), Call(C, (4, 4), (0, 1)), Call(C, axes=(1, 0)), Call(C, s=(3, 5), axes=(0, 1), norm="ortho"), Call(C.astype("c8"), None, (0, 1), "forward"),
    ]),
    **each(np.fft.fftshift, np.fft.ifftshift, calls=[Call(T), Call(T, 1), Call(T, axes=(0, 2))]),
}  # fmt: skip
X = np.array([-2.5, -1.0, -0.0, 0.0, 0.3, 1.0, 4.5])
GAPS = np.where(np.abs(M) < 0.4, np.nan, M)
LONG = R.normal(size=9)
POINTS, LEVELS = np.array([-1.0, 0.0, 0.5, 2.0]), np.array([3.0, -1.0, 4.0, 0.5])
NAN_SUMMED = [Call(GAPS), Call(GAPS, 1), Call(GAPS, 0, "float32"), Call(GAPS, None, None, None, True, 2.0), Call(GAPS, 0, where=MASK), Call(K, 1)]  # fmt: skip
NAN_MEANT = [Call(GAPS), Call(GAPS, 1), Call(GAPS, 0, "float32"), Call(GAPS, axis=1, keepdims=True), Call(GAPS, 0, where=ROW), Call(K, 0)]  # fmt: skip
QUANTILES = [
    Call(M, 0.5), Call(M, 0.25, 1), Call(M, [0.1, 0.9], 0), Call(T, 0.3, (0, 2), None, False, "hazen", True), Call(K, 0.4),
    Call(M.astype("f4"), 0.2, axis=1), Call(GAPS, 0.5, 1), Call(M, np.array([[0.0, 1.0]]), axis=1, keepdims=True),
    *[Call(M, [0.0, 0.35, 0.5, 1.0], 1, method=name) for name in (
        "lower", "higher", "midpoint", "nearest", "inverted_cdf", "interpolated_inverted_cdf", "weibull", "median_unbiased",
        "normal_unbiased",
    )],
]  # fmt: skip
CONVOLVED = [
    *[Call(V, LONG, mode) for mode in ("full", "same", "valid")], *[Call(LONG, V, mode) for mode in ("full", "same", "valid")],
    Call(LONG, V[:3], mode="same"), Call(V[:3], LONG, mode="same"), Call(K[0], K[1]), Call(C[0], LONG, "full"), Call(LONG, C[0], "same"),
    Call(V[:2], V, "same"), Call(V.astype("f4"), W),
]  # fmt: skip

CALLS |= {
    np.around: CALLS[np.round], np.permute_dims: CALLS[np.transpose], np.concat: CALLS[np.concatenate],
    np.linalg.lstsq: [Call(M.T, V), Call(M, V[:3]), Call(M.T, N.T, None), Call(M.T, V, rcond=1e-3)],
    np.array_split: [Call(M, 2), Call(V, 3), Call(M, 3, 1), Call(T, [1, 2], axis=2)],
    np.hsplit: [Call(M, 2), Call(V, [1, 3])], np.vsplit: [Call(M, 3), Call(M, [1])], np.dsplit: [Call(T, 2)],
    np.atleast_1d: [Call(V[0]), Call(V[0], M)], np.atleast_2d: [Call(V), Call(V[0], V, M)], np.atleast_3d: [Call(V[0]), Call(V), Call(M, T)],
    **each(np.vstack, np.hstack, calls=[
        Call((V, W)), Call((M, N)), Call([T, T]), Call((V, K[0]), dtype="float32"), Call((M, N), casting="safe"), Call((V[0], W[1])),
    ]),
    **each(np.dstack, np.column_stack, calls=[Call((V, W)), Call((M, N))]),
    np.append: [Call(V, W), Call(M, N, 0), Call(M, V), Call(M, N, axis=1)],
    np.diag: [Call(V), Call(V, 1), Call(V, k=-2), Call(M), Call(M, 1), Call(S, -1)], np.diagflat: [Call(M), Call(V, 1), Call(V, k=-1)],
    **each(np.fliplr, calls=[Call(M), Call(T)]), **each(np.flipud, calls=[Call(V), Call(T)]),
    np.rot90: [Call(M), Call(M, 2), Call(M, 3), Call(M, 4), Call(T, -1, (1, 2)), Call(T, k=1, axes=(2, 0))],
    np.dot: [Call(V, W), Call(M, V), Call(M, N.T), Call(T, N.T), Call(T, T.transpose(1, 2, 0), None), Call(V[0], M), Call(K, V)],
    np.inner: [Call(V, W), Call(M, N), Call(T, V), Call(V[0], M)], np.vdot: [Call(V, W), Call(C, C), Call(C, M), Call(M, C)],
    np.kron: [Call(V, W), Call(M, S), Call(V, M), Call(T, M), Call(V[0], M), Call(K, C)],
    np.sinc: [Call(X), Call(K), Call(X.astype("f4"))], np.fix: [Call(X), Call(K)],
    np.nan_to_num: [
        Call(GAPS), Call(np.array([np.nan, np.inf, -np.inf, 1.0])), Call(np.array([np.nan, np.inf, -np.inf]), True, 1.0, 2.0, -3.0), Call(K),
        Call(np.array([np.nan + 1j, 1j * np.inf])), Call(np.array([np.inf], "f4"), copy=True, nan=2.0),
    ],
    **each(np.isreal, np.iscomplex, calls=[Call(C), Call(M), Call(C.real + 0j)]),
    np.isclose: [Call(M, M + 1e-9), Call(M, N), Call(GAPS, GAPS), Call(GAPS, GAPS, equal_nan=True), Call(np.array([np.inf, -np.inf, np.inf]), np.array([np.inf, np.inf, 1.0])), Call(M, M + 0.1, 0.0, 0.2), Call(K, K, rtol=0.1, atol=1.0)],
    np.allclose: [Call(M, M + 1e-9), Call(M, N), Call(GAPS, GAPS, 1e-5, 1e-8, True), Call(K, K + 1, rtol=0.0, atol=2.0, equal_nan=False)],
    np.array_equal: [Call(M, M), Call(M, N), Call(M, V), Call(GAPS, GAPS), Call(GAPS, GAPS, True), Call(GAPS, GAPS, equal_nan=True)],
    np.select: [Call([MASK, M > 0], [M, N]), Call([MASK, M > 0], [M, N], 7.0), Call([MASK, ROW], [K, V], default=1)],
    np.median: [Call(M), Call(M, 0), Call(T, (0, 2)), Call(K, 1), Call(M[:, :3], 1, None, False, True), Call(GAPS, 1), Call(M.astype("f4"), axis=1, keepdims=True)],
    np.quantile: QUANTILES, np.percentile: [Call(c.args[0], np.asarray(c.args[1]) * 100 if not isinstance(c.args[1], float) else c.args[1] * 100, *c.args[2:], **c.kwargs) for c in QUANTILES],
    np.average: [
        Call(M), Call(M, 1), Call(M, 0, N**2), Call(M, 1, V**2), Call(T, (0, 2), R.random((2, 4))), Call(T, (2, 0), R.random((4, 2))),
        Call(M, weights=N**2, returned=True), Call(K, 1, None, True), Call(M, axis=1, weights=V**2, keepdims=True),
    ],
    np.cov: [
        Call(M), Call(V), Call(M, N), Call(M, None, False), Call(M, rowvar=True, bias=True), Call(M, ddof=2), Call(C), Call(M.astype("f4")),
        Call(M, fweights=np.array([1, 2, 3, 1])), Call(M, aweights=V**2), Call(M, None, True, False, 1, np.array([1, 2, 3, 1]), V**2), Call(M, dtype="float32"),
        Call(M, None, True, True, None, None, V**2), Call(M[:1]), Call(M[:, :1], rowvar=False), Call(M[:1], M[:1]),
    ],
    np.corrcoef: [Call(M[:1]), Call(M[:, :1], rowvar=False), Call(M), Call(V), Call(M, N), Call(M, y=None, rowvar=False), Call(C), Call(M, dtype="float32")],
    np.ptp: [Call(M), Call(M, 1), Call(K, 0, None, True)],
    **each(np.nansum, np.nanprod, calls=NAN_SUMMED), np.nanmean: NAN_MEANT,
    **each(np.nanvar, np.nanstd, calls=[
        *[c for c in NAN_MEANT if "where" not in c.kwargs], Call(GAPS, 1, None, None, 1), Call(GAPS, axis=0, correction=1), Call(GAPS, 1, where=ROW),
        Call(GAPS, 1, mean=np.nanmean(GAPS, 1, keepdims=True)),
    ]),
    **each(np.nanmax, np.nanmin, calls=[Call(GAPS), Call(GAPS, 1), Call(GAPS, 0, None, True), Call(GAPS, 0, initial=0.1, where=MASK), Call(K, 0)]),
    np.bincount: [Call(np.array([0, 3, 3, 1])), Call(np.array([0, 3, 3, 1]), V), Call(np.array([0, 1]), None, 5), Call(np.array([0, 1, 1]), weights=K[0, :3], minlength=1)],
    np.digitize: [Call(M, SORTED), Call(M, SORTED, True), Call(V, SORTED), Call(M, bins=SORTED, right=False)],
    np.interp: [
        Call(X, POINTS, LEVELS), Call(X, POINTS, LEVELS, -7.0), Call(X, POINTS, LEVELS, 1.0, 2.0), Call(K, POINTS, K[0]), Call(0.3, POINTS, LEVELS),
        Call(X, POINTS, LEVELS + 1j), Call(X, POINTS, LEVELS, period=3.5), Call(X, POINTS[::-1].copy(), LEVELS, period=-3.5), Call(X, POINTS[:1], LEVELS[:1]),
        Call(GAPS, POINTS, LEVELS, left=0.0, right=9.0),
    ],
    np.gradient: [
        Call(LONG), Call(M), Call(T, axis=1), Call(T, 2.0, axis=(2, 0)), Call(M, 2.0, 0.5), Call(LONG, np.sort(LONG)), Call(M, 1.0, SORTED), Call(V[:2]),
        Call(LONG, edge_order=2), Call(LONG, np.sort(LONG), edge_order=2), Call(M, 0.5, SORTED, edge_order=2), Call(K), Call(M.astype("f4"), 2), Call(C, axis=-1),
    ],
    np.trapezoid: [Call(V), Call(T, axis=1), Call(V, W), Call(M, V), Call(M, None, 0.5), Call(M, N, axis=0), Call(K, dx=2), Call(M, x=V[:3], axis=0)],
    np.convolve: CONVOLVED, np.correlate: CONVOLVED,
    np.polyval: [Call(V, M), Call(np.array([3, 0, 1]), K), Call(V, 2.0), Call(V, C)],
    np.logspace: [Call(V[0], 2.0), Call(V, W, 5), Call(V[0], 1.0, 4, False, 2.0), Call(0.0, V[0], num=3, base=V[1] ** 2, dtype="float32"), Call(V, W, 3, True, 10.0, None, -1), Call(V, W, 3, endpoint=True, axis=1)],
    np.geomspace: [Call(V[0] ** 2, 2.0), Call(V**2, W**2, 5), Call(-(V**2), -(W**2), 4, False), Call(V[0] ** 2, 3.0, num=3, dtype="float32"), Call(V**2, W**2, 3, True, None, -1), Call(V**2, W**2, 3, endpoint=True, axis=1), Call(V[0] ** 2, 5.0, 1)],
}  # fmt: skip
CALLS |= {
    np.cross: [
        Call(M[:, :3], N[:, :3]), Call(M, N, axis=0), Call(M[:, 0], N[:, :3]), Call(M, N, 0, 0, 0), Call(S, S.T, axisa=0, axisb=1, axisc=0),
        Call(K[:, :3], K[:, 1:]),
    ],
    np.rollaxis: [Call(T, 2), Call(T, 0, 3), Call(T, 0, 2), Call(T, axis=-1, start=1), Call(T, 1, -1)],
    # Partition three elements around the middle one: for more elements, several results would be correct.
    **each(np.partition, np.argpartition, calls=[Call(M[:, :3], 1), Call(M, 1, 0), Call(V[:3], 1, None), Call(K[:3, 0] + [0, 20, 40], kth=-2, axis=0, kind="introselect")]),
    np.argwhere: [Call(K), Call(MASK), Call(V[0]), Call(np.zeros(()))], np.flatnonzero: [Call(K), Call(MASK)],
    np.nanmedian: [Call(GAPS), Call(GAPS, 0), Call(T, (0, 2)), Call(K, 1), Call(GAPS, 1, None, False, True), Call(GAPS.astype("f4"), axis=1, keepdims=True)],
    np.unwrap: [
        Call(LONG * 5), Call(T * 9, axis=1), Call(LONG * 5, 4.0), Call(K, period=6), Call(K, period=5), Call(M * 5, discont=1.0, period=3.0), Call(LONG.astype("f4") * 5),
        Call(np.arange(5) * 3, period=6),
    ],
    np.real_if_close: [Call(M), Call(K), Call(M, tol=9)],
    np.histogram_bin_edges: [Call(M), Call(M, 3), Call(K, 4, (-2, 5)), Call(M, SORTED), Call(np.ones(3), bins=2), Call(np.ones(0)), Call(M, 3, range=(0.0, 1.0), weights=N)],
    np.histogram: [
        Call(M), Call(M, 3), Call(K, 4, (-2, 5)), Call(M, SORTED), Call(K, np.array([-3, 0, 3])), Call(M, 5, None, True), Call(M, 3, weights=N), Call(M, 3, weights=K),
        Call(M, bins=SORTED, density=True, weights=N**2), Call(np.ones(3), bins=2), Call(GAPS, 3, range=(-1.0, 1.0)),
    ],
}  # fmt: skip
CALLS[np.quantile] = [
    *QUANTILES,
    *[Call(M, [0.0, 0.25, 0.35, 0.5, 1.0], 1, method=name) for name in ("averaged_inverted_cdf", "closest_observation")],
    *[Call(LONG, np.linspace(0, 1, 19), method=name) for name in ("averaged_inverted_cdf", "closest_observation", "inverted_cdf")],
    Call(M, 0.4, 1, method="inverted_cdf", weights=V**2), Call(M, [0.0, 0.2, 1.0], method="inverted_cdf", weights=N**2),
    Call(T, [0.3, 0.8], (0, 2), method="inverted_cdf", weights=T**2, keepdims=True), Call(V, 0.0, method="inverted_cdf", weights=np.array([0, 1, 2, 0.0])),
    Call(K, 0.4, 0, method="inverted_cdf", weights=K**2), Call(GAPS, 0.4, 1, method="inverted_cdf", weights=V**2),
]  # fmt: skip
CALLS[np.percentile] += [Call(M, 40.0, 1, method="inverted_cdf", weights=V**2)]
CALLS[np.mean] += [
    Call(M, where=MASK),
    Call(M, 1, None, None, True, where=ROW),
    Call(K, 0, where=MASK),
]
for spread in (np.var, np.std):
    CALLS[spread] = [*CALLS[spread], Call(M, 1, "float32"), Call(M, 1, where=ROW), Call(M, 0, mean=M.mean(0, keepdims=True)), Call(K, None, None, None, 1, where=MASK)]  # fmt: skip
CALLS[np.take] += [Call(M, np.array([5, -7]), 1, mode="clip"), Call(M, np.array([5, -7, 2]), 0, None, "wrap"), Call(V, [[9]], mode="wrap")]  # fmt: skip
CALLS[np.linspace] += [
    Call(V, W, 3, retstep=True),
    Call(V[0], 1.0, 1, True, True),
    Call(V, 2.0, 5, False, True),
]
CALLS[np.meshgrid] += [Call(V, W, sparse=True), Call(V, W, V, sparse=True, indexing="ij")]
CALLS[np.concatenate] += [
    Call((M, N), dtype="float32"),
    Call((K, K), 1, dtype="float64", casting="safe"),
]
CALLS[np.stack] += [Call((M, N), dtype="float32")]
CALLS[np.einsum] += [Call("ij,jk", M, N.T, dtype="complex128"), Call("ij,jk", M, N.T, dtype="float32", casting="same_kind")]  # fmt: skip
CALLS[np.linalg.matrix_rank] += [Call(S, 0.5), Call(B, tol=np.array([0.1, 9.0]))]
CALLS[np.pad] += [
    *[Call(x, width, mode) for x in (V, M, K) for width in (1, (0, 3), ((2, 7), (1, 0))[: x.ndim])
      for mode in ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "median", "linear_ramp")
      if not (x is V and isinstance(width, tuple) and isinstance(width[0], tuple) and mode == "reflect")],
    Call(M, ((1, 2), (0, 3)), "constant", constant_values=((1, 2), (3, 4))), Call(M, 1, constant_values=(1.5, 2.5)), Call(T, ((1, 1), (0, 2), (3, 0)), mode="reflect"),
    Call(M, 2, "mean", stat_length=2), Call(M, (1, 2), "maximum", stat_length=((1, 2), (2, 3))), Call(V, (2, 3), "linear_ramp", end_values=(5, -4)),
    Call(M, {1: (1, 2)}), Call(M, {-1: 2, 0: (0, 1)}, "edge"), Call(V[:1], 3, "reflect"), Call(M.astype("f4"), 2, "wrap"), Call(V, 3, "symmetric", reflect_type="even"),
    *[Call(x, w, mode, reflect_type="odd") for mode in ("reflect", "symmetric") for x, w in ((V, 2), (V[:2], (7, 5)), (V[:1], 2), (M, (1, 2)), (np.array([1.0, 2.0, np.inf]), 1), (np.array([np.inf, 1.0, -np.inf, 2.0, np.nan]), (14, 11)), (np.array([np.inf, 1.0, 2.0]), (2, 7)), (np.arange(4, dtype="u1"), 3))],
]  # fmt: skip
P, Q = np.array([3.0, 0.0, -1.0, 2.0]), np.array([2.0, 1.0])
J, BYTES = R.integers(-20, 20, 4), R.integers(0, 256, (2, 3)).astype(np.uint8)
ROWS = np.array([[1, 2], [0, 5], [1, 2], [0, 4], [0, 5]])
SETS = [Call(K, J), Call(J, K[0], assume_unique=False)]
HOLES = np.where(R.random((4, 5)) < 0.3, np.nan, R.normal(size=(4, 5)))
NAN_ARG = [Call(HOLES), Call(HOLES, 1), Call(HOLES, axis=0, keepdims=True), Call(K)]
NAN_SCAN = [Call(HOLES), Call(HOLES, 1), Call(HOLES, axis=0, dtype="float32"), Call(K)]
NAN_QUANTILES = [
    Call(HOLES, [0.1, 0.5], 1), Call(HOLES, 0.3, (0, 1), None, False, "linear", True), Call(HOLES, 0.3, axis=0, method="hazen"),
    Call(HOLES, np.array([[0.0, 1.0]]), method="inverted_cdf"), Call(K, 0.4, weights=None),
]  # fmt: skip
CALLS |= {
    np.poly: [Call(V[:3]), Call(C[0]), Call(K[0]), Call(M[:3, :3]), Call(K[:2, :2])],
    **each(np.polyadd, np.polysub, np.polymul, calls=[Call(P, Q), Call(a1=Q, a2=K[0]), Call(C[0], P)]), np.polydiv: [Call(P, Q), Call(u=K[0], v=Q)],
    np.polyder: [Call(P), Call(P, 2), Call(p=K[0], m=0)], np.polyint: [Call(P), Call(P, 2, [3.0, 1.0]), Call(p=K[0], m=2, k=1.5)],
    np.polyfit: [
        Call(LONG, LONG**2 + V[0], 2), Call(LONG, np.stack([LONG, LONG**3], 1), 1, w=LONG**2), Call(V, W, 1, None, True), Call(V, W, 1, cov=True), Call(LONG, LONG**3, deg=2, rcond=1e-9, cov="unscaled"),
        Call(LONG, np.stack([LONG, LONG**3], 1), 1, cov=True),
    ],
    np.vander: [Call(V), Call(J, 3, True), Call(V, 0), Call(C[0], N=2)],
    np.ix_: [Call(K[0], K[:, 1]), Call(Static(ROW), K[0])], np.diag_indices_from: [Call(S), Call(arr=np.zeros((2, 2, 2)))],
    **each(np.tril_indices_from, np.triu_indices_from, calls=[Call(M), Call(M, 1), Call(M, k=-1)]),
    np.ravel_multi_index: [
        Call((K[0], K[1]), (3, 4), "wrap"), Call((K[0], K[1]), dims=(3, 4), mode=("clip", "wrap"), order="F"), Call((K[0] % 3, 3), (3, 4), mode="clip"),
    ],
    np.unravel_index: [Call(np.array([[5, 11], [0, 3]]), (3, 4)), Call(J % 12, shape=(3, 4), order="F")],
    np.unique: [
        Call(K), Call(K, True, True, True), Call(ROWS, axis=0, return_inverse=True, return_counts=True), Call(ROWS, axis=1), Call(HOLES, return_counts=True),
        Call(HOLES, equal_nan=False, return_counts=True), Call(C, return_index=True), *[Call(K, sorted=True)] * ("sorted" in inspect.signature(np.unique).parameters),
    ],
    np.union1d: [Call(K, J), Call(M, K)], **each(np.setdiff1d, np.setxor1d, calls=SETS), np.intersect1d: [*SETS, Call(K, J, return_indices=True)],
    np.lexsort: [Call((ROWS[:, 1], ROWS[:, 0])), Call(np.stack([K % 3, K % 2]), axis=0), Call((V,))], np.sort_complex: [Call(C), Call(K.astype("i2")), Call(M)],
    np.block: [Call([[M, N], [np.ones((1, 8))]]), Call([V, 1.0]), Call(M), Call([[[M]], [[N]]])],
    np.delete: [Call(M, 1, 0), Call(M, [0, -1, 5]), Call(M, slice(None, None, 2), axis=1), Call(V, Static(V > 0))],
    np.insert: [
        Call(M, 1, N[0], axis=0), Call(M, [0, 2], 7.5, 1), Call(V, [3, 1, 1], [1, 2, 3]), Call(V, -1, [8, 9]), Call(M, [1], [[1], [2], [3]], axis=1), Call(K, 2, 9.7), Call(V, slice(1, 4, 2), 0.5),
        Call(V, 4, W[0]),
    ],
    np.resize: [Call(M, (5, 4)), Call(M, 2), Call(V[:0], (2, 2))], np.trim_zeros: [Call(np.array([0, 0, 1, 0, 2, 0])), Call(np.array([0.0, -0.0])), Call(np.array([0, 1, 0]), "b"), Call(np.array([0, 1, 0]), trim="F", axis=0)],
    np.ediff1d: [Call(M), Call(V, to_begin=[9.0, 8.0], to_end=1.0), Call(K, W[:1].astype("i8"))],
    np.compress: [Call(ROW, M, 1), Call(MASK[0], M[0]), Call(condition=ROW[:2], a=M, axis=0)], np.extract: [Call(MASK, M), Call(condition=K, arr=N)],
    np.choose: [Call(Static(np.array([[0, 1], [2, 0]])), [1.0, np.array([[2, 3], [4, 5]]), 9]), Call(np.array([4, -1]), [[1, 2], [3, 4]], mode="wrap"), Call(K[0], choices=[V, W], mode="clip")],
    np.piecewise: [Call(V, [V < 0, V > 1], [lambda x: -x, 5.0, lambda x: x * 2]), Call(V, V > 0, [1.0]), Call(V[0], [True, False], [3.0, 4.0]), Call(M, [MASK], [lambda x, y, z=1.0: x * y + z], 2.0, z=3.0)],
    np.apply_along_axis: [Call(np.cumsum, 0, M), Call(np.sum, -1, T), Call(lambda x, y=1.0: np.outer(x, x) * y, 1, T, 2.0), Call(np.diff, 0, M, n=1)],
    np.apply_over_axes: [Call(np.sum, T, [0, -1]), Call(np.cumsum, M, axes=1)],
    **each(np.nanargmax, np.nanargmin, calls=NAN_ARG), **each(np.nancumsum, np.nancumprod, calls=NAN_SCAN),
    np.nanquantile: NAN_QUANTILES, np.nanpercentile: [Call(HOLES, 30.0), Call(HOLES, [25, 75], axis=1, keepdims=True), Call(HOLES, q=50, method="weibull", weights=None)],
    np.histogram2d: [Call(V, W), Call(V, W, (2, 3), None, True), Call(V, W, np.array([-1.0, 0.0, 1.0]), weights=W), Call(V, W, bins=[2, np.array([-1.0, 1.0])], range=[(-1.0, 1.0), (0.0, 2.0)])],
    np.histogramdd: [Call(M[:, :3], (2, 3, 4)), Call([V, W], 3, ((-1, 1), None)), Call(sample=V, bins=2, density=True, weights=W)],
    np.packbits: [Call(MASK), Call(K, 0, "little"), Call(MASK, axis=-1)], np.unpackbits: [Call(BYTES), Call(BYTES, 1, -3), Call(BYTES, axis=0, count=30, bitorder="little")],
    **each(np.isposinf, np.isneginf, calls=[Call(np.array([np.inf, -np.inf, np.nan, 1.0])), Call(K)]), np.array_equiv: [Call(M, M[None]), Call(M, V), Call(M, M[:2])],
    np.copy: [Call(M), Call(a=K)], np.i0: [Call(np.abs(V)), Call(x=V)],
}  # fmt: skip
OF_ELEMENTS = {
    np.compress,
    np.extract,
    np.intersect1d,
    np.setdiff1d,
    np.setxor1d,
    np.trim_zeros,
    np.union1d,
    np.unique,
    np.argwhere,
    np.bincount,
    np.flatnonzero,
    np.nonzero,
    np.unique_all,
    np.unique_counts,
    np.unique_inverse,
    np.unique_values,
}
"""Functions that cannot be traced, because the shape of their results depends on the values of elements."""
UNORDERED = {np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values}
"""Functions whose results NumPy may return in any order. The tests sort these results before comparing them."""


def with_tensors(function: Any, call: Call, tensor: Callable[[Any], Any]) -> Any:
    """Call a function with each array among its arguments replaced by `tensor(array)`, also in nested lists."""

    def replaced(entry: Any) -> Any:
        if isinstance(entry, Static):
            return entry.array
        if isinstance(entry, np.ndarray | np.generic):
            return tensor(entry)
        return type(entry)(map(replaced, entry)) if isinstance(entry, list | tuple) else entry

    kwargs = {name: replaced(value) for name, value in call.kwargs.items()}
    return function(*map(replaced, call.args), **kwargs)


def traced(function: Any, call: Call) -> Any:
    """Compile a call as a program whose inputs are the arrays among its arguments; run it, and return its result."""
    arrays: list[Any] = []
    with_tensors(lambda *args, **kwargs: None, call, lambda x: arrays.append(np.asarray(x)))
    known: list[Any] = []

    def of_tensors(*tensors: Any) -> Any:
        remaining = iter(tensors)
        result = with_tensors(function, call, lambda _: next(remaining))
        if not isinstance(result, tnf.TracedTensor | tuple | list):
            known.append(result)
            return tensors[0]
        if isinstance(result, tuple) and not any(isinstance(x, tnf.TracedTensor) for x in result):
            known.append(result)
            return tensors[0]
        return tuple(result) if isinstance(result, tuple | list) else result

    results = tnf.compile(of_tensors, *arrays).run(*arrays)
    return known[0] if known else results


def agree(result: Any, wanted: Any) -> None:
    """Require that a result equals NumPy's in structure, shapes, dtypes and values."""
    if isinstance(wanted, tuple | list) and not isinstance(wanted, np.ndarray):
        assert len(result) == len(wanted)
        for y, z in zip(result, wanted, strict=True):
            agree(y, z)
        return
    if isinstance(wanted, np.dtype) or (
        isinstance(wanted, bool | int | float) and not hasattr(result, "shape")
    ):
        assert result == wanted
        return
    wanted = np.asarray(wanted)
    assert tuple(result.shape) == wanted.shape
    assert result.dtype == wanted.dtype
    narrow = {"f2": 2e-3, "f4": 2e-5, "c8": 2e-5}.get(wanted.dtype.str[1:], 1e-10)
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=narrow, atol=narrow)


CASES = [
    pytest.param(function, call, id=f"{function.__name__}-{number}")
    for function, calls in CALLS.items()
    for number, call in enumerate(calls)
]


@pytest.mark.parametrize(("function", "call"), CASES)
def test_a_function_gives_what_numpy_gives(function: Any, call: Call) -> None:
    # NumPy warns of slices that contain only NaN.
    with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):
        warnings.filterwarnings("ignore", "numpy.fix is deprecated")
        wanted = with_tensors(function, call, lambda x: x)
    concrete = with_tensors(FUNCTIONS[function], call, lambda x: x)
    eager = with_tensors(function, call, RT.constant)
    if function in UNORDERED:
        order = np.argsort(wanted if isinstance(wanted, np.ndarray) else wanted[0])
        assert np.asarray(eager if isinstance(wanted, np.ndarray) else eager[0]).tolist() == sorted(
            set(K.flat)
        )
        if function is np.unique_counts:
            agree(eager[1], wanted[1][order])
        return
    if function is np.linalg.lstsq or (function is np.polyfit and len(wanted) == 5):
        wanted = (*wanted[:2], np.int64(wanted[2]), *wanted[3:])
    if function is np.linalg.eigvals:
        wanted = wanted + 0j  # because NumPy's result may be real or complex
    if function in (np.linalg.eig, np.linalg.eigh):
        wanted = (wanted[0] + 0j, wanted[1]) if function is np.linalg.eig else wanted
        # The sign of an eigenvector is arbitrary, so only absolute values are compared.
        for w, v in (concrete, eager, traced(function, call)):
            agree(w, wanted[0])
            agree(abs(v), abs(wanted[1]))
        return
    agree(concrete, wanted)
    agree(eager, wanted)
    if function in OF_ELEMENTS or (function is np.where and len(call.args) == 1):
        with pytest.raises(errors.DataDependentShapeError):
            traced(function, call)
    else:
        agree(traced(function, call), wanted)


REFUSED_BY_NAME = {"out", "order", "subok", "kwargs", "overwrite_input"}
"""Parameters of NumPy's functions that raise an error or have no effect if the operands are tensors."""


def test_every_function_and_every_parameter_is_called() -> None:
    assert set(CALLS) == set(FUNCTIONS)
    for function in FUNCTIONS:
        if function is np.empty_like:
            continue
        signature = inspect.signature(function)
        named: set[str] = set()
        for call in CALLS[function]:
            named |= set(signature.bind(*call.args, **call.kwargs).arguments)
        silent = set(signature.parameters) - named - REFUSED_BY_NAME
        assert not silent, f"{function.__name__}: {silent}"


OTHER_DEFAULTS = {
    # By default tenferro sorts stably, as the Array API standard does.
    ("sort", "stable"), ("argsort", "stable"),
    ("einsum", "optimize"), ("expand_dims", "axis"),
}  # fmt: skip


def test_signatures_are_numpys() -> None:
    for function, counterpart in FUNCTIONS.items():
        wanted = inspect.signature(function).parameters
        parameters = inspect.signature(counterpart).parameters
        open_names = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        named = [p for p in wanted.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        places = [
            p.name
            for p in parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        for place, parameter in enumerate(named):
            where = f"{function.__name__}: {parameter.name}"
            if parameter.kind is parameter.POSITIONAL_ONLY:
                assert len(places) > place, where
                continue
            own = parameters.get(parameter.name)
            if own is None:
                assert open_names, where
                continue
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                assert places[place] == parameter.name, where
                assert own.kind is own.POSITIONAL_OR_KEYWORD, where
            known = type(parameter.default) is not type(np._NoValue)
            if known and (function.__name__, parameter.name) not in OTHER_DEFAULTS:
                default = own.default
                assert default is parameter.default or default == parameter.default, where


def test_empty_like_has_a_shape_and_a_dtype() -> None:
    for kwargs in ({}, {"dtype": "int8"}, {"shape": (2, 2)}):
        wanted = np.empty_like(M, **kwargs)
        result = tnf.compile(lambda x, kwargs=kwargs: np.empty_like(x, **kwargs), M).run(M)
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)


# ---- arguments without a meaning -------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "np.sum(out=)": (lambda x: np.sum(x, out=np.zeros(())), r"np\.sum: the argument out= "),
    "np.sort(order=)": (lambda x: np.sort(x, order="a"), r"np\.sort: the argument order= "),
    "np.clip(dtype=)": (lambda x: np.clip(x, 0, 1, dtype="f4"), r"np\.clip: the argument dtype= "),
    "np.einsum(order=)": (lambda x: np.einsum("ij->i", x, order="F"), r"np\.einsum: the argument order= "),
    "np.zeros_like(order=)": (lambda x: np.zeros_like(x, order="F"), r"np\.zeros_like: the argument order= "),
    "np.fft.fft(out=)": (lambda x: np.fft.fft(x, out=np.zeros((3, 4), "c16")), r"np\.fft\.fft: the argument out= "),
    "np.add(out=)": (lambda x: np.add(x, x, out=np.zeros((3, 4))), r"np\.add: the argument out= .* assign"),
    "+=": (lambda x: np.ones((3, 4)).__iadd__(x), r"np\.add: the argument out= "),
    "np.add(where=)": (lambda x: np.add(x, x, where=MASK), r"np\.add: the argument where= "),
    "np.add(dtype=)": (lambda x: np.add(x, x, dtype="f4"), r"np\.add: the argument dtype= "),
    "np.add(casting=)": (lambda x: np.add(x, x, casting="unsafe"), r"np\.add: the argument casting= "),
    "np.matmul(axes=)": (lambda x: np.matmul(x, x, axes=[(0, 1), (1, 0), (0, 1)]), r"np\.matmul: the argument axes= "),
    "np.add.reduceat": (lambda x: np.add.reduceat(x, [0, 1]), r"np\.add\.reduceat has no counterpart"),
    "np.hypot.reduce": (lambda x: np.hypot.reduce(x), r"np\.hypot\.reduce has no counterpart"),
    "np.fmax.accumulate": (lambda x: np.fmax.accumulate(x), r"np\.fmax\.accumulate has no counterpart"),
    "np.add.reduce(out=)": (lambda x: np.add.reduce(x, out=np.zeros(4)), r"np\.add\.reduce: the argument out= "),
    "np.roots": (lambda x: np.roots(x[0]), r"np\.roots has no counterpart"),
    "np.median(out=)": (lambda x: np.median(x, 1, np.zeros(3)), r"np\.median: the argument out= "),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_had_names_function_and_argument(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(errors.UnsupportedError, match=message + ".*belongs to a trace"):
        tnf.compile(function, M)
    with pytest.raises(errors.UnsupportedError, match=message + ".*is tracked.*detach"):
        function(RT.variable(M))


REFUSED_BY_NUMPY: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "places that are not integers": (lambda x: np.take_along_axis(x, M[:1] + 0.5, 1), errors.DTypeError, "take_along_axis: indices must be integers, got f64"),
    "places that are bools": (lambda x: np.take_along_axis(x, MASK, 1), errors.DTypeError, "indices must be integers, got bool"),
    "half a decimal": (lambda x: np.round(x, 0.5), errors.InvalidConfigError, "round: decimals must be an integer, got 0.5"),
    "a power of no square": (lambda x: np.linalg.matrix_power(x.astype("int8"), 0), errors.ShapeError, "needs square matrices, got i8"),
    "a map of no axes": (lambda x: np.linalg.tensorinv(x, 0), errors.InvalidConfigError, "tensorinv: ind must be a positive integer, got 0"),
    "a map of half an axis": (lambda x: np.linalg.tensorinv(x, 0.5), errors.InvalidConfigError, "tensorinv: ind must be a positive integer, got 0.5"),
    "a map that is not square": (lambda x: np.linalg.tensorinv(x, 1), errors.ShapeError, r"tensorinv: the first 1 axes must have as many elements as the others, got 3 and 4 of f64\[3,4\]"),
    "equations that are not square": (lambda x: np.linalg.tensorsolve(x, x[:, 0]), errors.ShapeError, r"tensorsolve: the axes of f64\[3,4\] are those of f64\[3\] and as many unknowns"),
    "a right side of another size": (lambda x: np.linalg.tensorsolve(x[:, :3], x[0]), errors.ShapeError, r"tensorsolve: the axes of f64\[3,3\] are those of f64\[4\]"),
    "a length of complex numbers": (lambda x: np.hypot(x, 4j), errors.DTypeError, r"hypot: takes real numbers, got complex128"),
    "a number with fewer edges": (lambda x: np.pad(x[0, 0], -1), errors.ShapeError, "none is negative"),
    "a number with three edges": (lambda x: np.pad(x[0, 0], (1, 2, 3)), errors.ShapeError, "two numbers"),
    "a number with edges of two axes": (lambda x: np.pad(x[0, 0], ((1, 2), (3, 4))), errors.ShapeError, "two numbers"),
    "a number with three constants": (lambda x: np.pad(x[0, 0], 1, constant_values=(1, 2, 3)), errors.ShapeError, "two numbers"),
    "a power of a vector": (lambda x: np.linalg.matrix_power(x[0].astype("int8"), 2), errors.ShapeError, "matrix_power"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_BY_NUMPY)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    function, kind, message = REFUSED_BY_NUMPY[name]
    with pytest.raises((TypeError, IndexError, ValueError, np.linalg.LinAlgError)):
        function(M)
    for refused in (lambda: tnf.compile(function, M), lambda: function(RT.constant(M))):
        with pytest.raises(kind, match=message):
            refused()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32"])
def test_python_numbers_promote_as_numpys(dtype: str) -> None:
    x = np.ones(2, dtype)
    for number in (2.5, 0.1j, 1, True):
        wanted = x * number
        for y in (tnf.jit(lambda x, n=number: x * n)(x), (RT.constant(x) * number).numpy()):
            assert y.dtype == wanted.dtype
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize(
    "name", [name for name in REFUSED if name not in ("np.sort(order=)", "np.add(where=)")]
)
def test_numpy_runs_on_the_elements_of_untracked_tensors(name: str) -> None:
    function, _ = REFUSED[name]
    x = S if name in ("np.linalg.eigvals", "np.matmul(axes=)") else M
    result, wanted = function(RT.constant(x)), function(x)
    parts = zip(*((y if isinstance(y, tuple) else (y,)) for y in (result, wanted)), strict=True)
    for y, z in parts:
        assert isinstance(y, np.ndarray | np.generic)
        np.testing.assert_array_equal(y, z)


def test_numpys_testing_takes_untracked_tensors() -> None:
    x = RT.constant([1.0, 2.0])
    np.testing.assert_allclose(1.0, 1.0, atol=RT.constant(1.0))
    np.testing.assert_allclose(x, [1.0, 2.0])
    np.testing.assert_array_equal(x, x)
    assert np.allclose(x, [1.0, 2.0])
    assert np.array_equal(x, [1.0, 2.0])
    y = np.zeros(2)
    y += x
    assert y.tolist() == [1.0, 2.0]
    with pytest.raises(
        errors.UnsupportedError, match=r"np.add.at writes into its operand.*x\.at\[index\]"
    ):
        np.add.at(x, 0, 1.0)
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        np.fill_diagonal(RT.constant(M), 0.0)


def test_creation_like_a_tensor_is_refused() -> None:
    for create in (lambda x: np.zeros(3, like=x), lambda x: np.array([1.0], like=x)):
        for refused in (create, lambda x, c=create: tnf.compile(c, np.ones(2))):
            with pytest.raises(errors.UnsupportedError, match=r"no counterpart.*like="):
                refused(RT.constant(np.ones(2)))


def test_classes_of_others_are_asked() -> None:
    class Measured:
        __array_priority__ = 0

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
            return "measured"

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return "measured"

    x = RT.constant([1.0])
    assert np.add(x, Measured()) == "measured"
    assert np.stack([x, Measured()]) == "measured"


# ---- ufuncs --------------------------------------------------------------------------------------------------------------

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def samples(dtype: str, positive: bool) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([True, False, True])
    if kind in "iu":
        return np.array([1, 2, 5] if positive or kind == "u" else [-7, 2, 5], dtype)
    x = np.array([0.25, 0.5, 0.75] if positive else [-1.25, 0.5, 2.5])
    return (x + 0.5j if kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
def test_a_ufunc_gives_what_numpy_gives(ufunc: Any, dtype: str) -> None:
    for positive in (True, False):
        x = samples(dtype, positive)
        operands = [x] if ufunc.nin == 1 else [x, samples(dtype, True)[::-1]]
        if ufunc.__name__ == "matvec":
            operands[0] = np.stack([x, x[::-1]])
        elif ufunc.__name__ == "vecmat":
            operands[1] = np.stack([operands[1], x], axis=1)
        if ufunc in (np.power, np.float_power) and x.dtype.kind == "i":
            operands[1] = np.abs(operands[1])
        try:
            with np.errstate(all="ignore"):
                wanted = ufunc(*operands)
        except TypeError:
            continue
        for how in ("eager", "trace"):
            try:
                if how == "eager":
                    result = ufunc(*map(RT.constant, operands))
                else:
                    result = tnf.compile(lambda *xs: ufunc(*xs), *operands).run(*operands)
            except errors.TenferroError:
                # The tables in REFUSED_KINDS list all kinds of dtypes that NumPy accepts and tenferro rejects.
                assert (ufunc.__name__, x.dtype.kind) in REFUSED_KINDS
                continue
            parts = (wanted, result) if ufunc.nout > 1 else ((wanted,), (result,))
            for right, y in zip(*parts, strict=True):
                assert y.dtype == right.dtype
                eps = 8 * np.finfo(right.dtype).eps if right.dtype.kind in "fc" else 0
                np.testing.assert_allclose(np.asarray(y), right, rtol=eps, atol=eps)


REFUSED_KINDS = {
    *itertools.product(
        ("fmax", "fmin", "greater", "greater_equal", "less", "less_equal", "maximum", "minimum"),
        "c",
    ),
    *itertools.product(("reciprocal",), "biu"),
}


@pytest.mark.parametrize(
    "ufunc",
    [u for u in UFUNCS if u.nin == 2 and u.signature is None and u is not np.ldexp],
    ids=lambda u: u.__name__,
)
def test_outer_is_numpys(ufunc: Any) -> None:
    x, y = (
        (K + 10, K[0] + 11)
        if any(part in ufunc.__name__ for part in ("bit", "shift", "gcd", "lcm"))
        else (np.abs(M), V**2)
    )
    if "shift" in ufunc.__name__:
        y = y % 8
    wanted = ufunc.outer(x, y)
    agree(ufunc.outer(RT.constant(x), y), wanted)
    agree(tnf.compile(lambda x: ufunc.outer(x, y), x).run(x), wanted)


@pytest.mark.parametrize("ufunc", REDUCTIONS, ids=lambda u: u.__name__)
def test_reduce_is_numpys(ufunc: Any) -> None:
    calls: list[dict[str, Any]] = [
        {},
        {"axis": 1},
        {"axis": None},
        {"axis": (0, 1)},
        {"axis": -1, "keepdims": True},
    ]
    if ufunc in (np.add, np.multiply):
        calls += [
            {"dtype": "float32"},
            {"initial": 2.0},
            {"where": MASK},
            {"axis": 1, "initial": 3, "where": ROW},
        ]
    elif ufunc in (np.maximum, np.minimum):
        calls += [{"initial": 0.0, "axis": 1}, {"initial": 0.0, "where": MASK}]
    for x, options in itertools.product((M, MASK, K.astype("i1")), calls):
        wanted = ufunc.reduce(x, **options)
        agree(ufunc.reduce(RT.constant(x), **options), wanted)
        agree(tnf.compile(lambda x, options=options: ufunc.reduce(x, **options), x).run(x), wanted)
    agree(ufunc.reduce(RT.constant(M), 1), ufunc.reduce(M, 1))


@pytest.mark.parametrize("ufunc", SCANS, ids=lambda u: u.__name__)
def test_accumulate_is_numpys(ufunc: Any) -> None:
    for x in (M, K.astype("i1"), V):
        calls: list[dict[str, Any]] = [{}, {"axis": -1}, {"dtype": "float32"}]
        for options in calls:
            wanted = ufunc.accumulate(x, **options)
            agree(ufunc.accumulate(RT.constant(x), **options), wanted)
            agree(tnf.compile(lambda x, o=options: ufunc.accumulate(x, **o), x).run(x), wanted)


def test_gradients_pass_through_numpys_functions() -> None:
    x = RT.variable(M)
    np.add.reduce(np.trace(np.outer(np.cumsum(x, 1)[0], x[1]), offset=1) * np.ones(2)).backward()
    wanted = tnf.grad(
        lambda x: 2 * tnf.trace(tnf.outer(tnf.cumulative_sum(x, axis=1)[0], x[1]), 1)
    )(M)
    np.testing.assert_allclose(x.grad, wanted)


def test_columns_of_one_observation_are_variables() -> None:
    # The test has no reference: older releases of NumPy do not transpose a single row if rowvar=False.
    for function in (tnf.cov, tnf.corrcoef):
        result = function(M[:1], rowvar=False)
        assert result.shape == (4, 4)
        assert np.isnan(result).all()


def floats_of_every_size(dtype: str, count: int = 400) -> np.ndarray:
    """Return floats with random bits, and floats at which a function may switch to another algorithm."""
    kind = np.dtype(dtype)
    bits = np.random.default_rng(1).integers(0, 256, count * kind.itemsize, "u1").view(kind)
    limits = np.finfo(kind)
    ends = [
        0.0,
        0.5,
        1.0,
        3.0,
        7.0,
        limits.max,
        limits.max / 2,
        limits.tiny,
        limits.smallest_subnormal,
    ]
    special = np.array([*ends, np.inf, np.nan], kind)
    return np.concatenate([bits, special, -special])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_quotients_of_floats_are_numpys(dtype: str) -> None:
    """Quotients must equal NumPy's.

    This includes quotients for which adding the divisor to a remainder of the wrong sign would overflow.
    """
    x = floats_of_every_size(dtype)
    near = np.array([1.0, -2.0, 3.0, -5.0, 1e3], dtype)
    with np.errstate(all="ignore"):
        pairs = [(x[:, None], x[-40:]), (x[:, None], near), (x[-22:, None] * near, near)]
        for lhs, rhs in pairs:
            wanted = np.divmod(lhs, rhs)
            for result in (tnf.divmod(lhs, rhs), tnf.jit(tnf.divmod)(lhs, rhs)):
                for part, whole in zip(result, wanted, strict=True):
                    np.testing.assert_array_equal(part, whole, strict=True)
                    signs = np.signbit(whole) & ~np.isnan(whole)
                    np.testing.assert_array_equal(np.signbit(part) & ~np.isnan(part), signs)
    assert tnf.floor_divide(np.array([-1.7e308]), np.array([1e308])) == -2


@pytest.mark.parametrize("signed", ["i8", "i1"])
def test_integers_of_both_signs_are_compared_exactly(signed: str) -> None:
    """Signed integers and uint64 must be compared exactly.

    Their common dtype is float64, which cannot represent all of them.
    """
    limits = np.iinfo(signed)
    x = np.array(
        [limits.min, -1, 0, 1, limits.max - 1, limits.max, min(2**53 + 1, limits.max)], signed
    )
    y = np.array([0, 1, 126, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], "u8")
    compared = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
    for lhs, rhs in ((x[:, None], y), (y[:, None], x), (x[0], y), (y[-1], x[:, None])):
        for function in compared:
            wanted = function(lhs, rhs)
            ours = getattr(tnf, function.__name__)
            for result in (ours(lhs, rhs), tnf.jit(ours)(lhs, rhs), ours(RT.constant(lhs), rhs)):
                np.testing.assert_array_equal(np.asarray(result), wanted, strict=True)
        members = np.array([[any(int(a) == int(b) for b in rhs.flat)] for a in lhs.flat]).reshape(
            lhs.shape
        )
        for among in (rhs, np.repeat(rhs, 40)):
            np.testing.assert_array_equal(tnf.isin(lhs, among), members)
            np.testing.assert_array_equal(tnf.jit(tnf.isin)(lhs, among), members)
    assert not tnf.array_equal(np.array([2**53 + 1]), np.array([2**53], "u8"))
    assert not tnf.array_equal(np.array([-1]), np.array([2**64 - 1], "u8"))
    assert tnf.add(x, y[0]).dtype == tnf.float64


@pytest.mark.parametrize("dtype", ["f4", "c8", "i4"])
def test_a_spread_of_too_few_numbers_is_none(dtype: str) -> None:
    x = np.array([[1, 2, 3], [4, 7, 8]]).astype(dtype)
    if x.dtype.kind != "i":
        x[0, 1:] = np.nan
    for ours, numpys in ((tnf.nanvar, np.nanvar), (tnf.nanstd, np.nanstd)):
        for options in (
            {"axis": 1, "ddof": 1}, {"axis": 1, "ddof": 2, "keepdims": True}, {"ddof": 4}, {"axis": 0, "correction": 3},
            {"axis": 1, "ddof": 1, "where": np.array([True, False, True])},
        ):  # fmt: skip
            with warnings.catch_warnings(action="ignore"):
                wanted = numpys(x, **options)
                for result in (
                    ours(x, **options),
                    tnf.jit(lambda x, f=ours, o=options: f(x, **o))(x),
                ):
                    np.testing.assert_allclose(result, wanted, rtol=1e-6)
                    assert result.dtype == wanted.dtype


def test_symbolic_extents_without_elements_are_refused_when_they_run() -> None:
    spec = tnf.TensorSpec(("n", "m"), "float64")
    for function in (tnf.max, tnf.min, tnf.ptp, tnf.nanmax, tnf.nanmin):
        program = tnf.compile(lambda x, f=function: f(x, axis=1), spec)
        np.testing.assert_array_equal(program.run(M), function(M, axis=1))
        assert program.run(np.ones((0, 2))).shape == (0,)
        with pytest.raises(errors.GuardError, match="axis 1"):
            program.run(np.ones((2, 0)))
        with pytest.raises(errors.ShapeError):
            function(np.ones((2, 0)), axis=1)
    for function in (
        lambda x: tnf.max(x, 1, initial=0.0), lambda x: tnf.linalg.norm(x, np.inf, 1),
        lambda x: tnf.special.logsumexp(x, axis=1), lambda x: tnf.nn.softmax(x, axis=1),
    ):  # fmt: skip
        for x in (np.ones((2, 0)), M):
            np.testing.assert_array_equal(tnf.compile(function, spec).run(x), function(x))


def test_the_covariance_of_symbolic_variables_is_a_matrix() -> None:
    for function in (tnf.cov, tnf.corrcoef):
        program = tnf.compile(function, tnf.TensorSpec(("n", "m"), "float64"))
        np.testing.assert_allclose(program.run(M), function(M))
        with pytest.raises(errors.GuardError, match="variables"):
            program.run(M[:1])
        assert function(M[:1]).shape == ()


def test_a_number_has_no_edges() -> None:
    for width in (1, (1, 2), ((1, 2),), {}):
        np.testing.assert_array_equal(tnf.pad(2.0, width), 2.0)
        np.testing.assert_array_equal(tnf.pad(2.0, width, constant_values=(3, 4)), 2.0)


IN_ONE_ROUNDING: dict[str, Callable[..., Any]] = {
    "sinc": lambda x, y: tnf.sinc(x), "hypot": tnf.hypot, "logaddexp": tnf.logaddexp, "logaddexp2": tnf.logaddexp2,
    "log2": lambda x, y: tnf.log2(abs(x)), "log10": lambda x, y: tnf.log10(abs(x)), "floor_divide": tnf.floor_divide,
    "std": lambda x, y: tnf.std(tnf.stack([x, y]), axis=0), "var": lambda x, y: tnf.var(tnf.stack([x, y]), axis=0),
    "nanstd": lambda x, y: tnf.nanstd(tnf.stack([x, y]), axis=0), "median": lambda x, y: tnf.median(tnf.stack([x, y]), 0),
    "nanmedian": lambda x, y: tnf.nanmedian(tnf.stack([x, y]), 0), "norm": lambda x, y: tnf.linalg.norm(tnf.stack([x, y]), axis=0),
    "3-norm": lambda x, y: tnf.linalg.vector_norm(tnf.stack([x, y]), axis=0, ord=3),
    "average": lambda x, y: tnf.average(tnf.stack([x, y]), 0, weights=np.array([300.0, 500.0], x.dtype)),
    "logsumexp": lambda x, y: tnf.special.logsumexp(tnf.stack([x, y]), axis=0),
    "softmax": lambda x, y: tnf.nn.softmax(tnf.stack([x, y]), axis=0), "log_softmax": lambda x, y: tnf.nn.log_softmax(tnf.stack([x, y]), axis=0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [tnf.float16, tnf.bfloat16])
@pytest.mark.parametrize("name", IN_ONE_ROUNDING)
def test_half_precision_is_rounded_once(name: str, dtype: tnf.DType) -> None:
    """Functions of float16 and bfloat16 must round only once.

    Intermediate results must neither overflow nor lose digits, as they would in half precision.
    """
    bits = np.random.default_rng(0).integers(0, 2**16, (2, 2000), "u2").view("f2")
    finite = bits[:, np.isfinite(bits).all(0)]
    x, y = np.concatenate([finite, [[300, 60000, -60000, 0], [300, 60000, 0, 0]]], 1).astype(
        dtype.dtype
    )
    function = IN_ONE_ROUNDING[name]
    with np.errstate(all="ignore"):
        exact = np.asarray(function(x.astype("f8"), y.astype("f8")))
        rounded = exact.astype(dtype.dtype)
        for result in (function(x, y), tnf.jit(function)(x, y)):
            assert result.dtype == dtype
            values, wanted = np.asarray(result).astype("f8"), rounded.astype("f8")
            np.testing.assert_array_equal(np.isnan(values), np.isnan(wanted))
            digit = {tnf.float16: 2.0**-10, tnf.bfloat16: 2.0**-7}[dtype]
            # Where terms cancel, the error is that of float32: the function is computed in float32.
            np.testing.assert_allclose(values, wanted, rtol=4 * digit, atol=4e-6)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4"])
def test_sinc_is_of_numpys_dtype(dtype: str) -> None:
    x = np.array([0, 1, 1]).astype(dtype)
    assert tnf.sinc(x).dtype == np.sinc(x).dtype
    np.testing.assert_allclose(tnf.sinc(x), np.sinc(x), atol=1e-3)
