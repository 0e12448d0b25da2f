"""Programs exported as Python files that need only NumPy.

Each op must equal its definition, and whole programs must run.
"""

from __future__ import annotations

import dataclasses
import re
import runpy
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, to_numpy
from lowering.numpy_source import functions
from lowering.numpy_source.library import NAMES, text_of
from tenferro.api import written_files
from tenferro.errors import ConcretizationError, InvalidConfigError, UnsupportedError
from tenferro.exec.llvm import coefficients
from tenferro.ext.lapack import families as lapack
from tenferro.extension import apply
from tenferro.graph import Graph
from tenferro.ops.elementwise import Convert
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec, flatten
from tests.samples import SAMPLES
from tests.samples.closeness import assert_close
from tests.samples.each import all_pass, each_card
from tests.samples.sample import OpSample

RNG = np.random.default_rng(7)
F64 = "float64"
COMPLEX = [DType.C32, DType.C64]


def alone(sample: OpSample) -> GraphProgram:
    graph = Graph()
    inputs = tuple(graph.add_input(TensorSpec(x.shape, DType.of(x.dtype))) for x in sample.inputs)
    return GraphProgram.from_graph(graph, graph.add(sample.op, inputs))


def function_of(source: Any) -> Callable[..., Any]:
    """Execute the text of an exported file, and return its function.

    The constants come from memory, not from a file.
    """
    text = re.sub(r"^CONSTANTS = .*$", "", source.text, flags=re.MULTILINE)
    names: dict[str, Any] = {"CONSTANTS": source.constants, "__name__": "module"}
    exec(compile(text, "<numpy source>", "exec"), names)
    return names[source.name]


def is_bfloat16(sample: OpSample) -> bool:
    program = alone(sample)
    inner = [part for i in program.instructions for part in i.op.parts]
    return any(spec.dtype is DType.BF16 for each in (program, *inner) for spec in each.types) or (
        getattr(sample.op, "accumulate_dtype", None) is DType.BF16
    )


def gives_the_definition(sample: OpSample) -> None:
    if is_bfloat16(sample):
        with pytest.raises(UnsupportedError, match="bfloat16 is not a dtype of NumPy"):
            to_numpy(alone(sample))
        return
    function = function_of(to_numpy(alone(sample)))
    results = function(*sample.inputs)
    scales = sample.scale or (None,) * len(sample.expected)
    for y, expected, scale in zip(results, sample.expected, scales, strict=True):
        y = np.asarray(y)
        if y.dtype.kind == "f":  # NumPy may choose either sign of max(0.0, -0.0)
            y = np.where((y == 0) & (expected == 0), expected, y)
        assert_close(y, expected, sample.ulps, scale)


