"""Operations that JAX does not write must equal their definitions in NumPy.

Unsupported forms must raise helpful errors.
"""

from __future__ import annotations

import operator
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo, importing
from lowering.chlo import chlo_function
from lowering.mlir_bindings import evaluate
from lowering.mlir_tree import module_tree
from lowering.module_tree import Block
from lowering.read import READERS
from lowering.read.expansions import OPS, expanded_op, same_body
from tenferro import errors
from xla_peer import XlaExecutor

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3, 4)).astype("f4")
V = RNG.normal(size=6).astype("f4")
PLACES = np.array([[1, 0], [2, 2]], "i4")


def padded(x: Any, low: int, high: int, interior: int) -> Any:
    wide = np.full(len(x) + (len(x) - 1) * interior, 7, x.dtype)
    wide[:: interior + 1] = x
    return np.concatenate([np.full(low, 7, x.dtype), wide, np.full(high, 7, x.dtype)])


# Each entry has the operands, the type of the result, the statements, and a function that computes the expected result.
# X and Y have the shape 3x4, and V has 6 elements.
CASES: dict[str, tuple[tuple[Any, ...], str, str, Any]] = {
    "einsum": (
        (X, Y), "3x3xf32",
        '%0 = stablehlo.einsum %a, %b, config = "ij,kj->ik" : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>',
        lambda x, y: x @ y.T,
    ),
    "unary_einsum": (
        (X,), "4xf32",
        '%0 = stablehlo.unary_einsum %a, config = "ij->j" : (tensor<3x4xf32>) -> tensor<4xf32>',
        lambda x: x.sum(0),
    ),
    "map": (
        (X, Y), "3x4xf32",
        '%0 = "stablehlo.map"(%a, %b) <{dimensions = array<i64: 0, 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%m = stablehlo.multiply %p, %q : tensor<f32> %s = stablehlo.subtract %m, %q : tensor<f32> "
        "stablehlo.return %s : tensor<f32> }) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>",
        lambda x, y: x * y - y,
    ),
    "tuple": (
        (X, Y), "3x4xf32",
        "%t = stablehlo.tuple %a, %b : tuple<tensor<3x4xf32>, tensor<3x4xf32>> "
        "%u = stablehlo.tuple %t, %a : tuple<tuple<tensor<3x4xf32>, tensor<3x4xf32>>, tensor<3x4xf32>> "
        "%v = stablehlo.get_tuple_element %u[0] : (tuple<tuple<tensor<3x4xf32>, tensor<3x4xf32>>, tensor<3x4xf32>>) -> tuple<tensor<3x4xf32>, tensor<3x4xf32>> "
        "%w = stablehlo.get_tuple_element %v[1] : (tuple<tensor<3x4xf32>, tensor<3x4xf32>>) -> tensor<3x4xf32> "
        "%z = stablehlo.get_tuple_element %u[1] : (tuple<tuple<tensor<3x4xf32>, tensor<3x4xf32>>, tensor<3x4xf32>>) -> tensor<3x4xf32> "
        "%0 = stablehlo.subtract %w, %z : tensor<3x4xf32>",
        lambda x, y: y - x,
    ),
    "get_dimension_size": (
        (X,), "i32", "%0 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<3x4xf32>) -> tensor<i32>",
        lambda x: np.int32(4),
    ),
    "dynamic_reshape": (
        (X,), "2x6xf32",
        "%s = stablehlo.constant dense<[2, 6]> : tensor<2xi64> "
        "%0 = stablehlo.dynamic_reshape %a, %s : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x6xf32>",
        lambda x: x.reshape(2, 6),
    ),
    "dynamic_broadcast_in_dim": (
        (V,), "6x2xf32",
        "%s = stablehlo.constant dense<[6, 2]> : tensor<2xi64> "
        "%0 = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [0] : (tensor<6xf32>, tensor<2xi64>) -> tensor<6x2xf32>",
        lambda v: np.repeat(v[:, None], 2, 1),
    ),
    "dynamic_iota": (
        (V,), "2x3xi32",
        "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi64> "
        "%0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<2x3xi32>",
        lambda v: np.array([[0, 1, 2]] * 2, "i4"),
    ),
    "dynamic_pad": (
        (V,), "14xf32",
        "%p = stablehlo.constant dense<7.0> : tensor<f32> %l = stablehlo.constant dense<1> : tensor<1xi64> "
        "%h = stablehlo.constant dense<2> : tensor<1xi64> %i = stablehlo.constant dense<1> : tensor<1xi64> "
        "%0 = stablehlo.dynamic_pad %a, %p, %l, %h, %i : (tensor<6xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<14xf32>",
        lambda v: padded(v, 1, 2, 1),
    ),
    "real_dynamic_slice": (
        (V,), "2xf32",
        "%s = stablehlo.constant dense<1> : tensor<1xi64> %l = stablehlo.constant dense<5> : tensor<1xi64> "
        "%t = stablehlo.constant dense<2> : tensor<1xi64> "
        "%0 = stablehlo.real_dynamic_slice %a, %s, %l, %t : (tensor<6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xf32>",
        lambda v: v[1:5:2],
    ),
    "dynamic_gather": (
        (V, PLACES), "2x2x2xf32",
        "%s = stablehlo.constant dense<2> : tensor<1xi64> "
        '%0 = "stablehlo.dynamic_gather"(%a, %b, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], '
        "start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false}> : (tensor<6xf32>, tensor<2x2xi32>, tensor<1xi64>) -> tensor<2x2x2xf32>",
        lambda v, i: v[i[..., None] + np.arange(2)],
    ),
    "torch_index_select": (
        (X, PLACES), "2x2x4xf32",
        '%0 = "stablehlo.torch_index_select"(%a, %b) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<3x4xf32>, tensor<2x2xi32>) -> tensor<2x2x4xf32>',
        lambda x, i: x[i],
    ),
    "torch_index_select of batches": (
        (np.stack([X, Y]), PLACES), "2x2x4xf32",
        '%0 = "stablehlo.torch_index_select"(%a, %b) <{dim = 1 : i64, batch_dims = 1 : i64}> : (tensor<2x3x4xf32>, tensor<2x2xi32>) -> tensor<2x2x4xf32>',
        lambda x, i: np.take_along_axis(x, i[..., None], 1),
    ),
    "einsum with dots": (
        (np.stack([X, Y]), X), "2x3x3xf32",
        '%0 = stablehlo.einsum %a, %b, config = "...ij,kj->...ik" : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x3xf32>',
        lambda x, y: x @ y.T,
    ),
    "all_reduce": (
        (V,), "6xf32",
        '%0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<6xf32>) -> tensor<6xf32>",
        lambda v: v,
    ),
    "all_gather": (
        (V,), "6xf32",
        '%0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> : (tensor<6xf32>) -> tensor<6xf32>',
        lambda v: v,
    ),
    "collective_permute": (
        (V,), "6xf32",
        '%0 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<6xf32>) -> tensor<6xf32>',
        np.zeros_like,
    ),
    "collective_reduce": (
        (V,), "6xf32",
        "%c = stablehlo.constant dense<0> : tensor<1xi32> "
        '%0 = "stablehlo.collective_reduce"(%a, %c) <{has_dynamic_root, replica_groups = dense<0> : tensor<1x1xi64>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<6xf32>, tensor<1xi32>) -> tensor<6xf32>",
        lambda v: v,
    ),
    "replica_id": (
        (V,), "ui32", "%0 = stablehlo.replica_id : tensor<ui32>", lambda v: np.uint32(0),
    ),
    "partition_id": (
        (V,), "ui32", "%0 = stablehlo.partition_id : tensor<ui32>", lambda v: np.uint32(0),
    ),
    "cross-replica-sum": (
        (V,), "6xf32",
        '%0 = "stablehlo.cross-replica-sum"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> : (tensor<6xf32>) -> tensor<6xf32>',
        lambda v: v,
    ),
    "mulhi": (
        (PLACES,), "2x2xi32",
        "%c = stablehlo.constant dense<2147483647> : tensor<2x2xi32> "
        "%0 = chlo.mulhi %a, %c : tensor<2x2xi32>, tensor<2x2xi32> -> tensor<2x2xi32>",
        lambda i: ((i.astype("i8") * 2147483647) >> 32).astype("i4"),
    ),
    "zeta": (
        (V,), "6xf32",
        "%s = stablehlo.constant dense<2.0> : tensor<6xf32> %o = stablehlo.constant dense<1.0> : tensor<6xf32> "
        "%z = chlo.zeta %s, %o : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32> %0 = stablehlo.add %z, %a : tensor<6xf32>",
        lambda v: v + np.float32(np.pi**2 / 6),
    ),
    "broadcast_add": (
        (X, Y[0]), "3x4xf32",
        "%0 = chlo.broadcast_add %a, %b : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>",
        np.add,
    ),
}  # fmt: skip
NAMES = {
    np.dtype("f4"): "f32",
    np.dtype("f8"): "f64",
    np.dtype("i4"): "i32",
    np.dtype("c16"): "complex<f64>",
}
INTERPRETED = ("map", "get_dimension_size", "dynamic_reshape", "dynamic_iota", "dynamic_pad", "dynamic_gather")  # fmt: skip


