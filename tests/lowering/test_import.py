"""Import of StableHLO.

Programs must survive lowering and importing, JAX's modules must have JAX's values, and errors must never crash.
"""

from __future__ import annotations

import operator
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, importing, lower_to_stablehlo
from lowering.mlir_bindings import MlirDiagnosticError
from lowering.read import READERS
from lowering.syntax.nesting import DEEPEST
from tenferro import errors
from tenferro.ops.control import Scan
from tests.ops.test_parity import program_of
from tests.samples.each import each_sample_of
from tests.samples.sample import OpSample

XLA = xla_peer.XlaExecutor()


def flat(result: Any) -> list[Any]:
    return [np.asarray(y) for y in (result if isinstance(result, tuple) else (result,))]


# ---- round trips ---------------------------------------------------------------------------------

# Ops that lowering may write as several operations, such as a dot product in a wider dtype, or an integer division.
# For all other ops, the text must be equal after a round trip.
COMPOUND = {
    "Constant", "Convolution", "Divide", "DotGeneral", "Polygamma", "Power", "ReducePrecision", "Remainder",
    "Sort",
}  # fmt: skip


@each_sample_of("import", every=6)
def test_what_we_write_comes_back(sample: OpSample) -> None:
    program = program_of([sample], constants=False)
    module = lower_to_stablehlo(program)
    again = import_stablehlo(module, drops_windows=True)
    assert again.input_specs == program.input_specs
    assert again.output_specs == program.output_specs
    wanted, found = flat(program.run(*sample.inputs)), flat(again.run(*sample.inputs))
    for y, z in zip(found, wanted, strict=True):
        # Polygamma is lowered to sums of few terms, so its results agree only approximately.
        if sample.op.name == "Polygamma":
            np.testing.assert_allclose(y.astype(float), z.astype(float), rtol=0.01)
        else:
            assert y.tobytes() == z.tobytes()
    assert sample.op.name in COMPOUND or lower_to_stablehlo(again).text == module.text


def statements(text: str) -> set[str]:
    """Return the kinds of operations in a text.

    Transposes are omitted, because the import of a reshape adds some.
    """
    return set(re.findall(r"stablehlo\.\w+", text)) - {"stablehlo.transpose"}


def test_gradients_come_back() -> None:
    def loss(w: Any, x: Any) -> Any:
        return tnf.sum(tnf.softmax(tnf.tanh(x @ w)) ** 2)

    w, x = np.random.default_rng(0).normal(size=(2, 4, 4))
    program = tnf.compile(tnf.value_and_grad(loss), w, x)
    text = lower_to_stablehlo(program).text
    again = import_stablehlo(text)
    for y, z in zip(flat(again.run(w, x)), flat(program.run(w, x)), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-14)
    assert statements(lower_to_stablehlo(again).text) == statements(text)
    forward = import_stablehlo(lower_to_stablehlo(tnf.compile(loss, w, x)))
    found = tnf.grad(lambda w: forward(w, x))(w)
    np.testing.assert_allclose(found, tnf.grad(loss)(w, x), rtol=1e-12)


def test_every_form_of_a_module() -> None:
    x = np.arange(3.0)
    module = lower_to_stablehlo(tnf.compile(lambda x: tnf.sin(x) * 2.0, x))
    for form in (module, module.text, module.bytecode(), module.portable_artifact()):
        np.testing.assert_array_equal(import_stablehlo(form).run(x), np.sin(x) * 2)


def test_paths_and_blobs(tmp_path: Path) -> None:
    x = np.arange(3.0, dtype="f4")
    module = lower_to_stablehlo(tnf.compile(lambda x: x + x, x))
    for name, content in (("m.mlir", module.text.encode()), ("m.mlirbc", module.bytecode())):
        (tmp_path / name).write_bytes(content)
        for path in (tmp_path / name, str(tmp_path / name)):
            np.testing.assert_array_equal(import_stablehlo(path).run(x), 2 * x)
    exported = jax.export.export(jax.jit(lambda x: jnp.sin(x)))(
        jax.ShapeDtypeStruct((3,), "float32")
    )
    np.testing.assert_allclose(import_stablehlo(exported.serialize()).run(x), np.sin(x), rtol=1e-6)
    with pytest.raises(FileNotFoundError):
        import_stablehlo(tmp_path / "none.mlir")
    with pytest.raises(errors.InvalidConfigError, match="takes text"):
        import_stablehlo(3)


# ---- JAX -----------------------------------------------------------------------------------------

