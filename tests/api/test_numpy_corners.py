"""Functions of NumPy or `jax.numpy` that NumPy does not dispatch to tensors, and unusual arguments of all functions."""

from __future__ import annotations

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors

R = np.random.default_rng(4)
A, V = R.normal(size=(4, 3)), R.normal(size=5)
K = R.integers(-9, 9, (3, 4))
SMALL = np.array([0.0, -0.0, 1.0, -3.5, 5e-324, -1e-310, 1.7e308, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("name", ["frexp", "spacing"])
def test_parts_of_floats(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = SMALL.astype(dtype)
        wanted = getattr(np, name)(x)
    f = getattr(tnf, name)
    for result in (f(x), tnf.compile(f, x).run(x)):
        if name == "spacing" and dtype == "f2":
            # NumPy's spacing is positive for float16, and has the sign of x for all other dtypes. tenferro's has the
            # sign of x for every dtype.
            result = abs(result)
        for y, z in zip(np.atleast_2d(result), np.atleast_2d(wanted), strict=True):
            np.testing.assert_array_equal(y, z)


def test_the_derivative_of_a_mantissa() -> None:
    assert tnf.grad(lambda x: tnf.frexp(x)[0])(6.0) == 0.125


WRITES: dict[str, tuple[Any, ...]] = {
    "put": (A, np.array([0, 5, -1]), np.array([7.0, 8.0])),
    "place": (A, A > 0, np.array([1.0, 2.0, 3.0])),
    "fill_diagonal": (A, np.array([1.0, 2.0])),
    "put_along_axis": (A, np.array([[0], [1], [2], [0]]), 9.0, 1),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_give_new_tensors(name: str) -> None:
    first, *rest = WRITES[name]
    wanted = first.copy()
    getattr(np, name)(wanted, *rest)
    f = getattr(tnf, name)
    with pytest.raises(errors.UnsupportedError, match="inplace=False"):
        f(first, *rest)
    np.testing.assert_array_equal(f(first, *rest, inplace=False), wanted)
    program = tnf.compile(lambda x: f(x, *rest, inplace=False), first)
    np.testing.assert_array_equal(program.run(first), wanted)


def test_a_tall_diagonal_begins_again() -> None:
    wanted = np.zeros((7, 2))
    np.fill_diagonal(wanted, 4.0, wrap=True)
    np.testing.assert_array_equal(
        tnf.fill_diagonal(np.zeros((7, 2)), 4.0, True, inplace=False), wanted
    )
    cube = np.zeros((3, 3, 3))
    np.fill_diagonal(cube, [1, 2, 3])
    np.testing.assert_array_equal(
        tnf.fill_diagonal(np.zeros((3, 3, 3)), [1, 2, 3], inplace=False), cube
    )


@pytest.mark.parametrize("through", [lambda f: f, tnf.jit])
def test_an_empty_axis_has_fill_values(through: Any) -> None:
    empty, index = np.zeros((0, 2)), np.array([[0, -1], [3, 0]])
    along = through(lambda x, i: tnf.take_along_axis(x, i, 0, mode="fill", fill_value=7))
    np.testing.assert_array_equal(along(empty, index), np.full((2, 2), 7.0))
    np.testing.assert_array_equal(along(empty.astype("i2"), index[:0]), np.zeros((0, 2)))
    along = through(lambda x, i: tnf.take_along_axis(x, i, None, mode="fill"))
    np.testing.assert_array_equal(along(empty, index[0]), [np.nan] * 2)
    slices = through(lambda x, i: tnf.take(x, i, axis=0, mode="fill"))
    np.testing.assert_array_equal(slices(empty, index), np.full((2, 2, 2), np.nan))
    with pytest.raises(errors.OutOfBoundsError):
        tnf.take_along_axis(empty, index, 0)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_put_outside(mode: str) -> None:
    wanted = V.copy()
    np.put(wanted, [9, -8], [1.0, 2.0], mode=mode)
    np.testing.assert_array_equal(tnf.put(V, [9, -8], [1.0, 2.0], mode=mode, inplace=False), wanted)


@pytest.mark.parametrize("size", [0, 2, 9])
@pytest.mark.parametrize("axis", [None, 0])
def test_distinct_values_of_a_trace(size: int, axis: int | None) -> None:
    x = np.array([[1, 2], [0, 5], [1, 2], [0, 4], [0, 5]])
    options: dict[str, Any] = {"return_index": True, "return_inverse": True, "return_counts": True, "axis": axis}  # fmt: skip
    fill = None if axis is not None else 7
    program = tnf.compile(lambda x: tnf.unique(x, size=size, fill_value=fill, **options), x)
    values, index, inverse, counts = program.run(x)
    wanted = np.unique(x, **options)
    count = min(size, len(wanted[0]))
    np.testing.assert_array_equal(values[:count], wanted[0][:count])
    np.testing.assert_array_equal(index[:count], wanted[1][:count])
    np.testing.assert_array_equal(counts[:count], wanted[3][:count])
    np.testing.assert_array_equal(inverse, wanted[2].reshape(inverse.shape))
    if size > count:
        padding = values[:1] if axis == 0 else np.array(7)
        assert (values[count:] == padding).all()
        assert not counts[count:].any()


def test_a_union_of_a_trace() -> None:
    program = tnf.compile(lambda x, y: tnf.union1d(x, y, size=4, fill_value=-1), V, V)
    np.testing.assert_array_equal(program.run(V, V), np.sort(V)[:4])


@pytest.mark.parametrize("size", [0, 2, 7])
@pytest.mark.parametrize("fill", [None, -3])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([3, 1, 2, 1, 9], [2, 1, 2, 7, 5]),
        ([3, 1, 2], [4, 5]),
        ([0.5, np.nan, -np.inf, np.nan], [np.nan, 0.5, 0.0, -0.0]),
        ([1j, 2.0, 1j, 3 + 1j], [2.0, 5.0, 1j]),
        ([], [2.0, 1.0]),
        ([2.0, 1.0, 1.0], []),
    ],
    ids=["repeated", "disjoint", "nan", "complex", "first empty", "second empty"],
)
def test_sets_of_a_trace(x: Any, y: Any, fill: int | None, size: int) -> None:
    x, y = np.array(x), np.array(y)
    for name in ("intersect1d", "setdiff1d", "setxor1d"):
        wanted = getattr(np, name)(x, y)
        f = functools.partial(getattr(tnf, name), size=size, fill_value=fill)
        result, count = tnf.jit(f)(x, y), min(size, len(wanted))
        assert (result.shape, result.dtype) == ((size,), wanted.dtype)
        np.testing.assert_array_equal(result[:count], wanted[:count])
        default = wanted[0] if len(wanted) and name != "setdiff1d" else 0
        assert (result[count:] == (default if fill is None else fill)).all()
    values, first, second = np.intersect1d(x, y, return_indices=True)
    f = tnf.jit(lambda x, y: tnf.intersect1d(x, y, return_indices=True, size=size))
    for result, wanted, missing in zip(f(x, y)[1:], (first, second), (x.size, y.size), strict=True):
        padded = [*wanted[:size], *[missing] * (size - len(values))]
        np.testing.assert_array_equal(result, padded)


def test_unique_functions_of_a_trace() -> None:
    x = np.array([2.0, 1.0, np.nan, 2.0, np.nan])
    f = tnf.jit(lambda x: tnf.unique_all(x, size=6, fill_value=-1))
    values, indices, inverse, counts = f(x)
    np.testing.assert_array_equal(values, [1.0, 2.0, np.nan, np.nan, -1.0, -1.0])
    np.testing.assert_array_equal(indices[:4], [1, 0, 2, 4])
    np.testing.assert_array_equal(inverse, [1, 0, 2, 1, 3])
    np.testing.assert_array_equal(counts, [1, 2, 1, 1, 0, 0])
    np.testing.assert_array_equal(tnf.jit(lambda x: tnf.unique_values(x, size=2))(x), [1.0, 2.0])
    np.testing.assert_array_equal(tnf.jit(lambda x: tnf.unique_counts(x, size=2).counts)(x), [1, 2])
    inverse = tnf.jit(lambda x: tnf.unique_inverse(x, size=4).inverse_indices)(x.reshape(5, 1))
    np.testing.assert_array_equal(inverse, [[1], [0], [2], [1], [3]])


def test_an_exclusive_or_of_empty_sets() -> None:
    assert tnf.setxor1d([], []).shape == (0,)
    np.testing.assert_array_equal(tnf.setxor1d([], [2.0, 1.0]), [1.0, 2.0])


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_a_length_of_minus_one_is_that_of_the_axis(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(4, 5))
    wanted = getattr(np.fft, name)(x, s=(-1, 3), axes=(0, 1))
    np.testing.assert_allclose(getattr(tnf.fft, name)(x, s=(-1, 3), axes=(0, 1)), wanted)
    with pytest.raises(errors.InvalidConfigError, match="a length must be at least 1, got -1"):
        getattr(tnf.fft, name[:-1])(x, n=-1)


def test_a_histogram_of_a_list_of_numbers() -> None:
    x, bins = [0.5, 0.25, 0.9], [[0.0, 0.5, 1.0]]
    np.testing.assert_array_equal(tnf.histogramdd(x, bins)[0], np.histogramdd(x, bins)[0])


@pytest.mark.parametrize(
    "rule", ["auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt"]
)
@pytest.mark.filterwarnings("ignore:The number of bins:RuntimeWarning")
def test_rules_for_the_number_of_bins(rule: str) -> None:
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=200), rng.integers(0, 9, 50), np.zeros(0), np.ones(5)):
        for ends in (None, (0, 3)):
            expected = np.histogram(x, rule, ends)
            for actual, wanted in zip(tnf.histogram(x, rule, ends), expected, strict=True):
                np.testing.assert_allclose(actual, wanted)
            np.testing.assert_allclose(tnf.histogram_bin_edges(x, rule, ends), expected[1])


