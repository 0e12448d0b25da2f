"""CHLO operations that MLIR expands by passes must also be read without these passes."""

from __future__ import annotations

import ml_dtypes
import mpmath
import numpy as np
import pytest
import scipy.special

import xla_peer
from lowering import import_stablehlo, importing
from tenferro import errors
from tenferro.types import DType

DTYPES = {"f16": "f2", "f32": "f4", "f64": "f8"}


@pytest.fixture(autouse=True)
def _without_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)


def function(name: str, kind: str, count: int, size: str = "7") -> str:
    tensor = f"tensor<{size}x{kind}>"
    takes = ", ".join(f"%a{n}: {tensor}" for n in range(count))
    given, types = ", ".join(f"%a{n}" for n in range(count)), ", ".join([tensor] * count)
    return f"func.func @main({takes}) -> {tensor} {{\n%0 = chlo.{name} {given} : {types} -> {tensor}\nreturn %0 : {tensor}\n}}"


@pytest.mark.parametrize("kind", DTYPES)
def test_formulas(kind: str) -> None:
    x = np.array([1.5, 2, 3, 4, 6, 1, 0.5]).astype(DTYPES[kind])
    q = np.array([1, 2.5, 0.5, 7, 3, 2, 1]).astype(DTYPES[kind])
    rtol = 8 * np.finfo(x.dtype).eps
    found = import_stablehlo(function("zeta", kind, 2)).run(x, q)
    wide = scipy.special.zeta(x.astype("f8"), q.astype("f8"))
    np.testing.assert_allclose(found.astype("f8"), wide, rtol)
    z = np.array([-30, -8, -1e-3, 0.5, 3, 8, 100]).astype(DTYPES[kind])
    found = import_stablehlo(function("bessel_i1e", kind, 1)).run(z)
    np.testing.assert_allclose(found.astype("f8"), scipy.special.i1e(z.astype("f8")), 2 * rtol)


def test_formulas_of_open_extents() -> None:
    z = np.linspace(-2, 2, 5)
    found = import_stablehlo(function("bessel_i1e", "f64", 1, "?")).run(z)
    np.testing.assert_allclose(found, scipy.special.i1e(z), 1e-14)


@pytest.mark.parametrize("kind", ["complex<f32>", "complex<f64>"])
def test_the_kernel_of_arcsine_and_arccosine(kind: str) -> None:
    """The kernel must satisfy its definition.

    With the kernel w of z, `asin z = atan2(Re z, Re w) + i sign(Im z) Im w`. A similar formula defines acos.
    """
    big = float(np.finfo("f4").max)
    parts = [0.0, 1e-30, 0.3, 1.0, 1.0000001, 2.5, 1e9, big]
    points = [complex(a * x, b * y) for x in parts for y in parts for a in (1, -1) for b in (1, -1)]
    z = np.array(points, "c8" if "32" in kind else "c16")
    w = import_stablehlo(function("_asin_acos_kernel", kind, 1, str(len(z)))).run(z)
    assert w.dtype == z.dtype
    imaginary = np.copysign(w.imag, z.imag)
    info = np.finfo(w.real.dtype)
    tolerance = {"rtol": 8 * info.eps, "atol": info.tiny}
    for real, sign, oracle in (
        (np.arctan2(z.real, w.real), 1, mpmath.asin),
        (np.arctan2(w.real, z.real), -1, mpmath.acos),
    ):
        wanted = [complex(oracle(mpmath.mpc(each))) for each in z.tolist()]
        np.testing.assert_allclose(real, np.real(wanted), **tolerance)
        # On the branch cuts, mpmath does not distinguish zeros of different signs, so the comparison skips them.
        off = (z.imag != 0) | (np.abs(z.real) <= 1)
        np.testing.assert_allclose((sign * imaginary)[off], np.imag(wanted)[off], **tolerance)


@pytest.mark.parametrize(
    ("name", "kind"), [("bessel_i1e", "complex<f32>"), ("bessel_i1e", "complex<f64>")]
)
def test_formulas_of_real_numbers_are_refused_for_complex_ones(name: str, kind: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=f"chlo.{name}: of complex"):
        import_stablehlo(function(name, kind, 1))


def ragged(lhs: str, rhs: str, sizes: str, result: str, **axes: list[int]) -> str:
    names = (
        "lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
        "rhs_contracting_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions",
    )  # fmt: skip
    numbers = ", ".join(f"{name} = {axes.get(name.removesuffix('_dimensions'), [])}" for name in names)  # fmt: skip
    types = [f"tensor<{x}>" for x in (lhs, rhs, sizes)]
    takes = ", ".join(f"%{name}: {kind}" for name, kind in zip("abg", types, strict=True))
    return f"""func.func @main({takes}) -> tensor<{result}> {{
  %0 = "chlo.ragged_dot"(%a, %b, %g) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>,
    precision_config = [#chlo<precision HIGHEST>, #chlo<precision HIGHEST>]}} : ({", ".join(types)}) -> tensor<{result}>
  return %0 : tensor<{result}>
}}"""


