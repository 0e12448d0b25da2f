"""Linear algebra on every platform.

Plain StableHLO must have small residuals, and library calls must equal JAX's.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro import errors
from tenferro.ext.linalg import families as fam
from tenferro.extension import apply
from tests.levels import LEVELS
from tests.samples.matrices import adjoint
from xla_peer import XlaExecutor

jax = pytest.importorskip("jax")
ll = jax.lax.linalg

INLINE = XlaExecutor("cpu", linalg="inline")
DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(4, 4), (6, 4), (4, 7), (2, 3, 5, 3), (1, 1), (1, 4), (37, 36), (40, 3), (0, 3), (3, 0)]

SQUARE = [(4, 4), (2, 3, 5, 5), (1, 1), (2, 2), (37, 37), (0, 0)]


@pytest.fixture(scope="module", params=LEVELS, autouse=True)
def level(request: pytest.FixtureRequest) -> None:
    """Set the executor that the tests of this file use, once for each optimisation level."""
    global INLINE
    INLINE = XlaExecutor("cpu", linalg="inline", optimization_level=request.param)


def combined(shapes: list[Any]) -> list[Any]:
    """Return pairs of a shape and a dtype, so that each shape has one dtype.

    In the sweep, each shape has every dtype.
    """
    return [
        pytest.param(
            shape,
            dtype,
            marks=[pytest.mark.sweep] if (place + step) % 4 else [],
            id=f"{shape}-{dtype}",
        )
        for place, shape in enumerate(shapes)
        for step, dtype in enumerate(DTYPES)
    ]


COMBINATIONS = combined(SHAPES)


def random(dtype: str, *shape: int) -> Any:
    generator = np.random.default_rng(list(shape))
    x = generator.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * generator.normal(size=shape)
    return x.astype(dtype)


def program(op: Any, *arrays: Any) -> tnf.GraphProgram:
    return tnf.compile(lambda *xs: apply(op, *xs), *arrays)


def inline(op: Any, *arrays: Any) -> Any:
    made = program(op, *arrays)
    assert "custom_call" not in lower_to_stablehlo(made, linalg="inline").text
    return INLINE.run(made, *arrays)


def small(error: Any, like: Any, factor: float = 60) -> None:
    epsilon = np.finfo(like.dtype).eps
    extent = max(like.shape[-2:])
    assert np.max(np.abs(error), initial=0) <= factor * epsilon * max(extent, 4)


def unitary(q: Any) -> None:
    small(adjoint(q) @ q - np.eye(q.shape[-1]), q)


@pytest.mark.parametrize(("shape", "dtype"), COMBINATIONS)
def test_inline_qr(shape: Any, dtype: str) -> None:
    a = random(dtype, *shape)
    for full in (False, True):
        q, r = inline(fam.Qr(full), a)
        unitary(q)
        small(q @ r - a, a)
        assert not np.tril(r, -1).any()


@pytest.mark.parametrize(("shape", "dtype"), COMBINATIONS)
def test_inline_svd(shape: Any, dtype: str) -> None:
    a = random(dtype, *shape)
    k = min(shape[-2:])
    for full in (False, True):
        u, s, vh = inline(fam.Svd(full), a)
        unitary(u)
        unitary(adjoint(vh))
        small(u[..., :k] * s[..., None, :] @ vh[..., :k, :] - a, a)
        assert (np.diff(s) <= 0).all()
        small(s - np.linalg.svd(a, compute_uv=False), a)


@pytest.mark.parametrize(("shape", "dtype"), COMBINATIONS)
def test_inline_lu_and_solve(shape: Any, dtype: str) -> None:
    a = random(dtype, *shape)
    m, n = shape[-2:]
    k = min(m, n)
    packed, perm = inline(fam.Lu(), a)
    low, up = np.tril(packed[..., :k], -1) + np.eye(m, k), np.triu(packed[..., :k, :])
    small(low @ up - np.take_along_axis(a, perm[..., None], -2), a)
    assert np.abs(low).max(initial=0) <= np.sqrt(2) + 1e-6
    np.testing.assert_array_equal(perm, program(fam.Lu(), a).run(a)[1])
    if m == n:
        b = random(dtype, *shape[:-1], 2)
        for transpose, matrix in {"N": a, "T": np.swapaxes(a, -1, -2), "C": adjoint(a)}.items():
            x = inline(fam.Solve(transpose), a, b)
            small(matrix @ x - b, a, 600)


@pytest.mark.parametrize(("shape", "dtype"), combined(SQUARE))
def test_inline_eigh_and_cholesky(shape: Any, dtype: str) -> None:
    a = random(dtype, *shape)
    h = a + adjoint(a)
    values, v = inline(fam.Eigh(), h)
    unitary(v)
    small(h @ v - v * values[..., None, :], h)
    assert (np.diff(values) >= 0).all()
    p = a @ adjoint(a) + np.eye(shape[-1], dtype=dtype)
    low = inline(fam.Cholesky(), p)
    small((low @ adjoint(low) - p) / max(np.abs(p).max(initial=1), 1), a)
    assert not np.triu(low, 1).any()


def hard_matrices() -> dict[str, Any]:
    generator = np.random.default_rng(1)
    q, _ = np.linalg.qr(generator.normal(size=(5, 5)))
    return {
        "zero": np.zeros((5, 5)),
        "identity": np.eye(5),
        "one": np.ones((5, 5)),
        "rank two": q[:, :2] @ q[:2],
        "repeated": q * np.array([2.0, 2.0, 2.0, -1.0, -1.0]) @ q.T,
        "graded": q * 10.0 ** np.arange(0, -20, -4) @ q.T,
        "huge": q * np.array([1e300, 2e300, 3e300, 4e300, 5e300]) @ q.T,
        "tiny": 1e-300 * (q + q.T),
        "nilpotent": np.eye(5, k=1),
    }


HARDEST = ("zero", "repeated", "graded", "huge")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in HARDEST else [pytest.mark.sweep])
        for name in hard_matrices()
    ],
)
def test_inline_where_it_is_hard(name: str) -> None:
    a = hard_matrices()[name]
    scale = np.abs(a).max() or 1.0
    u, s, vh = inline(fam.Svd(True), a)
    unitary(u)
    unitary(adjoint(vh))
    small(u * (s / scale) @ vh - a / scale, a)
    q, r = inline(fam.Qr(), a)
    unitary(q)
    small(q @ (r / scale) - a / scale, a)
    h = (a + a.T) / 2
    values, v = inline(fam.Eigh(), h)
    unitary(v)
    small((h / scale) @ v - v * (values / scale), a)
    packed, perm = inline(fam.Lu(), a)
    small((np.tril(packed, -1) + np.eye(5)) @ (np.triu(packed) / scale) - a[perm] / scale, a)


def test_inline_ends_on_what_is_not_finite() -> None:
    a = random("float64", 2, 4, 4)
    a[0, 1, 2] = np.nan
    for op in (fam.Svd(), fam.Qr(), fam.Eigh(), fam.Lu()):
        results = inline(op, a)
        assert np.isnan(results[0][0]).any()
        assert np.isfinite(results[0][1]).all()
    p = np.stack([np.eye(3), -np.eye(3)])
    low = inline(fam.Cholesky(), p)
    np.testing.assert_array_equal(low[0], np.eye(3))
    assert np.isnan(low[1][np.tril_indices(3)]).all()


def test_inline_gradients() -> None:
    x = random("float64", 4, 3)

    def loss(x: Any) -> Any:
        u, s, vh = tnf.linalg.svd(x, full_matrices=False)
        q, r = tnf.linalg.qr(x)
        gram = tnf.matrix_transpose(x) @ x + 2.0 * np.eye(3)
        return (
            tnf.sum((u * tnf.sin(s)) @ vh)
            + tnf.sum(tnf.abs(q) * 0.5)
            + tnf.sum(r[0] ** 2)
            + tnf.linalg.slogdet(gram)[1]
            + tnf.sum(tnf.linalg.solve(gram, tnf.matrix_transpose(x)))
        )

    tnf.check_grads(loss, (x,), order=1, executor=INLINE)


# ---- library calls -------------------------------------------------------------------------------------

PLAIN = ll.SvdAlgorithm.QR  # gesvd on a GPU, which JAX uses for large matrices

PAIRS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "qr": (fam.Qr(), lambda a: ll.qr(a, full_matrices=False), (2, 6, 4)),
    "svd": (fam.Svd(True), lambda a: ll.svd(a, full_matrices=True), (2, 6, 4)),
    "svd wide": (fam.Svd(), lambda a: ll.svd(a, full_matrices=False), (4, 6)),
    "svd of more than a batch takes": (
        fam.Svd(),
        lambda a: ll.svd(a, full_matrices=False),
        (2, 33, 40),
    ),
    "singular values": (
        fam.Svd(vectors=False),
        lambda a: ll.svd(a, full_matrices=False, compute_uv=False),
        (2, 6, 4),
    ),
    "svd large": (
        fam.Svd(True),
        lambda a: ll.svd(a, full_matrices=True, algorithm=PLAIN),
        (1025, 4),
    ),
    "svd large wide": (
        fam.Svd(),
        lambda a: ll.svd(a, full_matrices=False, algorithm=PLAIN),
        (4, 1025),
    ),
    "eigh": (fam.Eigh(), lambda a: ll.eigh(a), (2, 5, 5)),
    "lu": (fam.Lu(), lambda a: ll.lu(a), (2, 5, 4)),
    "eig": (fam.Eig(), lambda a: ll.eig(a, compute_left_eigenvectors=False), (5, 5)),
    "cholesky": (fam.Cholesky(), lambda a: ll.cholesky(a), (5, 5)),
}


def calls(text: str) -> list[tuple[str, ...]]:
    """Return the name, flags, layouts and types of each custom call in the text of a module."""
    found = []
    for line in text.splitlines():
        if "custom_call" not in line or "Sharding" in line:
            continue
        name = re.search(r"custom_call @(\w+)", line)
        flags = re.search(r"backend_config = \{([^}]*)\}", line)
        layouts = re.findall(r"dense<([^>]*)> : tensor<\d+xindex>", line)
        types = re.search(r"\} : (\(.*?\) -> .*?)(?: loc.*)?$", line)
        assert name is not None, line
        assert flags is not None, line
        assert types is not None, line
        plain = [re.sub(r"[\[\]]", "", layout) for layout in layouts]
        found.append((name[1], flags[1], *plain, types[1]))
    return found


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm"])
@pytest.mark.parametrize("name", PAIRS)
def test_library_calls_are_those_of_jax(name: str, platform: str, dtype: str) -> None:
    op, theirs, shape = PAIRS[name]
    if platform == "rocm" and name == "eig":
        pytest.skip("the same handlers under another name")
    if platform == "cpu" and op.family_id == fam.Svd.family_id:
        pytest.skip("by divide and conquer, which test_linalg of the families runs")
    if platform == "rocm" and op.family_id == fam.Svd.family_id and "large" not in name:
        pytest.skip("by Jacobi iterations in newer versions of jax alone")
    module = lower_to_stablehlo(program(op, random(dtype, *shape)), platform)
    module.verify()
    with jax.enable_x64(True):
        spec = jax.ShapeDtypeStruct(shape, dtype)
        try:
            lowered = jax.jit(theirs).trace(spec).lower(lowering_platforms=(platform,))
        except NotImplementedError as error:
            pytest.skip(str(error))
    expected = calls(lowered.as_text())
    mine = calls(module.text)
    for entry in mine:
        assert entry in expected, expected


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name", [name for name in PAIRS if name != "eig"])
def test_tpu_has_them_all(name: str, dtype: str) -> None:
    op, _, shape = PAIRS[name]
    module = lower_to_stablehlo(program(op, random(dtype, *shape)), "tpu")
    module.verify()
    names = set(re.findall(r"custom_call @(\w+)", module.text))
    assert names <= {"Qr", "ProductOfElementaryHouseholderReflectors", "Eigh", "LuDecomposition"}
    assert not (dtype == "float64" and names & {"Eigh", "LuDecomposition"})


@pytest.mark.parametrize("linalg", ["library", "inline"])
def test_complex128_on_tpu_is_refused_before_it_is_compiled(linalg: str) -> None:
    a = random("complex128", 3, 3)
    for op, inputs in (
        (fam.Cholesky(), (a,)),
        (fam.Solve(), (a, a)),
        (fam.TriangularSolve(), (a, a)),
        (fam.Lu(), (a,)),
        (fam.Qr(), (a,)),
        (fam.Svd(), (a,)),
        (fam.Eigh(), (a,)),
    ):
        with pytest.raises(errors.UnsupportedError, match=r"c128\[3,3\] on tpu"):
            lower_to_stablehlo(program(op, *inputs), "tpu", linalg=linalg)


def test_what_no_platform_has_is_refused_by_name() -> None:
    a = random("float32", 3, 3)
    with pytest.raises(errors.UnsupportedError, match=r"Eig: f32.* on tpu.*eigh"):
        lower_to_stablehlo(program(fam.Eig(), a), "tpu")
    with pytest.raises(errors.UnsupportedError, match=r'Eig: .*"inline" has no algorithm'):
        lower_to_stablehlo(program(fam.Eig(), a), linalg="inline")
    with pytest.raises(errors.InvalidConfigError, match='"library" or "inline"'):
        lower_to_stablehlo(program(fam.Qr(), a), linalg="lapack")


def test_inline_text_does_not_grow_with_the_matrix() -> None:
    lines = [
        len(lower_to_stablehlo(program(fam.Svd(), random("float64", n, n)), linalg="inline").text)
        for n in (8, 64)
    ]
    assert lines[1] < 1.1 * lines[0]


EMPTY: dict[str, Any] = {
    "solve": (lambda a: tnf.linalg.solve(a, a[..., :1]), lambda a: np.linalg.solve(a, a[..., :1])),
    "inv": (tnf.linalg.inv, np.linalg.inv),
    "det": (tnf.linalg.det, np.linalg.det),
    "slogdet": (tnf.linalg.slogdet, np.linalg.slogdet),
    "cholesky": (tnf.linalg.cholesky, np.linalg.cholesky),
    "qr": (tnf.linalg.qr, np.linalg.qr),
    "svd": (lambda a: tnf.linalg.svd(a, full_matrices=False), lambda a: np.linalg.svd(a, full_matrices=False)),
    "eigh": (tnf.linalg.eigh, np.linalg.eigh),
    "eig": (tnf.linalg.eig, np.linalg.eig),
    "pinv": (tnf.linalg.pinv, np.linalg.pinv),
    "expm": (tnf.linalg.expm, np.zeros_like),
}  # fmt: skip


@pytest.mark.parametrize("linalg", ["library", "inline"])
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 130, 130), (2, 0, 3, 3)], ids=str)
def test_no_matrices_and_matrices_of_nothing(shape: tuple[int, ...], linalg: str) -> None:
    """Empty matrices and empty batches must have NumPy's results.

    They occur in the last shard of an array.
    """
    a = np.zeros(shape)
    executor = XlaExecutor("cpu", linalg=linalg)
    names = set(EMPTY) - ({"eig"} if linalg == "inline" else set())
    names -= {"expm", "pinv"} if 0 in shape[-2:] else set()  # which are errors for empty matrices
    program = tnf.compile(lambda a: {name: EMPTY[name][0](a) for name in sorted(names)}, a)
    for name, found in executor.run(program, a).items():
        wanted = EMPTY[name][1](a)
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        for y, z in pairs:
            np.testing.assert_array_equal(y, z, name)
            assert y.shape == z.shape