def module(arguments: Any, result: str, body: str) -> str:
    types = ["x".join([*map(str, x.shape), NAMES[x.dtype]]) for x in arguments]
    given = ", ".join(
        f"%{name}: tensor<{kind}>" for name, kind in zip("abcde", types, strict=False)
    )
    return (
        f"func.func @main({given}) -> tensor<{result}> {{\n{body}\nreturn %0 : tensor<{result}>\n}}"
    )


@pytest.mark.parametrize("name", CASES)
def test_what_it_means(name: str) -> None:
    arguments, result, body, definition = CASES[name]
    text = module(arguments, result, body)
    found, wanted = import_stablehlo(text).run(*arguments), definition(*arguments)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    if name in INTERPRETED:
        (other,) = evaluate(text, arguments)
        np.testing.assert_allclose(found, other, rtol=1e-6)


Z = np.array([1, -8, 1j, -1j, 2 - 3j, -0.5 + 1e-8j, 0])


@pytest.mark.parametrize(("dtype", "element"), [("c8", "f32"), ("c16", "f64")])
def test_functions_of_complex_numbers(dtype: str, element: str) -> None:
    """Complex functions must follow StableHLO's interpreter.

    cbrt is the principal root, and atan2 is computed by a logarithm of the direction.
    """
    kind = f"tensor<7xcomplex<{element}>>"
    text = f"""func.func @main(%y: {kind}, %x: {kind}) -> ({kind}, {kind}) {{
  %0 = stablehlo.cbrt %y : {kind}
  %1 = stablehlo.atan2 %y, %x : {kind}
  return %0, %1 : {kind}, {kind}
}}"""
    y, x = Z.astype(dtype), (Z[::-1] + 2).astype(dtype)
    program = import_stablehlo(text)
    eps = np.finfo(dtype).eps
    for root, angle in (program.run(y, x), XlaExecutor().run(program, y, x)):
        assert root.dtype == angle.dtype == y.dtype
        wanted = np.array([complex(mpmath.root(complex(z), 3)) if z else 0 for z in y])
        np.testing.assert_allclose(root, wanted, rtol=4 * eps)
        a, b = y.astype(complex), x.astype(complex)
        wanted = -1j * np.log((b + 1j * a) / np.sqrt(b * b + a * a))
        np.testing.assert_allclose(angle, wanted, rtol=4 * eps, atol=eps)


