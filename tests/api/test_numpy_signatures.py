"""Functions must accept NumPy's arguments under NumPy's names.

Arguments that are not supported must raise errors that name them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.api.numpy_functions import DIFFERENT, FUNCTIONS, UFUNCS

RT = tnf.EagerRuntime()
R = np.random.default_rng(1)
V, M = R.normal(size=4), R.normal(size=(3, 4))

NAMESPACES = {"": (np, tnf), "linalg.": (np.linalg, tnf.linalg), "fft.": (np.fft, tnf.fft)}
NOT_NUMPYS = {"load": "reads programs, not arrays", "save": "writes programs, not arrays"}
"""Names that belong to unrelated functions in NumPy and in tenferro. The values say what tenferro's functions do."""

CREATED: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "arange": [((3,), {}), ((1, 7, 2), {}), ((1,), {"stop": 7, "step": 2}), ((2.5,), {"dtype": "int32", "device": "cpu"})],
    "array": [(([1, 2],), {}), (([[1, 2]], "float32"), {}), ((3.0,), {"ndmin": 2, "copy": True}), ((V,), {"copy": None})],
    "asarray": [(([1, 2], float), {}), ((V,), {"dtype": "float32", "device": "cpu", "copy": True})],
    "broadcast_shapes": [(((2, 1), (3,)), {})],
    "eye": [((3,), {}), ((2, 3, 1), {}), ((2, 3, -1, "int32"), {}), ((2,), {"M": 4, "k": 2, "dtype": bool, "device": "cpu"})],
    "from_dlpack": [((V,), {"device": "cpu", "copy": True})],
    "full": [((3, 7), {}), (((2, 2), 7, "float32"), {}), ((2,), {"fill_value": 1.5, "dtype": int, "device": "cpu"})],
    "identity": [((3,), {}), ((2, "int32"), {})],
    "isscalar": [((1,), {}), ((V,), {}), (("a",), {}), ((np.float64(1),), {})],
    "tri": [((3,), {}), ((2, 3, 1), {}), ((2, 3, -1, "int32"), {}), ((2,), {"M": 4, "k": 1, "dtype": bool})],
    "fft.fftfreq": [((5,), {}), ((4, 0.5), {}), ((4,), {"d": 2.0, "device": "cpu"})],
    "fft.rfftfreq": [((5,), {}), ((4, 0.5), {}), ((4,), {"d": 2.0, "device": "cpu"})],
    **{name: [((3,), {}), (((2, 2), "int32"), {}), ((2,), {"dtype": bool, "device": "cpu"})] for name in ("ones", "zeros")},
    **{name: [((3,), {})] for name in ("bartlett", "blackman", "hamming", "hanning")}, "kaiser": [((3, 1.5), {})],
    "diag_indices": [((3,), {}), ((2, 3), {})], "indices": [(((2, 3),), {}), (((2,), "int32", True), {}), (((2,),), {"dtype": float, "sparse": False})],
    "fromfunction": [((np.add, (2, 3)), {}), ((np.negative, (2,)), {"dtype": "int32"})], "iterable": [((V,), {}), ((3.0,), {})],
    "mask_indices": [((3, np.triu), {}), ((3, np.triu, 1), {})], **{name: [((3,), {}), ((3, 1, 4), {})] for name in ("tril_indices", "triu_indices")},
    "issubdtype": [(("float32", np.floating), {}), (("int8", "int16"), {})], "frompyfunc": [], "promote_types": [],
    "fill_diagonal": [], "place": [], "put": [], "put_along_axis": [], "roots": [],
    "einsum_path": [], "empty": [], "isdtype": [],
}  # fmt: skip
"""Arguments of calls of functions that NumPy cannot dispatch to tensors.

These functions create arrays. If the list is empty, the results cannot be compared.
"""


def common() -> dict[str, tuple[Any, Any]]:
    """Return the functions that both NumPy and tenferro have, by name."""
    return {
        prefix + name: (getattr(theirs, name), getattr(ours, name))
        for prefix, (theirs, ours) in NAMESPACES.items()
        for name in ours.__all__
        if callable(getattr(theirs, name, None))
        and callable(getattr(ours, name))
        and not isinstance(getattr(theirs, name), type)
    }


def test_every_common_function_is_in_a_table() -> None:
    unknown = {
        name
        for name, (function, own) in common().items()
        if inspect.unwrap(DIFFERENT.get(function, own))
        is not inspect.unwrap(FUNCTIONS.get(function, UFUNCS.get(function)))
    }
    assert unknown == set(CREATED) - {
        "einsum_path",
        "fill_diagonal",
        "place",
        "put",
        "put_along_axis",
        "roots",
    } | set(NOT_NUMPYS)