@each_card
def test_each_op_gives_the_definition(card: Any) -> None:
    all_pass(gives_the_definition, SAMPLES[card][:: max(1, len(SAMPLES[card]) // 3)])


@pytest.mark.sweep
@each_card
def test_each_op_gives_the_definition_on_all_samples(card: Any) -> None:
    all_pass(gives_the_definition, SAMPLES[card])


# ---- whole programs ------------------------------------------------------------------------------------------


def dense(p: Any, x: Any) -> Any:
    h = tnf.tanh(x @ p["w"] + p["b"])
    scores = h.reshape(-1, 2, 2)[:, 0]
    return {"loss": tnf.mean(tnf.softmax(scores) ** 2), "first": x[0]}


def recurrent(w: Any, xs: Any, flag: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = tnf.tanh(h @ w + x)
        return h, tnf.sum(h)

    h, ys = tnf.scan(step, np.zeros(3), xs)
    n = tnf.while_loop(lambda c: c < 40.0, lambda c: c * 2.0 + 1.0, tnf.sum(ys**2) + 1.0)
    return tnf.cond(flag > 0, lambda a: a * 2.0, lambda a: a - tnf.erf(a), h), ys, n


def solver(a: Any, b: Any) -> Any:
    spd = a @ a.T + 3.0 * np.eye(4)
    return tnf.linalg.solve(spd, b), tnf.linalg.cholesky(spd), tnf.linalg.eigh(spd)[0]


def triangles(a: Any, b: Any) -> Any:
    """Compute all factorisations for which an exported file includes a separate function."""
    upper = tnf.triu(a) + 2.0 * np.eye(4)
    x = tnf.lax.linalg.triangular_solve(upper, b, left_side=True, transpose_a=True)
    factors = tnf.linalg.qr(a), tnf.linalg.qr(a[:, :3], "complete"), tnf.linalg.qr(a[:2], "r")
    spd = a @ a.T + 3.0 * np.eye(4)
    return x, factors, tnf.linalg.cholesky(spd), tnf.linalg.solve(a, b), tnf.linalg.inv(spd)


def determinant(a: Any) -> Any:
    return tnf.linalg.slogdet(a)[1], tnf.linalg.qr(a)[1]


def drawn(seed: Any) -> Any:
    return tnf.random.normal(tnf.random.key(seed), (4, 3))


def convolved(x: Any, k: Any) -> Any:
    y = tnf.lax.conv_general_dilated(x, k, (1, 2), "SAME")
    return tnf.sum(tnf.maximum(y, 0.1) ** 2)


def picked(table: Any, at: Any, value: Any) -> Any:
    return table[at], table.at[at].add(value), tnf.sort(table, axis=1), tnf.lax.top_k(table, 2)


def factorised(a: Any, b: Any) -> Any:
    packed, pivots, info = apply(lapack.Getrf(), a)
    order = apply(lapack.PivotsToPermutation(3), pivots - 1)
    reflectors, factors = apply(lapack.Geqrf(), b)
    q = apply(lapack.HouseholderProduct(), reflectors, factors)
    return packed, order, info, tnf.lax.linalg.lu(a + 1.0), reflectors, q


def reduced(a: Any, c: Any, lines: Any) -> Any:
    """Compute the results of LAPACK routines for which an exported file includes a separate function."""
    h = c + tnf.conj(tnf.matrix_transpose(c))
    solved = apply(lapack.Gtsv(), *lines, a[:, :, :2])
    forms = [apply(lapack.Sytrd(lower), h) for lower in (True, False)]
    return apply(lapack.Geqp3(), c[:, :2]), apply(lapack.Gehrd(), c), forms, solved


def looked_up(at: Any) -> Any:
    start = tnf.sum(at) % 4
    slab = tnf.lax.dynamic_slice(TABLE, (start, 1), (2, 2))
    return tnf.take(TABLE, at % 6, axis=0), slab, tnf.take_along_axis(TABLE, at[None, :3] % 6, 0)


def partly_read(x: Any, a: Any) -> Any:
    """Read only some results of ops that have several, and test elements for NaN."""
    pivots = apply(lapack.Getrf(), a)[1]
    values = tnf.sort(x), tnf.argsort(x), tnf.lax.top_k(x, 2)[0], apply(lapack.Getrf(), a)[0]
    return values, tnf.isnan(x), x == x, tnf.linalg.eigh(a @ a.T)[1], pivots


TABLE = RNG.normal(size=(6, 3))
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "dense": (dense, ({"w": TensorSpec((3, 4), F64), "b": TensorSpec((4,), F64)}, TensorSpec(("n", 3), F64))),
    "recurrent": (recurrent, (TensorSpec((3, 3), F64), TensorSpec((5, 3), F64), TensorSpec((), F64))),
    "gradient": (
        tnf.grad(lambda w, xs: tnf.sum(recurrent(w, xs, 1.0)[1] * TABLE[:5, 0])),
        (TensorSpec((3, 3), F64), TensorSpec((5, 3), F64)),
    ),
    "solver": (solver, (TensorSpec((4, 4), F64), TensorSpec((4, 2), F64))),
    "triangles": (triangles, (TensorSpec((4, 4), F64), TensorSpec((4, 2), F64))),
    "determinant": (tnf.grad(lambda a: sum(map(tnf.sum, determinant(a)))), (TensorSpec((4, 4), F64),)),
    "factors": (factorised, (TensorSpec((2, 3, 3), F64), TensorSpec((4, 3), "complex128"))),
    "reduced": (
        reduced,
        (TensorSpec((2, 4, 4), F64), TensorSpec((2, 4, 4), "complex128"), (TensorSpec((2, 4), F64),) * 3),
    ),
    "partly": (partly_read, (TensorSpec((5,), F64), TensorSpec((3, 3), F64))),
    "table": (looked_up, (TensorSpec((4,), "int64"),)),
    "random": (drawn, (TensorSpec((), "uint32"),)),
    "convolution": (tnf.grad(convolved, (0, 1)), (TensorSpec((2, 3, 6, 5), "float32"), TensorSpec((4, 3, 3, 2), "float32"))),
    "picked": (picked, (TensorSpec((6, 3), F64), TensorSpec((4,), "int64"), TensorSpec((4, 3), F64))),
    "weights": (lambda x: tnf.erf(x @ np.asarray(RNG.normal(size=(3, 40)))), (TensorSpec(("n", 3), F64),)),
}  # fmt: skip
UNREAD = "F841,PLR0124,RUF059"
"""Rules of ruff against names that are never read, and against comparing a value with itself."""
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tenferro", "lowering", "xla_peer", "scipy", "jax", "ml_dtypes"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import runpy
failures = 0
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        failures += end.code or 0
raise SystemExit(failures)
"""


def test_whole_programs_check_themselves_where_there_is_numpy_alone(tmp_path: Path) -> None:
    paths: list[str] = []
    for name, (function, specs) in PROGRAMS.items():
        paths.append(str(tmp_path / f"{name}.py"))
        xla_peer.export(function, *specs, format="numpy", path=paths[-1], vectors=1)
    assert (tmp_path / "weights.npz").exists()
    run = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", BLOCKED, *paths],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(re.findall(r"(\d+) of \1 recorded results agree", run.stdout)) == len(PROGRAMS)
    ruff = Path(sys.executable).parent / "ruff"
    if ruff.exists():
        checked = subprocess.run(
            [ruff, "check", "--isolated", "--extend-select", f"I,W,B,UP,{UNREAD}", *paths],
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", ["threefry", "check", "max", "np", "Path", "require"])
def test_a_function_has_no_name_that_the_file_uses(name: str, tmp_path: Path) -> None:
    def function(seed: Any, x: Any) -> Any:
        return tnf.random.bits(tnf.random.key(seed), (2,)), tnf.concatenate([x, x])

    function.__name__ = name
    source = xla_peer.export(
        function,
        TensorSpec((), "uint32"),
        TensorSpec(("n",), F64),
        format="numpy",
        path=tmp_path / "f.py",
        vectors=1,
    )
    assert source.name == f"{name}_2"
    run = subprocess.run(
        [sys.executable, tmp_path / "f.py"], capture_output=True, text=True, check=False
    )
    assert "2 of 2 recorded results agree" in run.stdout, run.stderr


def test_scatters_into_constants_are_traced_again() -> None:
    specs = TensorSpec((4,), "int64"), TensorSpec((4,), F64)
    at, updates = np.array([2, 0, 2, 9]), np.array([1.0, 2.0, 3.0, 4.0])

    def histogram(at: Any, updates: Any) -> Any:
        return tnf.grad(lambda x: tnf.sum(x[at] * updates))(np.ones(3))

    function = function_of(to_numpy(tnf.compile(histogram, *specs)))
    again = tnf.compile(function, *specs)
    np.testing.assert_array_equal(again.run(at, updates), function(at, updates))


def test_general_eigenvalues_are_traced_again() -> None:
    a = RNG.normal(size=(4, 4))
    function = function_of(to_numpy(tnf.compile(tnf.linalg.eig, a)))
    for y, z in zip(tnf.compile(function, a).run(a), function(a), strict=True):
        np.testing.assert_array_equal(y, z)


def test_a_single_result_is_returned_by_the_line_that_computes_it() -> None:
    def function(x: Any) -> Any:
        return tnf.sum(tnf.sin(x) * tnf.cos(x) + tnf.exp(x) * tnf.tanh(x) + tnf.sqrt(x) * 2.0)

    source = to_numpy(tnf.compile(function, np.ones(3)))
    assert source.text.splitlines()[-1].split("  #")[0].startswith("    return np.sum(")


def test_names_that_are_not_read_are_not_written() -> None:
    def function(x: Any) -> Any:
        y = tnf.transpose(x, (1, 0))
        return tnf.fori_loop(0, 3, lambda _, c: tnf.fori_loop(0, 2, lambda _, d: d * 2.0, c), y)

    text = str(xla_peer.export(function, TensorSpec(("n", 3), F64), format="numpy"))
    assert text.count("for _ in range") == 2
    assert ".shape[0]" not in text


def test_no_two_minus_signs_follow_each_other() -> None:
    x = np.array([1.5, -0.0])
    source = to_numpy(tnf.compile(lambda x: (tnf.negative(-tnf.sin(x)), -(-x + tnf.cos(x))), x))
    assert "--" not in source.text
    for y, z in zip(function_of(source)(x), (np.sin(x), -(-x + np.cos(x))), strict=True):
        np.testing.assert_array_equal(np.signbit(y), np.signbit(z))
        np.testing.assert_array_equal(y, z)


def test_comparisons_with_true_and_false() -> None:
    p = np.array([True, False])
    program = tnf.compile(
        lambda p: (p == True, p == False, p != True, p != False),  # noqa: E712  because == is traced
        p,
    )
    source = to_numpy(program)
    assert "== False" not in source.text
    assert "!= " not in source.text
    for y, z in zip(function_of(source)(p), (p, ~p, ~p, p), strict=True):
        np.testing.assert_array_equal(y, z)


def test_a_wrong_result_is_told(tmp_path: Path) -> None:
    path = tmp_path / "f.py"
    source = xla_peer.export(
        lambda x: tnf.exp(x) * 2.0, TensorSpec((3,), F64), format="numpy", vectors=1
    )
    path.write_text(source.text.replace("* 2.0", "* 2.0000001"))
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "case 0, result: element" in run.stdout
    assert "0 of 1 recorded results agree" in run.stdout


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_eigenvectors_and_schur_forms_by_definition(n: int, dtype: str) -> None:
    """Eigenvectors and Schur forms must satisfy their definitions.

    A Jordan block has a Schur form, but no basis of eigenvectors.
    """
    a = RNG.normal(size=(3, n, n)) + (1j * RNG.normal(size=(3, n, n)) if dtype[0] == "c" else 0)
    a[2] = np.eye(n) + np.eye(n, k=1)
    a = a.astype(dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if "32" in dtype or "x64" in dtype else {"atol": 1e-11}
    program = tnf.compile(lambda a: (apply(lapack.Geev(), a), apply(lapack.Gees(), a)), a)
    (values, left, right), (form, vectors, diagonal, info) = results = function_of(
        to_numpy(program)
    )(a)
    for y, spec in zip(tnf.tree.leaves(results), program.output_specs, strict=True):
        assert (y.shape, y.dtype) == (spec.shape, spec.dtype.dtype)
    np.testing.assert_allclose(a @ right, right * values[:, None], **close)
    adjoint = np.conj(left[:2]).mT
    np.testing.assert_allclose(adjoint @ a[:2], values[:2, :, None] * adjoint, **close)
    np.testing.assert_allclose(np.linalg.norm(left[:2], axis=1), np.ones((2, n)), **close)
    np.testing.assert_allclose(vectors @ form @ np.conj(vectors).mT, a, **close)
    np.testing.assert_allclose(vectors @ np.conj(vectors).mT, np.eye(n) + 0 * a, **close)
    below = np.tril(form, -1 if dtype[0] == "c" else -2)
    assert not below.any()
    assert not info.any()
    for y, z in zip(diagonal[:2], a[:2], strict=True):
        expected = np.linalg.eigvals(z.astype("c16"))
        order = np.array([np.argmin(np.abs(value - expected)) for value in y], int)
        np.testing.assert_array_equal(np.sort(order), np.arange(n))
        np.testing.assert_allclose(y, expected[order], **close)
    if dtype[0] == "f":
        is_pair = np.diagonal(form, -1, 1, 2) != 0
        assert (diagonal.imag[:, :-1][is_pair] > 0).all()


def test_a_schur_form_that_does_not_exist_is_told() -> None:
    a = np.stack([np.eye(2), np.full((2, 2), np.inf)])
    program = tnf.compile(lambda a: apply(lapack.Gees(), a), a)
    for y, z in zip(function_of(to_numpy(program))(a), program.run(a), strict=True):
        np.testing.assert_array_equal(np.isnan(y), np.isnan(z))
    assert function_of(to_numpy(program))(a)[3].tolist() == program.run(a)[3].tolist() == [0, 1]


def test_a_zero_pivot_of_three_diagonals_is_told() -> None:
    lines = np.zeros(3), np.array([1.0, 0, 2]), np.zeros(3)
    program = tnf.compile(lambda *xs: apply(lapack.Gtsv(), *xs), *lines, np.ones((3, 1)))
    assert function_of(to_numpy(program))(*lines, np.ones((3, 1)))[1] == 2
    swapped = np.array([0.0, 1, 1]), np.array([0.0, 0, 2]), np.array([1.0, 1, 0])
    t = np.diag(swapped[1]) + np.diag(swapped[0][1:], -1) + np.diag(swapped[2][:-1], 1)
    x, info = function_of(to_numpy(program))(*swapped, np.ones((3, 1)))
    np.testing.assert_allclose(t @ x, np.ones((3, 1)), rtol=1e-14)
    assert info == 0


@pytest.mark.parametrize(
    "name", [name for name in PROGRAMS if name not in ("recurrent", "gradient", "picked")]
)
def test_files_are_traced_again_with_equal_values(name: str) -> None:
    function, specs = PROGRAMS[name]
    program = tnf.compile(function, *specs)
    specs = tnf.tree.map(
        lambda spec: TensorSpec(
            [4 if not isinstance(n, int) else n for n in spec.shape], spec.dtype
        ),
        specs,
    )  # because a mean divides by a number, which is a constant
    again = tnf.compile(function_of(to_numpy(program)), *specs)
    arguments = [np.full((), 5, "uint32")] if name == "random" else None
    if arguments is None:
        sizes = [spec.shape for spec in program.input_specs]
        leaves = [
            RNG.normal(size=[4 if n == "n" or not isinstance(n, int) else n for n in shape])
            for shape in sizes
        ]
        leaves = [
            x.astype(spec.dtype.dtype) for x, spec in zip(leaves, program.input_specs, strict=True)
        ]
        arguments = list(tnf.tree.unflatten(program.in_tree, leaves))
    for y, z in zip(
        tnf.tree.leaves(program.run(*arguments)),
        tnf.tree.leaves(again.run(*arguments)),
        strict=True,
    ):
        tolerance = 1e-5 if y.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(z, y, rtol=tolerance, atol=tolerance)


def test_files_are_differentiated_again() -> None:
    def loss(x: Any, k: Any) -> Any:
        h = tnf.softmax(tnf.erf(x @ k) + tnf.special.gammaln(1.0 + x**2)[:, :1])
        return tnf.sum(tnf.cumsum(h, axis=0)[1:] * tnf.lax.cummax(h, 1)[1:])

    x, k = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 3))
    again = function_of(to_numpy(tnf.compile(loss, x, k)))
    for mine, theirs in zip(
        tnf.grad(loss, (0, 1))(x, k), tnf.grad(again, (0, 1))(x, k), strict=True
    ):
        np.testing.assert_allclose(theirs, mine, rtol=1e-11, atol=1e-12)


def nested(x: Any, n: Any) -> Any:
    """Nest loops in branches in loops. The state of each loop has several values."""

    def halved(c: Any) -> Any:
        y, z, k = c
        y, k = tnf.while_loop(
            lambda c: tnf.sum(c[0] ** 2) + c[1] > 3.0, lambda c: (c[0] / 2.0, c[1] * 0.5), (y, z)
        )
        return y + 1.0, k, z * 2.0

    def step(c: Any, t: Any) -> Any:
        y, z = c
        y, a, b = tnf.lax.switch(
            t % 3,
            [
                halved,
                lambda c: (c[0][::-1], c[1], tnf.sum(c[0])),
                lambda c: (tnf.sin(c[0]), c[2], c[1]),
            ],
            (y, z, tnf.max(y)),
        )
        y = tnf.cond(
            b > a, lambda y: tnf.scan(lambda c, v: (c * v, c + v), 1.0, y)[1], lambda y: y, y
        )
        return (y, a * 0.5), b

    (y, z), bs = tnf.scan(step, (x, tnf.sum(x) + 2.0), tnf.arange(7) + n)
    return tnf.sum(y * y) + z + tnf.sum(bs)


def with_two_stacks(x: Any, n: Any) -> Any:
    """Run a loop that stacks several results in each of two conditionals."""

    def stacked(c: Any) -> Any:
        c, (rows, sums) = tnf.scan(lambda c, r: (c * 0.5 + r, (c * r, c + r)), c, x)
        return c + tnf.sum(rows * sums)

    for limit in (0, 3):
        x = tnf.cond(n > limit, lambda x: stacked(x[0]) * x, lambda x: x - 1.0, x)
        n = tnf.while_loop(lambda n: n > 5, lambda n: n - 2, n)
    return tnf.sum(x)


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (with_two_stacks, (TensorSpec((3,), F64), TensorSpec((), "int64"))),
        (lambda *xs: sum(map(tnf.sum, recurrent(*xs))), PROGRAMS["recurrent"][1]),
        (nested, (TensorSpec((3,), F64), TensorSpec((), "int64"))),
    ],
    ids=["two stacks", "recurrent", "nested"],
)
def test_loops_and_conditions_on_data_are_traced_again(
    function: Any, specs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = xla_peer.export(function, *specs, format="numpy", path=tmp_path / "f.py")
    assert "    while " in source.text
    assert "    if " in source.text
    written = runpy.run_path(str(tmp_path / "f.py"))[source.name]
    x, *rest = [RNG.normal(size=spec.shape).astype(spec.dtype.dtype) for spec in specs]
    again = tnf.compile(written, *specs)
    monkeypatch.setattr(written_files, "_code", None)  # later traces parse the file no more
    np.testing.assert_allclose(again.run(x, *rest), written(x, *rest), rtol=1e-13)
    direction = RNG.normal(size=x.shape)
    sides = [written(x + h * direction, *rest) for h in (1e-6, -1e-6)]
    slope = np.sum(tnf.grad(written)(x, *rest) * direction)
    np.testing.assert_allclose(slope, (sides[0] - sides[1]) / 2e-6, rtol=1e-6)
    rows = tnf.vmap(written, in_axes=(0, *[None] * len(rest)))(np.stack([x, 0.5 * x]), *rest)
    np.testing.assert_allclose(rows, [written(x, *rest), written(0.5 * x, *rest)], rtol=1e-13)


@pytest.mark.parametrize(
    "change",
    [
        "if np.sum(x) > 0.0:\n        y = y * 3.0",
        "while np.sum(y) < 9.0:\n        y = y * 2.0\n        if np.max(y) > 5.0:\n            break",
        "if np.sum(x) > 0.0:\n        y = y * 3.0\n    else:\n        return x",
        "if np.sum(x) > 0.0:\n        y[0] = 3.0\n    else:\n        y[0] = 2.0",
    ],
)
def test_conditions_that_were_not_written_are_left_to_python(change: str, tmp_path: Path) -> None:
    source = xla_peer.export(lambda x: tnf.sin(x), TensorSpec((3,), F64), format="numpy")
    text = source.text.replace(
        "    return np.sin(x)", f"    y = np.sin(x)\n    {change}\n    return y"
    )
    assert change in text
    (tmp_path / "f.py").write_text(text)
    written = runpy.run_path(str(tmp_path / "f.py"))[source.name]
    with pytest.raises(ConcretizationError, match="known while tracing"):
        tnf.compile(written, TensorSpec((3,), F64))


def test_a_condition_of_a_trace_is_an_error_that_names_it() -> None:
    again = function_of(to_numpy(tnf.compile(*_spread("recurrent"))))
    with pytest.raises(ConcretizationError, match="known while tracing"):
        tnf.compile(again, *PROGRAMS["recurrent"][1])


def _spread(name: str) -> tuple[Any, ...]:
    function, specs = PROGRAMS[name]
    return (function, *specs)


def test_results_are_found_by_the_tree_of_results(tmp_path: Path) -> None:
    """The results must be unpacked by the program's own output tree.

    In modules that JAX exported, this tree is a tuple.
    """
    program = tnf.compile(
        lambda p: {"y": p["w"] * 2.0, "z": [p["w"]]}, {"w": TensorSpec((2,), F64)}
    )
    leaves = tnf.tree.flatten((0, 1))[1], tnf.tree.flatten((0,))[1]
    flat = dataclasses.replace(program, out_tree=leaves[0], in_tree=leaves[1])
    xla_peer.export(flat, format="numpy", path=tmp_path / "f.py", vectors=1)
    space = runpy.run_path(str(tmp_path / "f.py"))
    assert not space["check"]()
    for y in space["function"](np.ones(2)):
        assert y.shape == (2,)


def test_values_that_a_module_only_numbers_are_inside_expressions() -> None:
    spec = "tensor<3xf64>"
    rows = [
        f"%{i + 1} = stablehlo.{op} %{i} : {spec}" for i, op in enumerate(["exponential", "negate"])
    ]
    text = f"func.func @main(%0: {spec}) -> {spec} {{\n" + "\n".join(rows)
    text += f"\n%y = stablehlo.multiply %2, %2 : {spec}\nreturn %y : {spec}\n}}"
    source = to_numpy(import_stablehlo(text))
    assert source.text.rpartition('    """\n')[2].split("\n    ") == [
        "    return (-np.exp(x0))**2\n"
    ]  # fmt: skip


ROWS, COLUMNS = np.arange(1.0, 4.0), np.arange(2.0, 6.0)


# ---- style of the text ---------------------------------------------------------------------------------------


def test_the_text_reads_like_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        textwrap.dedent("""
        import tenferro as tnf

        def loss(p, x):
            h = tnf.tanh(x @ p["w"] + p["b"])
            top = tnf.max(h, axis=1)
            return tnf.sum(top * 2.0) - x[0, 1]
        """)
    )
    module = types.ModuleType("model")
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    parameters = {"w": TensorSpec((3, 4), F64), "b": TensorSpec((4,), F64)}
    source = to_numpy(tnf.compile(module.loss, parameters, TensorSpec(("n", 3), F64)))
    body = source.text.rpartition('    """\n')[2].rstrip()
    assert body == textwrap.indent(
        textwrap.dedent("""\
        n = x.shape[0]
        require(n, ">=", 1, "Slice: bounds of axis 0")
        h = np.tanh(x @ p["w"] + p["b"])  # line 5: h = tnf.tanh(x @ p["w"] + p["b"])
        top = np.max(h, axis=1)  # line 6: top = tnf.max(h, axis=1)
        return np.sum(top * 2.0) - x[0, 1]  # line 7: return tnf.sum(top * 2.0) - x[0, 1]"""),
        "    ",
    )


def test_a_repeated_broadcast_is_left_to_numpy() -> None:
    """Only the operand of a broadcast may be assigned to a name.

    The array of the full shape must not be created.
    """

    def shifted(x: Any, v: Any) -> Any:
        row = tnf.broadcast_to(tnf.exp(v), (3, 4))
        return tnf.sin(x) + row, x * row

    x, v = np.full((3, 4), 2.0), RNG.normal(size=4)
    source = to_numpy(tnf.compile(shifted, x, v))
    assert "broadcast_to" not in source.text.rpartition("#")[0]
    assert source.text.count("np.exp(v)") == 1
    for y, expected in zip(
        function_of(source)(x, v), (np.sin(x) + np.exp(v), x * np.exp(v)), strict=True
    ):
        np.testing.assert_array_equal(y, expected)


SHORT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "both operands broadcast": (
        lambda x, y: x[:, None] - y[None],
        (ROWS, COLUMNS),
        "x[:, None] - y",
    ),
    "a bias of several axes": (
        lambda x, y: tnf.reshape(y, (2, 2)) * tnf.broadcast_to(x[0:2][None], (2, 2)),
        (ROWS, COLUMNS),
        "y.reshape(2, 2) * x[:2]",
    ),
    "the last axis": (
        lambda x, y: tnf.sum(x[:, None, None] * y[:, None] + y, axis=2, keepdims=True),
        (ROWS, COLUMNS),
        "np.sum(x[:, None, None] * y[:, None] + y, axis=2)[..., None]",
    ),
    "a stack of elements": (
        lambda x, y: tnf.stack([x[1], -y[0] * x[0]]),
        (ROWS, COLUMNS),
        "np.stack([x[1], -y[0] * x[0]])",
    ),
    "rows of transposes": (
        lambda x, y: tnf.reshape(tnf.outer(x, y) @ tnf.outer(y, y), (2, 3, 2)),
        (ROWS, COLUMNS),
        "(x[:, None] * y @ (y[:, None] * y)).reshape(2, 3, 2)",
    ),
    "a transposed product": (
        lambda x, y: (tnf.outer(x, y) @ tnf.outer(y, x[:2])).T,
        (ROWS, COLUMNS),
        "(y[:, None] * x[:2]).T @ (x[:, None] * y).T",
    ),
    "regular constants": (
        lambda x, y: x[:, None] * np.tri(3) + x * np.eye(3),
        (ROWS, COLUMNS),
        "x[:, None] * np.tri(3) + x * np.eye(3)",
    ),
    "elements along an axis": (
        lambda x, y: tnf.take_along_axis(x, y, axis=1),
        (np.arange(12.0).reshape(3, 4), np.array([[1], [0], [3]])),
        "take_along(x, np.where(y < 0, y + 4, y), 1)",
    ),
    "windows of columns": (
        lambda x, y: tnf.permute_dims(tnf.reshape(x, (3, 2, 2)), (0, 2, 1)),
        (np.arange(12.0).reshape(3, 4), COLUMNS),
        "np.swapaxes(x.reshape(3, 2, 2), -1, -2)",
    ),
    "several results": (lambda x, y: (x, y * 2.0), (ROWS, COLUMNS), "x, y * 2.0"),
}