JAX_CALLS: dict[str, Any] = {
    "top": lambda x, y: (jax.lax.sort((-x, x), num_keys=1), -jnp.sort(-x)[:, :2], jnp.argsort(y, descending=True)[:, :3]),
    "one element": lambda x, y: (jnp.reshape(x[:1, :1], ()), jnp.reshape(x[:1], (4, 1)), jnp.full((3,), 2.0) * y[0, :3]),
    "loop": lambda x, y: jax.lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) + i, x),
    "scan": lambda x, y: jax.lax.scan(lambda c, v: (c * 0.5 + v, c @ y), x[0], x),
    "choice": lambda x, y: (
        jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, y),
        jax.lax.switch(jnp.int32(y[0, 0]), [lambda v: v, lambda v: v + 1, lambda v: -v], x),
    ),
    "random": lambda x, y: jax.random.normal(jax.random.PRNGKey(3), (4,)) + x,
    "softmax": lambda x, y: jax.nn.softmax(x @ y),
    "layer norm": lambda x, y: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5),
    "cumulative": lambda x, y: (jnp.cumsum(x, 0), jnp.cumprod(y, 1), jax.lax.cummax(x, 1, reverse=True)),
    "sorts": lambda x, y: (jnp.sort(x, 0), jnp.argsort(y, 1), jax.lax.top_k(x, 2)),
    "descending": lambda x, y: jnp.sort(x, descending=True),
    "two keys": lambda x, y: jax.lax.sort((jnp.round(x), jnp.round(x.T), x), num_keys=2),
    "arguments": lambda x, y: (jnp.argmax(x, 1), jnp.argmin(y), jnp.nanmax(x)),
    "indices": lambda x, y: (x[jnp.array([2, 0, -1])], x.at[1].add(3.0), x[::-1, 1:3]),
    "norms": lambda x, y: (jnp.linalg.norm(x), jnp.var(x, 0), jnp.median(y)),
    "windows": lambda x, y: (
        jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 3), (1, 2), "SAME"),
        jax.lax.reduce_window(x, 0.0, jax.lax.add, (3, 1), (1, 1), ((2, 1), (0, 0)), (1, 2), (2, 1)),
    ),
    "pooling, gradient": lambda x, y: jax.grad(
        lambda x: (jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (2, 2), "VALID") ** 2).sum()
    )(x),
    "convolution": lambda x, y: jax.lax.conv_general_dilated(
        x[None, None], y[None, None, :2, :3], (1, 2), ((1, 0), (2, 1)), (2, 1), (1, 2)
    ),
    "special": lambda x, y: (jax.scipy.special.erf(x), jax.scipy.special.gammaln(y**2 + 1), jnp.arcsinh(x)),
    "conditions": lambda x, y: jnp.where(x > 0, jnp.clip(x, 0.1, 0.5), jnp.sign(y) * 2),
    "complex": lambda x, y: (jnp.fft.fft(x + 1j * y), jnp.abs(x + 1j * y), jnp.angle(x - 1j * y)),
    "integers": lambda x, y: (jnp.floor(x * 9).astype(int) // 3, jnp.floor(y * 9).astype(int) % 5),
    "pieces": lambda x, y: (jnp.concatenate([x, y], 1), jnp.pad(x, 1), jnp.tile(y, (2, 1)), jnp.roll(x, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", JAX_CALLS)
def test_what_jax_writes(name: str) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 4, 4))
    with jax.enable_x64(True):
        wanted = jax.tree_util.tree_leaves(jax.jit(JAX_CALLS[name])(x, y))
    program = xla_peer.from_jax(JAX_CALLS[name], x, y)
    found = jax.tree_util.tree_leaves(program.run(x, y))
    on_peer = jax.tree_util.tree_leaves(XLA.run(program, x, y))
    for a, b, c in zip(found, wanted, on_peer, strict=True):
        assert (a.shape, str(a.dtype)) == (b.shape, str(b.dtype))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(c, b, rtol=1e-9, atol=1e-12)


def test_trees_and_gradients_of_jax_functions() -> None:
    def model(p: Any, x: Any) -> Any:
        return {"y": jax.nn.gelu(x @ p["w"] + p["b"]), "parts": (x.sum(),)}

    rng = np.random.default_rng(0)
    p = {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}
    x = rng.normal(size=(4, 3))
    program = xla_peer.from_jax(model, p, x)
    with jax.enable_x64(True):
        wanted = jax.grad(lambda p: model(p, x)["y"].sum())(p)
    found = tnf.grad(lambda p: tnf.sum(program(p, x)["y"]))(p)
    for name in p:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-9)
    assert program.input_names == ("p['b']", "p['w']", "x")
    assert set(program.run(p, x)) == {"y", "parts"}


HARNESS = """
import pickle, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, jax
jax.config.update("jax_enable_x64", True)
import jax._src.internal_test_util.test_harnesses as harnesses
start, step = int(sys.argv[1]), int(sys.argv[2])
for harness in harnesses.all_harnesses[start::step]:
    try:
        arguments = harness.dyn_args_maker(np.random.RandomState(42))
        lowered = jax.jit(harness.dyn_fun, keep_unused=True).lower(*arguments)
        wanted = jax.tree_util.tree_leaves(lowered.compile()(*arguments))
    except Exception:
        continue
    given = [np.asarray(x) for x in jax.tree_util.tree_leaves(arguments)]
    case = (harness.fullname, harness.group_name, lowered.as_text(), given, list(map(np.asarray, wanted)))
    pickle.dump(case, sys.stdout.buffer)
"""
# Cases with an unstable sort are skipped, because elements that compare equal may be in any order.
UNSTABLE = ("isstable_False", "top_k_sort_inf_nan")
KNOWN: tuple[str, ...] = ()


def harness_failures(start: int, step: int) -> tuple[int, list[str]]:
    """Run JAX's own test cases of exported modules.

    Return their number, and the cases that failed unexpectedly.
    """
    import pickle

    child = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(start), str(step)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    count, failed = 0, []
    while True:
        try:
            name, group, text, given, wanted = pickle.load(
                child.stdout
            )  # the data is trusted: the child process has just written it
        except EOFError:
            break
        count += 1
        try:
            found = flat(import_stablehlo(text, trusted=True).run(*given))
        except errors.UnsupportedError as error:
            if not any(reason in str(error) for reason in KNOWN):
                failed.append(f"{name}: {error}")
            continue
        alike = UP_TO_PHASE.get(group, lambda found, wanted: all(map(near, found, wanted)))
        if not any(word in name for word in UNSTABLE) and not alike(found, wanted):
            failed.append(name)
    child.stdout.close()
    child.wait()
    return count, failed


def near_columns(found: Any, wanted: Any) -> bool:
    """Return whether the columns of two matrices are equal unit vectors, each up to a phase."""
    tolerance = 2e-3 if found.dtype.itemsize <= 8 and found.dtype != np.float64 else 1e-7
    along = np.abs(np.sum(found.conj() * wanted, axis=-2))
    return found.shape == wanted.shape and bool((np.abs(along - 1) < tolerance).all())


def near_spans(found: Any, wanted: Any, k: int) -> bool:
    """Return whether the first k columns agree, each up to a phase, and the other columns span the same space."""

    def projector(x: Any) -> Any:
        return x[..., k:] @ np.swapaxes(x[..., k:].conj(), -1, -2)

    return near_columns(found[..., :k], wanted[..., :k]) and near(
        projector(found), projector(wanted)
    )