def test_nan_without_mantissa_bits_is_infinity() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.reduce_precision %x, format = e5m0 : tensor<4xf32>
  %1 = stablehlo.reduce_precision %x, format = e5m1 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}"""
    x = np.array([np.nan, -np.nan, -np.inf, 1.25], "f4")
    program = import_stablehlo(text)
    for none, one in (program.run(x), XlaExecutor().run(program, x), evaluate(text, [x])):
        np.testing.assert_array_equal(none, np.array([np.inf, np.inf, -np.inf, 1], "f4"))
        np.testing.assert_array_equal(one, np.array([np.nan, np.nan, -np.inf, 1], "f4"))


REFUSED: dict[str, tuple[str, str]] = {
    "rng": (
        "%l = stablehlo.constant dense<0.0> : tensor<f32> %h = stablehlo.constant dense<1.0> : tensor<f32> %s = stablehlo.constant dense<6> : tensor<1xi64> "
        "%0 = stablehlo.rng %l, %h, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<6xf32>",
        "rng_bit_generator",
    ),
    "several devices": (
        '%0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<6xf32>) -> tensor<6xf32>",
        "among 2 devices",
    ),
    "infeed": (
        '%t = stablehlo.create_token : !stablehlo.token %0, %u = "stablehlo.infeed"(%t) <{infeed_config = "", layout = [[0]]}> : (!stablehlo.token) -> (tensor<6xf32>, !stablehlo.token)',
        "an argument",
    ),
    "outfeed": (
        '%t = stablehlo.create_token : !stablehlo.token %u = "stablehlo.outfeed"(%a, %t) <{outfeed_config = ""}> : (tensor<6xf32>, !stablehlo.token) -> !stablehlo.token '
        "%0 = stablehlo.add %a, %a : tensor<6xf32>",
        "a result",
    ),
    "quantised": (
        "%q = stablehlo.uniform_quantize %a : (tensor<6xf32>) -> tensor<6x!quant.calibrated<f32<-1.0:1.0>>> "
        "%0 = stablehlo.uniform_dequantize %q : (tensor<6x!quant.calibrated<f32<-1.0:1.0>>>) -> tensor<6xf32>",
        "quant.calibrated",
    ),
    "bits of bools": (
        "%z = stablehlo.constant dense<0.0> : tensor<6xf32> "
        "%p = stablehlo.compare LT, %a, %z : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1> "
        "%q = stablehlo.broadcast_in_dim %p, dims = [0] : (tensor<6xi1>) -> tensor<6x8xi1> "
        "%b = stablehlo.bitcast_convert %q : (tensor<6x8xi1>) -> tensor<6xi8> "
        "%0 = stablehlo.convert %b : (tensor<6xi8>) -> tensor<6xf32>",
        "bitcast_convert: from bool to int8",
    ),
    "padding that an argument decides": (
        "%l = stablehlo.convert %a : (tensor<6xf32>) -> tensor<6xi64> "
        "%s = stablehlo.slice %l [0:1] : (tensor<6xi64>) -> tensor<1xi64> "
        "%z = stablehlo.constant dense<0.0> : tensor<f32> %e = stablehlo.negate %s : tensor<1xi64> "
        "%n = stablehlo.constant dense<0> : tensor<1xi64> "
        "%p = stablehlo.dynamic_pad %a, %z, %s, %e, %n : (tensor<6xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32> "
        "%k = stablehlo.get_dimension_size %p, dim = 0 : (tensor<?xf32>) -> tensor<i32> "
        "%f = stablehlo.convert %k : (tensor<i32>) -> tensor<f32> "
        "%0 = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<6xf32>",
        "dynamic_pad: its shapes and bounds must be constants",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name: str) -> None:
    body, match = REFUSED[name]
    with pytest.raises(errors.TenferroError, match=match):
        import_stablehlo(module((V,), "6xf32", body))


def test_every_operation_of_the_dialect_has_a_reader_or_a_reason() -> None:
    from jaxlib.mlir.dialects import stablehlo

    from lowering.importing import CANONICALIZED
    from lowering.read.refused import REWRITTEN

    names = {
        found
        for kind in vars(stablehlo).values()
        if isinstance(found := getattr(kind, "OPERATION_NAME", None), str)
    }
    assert len(names) > 100
    assert names - READERS.keys() - CANONICALIZED - REWRITTEN.keys() == set()


# Operations of CHLO that StableHLO lacks. Each entry has the op to which it is imported, arguments, and the
# definition.
CHLO: dict[str, tuple[str, tuple[float, ...], Any]] = {
    "acos": ("Acos", (-0.5, 0.25), mpmath.acos),
    "acosh": ("Acosh", (1.5, 3.0), mpmath.acosh),
    "asin": ("Asin", (-0.5, 0.25), mpmath.asin),
    "asinh": ("Asinh", (-2.0, 0.5), mpmath.asinh),
    "atan": ("Atan", (-2.0, 0.5), mpmath.atan),
    "atanh": ("Atanh", (-0.5, 0.25), mpmath.atanh),
    "cosh": ("Cosh", (-2.0, 0.5), mpmath.cosh),
    "digamma": ("Digamma", (0.5, 3.5), mpmath.digamma),
    "erf": ("Erf", (-0.5, 2.0), mpmath.erf),
    "erfc": ("Erfc", (-0.5, 2.0), mpmath.erfc),
    "erf_inv": ("ErfInv", (-0.5, 0.75), mpmath.erfinv),
    "lgamma": ("Lgamma", (0.5, 3.5), mpmath.loggamma),
    "sinh": ("Sinh", (-2.0, 0.5), mpmath.sinh),
    "square": ("Multiply", (-2.0, 0.5), lambda x: x * x),
    "tan": ("Tan", (-2.0, 0.5), mpmath.tan),
}


@pytest.mark.parametrize("name", CHLO)
def test_functions_of_chlo_are_ops_of_their_own(name: str) -> None:
    op, points, definition = CHLO[name]
    x = np.array(points)
    body = f"%0 = chlo.{name} %a : tensor<2xf64> -> tensor<2xf64>"
    program = import_stablehlo(module((x,), "2xf64", body))
    assert [step.op.name for step in program.instructions] == [op]
    np.testing.assert_allclose(program.run(x), [float(definition(v)) for v in points], rtol=1e-14)


@pytest.mark.parametrize("name", ["is_inf", "is_pos_inf", "is_neg_inf"])
def test_infinities_are_told_apart(name: str) -> None:
    x = np.array([0.0, np.inf, -np.inf, np.nan])
    body = f"%0 = chlo.{name} %a : tensor<4xf64> -> tensor<4xi1>"
    program = import_stablehlo(module((x,), "4xi1", body))
    is_of = {"is_inf": np.isinf, "is_pos_inf": np.isposinf, "is_neg_inf": np.isneginf}[name]
    np.testing.assert_array_equal(program.run(x), is_of(x))


def test_conjugates_and_neighbours() -> None:
    z = np.array([1 + 2j, -3 - 0.5j])
    body = "%0 = chlo.conj %a : tensor<2xcomplex<f64>> -> tensor<2xcomplex<f64>>"
    program = import_stablehlo(module((z,), "2xcomplex<f64>", body))
    assert [step.op.name for step in program.instructions] == ["Conj"]
    np.testing.assert_array_equal(program.run(z), z.conj())
    x = np.array([1.0, -1.0, 0.0, np.inf, 5e-324])
    y = np.array([2.0, -2.0, -1.0, 0.0, 0.0])
    body = "%0 = chlo.next_after %a, %b : tensor<5xf64>, tensor<5xf64> -> tensor<5xf64>"
    program = import_stablehlo(module((x, y), "5xf64", body))
    np.testing.assert_array_equal(program.run(x, y), np.nextafter(x, y))


FEATURES = "3x2x4xf64"
EPSILON = 0.125


def batch_norm(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
    return scale * (x - mean) / np.sqrt(variance + EPSILON) + offset


@pytest.mark.parametrize("feature", [0, 1, 2])
def test_batch_norms_are_as_the_specification_has_them(feature: int) -> None:
    x, bar = RNG.normal(size=(2, 3, 2, 4))
    n, rest = x.shape[feature], tuple({0, 1, 2} - {feature})
    rows = RNG.uniform(0.5, 2.0, size=(4, n))
    scale, offset, mean, variance = [row.reshape([-1 if i == feature else 1 for i in range(3)]) for row in rows]  # fmt: skip
    tail = f"{{epsilon = {EPSILON} : f32, feature_index = {feature} : i64}}"
    vector, vectors = f"tensor<{n}xf64>", lambda count: ", ".join([f"tensor<{n}xf64>"] * count)

    body = f"""%0 = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) {tail} :
        (tensor<{FEATURES}>, {vectors(4)}) -> tensor<{FEATURES}>"""
    result = import_stablehlo(module((x, *rows), FEATURES, body)).run(x, *rows)
    np.testing.assert_allclose(result, batch_norm(x, scale, offset, mean, variance), rtol=1e-13)

    of_x = x.mean(rest, keepdims=True), x.var(rest, keepdims=True)
    body = f"""%r:3 = "stablehlo.batch_norm_training"(%a, %b, %c) {tail} :
        (tensor<{FEATURES}>, {vectors(2)}) -> (tensor<{FEATURES}>, {vectors(2)})"""
    for number, (kind, wanted) in enumerate(
        [
            (FEATURES, batch_norm(x, scale, offset, *of_x)),
            *[(vector[7:-1], y.ravel()) for y in of_x],
        ]
    ):
        text = module((x, *rows[:2]), kind, body).replace("return %0", f"return %r#{number}")
        result = import_stablehlo(text).run(x, *rows[:2])
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-14)

    deviation = np.sqrt(variance + EPSILON)
    centered, count = x - mean, x.size // n
    inner = count * bar - bar.sum(rest, keepdims=True)
    inner -= (bar * centered).sum(rest, keepdims=True) * centered / (variance + EPSILON)
    gradients = [
        (FEATURES, scale / deviation / count * inner),
        (vector[7:-1], (bar * centered / deviation).sum(rest)),
        (vector[7:-1], bar.sum(rest)),
    ]
    body = f"""%r:3 = "stablehlo.batch_norm_grad"(%a, %b, %c, %d, %e) {tail} :
        (tensor<{FEATURES}>, {vectors(3)}, tensor<{FEATURES}>) -> (tensor<{FEATURES}>, {vectors(2)})"""
    arguments = x, rows[0], rows[2], rows[3], bar
    for number, (kind, wanted) in enumerate(gradients):
        text = module(arguments, kind, body).replace("return %0", f"return %r#{number}")
        np.testing.assert_allclose(
            import_stablehlo(text).run(*arguments), wanted, rtol=1e-12, atol=1e-14
        )


def test_functions_that_are_named_as_expansions_may_take_anything() -> None:
    text = """