def test_a_rule_for_the_number_of_bins_needs_elements_and_no_weights() -> None:
    with pytest.raises(errors.DataDependentShapeError, match="the number of bins or their edges"):
        tnf.jit(lambda x: tnf.histogram(x, "auto"))(V)
    with pytest.raises(errors.InvalidConfigError, match="does not take weights"):
        tnf.histogram(V, "auto", weights=V)
    with pytest.raises(errors.InvalidConfigError, match="not a valid estimator"):
        tnf.histogram(V, "autumn")


def test_arguments_that_numpy_refuses() -> None:
    for indices in (np.array(1), np.zeros((2, 1, 1), int)):
        with pytest.raises(errors.ShapeError, match="take_along_axis: the indices need the rank"):
            tnf.take_along_axis(np.zeros((2, 2)), indices, 1)
        with pytest.raises(errors.ShapeError, match="put_along_axis: the indices need the rank"):
            tnf.put_along_axis(np.zeros((2, 2)), indices, 1.0, 1, inplace=False)
    for ends in ((np.nan, 1.0), (0.0, np.inf), (2.0, 1.0)):
        with pytest.raises(errors.InvalidConfigError, match="goes down, or is not finite"):
            tnf.histogram(V, range=ends)
        with pytest.raises(errors.InvalidConfigError, match="goes down, or is not finite"):
            tnf.histogramdd(V, range=[ends])


