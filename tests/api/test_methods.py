"""Methods of tensors must accept the arguments of NumPy's methods, and return the same.

For an unsupported argument they must raise an error that states the reason.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.api.operators import REFUSED

RT = tnf.EagerRuntime()
R = np.random.default_rng(2)
M, T = R.normal(size=(3, 4)), R.normal(size=(2, 1, 3))
K, MASK = R.integers(-9, 9, (3, 4)), R.random((3, 4)) > 0.5
C, S = M + 1j, np.sort(R.normal(size=5))

CALLS: dict[str, list[tuple[Any, tuple[Any, ...], dict[str, Any]]]] = {
    "all": [(MASK, (1,), {}), (MASK, (), {"keepdims": True, "where": MASK, "axis": 0})],
    "any": [(MASK, (1,), {}), (MASK, (), {"keepdims": True, "where": MASK, "axis": 0})],
    **{name: [(M, (), {}), (M, (1,), {"keepdims": True})] for name in ("argmax", "argmin")},
    "argsort": [(M, (), {}), (M, (0,), {}), (M, (), {"axis": None, "kind": "stable", "stable": None})],
    "astype": [(K, ("float32",), {}), (M, ("int64",), {"casting": "unsafe", "copy": False, "subok": True}), (K, (), {"dtype": bool})],
    "clip": [(M, (-0.5, 0.5), {}), (M, (), {"min": 0.0}), (M, (), {"max": 0.1})],
    "conj": [(C, (), {})], "conjugate": [(C, (), {}), (M, (), {})], "copy": [(M, (), {})],
    **{name: [(M, (), {}), (M, (1, "float32"), {}), (M, (), {"axis": 0, "dtype": "complex64"})] for name in ("cumprod", "cumsum")},
    "diagonal": [(M, (), {}), (T, (0, 1, 2), {}), (M, (), {"offset": 1, "axis1": 1, "axis2": 0})],
    "dot": [(M, (M.T,), {}), (M, (), {"b": M[0]})], "flatten": [(M, (), {}), (M, ("F",), {})],
    **{name: [(M, (), {}), (M, (1,), {"keepdims": True}), (M, (0,), {"initial": 0.2, "where": MASK})] for name in ("max", "min")},
    "mean": [(M, (), {}), (K, (1, "float32"), {}), (M, (), {"axis": 0, "keepdims": True})],
    "nonzero": [(K, (), {})], "prod": [(M, (1, "float32"), {}), (K, (), {"initial": 2, "where": MASK, "axis": 1, "keepdims": True})],
    "ravel": [(M, (), {}), (M, ("F",), {})], "repeat": [(M, (2,), {}), (M, (), {"repeats": 3, "axis": 1})],
    "reshape": [(M, (4, 3), {}), (M, ((2, -1),), {"order": "F"}), (M, (12,), {"copy": None})],
    "round": [(M, (), {}), (M, (2,), {}), (M, (), {"decimals": 1})],
    "searchsorted": [(S, (M,), {}), (S, (0.1, "right"), {}), (S, (), {"v": 0.1, "sorter": np.arange(5)})],
    "squeeze": [(T, (), {}), (T, (1,), {}), (T, (), {"axis": 1})],
    "std": [(M, (1,), {}), (M, (0, "float32", None, 1), {}), (M, (), {"ddof": 1, "keepdims": True})],
    "sum": [(M, (1, "float32"), {}), (K, (), {"initial": 2, "where": MASK, "axis": 1, "keepdims": True})],
    "swapaxes": [(T, (0, 2), {})], "take": [(M, ([0, 2],), {}), (M, ([9], 1, None, "clip"), {})],
    "trace": [(M, (), {}), (M, (1, 1, 0), {"dtype": "float32"})], "transpose": [(T, (), {}), (T, (2, 0, 1), {}), (T, ((1, 0, 2),), {}), (T, (None,), {})],
    "var": [(M, (1,), {}), (M, (0, "float32", None, 1), {}), (M, (), {"ddof": 1, "keepdims": True})],
    "view": [(M, ("int64",), {}), (K, ("int32",), {}), (K, ("uint8",), {}), (K.astype("i4"), ("int64",), {}), (M, (), {})],
}  # fmt: skip
ATTRIBUTES = ("T", "device", "dtype", "imag", "itemsize", "mT", "nbytes", "ndim", "real", "shape", "size")  # fmt: skip
OTHERS = {"item", "sort", "tolist", "to_device"}
"""Methods that have separate tests, below or among the tests of the Array API."""


def assert_as_numpy(result: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple) and isinstance(result, tuple):
        assert len(result) == len(wanted)
        for y, z in zip(result, wanted, strict=True):
            assert_as_numpy(y, z)
        return
    if hasattr(wanted, "dtype"):
        assert result.dtype == wanted.dtype
        narrow = 1e-6 if wanted.dtype in ("f4", "c8") else 1e-12
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=narrow, atol=narrow)
        return
    assert result == wanted


def test_every_attribute_of_arrays_is_there_or_refused() -> None:
    for name in dir(np.ndarray):
        if name.startswith("_"):
            continue
        known = name in CALLS or name in ATTRIBUTES or name in OTHERS
        assert known != (name in REFUSED), name
        for kind in (tnf.TracedTensor, tnf.EagerTensor):
            assert hasattr(kind, name) == known, name


@pytest.mark.parametrize("name", CALLS)
def test_a_method_is_numpys(name: str) -> None:
    for x, args, kwargs in CALLS[name]:
        wanted = getattr(x, name)(*args, **kwargs)
        assert_as_numpy(getattr(RT.constant(x), name)(*args, **kwargs), wanted)
        # The first call made a plan for calls with these arguments. The second call uses the plan, and must return
        # the same.
        assert_as_numpy(getattr(RT.constant(x), name)(*args, **kwargs), wanted)

        def traced(x: Any, args: tuple[Any, ...] = args, kwargs: dict[str, Any] = kwargs) -> Any:
            return getattr(x, name)(*args, **kwargs)

        if name == "nonzero":
            with pytest.raises(errors.DataDependentShapeError):
                tnf.compile(traced, x)
        else:
            assert_as_numpy(tnf.compile(traced, x).run(x), wanted)


@pytest.mark.parametrize("name", [n for n in ATTRIBUTES if n not in ("device",)])
def test_an_attribute_is_numpys(name: str) -> None:
    x = C
    assert_as_numpy(getattr(RT.constant(x), name), getattr(x, name))
    known: list[Any] = []
    y = tnf.compile(lambda x: (known.append(getattr(x, name)), x)[1], x)
    if isinstance(known[0], tnf.TracedTensor):
        assert_as_numpy(tnf.compile(lambda x: getattr(x, name), x).run(x), getattr(x, name))
    else:
        assert_as_numpy(known[0], getattr(x, name))
    assert y is not None


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why(name: str) -> None:
    with pytest.raises(AttributeError, match=f"tensors have no {name}: "):
        getattr(RT.constant(M), name)
    with pytest.raises(AttributeError, match=f"tensors have no {name}: "):
        tnf.compile(lambda x: getattr(x, name), M)


def test_sort_gives_a_sorted_tensor() -> None:
    x = RT.constant(M)
    assert_as_numpy(x.sort(0), np.sort(M, 0))
    assert_as_numpy(x, M)
    assert_as_numpy(tnf.jit(lambda x: x.sort())(M), np.sort(M))


def test_elements_as_numbers() -> None:
    x = RT.constant(M)
    assert x.item(5) == M.item(5)
    assert x.item(1, 2) == M[1, 2]
    assert x.tolist() == M.tolist()
    for name in ("item", "tolist"):
        with pytest.raises(errors.ConcretizationError):
            tnf.compile(lambda x, name=name: getattr(x, name)(), M)


def test_both_kinds_of_tensors_have_the_same_methods() -> None:
    for name in CALLS:
        if name != "copy":
            assert getattr(tnf.TracedTensor, name) is getattr(tnf.EagerTensor, name)
    assert "axis" in inspect.signature(tnf.TracedTensor.sum).parameters


def test_methods_refuse_what_has_no_meaning() -> None:
    x = RT.constant(M)
    for call in (lambda: x.sum(out=M), lambda: x.copy("F"), lambda: x.astype("f4", order="F")):
        with pytest.raises(errors.UnsupportedError, match=r"the argument (out|order)="):
            call()
    with pytest.raises(errors.DTypeError, match="casting"):
        x.astype("int64", casting="safe")
    with pytest.raises(errors.ShapeError, match="view"):
        x[0, 0].view("int8")
    with pytest.raises(errors.ShapeError, match="view"):
        x[:, :3].view("complex128")


@pytest.mark.parametrize(
    "f",
    [
        lambda x: divmod(x, 2.5),
        lambda x: divmod(7, x),
        lambda x: divmod(x, x[::-1]),
        lambda x: divmod(np.array([5.0, -7.5, 2.0]), x),
    ],
)
def test_divmod_is_numpys(f: Any) -> None:
    for x in (np.array([1.5, -2.0, 3.0]), np.array([1, -2, 3])):
        wanted = f(x)
        for result in (f(RT.constant(x)), tnf.compile(f, x).run(x)):
            for y, z in zip(result, wanted, strict=True):
                assert_as_numpy(np.asarray(y), z)


def test_a_traced_tensor_is_its_own_copy() -> None:
    def f(x: Any) -> Any:
        assert copy.copy(x) is x
        return copy.deepcopy({"x": [x]})["x"][0] * 2

    x = np.arange(3.0)
    np.testing.assert_array_equal(tnf.jit(f)(x), 2 * x)
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.sum(f(x)))(x), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(tnf.scan(lambda c, y: (c, f(y)), 0.0, x)[1], 2 * x)