func.func private @acos_f32(%t: !stablehlo.token) -> !stablehlo.token { return %t : !stablehlo.token }
func.func @main(%a: tensor<2xf64>) -> tensor<2xf64> {
  %t = stablehlo.create_token : !stablehlo.token
  %u = func.call @acos_f32(%t) : (!stablehlo.token) -> !stablehlo.token
  return %a : tensor<2xf64>
}"""
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(import_stablehlo(text).run(x), x)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("size", [9, 11, 12, 16, 21])
def test_long_windows_have_each_element_once(size: int, stride: int, dilation: int) -> None:
    """A window sum must contain each element once.

    The elements are powers modulo 2^31 - 1, so that a missing or repeated element changes the sum.
    """
    x = np.array([pow(2, 7 * i, 2**31 - 1) for i in range(60)], "i4")
    reach = (size - 1) * dilation + 1
    starts = range(0, len(x) - reach + 1, stride)
    expected = np.array([x[i : i + reach : dilation].sum(dtype="i4") for i in starts])
    body = (
        "%z = stablehlo.constant dense<0> : tensor<i32> "
        f'%0 = "stablehlo.reduce_window"(%a, %z) <{{window_dimensions = array<i64: {size}>, '
        f"window_strides = array<i64: {stride}>, window_dilations = array<i64: {dilation}>}}> "
        "({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %s = stablehlo.add %p, %q : tensor<i32> "
        "stablehlo.return %s : tensor<i32> }) : "
        f"(tensor<60xi32>, tensor<i32>) -> tensor<{len(expected)}xi32>"
    )
    sums = import_stablehlo(module((x,), f"{len(expected)}xi32", body)).run(x)
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize(("narrow", "wide"), [(("i8", "i1"), ("i32", "i4")), (("f32", "f4"), ("f64", "f8"))])  # fmt: skip
def test_convolutions_accumulate_in_the_dtype_of_their_result(
    narrow: tuple[str, str], wide: tuple[str, str]
) -> None:
    """The type of a convolution's result may be wider, and must be that of the sums.

    100 * 100 does not fit into int8, and products of float32 need more digits.
    """
    x, w = np.array([100, 99, -100, 7], narrow[1]), np.array([100, 3], narrow[1])
    if narrow[0] == "f32":
        x, w = x + np.float32(2**-16), w + np.float32(2**-16)
    text = f"""func.func @main(%x: tensor<1x1x4x{narrow[0]}>, %w: tensor<1x1x2x{narrow[0]}>) -> tensor<1x1x3x{wide[0]}> {{
  %0 = "stablehlo.convolution"(%x, %w) <{{batch_group_count = 1 : i64, feature_group_count = 1 : i64,
    dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>}}> : (tensor<1x1x4x{narrow[0]}>, tensor<1x1x2x{narrow[0]}>) -> tensor<1x1x3x{wide[0]}>
  return %0 : tensor<1x1x3x{wide[0]}>
}}"""
    y = import_stablehlo(text).run(x[None, None], w[None, None])
    expected = np.correlate(x.astype(wide[1]), w.astype(wide[1]), "valid")
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y.ravel(), expected)


@pytest.mark.parametrize("name", OPS)
def test_a_body_that_differs_in_one_number_or_direction_is_no_expansion(name: str) -> None:
    text = chlo_function(name, "f64", (2,), f"{name}_f64")
    expanded = module_tree(f"module {{\n{text}}}\n").functions[f"{name}_f64"]
    assert expanded_op(expanded) == OPS[name]
    others = [text.replace(old, "dense<0.125>", 1) for old in re.findall(r"dense<[^>]*>", text)[:2]]
    others += [
        text.replace(f" {old}, ", " NE, ", 1)
        for old in re.findall(r" (LT|LE|GT|GE|EQ), ", text)[:1]
    ]
    for other in others:
        assert other != text
        changed = module_tree(f"module {{\n{other}}}\n").functions[f"{name}_f64"]
        assert expanded_op(changed) is None


def renumbered(block: Block, first: int) -> Block:
    """Return the block with `first` added to the numbers of all its values."""
    operations = [
        replace(
            operation,
            operands=tuple([value + first for value in operation.operands]),
            results=tuple([value + first for value in operation.results]),
            regions=tuple([renumbered(region, first) for region in operation.regions]),
        )
        for operation in block.operations
    ]
    arguments = tuple([value + first for value in block.arguments])
    return replace(block, arguments=arguments, operations=operations)


def test_bodies_are_the_same_up_to_the_numbers_of_their_values() -> None:
    whole = "%q, %r = stablehlo.while(%i = %x, %s = %y) : tensor<f32>, tensor<f32> cond { %p = stablehlo.compare LT, %i, %s : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %p : tensor<i1> } do { %j = stablehlo.subtract %s, %i : tensor<f32> stablehlo.return %j, %s : tensor<f32>, tensor<f32> }"

    def body(line: str, results: str = "%q, %r") -> Block:
        text = f"module {{ func.func @f(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {{ {line} return {results} : tensor<f32>, tensor<f32> }} }}"
        return module_tree(text).functions["f"].body

    first = body(whole)
    assert same_body(first, renumbered(first, 7))
    assert same_body(renumbered(first, 7), first)
    for old, new in (("%s, %i :", "%i, %s :"), ("LT, %i, %s", "LT, %s, %i"), ("return %j, %s", "return %s, %j"), ("subtract", "add")):  # fmt: skip
        other = body(whole.replace(old, new))
        assert other != first
        assert not same_body(first, other)
    assert not same_body(first, body(whole, "%r, %q"))
    assert not same_body(first, body(f"{whole} %t = stablehlo.sine %q : tensor<f32>"))


def test_a_slice_of_a_computed_number_is_that_number() -> None:
    text = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %0 = stablehlo.multiply %x, %x : tensor<f64>
      %1 = stablehlo.slice %0 [] : (tensor<f64>) -> tensor<f64>
      return %1 : tensor<f64>
    }"""
    assert import_stablehlo(text).run(np.float64(3.0)) == 9.0


@pytest.mark.parametrize("count", range(8))
def test_regions_that_are_no_reduction_of_ours_take_every_element(count: int) -> None:
    """A region that is no supported reduction must be applied to any number of elements.

    Here it computes (1 + x) (1 + y) - 1.
    """
    x = np.arange(1, 3 * count + 1, dtype="i4").reshape(3, count)
    body = (
        "%z = stablehlo.constant dense<0> : tensor<i32> "
        '%0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 1>}> '
        "({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %m = stablehlo.multiply %p, %q : tensor<i32> "
        "%s = stablehlo.add %p, %q : tensor<i32> %r = stablehlo.add %m, %s : tensor<i32> "
        f"stablehlo.return %r : tensor<i32> }}) : (tensor<3x{count}xi32>, tensor<i32>) -> tensor<3xi32>"
    )
    y = import_stablehlo(module((x,), "3xi32", body)).run(x)
    np.testing.assert_array_equal(y, np.prod(x + 1, axis=1, dtype="i4") - 1)


@pytest.mark.parametrize(
    "name", ["check.eq", "check.expect_eq", "check.expect_close", "check.expect_almost_eq"]
)
def test_checks_of_the_reference_interpreter_compute_nothing(name: str) -> None:
    body = (
        f"stablehlo.custom_call @{name}(%a, %a) {{has_side_effect = true}} : "
        "(tensor<6xf32>, tensor<6xf32>) -> () %0 = stablehlo.negate %a : tensor<6xf32>"
    )
    np.testing.assert_array_equal(import_stablehlo(module((V,), "6xf32", body)).run(V), -V)


@pytest.mark.parametrize(("kind", "one"), [("f16", 2.0**-11), ("bf16", 2.0**-8)])
def test_windows_of_narrow_floats_are_added_in_wider_ones(kind: str, one: float) -> None:
    """The sum of 1 and two half ulps must exceed 1.

    It would be 1 if each partial sum were rounded to the narrow dtype.
    """
    dtype = {"f16": "float16", "bf16": "bfloat16"}[kind]
    x = np.asarray(tnf.asarray([1.0, one, one, 0.0], dtype=dtype))
    body = (
        f"%z = stablehlo.constant dense<0.0> : tensor<{kind}> "
        '%0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 4>}> '
        f"({{ ^bb0(%p: tensor<{kind}>, %q: tensor<{kind}>): %s = stablehlo.add %p, %q : tensor<{kind}> "
        f"stablehlo.return %s : tensor<{kind}> }}) : (tensor<4x{kind}>, tensor<{kind}>) -> tensor<1x{kind}>"
    )
    text = f"func.func @main(%a: tensor<4x{kind}>) -> tensor<1x{kind}> {{ {body} return %0 : tensor<1x{kind}> }}"
    assert float(import_stablehlo(text).run(x)[0]) == 1.0 + 2 * one


def test_places_that_a_broadcast_counts() -> None:
    """An arg reduction must be recognised if its indices are an iota that is broadcast along the rows."""
    x = np.array([[3, 9, 2, 9], [5, 1, 7, 0], [4, 4, 4, 4]], "f4")
    body = (
        "%i = stablehlo.iota dim = 0 : tensor<4xi32> "
        "%j = stablehlo.broadcast_in_dim %i, dims = [1] : (tensor<4xi32>) -> tensor<3x4xi32> "
        "%lowest = stablehlo.constant dense<0xFF800000> : tensor<f32> "
        "%zero = stablehlo.constant dense<0> : tensor<i32> "
        "%m, %0 = stablehlo.reduce(%a init: %lowest), (%j init: %zero) across dimensions = [1] : "
        "(tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>) "
        "reducer(%p: tensor<f32>, %q: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>) { "
        "%g = stablehlo.compare GT, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "%n = stablehlo.compare NE, %p, %p, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "%w = stablehlo.or %g, %n : tensor<i1> "
        "%e = stablehlo.compare EQ, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "%f = stablehlo.compare LT, %k, %l, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        "%t = stablehlo.and %e, %f : tensor<i1> "
        "%u = stablehlo.or %w, %t : tensor<i1> "
        "%v = stablehlo.select %w, %p, %q : tensor<i1>, tensor<f32> "
        "%h = stablehlo.select %u, %k, %l : tensor<i1>, tensor<i32> "
        "stablehlo.return %v, %h : tensor<f32>, tensor<i32> }"
    )
    program = import_stablehlo(module((x,), "3xi32", body))
    np.testing.assert_array_equal(program.run(x), x.argmax(1))
    assert "ArgMax" in [step.op.name for step in program.instructions]


