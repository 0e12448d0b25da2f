"""Functions of the Array API standard, on arrays and on eager tensors, must agree with `array_api_strict`."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import array_api_compat
import array_api_strict as strict
import numpy as np
import pytest

import tenferro as tnf

RT = tnf.EagerRuntime()
NAMESPACES = {"arrays": tnf, "eager": RT.namespace}
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
REAL, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
INTEGERS, FLOATS = SIGNED + UNSIGNED, REAL + COMPLEX
NUMBERS, ALL = INTEGERS + FLOATS, ("bool", *INTEGERS, *FLOATS)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e30, np.inf, -np.inf, np.nan)

strict.set_array_api_strict_flags(api_version="2024.12")


def elements(dtype: str) -> np.ndarray:
    """Return a few numbers of a dtype.

    They are zero, small numbers, the largest and smallest values, and, if they exist, NaN and infinities.
    """
    if dtype == "bool":
        return np.array([True, False])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        low = [-1, -7, limits.min] if limits.min else []
        return np.array([0, 1, 2, 7, limits.max, *low], dtype)
    with np.errstate(all="ignore"):
        if dtype in REAL:
            return np.array(SPECIAL).astype(dtype)
        pairs = [complex(*pair) for pair in itertools.product(SPECIAL[:7] + SPECIAL[8:], repeat=2)]
        return np.array(pairs, dtype)


def assert_strict(result: Any, wanted: Any, ulps: float) -> None:
    """Check a result against that of `array_api_strict`: structure, dtypes, shapes, and values within `ulps`."""
    if isinstance(wanted, tuple | list):
        assert len(result) == len(wanted)
        for y, z in zip(result, wanted, strict=True):
            assert_strict(y, z, ulps)
    elif isinstance(wanted, type(strict.asarray(0))):
        assert str(result.dtype) == str(np.asarray(wanted).dtype)
        assert tuple(result.shape) == wanted.shape
        array = np.asarray(result)
        if array.dtype.kind in "biu" or ulps == 0:
            np.testing.assert_array_equal(array, np.asarray(wanted))
        else:
            bound = ulps * np.finfo(array.dtype).eps
            np.testing.assert_allclose(array, np.asarray(wanted), rtol=bound, atol=bound)
    else:
        assert result == wanted


# ---- elementwise ---------------------------------------------------------------------------------

UNARY = {
    "abs": NUMBERS, "acos": FLOATS, "acosh": FLOATS, "asin": FLOATS, "asinh": FLOATS, "atan": FLOATS,
    "atanh": FLOATS, "bitwise_invert": ("bool", *INTEGERS), "ceil": INTEGERS + REAL, "conj": COMPLEX,
    "cos": FLOATS, "cosh": FLOATS, "exp": FLOATS, "expm1": FLOATS, "floor": INTEGERS + REAL,
    "imag": COMPLEX, "isfinite": NUMBERS, "isinf": NUMBERS, "isnan": NUMBERS, "log": FLOATS,
    "log1p": FLOATS, "log2": FLOATS, "log10": FLOATS, "logical_not": ("bool",), "negative": NUMBERS,
    "positive": NUMBERS, "real": COMPLEX, "reciprocal": FLOATS, "round": NUMBERS, "sign": NUMBERS,
    "signbit": REAL, "sin": FLOATS, "sinh": FLOATS, "sqrt": FLOATS, "square": NUMBERS, "tan": FLOATS,
    "tanh": FLOATS, "trunc": INTEGERS + REAL,
}  # fmt: skip
BINARY = {
    "add": NUMBERS, "atan2": REAL, "bitwise_and": ("bool", *INTEGERS), "bitwise_or": ("bool", *INTEGERS),
    "bitwise_xor": ("bool", *INTEGERS), "copysign": REAL, "divide": FLOATS, "equal": ALL,
    "floor_divide": REAL, "greater": INTEGERS + REAL, "greater_equal": INTEGERS + REAL, "hypot": REAL,
    "less": INTEGERS + REAL, "less_equal": INTEGERS + REAL, "logaddexp": REAL, "logical_and": ("bool",),
    "logical_or": ("bool",), "logical_xor": ("bool",), "maximum": INTEGERS + REAL,
    "minimum": INTEGERS + REAL, "multiply": NUMBERS, "nextafter": REAL, "not_equal": ALL, "pow": NUMBERS,
    "remainder": REAL, "subtract": NUMBERS,
}  # fmt: skip


EXACT = {
    "add", "ceil", "conj", "copysign", "floor", "imag", "maximum", "minimum", "negative", "nextafter", "positive",
    "real", "round", "subtract", "trunc",
}  # fmt: skip
ROUNDED_ONCE = {"abs", "divide", "multiply", "reciprocal", "sign", "sqrt", "square"}
"""Functions for which IEEE 754 requires the correctly rounded result, for real numbers."""


def ulps_of(name: str, dtype: str) -> int:
    """Return the tolerance of a function in units in the last place; 0 if it must be exact or correctly rounded."""
    return 0 if name in EXACT or (name in ROUNDED_ONCE and dtype in REAL) else 8


@pytest.mark.parametrize("where", NAMESPACES)
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, ds in UNARY.items() for d in ds])
def test_functions_of_one_array(name: str, dtype: str, where: str) -> None:
    xp = NAMESPACES[where]
    x = elements(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(strict, name)(strict.asarray(x))
    found = getattr(xp, name)(xp.asarray(x))
    if name == "expm1" and dtype in COMPLEX:
        # NumPy's expm1 returns a NaN imaginary part on the real axis and for infinite real parts. The comparison
        # skips these elements.
        known = ~(np.isnan(np.asarray(wanted).imag) & ((x.imag == 0) | np.isinf(x.real)))
        found, wanted = found[known], strict.asarray(np.asarray(wanted)[known])
    assert_strict(found, wanted, ulps_of(name, dtype))


LISTED = {
    "sign": [(0.0, 0.0), (-0.0, 0.0)],
    "expm1": [
        (complex(-0.0, 0.0), complex(0.0, 0.0)), (complex(-0.0, -0.0), complex(0.0, -0.0)),
        (complex(np.inf, 0.0), complex(np.inf, 0.0)), (complex(np.nan, 0.0), complex(np.nan, 0.0)),
        (complex(-np.inf, np.inf), complex(-1.0, 0.0)), (complex(-np.inf, np.nan), complex(-1.0, 0.0)),
        (complex(np.inf, np.inf), complex(np.inf, np.nan)), (complex(np.inf, np.nan), complex(np.inf, np.nan)),
        (complex(-np.inf, 2.0), complex(-1.0, 0.0)), (complex(np.inf, 2.0), complex(-np.inf, np.inf)),
        (complex(2.0, np.inf), complex(np.nan, np.nan)), (complex(np.nan, 2.0), complex(np.nan, np.nan)),
    ],
    "tanh": [
        (complex(np.inf, 1.0), complex(1.0, 0.0)), (complex(np.inf, 2.0), complex(1.0, 0.0)),
        (complex(np.inf, -2.0), complex(1.0, -0.0)), (complex(-np.inf, 2.0), complex(-1.0, 0.0)),
    ],
}  # fmt: skip
"""Elements, and the results that the standard requires for them, where NumPy differs on some or all platforms."""


@pytest.mark.parametrize("where", NAMESPACES)
@pytest.mark.parametrize("name", LISTED)
def test_special_values_have_the_listed_signs(name: str, where: str) -> None:
    xp = NAMESPACES[where]
    x, wanted = (np.array(column) for column in zip(*LISTED[name], strict=True))
    for dtype in REAL if x.dtype.kind == "f" else COMPLEX:
        y = np.asarray(getattr(xp, name)(xp.asarray(x.astype(dtype))))
        assert y.dtype == dtype
        for found, z in ((y.real, wanted.real), (y.imag, wanted.imag)):
            np.testing.assert_array_equal(found, z)
            known = ~np.isnan(z)
            assert (np.signbit(found) == np.signbit(z))[known].all()


@pytest.mark.parametrize("where", NAMESPACES)
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, ds in BINARY.items() for d in ds])
def test_functions_of_two_arrays(name: str, dtype: str, where: str) -> None:
    xp = NAMESPACES[where]
    x = elements(dtype)
    y = x[:, None]
    if name == "pow" and dtype in INTEGERS:
        y = np.array([[0], [1], [3]], dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(strict, name)(strict.asarray(x), strict.asarray(y))
    result = getattr(xp, name)(xp.asarray(x), xp.asarray(y))
    assert_strict(result, wanted, ulps_of(name, dtype))


# ---- other functions -----------------------------------------------------------------------------

R = np.random.default_rng(0)
F, G, V = R.normal(size=(2, 3, 4)), R.normal(size=(4, 5)), R.normal(size=4)
K, U = R.integers(-9, 9, (3, 4)), R.integers(0, 9, (3, 4)).astype("uint8")
B = K > 0
C = F + 1j * F[::-1]
S = F[0, :, :3] @ F[0, :, :3].T + 3 * np.eye(3)
M = np.stack([S, 2 * S])
E = np.zeros((0, 3))
N = np.array([3.0, np.nan, 1.0, np.inf, -np.inf, np.nan])

CALLS: dict[str, list[Any]] = {
    # Creation functions.
    "arange": [
        lambda xp: xp.arange(5), lambda xp: xp.arange(1, 7, 2), lambda xp: xp.arange(5, 0, -1.5),
        lambda xp: xp.arange(3, dtype=xp.float32), lambda xp: xp.arange(4, 2),
        lambda xp: xp.arange(3, dtype=xp.uint8), lambda xp: xp.arange(2.0, device=None),
    ],
    "asarray": [
        lambda xp: xp.asarray([[1, 2], [3, 4]]), lambda xp: xp.asarray(3.5), lambda xp: xp.asarray(True),
        lambda xp: xp.asarray([1, 2], dtype=xp.float32), lambda xp: xp.asarray(1j),
        lambda xp: xp.asarray(xp.asarray([1.0]), copy=True), lambda xp: xp.asarray([]),
        lambda xp: xp.asarray([[], []]), lambda xp: xp.asarray([True, False]),
    ],
    "empty": [lambda xp: (xp.empty((2, 3)).shape, xp.empty(2, dtype=xp.int8).shape)],
    "empty_like": [lambda xp: xp.empty_like(xp.asarray(K)).shape],
    "eye": [
        lambda xp: xp.eye(3), lambda xp: xp.eye(2, 4, k=1), lambda xp: xp.eye(4, 2, k=-1, dtype=xp.int32),
        lambda xp: xp.eye(0), lambda xp: xp.eye(2, 2, k=9),
    ],
    "from_dlpack": [lambda xp: xp.from_dlpack(xp.asarray(F))],
    "full": [
        lambda xp: xp.full((2, 3), 7), lambda xp: xp.full(2, 1.5), lambda xp: xp.full((), True),
        lambda xp: xp.full((0, 2), 1j), lambda xp: xp.full(2, 3, dtype=xp.float32),
    ],
    "full_like": [
        lambda xp: xp.full_like(xp.asarray(U), 3), lambda xp: xp.full_like(xp.asarray(F), 1),
        lambda xp: xp.full_like(xp.asarray(K), 2, dtype=xp.complex64),
    ],
    "linspace": [
        lambda xp: xp.linspace(0, 1, 5), lambda xp: xp.linspace(2, -3, 4, endpoint=False),
        lambda xp: xp.linspace(0, 1, 0), lambda xp: xp.linspace(0, 1, 1),
        lambda xp: xp.linspace(0, 1, 3, dtype=xp.float32), lambda xp: xp.linspace(0, 1j, 3),
    ],
    "meshgrid": [
        lambda xp: list(xp.meshgrid(xp.arange(3), xp.arange(2))),
        lambda xp: list(xp.meshgrid(xp.arange(3), xp.arange(2), xp.arange(4), indexing="ij")),
    ],
    "ones": [lambda xp: xp.ones(3), lambda xp: xp.ones((2, 0), dtype=xp.bool)],
    "ones_like": [lambda xp: xp.ones_like(xp.asarray(K)), lambda xp: xp.ones_like(xp.asarray(C))],
    "tril": [lambda xp: xp.tril(xp.asarray(F)), lambda xp: xp.tril(xp.asarray(K), k=1)],
    "triu": [lambda xp: xp.triu(xp.asarray(F)), lambda xp: xp.triu(xp.asarray(B), k=-1)],
    "zeros": [lambda xp: xp.zeros(()), lambda xp: xp.zeros((2, 3), dtype=xp.complex128)],
    "zeros_like": [lambda xp: xp.zeros_like(xp.asarray(B))],
    # Functions of data types.
    "astype": [
        lambda xp: xp.astype(xp.asarray(F * 3), xp.int32), lambda xp: xp.astype(xp.asarray(K), xp.float32),
        lambda xp: xp.astype(xp.asarray(K), xp.bool), lambda xp: xp.astype(xp.asarray(B), xp.complex64),
        lambda xp: xp.astype(xp.asarray(F), xp.float64, copy=False),
    ],
    "can_cast": [
        lambda xp: xp.can_cast(xp.int8, xp.int16), lambda xp: xp.can_cast(xp.float64, xp.float32),
        lambda xp: xp.can_cast(xp.asarray(U), xp.int32), lambda xp: xp.can_cast(xp.uint64, xp.uint8),
    ],
    "finfo": [
        lambda xp: [getattr(xp.finfo(d), n) for d in (xp.float32, xp.float64, xp.complex64)
                    for n in ("bits", "eps", "max", "min", "smallest_normal")],
        lambda xp: str(xp.finfo(xp.complex128).dtype).rpartition(".")[2],
    ],
    "iinfo": [
        lambda xp: [getattr(xp.iinfo(getattr(xp, d)), n) for d in INTEGERS for n in ("bits", "max", "min")],
    ],
    "isdtype": [
        lambda xp: [xp.isdtype(getattr(xp, d), k) for d in ALL for k in (
            "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating", "numeric", ("bool", "integral"), xp.float32, (xp.int8, "bool"))],
    ],
    "result_type": [
        lambda xp: str(xp.result_type(xp.asarray(K), xp.int8)).rpartition(".")[2],
        lambda xp: str(xp.result_type(xp.float32, xp.complex64, xp.float64)).rpartition(".")[2],
        lambda xp: str(xp.result_type(xp.int8, xp.uint8)).rpartition(".")[2],
        lambda xp: str(xp.result_type(xp.asarray(F, dtype=xp.float32), 1.5)).rpartition(".")[2],
    ],
    "broadcast_arrays": [
        lambda xp: list(xp.broadcast_arrays(xp.asarray(F), xp.asarray(V), xp.asarray(2.0))),
    ],
    "broadcast_to": [lambda xp: xp.broadcast_to(xp.asarray(V), (2, 3, 4))],
    # Functions that index arrays or rearrange elements.
    "take": [
        lambda xp: xp.take(xp.asarray(F), xp.asarray([2, 0]), axis=1),
        lambda xp: xp.take(xp.asarray(V), xp.asarray([-1, 0, 3])),
    ],
    "take_along_axis": [
        lambda xp: xp.take_along_axis(xp.asarray(K), xp.asarray([[0], [2], [-1]]), axis=1),
    ],
    "concat": [
        lambda xp: xp.concat([xp.asarray(F), xp.asarray(F)], axis=1), lambda xp: xp.concat([xp.asarray(K)]),
        lambda xp: xp.concat((xp.asarray(K), xp.asarray(U)), axis=None),
        lambda xp: xp.concat([xp.asarray(E), xp.ones((2, 3))]),
    ],
    "expand_dims": [
        lambda xp: xp.expand_dims(xp.asarray(F), axis=1), lambda xp: xp.expand_dims(xp.asarray(V), -1),
    ],
    "flip": [
        lambda xp: xp.flip(xp.asarray(F)), lambda xp: xp.flip(xp.asarray(F), axis=-1),
        lambda xp: xp.flip(xp.asarray(F), axis=(0, 2)),
    ],
    "matrix_transpose": [lambda xp: xp.matrix_transpose(xp.asarray(F))],
    "moveaxis": [
        lambda xp: xp.moveaxis(xp.asarray(F), 0, -1), lambda xp: xp.moveaxis(xp.asarray(F), (0, 1), (2, 0)),
    ],
    "permute_dims": [lambda xp: xp.permute_dims(xp.asarray(F), (2, 0, 1))],
    "repeat": [
        lambda xp: xp.repeat(xp.asarray(K), 2), lambda xp: xp.repeat(xp.asarray(K), 3, axis=1),
        lambda xp: xp.repeat(xp.asarray(V), xp.asarray([1, 0, 2, 1])),
        lambda xp: xp.repeat(xp.asarray(V), xp.asarray([1, 0, 2, 1], dtype=xp.uint64)),
    ],
    "reshape": [
        lambda xp: xp.reshape(xp.asarray(F), (4, -1)), lambda xp: xp.reshape(xp.asarray(E), (3, 0)),
        lambda xp: xp.reshape(xp.asarray(2.0), (1, 1)), lambda xp: xp.reshape(xp.asarray(F), (24,), copy=True),
    ],
    "roll": [
        lambda xp: xp.roll(xp.asarray(F), 2), lambda xp: xp.roll(xp.asarray(F), -1, axis=1),
        lambda xp: xp.roll(xp.asarray(F), (1, 2), axis=(0, 2)),
    ],
    "squeeze": [lambda xp: xp.squeeze(xp.ones((1, 3, 1)), axis=0), lambda xp: xp.squeeze(xp.ones((1, 3, 1)), (0, -1))],
    "stack": [lambda xp: xp.stack([xp.asarray(K), xp.asarray(K)], axis=-1)],
    "tile": [lambda xp: xp.tile(xp.asarray(K), (2, 1, 2)), lambda xp: xp.tile(xp.asarray(K), (2,))],
    "unstack": [lambda xp: list(xp.unstack(xp.asarray(F), axis=1))],
    # Functions that search and sort, and functions of sets.
    "argmax": [
        lambda xp: xp.argmax(xp.asarray(F)), lambda xp: xp.argmax(xp.asarray(K), axis=1, keepdims=True),
        lambda xp: xp.argmax(xp.asarray(N)),
    ],
    "argmin": [lambda xp: xp.argmin(xp.asarray(F), axis=0), lambda xp: xp.argmin(xp.asarray(K), keepdims=True)],
    "count_nonzero": [
        lambda xp: xp.count_nonzero(xp.asarray(K)), lambda xp: xp.count_nonzero(xp.asarray(B), axis=1, keepdims=True),
    ],
    "nonzero": [lambda xp: list(xp.nonzero(xp.asarray(K))), lambda xp: list(xp.nonzero(xp.asarray(E)))],
    "searchsorted": [
        lambda xp: xp.searchsorted(xp.asarray([1.0, 2.0, 2.0, 5.0]), xp.asarray([[2.0], [9.0]])),
        lambda xp: xp.searchsorted(xp.arange(100), xp.asarray([-1, 0, 50, 99, 100]), side="right"),
        lambda xp: xp.searchsorted(xp.asarray([3, 1, 2]), xp.asarray([2, 3]), sorter=xp.asarray([1, 2, 0])),
    ],
    "where": [
        lambda xp: xp.where(xp.asarray(B), xp.asarray(K), xp.asarray(U)),
        lambda xp: xp.where(xp.asarray(B), xp.asarray(F[0]), 0.0),
    ],
    "argsort": [
        lambda xp: xp.argsort(xp.asarray(K), axis=0), lambda xp: xp.argsort(xp.asarray(K), descending=True),
        lambda xp: xp.argsort(xp.asarray(E)),
    ],
    "sort": [
        lambda xp: xp.sort(xp.asarray(F), axis=1), lambda xp: xp.sort(xp.asarray(U), descending=True),
        lambda xp: xp.sort(xp.asarray(N)),
    ],
    "unique_all": [lambda xp: tuple(xp.unique_all(xp.asarray(K))), lambda xp: tuple(xp.unique_all(xp.asarray(N)))],
    "unique_counts": [lambda xp: tuple(xp.unique_counts(xp.asarray(U))), lambda xp: tuple(xp.unique_counts(xp.asarray(E)))],
    "unique_inverse": [lambda xp: tuple(xp.unique_inverse(xp.asarray(B)))],
    "unique_values": [lambda xp: xp.unique_values(xp.asarray(C)), lambda xp: xp.unique_values(xp.asarray(3))],
    # Statistics, and utility functions.
    "cumulative_sum": [
        lambda xp: xp.cumulative_sum(xp.asarray(F), axis=1), lambda xp: xp.cumulative_sum(xp.asarray(U), axis=0),
        lambda xp: xp.cumulative_sum(xp.asarray(V), include_initial=True),
        lambda xp: xp.cumulative_sum(xp.asarray(K), axis=1, dtype=xp.float64),
    ],
    "cumulative_prod": [
        lambda xp: xp.cumulative_prod(xp.asarray(F), axis=1), lambda xp: xp.cumulative_prod(xp.asarray(U), axis=0),
        lambda xp: xp.cumulative_prod(xp.asarray(V), include_initial=True),
    ],
    "max": [lambda xp: xp.max(xp.asarray(F), axis=(0, 2)), lambda xp: xp.max(xp.asarray(K), keepdims=True)],
    "mean": [lambda xp: xp.mean(xp.asarray(F), axis=1), lambda xp: xp.mean(xp.asarray(F, dtype=xp.float32))],
    "min": [lambda xp: xp.min(xp.asarray(F), axis=-1, keepdims=True), lambda xp: xp.min(xp.asarray(N))],
    "prod": [
        lambda xp: xp.prod(xp.asarray(F), axis=0), lambda xp: xp.prod(xp.asarray(U)),
        lambda xp: xp.prod(xp.asarray(E), axis=0), lambda xp: xp.prod(xp.asarray(C, dtype=xp.complex64)),
    ],
    "std": [lambda xp: xp.std(xp.asarray(F), axis=1, correction=1.0), lambda xp: xp.std(xp.asarray(F))],
    "sum": [
        lambda xp: xp.sum(xp.asarray(F), axis=(0, 1)), lambda xp: xp.sum(xp.asarray(U)),
        lambda xp: xp.sum(xp.asarray(K), dtype=xp.float32, keepdims=True), lambda xp: xp.sum(xp.asarray(E), axis=0),
    ],
    "var": [lambda xp: xp.var(xp.asarray(F), axis=1, correction=1), lambda xp: xp.var(xp.asarray(F), keepdims=True)],
    "all": [lambda xp: xp.all(xp.asarray(B), axis=1), lambda xp: xp.all(xp.asarray(K)), lambda xp: xp.all(xp.asarray(E))],
    "any": [lambda xp: xp.any(xp.asarray(B), axis=0, keepdims=True), lambda xp: xp.any(xp.asarray(C))],
    "diff": [
        lambda xp: xp.diff(xp.asarray(F)), lambda xp: xp.diff(xp.asarray(K), axis=0, n=2),
        lambda xp: xp.diff(xp.asarray(K), axis=0, n=5), lambda xp: xp.diff(xp.asarray(E), axis=0),
        lambda xp: xp.diff(xp.asarray(K), prepend=xp.zeros((3, 1), dtype=xp.int64), append=xp.ones((3, 2), dtype=xp.int64)),
    ],
    "clip": [
        lambda xp: xp.clip(xp.asarray(F), -0.5, 0.5), lambda xp: xp.clip(xp.asarray(K), 0),
        lambda xp: xp.clip(xp.asarray(F), None, xp.asarray(V)), lambda xp: xp.clip(xp.asarray(U), 2, 5),
        lambda xp: xp.clip(xp.asarray(N), -1.0, 2.0),
    ],
    "bitwise_left_shift": [lambda xp: xp.bitwise_left_shift(xp.asarray(K), xp.asarray(K * 0 + 2))],
    "bitwise_right_shift": [lambda xp: xp.bitwise_right_shift(xp.asarray(K), xp.asarray(K * 0 + 1))],
    # Linear algebra.
    "matmul": [
        lambda xp: xp.matmul(xp.asarray(F), xp.asarray(G)), lambda xp: xp.matmul(xp.asarray(V), xp.asarray(G)),
        lambda xp: xp.matmul(xp.asarray(F), xp.asarray(V)), lambda xp: xp.matmul(xp.asarray(K), xp.asarray(K.T.copy())),
        lambda xp: xp.matmul(xp.asarray(E), xp.ones((3, 2))),
    ],
    "tensordot": [
        lambda xp: xp.tensordot(xp.asarray(F), xp.asarray(G), axes=1),
        lambda xp: xp.tensordot(xp.asarray(F), xp.asarray(K * 1.0), axes=((1, 2), (0, 1))),
        lambda xp: xp.tensordot(xp.asarray(V), xp.asarray(V), axes=0),
    ],
    "vecdot": [
        lambda xp: xp.vecdot(xp.asarray(F), xp.asarray(V)), lambda xp: xp.vecdot(xp.asarray(C), xp.asarray(C), axis=-2),
    ],
}  # fmt: skip

LINALG: dict[str, list[Any]] = {
    "cholesky": [lambda xp: xp.linalg.cholesky(xp.asarray(M)), lambda xp: xp.linalg.cholesky(xp.asarray(S), upper=True)],
    "cross": [lambda xp: xp.linalg.cross(xp.asarray(S), xp.asarray(S[::-1].copy())), lambda xp: xp.linalg.cross(xp.asarray(S), xp.asarray(S.T + 1), axis=-2)],
    "det": [lambda xp: xp.linalg.det(xp.asarray(M))],
    "diagonal": [lambda xp: xp.linalg.diagonal(xp.asarray(F)), lambda xp: xp.linalg.diagonal(xp.asarray(F), offset=-1)],
    "eigh": [lambda xp: xp.linalg.eigh(xp.asarray(M)).eigenvalues],
    "eigvalsh": [lambda xp: xp.linalg.eigvalsh(xp.asarray(M))],
    "inv": [lambda xp: xp.linalg.inv(xp.asarray(M))],
    "matmul": [lambda xp: xp.linalg.matmul(xp.asarray(F), xp.asarray(G))],
    "matrix_norm": [lambda xp, o=o: xp.linalg.matrix_norm(xp.asarray(F), ord=o) for o in ("fro", "nuc", 1, 2, -1, -2, float("inf"), -float("inf"))],
    "matrix_power": [lambda xp, n=n: xp.linalg.matrix_power(xp.asarray(M), n) for n in (0, 1, 5, -2)],
    "matrix_rank": [lambda xp: xp.linalg.matrix_rank(xp.asarray(M)), lambda xp: xp.linalg.matrix_rank(xp.ones((2, 3, 3))), lambda xp: xp.linalg.matrix_rank(xp.asarray(F), rtol=xp.asarray([0.1, 0.9]))],
    "matrix_transpose": [lambda xp: xp.linalg.matrix_transpose(xp.asarray(F))],
    "outer": [lambda xp: xp.linalg.outer(xp.asarray(V), xp.asarray(V + 1))],
    "pinv": [lambda xp: xp.linalg.pinv(xp.asarray(F)), lambda xp: xp.linalg.pinv(xp.asarray(F), rtol=xp.asarray([0.1, 0.9]))],
    "qr": [lambda xp: tuple(xp.linalg.qr(xp.asarray(F))), lambda xp: tuple(xp.linalg.qr(xp.asarray(G.T.copy()), mode="complete"))],
    "slogdet": [lambda xp: tuple(xp.linalg.slogdet(xp.asarray(M)))],
    "solve": [lambda xp: xp.linalg.solve(xp.asarray(M), xp.asarray(F[:, :, :2].copy())), lambda xp: xp.linalg.solve(xp.asarray(S), xp.asarray(V[:3].copy()))],
    "svd": [lambda xp: xp.linalg.svd(xp.asarray(F)).S, lambda xp: [y.shape for y in xp.linalg.svd(xp.asarray(F), full_matrices=False)]],
    "svdvals": [lambda xp: xp.linalg.svdvals(xp.asarray(F))],
    "tensordot": [lambda xp: xp.linalg.tensordot(xp.asarray(F), xp.asarray(G), axes=1)],
    "trace": [lambda xp: xp.linalg.trace(xp.asarray(F), offset=1), lambda xp: xp.linalg.trace(xp.asarray(U))],
    "vecdot": [lambda xp: xp.linalg.vecdot(xp.asarray(F), xp.asarray(V))],
    "vector_norm": [lambda xp, o=o: xp.linalg.vector_norm(xp.asarray(F), axis=1, ord=o) for o in (1, 2, 3, 0, float("inf"), -float("inf"))]
    + [lambda xp: xp.linalg.vector_norm(xp.asarray(C), keepdims=True)],
}  # fmt: skip

FFT: dict[str, list[Any]] = {
    **{n: [lambda xp, n=n: getattr(xp.fft, n)(xp.asarray(C)), lambda xp, n=n: getattr(xp.fft, n)(xp.asarray(C), n=6, axis=1, norm="ortho")] for n in ("fft", "ifft", "hfft", "irfft")},
    **{n: [lambda xp, n=n: getattr(xp.fft, n)(xp.asarray(F)), lambda xp, n=n: getattr(xp.fft, n)(xp.asarray(F), n=3, axis=-1, norm="forward")] for n in ("rfft", "ihfft")},
    **{n: [lambda xp, n=n: getattr(xp.fft, n)(xp.asarray(C), axes=(0, 2)), lambda xp, n=n: getattr(xp.fft, n)(xp.asarray(C), s=(2, 5), axes=(1, 2))] for n in ("fftn", "ifftn", "irfftn")},
    "rfftn": [lambda xp: xp.fft.rfftn(xp.asarray(F)), lambda xp: xp.fft.rfftn(xp.asarray(F), s=(3, 3), axes=(0, 1))],
    "fftfreq": [lambda xp: xp.fft.fftfreq(5), lambda xp: xp.fft.fftfreq(4, d=0.5)],
    "rfftfreq": [lambda xp: xp.fft.rfftfreq(5), lambda xp: xp.fft.rfftfreq(4, d=0.5)],
    "fftshift": [lambda xp: xp.fft.fftshift(xp.asarray(F)), lambda xp: xp.fft.fftshift(xp.asarray(F), axes=1)],
    "ifftshift": [lambda xp: xp.fft.ifftshift(xp.asarray(F), axes=(0, 2))],
}  # fmt: skip

ROUNDED = {
    "cumulative_prod", "cumulative_sum", "linspace", "mean", "prod", "std", "sum", "var", "vecdot", "matmul",
    "tensordot",
}  # fmt: skip
"""Functions outside of `linalg` and `fft` whose results are rounded. All other functions there are exact."""
EXACT_ALL_THE_SAME = {"diagonal", "fftshift", "ifftshift", "matrix_transpose", "outer"}
"""Functions of `linalg` and `fft` whose results are exact. All other functions there are rounded."""

EVERY_CALL = [
    pytest.param(
        call,
        16 if name in ROUNDED or (module and name not in EXACT_ALL_THE_SAME) else 0,
        id=f"{module}{name}-{i}",
    )
    for module, table in (("", CALLS), ("linalg.", LINALG), ("fft.", FFT))
    for name, calls in table.items()
    for i, call in enumerate(calls)
]


@pytest.mark.parametrize("where", NAMESPACES)
@pytest.mark.parametrize(("call", "ulps"), EVERY_CALL)
def test_calls(call: Any, ulps: int, where: str) -> None:
    with np.errstate(all="ignore"):
        wanted = call(strict)
    assert_strict(call(NAMESPACES[where]), wanted, ulps)


def functions(module: Any) -> set[str]:
    """Return the names of the functions in a module of the standard."""
    names = (name for name in module.__all__ if not name.startswith("_"))
    ours = {name for name in names if inspect.isfunction(getattr(module, name))}
    return {name for name in ours if "flags" not in name}


@pytest.mark.parametrize("where", NAMESPACES)
def test_every_function_is_there_and_is_called(where: str) -> None:
    xp = NAMESPACES[where]
    tables = {"": {**CALLS, **UNARY, **BINARY}, "linalg": LINALG, "fft": FFT}
    newer = {"broadcast_shapes", "isin"}
    for name, table in tables.items():
        module = getattr(strict, name) if name else strict
        ours = getattr(xp, name) if name else xp
        assert functions(module) - newer == set(table), name
        assert not [function for function in table if not callable(getattr(ours, function))]


@pytest.mark.parametrize("where", NAMESPACES)
@pytest.mark.parametrize("module", ["", "linalg", "fft"])
def test_every_argument_is_there(module: str, where: str) -> None:
    """Every parameter must have the standard's name, kind and default. tenferro may have more keyword parameters."""
    wanted_in = getattr(strict, module) if module else strict
    found_in = getattr(NAMESPACES[where], module) if module else NAMESPACES[where]
    for name in functions(wanted_in):
        found = inspect.signature(getattr(found_in, name)).parameters
        wanted = inspect.signature(getattr(wanted_in, name)).parameters
        for place, (key, parameter) in enumerate(wanted.items()):
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                assert any(p.kind is parameter.kind for p in found.values()), name
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:  # because tenferro has NumPy's name
                own = list(found.values())[place]
                assert own.kind in (own.POSITIONAL_ONLY, own.POSITIONAL_OR_KEYWORD), (name, key)
                continue
            # In tenferro, the parameters have NumPy's names, a_min and a_max.
            if name == "clip" and key in ("min", "max"):
                own = list(found.values())[place]
                assert (own.kind, own.default) == (own.POSITIONAL_OR_KEYWORD, None)
                continue
            assert found[key].kind in (parameter.kind, parameter.POSITIONAL_OR_KEYWORD), (name, key)
            has_default = parameter.default is not parameter.empty
            unknown = "Undef" in type(parameter.default).__name__
            # In tenferro the default norm=None means "backward", as in NumPy.
            default = (
                "backward" if key == "norm" and found[key].default is None else found[key].default
            )
            assert not has_default or unknown or default == parameter.default, (name, key)