def near_svd(found: list[Any], wanted: list[Any]) -> bool:
    """Compare singular values, and then singular vectors if there are any.

    Left singular vectors are columns, and right ones are rows.
    """
    k = wanted[0].shape[-1]
    turned = [(x if place == 0 else np.swapaxes(x, -1, -2)) for place, x in enumerate(found[1:])]
    others = [(x if place == 0 else np.swapaxes(x, -1, -2)) for place, x in enumerate(wanted[1:])]
    return near(found[0], wanted[0]) and all(
        near_spans(x, y, k) for x, y in zip(turned, others, strict=True)
    )


def near_eigen(found: list[Any], wanted: list[Any]) -> bool:
    """Compare eigenvalues and eigenvectors. The arrays with fewer axes are the eigenvalues."""
    least = min(x.ndim for x in wanted)
    return all(
        near(x, y) if y.ndim == least else near_columns(x, y)
        for x, y in zip(found, wanted, strict=True)
    )


UP_TO_PHASE = {"svd": near_svd, "eigh": near_eigen, "eig": near_eigen}
"""Functions that compare the results of cases with vectors. The phases of the vectors depend on the build of LAPACK."""


def near(found: Any, wanted: Any) -> bool:
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return False
    if found.dtype.kind in "biu":
        return bool((found == wanted).all())
    wide = complex if found.dtype.kind == "c" else float
    tolerance = {2: 0.05, 4: 2e-4}.get(found.dtype.itemsize // (2 if wide is complex else 1), 1e-9)
    a, b = found.astype(wide), wanted.astype(wide)
    size = max(1.0, np.max(np.abs(b), initial=0, where=np.isfinite(b)))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * size, equal_nan=True))


def test_some_of_jax_harnesses() -> None:
    count, failed = harness_failures(7, 151)
    assert count > 40
    assert failed == []


@pytest.mark.sweep
def test_all_of_jax_harnesses() -> None:
    count, failed = harness_failures(0, 1)
    assert count > 7000
    assert failed == []


# ---- operations without a counterpart, and files that are not modules -----------------------------------

REFUSED: dict[str, tuple[str, type[Exception], str]] = {
    "an unknown target": (
        "%0 = stablehlo.custom_call @mystery(%x) : (tensor<3xf32>) -> tensor<3xf32>",
        errors.UnsupportedError,
        "mystery",
    ),
    "state": (
        "%l = stablehlo.constant dense<0.0> : tensor<f32> %h = stablehlo.constant dense<1.0> : tensor<f32> %s = stablehlo.constant dense<3> : tensor<1xi64> "
        "%0 = stablehlo.rng %l, %h, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>",
        errors.UnsupportedError,
        "stablehlo.rng",
    ),
}  # fmt: skip
HEAD = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
TAIL = "\nreturn %0 : tensor<3xf32>\n}"


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_operation_and_place(name: str) -> None:
    body, kind, match = REFUSED[name]
    with pytest.raises(kind, match=match) as caught:
        import_stablehlo(HEAD + body + TAIL)
    assert re.search(r":2\b", str(caught.value))


def test_brackets_in_strings_and_comments_nest_nothing() -> None:
    sharding = '{mhlo.sharding = "{devices=[1,1]<=[1]}", t.a = "\\22((<{[\\\\"}'
    lines = [
        f'%{i + 1} = stablehlo.negate %{i} {sharding} : tensor<3xf32> // ((< " {{['
        for i in range(DEEPEST + 1)
    ]
    body = "\n".join(["%0 = stablehlo.sine %x : tensor<3xf32>", *lines])
    program = import_stablehlo(HEAD + body + TAIL.replace("%0", f"%{DEEPEST + 1}"))
    np.testing.assert_allclose(program.run(np.ones(3, "f4")), -np.sin(np.ones(3, "f4")), rtol=1e-6)
    deep = "(" * (DEEPEST + 1) + ")" * (DEEPEST + 1)
    for hidden in (f'// "\n{deep}', f'"//"{deep}', f'"\\\\"{deep}"'):
        with pytest.raises(errors.InvalidConfigError, match="deep"):
            import_stablehlo(HEAD + hidden + TAIL)


def test_modules_that_are_none() -> None:
    good = HEAD + "%0 = stablehlo.sine %x : tensor<3xf32>" + TAIL
    with pytest.raises(MlirDiagnosticError):
        import_stablehlo(good[:-10])
    with pytest.raises(MlirDiagnosticError):
        import_stablehlo(b"\x00\x01\xff\xfe")
    with pytest.raises(errors.InvalidConfigError, match="no function @other"):
        import_stablehlo(good, function="other")
    nested = "(" * (DEEPEST + 1) + ")" * (DEEPEST + 1)
    with pytest.raises(errors.InvalidConfigError, match="deep"):
        import_stablehlo(good + nested)
    calls = "\n".join(
        f"func.func private @f{i}(%x: tensor<3xf32>) -> tensor<3xf32> {{ %0 = func.call @f{i + 1}(%x) : (tensor<3xf32>) -> tensor<3xf32> return %0 : tensor<3xf32> }}"
        for i in range(200)
    )
    with pytest.raises(errors.InvalidConfigError, match="nested more than"):
        import_stablehlo(
            calls
            + "\nfunc.func private @f200(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }\n"
            + HEAD
            + "%0 = func.call @f0(%x) : (tensor<3xf32>) -> tensor<3xf32>"
            + TAIL
        )


