"""`tenferro.lax` must equal jax.lax in values, derivatives and signatures, natively and through PJRT.

Other tests are about errors.
"""

from __future__ import annotations

import functools
import inspect
import operator
from typing import Any

import jax
import numpy as np
import pytest

import tenferro as tnf
import tenferro.lax
import xla_peer
from tenferro import errors, lax
from tests.lax.samples import TABLES, Call

CALLS = [
    pytest.param(table, name, id=f"{table}-{name}") for table in TABLES for name in TABLES[table]
]


TO_SECOND_ORDER = ("windows", "gathers")
"""Tables of functions whose second derivatives are compared.

The functions consist of several ops, so that the samples of single ops do not test them.
"""


def arrays_of(table: str) -> list[Any]:
    return [call.arrays for call in TABLES[table].values()]


def results_of(module: Any, table: str, arrays: Any) -> list[Any]:
    """Make every call of a table in a module, and return the first result of each."""
    return [call.call(module, *xs) for call, xs in zip(TABLES[table].values(), arrays, strict=True)]


def weights(y: Any) -> np.ndarray:
    return np.cos(np.arange(np.prod(y.shape, dtype=int))).reshape(y.shape)


def gradients_of(module: Any, grad: Any, total: Any, table: str, arrays: Any) -> list[Any]:
    """Return two gradients of every smooth call.

    The first is that of a weighted sum of the results. The second is that of the sum of the sines of the first
    gradient.
    """

    def loss(call: Call, xs: Any) -> Any:
        y = call.call(module, *xs)
        return total(y * weights(y))

    def slope(call: Call, xs: Any) -> Any:
        return sum(total(module.sin(g)) for g in grad(lambda *xs: loss(call, xs))(*xs))

    found = []
    for call, xs in zip(TABLES[table].values(), arrays, strict=True):
        if call.is_smooth:
            found.append(grad(lambda *xs, call=call: loss(call, xs))(*xs))
            if table in TO_SECOND_ORDER:
                found.append(grad(lambda *xs, call=call: slope(call, xs))(*xs))
    return found


def grad_of_all(grad: Any) -> Any:
    return lambda fn: lambda *xs: grad(fn, argnums=tuple(range(len(xs))))(*xs)


@functools.cache
def by_jax(table: str) -> tuple[list[Any], list[Any]]:
    """Compute the values and the gradients of a table by JAX, compiled together to save time."""

    def both(arrays: Any) -> Any:
        gradients = gradients_of(jax.lax, grad_of_all(jax.grad), jax.numpy.sum, table, arrays)
        return results_of(jax.lax, table, arrays), gradients

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(both)(arrays_of(table)))


def both_here(table: str, arrays: Any) -> Any:
    gradients = gradients_of(lax, grad_of_all(tnf.grad), tnf.sum, table, arrays)
    return results_of(lax, table, arrays), gradients


def assert_close(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    for y, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert y.dtype == wanted.dtype
        assert y.shape == wanted.shape
        np.testing.assert_allclose(
            y.astype(float) if y.dtype == bool else y, wanted, rtol=rtol, atol=1e-11
        )


@pytest.mark.parametrize(("table", "name"), CALLS)
def test_values_are_jaxs(table: str, name: str) -> None:
    call = TABLES[table][name]
    expected = by_jax(table)[0][list(TABLES[table]).index(name)]
    assert_close(call.call(lax, *call.arrays), expected)
    assert_close(tnf.jit(lambda *xs: call.call(lax, *xs))(*call.arrays), expected)


@pytest.mark.parametrize("table", TABLES)
def test_derivatives_are_jaxs_to_second_order(table: str) -> None:
    _, gradients = both_here(table, arrays_of(table))
    assert_close(gradients, by_jax(table)[1], 1e-8)


@pytest.mark.parametrize("table", TABLES)
def test_the_peer_agrees(table: str) -> None:
    calls = results_of if table == "elementwise" else lambda _, *rest: both_here(*rest)
    program = tnf.compile(lambda arrays: calls(lax, table, arrays), arrays_of(table))
    found = xla_peer.XlaExecutor().run(program, arrays_of(table))
    assert_close(found, program.run(arrays_of(table)), 1e-8)


@pytest.mark.parametrize("table", TABLES)
def test_eager_tensors(table: str) -> None:
    runtime = tnf.EagerRuntime()
    for name, call in TABLES[table].items():
        if name == "integer_pow-0":
            continue  # because x^0 does not depend on x
        variables = [runtime.variable(x) if call.is_smooth else x for x in call.arrays]
        y = call.call(lax, *variables)
        assert_close(jax.tree.map(np.asarray, y), call.call(lax, *call.arrays))
        if call.is_smooth:
            tnf.sum(y).backward()
            total = lambda *xs, call=call: tnf.sum(call.call(lax, *xs))
            wanted = grad_of_all(tnf.grad)(total)(*call.arrays)
            assert_close([np.asarray(x.grad) for x in variables], list(wanted), 1e-9)


# ---- differences from jax.lax -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "computation",
    [operator.add, np.add, tnf.add, lax.add, lambda a, b: b + a],
    ids=["operator", "numpy", "tnf", "lax", "lambda"],
)
def test_sums_by_any_function_of_that_name(computation: Any) -> None:
    found = lax.reduce_window(np.arange(5.0), 0.0, computation, (2,))
    np.testing.assert_array_equal(found, [1, 3, 5, 7])
    assert lax.reduce(np.arange(5), 0, computation, (0,)) == 10