# ---- the array object ----------------------------------------------------------------------------

OPERATORS: dict[str, Any] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
    "//": lambda x, y: x // y, "%": lambda x, y: x % y, "**": lambda x, y: x**y, "@": lambda x, y: x @ y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y, "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y, "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
}  # fmt: skip
KINDS = {
    "/": (F,),
    "@": (S, K[:, :3]),
    "&": (K, B),
    "|": (K, B),
    "^": (K, B),
    "<<": (U,),
    ">>": (U,),
}
NUMBERS_ON = {"&": 3, "|": 3, "^": 5, "<<": 2, ">>": 1}


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators(symbol: str) -> None:
    op = OPERATORS[symbol]
    for array in KINDS.get(symbol, (F, U)):
        second = array if symbol in ("<<", ">>") or array.dtype.kind != "f" else array + 5
        pairs = [(array, second)]
        if symbol != "@" and array.dtype.kind != "b":
            pairs.append((array, NUMBERS_ON.get(symbol, 2)))
            pairs.append((NUMBERS_ON.get(symbol, 2), array))
        for x, y in pairs:
            if symbol in ("//", "%", "**", "<<", ">>") and array.dtype.kind == "u":
                x, y = (np.minimum(z, 5) + 1 if isinstance(z, np.ndarray) else z for z in (x, y))
                x, y = (z.astype("u1") if isinstance(z, np.ndarray) else z for z in (x, y))
            with np.errstate(all="ignore"):
                wanted = op(
                    *(strict.asarray(z) if isinstance(z, np.ndarray) else z for z in (x, y))
                )
            found = op(*(RT.constant(z) if isinstance(z, np.ndarray) else z for z in (x, y)))
            assert type(found) is tnf.EagerTensor
            assert_strict(found, wanted, 8 if symbol in ("**", "@") else 0)