def windows_of(x: Any, start: int, sizes: Any, strides: Any, base: Any, dilations: Any, padding: Any) -> list[Any]:  # fmt: skip
    """Return the elements of each window, as nested lists. The outer lists have the shape of the result."""
    wide = np.full([(n - 1) * b + 1 for n, b in zip(x.shape, base, strict=True)], start, x.dtype)
    wide[tuple([slice(None, None, b) for b in base])] = x
    wide = np.pad(wide, padding, constant_values=start)
    places = [
        range(0, n - (size - 1) * dilation, stride)
        for n, size, stride, dilation in zip(wide.shape, sizes, strides, dilations, strict=True)
    ]
    return [
        [
            wide[i : i + (sizes[0] - 1) * dilations[0] + 1 : dilations[0],
                 j : j + (sizes[1] - 1) * dilations[1] + 1 : dilations[1]]
            for j in places[1]
        ]
        for i in places[0]
    ]  # fmt: skip


@pytest.mark.parametrize("is_sum", [True, False])
@pytest.mark.parametrize(
    ("sizes", "strides", "base", "dilations", "padding"),
    [
        ((2, 3), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
        ((2, 3), (2, 1), (1, 2), (1, 2), ((1, 0), (0, 2))),
        ((1, 2), (3, 2), (2, 1), (1, 3), ((0, 2), (1, 1))),
        ((4, 1), (1, 3), (1, 1), (1, 1), ((0, 0), (0, 0))),
        ((5, 2), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
        ((2, 6), (1, 2), (1, 1), (1, 1), ((0, 0), (0, 0))),
        ((3, 2), (1, 1), (1, 1), (2, 5), ((0, 0), (0, 0))),
    ],
)
def test_windows_of_a_matrix(
    sizes: Any, strides: Any, base: Any, dilations: Any, padding: Any, is_sum: bool
) -> None:
    """Window reductions must be right, even if the window exceeds the matrix.

    The reductions are sums, and (1 + x) (1 + y) - 1.
    """
    x = np.arange(1, 21, dtype="i4").reshape(4, 5)
    windows = windows_of(x, 0, sizes, strides, base, dilations, padding)
    reduce = np.sum if is_sum else lambda w: np.prod(w + 1) - 1
    counts = [
        max(0, (n - 1) * b + 1 + sum(edges) - (size - 1) * dilation - 1) // stride + 1
        if (n - 1) * b + 1 + sum(edges) > (size - 1) * dilation
        else 0
        for n, b, edges, size, dilation, stride in zip(
            x.shape, base, padding, sizes, dilations, strides, strict=True
        )
    ]
    wanted = np.array([[reduce(w) for w in row] for row in windows], "i4").reshape(counts)
    made = f"{counts[0]}x{counts[1]}xi32"
    region = (
        "%r = stablehlo.add %p, %q : tensor<i32> "
        if is_sum
        else "%m = stablehlo.multiply %p, %q : tensor<i32> %s = stablehlo.add %p, %q : tensor<i32> "
        "%r = stablehlo.add %m, %s : tensor<i32> "
    )
    numbers = {
        "window_dimensions": sizes, "window_strides": strides,
        "base_dilations": base, "window_dilations": dilations,
    }  # fmt: skip
    attributes = [f"{name} = array<i64: {pair[0]}, {pair[1]}>" for name, pair in numbers.items()]
    body = (
        "%z = stablehlo.constant dense<0> : tensor<i32> "
        f'%0 = "stablehlo.reduce_window"(%a, %z) <{{{", ".join(attributes)}, '
        f"padding = dense<{[list(edges) for edges in padding]}> : tensor<2x2xi64>}}> "
        f"({{ ^bb0(%p: tensor<i32>, %q: tensor<i32>): {region} stablehlo.return %r : tensor<i32> }}) : "
        f"(tensor<4x5xi32>, tensor<i32>) -> tensor<{made}>"
    )
    np.testing.assert_array_equal(import_stablehlo(module((x,), made, body)).run(x), wanted)


# ---- dots, factors and transforms --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "precision"),
    [
        ("", None), (", precision = [DEFAULT, DEFAULT]", "default"), (", precision = [HIGH, HIGH]", "high"),
        (", precision = [HIGHEST, HIGHEST]", "highest"), (", precision = [HIGH, HIGHEST]", None),
        (", precision = [DEFAULT, HIGHEST]", None),
    ],
)  # fmt: skip
def test_a_precision_is_that_of_both_operands(asked: str, precision: str | None) -> None:
    body = f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1]{asked} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>"
    program = import_stablehlo(module((X, Y), "3x3xf32", body))
    (step,) = program.instructions
    assert step.op.name == "DotGeneral"
    assert getattr(step.op, "precision", "") == precision
    np.testing.assert_allclose(program.run(X, Y), X @ Y.T, rtol=1e-5)


@pytest.mark.parametrize(
    ("x", "y", "result"),
    [((4,), (4,), ""), ((3, 4), (4,), "3x"), ((4,), (4, 2), "2x"), ((3, 4), (4, 2), "3x2x")],
)
def test_dots_of_vectors_and_matrices(x: Any, y: Any, result: str) -> None:
    a, b = RNG.integers(-5, 5, x).astype("i4"), RNG.integers(-5, 5, y).astype("i4")
    types = ["tensor<" + "x".join([*map(str, shape), "i32"]) + ">" for shape in (x, y)]
    body = f"%0 = stablehlo.dot %a, %b : ({', '.join(types)}) -> tensor<{result}i32>"
    np.testing.assert_array_equal(
        import_stablehlo(module((a, b), f"{result}i32", body)).run(a, b), a @ b
    )


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("lower", ["true", "false", None])
def test_cholesky_reads_one_triangle(lower: str | None, is_complex: bool) -> None:
    g = RNG.normal(size=(2, 4, 4)) + (1j * RNG.normal(size=(2, 4, 4)) if is_complex else 0)
    h = g @ g.conj().swapaxes(1, 2) + np.eye(4)
    is_lower = lower == "true"
    given = np.tril(h) if is_lower else np.triu(h)
    given = given + (np.triu(g, 1) if is_lower else np.tril(g, -1))
    kind = "2x4x4xcomplex<f64>" if is_complex else "2x4x4xf64"
    flag = "" if lower is None else f" {{lower = {lower}}}"
    body = f'%0 = "stablehlo.cholesky"(%a){flag} : (tensor<{kind}>) -> tensor<{kind}>'
    factor = import_stablehlo(module((given,), kind, body)).run(given)
    wanted = np.linalg.cholesky(h)
    wanted = wanted if is_lower else wanted.conj().swapaxes(1, 2)
    triangle = np.tril if is_lower else np.triu
    np.testing.assert_allclose(triangle(factor), wanted, rtol=1e-10)