SIZES = np.array([3, 0, 4], "i4")
EDGES = [(0, 3), (3, 3), (3, 7)]
RNG = np.random.default_rng(0)


def test_groups_of_rows() -> None:
    """Rows beyond the last group must be zero.

    An infinity in the matrix of one group must not affect other groups.
    """
    a, b = RNG.normal(size=(2, 9, 4)), RNG.normal(size=(2, 4, 3, 5))
    b[0, 0, 1, 0] = np.inf
    text = ragged(
        "2x9x4xf64", "2x4x3x5xf64", "3xi32", "2x9x5xf64", lhs_batching=[0], rhs_batching=[0],
        lhs_contracting=[2], rhs_contracting=[1], lhs_ragged=[1], rhs_group=[2],
    )  # fmt: skip
    wanted = np.zeros((2, 9, 5))
    for n, (low, high) in enumerate(EDGES):
        wanted[:, low:high] = a[:, low:high] @ b[:, :, n]
    program = import_stablehlo(text)
    np.testing.assert_allclose(program.run(a, b, SIZES), wanted, 1e-13)
    assert xla_peer.check_parity(program, a, b, SIZES).ok


def test_groups_of_summands_and_of_batches() -> None:
    a, b = RNG.normal(size=(9, 4)), RNG.normal(size=(9, 5))
    b[8] = np.nan  # row 8 belongs to no group, so its NaN must not be read
    text = ragged(
        "9x4xf64", "9x5xf64", "3xi32", "3x4x5xf64",
        lhs_contracting=[0], rhs_contracting=[0], lhs_ragged=[0],
    )  # fmt: skip
    wanted = np.stack([a[low:high].T @ b[low:high] for low, high in EDGES])
    np.testing.assert_allclose(import_stablehlo(text).run(a, b, SIZES), wanted, 1e-13)
    text = ragged(
        "9x4xf64", "9x4xf64", "3xi32", "9xf64", lhs_batching=[0], rhs_batching=[0],
        lhs_contracting=[1], rhs_contracting=[1], lhs_ragged=[0],
    )  # fmt: skip
    found = import_stablehlo(text).run(a, a, SIZES)
    np.testing.assert_allclose(found, (a * a).sum(1), 1e-13)


PER_ROW = np.array([[3, 0, 4], [1, 5, 3]], "i4")


def parts(sizes: np.ndarray) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(low, high) for low, high in zip([0, *ends], ends, strict=False)]


def test_group_sizes_of_each_batch_and_of_outer_axes() -> None:
    """CHLO, "ragged_dot": group_sizes has the shape [b.., x.., g], where x are the axes before the ragged axis."""
    a, b = RNG.normal(size=(2, 9, 4)), RNG.normal(size=(2, 3, 4, 5))
    text = ragged(
        "2x9x4xf64", "2x3x4x5xf64", "2x3xi32", "2x9x5xf64", lhs_batching=[0], rhs_batching=[0],
        lhs_contracting=[2], rhs_contracting=[2], lhs_ragged=[1], rhs_group=[1],
    )  # fmt: skip
    wanted = np.zeros((2, 9, 5))
    for n in range(2):
        for g, rows in enumerate(parts(PER_ROW[n])):
            wanted[n, rows] = a[n, rows] @ b[n, g]
    np.testing.assert_allclose(import_stablehlo(text).run(a, b, PER_ROW), wanted, 1e-13)
    b = RNG.normal(size=(3, 4, 5))
    text = ragged(
        "2x9x4xf64", "3x4x5xf64", "2x3xi32", "2x9x5xf64",
        lhs_contracting=[2], rhs_contracting=[1], lhs_ragged=[1], rhs_group=[0],
    )  # fmt: skip
    for n in range(2):
        for g, rows in enumerate(parts(PER_ROW[n])):
            wanted[n, rows] = a[n, rows] @ b[g]
    np.testing.assert_allclose(import_stablehlo(text).run(a, b, PER_ROW), wanted, 1e-13)
    a, b = RNG.normal(size=(2, 9, 4)), RNG.normal(size=(9, 5, 2))
    text = ragged(
        "2x9x4xf64", "9x5x2xf64", "2x3xi32", "3x4x5xf64",
        lhs_contracting=[0, 1], rhs_contracting=[2, 0], lhs_ragged=[1],
    )  # fmt: skip
    wanted = np.zeros((3, 4, 5))
    for n in range(2):
        for g, rows in enumerate(parts(PER_ROW[n])):
            wanted[g] += a[n, rows].T @ b[rows, :, n]
    np.testing.assert_allclose(import_stablehlo(text).run(a, b, PER_ROW), wanted, 1e-13)