@pytest.mark.parametrize("case", SHORT.values(), ids=SHORT)
def test_expressions_are_those_of_a_numpy_user(case: Any) -> None:
    function, arguments, text = case
    program = tnf.compile(function, *arguments)
    source = to_numpy(program)
    for y, expected in zip(
        flatten(function_of(source)(*arguments))[0],
        flatten(program.run(*arguments))[0],
        strict=True,
    ):
        np.testing.assert_array_equal(y, expected)
        assert np.asarray(y).dtype == expected.dtype
    assert f"return {text}" in source.text


def test_a_sum_over_labels_is_one_call_of_einsum() -> None:
    """A sum over labels must remain one call of einsum.

    The best order of contractions depends on extents that only the caller knows.
    """
    spec = TensorSpec(("i", "j"), F64), TensorSpec(("j", "k"), F64), TensorSpec(("k", "l"), F64)
    text = to_numpy(tnf.compile(lambda *xs: tnf.einsum("ij,jk,kl->li", *xs), *spec)).text
    assert text.count("np.einsum(") == 1
    assert 'np.einsum("ij,jk,kl->li"' in text


def test_files_are_short() -> None:
    """A file must have at most 1.5 statements for each instruction, constants and broadcasts not counted."""
    for function, specs in PROGRAMS.values():
        program = tnf.compile(function, *specs)
        inner = [part for i in program.instructions for part in i.op.parts]
        counted = [
            i
            for each in (program, *inner)
            for i in each.instructions
            if i.op.name not in ("Constant", "BroadcastInDim", "Reshape", "Transpose")
        ]
        assert to_numpy(program).statements <= 1.5 * len(counted) + 2 * len(program.guards) + 4