def test_operators_in_place_bind_anew() -> None:
    x = y = RT.constant(F)
    x += 1
    x *= y
    assert x is not y
    np.testing.assert_array_equal(x, (F + 1) * F)


def test_attributes_and_methods() -> None:
    x = RT.constant(F)
    assert (x.ndim, x.shape, x.size, x.device, x.dtype) == (3, F.shape, F.size, "cpu", tnf.float64)
    np.testing.assert_array_equal(x.mT, F.swapaxes(1, 2))
    np.testing.assert_array_equal(x[0].T, F[0].T)
    assert x.to_device("cpu") is x
    for wrong in (lambda: x.to_device("gpu"), lambda: x.to_device("cpu", stream=1)):
        with pytest.raises(tnf.errors.InvalidConfigError):
            wrong()
    assert abs(-x).tolist() == abs(F).tolist()
    assert (+x).tolist() == F.tolist()
    assert [float(RT.constant(2)), int(RT.constant(2.5)), complex(RT.constant(1j))] == [2.0, 2, 1j]
    assert bool(RT.constant(0)) is False
    assert RT.constant(3).__index__() == 3
    with pytest.raises(TypeError):
        RT.constant(3.0).__index__()
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(TypeError, match="rank 0"):
        iter(RT.constant(1.0))