@pytest.mark.parametrize("turned", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_solves_by_their_definition(
    left: bool, lower: bool, unit: bool, turned: str
) -> None:
    """Elements in the other triangle must not be read, and neither must the diagonal of a unit triangular matrix."""
    a = RNG.normal(size=(2, 3, 3, 2)) @ [1, 1j] + 3 * np.eye(3)
    b = RNG.normal(size=(2, 3, 2, 2)) @ [1, 1j]
    b = b if left else b.swapaxes(1, 2).copy()
    kinds = [f"tensor<{'x'.join(map(str, x.shape))}xcomplex<f64>>" for x in (a, b)]
    flags = [f"{name} = {str(flag).lower()}" for name, flag in (("left_side", left), ("lower", lower), ("unit_diagonal", unit))]  # fmt: skip
    body = (
        f'%0 = "stablehlo.triangular_solve"(%a, %b) <{{{", ".join(flags)}, '
        f"transpose_a = #stablehlo<transpose {turned}>}}> : ({', '.join(kinds)}) -> {kinds[1]}"
    )
    x = import_stablehlo(module((a, b), kinds[1][7:-1], body)).run(a, b)
    t = np.tril(a) if lower else np.triu(a)
    if unit:
        t = t * (1 - np.eye(3)) + np.eye(3)
    t = t if turned == "NO_TRANSPOSE" else t.swapaxes(1, 2)
    t = t.conj() if turned == "ADJOINT" else t
    np.testing.assert_allclose(t @ x if left else x @ t, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lengths", [[6], [4, 6]])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_transforms(name: str, lengths: list[int]) -> None:
    half = [*lengths[:-1], lengths[-1] // 2 + 1]
    shapes = {"rfft": (lengths, half), "irfft": (half, lengths)}.get(name, (lengths, lengths))
    x = RNG.normal(size=(3, *shapes[0], 2)) @ [1, 1j]
    x = x.real.copy() if name == "rfft" else x
    types = [
        "x".join([*map(str, (3, *shape)), "f64" if is_real else "complex<f64>"])
        for shape, is_real in zip(shapes, (name == "rfft", name == "irfft"), strict=True)
    ]
    body = f"%0 = stablehlo.fft %a, type = {name.upper()}, length = {lengths} : (tensor<{types[0]}>) -> tensor<{types[1]}>"
    axes = tuple(range(1, len(lengths) + 1))
    numpys = getattr(np.fft, f"{name}n")
    wanted = numpys(x, lengths, axes) if name == "irfft" else numpys(x, axes=axes)
    found = import_stablehlo(module((x,), types[1], body)).run(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "barriers"), [("i32", 0), ("f32", 1)])
def test_the_barrier_before_a_convolution_of_integers_is_ours(kind: str, barriers: int) -> None:
    """Lowering writes a barrier before convolutions of integers.

    The import must remove it, and keep barriers before convolutions of floats.
    """
    text = f"""func.func @main(%x: tensor<1x1x4x{kind}>, %w: tensor<1x1x2x{kind}>) -> tensor<1x1x3x{kind}> {{
  %y = stablehlo.optimization_barrier %x : tensor<1x1x4x{kind}>
  %0 = "stablehlo.convolution"(%y, %w) <{{batch_group_count = 1 : i64, feature_group_count = 1 : i64,
    dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>}}> : (tensor<1x1x4x{kind}>, tensor<1x1x2x{kind}>) -> tensor<1x1x3x{kind}>
  return %0 : tensor<1x1x3x{kind}>
}}"""
    names = [step.op.name for step in import_stablehlo(text).instructions]
    assert names == ["OptimizationBarrier"] * barriers + ["Convolution"]
    two = text.replace(
        "%y = stablehlo.optimization_barrier %x", "%y:2 = stablehlo.optimization_barrier %x, %w"
    )
    two = two.replace(
        f"%x, %w : tensor<1x1x4x{kind}>", f"%x, %w : tensor<1x1x4x{kind}>, tensor<1x1x2x{kind}>"
    )
    two = two.replace("(%y, %w)", "(%y#0, %w)")
    names = [step.op.name for step in import_stablehlo(two).instructions]
    assert names == ["OptimizationBarrier", "Convolution"]


# ---- elements ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "EQ", "NE"])
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_comparisons_in_the_total_order(kind: str, direction: str) -> None:
    """Comparisons must follow the total order.

    The numbers are listed in this order, -NaN < -inf < .. < -0 < 0 < .. < inf < NaN.
    """
    dtype = {"bf16": ml_dtypes.bfloat16}.get(kind, f"f{kind[1:].replace('16', '2').replace('32', '4').replace('64', '8')}")  # fmt: skip
    numbers = np.array([-np.nan, -np.inf, -2, -1, -0.0, 0.0, 1, 2, np.inf, np.nan]).astype(dtype)
    numbers[0] = np.copysign(numbers[-1], np.array(-1).astype(dtype))
    i, j = np.indices((10, 10)).reshape(2, -1)
    text = f"""func.func @main(%x: tensor<100x{kind}>, %y: tensor<100x{kind}>) -> tensor<100xi1> {{
  %0 = stablehlo.compare {direction}, %x, %y, TOTALORDER : (tensor<100x{kind}>, tensor<100x{kind}>) -> tensor<100xi1>
  return %0 : tensor<100xi1>
}}"""
    compare = getattr(operator, direction.lower())
    np.testing.assert_array_equal(import_stablehlo(text).run(numbers[i], numbers[j]), compare(i, j))


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_neighbours_in_every_width(kind: str) -> None:
    dtype = np.dtype({"f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8"}[kind])
    limits = ml_dtypes.finfo(dtype)
    some = np.array([0.0, 1.0, 1.5, float(limits.max), float(limits.tiny), float(limits.smallest_subnormal), np.inf])  # fmt: skip
    numbers = np.array([*some, *-some, np.nan]).astype(dtype)
    x, y = (z.ravel() for z in np.meshgrid(numbers, numbers, indexing="ij"))
    n = len(x)
    text = f"""func.func @main(%x: tensor<{n}x{kind}>, %y: tensor<{n}x{kind}>) -> tensor<{n}x{kind}> {{
  %0 = chlo.next_after %x, %y : tensor<{n}x{kind}>, tensor<{n}x{kind}> -> tensor<{n}x{kind}>
  return %0 : tensor<{n}x{kind}>
}}"""
    found = import_stablehlo(text).run(x, y)
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x, y)
    word = f"u{dtype.itemsize}"
    odd = np.isnan(wanted.astype("f8"))
    np.testing.assert_array_equal(np.isnan(found.astype("f8")), odd)
    same = x.astype("f8") == y.astype("f8")
    np.testing.assert_array_equal(found[same & ~odd].view(word), y[same & ~odd].view(word))
    rest = ~same & ~odd
    np.testing.assert_array_equal(found[rest].view(word), wanted[rest].view(word))


def test_the_imaginary_part_of_real_numbers_is_zero() -> None:
    body = "%0 = stablehlo.imag %a : tensor<6xf32>"
    np.testing.assert_array_equal(
        import_stablehlo(module((V,), "6xf32", body)).run(V), np.zeros(6, "f4")
    )


@pytest.mark.parametrize(
    ("order", "orders"),
    [
        ("0.0", [0, 0]), ("1.0", [1, 1]), ("4.0", [4, 4]), ("[1.0, 1.0]", [1, 1]), ("[1.0, 2.0]", [1, 2]),
        ("0.5", None), ("-1.0", None), ("-0.5", None), ("0x7FF0000000000000", None), ("0x7FF8000000000000", None),
    ],
)  # fmt: skip
def test_the_order_of_a_polygamma(order: str, orders: list[int] | None) -> None:
    """If the order is not a natural number, the result must be NaN, as by StableHLO's formula."""
    x = np.array([1.25, 3.5])
    body = (
        f"%n = stablehlo.constant dense<{order}> : tensor<2xf64> "
        "%0 = chlo.polygamma %n, %a : tensor<2xf64>, tensor<2xf64> -> tensor<2xf64>"
    )
    program = import_stablehlo(module((x,), "2xf64", body))
    pairs = None if orders is None else zip(orders, x, strict=True)
    wanted = [np.nan, np.nan] if pairs is None else [float(mpmath.psi(n, v)) for n, v in pairs]
    np.testing.assert_allclose(program.run(x), wanted, rtol=1e-13)
    names = [instruction.op.name for instruction in program.instructions]
    assert ("Polygamma" in names) == (orders is not None and len({*orders}) == 1)


# ---- slices at indices -------------------------------------------------------------------------------


@pytest.mark.parametrize(("axis", "batch"), [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1), (2, 2), (3, 2)])  # fmt: skip
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_slices_at_places_along_any_axis(axis: int, batch: int, rank: int) -> None:
    shape = (2, 3, 4, 5)
    x = np.arange(120, dtype="f4").reshape(shape)
    places = RNG.integers(0, shape[axis], (*shape[:batch], *(3, 2)[:rank])).astype("i4")
    wanted = np.array(
        [np.take(x[at], places[at], axis - batch) for at in np.ndindex(shape[:batch])]
    )
    wanted = wanted.reshape(*shape[:batch], *wanted.shape[1:])
    made = "x".join([*map(str, wanted.shape), "f32"])
    where = "x".join([*map(str, places.shape), "i32"])
    body = (
        f'%0 = "stablehlo.torch_index_select"(%a, %b) <{{dim = {axis} : i64, batch_dims = {batch} : i64}}> : '
        f"(tensor<2x3x4x5xf32>, tensor<{where}>) -> tensor<{made}>"
    )
    text = f"func.func @main(%a: tensor<2x3x4x5xf32>, %b: tensor<{where}>) -> tensor<{made}> {{ {body} return %0 : tensor<{made}> }}"
    np.testing.assert_array_equal(import_stablehlo(text).run(x, places), wanted)