def test_only_functions_that_are_called_are_in_the_file() -> None:
    text = to_numpy(tnf.compile(lambda x: tnf.erf(x), TensorSpec((3,), F64))).text
    assert set(re.findall(r"^def (\w+)", text, re.MULTILINE)) == {
        "polynomial",
        "erfc_of_positive",
        "erf",
        "function",
    }
    assert "Any" not in text


def test_the_library_reads_nothing_but_numpy_and_itself() -> None:
    text = "\n\n\n".join(["import numpy as np", *text_of(NAMES)])
    exec(compile(text, "<library>", "exec"), {})
    assert "Any" not in text
    for name in ("ERF", "ERFC", "ERFINV", "ERFINV_FAR"):
        assert getattr(functions, name) == getattr(coefficients, name)


def test_special_functions_are_those_of_mpmath() -> None:
    import mpmath

    xs = np.array(
        [1e-300, 0.3, 0.9, 1.4616321449683622, 1.7, 2.4, 3.3, 11.5, 12.5, 27.0, -0.3, -1.6, -3.7]
    )
    with mpmath.workdps(40), np.errstate(all="ignore"):
        for name, exact, ulps in (
            ("erf", mpmath.erf, 2),
            ("erfc", mpmath.erfc, 4),
            ("digamma", mpmath.digamma, 8),
            ("lgamma", lambda x: mpmath.log(abs(mpmath.gamma(x))), 16),
        ):
            expected = np.array([float(exact(mpmath.mpf(float(x)))) for x in xs])
            assert_close(getattr(functions, name)(xs), expected, ulps)
        for n in (1, 2, 3):
            expected = np.array([float(mpmath.polygamma(n, mpmath.mpf(float(x)))) for x in xs[1:]])
            assert_close(functions.polygamma(n, xs[1:]), expected, 12)