def test_namespaces() -> None:
    x = RT.variable(F)
    xp = x.__array_namespace__(api_version="2024.12")
    assert xp is RT.namespace is array_api_compat.array_namespace(x, RT.constant(1))
    assert (xp.__name__, xp.__array_api_version__) == ("tenferro", "2024.12")
    assert xp.sin is tnf.sin
    assert array_api_compat.is_array_api_obj(x)
    assert array_api_compat.size(x) == F.size
    assert array_api_compat.device(x) == "cpu"
    with pytest.raises(tnf.errors.InvalidConfigError, match=r"1999\.12"):
        x.__array_namespace__(api_version="1999.12")
    traced = tnf.compile(lambda x: x.__array_namespace__().sin(x), F)
    np.testing.assert_array_equal(traced.run(F), np.sin(F))
    mixed = xp.asarray([x[0, 0, 0], 2.0])
    assert mixed.is_tracked


ORDERS = (2, 1, 0, -1, -2, 2.5, np.inf)
MATRIX_ORDERS = ("fro", "nuc", 1, 2, np.inf)


@pytest.mark.parametrize("where", NAMESPACES)
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3), (2, 3, 0), (2, 0, 3)])
def test_matrices_without_elements(shape: tuple[int, ...], where: str) -> None:
    def found(xp: Any) -> Any:
        x = xp.zeros(shape)
        # The rank of an empty matrix is not compared, because NumPy returns a scalar for it.
        rank = [] if 0 in shape[-2:] else [xp.linalg.matrix_rank(x)]
        return [
            xp.linalg.pinv(x),
            *rank,
            *(
                xp.linalg.vector_norm(x, ord=order, axis=axis, keepdims=keepdims)
                for order in ORDERS
                for axis in (None, -1, (0, 1))
                for keepdims in (True, False)
            ),
            *(xp.linalg.matrix_norm(x, ord=order) for order in MATRIX_ORDERS),
        ]

    with np.errstate(all="ignore"):
        wanted = found(strict)
    assert_strict(found(NAMESPACES[where]), wanted, 0)
    assert NAMESPACES[where].linalg.matrix_rank(np.zeros((3, 0))) == 0