@pytest.mark.parametrize("name", CREATED)
def test_creation_takes_numpys_arguments(name: str) -> None:
    function, own = common()[name]
    named = {"kwargs", "like", "order", "subok", "ndmax"}
    for args, kwargs in CREATED[name]:
        result, wanted = own(*args, **kwargs), function(*args, **kwargs)
        assert getattr(result, "dtype", None) == getattr(wanted, "dtype", None)
        np.testing.assert_array_equal(result, wanted)
        named |= set(inspect.signature(function).bind(*args, **kwargs).arguments)
    if CREATED[name]:
        assert set(inspect.signature(function).parameters) <= named


def test_empty_takes_numpys_arguments() -> None:
    for args, kwargs in (((3,), {}), (((2, 2), "int32"), {}), ((2,), {"dtype": bool})):
        result, wanted = tnf.empty(*args, **kwargs), np.empty(*args, **kwargs)
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *[(name, (2,)) for name in ("arange", "empty", "eye", "identity", "ones", "tri", "zeros")],
        *[(name, ([1.0, 2.0],)) for name in ("array", "asarray")],
        ("from_dlpack", (V,)), ("full", ((2,), 1.0)), ("geomspace", (1.0, 2.0)), ("geomspace", (1.0, 2.0, 1)),
        ("linspace", (1.0, 2.0)), ("logspace", (1.0, 2.0)),
    ],
)  # fmt: skip
def test_a_namespace_creates_tensors_of_its_runtime(name: str, args: tuple[Any, ...]) -> None:
    result = getattr(RT.namespace, name)(*args)
    assert isinstance(result, tnf.EagerTensor)
    assert result.runtime is RT
    np.testing.assert_array_equal(result, getattr(tnf, name)(*args))


# ---- arguments without a meaning -----------------------------------------------------------------

OUT = [name for name, (f, _) in common().items() if f in FUNCTIONS and "out" in inspect.signature(f).parameters]  # fmt: skip
FIRST: dict[str, tuple[Any, ...]] = {
    "clip": (M, 0, 1), "take": (M, [0]), "dot": (M, V), "outer": (V, V), "einsum": ("i->", V), "quantile": (M, 0.5),
    "percentile": (M, 50), "concat": ([V],), "concatenate": ([V],), "stack": ([V],), "linalg.multi_dot": ([M, V],),
    "choose": ([0], [M[0]]), "compress": ([True], M), "nanquantile": (M, 0.5), "nanpercentile": (M, 50), "cumulative_sum": (V,), "cumulative_prod": (V,), "fft.fft": (V,),
}  # fmt: skip


@pytest.mark.parametrize("name", OUT)
def test_out_is_refused_with_what_to_write(name: str) -> None:
    own = common()[name][1]
    message = r"the argument out= has no meaning for tensors \(.*assign the result\)"
    for lift in (lambda x: x, RT.constant):
        first, *rest = FIRST.get(name, (M,))
        if isinstance(first, np.ndarray):
            first = lift(first)
        with pytest.raises(errors.UnsupportedError, match=message):
            own(first, *rest, out=np.zeros(1))


@pytest.mark.parametrize("name", sorted(n for n, (f, _) in common().items() if f in UFUNCS))
def test_options_of_ufuncs_are_refused_by_name(name: str) -> None:
    ufunc, own = common()[name]
    operands = (np.ones((2, 2)),) * ufunc.nin
    for option, value in (("out", np.zeros(2)), ("where", np.array([True])), ("dtype", "f4"), ("casting", "no")):  # fmt: skip
        with pytest.raises(errors.UnsupportedError, match=f"the argument {option}="):
            own(*operands, **{option: value})
    with pytest.raises(TypeError, match="axles"):
        own(*operands, axles=1)


def test_shapes_and_lists_of_tensors() -> None:
    def of_list(x: Any) -> Any:
        return (
            tnf.sum([x[0], x[1]]) + tnf.mean((x[0], 2.0)) + tnf.std([x[1], x[2]])
            + tnf.linalg.norm([x[0], x[3]]) + tnf.dot([x[0], 1.0], [x[1], x[2]]) + tnf.max([x[0], x[1]], 0)
        )  # fmt: skip

    wanted = (
        np.sum(V[:2]) + np.mean([V[0], 2.0]) + np.std(V[1:3]) + np.linalg.norm([V[0], V[3]])
        + np.dot([V[0], 1.0], V[1:3]) + np.max(V[:2])
    )  # fmt: skip
    for result in (of_list(V), tnf.jit(of_list)(V), of_list(RT.variable(V)).numpy()):
        np.testing.assert_allclose(result, wanted, rtol=1e-12)


def test_a_condition_alone_gives_places() -> None:
    np.testing.assert_array_equal(tnf.where(M > 0), np.where(M > 0))
    np.testing.assert_array_equal(tnf.where(RT.constant(V))[0], [0, 1, 2, 3])
    with pytest.raises(errors.DataDependentShapeError, match="where"):
        tnf.compile(lambda x: tnf.where(x > 0), V)
    with pytest.raises(errors.InvalidConfigError, match="both x and y, or neither"):
        tnf.where(M > 0, 1.0)