@pytest.mark.parametrize(
    ("relation", "met", "broken"),
    [
        ("==", [(3, 3), (0, 0)], [(3, 4)]),
        (">=", [(3, 3), (4, 3)], [(2, 3)]),
        ("is 1 or", [(1, 3), (3, 3)], [(2, 3), (0, 3)]),
        ("divisible by", [(6, 3), (0, 3)], [(6, 4), (6, 0)]),
    ],
)
def test_extents_are_related_as_their_guard_says(relation: str, met: Any, broken: Any) -> None:
    for lhs, rhs in met:
        functions.require(lhs, relation, rhs, "Op: axis 0")
    for lhs, rhs in broken:
        with pytest.raises(ValueError, match=f"Op: axis 0 needs {lhs} {relation} {rhs}"):
            functions.require(lhs, relation, rhs, "Op: axis 0")


def test_refusals_name_what_is_refused(tmp_path: Path) -> None:
    def printed(x: Any) -> Any:
        tnf.debug_print("{}", x)
        return x

    with pytest.raises(UnsupportedError, match=r"tenferro\.debug_print"):
        to_numpy(tnf.compile(printed, TensorSpec((), F64)))
    with pytest.raises(UnsupportedError, match="bfloat16"):
        to_numpy(tnf.compile(lambda x: x, TensorSpec((), "bfloat16")))
    with pytest.raises(
        InvalidConfigError, match=r"export: NumPy source must be a \.py file, got 'f\.mlir'"
    ):
        xla_peer.export(lambda x: x, 1.0, format="numpy", path="f.mlir")
    with pytest.raises(
        InvalidConfigError, match=r"gradient is an option of artifacts.*export tenferro\.grad"
    ):
        xla_peer.export(lambda x: x, 1.0, format="numpy", gradient=True)  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        InvalidConfigError, match='format must be "stablehlo", "numpy" or "onnx", got \'torch\''
    ):
        xla_peer.export(lambda x: x, 1.0, format="torch")  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", [*COMPLEX, DType.F32, DType.F64, DType.of("bool")], ids=str)
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers_are_converted(dtype: DType, to: DType) -> None:
    """Conversion from complex to float must keep the real part.

    Conversion from complex to bool must compare with zero.
    """
    x = np.array([0.0, 1.5 - 2.0j, 3.0j, -0.25]).astype(dtype.dtype)
    graph = Graph()
    program = GraphProgram.from_graph(
        graph, graph.add(Convert(to), (graph.add_input(TensorSpec(x.shape, dtype)),))
    )
    (y,) = function_of(to_numpy(program))(x)
    wanted = x != 0 if to.is_bool else x if to.is_complex else x.real
    assert y.dtype == to.dtype
    np.testing.assert_array_equal(y, wanted)