@pytest.mark.parametrize("where", NAMESPACES)
def test_norms_of_negative_order(where: str) -> None:
    xp = NAMESPACES[where]
    for order in (-1, -2.5):
        traced = tnf.jit(lambda x, order=order: tnf.linalg.vector_norm(x, ord=order))
        for given in ([0.0, 1.0], [np.inf, np.inf], [np.inf, 2.0]):
            x = np.array(given)
            with np.errstate(all="ignore"):
                wanted = np.linalg.vector_norm(x, ord=order)
            assert xp.linalg.vector_norm(xp.asarray(x), ord=order) == traced(x) == wanted


@pytest.mark.parametrize("where", NAMESPACES)
def test_inspection(where: str) -> None:
    info, wanted = (n.__array_namespace_info__() for n in (NAMESPACES[where], strict))
    assert info.capabilities() == wanted.capabilities()
    assert info.devices() == [info.default_device()]
    for kind in (None, "bool", "integral", ("real floating", "complex floating")):
        found = info.dtypes(kind=kind)
        assert set(found) == set(wanted.dtypes(kind=kind))
        assert all(dtype == name for name, dtype in found.items())
    assert set(info.default_dtypes()) == set(wanted.default_dtypes())
    with pytest.raises(tnf.errors.InvalidConfigError):
        info.dtypes(device="gpu")