def test_an_axis_of_groups_that_is_contracted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ragged(
        "11x5xf32", "3x5x7xf32", "3xi64", "11x7xf32",
        lhs_contracting=[1], rhs_contracting=[1], lhs_ragged=[0], rhs_group=[0],
    )  # fmt: skip
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    import_stablehlo(text)
    with pytest.raises(errors.InvalidConfigError, match="axis 0 of groups is contracted"):
        import_stablehlo(
            text.replace("rhs_contracting_dimensions = [1]", "rhs_contracting_dimensions = [0]")
        )


@pytest.mark.parametrize("sizes", ["9x3x", "3x2x", ""])
def test_group_sizes_of_other_axes_are_refused(sizes: str) -> None:
    text = ragged(
        "2x9x4xf64", "2x9x4xf64", f"{sizes}i32", "2x9xf64", lhs_batching=[0, 1],
        rhs_batching=[0, 1], lhs_contracting=[2], rhs_contracting=[2], lhs_ragged=[1],
    )  # fmt: skip
    with pytest.raises(errors.InvalidConfigError, match=r"group sizes of .* for the axes \[0\]"):
        import_stablehlo(text)
    with pytest.raises(errors.InvalidConfigError, match="an axis below 0"):
        import_stablehlo(
            text.replace("lhs_ragged_dimensions = [1]", "lhs_ragged_dimensions = [-1]")
        )


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"lhs_ragged": [0, 1], "rhs_group": [0]}, "one axis of lhs is ragged"),
        ({"lhs_ragged": [], "rhs_group": [0]}, "one axis of lhs is ragged"),
        ({"lhs_ragged": [7], "rhs_group": [0]}, "one axis of lhs is ragged"),
        ({"lhs_ragged": [0]}, "a group dimension if this axis is one of rows"),
        ({"lhs_ragged": [1], "rhs_group": [0]}, "a group dimension if this axis is one of rows"),
        ({"lhs_ragged": [0], "rhs_group": [7]}, "no group dimension 7"),
    ],
)
def test_ragged_axes_that_are_not_one(axes: dict[str, list[int]], words: str) -> None:
    text = ragged(
        "11x5xf32", "3x5x7xf32", "3xi64", "11x7xf32", lhs_contracting=[1], rhs_contracting=[1], **axes
    )  # fmt: skip
    with pytest.raises(errors.InvalidConfigError, match=words):
        import_stablehlo(text)


@pytest.mark.parametrize("kind", DTYPES)
def test_polygamma_of_orders_that_are_arguments(kind: str) -> None:
    """psi_n(x) must equal (-1)^(n+1) n! zeta(n + 1, x), and must be NaN if n is not a natural number."""
    n = np.array([0, 1, 2, 3, 5, 1.5, -1]).astype(DTYPES[kind])
    x = np.array([3, 2, 3, 4, 6, 1, 0.5]).astype(DTYPES[kind])
    y = import_stablehlo(function("polygamma", kind, 2)).run(n, x).astype("f8")
    wide = scipy.special.polygamma(n[:5].astype(int), x[:5].astype("f8"))
    np.testing.assert_allclose(y[:5], wide, 32 * np.finfo(x.dtype).eps)
    assert np.isnan(y[5:]).all()


@pytest.mark.parametrize("kind", ["i4", "ui4", "i8", "ui8", "i32", "i64", "ui64"])
def test_upper_halves_of_products(kind: str) -> None:
    """The upper halves of products must equal those of Python's integers.

    All pairs up to 8 bits are tested, and the extremes of wider integers.
    """
    bits = int(kind.lstrip("ui"))
    dtype = DType.of(("uint" if kind[0] == "u" else "int") + str(bits)).dtype
    info = ml_dtypes.iinfo(dtype)
    if bits == 4:
        x, y = (
            z.ravel().astype(dtype)
            for z in np.mgrid[info.min : info.max + 1, info.min : info.max + 1]
        )
    elif bits == 8:
        x, y = (z.ravel() for z in np.indices((256, 256)).astype(np.uint8).view(dtype))
    else:
        ends = [info.min, info.min + 1, 0, 1, 3, 1 << bits // 2, info.max - 1, info.max]
        numbers = np.random.default_rng(4).integers(info.min, info.max, 40, dtype, endpoint=True)
        values = np.array([*ends, *numbers.tolist()], dtype)
        x, y = (z.ravel() for z in np.meshgrid(values, values))
    found = import_stablehlo(function("mulhi", kind, 2, str(x.size))).run(x, y)
    wanted = [(a * b) >> bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_array_equal(found, np.array(wanted, dtype), strict=True)