@pytest.mark.parametrize(("axis", "batch"), [(0, 1 << 40), (0, -1), (1, 2), (2, 0)])
def test_axes_of_selections_are_in_the_ranks(
    axis: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    kind = "tensor<3x4xf32>"
    text = f"""func.func @main(%a: {kind}, %b: tensor<2x2xi32>) -> {kind} {{
  %0 = "stablehlo.torch_index_select"(%a, %b) <{{dim = {axis} : i64, batch_dims = {batch} : i64}}> : ({kind}, tensor<2x2xi32>) -> {kind}
  return %0 : {kind} }}"""
    with pytest.raises(errors.InvalidConfigError, match=f"batch_dims = {batch}, dim = {axis}"):
        import_stablehlo(text)


# ---- devices and unsupported operations --------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "count"),
    [
        ("dense<0> : tensor<1x1xi64>", 1), ("dense<[[0], [1]]> : tensor<2x1xi64>", 1),
        ("dense<[[0, 1]]> : tensor<1x2xi64>", 2), ("dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>", 3),
    ],
)  # fmt: skip
def test_groups_of_devices(groups: str, count: int) -> None:
    body = f'%0 = "stablehlo.all_to_all"(%a) <{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {count} : i64, replica_groups = {groups}}}> : (tensor<6xf32>) -> tensor<6xf32>'
    text = module((V,), "6xf32", body)
    if count == 1:
        np.testing.assert_array_equal(import_stablehlo(text).run(V), V)
    else:
        with pytest.raises(errors.UnsupportedError, match=f"stablehlo.all_to_all among {count} devices: a program here"):  # fmt: skip
            import_stablehlo(text)


@pytest.mark.parametrize(
    ("pairs", "result"),
    [
        ("dense<> : tensor<0x2xi64>", "zeros"), ("dense<[[0, 0]]> : tensor<1x2xi64>", "same"),
        ("dense<[[0, 1]]> : tensor<1x2xi64>", "2"), ("dense<[[1, 0]]> : tensor<1x2xi64>", "2"),
        ("dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>", "3"),
    ],
)  # fmt: skip
def test_permutations_of_devices(pairs: str, result: str) -> None:
    body = f'%0 = "stablehlo.collective_permute"(%a) <{{source_target_pairs = {pairs}}}> : (tensor<6xf32>) -> tensor<6xf32>'
    text = module((V,), "6xf32", body)
    if result in ("zeros", "same"):
        np.testing.assert_array_equal(import_stablehlo(text).run(V), V * (result == "same"))
    else:
        with pytest.raises(errors.UnsupportedError, match=f"among {result} devices"):
            import_stablehlo(text)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["replica", "partition"])
def test_numbers_of_devices(name: str, count: int) -> None:
    others = {"replica": "partition", "partition": "replica"}[name]
    text = module((V,), "ui32", f"%0 = stablehlo.{name}_id : tensor<ui32>")
    head = (
        f"module attributes {{mhlo.num_{name}s = {count} : i32, mhlo.num_{others}s = 1 : i32}} {{\n"
    )
    if count == 1:
        assert import_stablehlo(head + text + "}").run(V) == 0
    else:
        with pytest.raises(errors.UnsupportedError, match=f"{name}_id among 2 devices"):
            import_stablehlo(head + text + "}")


INSTEAD = {
    "async_done": "compile without asynchronous calls",
    "async_start": "compile without asynchronous calls",
    "infeed": "pass the value that it reads as an argument of the module",
    "outfeed": "return the value that it writes as a result of the module",
    "rng": "its state is nobody's argument; use rng_bit_generator, whose state is",
}


@pytest.mark.parametrize("name", INSTEAD)
def test_what_to_do_instead(name: str) -> None:
    operation: Any = SimpleNamespace(name=f"stablehlo.{name}")
    reader: Any = SimpleNamespace(feeds=None)
    with pytest.raises(errors.UnsupportedError) as caught:
        READERS[f"stablehlo.{name}"](reader, operation, ())
    assert str(caught.value) == f"stablehlo.{name}: {INSTEAD[name]}"


# ---- reductions and windows --------------------------------------------------------------------------

WORDS = {"i32": "i4", "ui8": "u1", "f32": "f4", "i1": "?"}
COMBINE: dict[str, Any] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
CARDS = {
    "add": "ReduceSum", "multiply": "ReduceProd", "maximum": "ReduceMax", "minimum": "ReduceMin",
    "and": "ReduceAnd", "or": "ReduceOr",
}  # fmt: skip
ON_BOOLS = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}
STARTS: dict[str, dict[str, list[str]]] = {
    "i32": {
        "add": ["0", "5"], "multiply": ["1", "3"], "maximum": ["-2147483648", "2"], "minimum": ["2147483647", "1"],
        "and": ["-1", "6"], "or": ["0", "8"], "xor": ["0", "9"],
    },
    "ui8": {
        "add": ["0", "250"], "multiply": ["1", "7"], "maximum": ["0", "3"], "minimum": ["255", "2"],
        "and": ["255", "6"], "or": ["0", "128"], "xor": ["0", "129"],
    },
    "f32": {
        "add": ["0.0", "0.5"], "multiply": ["1.0", "2.0"], "maximum": ["0xFF800000", "2.0"],
        "minimum": ["0x7F800000", "1.0"],
    },
    "i1": {
        "add": ["false", "true"], "multiply": ["true", "false"], "maximum": ["false", "true"],
        "minimum": ["true", "false"], "and": ["true", "false"], "or": ["false", "true"], "xor": ["false", "true"],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, starts in STARTS.items() for name in starts]
)
def test_reductions_from_their_identity_and_from_another_number(kind: str, name: str) -> None:
    """An initial value that is the identity of the reduction must add no op.

    Sums and products of booleans must become logical ops.
    """
    x = np.array([[3, 1, 7, 2], [5, 5, 0, 4], [6, 1, 1, 3]]).astype(WORDS[kind])
    x = x > 2 if kind == "i1" else x
    logic = ON_BOOLS.get(name, name) if kind == "i1" else name
    for is_other, start in enumerate(STARTS[kind][name]):
        text = f"""func.func @main(%x: tensor<3x4x{kind}>) -> tensor<3x{kind}> {{
  %z = stablehlo.constant dense<{start}> : tensor<{kind}>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.{name} across dimensions = [1] : (tensor<3x4x{kind}>, tensor<{kind}>) -> tensor<3x{kind}>
  return %0 : tensor<3x{kind}>
}}"""
        number = {"0xFF800000": -np.inf, "0x7F800000": np.inf, "true": 1, "false": 0}.get(start)
        number = float(start) if number is None else number
        first = np.full((3, 1), number).astype(x.dtype)
        wanted = first[:, 0]
        for column in x.T:
            wanted = COMBINE[logic](wanted, column)
        program = import_stablehlo(text)
        found = program.run(x)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, wanted)
        names = [step.op.name for step in program.instructions]
        if logic in CARDS and not is_other:
            assert names == [CARDS[logic]]
        elif logic in CARDS:
            assert names[0] == CARDS[logic] or CARDS[logic] in names
            assert len(names) > 1
        else:
            assert not any(card in names for card in CARDS.values())


def windowed(kind: str, n: int, made: int, region: str, start: str, numbers: str) -> str:
    return f"""func.func @main(%x: tensor<{n}x{kind}>) -> tensor<{made}x{kind}> {{
  %z = stablehlo.constant dense<{start}> : tensor<{kind}>
  %0 = "stablehlo.reduce_window"(%x, %z) <{{{numbers}}}> ({{ ^bb0(%p: tensor<{kind}>, %q: tensor<{kind}>):
    %r = stablehlo.{region} %p, %q : tensor<{kind}> stablehlo.return %r : tensor<{kind}> }})
    : (tensor<{n}x{kind}>, tensor<{kind}>) -> tensor<{made}x{kind}>
  return %0 : tensor<{made}x{kind}>
}}"""


# Expected number of combining ops for each window size. Small windows combine elements one by one, larger ones by
# doubling.
STEPS = {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 4, 8: 7, 9: 4, 10: 4, 11: 5, 12: 4, 15: 6, 16: 4, 21: 6}  # fmt: skip