MUTATE = """
import sys
import numpy as np
from lowering import import_stablehlo, importing, lower_to_stablehlo
from tenferro.errors import TenferroError
import tenferro as tnf

def fn(x, y):
    z = tnf.softmax(x @ y)
    return tnf.sort(z), tnf.cumulative_sum(z, axis=0), z[np.array([1, 0])], tnf.erf(z)

x = np.ones((3, 4), "f4")
module = lower_to_stablehlo(tnf.compile(fn, x, x.T.copy()))
rng = np.random.default_rng(int(sys.argv[1]))
seen = 0
forms = (module.text.encode(), module.bytecode(), module.portable_artifact())
for form, many in zip(forms, (20, 1, 1)):
    for _ in range(many * int(sys.argv[2])):
        data = bytearray(form)
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(len(data)))
            kind = rng.integers(4)
            if kind == 0:
                data[place] = int(rng.integers(256))
            elif kind == 1:
                del data[place : place + int(rng.integers(1, 20))]
            elif kind == 2:
                data[place:place] = data[int(rng.integers(len(data))):][:int(rng.integers(1, 30))]
            else:
                del data[place:]
            if not data:
                data = bytearray(b" ")
        try:
            import_stablehlo(bytes(data))
        except (TenferroError, UnicodeDecodeError) as error:
            seen += 1
print("survived", seen)
"""


@pytest.mark.parametrize("rounds", ["3", pytest.param("20", marks=pytest.mark.sweep)])
def test_mutated_modules_are_errors_or_programs(rounds: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MUTATE, "0", rounds],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert "survived" in done.stdout, (done.returncode, done.stderr[-2000:])


# ---- loops ---------------------------------------------------------------------------------------


def recurrent(w: Any, h: Any, xs: Any) -> Any:
    """Return the text of a function as JAX lowers it.

    The function has a conditional in a reverse scan in a counting loop.
    """

    def turn(h: Any, x: Any) -> Any:
        after = jax.lax.cond(x[0] > 0, lambda v: jnp.tanh(w @ v), lambda v: v - x, h)
        return after, jnp.sum(after * x)

    def again(i: Any, h: Any) -> Any:
        last, sums = jax.lax.scan(turn, h, xs, reverse=True)
        return last + jnp.sum(sums) * i

    return jnp.sum(jax.lax.fori_loop(0, 3, again, h) ** 2)


def test_jaxs_loops_are_scans_and_have_gradients() -> None:
    generator = np.random.default_rng(0)
    shapes = [(3, 3), (3,), (4, 3)]
    args = [(generator.normal(size=shape) * 0.4).astype(np.float32) for shape in shapes]
    program = xla_peer.from_jax(recurrent, *args)
    (loop,) = [step.op for step in program.instructions if isinstance(step.op, Scan)]
    assert loop.length == 3
    inner = [step.op for step in loop.body.program.instructions if isinstance(step.op, Scan)]
    assert [(op.length, op.reverse) for op in inner] == [(4, True)]
    np.testing.assert_allclose(program.run(*args), recurrent(*args), rtol=1e-5)
    expected = jax.grad(recurrent, (0, 1, 2))(*args)
    for y, z in zip(tnf.grad(program, (0, 1, 2))(*args), expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-6)
    text = lower_to_stablehlo(program).text
    again = import_stablehlo(text)
    assert lower_to_stablehlo(again).text == text
    np.testing.assert_array_equal(again.run(*args), program.run(*args))
    np.testing.assert_allclose(XLA.run(program, *args), program.run(*args), rtol=1e-5)


def test_a_loop_that_the_data_decide_is_a_while() -> None:
    def fn(x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s[1] < 100.0, lambda s: (s[0] + 1, s[1] * 2.0), (0, x))

    three = np.float32(3.0)
    program = xla_peer.from_jax(fn, three)
    assert [step.op.name for step in program.instructions].count("While") == 1
    assert [np.asarray(y).item() for y in program.run(three)] == [6, 192.0]
    (_, y_dot) = tnf.jvp(lambda x: program(x)[1], (three,), (np.float32(1.0),))
    assert y_dot == 64.0


COUNTING = """
func.func @main(%start: tensor<i32>, %x: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {{
  %c0 = stablehlo.constant dense<{first}> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c0, %a = %x) : tensor<i32>, tensor<4xf32>
   cond {{
    %n = stablehlo.constant dense<{bound}> : tensor<i32>
    %1 = stablehlo.compare {direction}, {sides} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{
    %s = stablehlo.constant dense<{step}> : tensor<i32>
    %2 = stablehlo.{op} %i, %s : tensor<i32>
    %3 = stablehlo.add %a, %a : tensor<4xf32>
    stablehlo.return %2, %3 : tensor<i32>, tensor<4xf32>
  }}
  return %0#0, %0#1 : tensor<i32>, tensor<4xf32>
}}
"""


@pytest.mark.parametrize("first", [-3, 0, 4])
@pytest.mark.parametrize("bound", [-7, 0, 4, 9])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_every_way_of_counting(first: int, bound: int, step: int) -> None:
    ways = [("LT", False, "add"), ("LE", False, "add"), ("GT", True, "add"), ("GE", True, "add"),
            ("GT", False, "subtract"), ("GE", False, "subtract"), ("LT", True, "subtract"),
            ("NE", False, "add"), ("NE", True, "subtract")]  # fmt: skip
    holds = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
             "NE": operator.ne}  # fmt: skip
    for direction, flipped, op in ways:
        moved = step if op == "add" else -step
        i, iterations = first, 0
        while (
            holds[direction](bound, i) if flipped else holds[direction](i, bound)
        ) and iterations < 20:
            i, iterations = i + moved, iterations + 1
        if iterations == 20:
            continue  # because the counter would overflow int32
        sides = "%n, %i" if flipped else "%i, %n"
        text = COUNTING.format(
            first=first, bound=bound, direction=direction, sides=sides, step=step, op=op
        )
        program = import_stablehlo(text)
        (loop,) = [s.op for s in program.instructions if isinstance(s.op, Scan)]
        assert loop.length == iterations
        last, y = program.run(np.int32(0), np.ones(4, np.float32))
        assert (last, y[0]) == (i, 2.0**iterations)