# ---- errors of NumPy ------------------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "two bounds": (lambda: tnf.clip(V, 0, min=1), ValueError, "one bound"),
    "two corrections": (lambda: tnf.var(V, ddof=1, correction=2), ValueError, "one option"),
    "where without initial": (lambda: tnf.max(V, where=[True]), ValueError, "initial="),
    "another mode": (lambda: tnf.pad(V, 1, "round"), ValueError, '"edge"'),
    "an option of another mode": (lambda: tnf.pad(V, 1, "edge", constant_values=1), ValueError, "takes no constant_values="),
    "a negative width": (lambda: tnf.pad(V, -1), ValueError, "none is negative"),
    "a broken width": (lambda: tnf.pad(V, 0.5), ValueError, "integers"),
    "widths of three": (lambda: tnf.pad(M, ((1, 2, 3),)), ValueError, "two numbers"),
    "an empty edge": (lambda: tnf.pad(np.ones(0), 1, "edge"), ValueError, "no element"),
    "an unsafe dtype": (lambda: tnf.einsum("i->i", V, dtype="f4"), TypeError, "casting"),
    "a rule unknown": (lambda: tnf.concat([V], dtype="f4", casting="never"), ValueError, "casting must be"),
    "another method": (lambda: tnf.quantile(V, 0.5, method="middle"), ValueError, '"linear"'),
    "a fraction of two": (lambda: tnf.quantile(V, 2.0), ValueError, "from 0 to 1"),
    "no elements": (lambda: tnf.median(np.ones((2, 0)), 1), ValueError, "no elements"),
    "complex order": (lambda: tnf.median(V + 1j), TypeError, "no order"),
    "weights that do not fit": (lambda: tnf.average(M, 1, [1.0, 2.0]), ValueError, "weights"),
    "negative counts": (lambda: tnf.bincount([-1]), IndexError, "-1"),
    "counts of floats": (lambda: tnf.bincount([0.5]), TypeError, "integers"),
    "bins in disorder": (lambda: tnf.digitize(V, [0.0, 2.0, 1.0]), ValueError, "ascending"),
    "too few samples": (lambda: tnf.gradient([1.0]), ValueError, "samples"),
    "another edge": (lambda: tnf.gradient(V, edge_order=3), ValueError, "1 or 2"),
    "spacings": (lambda: tnf.gradient(M, 1.0, 2.0, 3.0), ValueError, "spacings"),
    "no points": (lambda: tnf.interp(V, [0.0, 1.0], [0.0]), ValueError, "points"),
    "a period of zero": (lambda: tnf.interp(V, [0.0, 1.0], [0.0, 1.0], period=0), ValueError, "zero"),
    "a matrix of coefficients": (lambda: tnf.polyval(M, 1.0), ValueError, "vector"),
    "a matrix convolved": (lambda: tnf.convolve(M, V), ValueError, "vectors"),
    "another overlap": (lambda: tnf.convolve(V, V, "half"), ValueError, '"same"'),
    "a geometric zero": (lambda: tnf.geomspace(0.0, 1.0), ValueError, "zero"),
    "no section": (lambda: tnf.array_split(V, 0), ValueError, "section"),
    "a vector cut in rows": (lambda: tnf.vsplit(V, 2), ValueError, "2 axes"),
    "one axis turned": (lambda: tnf.rot90(M, 1, (0, 0)), ValueError, "must differ"),
    "a cube on a diagonal": (lambda: tnf.diag(np.ones((1, 1, 1))), ValueError, "vector or a matrix"),
    "choices": (lambda: tnf.select([V > 0], [V, V]), ValueError, "conditions"),
    "conditions of numbers": (lambda: tnf.select([V], [V]), TypeError, "bool"),
    "broken exponents": (lambda: tnf.ldexp(V, V), TypeError, "integers"),
    "complex fabs": (lambda: tnf.fabs(1j), TypeError, "real"),
    "dots that do not fit": (lambda: tnf.dot(M, M), ValueError, "contract"),
    "another triangle": (lambda: tnf.linalg.eigh(np.eye(2), "X"), ValueError, "UPLO"),
    "two cutoffs": (lambda: tnf.linalg.pinv(M, 0.1, rtol=0.1), ValueError, "one option"),
    "two ranks": (lambda: tnf.linalg.matrix_rank(M, 0.1, rtol=0.1), ValueError, "give one"),
    "a mode to take by": (lambda: tnf.take(V, [0], mode="near"), ValueError, '"wrap"'),
    "a kind of sort": (lambda: tnf.sort(V, kind="bubble"), ValueError, "heapsort"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_told(name: str) -> None:
    call, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, errors.TenferroError)
