"""Table of calls that have the same meaning in `tenferro.lax` and in jax.lax.

The tests compare their values and derivatives, natively and through PJRT. A call is a function of the module,
tenferro.lax or jax.lax, and of arrays. Calls that consist of a single op are not differentiated here, because the
samples of the op test its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

RNG = np.random.default_rng(7)


class Call(NamedTuple):
    """A call, its arguments, and whether its first result can be differentiated with respect to every argument."""

    call: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    is_smooth: bool = True


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.2, 0.8, shape)


X, Y = normal(2, 3), normal(2, 3)
P, Q = positive(2, 3), positive(2, 3)
K = np.array([[-7, 3, 5], [0, 2, -1]])
J = np.array([[2, -3, 1], [3, 1, 4]])
VECTOR, MATRIX = normal(6), normal(3, 4)
INPUT, KERNEL = normal(2, 4, 7), normal(6, 4, 3)
IMAGE, FILTER = normal(2, 5, 6, 3), normal(3, 2, 3, 4)
LAST = ("NHWC", "HWIO", "NHWC")

OF_POSITIVE = "abs acos asin asinh atan atanh cbrt cos cosh digamma erf erf_inv erfc exp exp2 expm1 lgamma log log1p logistic neg reciprocal rsqrt sin sinh sqrt square tan tanh"
STEPS = "sign floor ceil round is_finite"
SMOOTH_OF_TWO = "add sub mul div max min pow atan2 nextafter"
COMPARISONS = "eq ne lt le gt ge"
OF_INTEGERS = "add sub mul div rem max min bitwise_and bitwise_or bitwise_xor"
SHIFTS = "shift_left shift_right_arithmetic shift_right_logical"
OF_INTEGER = "population_count clz bitwise_not sign abs neg"
RUNNING = "cumsum cumprod cummax cummin cumlogsumexp"


def _calls() -> dict[str, Call]:
    def named(name: str, **options: Any) -> Callable[..., Any]:
        return lambda m, *xs: getattr(m, name)(*xs, **options)

    calls = {name: Call(named(name), (P,), False) for name in OF_POSITIVE.split()}
    calls["acosh"] = Call(named("acosh"), (P + 1,), False)
    calls |= {name: Call(named(name), (X * 3,), False) for name in STEPS.split()}
    calls |= {
        name: Call(named(name), (P, Q), name != "nextafter") for name in SMOOTH_OF_TWO.split()
    }
    calls |= {name: Call(named(name), (K, J), False) for name in COMPARISONS.split()}
    calls |= {f"{n}-int": Call(named(n), (K, J), False) for n in OF_INTEGERS.split()}
    calls |= {n: Call(named(n), (K, abs(J)), False) for n in SHIFTS.split()}
    calls |= {f"{n}-int": Call(named(n), (K,), False) for n in OF_INTEGER.split()}
    for name in RUNNING.split():
        calls[name] = Call(named(name, axis=1), (X,))
        calls[f"{name}-reverse"] = Call(named(name, axis=0, reverse=True), (X,))
    return calls


ELEMENTWISE = _calls() | {
    "polygamma": Call(lambda m, x: m.polygamma(2.0 if m.__name__[:3] == "jax" else 2, x), (P,)),
    "complex": Call(lambda m, x, y: m.abs(m.complex(x, y)), (X, Y)),
    "conj": Call(lambda m, x: m.imag(m.conj(m.complex(x, x))), (X,)),
    "real": Call(lambda m, x: m.real(m.exp(m.complex(x, x))), (X,)),
    "exp2": Call(lambda m, x: m.exp2(x), (X,)),
    "reciprocal": Call(lambda m, x: m.reciprocal(x), (X,)),
    "integer_pow": Call(lambda m, x: m.integer_pow(x, 5), (X,)),
    "integer_pow-negative": Call(lambda m, x: m.integer_pow(x, -3), (P,)),
    "integer_pow-0": Call(lambda m, x: m.integer_pow(x, 0), (X,)),
    "pow-int": Call(lambda m, x: m.pow(x, 3), (X,)),
    "round-even": Call(
        lambda m, x: m.round(x, m.RoundingMethod.TO_NEAREST_EVEN), (np.array([0.5, 1.5, -2.5]),), False
    ),
    "round-away": Call(lambda m, x: m.round(x), (np.array([0.5, 1.5, -2.5]),), False),
    "clamp": Call(lambda m, x: m.clamp(-0.5, x, 0.5), (X,)),
    "clamp-tensors": Call(lambda m, x, y: m.clamp(m.neg(m.abs(y)), x, m.abs(y)), (X, Y)),
    "select": Call(lambda m, x, y: m.select(m.gt(x, y), x, y), (X, Y)),
    "select-scalar": Call(lambda m, x, y: m.select(np.array(True), x, y), (X, Y)),
    "select_n": Call(
        lambda m, x, y: m.select_n(np.array([[2, 0, 1], [1, 2, 0]], np.int32), x, y, m.neg(x)), (X, Y)
    ),
    "select_n-bool": Call(lambda m, x, y: m.select_n(np.array(True), x, y), (X, Y)),
    "convert": Call(lambda m, x: m.convert_element_type(x * 9, "int32"), (X,), False),
    "bitcast": Call(lambda m, x: m.bitcast_convert_type(x, "uint16"), (X,), False),
    "bitcast-wider": Call(
        lambda m, x: m.bitcast_convert_type(x, "int64"), (np.arange(6, dtype=np.int32).reshape(3, 2),), False
    ),
    "bessel_i0e": Call(lambda m, x: m.bessel_i0e(x), (X,), False),
    "igamma": Call(lambda m, a, x: m.igamma(a, x), (P * 4, Q), False),
    "betainc": Call(lambda m, x: m.betainc(P + 1, Q + 2, x), (P * Q,), False),
    "zeta": Call(lambda m, x: m.zeta(P + 1.5, x), (Q + 1,), False),
    "barrier": Call(lambda m, x, y: m.optimization_barrier((x, y))[0] * y, (X, Y)),
    "reduce_precision": Call(lambda m, x: m.reduce_precision(x, 5, 7), (X,)),
}  # fmt: skip
SHAPING = {
    "broadcast": Call(lambda m, x: m.broadcast(x, (2, 1)), (X,)),
    "broadcast_in_dim": Call(lambda m, x: m.broadcast_in_dim(x, (3, 2, 3), (1, 2)), (X,)),
    "iota": Call(lambda m, x: m.iota("int32", 4), (X,), False),
    "broadcasted_iota": Call(lambda m, x: m.broadcasted_iota("float32", (2, 3), 1), (X,), False),
    "full": Call(lambda m, x: m.full((2, 2), 3.0, "float32"), (X,), False),
    "full_like": Call(lambda m, x: m.full_like(x, 2), (X,), False),
    "full_like-shape": Call(lambda m, x: m.full_like(x, 2.5, "int32", (1,)), (X,), False),
    "reshape": Call(lambda m, x: m.reshape(x, (3, 2), (1, 0)), (X,)),
    "transpose": Call(lambda m, x: m.transpose(x, (1, 0)), (X,)),
    "rev": Call(lambda m, x: m.rev(x, (1,)), (X,)),
    "expand_dims": Call(lambda m, x: m.expand_dims(x, (0, -1)), (X,)),
    "squeeze": Call(lambda m, x: m.squeeze(m.expand_dims(x, (1,)), (1,)), (X,)),
    "collapse": Call(lambda m, x: m.collapse(x, 1, 3), (IMAGE,)),
    "collapse-rest": Call(lambda m, x: m.collapse(x, -2), (IMAGE,)),
    "broadcast_like": Call(lambda m, x: m.broadcast_like(x, np.zeros((4, 2, 3))), (X,)),
    "broadcast_to_rank": Call(lambda m, x: m.broadcast_to_rank(x, 4), (X,)),
    "empty": Call(lambda m: 0 * m.empty((2, 3), "int32"), (), False),
    "stack": Call(lambda m, x, y: m.stack([x, y], 1), (X, Y)),
    "unstack": Call(lambda m, x: m.unstack(x, 1)[2], (X,)),
    "tile": Call(lambda m, x: m.tile(x, (2, 3)), (X,)),
    "concatenate": Call(lambda m, x, y: m.concatenate((x, y), 1), (X, Y)),
    "split": Call(lambda m, x: m.split(x, (1, 0, 2), 1)[2], (X,)),
    "pad": Call(lambda m, x: m.pad(x, 1.5, [(1, -1, 2), (-1, 2, 0)]), (X,)),
    "pad-value": Call(lambda m, x, v: m.pad(x, v, [(1, 0, 1), (0, 0, 0)]), (X, np.array(2.0))),
    "slice": Call(lambda m, x: m.slice(x, (0, 1), (2, 3), (1, 2)), (X,)),
    "slice_in_dim": Call(lambda m, x: m.slice_in_dim(x, 1, -1, 2), (VECTOR,)),
    "slice_in_dim-none": Call(lambda m, x: m.slice_in_dim(x, None, None, axis=-1), (X,)),
    "index_in_dim": Call(lambda m, x: m.index_in_dim(x, -1, 1, False), (X,)),
    "dynamic_slice": Call(lambda m, x: m.dynamic_slice(x, (1, np.array(2)), (1, 2)), (X,)),
    "dynamic_slice-negative": Call(lambda m, x: m.dynamic_slice(x, np.array([-1, -2]), (1, 2)), (X,)),
    "dynamic_slice_in_dim": Call(lambda m, x: m.dynamic_slice_in_dim(x, 9, 2, -1), (X,)),
    "dynamic_index_in_dim": Call(lambda m, x: m.dynamic_index_in_dim(x, 1, 1, False), (X,)),
    "dynamic_update_slice": Call(lambda m, x, y: m.dynamic_update_slice(x, y, (1, 2)), (X, normal(1, 2))),
    "dynamic_update_slice_in_dim": Call(
        lambda m, x, y: m.dynamic_update_slice_in_dim(x, y, -2, 1), (X, normal(2, 2))
    ),
    "dynamic_update_index_in_dim": Call(
        lambda m, x, y: m.dynamic_update_index_in_dim(x, y, 1, 1), (X, normal(2))
    ),
}  # fmt: skip
PRODUCTS = {
    "dot-vectors": Call(lambda m, x, y: m.dot(x, y), (VECTOR, VECTOR[::-1].copy())),
    "dot-matrix": Call(lambda m, x, y: m.dot(x, y, precision="highest"), (MATRIX, normal(4))),
    "dot_general": Call(
        lambda m, x, y: m.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), (INPUT, normal(2, 7, 2))
    ),
    "dot_general-wide": Call(
        lambda m, x, y: m.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type="int32"),
        (np.full((1, 9), 100, np.int8), np.full((9, 1), 100, np.int8)),
        False,
    ),
    "batch_matmul": Call(lambda m, x, y: m.batch_matmul(x, y), (INPUT, normal(2, 7, 3))),
    "ragged_dot": Call(lambda m, x, w: m.ragged_dot(x, w, np.array([2, 0, 3], np.int32)), (normal(6, 4), normal(3, 4, 2))),
    "approx_max_k": Call(lambda m, x: m.approx_max_k(x, 2, 0)[0], (MATRIX,)),
    "approx_min_k": Call(lambda m, x: m.approx_min_k(x, 2)[1], (MATRIX,), False),
    "reduce_xor": Call(lambda m, x: m.reduce_xor(x, (0, 1)), (K,), False),
    "reduce_xor-axis": Call(lambda m, x: m.reduce_xor(x, (1,)), (K > 0,), False),
    "sort": Call(lambda m, x: m.sort(x, 0), (MATRIX,)),
    "sort-keys": Call(
        lambda m, x: m.sort((np.array([1, 0, 1, 0, 1, 1]), np.array([2, 2, 1, 1, 2, 1]), x), num_keys=2)[2],
        (VECTOR,),
    ),
    "sort_key_val": Call(lambda m, x, y: m.sort_key_val(x, y)[1], (X, Y), False),
    "top_k": Call(lambda m, x: m.top_k(x, 2, axis=0)[0], (MATRIX,)),
    "argmax": Call(lambda m, x: m.argmax(x, 1, "int32"), (MATRIX,), False),
    "argmin": Call(lambda m, x: m.argmin(x, 0, "uint8"), (MATRIX,), False),
    "reduce_sum": Call(lambda m, x: m.reduce_sum(x, (0, 2)), (INPUT,)),
    "reduce_prod": Call(lambda m, x: m.reduce_prod(x, (1,)), (INPUT,)),
    "reduce_max": Call(lambda m, x: m.reduce_max(x, (0,)), (INPUT,)),
    "reduce_min": Call(lambda m, x: m.reduce_min(x, (0, 1, 2)), (INPUT,)),
    "reduce_and": Call(lambda m, x: m.reduce_and(x, (0,)), (K,), False),
    "reduce_or": Call(lambda m, x: m.reduce_or(x, (1,)), (K > 0,), False),
    "reduce": Call(lambda m, x: m.reduce(x, np.float64(2.0), m.add, (1,)), (X,)),
    "reduce-max": Call(lambda m, x: m.reduce(x, -np.inf, m.max, (0,)), (X,)),
    "reduce-int": Call(lambda m, x: m.reduce(x, np.int64(3), m.mul, (0, 1)), (J,), False),
}  # fmt: skip
WINDOWS = {
    "max": Call(lambda m, x: m.reduce_window(x, -np.inf, m.max, (1, 2, 3, 1), (1, 2, 1, 1), "SAME"), (IMAGE,)),
    "min-tiled": Call(lambda m, x: m.reduce_window(x, np.inf, m.min, (1, 2, 3, 1), (1, 2, 3, 1)), (IMAGE,)),
    "sum": Call(
        lambda m, x: m.reduce_window(x, 0.0, m.add, (1, 2, 2, 1), (1, 1, 2, 1), [(0, 0), (1, 0), (0, 2), (0, 0)]),
        (IMAGE,),
    ),
    "sum-dilated": Call(
        lambda m, x: m.reduce_window(x, 0.0, m.add, (3,), (2,), [(2, 2)], (2,), (2,)),
        (VECTOR,),
    ),
    "mul-int": Call(lambda m, x: m.reduce_window(x, np.int64(1), m.mul, (2, 2), (1, 1)), (J,), False),
    "max-int": Call(lambda m, x: m.reduce_window(x, np.iinfo(np.int64).min, m.max, (1, 2), (1, 1), "SAME"), (J,), False),
    "too-small": Call(lambda m, x: m.reduce_window(x, 0.0, m.add, (3, 1), (1, 1)), (X,)),
    "whole": Call(lambda m, x: m.reduce_window(x, 0.0, m.add, (2, 3), (1, 1)), (X,)),
}  # fmt: skip
CONVOLUTIONS = {
    "conv": Call(lambda m, x, w: m.conv(x, w, (2,), "SAME"), (INPUT, KERNEL)),
    "conv-lower": Call(lambda m, x, w: m.conv(x, w, (1,), "SAME_LOWER"), (INPUT, normal(6, 4, 2))),
    "general": Call(lambda m, x, w: m.conv_with_general_padding(x, w, (1,), [(2, -1)], (2,), (2,)), (INPUT, KERNEL)),
    "groups": Call(lambda m, x, w: m.conv_general_dilated(x, w, (1,), "VALID", feature_group_count=2), (INPUT, normal(6, 2, 3))),
    "batch-groups": Call(lambda m, x, w: m.conv_general_dilated(x, w, (1,), "VALID", batch_group_count=2), (INPUT, KERNEL)),
    "depthwise": Call(
        lambda m, x, w: m.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=LAST, feature_group_count=3),
        (IMAGE, normal(3, 2, 1, 3)),
    ),
    "layout": Call(
        lambda m, x, w: m.conv_general_dilated(
            x, w, (1, 2), "VALID", rhs_dilation=(2, 1), dimension_numbers=("NHWC", "WHIO", "CNHW")
        ),
        (IMAGE, normal(2, 2, 3, 4)),
    ),
    "int8": Call(
        lambda m, x, w: m.conv_general_dilated(x, w, (1,), "VALID", preferred_element_type="int32"),
        (np.full((1, 4, 5), 100, np.int8), np.full((2, 4, 3), 100, np.int8)),
        False,
    ),
    "patches": Call(
        lambda m, x: m.conv_general_dilated_patches(x, (2, 3), (1, 2), "SAME", rhs_dilation=(2, 1), dimension_numbers=("NHWC", "WHIO", "CNHW")),
        (IMAGE,),
    ),
    "local": Call(
        lambda m, x, w: m.conv_general_dilated_local(x, w, (1, 2), "VALID", (3, 2), dimension_numbers=("NHWC", "WHIO", "NWHC")),
        (IMAGE, normal(4, 2, 18, 4)),
    ),
    "transpose-same": Call(lambda m, x, w: m.conv_transpose(x, w, (2, 3), "SAME"), (IMAGE, normal(3, 2, 3, 4))),
    "transpose-valid": Call(lambda m, x, w: m.conv_transpose(x, w, (1, 3), "VALID", (2, 1)), (IMAGE, FILTER)),
    "transpose-kernel": Call(
        lambda m, x, w: m.conv_transpose(
            x, w, (2, 1), [(1, 0), (0, 1)], transpose_kernel=True, use_consistent_padding=True
        ),
        (IMAGE, normal(3, 2, 4, 3)),
    ),
    "transpose-pairs": Call(lambda m, x, w: m.conv_transpose(x, w, (2, 1), [(1, 2), (0, 1)]), (IMAGE, FILTER)),
    "matrices": Call(lambda m, x, w: m.conv_general_dilated(x, w, (), []), (X, normal(4, 3))),
}  # fmt: skip

ROWS_AT = np.array([[4], [0], [7], [-1]])


def _rows(m: Any) -> Any:
    return m.GatherDimensionNumbers((1,), (0,), (0,))


def _scatter_rows(m: Any) -> Any:
    return m.ScatterDimensionNumbers((1,), (0,), (0,))


def _scatter(name: str, mode: Any) -> Call:
    return Call(
        lambda m, x, y: getattr(m, name)(x, ROWS_AT, y, _scatter_rows(m), mode=mode),
        (positive(5, 2), normal(4, 2)),
        name in ("scatter_add", "scatter_sub"),
    )


GATHERS = {
    **{
        f"gather-{mode}": Call(lambda m, x, mode=mode: m.gather(x, ROWS_AT, _rows(m), (1, 2), mode=mode), (normal(5, 2),), mode in ("clip", "fill"))
        for mode in (None, "clip", "fill", "promise_in_bounds")
    },
    "gather-value": Call(
        lambda m, x: m.gather(x, ROWS_AT, _rows(m), (1, 2), mode=m.GatherScatterMode.FILL_OR_DROP, fill_value=9.0), (normal(5, 2),)
    ),
    **{
        f"gather-fill-{dtype}": Call(lambda m, x: m.gather(x, ROWS_AT, _rows(m), (1, 1), mode="fill"), (np.ones((5, 1), dtype),), False)
        for dtype in ("int8", "uint16", "bool", "float32")
    },
    "gather-windows": Call(
        lambda m, x: m.gather(x, np.array([[0, 1], [3, 3], [1, 0]], np.uint8), m.GatherDimensionNumbers((1, 2), (), (1, 0)), (2, 3), mode="fill", fill_value=0.0),
        (normal(4, 5),),
    ),
    "gather-batch": Call(
        lambda m, x: m.gather(x, np.array([[1], [2]]), m.GatherDimensionNumbers((), (1,), (1,), (0,), (0,)), (1, 1), mode="clip"), (X,)
    ),
    **{f"{name}-{mode}": _scatter(name, mode) for name in ("scatter_add", "scatter") for mode in (None, "clip", "drop")},
    **{name: _scatter(name, "clip") for name in ("scatter_sub", "scatter_mul", "scatter_min", "scatter_max")},
    "scatter-windows": Call(
        lambda m, x, y: m.scatter_add(x, np.array([[3], [0]]), y, m.ScatterDimensionNumbers((1,), (), (0,)), mode="clip"),
        (normal(4), normal(2, 3)),
    ),
}  # fmt: skip
FOURIER = {
    "fft": Call(lambda m, x: m.real(m.fft(x, "fft", (3,))), (X,)),
    "ifft": Call(lambda m, x: m.imag(m.fft(m.complex(x, 2 * x), m.FftType.IFFT, (2, 3))), (X,)),
    "rfft": Call(lambda m, x: m.imag(m.fft(x, "RFFT", (2, 3))), (X,)),
    "irfft": Call(lambda m, x: m.fft(m.complex(x, -x), m.FftType.IRFFT, (5,)), (X,)),
    "none": Call(lambda m, x: m.real(m.fft(x, "fft", ())), (X,)),
}  # fmt: skip
SQUARE, WELL = normal(4, 4), normal(2, 4, 4) + 4 * np.eye(4)
SPD = np.eye(4) + SQUARE @ SQUARE.T
LINALG = {
    "cholesky": Call(lambda m, x: m.linalg.cholesky(m.add(SPD, x)), (SQUARE / 9,)),
    "cholesky-lower": Call(lambda m, x: m.linalg.cholesky(x, symmetrize_input=False), (SPD + np.triu(SQUARE, 1),), False),
    "cholesky_update": Call(lambda m, r, w: m.linalg.cholesky_update(r, w), (np.triu(SQUARE) + 4 * np.eye(4), SQUARE[0]), False),
    "eig": Call(lambda m, x: [m.abs(y) for y in m.linalg.eig(x)], (WELL,), False),
    "eigh": Call(lambda m, x: m.linalg.eigh(m.add(SPD, x))[1], (SQUARE,)),
    "eigh-upper": Call(lambda m, x: m.linalg.eigh(x, lower=False, symmetrize_input=False)[1], (SPD + np.tril(SQUARE, -1),), False),
    "hessenberg": Call(lambda m, x: m.linalg.hessenberg(x), (WELL,), False),
    "householder_product": Call(lambda m, a, t: m.linalg.householder_product(a, t), (SQUARE[:, :3], SQUARE[0, :2]), False),
    "lu": Call(lambda m, x: m.linalg.lu(x), (WELL[:, ::-1, :3].copy(),), False),
    "lu_pivots": Call(lambda m, p: m.linalg.lu_pivots_to_permutation(p, 5), (np.array([[3, 1, 4], [2, 2, 2]], np.int32),), False),
    "ormqr": Call(lambda m, a, t, c: m.linalg.ormqr(a, t, c, transpose=True), (SQUARE[:, :2], SQUARE[0, :2] / 9, SQUARE), False),
    "ormqr-right": Call(lambda m, a, t, c: m.linalg.ormqr(a, t, c, left=False), (SQUARE, SQUARE[0, :3] / 9, SQUARE), False),
    "qr": Call(lambda m, x: m.linalg.qr(x, full_matrices=False)[0], (WELL,)),
    "qr-pivots": Call(lambda m, x: m.linalg.qr(x, pivoting=True), (WELL[..., :3],), False),
    "qr-pivots-reduced": Call(lambda m, x: m.linalg.qr(x, pivoting=True, full_matrices=False), (WELL[..., :3],), False),
    "schur": Call(lambda m, x: m.linalg.schur(x), (WELL[0],), False),
    "svd": Call(lambda m, x: m.linalg.svd(x, full_matrices=False)[1], (WELL,)),
    "svdvals": Call(lambda m, x: m.linalg.svd(x, compute_uv=False), (WELL,), False),
    "symmetric_product": Call(lambda m, a, c: m.linalg.symmetric_product(a, c + c.T, alpha=2.0, beta=0.5, symmetrize_output=True), (SQUARE[:, :2], SQUARE), False),
    **{
        f"triangular_solve-{left}-{t}-{c}": Call(
            lambda m, a, b, left=left, t=t, c=c: m.abs(m.linalg.triangular_solve(m.complex(a, a), m.complex(b, 2 * b), left_side=left, lower=t, transpose_a=t, conjugate_a=c)),
            (WELL[0], SQUARE),
        )
        for left, t, c in ((True, False, True), (False, True, False), (False, False, False), (True, True, True))
    },
    "tridiagonal": Call(lambda m, x: m.linalg.tridiagonal(x)[1:3], (SPD,), False),
    "tridiagonal_solve": Call(lambda m, d, b: m.linalg.tridiagonal_solve(P[0], d, P[1], b), (Q[0] + 4, SQUARE[:3])),
}  # fmt: skip
TABLES = {
    "elementwise": ELEMENTWISE,
    "shaping": SHAPING,
    "products": PRODUCTS,
    "windows": WINDOWS,
    "convolutions": CONVOLUTIONS,
    "gathers": GATHERS,
    "fourier": FOURIER,
    "linalg": LINALG,
}