def test_sets_refuse_a_negative_size() -> None:
    for name in ("intersect1d", "setdiff1d", "setxor1d"):
        with pytest.raises(errors.InvalidConfigError, match=f"{name}: size must be at least 0"):
            getattr(tnf, name)([1], [2], size=-1)


@pytest.mark.parametrize(
    ("signature", "f", "operands"),
    [
        (None, lambda x, y: x + y, (A, V[:3])),
        ("(n),(n)->()", lambda x, y: (x * y).sum(), (A, V[:3])),
        ("(n),(m)->(n,m)", lambda x, y: x[:, None] * y, (A[None], V)),
        ("(n)->(),(n)", lambda x: (x.max(), x * 2), (A,)),
    ],
)
def test_vectorize(signature: str | None, f: Any, operands: tuple[Any, ...]) -> None:
    wanted = np.vectorize(f, signature=signature)(*operands)
    mapped = tnf.vectorize(f, signature=signature)
    for result in (mapped(*operands), tnf.compile(mapped, *operands).run(*operands)):
        for y, z in zip(_parts(result), _parts(wanted), strict=True):
            np.testing.assert_allclose(y, z)


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def test_vectorize_passes_what_is_excluded() -> None:
    mapped = tnf.vectorize(lambda x, power, scale: scale * x**power, excluded={1, "scale"})
    np.testing.assert_allclose(mapped(A, 2, scale=3.0), 3 * A**2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tnf.vectorize(lambda x: x, signature="(n->()")(V), errors.InvalidConfigError, "form"),
        (lambda: tnf.vectorize(lambda x, y: x, signature="(n),(n)->()")(V, V[:2]), errors.ShapeError, "axis n has extents 5 and 2"),
        (lambda: tnf.delete(V, 5), errors.OutOfBoundsError, "index 5 is outside"),
        (lambda: tnf.insert(V, -6, 1.0), errors.OutOfBoundsError, "index -6 is outside"),
        (lambda: tnf.delete(V, 1.5), errors.DTypeError, "takes an integer"),
        (lambda: tnf.block([[A], A]), errors.ShapeError, "different depths"),
        (lambda: tnf.block([]), errors.ShapeError, "empty list"),
        (lambda: tnf.polymul(A, V), errors.ShapeError, "coefficients must be a vector"),
        (lambda: tnf.polyfit(V, A, 1), errors.ShapeError, "does not fit"),
        (lambda: tnf.nanargmax([np.nan]), errors.InvalidConfigError, "all elements are NaN"),
        (lambda: tnf.gcd(V, V), errors.DTypeError, "takes integers"),
        (lambda: tnf.unravel_index(12, (3, 4)), errors.OutOfBoundsError, "index 12"),
        (lambda: tnf.ravel_multi_index(([3], [0]), (3, 4)), errors.OutOfBoundsError, "index 3"),
        (lambda: tnf.lexsort([V, V[:2]]), errors.ShapeError, "keys of one shape"),
        (lambda: tnf.choose([2], [V, V]), errors.OutOfBoundsError, "index 2"),
        (lambda: tnf.hanning(2.5), errors.InvalidConfigError, "known integer"),
        (lambda: tnf.unpackbits(K), errors.DTypeError, "takes uint8"),
        (lambda: tnf.matvec(V, V), errors.ShapeError, "matrices and vectors"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_common_divisors(name: str) -> None:
    lowest = np.array([-128, -5, 127, 0], "i1")
    for x, y in ((K, K[0]), (lowest, lowest[::-1]), (lowest[:1], np.int8(-5)), (K.astype("i1"), np.int8(6)), (np.abs(K).astype("u2"), np.array(12, "u2")), (K[:0], K[0])):  # fmt: skip
        f = getattr(tnf, name)
        for result in (f(x, y), tnf.compile(f, x, y).run(x, y)):
            wanted = getattr(np, name)(x, y)
            assert result.dtype == wanted.dtype
            np.testing.assert_array_equal(result, wanted)


def test_numpys_scalar_types_are_dtypes() -> None:
    assert tnf.iinfo(np.int8).max == 127
    assert tnf.finfo(np.float32).eps == np.finfo(np.float32).eps
    assert tnf.can_cast(np.int8, np.int16)


@pytest.mark.parametrize("right", [False, True])
def test_traced_bins_may_descend(right: bool) -> None:
    x, bins = np.array([-1.0, 0.0, 0.5, 1.0, 4.0]), np.array([3.0, 1.0, 0.0])
    for edges in (bins, bins[::-1]):
        program = tnf.compile(lambda x, edges: tnf.digitize(x, edges, right), x, edges)
        np.testing.assert_array_equal(program.run(x, edges), np.digitize(x, edges, right))


def test_differences_of_sets_have_the_dtype_of_the_first() -> None:
    assert tnf.setdiff1d(np.float32([1, 2]), np.array([0.5])).dtype == np.float32


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.array([2**53 + 1]), np.array([0.5])),
        (np.array([2**63 + 1, 3], np.uint64), np.array([-1])),
    ],
)
def test_differences_of_sets_consist_of_elements_of_the_first(x: Any, y: Any) -> None:
    """The common dtype, in which elements are compared, cannot represent all of them."""
    np.testing.assert_array_equal(tnf.setdiff1d(x, y), np.setdiff1d(x, y))