@pytest.mark.parametrize("name", ["maximum", "minimum", "multiply", "bitwise_and", "bitwise_or"])
def test_reductions_are_numpys(name: str) -> None:
    ufunc, x = getattr(np, name), np.array([[6, 3, 5], [7, 2, 12]])
    start = {"maximum": 0, "minimum": 99, "multiply": 1, "bitwise_and": -1, "bitwise_or": 0}[name]
    np.testing.assert_array_equal(lax.reduce(x, start, ufunc, (1,)), ufunc.reduce(x, axis=1))
    pairs = lax.reduce_window(x, start, ufunc, (1, 2))
    np.testing.assert_array_equal(pairs, ufunc(x[:, :-1], x[:, 1:]))


def test_the_initial_value_counts_and_pads() -> None:
    found = lax.reduce_window(np.ones(3), 10.0, lax.add, (2,), (1,), [(1, 0)])
    np.testing.assert_array_equal(found, [21, 12, 12])
    traced = tnf.jit(lambda x, start: lax.reduce_window(x, start, lax.max, (2,)))
    np.testing.assert_array_equal(traced(np.arange(4.0), np.float64(2.0)), [2, 2, 3])


def test_sums_of_low_precision_are_rounded_once() -> None:
    x = np.array([2048.0, 1.0, 1.0], np.float16)
    assert lax.reduce_window(x, np.float16(0), lax.add, (3,))[0] == 2050


def test_a_maximum_shares_its_derivative_among_winners() -> None:
    def loss(x: Any) -> Any:
        return tnf.sum(lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 1)))

    x = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    third = 1 / 3
    np.testing.assert_allclose(tnf.grad(loss)(x), [[third, third + 1, 0], [third, 0, 0]])


@pytest.mark.parametrize(
    "computation", [lax.sub, lambda a, b: a, lambda a, b: a + b * b, lambda a, b: a + a, max]
)
def test_other_computations_are_refused(computation: Any) -> None:
    for call in (
        lambda: lax.reduce(np.ones(3), 0.0, computation, (0,)),
        lambda: lax.reduce_window(np.ones(3), 0.0, computation, (2,)),
    ):
        with pytest.raises(errors.UnsupportedError, match="sum, product, maximum"):
            call()


def test_negative_starts_that_do_not_count_from_the_end() -> None:
    x = np.arange(5)
    found = lax.dynamic_slice(x, (-2,), (2,), allow_negative_indices=False)
    np.testing.assert_array_equal(found, [0, 1])
    found = tnf.jit(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2))(x, np.int32(-2))
    np.testing.assert_array_equal(found, [3, 4])


def test_symbolic_extents() -> None:
    def f(x: Any, i: Any) -> Any:
        numbers = lax.GatherDimensionNumbers((), (0,), (0,))
        taken = lax.gather(x, i, numbers, (1,), mode="fill", fill_value=-1.0)
        row = lax.dynamic_index_in_dim(x, -1, keepdims=False)
        return taken, row, lax.reduce_window(x, 0.0, lax.add, (2,)), lax.reduce_sum(x, (0,))

    program = tnf.compile(f, tnf.TensorSpec(("n",), "f8"), tnf.TensorSpec((3, 1), "i8"))
    taken, row, pairs, total = program.run(np.arange(4.0), np.array([[3], [4], [-1]]))
    np.testing.assert_array_equal(taken, [3, -1, -1])
    assert (row, total) == (3, 6)
    np.testing.assert_array_equal(pairs, [1, 3, 5])