class Capsule:
    """Object whose `__dlpack__` returns a capsule that was made before the call."""

    def __init__(self, exported: Any) -> None:
        self.exported = exported

    def __dlpack__(self, **options: Any) -> Any:
        return self.exported

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_exchange() -> None:
    x = RT.constant(F)
    for copy in (None, True, False):
        np.testing.assert_array_equal(np.from_dlpack(x, copy=copy), F)
    calls: list[dict[str, Any]] = [
        {}, {"max_version": (0, 8)}, {"copy": True}, {"max_version": (1, 0), "copy": False},
    ]  # fmt: skip
    for options in calls:
        exported = x.__dlpack__(**options)
        np.testing.assert_array_equal(np.from_dlpack(Capsule(exported)), F)
    assert not np.shares_memory(np.from_dlpack(Capsule(x.__dlpack__())), x.array)
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    given = F.copy()
    shared = RT.namespace.from_dlpack(given)
    given[...] = 0
    assert shared.tolist() == given.tolist()
    assert x.__dlpack_device__() == given.__dlpack_device__()
    found, wanted = (inspect.signature(y.__dlpack__).parameters for y in (x, strict.asarray(F)))
    assert list(found) == list(wanted)
    with pytest.raises(
        (RuntimeError, ValueError), match="stream"
    ):  # NumPy's version determines the class
        x.__dlpack__(stream=1)
    xp = RT.namespace
    assert xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True) is not x
    assert np.shares_memory(xp.asarray(given, copy=False).array, given)
    assert not np.shares_memory(xp.asarray(given).array, given)
    for refused in (
        lambda: xp.asarray([1.0], copy=False),
        lambda: xp.asarray(x, dtype="f4", copy=False),
    ):
        with pytest.raises(ValueError, match="copy"):
            refused()