@pytest.mark.parametrize("fill", [None, 2])
@pytest.mark.parametrize("x", [np.arange(12.0, dtype="f4").reshape(3, 4), K.astype("i2")[:3], K.astype("u1")[:3]], ids=["f4", "i2", "u1"])  # fmt: skip
def test_indices_out_of_range_are_filled_as_in_jax(x: np.ndarray, fill: int | None) -> None:
    rows, columns = np.array([[0, 7], [-1, -9]]), np.array([[0, -1, 9, -7]] * len(x))
    calls = [
        (lambda m, x, i: m.take(x, i, axis=0, mode="fill", fill_value=fill), rows),
        (lambda m, x, i: m.take(x, i, axis=1, mode="fill", fill_value=fill), rows[0]),
        (lambda m, x, i: m.take_along_axis(x, i, 1, "fill", fill), columns),
        (lambda m, x, i: m.take_along_axis(x, i, 1, "clip"), columns),
    ]
    for call, index in calls:
        wanted = np.asarray(call(jnp, x, index))
        for result in (call(tnf, x, index), tnf.jit(lambda *xs, f=call: f(tnf, *xs))(x, index)):
            assert result.dtype == wanted.dtype
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("total", [0, 2, 3, 9])
def test_traced_repeats_have_a_total_length(total: int) -> None:
    for repeats in (np.array([1, 0, 2]), np.array([0, 0, 0]), np.array([2]), np.array(2)):
        f = lambda m, x, n: m.repeat(x, n, axis=0, total_repeat_length=total)
        wanted = f(jnp, K[:3], repeats)
        np.testing.assert_array_equal(tnf.jit(lambda *xs, f=f: f(tnf, *xs))(K[:3], repeats), wanted)