def test_vmap() -> None:
    x, w = np.arange(24.0).reshape(2, 1, 2, 6), np.arange(36.0).reshape(2, 3, 2, 3)
    found = tnf.vmap(lambda x, w: lax.conv(x, w, (1,), "SAME"))(x, w)
    expected = [lax.conv(x[i], w[i], (1,), "SAME") for i in range(2)]
    np.testing.assert_allclose(found, expected)
    windows = tnf.vmap(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2)), 3, 0)(x)
    np.testing.assert_array_equal(windows, np.moveaxis(x, 3, 0)[..., 1:])


def test_empty_tensors() -> None:
    assert lax.reduce_window(np.ones((0, 4)), 0.0, lax.add, (1, 2)).shape == (0, 3)
    assert lax.conv(np.ones((0, 2, 5)), np.ones((3, 2, 2)), (1,), "VALID").shape == (0, 3, 4)
    assert lax.conv(np.ones((1, 0, 5)), np.ones((3, 0, 2)), (1,), "VALID").sum() == 0
    assert lax.cummax(np.ones((0,))).shape == (0,)
    assert lax.cumlogsumexp(np.ones((2, 0)), 1).shape == (2, 0)
    assert lax.sort(np.ones((0,))).shape == (0,)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    assert lax.gather(np.ones(3), np.zeros((0, 1), int), numbers, (1,), mode="fill").shape == (0,)


def test_numbers_take_the_dtype_beside_them() -> None:
    x = np.ones(2, np.float32)
    assert lax.add(x, 2).dtype == lax.max(0.0, x).dtype == np.float32
    assert lax.clamp(0, x, 1).dtype == np.float32
    assert lax.add(x, np.float32(1)).shape == (2,)