INDEXED = """
func.func @main(%x: tensor<5xf32>) -> tensor<f32> {{
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %a0 = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = stablehlo.while(%i = %c0, %a = %a0) : tensor<i32>, tensor<f32>
   cond {{
    %n = stablehlo.constant dense<5> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %k = stablehlo.constant dense<{k}> : tensor<i32>
    %m = stablehlo.constant dense<{m}> : tensor<i32>
    {index} : tensor<i32>
    %2 = stablehlo.dynamic_slice %x, %j, sizes = [1] : (tensor<5xf32>, tensor<i32>) -> tensor<1xf32>
    %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
    %4 = stablehlo.add %a, %a : tensor<f32>
    %5 = stablehlo.add %4, %3 : tensor<f32>
    %6 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %6, %5 : tensor<i32>, tensor<f32>
  }}
  return %0#1 : tensor<f32>
}}
"""
IN = "(tensor<i32>, tensor<i32>) -> tensor<i1>"
INDICES: dict[str, tuple[str, int, int, Any]] = {
    "minimum": ("stablehlo.minimum %i, %k", 4, 0, lambda i, k, m: min(i, k)),
    "minimum that is reached": ("stablehlo.minimum %k, %i", 3, 0, lambda i, k, m: min(i, k)),
    "maximum": ("stablehlo.maximum %k, %i", 0, 0, lambda i, k, m: max(i, k)),
    "maximum that is reached": ("stablehlo.maximum %i, %k", 1, 0, lambda i, k, m: max(i, k)),
    "clamp": ("stablehlo.clamp %k, %i, %m", 0, 4, lambda i, k, m: min(max(i, k), m)),
    "clamp from below": ("stablehlo.clamp %k, %i, %m", 1, 4, lambda i, k, m: min(max(i, k), m)),
    "clamp from above": ("stablehlo.clamp %k, %i, %m", 0, 3, lambda i, k, m: min(max(i, k), m)),
    "multiply": ("stablehlo.multiply %i, %k", 1, 0, lambda i, k, m: i * k),
    "multiply by zero": ("stablehlo.multiply %k, %i", 0, 0, lambda i, k, m: 0),
    "square": ("stablehlo.multiply %i, %i", 0, 0, lambda i, k, m: min(i * i, 4)),
    "backwards": ("stablehlo.subtract %k, %i", 4, 0, lambda i, k, m: k - i),
    "add": ("stablehlo.add %i, %k", 0, 0, lambda i, k, m: i),
    "negate": ("stablehlo.negate %i : tensor<i32>\n    %j = stablehlo.add %v, %k", 4, 0, lambda i, k, m: 4 - i),
    "convert": (
        "stablehlo.convert %i : (tensor<i32>) -> tensor<i64>\n    %w = stablehlo.convert %v : (tensor<i64>) -> tensor<i32>"
        "\n    %j = stablehlo.add %w, %k", 0, 0, lambda i, k, m: i,
    ),
    "beyond": ("stablehlo.add %i, %k", 1, 0, lambda i, k, m: min(i + k, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_slices_that_a_loop_goes_along(name: str) -> None:
    index, k, m, definition = INDICES[name]
    index = ("%v = " if "%j" in index else "%j = ") + index
    program = import_stablehlo(INDEXED.format(index=index, k=k, m=m))
    (loop,) = [s.op for s in program.instructions if isinstance(s.op, Scan)]
    places = [definition(i, k, m) for i in range(5)]
    x = np.array([1, 3, 9, 27, 81], np.float32)
    total = 0.0
    for place in places:
        total = 2 * total + x[place]
    assert program.run(x) == total
    gone_along = len(loop.body.program.input_slots) - loop.num_consts - loop.num_carry
    assert gone_along == (places in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]))
    assert loop.reverse == (places == [4, 3, 2, 1, 0])


COMPARED = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
            "EQ": operator.eq, "NE": operator.ne}  # fmt: skip


@pytest.mark.parametrize("direction", COMPARED)
def test_indices_that_are_chosen_are_known_where_the_choice_is(direction: str) -> None:
    """The loop reads x[i] if `i direction m` is true, else x[4 - i].

    If the comparison has the same value in all iterations, the imported scan must read slices of x.
    """
    chosen = "stablehlo.subtract %k, %i : tensor<i32>\n    %w = stablehlo.compare {}, %i, %m : {}"
    chosen += "\n    %j = stablehlo.select %w, %i, %v : tensor<i1>, tensor<i32>"
    x = np.array([1, 3, 9, 27, 81], np.float32)
    for m in range(-1, 6):
        text = INDEXED.replace("{index} : tensor<i32>", "%v = " + chosen.format(direction, IN))
        program = import_stablehlo(text.format(k=4, m=m))
        (loop,) = [s.op for s in program.instructions if isinstance(s.op, Scan)]
        choices = [COMPARED[direction](i, m) for i in range(5)]
        total = 0.0
        for i, choice in enumerate(choices):
            total = 2 * total + x[i if choice else 4 - i]
        assert program.run(x) == total
        gone_along = len(loop.body.program.input_slots) - loop.num_consts - loop.num_carry
        assert gone_along == (len(set(choices)) == 1)
        assert loop.reverse == (not any(choices))