def test_abstract_dtypes() -> None:
    for dtype in ("int8", "uint16", "float32", "complex64", "bool"):
        for kind in (np.integer, np.floating, np.inexact, np.number, np.unsignedinteger, dtype, "int8"):  # fmt: skip
            assert tnf.issubdtype(dtype, kind) == np.issubdtype(np.dtype(dtype), kind)
    assert tnf.issubdtype(tnf.bfloat16, tnf.floating) == jnp.issubdtype(jnp.bfloat16, jnp.floating)
    assert not tnf.issubdtype(np.floating, np.integer)


def test_gradients_of_polynomials() -> None:
    x, y = np.linspace(0.0, 1.0, 6), np.sin(np.arange(6.0))
    ours = tnf.grad(lambda y: (tnf.polyfit(x, y, 2) ** 2).sum())(y)
    step = 1e-6 * np.eye(6)
    wanted = [((np.polyfit(x, y + d, 2) ** 2).sum() - (np.polyfit(x, y - d, 2) ** 2).sum()) / 2e-6 for d in step]  # fmt: skip
    np.testing.assert_allclose(ours, wanted, rtol=1e-6)
    roots = tnf.jacfwd(tnf.poly)(V[:3])
    wanted_roots = np.stack([(np.poly(V[:3] + d) - np.poly(V[:3] - d)) / 2e-6 for d in step[:3, :3]], 1)  # fmt: skip
    np.testing.assert_allclose(roots, wanted_roots, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.roll(K, (1, 2)),
        lambda m: m.roll(K, (1, 2, 1), 0),
        lambda m: m.roll(K, (1, 2), 1),
        lambda m: m.roll(K, 2, (0, 1)),
        lambda m: m.trapezoid(A[:0], axis=0),
        lambda m: m.trapezoid(A[:, :0]),
        lambda m: m.trapezoid(A[:0], V[:0], axis=0),
        lambda m: m.unwrap(A[:0], axis=0),
        lambda m: m.unwrap(K[:0]),
    ],
)
def test_shifts_along_one_axis_and_empty_axes(call: Any) -> None:
    ours, wanted = call(tnf), call(np)
    assert ours.dtype == wanted.dtype
    np.testing.assert_array_equal(ours, wanted)


def test_names_of_dtypes_are_dtypes() -> None:
    assert tnf.result_type("i1", np.float32, "u2") == np.result_type("i1", np.float32, "u2")


SMALL, TRUTHS = np.array([1, 2, 255], "u1"), np.array([True, False, True])
ANSWERED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *[(name, (SMALL, number), {}) for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal") for number in (300, -1)],
    ("less", (300, SMALL), {}), ("greater", (2**70, SMALL), {}), ("less_equal", (np.array([2**63], "u8"), 2**64), {}),
    ("sum", (np.array([0.0, 2, 0]),), {"dtype": bool}), ("sum", (TRUTHS[1:],), {"dtype": bool, "initial": 0, "where": [True, False]}),
    ("prod", (np.array([[1j, 2, 0]]),), {"axis": 1, "dtype": bool, "keepdims": True}), ("prod", (np.zeros((0, 2)),), {"axis": 0, "dtype": bool}),
    ("clip", (np.array([1, 2, 3]), 0.5, 2.5), {}), ("clip", (np.array([1, 2, 3], "i1"), -300, 300), {}), ("clip", (np.array([1, 2], "i4"), np.array([1.5]), None), {}),
    ("round", (np.array([15, 25, -15, 14, -25, 5, -5]), -1), {}), ("round", (SMALL, -1), {}), ("round", (SMALL, -3), {}), ("round", (np.array([2**62, 2**63 - 1]), -18), {}),
    ("convolve", (TRUTHS, TRUTHS[:2]), {}), ("correlate", (TRUTHS[:1], TRUTHS, "full"), {}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ANSWERED)), ids=[f"{c[0]}-{i}" for i, c in enumerate(ANSWERED)])  # fmt: skip
