"""Reading and writing by index must equal NumPy on arrays, in traces and on eager tensors, and have right gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import XlaExecutor

RT = tnf.EagerRuntime()
XLA = XlaExecutor()
X = np.arange(60.0).reshape(3, 4, 5)
MASK = X[:, :, 0] % 15 == 5
ROWS, COLUMNS = np.array([2, 0, -1]), np.array([[1], [3]])

STATIC: dict[str, Any] = {
    "number": 1,
    "numbers": (0, -1, 2),
    "slice": slice(1, None),
    "slices": (slice(None), slice(1, 3), slice(0, 4)),
    "steps": (slice(None, None, 2), slice(3, None, -1), slice(4, 0, -2)),
    "number and slice": (slice(1, 3), 2),
    "new axes": (None, 1, None, slice(2)),
    "dots": (..., 2),
    "everything": ...,
    "nothing": (),
    "empty slice": slice(2, 2),
    "rows": ROWS,
    "rows of an axis": (slice(None), ROWS),
    "two arrays": (ROWS, np.array([1, 1, 3])),
    "broadcast arrays": (ROWS, COLUMNS),
    "arrays apart": (ROWS, slice(1, 4), np.array([0, 4, 2])),
    "arrays, dots for no axis": (slice(None), ROWS, ..., np.array([0, 4, 2])),
    "array, dots for no axis, new axis": (slice(None), ROWS, ..., None, 1),
    "array and number": (ROWS, 1),
    "array and number apart": (1, slice(None, None, 2), ROWS),
    "array and step": (slice(None, None, -1), ROWS, slice(1, 5, 2)),
    "array, new axis": (ROWS, None, slice(0, 2)),
    "empty array": np.zeros(0, int),
    "list": [0, 2],
}
MASKS: dict[str, Any] = {
    "mask": X > 20,
    "mask of two axes": MASK,
    "mask of extent 0": np.zeros(0, bool),
    "mask of extents 3 and 0": np.zeros((3, 0), bool),
    "mask and slice": (MASK, slice(1, 3)),
    "slice and mask": (slice(0, 2), np.array([True, False, False, True])),
    "dots and mask": (..., np.array([True, False, True, False, True])),
    "mask, dots for no axis, mask": (MASK, ..., np.array([True, True, False, True, True])),
    "mask and array": (np.array([True, False, True]), np.array([1, 3])),
    "none": np.zeros((3, 4, 5), bool),
    "dots for no axis, mask, new axis": (..., X > 20, None),
    "list of bools": [True, False, True],
}
EVERY = {**STATIC, **MASKS}


def count(y: Any) -> Any:
    """Return an array in the shape of y whose elements all differ, so that a test finds exchanged elements."""
    return 100.0 + np.arange(y.size).reshape(y.shape)


@pytest.mark.parametrize("name", EVERY)
def test_reading(name: str) -> None:
    index, wanted = EVERY[name], X[EVERY[name]]
    for y in (
        RT.constant(X)[index],
        tnf.compile(lambda x: x[index], X).run(X),
        XLA.run(tnf.compile(lambda x: x[index], X), X),
    ):
        assert y.shape == wanted.shape
        np.testing.assert_array_equal(np.asarray(y), wanted)


@pytest.mark.parametrize("name", ["mask", "mask of two axes", "slice and mask"])
def test_masks_that_are_tensors(name: str) -> None:
    index = EVERY[name] if isinstance(EVERY[name], tuple) else (EVERY[name],)
    tensors = tuple(RT.constant(e) if isinstance(e, np.ndarray) else e for e in index)
    np.testing.assert_array_equal(RT.constant(X)[tensors], X[index])
    with pytest.raises(errors.DataDependentShapeError, match="mask"):
        tnf.compile(lambda x: x[x > 1], X)


@pytest.mark.parametrize("mask", [True, False])
def test_rank_0_masks(mask: bool) -> None:
    x = RT.constant(X)
    indices: list[Any] = [
        mask,
        np.bool_(mask),
        (mask, 1),
        (..., mask),
        (slice(2), mask, [3]),
        (..., mask, 2),
    ]
    for index in indices:
        wanted = X[index]
        assert x[index].shape == wanted.shape
        np.testing.assert_array_equal(x[index], wanted)
        changed = X.copy()
        changed[index] = 7.0
        np.testing.assert_array_equal(x.at[index].set(7.0), changed)
    tensor = tnf.sum(x) > (0 if mask else 1e9)
    assert x[tensor].shape == X[mask].shape


def test_masks_that_do_not_fit() -> None:
    indices: list[Any] = [
        np.array([True, False]),
        # This mask is as long as the first axis of X, but applies to the last axis.
        (..., np.array([True, False, True])),
        (..., MASK),
        (0, ..., None, np.array([True, False])),
    ]
    for index in indices:
        with pytest.raises(errors.OutOfBoundsError, match="mask"):
            RT.constant(X)[index]


UPDATES = {
    "set": lambda x, i, v: x.__setitem__(i, v),
    "add": lambda x, i, v: np.add.at(x, i, v),
    "subtract": lambda x, i, v: np.subtract.at(x, i, v),
    "multiply": lambda x, i, v: np.multiply.at(x, i, v),
    "min": lambda x, i, v: np.minimum.at(x, i, v),
    "max": lambda x, i, v: np.maximum.at(x, i, v),
}


@pytest.mark.parametrize("kind", UPDATES)
@pytest.mark.parametrize("name", EVERY)
def test_writing(name: str, kind: str) -> None:
    index = EVERY[name]
    values = count(X[index]) - 110
    wanted = X.copy()
    UPDATES[kind](wanted, index, values)

    def updated(x: Any, v: Any) -> Any:
        return getattr(x.at[index], kind)(v)

    program = tnf.compile(updated, X, values)
    for y in (
        updated(RT.constant(X), RT.constant(values)),
        program.run(X, values),
        XLA.run(program, X, values),
    ):
        np.testing.assert_array_equal(np.asarray(y), wanted)


def test_values_broadcast_and_numbers_are_weak() -> None:
    for dtype in ("u1", "f4"):
        less = tnf.at(np.ones(2, dtype))[0].subtract(1)
        np.testing.assert_array_equal(less, np.array([0, 1], dtype), strict=True)
    x = RT.constant(X.astype("float32"))
    assert x.at[1].set(2).dtype == np.float32
    np.testing.assert_array_equal(x.at[:, 1].set(np.arange(5, dtype="f4"))[2, 1], np.arange(5))
    np.testing.assert_array_equal(x.at[0, 0, 0].divide(4.0).at[0, 0, 1].power(2)[0, 0, :2], [0, 1])
    assert float(x.at[2, 3, 4].get()) == 59
    with pytest.raises(errors.DTypeError, match="astype"):
        x.at[0].set(X[0])
    with pytest.raises(errors.ShapeError):
        x.at[0].set(np.zeros((2, 2), "f4"))
    with pytest.raises(errors.OutOfBoundsError):
        x.at[5].set(0.0)


@pytest.mark.parametrize("name", ["slices", "steps", "two arrays", "arrays apart", "new axes"])
@pytest.mark.parametrize("kind", ["set", "add", "multiply", "min", "max"])
def test_gradients_of_writing(name: str, kind: str) -> None:
    index = EVERY[name]
    values = np.random.default_rng(0).uniform(1, 60, X[index].shape)
    x = X + 0.5
    tnf.check_grads(lambda x, v: getattr(x.at[index], kind)(v), (x, values), order=1)
    a, v = RT.variable(x), RT.variable(values)
    tnf.sum(getattr(a.at[index], kind)(v) ** 2).backward()
    wanted = tnf.grad(lambda x, v: tnf.sum(getattr(x.at[index], kind)(v) ** 2), argnums=(0, 1))(
        x, values
    )
    for found, bar in zip((a.grad, v.grad), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), bar)


def test_gradients_through_masks() -> None:
    x = RT.variable(X)
    tnf.sum(x[X > 30] ** 2).backward()
    np.testing.assert_array_equal(np.asarray(x.grad), np.where(X > 30, 2 * X, 0))


def test_traced_indices_count_from_the_end_and_are_dropped_outside() -> None:
    program = tnf.compile(lambda x, i: x.at[i].set(0.0), np.ones(4), np.zeros(3, int))
    for peer in (tnf.GraphExecutor(), XLA):
        np.testing.assert_array_equal(
            peer.run(program, np.ones(4), np.array([-1, 1, 9])), [1, 0, 1, 0]
        )


def test_slices_from_a_symbolic_extent() -> None:
    specs = [tnf.TensorSpec((name,), "float64") for name in ("n", "m")]
    program = tnf.compile(lambda x, y: x[y.shape[0] :], *specs)
    np.testing.assert_array_equal(program.run(np.arange(5.0), np.ones(2)), [2.0, 3.0, 4.0])
    with pytest.raises(tnf.errors.GuardError, match="n >= m"):
        program.run(np.arange(5.0), np.ones(7))


@pytest.mark.parametrize(
    "bounds", [slice(-2, None), slice(-3, -1), slice(2, None), slice(None, -2)]
)
def test_slices_of_short_axes_are_refused_by_a_guard(bounds: slice) -> None:
    program = tnf.compile(lambda x: x[bounds], tnf.TensorSpec(("n", "m"), "f8"))
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(program.run(x), x[bounds])
    with pytest.raises(errors.GuardError, match=r"(?s)Slice: bounds of axis 0.*test_indexing\.py"):
        program.run(x[:1])


def test_updates_of_symbolic_extents() -> None:
    program = tnf.compile(lambda x: x.at[1:, ::2].add(1.0), tnf.TensorSpec(("n", 4), "float64"))
    wanted = np.zeros((3, 4))
    wanted[1:, ::2] += 1
    np.testing.assert_array_equal(program.run(np.zeros((3, 4))), wanted)


def test_updates_of_arrays() -> None:
    x = np.arange(3.0)
    np.testing.assert_array_equal(tnf.at(x)[1:].add(1.0), [0.0, 2.0, 3.0])
    np.testing.assert_array_equal(x, np.arange(3.0))
    program = tnf.compile(lambda y: tnf.at(tnf.zeros(3))[1].set(y), 1.0)
    np.testing.assert_array_equal(program.run(5.0), [0.0, 5.0, 0.0])
    np.testing.assert_array_equal(tnf.grad(lambda y: program.run(y)[1])(2.0), 1.0)
    np.testing.assert_array_equal(np.asarray(tnf.at(RT.constant(x))[0].max(7.0)), [7.0, 1.0, 2.0])
    with pytest.raises(errors.DTypeError, match="not a tensor"):
        tnf.at("text")


@pytest.mark.parametrize("transform", [tnf.jit, tnf.grad, lambda f: lambda x: tnf.compile(f, x)])
def test_an_array_without_at_says_what_to_write(transform: Any) -> None:
    with pytest.raises(AttributeError, match="'at'") as caught:
        transform(lambda x: tnf.zeros(3).at[0].set(x))(1.0)
    assert any("tenferro.at(x)[index]" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("table", [np.arange(3.0), [0.0, 1.0, 2.0]], ids=["array", "list"])
@pytest.mark.parametrize("index", [1, np.array([1, 2])], ids=["number", "array"])
def test_tables_indexed_by_a_tensor_say_what_to_write(table: Any, index: Any) -> None:
    with pytest.raises(errors.ConcretizationError, match=r"tenferro\.take\(.*, i, axis=0\)"):
        tnf.jit(lambda i: table[i])(index)
    expected = np.asarray(table)[index]
    np.testing.assert_array_equal(tnf.jit(lambda i: tnf.take(table, i, axis=0))(index), expected)


# ---- edge cases of indices -----------------------------------------------------------------------


def test_repeats_by_place() -> None:
    counts = np.array([2, 0, 1, 3])
    for x in (X, RT.constant(X)):
        np.testing.assert_array_equal(tnf.repeat(x, counts, axis=1), np.repeat(X, counts, axis=1))
        np.testing.assert_array_equal(tnf.repeat(x, [3], axis=0), np.repeat(X, 3, axis=0))
    with pytest.raises(errors.ShapeError):
        tnf.repeat(X, np.array([1, 2]), axis=1)
    with pytest.raises(errors.InvalidConfigError):
        tnf.repeat(X, np.array([1, -2, 0]), axis=0)
    with pytest.raises(errors.DataDependentShapeError):
        tnf.compile(lambda n: tnf.repeat(X, n, axis=1), counts)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searching_long_vectors(dtype: str, side: str) -> None:
    rng = np.random.default_rng(0)
    vector = np.sort((rng.normal(size=300) * 50).astype(dtype))
    values = np.concatenate([vector[::7], (rng.normal(size=40) * 60).astype(dtype)])
    if vector.dtype.kind == "f":
        vector[-3:] = np.nan
        values = np.concatenate([values, np.array([np.nan, np.inf, -np.inf], dtype)])
    wanted = np.searchsorted(vector, values, side=side)
    program = tnf.compile(lambda v, x: tnf.searchsorted(v, x, side=side), vector, values)
    for y in (tnf.searchsorted(vector, values, side=side), XLA.run(program, vector, values)):
        np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(tnf.isin(values, vector), np.isin(values, vector))
    np.testing.assert_array_equal(tnf.isin(values, vector[:9]), np.isin(values, vector[:9]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_next_number(dtype: str) -> None:
    kind = tnf.DType.of(dtype).dtype
    limits = tnf.finfo(dtype)
    tiny = limits.smallest_normal * limits.eps
    with np.errstate(all="ignore"):
        x = np.array(
            [0, -0.0, tiny, -tiny, 1, -1, 2, limits.max, limits.min, np.inf, -np.inf, np.nan]
        )
        x = x.astype(kind)
        y = x[:, None]
        bits = np.dtype(f"i{kind.itemsize}")
        wanted = np.nextafter(x, y)
    program = tnf.compile(tnf.nextafter, x, y)
    for found in (tnf.nextafter(x, y), XLA.run(program, x, y)):
        # If both arguments are zeros of float16, NumPy returns the first argument. For other dtypes, NumPy and
        # tenferro return the second one.
        alike = np.isnan(wanted) if dtype != "float16" else np.isnan(wanted) | (x == 0) & (y == 0)
        is_same = (found.view(bits) == wanted.view(bits)) | alike
        assert (np.isnan(found) == np.isnan(wanted)).all()
        assert is_same.all()


def test_clipped_positions_of_every_integer_type() -> None:
    """The mode "clip" must be right for indices of every integer dtype.

    The largest uint64 indices exceed the range of int64.
    """
    x = np.arange(300.0)
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        indices = np.array([np.iinfo(dtype).max, 3, np.iinfo(dtype).min], dtype)
        expected = x[np.clip(indices.astype(object), 0, 299).astype(np.int64)]
        assert tnf.take(x, indices, mode="clip").tolist() == expected.tolist()
        program = tnf.compile(lambda x, i: tnf.take(x, i, mode="clip"), x, indices)
        assert program.run(x, indices).tolist() == expected.tolist()
        indices = indices if dtype == "u8" else indices[:2]
        wrapped = x[(indices.astype(object) % 300).astype(np.int64)]
        assert tnf.take(x, indices, mode="wrap").tolist() == wrapped.tolist()
        program = tnf.compile(
            lambda x, i: tnf.take(x, i, mode="wrap"), tnf.TensorSpec(("n",), "f8"), indices
        )
        assert program.run(x, indices).tolist() == wrapped.tolist()


def test_traced_positions_beyond_every_signed_integer() -> None:
    """An index of 2^63 or more must be clamped to the last element.

    Converted to int64, it would be negative and count from the end.
    """
    x = np.arange(12.0).reshape(3, 4)
    far = np.array([2**63, 2**64 - 1, 2], "u8")
    for peer in (tnf.GraphExecutor(), XLA):

        def run(function: Any, *args: Any, peer: Any = peer) -> Any:
            return np.asarray(peer.run(tnf.compile(function, *args), *args))

        np.testing.assert_array_equal(run(lambda x, i: x[i], x, far), x[[2, 2, 2]])
        np.testing.assert_array_equal(
            run(lambda x, i: tnf.take_along_axis(x, i, 1), x, far[:, None]),
            x[[0, 1, 2], [3, 3, 2]][:, None],
        )
        y = run(lambda x, i: x.at[i].set(0.0), x, far)
        np.testing.assert_array_equal(y, x * [[1], [1], [0]])
        for i in far[:2]:
            last = run(lambda x, i: tnf.lax.dynamic_slice(x, (i, 0), (1, 4)), x, i)
            np.testing.assert_array_equal(last, x[2:])
            last = run(lambda x, i: tnf.lax.dynamic_update_slice(x, x[:1], (i, 0)), x, i)
            np.testing.assert_array_equal(last, x[[0, 1, 0]])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u8"])
def test_counts_of_every_integer_type(dtype: str) -> None:
    x = np.array([3, 120, 3], dtype)
    for options in ({}, {"minlength": 300}):
        np.testing.assert_array_equal(
            tnf.bincount(x, **options), np.bincount(x.astype("i8"), **options)
        )
    counts = np.bincount(x.astype("i8"), minlength=300)
    np.testing.assert_array_equal(tnf.bincount(x, length=300), counts)
    np.testing.assert_array_equal(tnf.jit(lambda x: tnf.bincount(x, length=300))(x), counts)
    assert tnf.bincount(x[:0]).shape == (0,)
    far = np.array([2, np.iinfo(dtype).max], dtype)
    np.testing.assert_array_equal(tnf.jit(lambda x: tnf.bincount(x, length=3))(far), [0, 0, 1])