def test_a_window_that_does_not_cover_the_whole_stays_a_carry() -> None:
    def partly(xs: Any) -> Any:
        def turn(i: Any, s: Any) -> Any:
            total, out = s
            return total + xs[i + 1], out.at[i + 2].set(total)

        return jax.lax.fori_loop(0, 3, turn, (jnp.zeros(2), jnp.ones((7, 2))))

    xs = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    program = xla_peer.from_jax(partly, xs)
    for y, z in zip(program.run(xs), partly(jnp.asarray(xs)), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-6)
    ours = tnf.grad(lambda x: tnf.sum(tnf.sin(program(x)[0])) + tnf.sum(program(x)[1] ** 2))(xs)
    theirs = jax.grad(lambda x: jnp.sum(jnp.sin(partly(x)[0])) + jnp.sum(partly(x)[1] ** 2))(xs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


HANDED_THROUGH = """
module @handed {
  func.func public @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
    %n = stablehlo.constant dense<3> : tensor<i64>
    %any = stablehlo.convert %x : (tensor<3x4xf32>) -> tensor<?x4xf32>
    %0 = call @inner(%n, %any) : (tensor<i64>, tensor<?x4xf32>) -> tensor<?x4xf32>
    %1 = stablehlo.convert %0 : (tensor<?x4xf32>) -> tensor<3x4xf32>
    return %1 : tensor<3x4xf32>
  }
  func.func private @inner(%n: tensor<i64>, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
    %four = stablehlo.constant dense<4> : tensor<1xi64>
    %1 = stablehlo.concatenate %0, %four, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %2 = stablehlo.dynamic_broadcast_in_dim %one, %1, dims = [] : (tensor<f32>, tensor<2xi64>) -> tensor<?x4xf32>
    %3 = stablehlo.add %x, %2 : tensor<?x4xf32>
    return %3 : tensor<?x4xf32>
  }
}
"""


def test_extents_that_calls_hand_through_are_known() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(import_stablehlo(HANDED_THROUGH).run(x), x + 1)
    unknown = HANDED_THROUGH.replace("%x: tensor<3x4xf32>)", "%x: tensor<?x4xf32>)").replace(
        "convert %x : (tensor<3x4xf32>)", "convert %x : (tensor<?x4xf32>)"
    )
    program = import_stablehlo(unknown)
    assert str(program.input_specs) == "(f32[x0_0,4],)"
    np.testing.assert_array_equal(program.run(x), x + 1)


TURNS_OF_THREE = """
func.func @main(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {{
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %row = stablehlo.constant dense<7.0> : tensor<1xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3xf32>
  %0:3 = stablehlo.while(%i = %c0, %s = %zeros, %o = %zeros)
    : tensor<i32>, tensor<3xf32>, tensor<3xf32>
   cond {{
    %1 = stablehlo.compare LT, %i, %c3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{
    %next = stablehlo.add %i, %c1 : tensor<i32>
    {turn}
    stablehlo.return %next, %t, {second} : tensor<i32>, tensor<3xf32>, tensor<3xf32>
  }}
  return %0#1, %0#2 : tensor<3xf32>, tensor<3xf32>
}}
"""
WRITES_A_ROW = """%t = stablehlo.dynamic_update_slice %s, %row, %i
      : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>"""
READS_A_ROW = """%r = stablehlo.dynamic_slice %a, {at}, sizes = [1]
      : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
    %v = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<1xf32>) -> tensor<3xf32>
    %d = stablehlo.add %s, %s : tensor<3xf32>
    %t = stablehlo.add %d, %v : tensor<3xf32>"""
ONE_BEFORE = """%b = stablehlo.convert %c2 : (tensor<i32>) -> tensor<i1>
    %k = stablehlo.convert %b : (tensor<i1>) -> tensor<i32>
    %j = stablehlo.add %i, %k : tensor<i32>
    %at = stablehlo.subtract %j, %c2 : tensor<i32>
    """


@pytest.mark.parametrize(
    ("turn", "second", "expected"),
    [
        (WRITES_A_ROW, "%t", ([7, 7, 7], [7, 7, 7])),
        (WRITES_A_ROW, "%s", ([7, 7, 7], [7, 7, 0])),
        (READS_A_ROW.format(at="%i"), "%a", ([11, 11, 11], [1, 2, 3])),
        (ONE_BEFORE + READS_A_ROW.format(at="%at"), "%o", ([8, 8, 8], [0, 0, 0])),
    ],
    ids=[
        "written and handed on",
        "old and handed on",
        "read and handed on",
        "a bool of two is one",
    ],
)
def test_what_is_handed_on_whole_is_neither_cut_nor_stacked(
    turn: str, second: str, expected: Any
) -> None:
    program = import_stablehlo(TURNS_OF_THREE.format(turn=turn, second=second))
    found = program.run(np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(found, expected)


# ---- the reader --------------------------------------------------------------------------------------


def called_in_a_row(count: int) -> str:
    """Return functions f1 .. f`count`, each of which calls the next.

    The function `main` calls the last of them, and then the first.
    """
    head = "func.func private @f{}(%x: tensor<3xf32>) -> tensor<3xf32> {{ "
    call = "%0 = func.call @f{}(%x) : (tensor<3xf32>) -> tensor<3xf32> "
    calls = [f"{head.format(i)}{call.format(i + 1)}return %0 : tensor<3xf32> }}" for i in range(1, count)]  # fmt: skip
    last = (
        f"{head.format(count)}%0 = stablehlo.negate %x : tensor<3xf32> return %0 : tensor<3xf32> }}"
    )
    twice = call.format(count).replace("%0", "%a") + call.format(1)
    return "\n".join([*calls, last, HEAD + twice + TAIL])


def test_calls_are_nested_128_deep_and_no_deeper() -> None:
    x = np.arange(3, dtype="f4")
    np.testing.assert_array_equal(import_stablehlo(called_in_a_row(128), trusted=True).run(x), -x)
    with pytest.raises(
        errors.InvalidConfigError, match=r"@f129: calls are nested more than 128 deep"
    ):
        import_stablehlo(called_in_a_row(129), trusted=True)


def test_as_many_operations_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit must count the operations in regions and in called functions, but not terminators."""
    body = (
        "%a = func.call @f(%x) : (tensor<3xf32>) -> tensor<3xf32> "
        "%b = func.call @f(%a) : (tensor<3xf32>) -> tensor<3xf32> %0 = stablehlo.sine %b : tensor<3xf32>"
    )
    text = f"""{HEAD}{body}{TAIL}
func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %0 = stablehlo.cosine %x : tensor<3xf32>
  %1 = stablehlo.tan %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}}"""
    monkeypatch.setattr(importing, "_largest", lambda tree: 7)
    assert len(import_stablehlo(text).instructions) == 5
    monkeypatch.setattr(importing, "_largest", lambda tree: 6)
    with pytest.raises(errors.InvalidConfigError, match="more than 6 operations once its calls"):
        import_stablehlo(text)


def malformed(error: Exception) -> Any:
    def read(r: Any, operation: Any, operands: Any) -> Any:
        raise error

    return read


@pytest.mark.parametrize(
    "error",
    [
        LookupError("a"), KeyError("a"), IndexError("a"), TypeError("a"), ValueError("a"),
        ArithmeticError("a"), ZeroDivisionError("a"), OverflowError("a"), AttributeError("a"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_an_operation_s_attributes_do_to_its_reader(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READERS, "stablehlo.sine", malformed(error))
    text = HEAD + "%0 = stablehlo.sine %x : tensor<3xf32>" + TAIL
    with pytest.raises(errors.InvalidConfigError) as caught:
        import_stablehlo(text)
    message = f"stablehlo.sine is malformed: {type(error).__name__}: {error}"
    assert message in str(caught.value)
    assert "-:2" in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("results", "match"),
    [
        (lambda x, y: [x, y], "stablehlo.sine gives 2 results, and declares 1"),
        (lambda x, y: [], "stablehlo.sine gives 0 results, and declares 1"),
        (lambda x, y: y, r"stablehlo.sine: read as f32\[1\], and declared as f32\[3\]"),
        (lambda x, y: [y], r"stablehlo.sine: read as f32\[1\], and declared as f32\[3\]"),
    ],
)
def test_readers_that_give_something_else(
    results: Any, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(r: Any, operation: Any, operands: Any) -> Any:
        return results(operands[0], r.slice(operands[0], 0, 0, 1))

    monkeypatch.setitem(READERS, "stablehlo.sine", read)
    text = HEAD + "%0 = stablehlo.sine %x : tensor<3xf32>" + TAIL
    with pytest.raises(errors.InvalidConfigError, match=rf"{match}\s+at -:2"):
        import_stablehlo(text)


@pytest.mark.parametrize(
    ("location", "source", "place"),
    [
        ('loc("-":2:8)', ("<stablehlo>", 2), "-:2"),
        ('loc("net.py":31:8)', ("net.py", 31), "net.py:31"),
        ('loc("block"("net.py":31:8))', ("net.py", 31), "net.py:31"),
        ('loc(callsite("inner.py":5:1 at "outer.py":9:2))', ("inner.py", 5), "inner.py:5"),
        ('loc("block")', None, '"block"'),
        ("loc(unknown)", None, ""),
    ],
)
def test_places_that_locations_name(location: str, source: Any, place: str) -> None:
    text = HEAD + f"%0 = stablehlo.sine %x : tensor<3xf32> {location}" + TAIL
    (step,) = import_stablehlo(text).instructions
    assert step.source is not None
    if source is None:  # without a location in the module, the source is the line of the import
        assert step.source.file == __file__
    else:
        shown = (step.source.file, step.source.line, step.source.function)
        assert shown == (*source, "")
    refused = text.replace("stablehlo.sine %x", "stablehlo.custom_call @mystery(%x)")
    refused = refused.replace(": tensor<3xf32> loc", ": (tensor<3xf32>) -> tensor<3xf32> loc")
    with pytest.raises(errors.UnsupportedError) as caught:
        import_stablehlo(refused)
    shown = str(caught.value)
    assert shown.startswith(
        f"custom_call @mystery ({place}):" if place else "custom_call @mystery:"
    )
    assert shown.endswith(f"at {place}" if place else "a Python function")


@pytest.mark.parametrize(
    ("before", "after", "ops"),
    [
        ((6,), (6,), ""), ((2, 3), (2, 3), ""),
        ((6,), (6, 1), "Reshape"), ((1, 6), (6,), "Reshape"), ((2, 3), (2, 1, 3), "Reshape"),
        ((1, 2, 3, 1), (2, 3), "Reshape"), ((1,), (), "Reshape"), ((), (1, 1), "Reshape"),
        ((6,), (2, 3), "Reshape Transpose"), ((1, 6), (2, 3), "Reshape Transpose"),
        ((2, 3), (6,), "Transpose Reshape"), ((2, 3), (6, 1), "Transpose Reshape"),
        ((2, 3), (3, 2), "Transpose Reshape Transpose"),
        ((2, 3, 2), (3, 4), "Transpose Reshape Transpose"), ((0, 2), (3, 0), "Transpose Reshape Transpose"),
        ((2, 2), (2, 1, 2), "Reshape"), ((0,), (0, 2), "Reshape Transpose"),
    ],
)  # fmt: skip
def test_reshapes_turn_only_what_is_no_row(before: Any, after: Any, ops: str) -> None:
    """A reshape of tenferro is column-major, and StableHLO's is row-major.

    Both agree if at most one extent is not 1. Else the import must add transposes.
    """
    kinds = ["x".join([*map(str, shape), "f32"]) for shape in (before, after)]
    program = import_stablehlo(
        f"func.func @main(%x: tensor<{kinds[0]}>) -> tensor<{kinds[1]}> {{\n"
        f"%0 = stablehlo.reshape %x : (tensor<{kinds[0]}>) -> tensor<{kinds[1]}>\n"
        f"return %0 : tensor<{kinds[1]}>\n}}"
    )
    assert [step.op.name for step in program.instructions] == ops.split()
    x = np.arange(np.prod(before), dtype="f4").reshape(before)
    np.testing.assert_array_equal(program.run(x), x.reshape(after))


SAME: dict[str, tuple[str, str]] = {
    "transpose": ("3x2xf32", "stablehlo.transpose %x, dims = [0, 1] : (tensor<3x2xf32>) -> tensor<3x2xf32>"),
    "convert": ("3xf32", "stablehlo.convert %x : tensor<3xf32>"),
    "convert, complex": ("3xcomplex<f32>", "stablehlo.convert %x : tensor<3xcomplex<f32>>"),
    "bitcast": ("3xf32", "stablehlo.bitcast_convert %x : (tensor<3xf32>) -> tensor<3xf32>"),
    "bitcast of bools": ("3xi1", "stablehlo.bitcast_convert %x : (tensor<3xi1>) -> tensor<3xi1>"),
    "reverse": ("3xf32", "stablehlo.reverse %x, dims = [] : tensor<3xf32>"),
    "real": ("3xf32", "stablehlo.real %x : tensor<3xf32>"),
    "conjugate": ("3xf32", "chlo.conj %x : tensor<3xf32> -> tensor<3xf32>"),
    "reduce": (
        "3xf32",
        "stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [] : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>",
    ),
    "window": (
        "3xf32",
        '"stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>",
    ),
    "sharding": ("3xf32", "stablehlo.custom_call @Sharding(%x) : (tensor<3xf32>) -> tensor<3xf32>"),
    "dynamic slice of a number": ("f32", '"stablehlo.dynamic_slice"(%x) <{slice_sizes = array<i64>}> : (tensor<f32>) -> tensor<f32>'),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_operations_that_change_nothing_are_no_ops(name: str) -> None:
    kind, operation = SAME[name]
    program = import_stablehlo(
        f"func.func @main(%x: tensor<{kind}>) -> tensor<{kind}> {{\n"
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"%0 = {operation}\nreturn %0 : tensor<{kind}>\n}}"
    )
    assert [step.op.name for step in program.instructions] == []


@pytest.mark.parametrize("count", [1024, 1025])
def test_constants_of_many_equal_elements_are_spread(count: int) -> None:
    """A constant of up to 1024 equal elements must remain a constant, even in a region.

    A larger one must become a broadcast scalar.
    """
    kind = f"tensor<{count}xf32>"
    constants = (
        f"%c = stablehlo.constant dense<2.5> : {kind} "
        f"%d = stablehlo.iota dim = 0 : {kind} %e = stablehlo.constant dense<0> : tensor<i32> "
    )
    text = (
        f"func.func @main(%x: {kind}, %k: tensor<i32>) -> {kind} {{\n{constants}\n"
        f'%0 = "stablehlo.case"(%k) ({{ %1 = stablehlo.add %x, %c : {kind} stablehlo.return %1 : {kind} }}, '
        f"{{ %1 = stablehlo.multiply %x, %c : {kind} stablehlo.return %1 : {kind} }}) : (tensor<i32>) -> {kind}\n"
        f"return %0 : {kind}\n}}"
    )
    program = import_stablehlo(text)
    x = np.arange(count, dtype="f4")
    for k, wanted in enumerate((x + 2.5, x * 2.5)):
        np.testing.assert_array_equal(program.run(x, np.int32(k)), wanted)
    (choice,) = [step for step in program.instructions if step.op.name == "Cond"]
    assert len(choice.inputs) == (2 if count == 1024 else 3)
    assert ("BroadcastInDim" in [step.op.name for step in program.instructions]) == (count > 1024)


REGIONS: dict[str, tuple[str, Any]] = {
    "a call": (
        "%r = func.call @half_of_sum(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>",
        lambda x, y: (x + y) / 2,
    ),
    "a call with a number": (
        "%c = stablehlo.constant dense<3.0> : tensor<f32> "
        "%r = func.call @half_of_sum(%c, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>",
        lambda x, y: (3 + y) / 2,
    ),
    "a number alone": (
        "%r = stablehlo.constant dense<3.0> : tensor<f32>", lambda x, y: np.full_like(x, 3)
    ),
    "numbers among themselves": (
        "%c = stablehlo.constant dense<3.0> : tensor<f32> %d = stablehlo.multiply %c, %c : tensor<f32> "
        "%r = stablehlo.subtract %q, %d : tensor<f32>",
        lambda x, y: y - 9,
    ),
    "one from outside": ("%r = stablehlo.subtract %k, %p : tensor<f32>", lambda x, y: 7 - x),
    "an argument": ("%r = stablehlo.optimization_barrier %q : tensor<f32>", lambda x, y: y),
}  # fmt: skip


@pytest.mark.parametrize("name", REGIONS)
def test_regions_of_maps(name: str) -> None:
    region, definition = REGIONS[name]
    text = f"""func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %k: tensor<f32>) -> tensor<2x3xf32> {{
  %0 = "stablehlo.map"(%x, %y) <{{dimensions = array<i64: 0, 1>}}> ({{ ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    {region}
    stablehlo.return %r : tensor<f32> }}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}}
func.func private @half_of_sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
  %h = stablehlo.constant dense<0.5> : tensor<f32>
  %s = stablehlo.add %a, %b : tensor<f32>
  %t = stablehlo.multiply %h, %s : tensor<f32>
  return %t : tensor<f32>
}}"""
    x, y = np.arange(12, dtype="f4").reshape(2, 2, 3)
    np.testing.assert_array_equal(import_stablehlo(text).run(x, y, np.float32(7)), definition(x, y))


@pytest.mark.parametrize(
    ("region", "match"),
    [
        ("%t = stablehlo.reshape %p : (tensor<f32>) -> tensor<1xf32> "
         "%r = stablehlo.reshape %t : (tensor<1xf32>) -> tensor<f32>", "stablehlo.reshape"),
        ("%t = stablehlo.constant dense<1.0> : tensor<2xf32> %i = stablehlo.constant dense<1> : tensor<i32> "
         "%u = stablehlo.dynamic_slice %t, %i, sizes = [1] : (tensor<2xf32>, tensor<i32>) -> tensor<1xf32> "
         "%r = stablehlo.reshape %u : (tensor<1xf32>) -> tensor<f32>", "stablehlo.constant"),
        ("%c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1> "
         '%r = "stablehlo.if"(%c) ({ stablehlo.return %p : tensor<f32> }, { stablehlo.return %q : tensor<f32> }) '
         ": (tensor<i1>) -> tensor<f32>", "stablehlo.if"),
    ],
)  # fmt: skip
def test_regions_that_do_more_than_compute_elements(region: str, match: str) -> None:
    text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %0 = "stablehlo.map"(%x, %x) <{{dimensions = array<i64: 0>}}> ({{ ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    {region}
    stablehlo.return %r : tensor<f32> }}) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}}"""
    with pytest.raises(errors.UnsupportedError, match=rf"a region with {match}\s+at -:3"):
        import_stablehlo(text)