def test_answers_are_numpys(number: int) -> None:
    name, (x, *rest), kwargs = ANSWERED[number]
    wanted, function = getattr(np, name)(x, *rest, **kwargs), getattr(tnf, name)
    runtime = tnf.EagerRuntime()
    eager = [runtime.constant(y) if isinstance(y, np.ndarray) else y for y in (x, *rest)]
    arrays = [y for y in (x, *rest) if isinstance(y, np.ndarray)]

    def traced(*tensors: Any) -> Any:
        left = list(tensors)
        return function(
            *[left.pop(0) if isinstance(y, np.ndarray) else y for y in (x, *rest)], **kwargs
        )

    results = (
        function(x, *rest, **kwargs),
        function(*eager, **kwargs).numpy(),
        tnf.jit(traced)(*arrays),
    )
    for y in results:
        assert y.dtype == wanted.dtype
        np.testing.assert_array_equal(y, wanted, strict=True)


PRODUCTS: dict[str, Any] = {
    "dot": lambda m, x, y, **options: m.dot(x, y, **options),
    "dot of a number": lambda m, x, y, **options: m.dot(x, y[0, 0], **options),
    "matmul": lambda m, x, y, **options: m.matmul(x, y, **options),
    "einsum": lambda m, x, y, **options: m.einsum("ij,jk->ki", x, y, **options),
    "tensordot": lambda m, x, y, **options: m.tensordot(x, y, 1, **options),
    "vdot": lambda m, x, y, **options: m.vdot(x[0], y[:, 0], **options),
    "inner": lambda m, x, y, **options: m.inner(x, y.T, **options),
    "vecdot": lambda m, x, y, **options: m.vecdot(x, y[:, 0], **options),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    ("dtype", "preferred"),
    [
        ("int8", "int32"),
        ("uint8", "float32"),
        ("float16", "float32"),
        ("float64", "float32"),
        ("complex64", "complex128"),
        ("bool", "int64"),
    ],
)
def test_element_types_of_products(name: str, dtype: str, preferred: str) -> None:
    rng = np.random.default_rng(3)
    x, y = ((90 * rng.random(shape)).astype(dtype) for shape in ((3, 40), (40, 2)))
    f = PRODUCTS[name]
    with jax.enable_x64(True):
        wanted = np.asarray(f(jnp, x, y, preferred_element_type=preferred))
    result = tnf.jit(lambda x, y: f(tnf, x, y, preferred_element_type=preferred))(x, y)
    assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(result, wanted, rtol=1e-6)
    np.testing.assert_array_equal(f(tnf, x, y, preferred_element_type=preferred), result)
    runtime = tnf.EagerRuntime()
    eager = f(tnf, runtime.constant(x), runtime.constant(y), preferred_element_type=preferred)
    np.testing.assert_array_equal(np.asarray(eager), result)


@pytest.mark.parametrize("name", [name for name in PRODUCTS if name != "dot of a number"])
def test_precision_of_products(name: str) -> None:
    specs = [tnf.TensorSpec(("m", "n"), "float32"), tnf.TensorSpec(("n", 2), "float32")]
    exact = [tnf.TensorSpec((3, 4), "float32"), tnf.TensorSpec((4, 2), "float32")]
    f = PRODUCTS[name]
    for precision, shown in ((None, "HIGHEST"), ("high", "HIGH"), ("float32", "HIGHEST"), (tnf.lax.Precision.DEFAULT, "DEFAULT")):  # fmt: skip
        program = tnf.compile(lambda x, y, p=precision: f(tnf, x, y, precision=p), *specs)
        text = lowering.lower_to_stablehlo(program, specs=exact).text
        assert re.findall(r"precision = \[(\w+), (\w+)\]", text) == [(shown, shown)]
    with pytest.raises(errors.InvalidConfigError, match="precision must be None"):
        f(tnf, np.ones((2, 2)), np.ones((2, 2)), precision="best")
    for dtype, preferred in (("float32", "int32"), ("complex64", "float64"), ("int32", "int8"), ("int8", "bool")):  # fmt: skip
        x = np.ones((2, 2), dtype)
        with pytest.raises(errors.DTypeError, match="cannot hold products of"):
            f(tnf, x, x, preferred_element_type=preferred)