def test_bad_arguments() -> None:
    xp = RT.namespace
    for wrong, kind in (
        (lambda: xp.finfo(xp.int8), TypeError),
        (lambda: xp.iinfo(xp.float32), TypeError),
        (lambda: xp.isdtype(xp.int8, "numbers"), ValueError),
        (lambda: xp.zeros(3, device="gpu"), ValueError),
        (lambda: xp.nonzero(xp.asarray(1)), ValueError),
        (lambda: xp.diff(xp.ones(3), n=-1), ValueError),
        (lambda: xp.concat([]), ValueError),
        (lambda: xp.nextafter(xp.ones(2, dtype=xp.complex64), xp.ones(2)), TypeError),
    ):
        with pytest.raises(kind):
            wrong()


@pytest.mark.parametrize(
    "name", ["nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"]
)
def test_shapes_that_depend_on_data_are_refused_in_traces(name: str) -> None:
    with pytest.raises(tnf.errors.DataDependentShapeError):
        tnf.compile(lambda x: getattr(tnf, name)(x), F)


def test_gradients_pass_through_sets() -> None:
    x = RT.variable([3.0, 1.0, 3.0])
    values = tnf.unique_values(x)
    tnf.sum(values * RT.constant([1.0, 10.0])).backward()
    assert x.grad.tolist() == [10.0, 1.0, 0.0]