@pytest.mark.parametrize("size", STEPS)
def test_how_often_windows_are_combined(size: int) -> None:
    n = 30 - size + 1
    text = windowed("i32", 30, n, "add", "0", f"window_dimensions = array<i64: {size}>")
    program = import_stablehlo(text)
    assert [step.op.name for step in program.instructions].count("Add") == STEPS[size]
    x = np.arange(30, dtype="i4") ** 3
    wanted = [x[i : i + size].sum() for i in range(n)]
    np.testing.assert_array_equal(program.run(x), wanted)


SCANS = {"add": "CumSum", "multiply": "CumProd", "maximum": "CumMax", "minimum": "CumMin"}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, starts in STARTS.items() for name in starts]
)
def test_windows_of_all_up_to_an_element_are_scans(kind: str, name: str, reverse: bool) -> None:
    """A window reduction must be imported as a scan if it starts from the identity and all padding is at one end."""
    x = np.array([3, 1, 7, 0, 2, 5]).astype(WORDS[kind])
    x = x > 2 if kind == "i1" else x
    logic = ON_BOOLS.get(name, name) if kind == "i1" else name
    scans = {"or": "CumMax", "and": "CumMin"} if kind == "i1" else SCANS
    identity, other = STARTS[kind][name]
    for low, high, start in ((5, 0, identity), (5, 0, other), (4, 1, identity), (3, 2, identity)):
        low, high = (high, low) if reverse else (low, high)
        numbers = f"window_dimensions = array<i64: 6>, padding = dense<[[{low}, {high}]]> : tensor<1x2xi64>"
        program = import_stablehlo(windowed(kind, 6, 6, name, start, numbers))
        first = {"0xFF800000": -np.inf, "0x7F800000": np.inf, "true": 1, "false": 0}.get(start)
        first = np.array(float(start) if first is None else first).astype(x.dtype)
        wide = np.pad(x, (low, high), constant_values=first)
        wanted = []
        for i in range(6):
            y = first
            for v in wide[i : i + 6]:
                y = COMBINE[logic](y, v)
            wanted.append(y)
        np.testing.assert_array_equal(program.run(x), wanted)
        names = [step.op.name for step in program.instructions]
        is_scan = start == identity and 0 in (low, high) and logic in scans
        assert (names == [scans.get(logic)]) == is_scan


ADDED: dict[str, tuple[str, Any]] = {
    "add": ("%r = stablehlo.add %p, %q : tensor<f64>", lambda x, y: x + y),
    "maximum": ("%r = stablehlo.maximum %p, %q : tensor<f64>", max),
    "set": ("%r = stablehlo.optimization_barrier %q : tensor<f64>", lambda x, y: y),
    "no op of ours": (
        "%m = stablehlo.multiply %p, %q : tensor<f64> %s = stablehlo.add %p, %q : tensor<f64> "
        "%r = stablehlo.add %m, %s : tensor<f64>",
        lambda x, y: x * y + x + y,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("direction", ["GE", "LE", "GT"])
@pytest.mark.parametrize(
    ("sizes", "strides", "padding"),
    [((2, 2), (1, 1), (0, 0)), ((2, 3), (2, 1), (1, 1)), ((1, 2), (1, 2), (0, 1)), ((4, 4), (1, 1), (0, 0))],
)  # fmt: skip
def test_elements_that_windows_select(
    sizes: Any, strides: Any, padding: Any, direction: str, name: str
) -> None:
    """Select-and-scatter must equal a loop over windows. Padding must never be selected."""
    region, combine = ADDED[name]
    x = np.array([[1, 4, 4, 2], [3, 3, 0, 5], [4, 1, 5, 5], [2, 2, 2, 2]], float)
    counts = [
        (4 + 2 * edge - size) // stride + 1
        for size, stride, edge in zip(sizes, strides, padding, strict=True)
    ]
    source = RNG.normal(size=counts)
    compare = getattr(operator, direction.lower())
    wanted = np.full((4, 4), 0.5)
    for at in np.ndindex(*counts):
        chosen = None
        for offset in np.ndindex(*sizes):
            place = tuple(
                n * s + o - e for n, s, o, e in zip(at, strides, offset, padding, strict=True)
            )
            if not all(0 <= i < 4 for i in place):
                continue
            if chosen is None or not compare(x[chosen], x[place]):
                chosen = place
        assert chosen is not None
        wanted[chosen] = combine(wanted[chosen], source[at])
    kind = f"tensor<{counts[0]}x{counts[1]}xf64>"
    body = (
        "%z = stablehlo.constant dense<0.5> : tensor<f64> "
        f'%0 = "stablehlo.select_and_scatter"(%a, %b, %z) <{{window_dimensions = array<i64: {sizes[0]}, {sizes[1]}>, '
        f"window_strides = array<i64: {strides[0]}, {strides[1]}>, "
        f"padding = dense<[[{padding[0]}, {padding[0]}], [{padding[1]}, {padding[1]}]]> : tensor<2x2xi64>}}> "
        "({ ^bb0(%p: tensor<f64>, %q: tensor<f64>): "
        f"%c = stablehlo.compare {direction}, %p, %q : (tensor<f64>, tensor<f64>) -> tensor<i1> "
        "stablehlo.return %c : tensor<i1> }, { ^bb0(%p: tensor<f64>, %q: tensor<f64>): "
        f"{region} stablehlo.return %r : tensor<f64> }}) : (tensor<4x4xf64>, {kind}, tensor<f64>) -> tensor<4x4xf64>"
    )
    found = import_stablehlo(module((x, source), "4x4xf64", body)).run(x, source)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_a_sort_of_nothing_is_none(shape: tuple[int, ...]) -> None:
    kind = "x".join([*map(str, shape), "f32"])
    body = (
        f'%0 = "stablehlo.sort"(%a) <{{dimension = {len(shape) - 1} : i64}}> ({{ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        f"stablehlo.return %c : tensor<i1> }}) : (tensor<{kind}>) -> tensor<{kind}>"
    )
    assert not import_stablehlo(module((np.zeros(shape, "f4"),), kind, body)).instructions


def test_a_sort_along_no_axis_that_is_named_is_along_the_last() -> None:
    body = (
        '%0 = "stablehlo.sort"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "stablehlo.return %c : tensor<i1> }) : (tensor<3x4xf32>) -> tensor<3x4xf32>"
    )
    program = import_stablehlo(module((X,), "3x4xf32", body))
    np.testing.assert_array_equal(program.run(X), np.sort(X, 1))


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE"])
def test_complex_numbers_are_compared_by_parts(direction: str) -> None:
    """Complex numbers must be compared by their parts.

    #compare: "For complex element types, lexicographic comparison of (real, imag) pairs is performed".
    """
    parts = [-1.0, 0.0, 2.0, np.nan]
    z = np.array([complex(a, b) for a in parts for b in parts])
    x, y = (v.ravel() for v in np.meshgrid(z, z))
    body = f"""%r = stablehlo.compare {direction}, %a, %b, FLOAT : (tensor<256xcomplex<f64>>, tensor<256xcomplex<f64>>) -> tensor<256xi1>
      return %r : tensor<256xi1>"""
    program = import_stablehlo(
        f"func.func @main(%a: tensor<256xcomplex<f64>>, %b: tensor<256xcomplex<f64>>) -> tensor<256xi1> {{ {body} }}"
    )
    ordered = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge}[
        direction
    ]
    wanted = [
        ordered(p.real, q.real) if p.real != q.real else ordered(p.imag, q.imag)
        for p, q in zip(x.tolist(), y.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(program.run(x, y), wanted)


def test_convolutions_of_bools_are_true_where_a_pair_is() -> None:
    """For bools, the sums of a convolution must be "or", and the products "and"."""
    x, kernel = np.random.default_rng(0).random((2, 1, 12, 1)) < 0.3
    kernel = kernel[0, :3, :, None]
    program = import_stablehlo("""func.func @main(%x: tensor<1x12x1xi1>, %k: tensor<3x1x1xi1>) -> tensor<1x10x1xi1> {
      %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x12x1xi1>, tensor<3x1x1xi1>) -> tensor<1x10x1xi1>
      return %y : tensor<1x10x1xi1> }""")
    windows = np.lib.stride_tricks.sliding_window_view(x[0, :, 0], 3)
    assert 0 < (windows & kernel[:, 0, 0]).any(1).sum() < 10
    np.testing.assert_array_equal(
        program.run(x, kernel)[0, :, 0], (windows & kernel[:, 0, 0]).any(1)
    )