F32, F64, I64 = np.ones(2, np.float32), np.ones(2), np.ones(2, int)
CUBE = np.ones((1, 2, 3))
REFUSED = {
    "dtypes": (lambda: lax.add(F32, F64), errors.DTypeError, "lax.add: operands must have one dtype, got float32, float64"),
    "number": (lambda: lax.add(I64, 1.5), errors.DTypeError, "the number 1.5"),
    "shapes": (lambda: lax.mul(F64, np.ones((1, 2))), errors.ShapeError, r"lax.mul: .* one shape, or rank 0"),
    "integers": (lambda: lax.exp(I64), errors.DTypeError, "Exp"),
    "integer power": (lambda: lax.integer_pow(I64, -1), errors.DTypeError, "convert it to a float"),
    "real of real": (lambda: lax.real(F64), errors.DTypeError, "must be complex"),
    "rank": (lambda: lax.conv(CUBE, np.ones((1, 2)), (1,), "SAME"), errors.ShapeError, "one rank"),
    "word": (lambda: lax.conv(CUBE, CUBE, (1,), "FULL"), errors.InvalidConfigError, "SAME_LOWER"),
    "strides": (lambda: lax.conv(CUBE, CUBE, (1, 1), "SAME"), errors.InvalidConfigError, "for each of 1 axes"),
    "pads": (lambda: lax.conv_general_dilated(CUBE, CUBE, (1,), []), errors.InvalidConfigError, "a pair for each"),
    "letters": (lambda: lax.conv_dimension_numbers((1,) * 3, (1,) * 3, ("NHC", "OIH", "NCW")), errors.InvalidConfigError, "same 1 axes of space"),
    "precision": (lambda: lax.dot(F64, F64, precision="best"), errors.InvalidConfigError, "highest"),
    "dot ranks": (lambda: lax.dot(CUBE, CUBE), errors.ShapeError, "tnf.matmul"),
    "windows": (lambda: lax.reduce_window(CUBE, 0.0, lax.add, (2,)), errors.InvalidConfigError, "each of 3 axes"),
    "tree": (lambda: lax.reduce((F64, F64), 0.0, lax.add, (0,)), errors.UnsupportedError, "one operand"),
    "start rank": (lambda: lax.reduce(F64, F64, lax.add, (0,)), errors.ShapeError, "rank 0"),
    "axes": (lambda: lax.reduce_sum(F64, 0), errors.InvalidConfigError, "sequence of integers"),
    "mode": (lambda: lax.GatherScatterMode.from_any("wrap"), errors.InvalidConfigError, '"clip"'),
    "indices": (lambda: lax.gather(F64, F64, lax.GatherDimensionNumbers((), (0,), (0,)), (1,)), errors.DTypeError, "integer tensor"),
    "starts": (lambda: lax.dynamic_slice(F64, (0, 0), (1,)), errors.ShapeError, "2 start indices"),
    "float start": (lambda: lax.dynamic_slice(F64, (0.5,), (1,)), errors.DTypeError, "integer scalar"),
    "too wide": (lambda: lax.dynamic_slice(F64, (0,), (3,)), errors.ShapeError, "more than"),
    "index": (lambda: lax.index_in_dim(F64, 2), errors.OutOfBoundsError, "outside axis 0"),
    "keys": (lambda: lax.sort(F64, num_keys=2), errors.InvalidConfigError, "num_keys"),
    "pad": (lambda: lax.pad(F64, 0.0, [(1, 1)]), errors.InvalidConfigError, "three numbers"),
    "sizes": (lambda: lax.split(F64, (1, 2)), errors.ShapeError, "add up to 3"),
    "minus one": (lambda: lax.reshape(F64, (-1,)), errors.ShapeError, "at least 0"),
    "which": (lambda: lax.select_n(np.ones(2, bool), F64, F64, F64), errors.DTypeError, "int32"),
    "choice": (lambda: lax.select(np.ones(3, bool), F64, F64), errors.ShapeError, "one shape"),
    "bound": (lambda: lax.clamp(np.ones(3), F64, 1.0), errors.ShapeError, "a bound must have rank 0"),
    "rounding": (lambda: lax.round(F64, "even"), errors.InvalidConfigError, "RoundingMethod"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_is_wrong(name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()


# ---- names ------------------------------------------------------------------------------------------

LEFT_OUT = {
    "executor": "who runs a loop at once; JAX has one",
    "accuracy": "peers compute as accurately as they do",
    "out_sharding": "sharding is said by `xla_peer.partition`",
    "sharding": "sharding is said by `xla_peer.partition`",
    "unroll": "loops are not unrolled",
    "_split_transpose": "is private there",
    "out_dtype": "convert the result",
    "operand": "is deprecated there",
    "implementation": "machines choose their algorithms",
    "algorithm": "machines choose their algorithms",
    "use_magma": "machines choose their algorithms",
    "to": "there are no types of varying tensors",
}
"""Parameters of jax.lax that tenferro's functions lack, each with the reason."""
ADDED = {
    "map": {"context"},
    "scan": {"parallel"},
    "fori_loop": {"max_steps"},
    "while_loop": {"max_steps"},
    "top_k": {"is_stable"},  # jax.lax has this parameter since 0.11
}
"""Parameters of tenferro's functions that some versions of jax.lax lack."""


def parameters_of(function: Any) -> dict[str, Any]:
    return {
        name: (p.kind, p.default)
        for name, p in inspect.signature(function).parameters.items()
        if name not in LEFT_OUT
    }


def same_default(a: Any, b: Any) -> bool:
    return a == b or (getattr(a, "name", a) == getattr(b, "name", b))


FUNCTIONS = [name for name in lax.__all__ if name != "linalg"]
FACTORISATIONS = [f"linalg.{name}" for name in lax.linalg.__all__]


@pytest.mark.parametrize("name", sorted([*FUNCTIONS, *FACTORISATIONS]))
def test_signatures_are_jaxs(name: str) -> None:
    ours, theirs = operator.attrgetter(name)(lax), operator.attrgetter(name)(jax.lax)
    if inspect.isclass(ours):
        members, theirs = (
            list(getattr(kind, "__members__", getattr(kind, "_fields", ())))
            for kind in (ours, theirs)
        )
        assert members == [member for member in theirs if member != "ONE_HOT"]
        return
    here, there = parameters_of(ours), parameters_of(theirs)
    for extra in ADDED.get(name, set()) - there.keys():
        del here[extra]
    assert list(here) == list(there)
    for (kind, default), (their_kind, their_default) in zip(
        here.values(), there.values(), strict=True
    ):
        assert kind == their_kind
        assert same_default(default, their_default)


def test_the_module_is_imported_both_ways() -> None:
    assert tenferro.lax is tnf.lax is lax
    assert len(set(lax.__all__)) == len(lax.__all__) > 120