def test_lookups_of_the_public_suite() -> None:
    """Dtypes must support `==`.

    The public test suite of the Array API uses it to look up parameters, names and statistics in tables of dtypes.
    """
    dtypes = [(getattr(tnf, name), name) for name in ("bool", *NUMBERS)]

    def plain(entry: Any) -> Any:
        for dtype, name in dtypes:
            if dtype == entry:
                return name
        if isinstance(entry, dict):
            return {plain(key): plain(value) for key, value in entry.items()}
        if isinstance(entry, list | tuple):
            return [plain(x) for x in entry]
        return entry if isinstance(entry, str | int | float | None) else repr(entry)

    parameters = {
        "func_name": "__add__(x, s)", "expr": "x,y:", "dtype": tnf.int8, "pairs": (("float32", tnf.float32), None),
        "statistics": "- during generate phase (0.01 seconds):\n  - 20 passing examples, 0 failing\n", "f8,f8": [1.5, 3],
        "condition": "x1_i is +0, x2_i < 0", "stub": test_inspection, "": {"kind": ("integral", "real floating")},
        "1f8,": Capsule(None),
    }  # fmt: skip
    found = plain(parameters)
    assert found["dtype"] == "int8"
    assert found["pairs"] == [["float32", "float32"], None]
    assert found["func_name"] == "__add__(x, s)"
    assert found[""] == {"kind": ["integral", "real floating"]}


@pytest.mark.filterwarnings("ignore:invalid value")
def test_choices_that_the_standard_leaves_open() -> None:
    assert tnf.add(np.ones(2, "i8"), np.ones(2, "f4")).dtype == tnf.float64
    assert tnf.add(np.array([True]), np.array([True])).dtype == tnf.bool
    assert tnf.sum(np.array([True, True])) == 2
    assert array_api_compat.array_namespace(RT.constant(1.0)) is RT.namespace
    for lhs, rhs in ((np.inf, 1.0), (1.0, -np.inf), (-1.0, np.inf)):
        np.testing.assert_equal(float(tnf.floor_divide(lhs, rhs)), lhs // rhs)
        np.testing.assert_equal(tnf.jit(tnf.floor_divide)(lhs, rhs), lhs // rhs)
    for z, root in (
        (complex(-np.inf, 1.0), complex(0.0, np.inf)),
        (complex(np.inf, 1.0), complex(np.inf, 0.0)),
    ):
        assert tnf.sqrt(z) == tnf.jit(tnf.sqrt)(z) == root
    assert np.isinf(tnf.sqrt(complex(-np.inf, np.nan)).imag)
    for outside in (lambda x: x[5], lambda x: tnf.take(x, np.array([5]), axis=0)):
        with pytest.raises(tnf.errors.OutOfBoundsError):
            outside(RT.constant(np.ones(3)))
        with pytest.raises(tnf.errors.OutOfBoundsError):
            tnf.compile(outside, np.ones(3))
    x, far = np.arange(3.0), np.array(9)
    assert tnf.jit(lambda x, i: x[i])(x, far) == 2.0
    assert tnf.jit(lambda x, i: x.at[i].set(7.0))(x, far).tolist() == [0.0, 1.0, 2.0]