def test_gathers_with_two_batch_axes_of_unequal_extents() -> None:
    x = np.arange(30.0).reshape(5, 6)
    starts = np.array([[[0, 1], [4, 2], [9, 0]], [[1, 3], [2, 2], [0, 5]]])
    numbers = tnf.lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0, 1)
    )
    program = tnf.compile(
        lambda x, starts: tnf.lax.gather(x, starts, numbers, slice_sizes=(1, 2), mode="clip"),
        x,
        starts,
    )
    rows, columns = np.minimum(starts[..., 0], 4), np.minimum(starts[..., 1], 4)
    expected = np.stack([x[rows, columns], x[rows, columns + 1]], axis=1)
    np.testing.assert_array_equal(function_of(to_numpy(program))(x, starts), expected)


def test_numbers_of_a_choice_have_its_dtype() -> None:
    x = np.array([-1, 2], "float32")
    program = tnf.compile(lambda x: tnf.where(x > 0, np.float32(1), np.float32(0)), x)
    y = function_of(to_numpy(program))(x)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, [0, 1])


def test_integers_up_to_the_largest_are_listed() -> None:
    """`np.arange` would need the end 2^63, which is no int64."""
    last = [2**63 - 3, 2**63 - 2, 2**63 - 1]
    source = to_numpy(tnf.compile(lambda x: tnf.minimum(x, np.array(last)), np.zeros(3, np.int64)))
    assert "arange" not in str(source)
