"""Modules with dynamic extents, as JAX exports them, must become programs with symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, importing
from tenferro import errors
from tenferro.dims import Symbol

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

S = tnf.TensorSpec
W = np.linspace(-1, 1, 12).reshape(3, 4).astype("f4")


def exported(fn: Any, *specs: tnf.TensorSpec) -> str:
    scope = jax.export.SymbolicScope()
    shapes = [
        jax.ShapeDtypeStruct(
            jax.export.symbolic_shape("".join(f"{n}, " for n in spec.shape), scope=scope)
            if spec.shape
            else (),
            spec.dtype.dtype,
        )
        for spec in specs
    ]
    return jax.export.export(jax.jit(fn))(*shapes).mlir_module()


def some(spec: tnf.TensorSpec, **sizes: int) -> Any:
    bindings = {Symbol(name): size for name, size in sizes.items()}
    shape = [n if isinstance(n, int) else n.evaluate(bindings) for n in spec.shape]
    rng = np.random.default_rng(sum(sizes.values()))
    return rng.standard_normal(shape).astype(spec.dtype.dtype)


B3 = S(("b", 3), "f4")
CASES: dict[str, tuple[Any, tuple[tnf.TensorSpec, ...]]] = {
    "matmul and mean": (lambda w, x: jnp.tanh(x @ w + 1).mean(0), (S((3, 4), "f4"), B3)),
    "two arguments": (lambda x, y: jnp.mean((x - y) ** 2), (B3, B3)),
    "gradient": (lambda w, x: jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), (S((3, 4), "f4"), B3)),
    "softmax": (lambda x: jax.nn.softmax(x), (B3,)),
    "counts": (lambda x: x * jnp.arange(x.shape[0], dtype="float32")[:, None], (B3,)),
    "reshape": (lambda x: jnp.reshape(jnp.concatenate([x, x]), (-1, 2, 3)).sum(1), (B3,)),
    "pad": (lambda x: jnp.pad(x, ((1, x.shape[0]), (0, 0))), (B3,)),
    "slices": (lambda x: (x[1:-1], x[::2], x[::-1], x[: x.shape[0] // 2]), (B3,)),
    "running sum": (lambda x: jnp.cumsum(x, 0), (B3,)),
    "sort": (lambda x: jnp.sort(x, 0), (B3,)),
    "outer": (lambda x, y: x[:, None] * y[None, :], (S(("b",), "f4"), S(("c",), "f4"))),
    "loop": (
        lambda x: jax.lax.scan(lambda c, t: (c + t, c * 2), jnp.zeros(3, "float32"), x),
        (B3,),
    ),
    "captured extent": (
        lambda x: jax.lax.fori_loop(
            0, 3, lambda i, y: y + jnp.zeros(x.shape, x.dtype) + x.mean(), x
        ),
        (B3,),
    ),
    "pooling": (
        lambda x: jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        ),
        (S(("b", 4, 4, 2), "f4"),),
    ),
    "multiples": (lambda x: x.reshape(-1, 2, 3).sum(1), (S((2 * tnf.SymDim("b"), 3), "f4"),)),
    "a triangle of equal extents": (lambda x: jnp.tril(x), (S(("b", "b"), "f4"),)),
    "first of the largest": (lambda x: jnp.argmax(x, 0), (B3,)),
    "two largest": (lambda x: jax.lax.top_k(x, 2), (S((3, tnf.SymDim("b") + 2), "f4"),)),
    "largest half": (lambda x: jax.lax.top_k(x, (x.shape[1] + 1) // 2), (S((3, "b"), "f4"),)),
    "gradient of a maximum of windows": (
        jax.grad(
            lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2,), (2,), "VALID").sum()
        ),
        (S((2 * tnf.SymDim("b"),), "f4"),),
    ),
    "padding of a strided convolution": (
        lambda x, w: jax.lax.conv_general_dilated(
            x, w, (2, 3), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (S((2, "b", "c", 2), "f4"), S((3, 2, 2, 3), "f4")),
    ),
    "remainder of a length": (lambda x: x[: x.shape[0] % 3 + 1], (B3,)),
    "batched product": (lambda x, y: jax.vmap(jnp.dot)(x, y), (B3, B3)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_size_is_computed_as_jax_computes_it(name: str) -> None:
    fn, specs = CASES[name]
    program = lowering.import_stablehlo(exported(fn, *specs), specs)
    assert program.input_specs == specs
    for b in (1, 4, 5):
        arrays = [some(spec, b=b, c=b + 1) for spec in specs]
        wanted = tnf.tree.leaves(jax.tree_util.tree_map(np.asarray, fn(*arrays)))
        for mine, other in zip(tnf.tree.leaves(program.run(*arrays)), wanted, strict=True):
            np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["slices", "running sum", "captured extent"])
def test_the_peer_agrees(name: str) -> None:
    fn, specs = CASES[name]
    program = lowering.import_stablehlo(exported(fn, *specs), specs)
    assert xla_peer.check_parity(
        program, *[some(spec, b=4) for spec in specs], interpreter=False
    ).ok


def test_symbols_by_themselves_and_numbers() -> None:
    fn, specs = CASES["two arguments"]
    text = exported(fn, *specs)
    program = lowering.import_stablehlo(text)
    assert str(program.input_specs) == "(f32[x0_0,3], f32[x1_0,3])"
    with pytest.raises(errors.TenferroError, match="2"):
        program.run(np.ones((2, 3), "f4"), np.ones((4, 3), "f4"))
    numbers = lowering.import_stablehlo(text, [S((4, 3), "f4")] * 2)
    assert numbers.is_static
    assert not numbers.guards


def test_what_jax_assumes_is_checked() -> None:
    fn, specs = CASES["softmax"]
    program = lowering.import_stablehlo(exported(fn, *specs), specs)
    with pytest.raises(errors.GuardError, match="Expected value >= 1 for dimension variable 'b'"):
        program.run(np.ones((0, 3), "f4"))


def test_derivatives_of_what_is_imported() -> None:
    fn, specs = CASES["matmul and mean"]
    program = lowering.import_stablehlo(exported(fn, *specs), specs)
    slope = tnf.compile(tnf.grad(lambda w, x: tnf.sum(program.run(w, x))), *specs)
    x = some(B3, b=5)
    wanted = jax.grad(lambda w: fn(w, x).sum())(W)
    np.testing.assert_allclose(slope.run(W, x), wanted, rtol=2e-5)


@pytest.mark.parametrize(
    ("specs", "kind"),
    [
        ([B3], errors.ArityError),
        ([B3, S(("b", 4), "f4")], errors.ShapeError),
        ([B3, S(("b",), "f4")], errors.ShapeError),
        ([B3, S(("b", 3), "f8")], errors.DTypeError),
    ],
)
def test_specs_that_are_not_the_module_s(specs: Any, kind: Any) -> None:
    fn, own = CASES["two arguments"]
    with pytest.raises(kind, match="import_stablehlo"):
        lowering.import_stablehlo(exported(fn, *own), specs)


def test_an_extent_that_elements_decide() -> None:
    text = """func.func @main(%x: tensor<3xf32>, %m: tensor<1xf32>) -> tensor<?xf32> {
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %n = stablehlo.convert %m : (tensor<1xf32>) -> tensor<1xi32>
      %y = stablehlo.dynamic_broadcast_in_dim %c, %n, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
      return %y : tensor<?xf32>
    }"""
    with pytest.raises(
        errors.UnsupportedError, match=r"dynamic_broadcast_in_dim: its shapes.*\s+at -:5"
    ):
        lowering.import_stablehlo(text)


def test_from_jax_takes_symbols() -> None:
    def layer(p: Any, x: Any) -> Any:
        return {"y": jax.nn.softmax(x @ p["w"])}

    program = xla_peer.from_jax(layer, {"w": S((3, 4), "f4")}, B3)
    x = some(B3, b=5)
    np.testing.assert_allclose(
        program.run({"w": W}, x)["y"], layer({"w": W}, x)["y"], rtol=2e-5, atol=1e-6
    )
    assert program.input_names == ("p['w']", "x")
    with pytest.raises(errors.NonStaticShapeError, match="give numbers instead"):
        xla_peer.from_jax(lambda x: x if x.shape[0] > 5 else x + 1, B3)


UNKNOWN = (
    "%m = stablehlo.add %n, %three : tensor<i32> "
    "%s = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [0] "
    ": (tensor<?xf32>, tensor<f32>) -> tensor<f32> "
    "%u = stablehlo.convert %s : (tensor<f32>) -> tensor<i32>"
)
"""Text that defines a length %m, and an integer %u that is computed from elements. %u is therefore not an extent."""
LENGTHS: dict[str, tuple[str, Any]] = {
    "minimum": ("%r = stablehlo.minimum %n, %three : tensor<i32>", lambda n: min(n, 3)),
    "maximum": ("%r = stablehlo.maximum %n, %three : tensor<i32>", lambda n: max(n, 3)),
    "remainder": ("%r = stablehlo.remainder %n, %three : tensor<i32>", lambda n: n % 3),
    "divide": ("%r = stablehlo.divide %n, %three : tensor<i32>", lambda n: n // 3),
    "at least": (
        "%m = stablehlo.add %n, %three : tensor<i32> "
        "%c = stablehlo.compare GE, %m, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%r = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>",
        lambda n: n + 3,
    ),
    "less": (
        "%m = stablehlo.add %n, %three : tensor<i32> "
        "%c = stablehlo.compare LT, %m, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%r = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>",
        lambda n: n,
    ),
    "at most": (
        "%m = stablehlo.add %n, %three : tensor<i32> "
        "%c = stablehlo.compare LE, %m, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%d = stablehlo.compare LE, %three, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%e = stablehlo.select %d, %m, %three : tensor<i1>, tensor<i32> "
        "%r = stablehlo.minimum %e, %e : tensor<i32>",
        lambda n: n + 3,
    ),
    "greater": (
        "%m = stablehlo.add %n, %three : tensor<i32> "
        "%c = stablehlo.compare GT, %m, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%r = stablehlo.select %c, %n, %three : tensor<i1>, tensor<i32>",
        lambda n: n,
    ),
    "slice": (
        "%v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32> "
        "%w = stablehlo.reshape %three : (tensor<i32>) -> tensor<1xi32> "
        "%u = stablehlo.add %v, %w : tensor<1xi32> "
        "%all = stablehlo.concatenate %w, %v, %u, %w, dim = 0 : "
        "(tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32> "
        "%s = stablehlo.slice %all [1:4:2] : (tensor<4xi32>) -> tensor<2xi32> "
        "%t = stablehlo.slice %s [0:1] : (tensor<2xi32>) -> tensor<1xi32> "
        "%r = stablehlo.reshape %t : (tensor<1xi32>) -> tensor<i32>",
        lambda n: n,
    ),
    "first of two, the other unknown": (
        f"{UNKNOWN} %p = stablehlo.compare LE, %three, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%r = stablehlo.select %p, %m, %u : tensor<i1>, tensor<i32>",
        lambda n: n + 3,
    ),
    "second of two, the other unknown": (
        f"{UNKNOWN} %p = stablehlo.compare GT, %three, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%r = stablehlo.select %p, %u, %m : tensor<i1>, tensor<i32>",
        lambda n: n + 3,
    ),
    "or and and, one side unknown": (
        f"{UNKNOWN} %p = stablehlo.compare LE, %three, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%f = stablehlo.not %p : tensor<i1> "
        "%q = stablehlo.compare LT, %u, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%a = stablehlo.or %q, %p : tensor<i1> %b = stablehlo.or %p, %q : tensor<i1> "
        "%c = stablehlo.and %q, %f : tensor<i1> %d = stablehlo.and %f, %q : tensor<i1> "
        "%ra = stablehlo.select %a, %m, %u : tensor<i1>, tensor<i32> "
        "%rb = stablehlo.select %b, %ra, %u : tensor<i1>, tensor<i32> "
        "%rc = stablehlo.select %c, %u, %rb : tensor<i1>, tensor<i32> "
        "%r = stablehlo.select %d, %u, %rc : tensor<i1>, tensor<i32>",
        lambda n: n + 3,
    ),
    "negate": (
        "%m = stablehlo.negate %n : tensor<i32> %r = stablehlo.subtract %three, %m : tensor<i32>",
        lambda n: n + 3,
    ),
    "multiply": ("%r = stablehlo.multiply %three, %n : tensor<i32>", lambda n: 3 * n),
    "convert": (
        "%m = stablehlo.convert %n : (tensor<i32>) -> tensor<i64> "
        "%k = stablehlo.convert %three : (tensor<i32>) -> tensor<i64> %l = stablehlo.add %m, %k : tensor<i64> "
        "%r = stablehlo.convert %l : (tensor<i64>) -> tensor<i32>",
        lambda n: n + 3,
    ),
    "sign of what is positive": (
        "%m = stablehlo.add %n, %three : tensor<i32> %s = stablehlo.sign %m : tensor<i32> "
        "%r = stablehlo.add %n, %s : tensor<i32>",
        lambda n: n + 1,
    ),
    "sign of a difference": (
        "%m = stablehlo.add %n, %three : tensor<i32> %d = stablehlo.subtract %n, %m : tensor<i32> "
        "%s = stablehlo.sign %d : tensor<i32> %r = stablehlo.subtract %n, %s : tensor<i32>",
        lambda n: n + 1,
    ),
    "sign of zero": (
        "%d = stablehlo.subtract %n, %n : tensor<i32> %s = stablehlo.sign %d : tensor<i32> "
        "%r = stablehlo.add %n, %s : tensor<i32>",
        lambda n: n,
    ),
    "parts of a repeated length": (
        "%v = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<2xi32> "
        "%w = stablehlo.iota dim = 0 : tensor<2xi32> %x2 = stablehlo.add %v, %w : tensor<2xi32> "
        "%y2 = stablehlo.broadcast_in_dim %x2, dims = [0] : (tensor<2xi32>) -> tensor<2xi32> "
        "%s = stablehlo.slice %y2 [1:2] : (tensor<2xi32>) -> tensor<1xi32> "
        "%r = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>",
        lambda n: n + 1,
    ),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_that_are_computed(name: str) -> None:
    text, length = LENGTHS[name]
    program = lowering.import_stablehlo(
        f"""func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %three = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  {text}
  %shape = stablehlo.reshape %r : (tensor<i32>) -> tensor<1xi32>
  %y = stablehlo.dynamic_broadcast_in_dim %one, %shape, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}}""",
        [S(("n",), "f4")],
    )
    for n in (1, 2, 3, 4, 8):
        assert program.run(np.zeros(n, "f4")).shape == (length(n),)


def test_the_place_of_a_text_without_a_file() -> None:
    program = lowering.import_stablehlo(
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        '  %y = stablehlo.sine %x : tensor<3xf32> loc("-":2:8)\n'
        "  return %y : tensor<3xf32>\n}"
    )
    (source,) = [step.source for step in program.instructions if step.op.name == "Sin"]
    assert str(source).startswith("<stablehlo>:2")


def test_a_slice_whose_bounds_are_lengths() -> None:
    program = lowering.import_stablehlo(
        """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %y = stablehlo.real_dynamic_slice %x, %one, %m, %two : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}""",
        [S(("n",), "f4")],
    )
    for n in (1, 2, 5, 8):
        x = np.arange(n, dtype="f4")
        np.testing.assert_array_equal(program.run(x), x[1::2])


@pytest.mark.parametrize(
    "operations",
    [
        "%y = stablehlo.add %x, %x : (tensor<?xf32>, tensor<?xf32>) -> tensor<4xf32>",
        """%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_reshape %x, %s : (tensor<?xf32>, tensor<1xi32>) -> tensor<4xf32>
  %y = stablehlo.add %r, %r : tensor<4xf32>""",
    ],
    ids=["add", "reshape"],
)
def test_an_extent_that_the_module_declares_is_checked_when_it_runs(operations: str) -> None:
    program = lowering.import_stablehlo(
        f"func.func @main(%x: tensor<?xf32>) -> tensor<4xf32> {{ {operations}\n  return %y : tensor<4xf32> }}",
        [S(("n",), "f4")],
    )
    x = np.arange(4, dtype="f4")
    np.testing.assert_array_equal(program.run(x), 2 * x)
    for n in (3, 5):
        with pytest.raises(errors.GuardError, match="the module declares an extent"):
            program.run(np.zeros(n, "f4"))


def of_length(text: str) -> str:
    """Return the text of a function that returns %r ones.

    %n is the length of the argument, and %m is %n + 3.
    """
    return f"""func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %three = stablehlo.constant dense<3> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %m = stablehlo.add %n, %three : tensor<i32>
  {text}
  %shape = stablehlo.reshape %r : (tensor<i32>) -> tensor<1xi32>
  %y = stablehlo.dynamic_broadcast_in_dim %one, %shape, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}}"""


COMPARE = "%{} = stablehlo.compare {}, %{}, %{}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
# Expected results of comparing the lengths n and m = n + 3. They do not depend on n, so that the import can decide
# them.
DECIDED = {
    ("m", "n"): {"LT": False, "LE": False, "GT": True, "GE": True, "EQ": False, "NE": True},
    ("n", "m"): {"LT": True, "LE": True, "GT": False, "GE": False, "EQ": False, "NE": True},
    ("m", "m"): {"LT": False, "LE": True, "GT": False, "GE": True, "EQ": True, "NE": False},
}


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "EQ", "NE"])
@pytest.mark.parametrize("pair", DECIDED, ids=" ".join)
def test_comparisons_that_are_the_same_for_every_length(
    pair: tuple[str, str], direction: str
) -> None:
    text = COMPARE.format("p", direction, *pair)
    text += "%r = stablehlo.select %p, %m, %n : tensor<i1>, tensor<i32>"
    program = lowering.import_stablehlo(of_length(text), [S(("n",), "f4")])
    for n in (0, 1, 4):
        wanted = n + 3 if DECIDED[pair][direction] else n
        assert program.run(np.zeros(n, "f4")).shape == (wanted,)


@pytest.mark.parametrize(
    ("operation", "holds"),
    [
        ("and %t, %t", True), ("and %t, %f", False), ("and %f, %t", False), ("and %f, %f", False),
        ("or %t, %t", True), ("or %t, %f", True), ("or %f, %t", True), ("or %f, %f", False),
        ("not %t", False), ("not %f", True),
    ],
)  # fmt: skip
def test_truth_of_lengths(operation: str, holds: bool) -> None:
    text = COMPARE.format("t", "GT", "m", "n") + COMPARE.format("f", "LT", "m", "n")
    text += f"%p = stablehlo.{operation} : tensor<i1> "
    text += "%r = stablehlo.select %p, %m, %n : tensor<i1>, tensor<i32>"
    program = lowering.import_stablehlo(of_length(text), [S(("n",), "f4")])
    assert program.run(np.zeros(2, "f4")).shape == (5 if holds else 2,)


PAIR = "%r = stablehlo.select %p, %m, %n : tensor<i1>, tensor<i32>"
LESS_THREE = "%k = stablehlo.subtract %n, %three : tensor<i32> "
NEGATIVE = "%k = stablehlo.negate %three : tensor<i32> "


def cut_quotient(lhs: int, rhs: int) -> int:
    """Return the quotient of two integers, rounded towards zero, as #divide requires."""
    return abs(lhs) // abs(rhs) * (1 if (lhs < 0) == (rhs < 0) else -1)


# Expected results of integer operations by the specification, for n >= 1 and m = n + 3.
COMPUTED: dict[str, tuple[str, Any]] = {
    "quotient of lengths": (
        "%r = stablehlo.divide %m, %n : tensor<i32>",
        lambda n: (n + 3) // n,
    ),
    "remainder of lengths": (
        "%r = stablehlo.remainder %m, %n : tensor<i32>",
        lambda n: (n + 3) % n,
    ),
    "quotient by a negative number": (
        NEGATIVE + "%q = stablehlo.divide %m, %k : tensor<i32> %r = stablehlo.negate %q : tensor<i32>",
        lambda n: -cut_quotient(n + 3, -3),
    ),
    "remainder by a negative number": (
        NEGATIVE + "%r = stablehlo.remainder %m, %k : tensor<i32>",
        lambda n: (n + 3) % 3,
    ),
    "quotient of any sign": (
        LESS_THREE
        + "%q = stablehlo.divide %k, %three : tensor<i32> %r = stablehlo.add %q, %three : tensor<i32>",
        lambda n: 3 + cut_quotient(n - 3, 3),
    ),
    "remainder of any sign": (
        LESS_THREE
        + "%q = stablehlo.remainder %k, %three : tensor<i32> %r = stablehlo.add %q, %three : tensor<i32>",
        lambda n: 3 + (n - 3) - 3 * cut_quotient(n - 3, 3),
    ),
    "quotient by a length that may be negative": (
        "%d = stablehlo.multiply %n, %two : tensor<i32> "
        "%k = stablehlo.subtract %d, %seven : tensor<i32> %q = stablehlo.divide %m, %k : tensor<i32> "
        "%r = stablehlo.abs %q : tensor<i32>",
        lambda n: abs(cut_quotient(n + 3, 2 * n - 7)),
    ),
    "sign": (
        LESS_THREE
        + "%q = stablehlo.sign %k : tensor<i32> %r = stablehlo.add %q, %three : tensor<i32>",
        lambda n: 3 + (n > 3) - (n < 3),
    ),
    "sign of a length": ("%r = stablehlo.sign %n : tensor<i32>", lambda n: min(n, 1)),
    "absolute value": (
        LESS_THREE + "%r = stablehlo.abs %k : tensor<i32>",
        lambda n: abs(n - 3),
    ),
    "clamp": (
        "%r = stablehlo.clamp %three, %n, %m : tensor<i32>",
        lambda n: min(max(n, 3), n + 3),
    ),
    "not": (
        COMPARE.format("q", "LT", "n", "three") + "%p = stablehlo.not %q : tensor<i1> " + PAIR,
        lambda n: n if n < 3 else n + 3,
    ),
    "and": (
        COMPARE.format("q", "LT", "n", "three") + COMPARE.format("t", "NE", "n", "one_i")
        + "%p = stablehlo.and %q, %t : tensor<i1> " + PAIR,
        lambda n: n + 3 if n < 3 and n != 1 else n,
    ),
    "or": (
        COMPARE.format("q", "GT", "n", "three") + COMPARE.format("t", "EQ", "n", "one_i")
        + "%p = stablehlo.or %q, %t : tensor<i1> " + PAIR,
        lambda n: n + 3 if n > 3 or n == 1 else n,
    ),
    "truth as a number and back": (
        COMPARE.format("q", "GT", "n", "three")
        + "%k = stablehlo.convert %q : (tensor<i1>) -> tensor<i32> "
        "%p = stablehlo.convert %k : (tensor<i32>) -> tensor<i1> " + PAIR,
        lambda n: n + 3 if n > 3 else n,
    ),
    "number of elements": (
        "%a = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32> "
        "%b = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32> "
        "%c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32> "
        "%r = stablehlo.reduce(%c init: %one_i) applies stablehlo.multiply across dimensions = [0] "
        ": (tensor<2xi32>, tensor<i32>) -> tensor<i32>",
        lambda n: n * (n + 3),
    ),
    "parts of a reversed shape": (
        "%a = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32> "
        "%b = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32> "
        "%c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32> "
        "%d = stablehlo.reverse %c, dims = [0] : tensor<2xi32> "
        "%e = stablehlo.dynamic_slice %d, %three, sizes = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<1xi32> "
        "%r = stablehlo.reshape %e : (tensor<1xi32>) -> tensor<i32>",
        lambda n: n,
    ),
    **{
        direction: (COMPARE.format("p", direction, "n", "three") + PAIR, length)
        for direction, length in {
            "LT": lambda n: n + 3 if n < 3 else n,
            "LE": lambda n: n + 3 if n <= 3 else n,
            "GT": lambda n: n + 3 if n > 3 else n,
            "GE": lambda n: n + 3 if n >= 3 else n,
            "EQ": lambda n: n + 3 if n == 3 else n,
            "NE": lambda n: n + 3 if n != 3 else n,
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_lengths_that_differ_by_cases(name: str) -> None:
    text, length = COMPUTED[name]
    one = "".join(
        [
            f"%{word} = stablehlo.constant dense<{number}> : tensor<i32> "
            for word, number in (("one_i", 1), ("two", 2), ("seven", 7))
        ]
    )
    program = lowering.import_stablehlo(of_length(one + text), [S(("n",), "f4")])
    for n in (1, 2, 3, 4, 9):
        assert program.run(np.zeros(n, "f4")).shape == (length(n),)


@pytest.mark.parametrize(
    "text",
    [
        "%r = stablehlo.divide %m, %zero : tensor<i32>",
        "%r = stablehlo.remainder %m, %zero : tensor<i32>",
        "%r = stablehlo.popcnt %n : tensor<i32>",
    ],
)  # fmt: skip
def test_lengths_that_no_expression_of_extents_is(text: str) -> None:
    with pytest.raises(
        errors.UnsupportedError, match="dynamic_broadcast_in_dim: its shapes and bounds must be"
    ):
        lowering.import_stablehlo(of_length(text), [S(("n",), "f4")])


KNOWN_NUMBERS = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "maximum": max, "minimum": min, "divide": lambda a, b: a // b, "remainder": lambda a, b: a % b,
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN_NUMBERS)
@pytest.mark.parametrize("pair", ["nu", "un", "nn"])
def test_a_length_and_a_number_that_an_argument_holds(name: str, pair: str) -> None:
    text = f"""func.func @main(%x: tensor<?xf32>, %u: tensor<i32>) -> tensor<i32> {{
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %r = stablehlo.{name} %{pair[0]}, %{pair[1]} : tensor<i32>
  return %r : tensor<i32>
}}"""
    program = lowering.import_stablehlo(text, [S(("n",), "f4"), S((), "i4")])
    for n, u in ((7, 2), (3, 5)):
        operands = [{"n": n, "u": u}[operand] for operand in pair]
        assert program.run(np.zeros(n, "f4"), np.int32(u)) == KNOWN_NUMBERS[name](*operands)


@pytest.mark.parametrize(("direction", "least"), [("EQ", 4), ("GE", 4), ("GT", 5)])
def test_what_an_assertion_says_of_a_length_decides_comparisons_with_less(
    direction: str, least: int
) -> None:
    four = "%four = stablehlo.constant dense<4> : tensor<i32> "
    asserted = COMPARE.format("p", direction, "n", "four") + (
        'stablehlo.custom_call @shape_assertion(%p) {api_version = 2 : i32, error_message = "four", '
        "has_side_effect = true} : (tensor<i1>) -> () "
    )
    for bound, is_decided in ((least, True), (least + 1, False)):
        text = f"{four}{asserted}%b = stablehlo.constant dense<{bound}> : tensor<i32> "
        text += COMPARE.format("q", "GE", "n", "b")
        text += "%r = stablehlo.select %q, %m, %n : tensor<i1>, tensor<i32>"
        program = lowering.import_stablehlo(of_length(text), [S(("n",), "f4")])
        assert program.run(np.zeros(least, "f4")).shape == (least + 3 if is_decided else least,)
        assert (str(program.output_specs[0]) == "f32[n+3]") is is_decided


def test_what_is_declared_of_a_length_decides_comparisons() -> None:
    """An assertion n >= 2 in a module implies that n - 2 is not negative.

    The import must use this to simplify the division.
    """
    text = (
        COMPARE.format("p", "GE", "n", "two")
        + 'stablehlo.custom_call @shape_assertion(%p) {api_version = 2 : i32, error_message = "two at least", '
        "has_side_effect = true} : (tensor<i1>) -> () %k = stablehlo.subtract %n, %two : tensor<i32> "
        "%r = stablehlo.divide %k, %three : tensor<i32>"
    )
    text = "%two = stablehlo.constant dense<2> : tensor<i32> " + text
    program = lowering.import_stablehlo(of_length(text), [S(("n",), "f4")])
    for n in (2, 4, 5, 9):
        assert program.run(np.zeros(n, "f4")).shape == ((n - 2) // 3,)
    with pytest.raises(errors.GuardError, match="two at least"):
        program.run(np.zeros(1, "f4"))
    assert str(program.output_specs[0]) == "f32[(n-2)//3]"


BITWISE: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "and": (3, lambda n, k: n & k),
    "and a multiple": (-4, lambda n, k: n & k),
    "shift_left": (2, lambda n, k: n << k),
    "shift_right_arithmetic": (1, lambda n, k: n >> k),
    "shift_right_logical": (1, lambda n, k: n >> k),
    "power": (2, lambda n, k: n**k),
}


@pytest.mark.parametrize("name", BITWISE)
def test_extents_by_bits_and_powers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    number, function = BITWISE[name]
    program = import_stablehlo(computed(name.split()[0], number))
    for n in range(10):
        assert program.run(np.zeros(n, "f4")).shape == (function(n, number),)


@pytest.mark.parametrize(("name", "number"), [("and", 5), ("or", 1), ("xor", 1), ("shift_left", 32), ("power", -1)])  # fmt: skip
def test_extents_by_other_bits_are_refused(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    with pytest.raises(errors.UnsupportedError, match="decide one of them"):
        import_stablehlo(computed(name, number))


def test_an_extent_does_not_fit_into_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    text = computed("add", 0).replace(
        "%a = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>",
        "%b = stablehlo.convert %m : (tensor<i32>) -> tensor<i8> "
        "%d = stablehlo.convert %b : (tensor<i8>) -> tensor<i32> "
        "%a = stablehlo.reshape %d : (tensor<i32>) -> tensor<1xi32>",
    )
    program = import_stablehlo(text)
    assert not program.output_specs[0].is_exact
    for n in (5, 300):  # 300 = 44 modulo 256
        np.testing.assert_array_equal(program.run(np.ones(n, "f4")), np.arange(n % 256))


def computed(name: str, number: int) -> str:
    """Return the text of a function of a vector of n elements.

    The length of its result is computed from n and `number` by the operation `name`.
    """
    return f"""func.func @main(%x: tensor<?xf32>) -> tensor<?xi32> {{
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %c = stablehlo.constant dense<{number}> : tensor<i32>
      %m = stablehlo.{name} %n, %c : tensor<i32>
      %a = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
      %y = stablehlo.dynamic_iota %a, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
      return %y : tensor<?xi32>
    }}"""
