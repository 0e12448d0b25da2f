"""Forms of modules that must be read: constants as resources, tuples, and files with any extension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo, importing
from lowering.mlir_bindings import MlirDiagnosticError, bytecode
from tenferro import errors
from xla_peer.command_line.target import find_target

CONSTANTS: dict[str, Any] = {
    "f32": np.array([1, 2], "f4"),
    "f64": np.array([1.5, -np.inf]),
    "bf16": np.array([1, 2]).astype(ml_dtypes.bfloat16),
    "i1": np.array([True, False, True]),
    "i64": np.arange(6).reshape(2, 3),
    "ui8": np.array([255, 0], "u1"),
    "complex<f32>": np.array([1 + 2j, 3 - 4j], "c8"),
}


def with_resources(**blobs: str) -> str:
    types = [f"tensor<{'x'.join(map(str, x.shape))}x{element}>" for element, x in CONSTANTS.items()]
    lines = [
        f"  %{n} = stablehlo.constant dense_resource<weights_{n}> : {kind}"
        for n, kind in enumerate(types)
    ]
    named = ", ".join(f"%{n}" for n in range(len(types)))
    data = ", ".join(f'{name}: "0x{blob}"' for name, blob in blobs.items())
    return (
        f"func.func @main() -> ({', '.join(types)}) {{\n"
        + "\n".join(lines)
        + f"\n  return {named} : {', '.join(types)}\n}}\n"
        + f"{{-# dialect_resources: {{ builtin: {{ {data} }} }} #-}}"
    )


def blobs() -> dict[str, str]:
    return {
        f"weights_{n}": "04000000" + x.tobytes().hex().upper()
        for n, x in enumerate(CONSTANTS.values())
    }


def test_constants_as_resources() -> None:
    text = with_resources(**blobs())
    for form in (text, bytecode(text)):
        for found, wanted in zip(import_stablehlo(form).run(), CONSTANTS.values(), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_resources_that_are_not_there_or_do_not_fit() -> None:
    text = with_resources(**blobs()).replace(
        "dense_resource<weights_0>", "dense_resource<__elided__>"
    )
    with pytest.raises(errors.UnsupportedError, match="left out when the module was printed"):
        import_stablehlo(text)
    short = blobs() | {"weights_1": "04000000" + "00" * 8}
    with pytest.raises(errors.InvalidConfigError, match="8 bytes for a constant of type f64"):
        import_stablehlo(with_resources(**short))


def test_a_tuple_as_result_is_its_elements() -> None:
    kind, pair = "tensor<3xf32>", "tuple<tensor<3xf32>, tensor<3xf32>>"
    x, y = np.arange(3, dtype="f4"), np.ones(3, "f4")
    text = f"""func.func @main(%x: {kind}, %y: {kind}) -> (tuple<{pair}, {kind}> {{jax.result_info = "r"}}) {{
  %s = stablehlo.add %x, %y : {kind}
  %t = stablehlo.tuple %y, %s : {pair}
  %u = stablehlo.tuple %t, %x : tuple<{pair}, {kind}>
  return %u : tuple<{pair}, {kind}>
}}"""
    program = import_stablehlo(text)
    assert len(program.output_specs) == 3
    for found, wanted in zip(program.run(x, y), (y, x + y, x), strict=True):
        np.testing.assert_array_equal(found, wanted)
    one = f"""func.func @main(%x: {kind}) -> tuple<{kind}> {{
  %t = stablehlo.tuple %x : tuple<{kind}>
  return %t : tuple<{kind}>
}}"""
    np.testing.assert_array_equal(import_stablehlo(one).run(x), x)


@pytest.mark.parametrize("with_mlir", [False, True])
def test_tuples_that_functions_take_and_return(
    with_mlir: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested tuples must be flattened.

    Arguments, calls and custom calls have the elements of a tuple in its place.
    """
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    kind = "tensor<3xf32>"
    pair = f"tuple<{kind}, tuple<{kind}>>"
    chosen = "tuple<tensor<2xf32>, tensor<2xi32>>"
    text = f"""func.func @main(%t: {pair}, %n: tensor<2xf32>) -> (tensor<2xf32>, {pair}) {{
  %u = func.call @turned(%t) : ({pair}) -> {pair}
  %x = stablehlo.get_tuple_element %u[0] : ({pair}) -> {kind}
  %v = stablehlo.custom_call @TopK(%x) {{called_computations = []}} : ({kind}) -> {chosen}
  %y = stablehlo.get_tuple_element %v[0] : ({chosen}) -> tensor<2xf32>
  %z = stablehlo.add %y, %n : tensor<2xf32>
  return %z, %u : tensor<2xf32>, {pair}
}}
func.func private @turned(%t: {pair}) -> {pair} {{
  %a = stablehlo.get_tuple_element %t[0] : ({pair}) -> {kind}
  %s = stablehlo.get_tuple_element %t[1] : ({pair}) -> tuple<{kind}>
  %b = stablehlo.get_tuple_element %s[0] : (tuple<{kind}>) -> {kind}
  %c = stablehlo.tuple %a : tuple<{kind}>
  %u = stablehlo.tuple %b, %c : {pair}
  return %u : {pair}
}}"""
    program = import_stablehlo(text)
    assert len(program.input_specs) == 3
    a, b, n = np.arange(3, dtype="f4"), np.array([3, 5, 4], "f4"), np.ones(2, "f4")
    for found, wanted in zip(program.run(a, b, n), ([6, 5], b, a), strict=True):
        np.testing.assert_array_equal(found, wanted)


FLAGS = np.arange(130) % 3 == 0
OTHERS: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "bools of older MLIR": (
        'func.func @main() -> tensor<130xi1> { %0 = stablehlo.constant dense<"0xBITS"> : tensor<130xi1> '
        "return %0 : tensor<130xi1> }".replace(
            "BITS", np.packbits(FLAGS, bitorder="little").tobytes().hex().upper()
        ), (), FLAGS,
    ),
    "a variable of torch-mlir": (
        "module { ml_program.global private mutable @global_seed(dense<0> : tensor<i64>) : tensor<i64> "
        "func.func @main(%x: tensor<f32>) -> tensor<f32> { %y = stablehlo.negate %x : tensor<f32> return %y : tensor<f32> } }",
        (np.float32(2),), np.float32(-2),
    ),
    "extents bounded by an older name": (
        "func.func @main(%x: tensor<?xf32, #stablehlo.type_extensions<bounds = [4]>>) -> tensor<?xf32, #stablehlo.bounds<4>> "
        "{ %y = stablehlo.negate %x : tensor<?xf32, #stablehlo.bounds<4>> return %y : tensor<?xf32, #stablehlo.bounds<4>> }",
        (np.arange(3, dtype="f4"),), -np.arange(3, dtype="f4"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("with_mlir", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_texts_of_other_releases_and_tools(
    name: str, with_mlir: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    text, arguments, expected = OTHERS[name]
    np.testing.assert_array_equal(import_stablehlo(text).run(*arguments), expected)


TEXT = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"


@pytest.mark.parametrize("name", ["forward.bytecode", "model.mlir.bc", "module"])
def test_files_under_any_name(tmp_path: Path, name: str) -> None:
    """A file must be recognised by its content, whatever its name.

    For example, `torch_xla` writes bytecode as forward.bytecode.
    """
    x = np.arange(3, dtype="f4")
    for number, content in enumerate((TEXT.encode(), bytecode(TEXT))):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        path.write_bytes(content)
        np.testing.assert_array_equal(import_stablehlo(str(path)).run(x), x)
        assert find_target(str(path)).program is not None
    with pytest.raises(errors.InvalidConfigError, match="is not a target"):
        find_target(str(tmp_path / "nothing.bytecode"))


SCAN = """
func.func @main(%x: tensor<2x3xf64>, %c: tensor<2xf64>) -> (tensor<2x3xf64>, tensor<2xf64>) {
  %0:2 = chlo.scan(%x) inits(%c) dimension=1 attributes {is_reverse = REVERSE} {
  ^bb0(%slice: tensor<2xf64>, %carry: tensor<2xf64>):
    %s = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf64>
    %1 = stablehlo.multiply %carry, %s : tensor<2xf64>
    %2 = stablehlo.add %slice, %1 : tensor<2xf64>
    stablehlo.return %2, %2 : tensor<2xf64>, tensor<2xf64>
  } : (tensor<2x3xf64>, tensor<2xf64>) -> (tensor<2x3xf64>, tensor<2xf64>)
  return %0#0, %0#1 : tensor<2x3xf64>, tensor<2xf64>
}"""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("with_mlir", [False, True])
def test_scans(reverse: bool, with_mlir: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    program = import_stablehlo(SCAN.replace("REVERSE", str(reverse).lower()))
    x, carry, scale = np.arange(6.0).reshape(2, 3), np.array([0.5, -1.0]), np.array([2.0, 3.0])
    found, last = program.run(x, carry)
    wanted = np.empty((2, 3))
    for i in (2, 1, 0) if reverse else (0, 1, 2):
        carry = x[:, i] + carry * scale
        wanted[:, i] = carry
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(last, carry)
    outside = SCAN.replace("REVERSE", "true").replace("%carry, %s :", "%carry, %c :")
    with pytest.raises(MlirDiagnosticError, match=r"outside|undeclared"):
        import_stablehlo(outside)


@pytest.mark.parametrize("with_mlir", [False, True])
def test_annotations_and_constants_of_other_dialects(
    with_mlir: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    program = import_stablehlo("""
        sdy.mesh @mesh = <["x"=2]>
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = sdy.sharding_constraint %x <@mesh, [{"x"}]> : tensor<4xf32>
          %1 = arith.constant dense<2.0> : tensor<4xf32>
          %2 = stablehlo.multiply %0, %1 : tensor<4xf32>
          return %2 : tensor<4xf32>
        }""")
    np.testing.assert_array_equal(program.run(np.ones(4, "f4")), np.full(4, 2, "f4"))


WIDER = """
func.func @main({arguments}) -> {result} {{
  %0 = "stablehlo.{name}"({operands}) ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }}) {{{attributes}}} : ({types}) -> {result}
  return %0 : {result}
}}"""
NUMBERS = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"


@pytest.mark.parametrize(
    ("name", "types", "result", "attributes", "wanted"),
    [
        ("reduce", ("4xi8", "i32"), "i32", "dimensions = array<i64: 0>", 328),
        ("reduce", ("4xi8", "i8"), "i32", "dimensions = array<i64: 0>", 328),
        (
            "reduce_window", ("4xi8", "i8"), "2xi32",
            "window_dimensions = array<i64: 2>, window_strides = array<i64: 2>", [201, 128],
        ),
        (
            "scatter", ("4xi8", "2x1xi32", "2xi8"), "4xi32",
            f"scatter_dimension_numbers = #stablehlo.scatter<{NUMBERS}>", [100, 301, 100, 27],
        ),
    ],
)  # fmt: skip
def test_regions_compute_in_a_dtype_that_operands_are_promotable_to(
    name: str, types: tuple[str, ...], result: str, attributes: str, wanted: Any
) -> None:
    """#reduce: the region may compute in a wider type, `is_promotable(element_type(inputs[i]), Ei)`."""
    kinds = [f"tensor<{kind}>" for kind in types]
    named = [f"%x{i}" for i in range(len(kinds))]
    module = WIDER.format(
        name=name,
        arguments=", ".join([f"{x}: {kind}" for x, kind in zip(named, kinds, strict=True)]),
        operands=", ".join(named),
        types=", ".join(kinds),
        result=f"tensor<{result}>",
        attributes=attributes,
    )
    values = {
        "4xi8": np.array([100, 100, 100, 27], "i1"), "i8": np.int8(1), "i32": np.int32(1),
        "2x1xi32": np.array([[1], [1]], "i4"), "2xi8": np.array([100, 101], "i1"),
    }  # fmt: skip
    found = import_stablehlo(module).run(*[values[kind] for kind in types])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted)


def test_a_gather_clamps_and_its_adjoint_adds_where_it_read() -> None:
    """#gather: an out-of-bounds index must be clamped, "clamp(0, start_index, shape(operand) - slice_sizes)".

    The gradient must be added where the gather read.
    """
    program = import_stablehlo("""
        func.func @main(%x: tensor<5xf64>, %i: tensor<2x1xi32>) -> tensor<2xf64> {
          %0 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
            start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}
            : (tensor<5xf64>, tensor<2x1xi32>) -> tensor<2xf64>
          return %0 : tensor<2xf64>
        }""")
    x, indices = np.arange(5.0), np.array([[-12], [7]], "i4")
    np.testing.assert_array_equal(program.run(x, indices), [0, 4])
    gradient = tnf.grad(lambda x: tnf.sum(program(x, indices) * np.array([2.0, 3.0])))(x)
    np.testing.assert_array_equal(gradient, [2, 0, 0, 0, 3])


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("%y = stablehlo.composite \"a.b\" %x {decomposition = @other} : (tensor<2xf32>) -> tensor<2xf32>", "valid function"),
        ("%y = stablehlo.composite \"a.b\" %x {decomposition = @scalar} : (tensor<2xf32>) -> tensor<2xf32>", "other types"),
        ("%y = stablehlo.composite \"ab\" %x {decomposition = @same} : (tensor<2xf32>) -> tensor<2xf32>", "a dot"),
        ("%y = stablehlo.custom_call @Sharding(%x) {operand_layouts = [], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<2xf32>) -> tensor<2xf32>", "0 layouts"),
        ("%y = \"stablehlo.exponential\"(%x) {result_accuracy = #stablehlo.result_accuracy<atol = 1.0, rtol = 0.0, ulps = 0, mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : (tensor<2xf32>) -> tensor<2xf32>", "accuracy"),
    ],
)  # fmt: skip
def test_attributes_that_do_not_fit(body: str, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invalid attributes must be errors.

    The constraints are #composite (C1) to (C4), and those of #custom_call and result_accuracy.
    """
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    functions = "".join([
        f"func.func private @{name}(%x: {kind}) -> {kind} {{ return %x : {kind} }}\n"
        for name, kind in (("same", "tensor<2xf32>"), ("scalar", "tensor<f32>"))
    ])  # fmt: skip
    text = f"{functions}func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\nreturn %y : tensor<2xf32>\n}}"
    with pytest.raises(errors.TenferroError, match=match):
        import_stablehlo(text)


@pytest.mark.parametrize(
    ("operation", "match"),
    [
        ('%y = stablehlo.abs %x : tensor<2xindex>', "index"),
        ('%y = chlo.broadcast_add %x, %x : (tensor<2xindex>, tensor<2xindex>) -> tensor<2xindex>', "index"),
        ('%y = stablehlo.dynamic_reshape %x, %x : (tensor<2xindex>, tensor<2xindex>) -> tensor<2xindex>', "index"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_mlir", [True, False])
def test_tensors_of_indices_are_shapes_alone(
    with_mlir: bool, operation: str, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    text = f"func.func @main(%x: tensor<2xindex>) -> tensor<2xindex> {{ {operation} return %y : tensor<2xindex> }}"
    with pytest.raises(errors.TenferroError, match=match):
        import_stablehlo(text)


def test_bounds_that_are_not_one_to_an_extent() -> None:
    kind = "tensor<?xf32, #stablehlo.bounds<4, 5>>"
    with pytest.raises(errors.TenferroError):
        import_stablehlo(f"func.func @main(%x: {kind}) -> {kind} {{ return %x : {kind} }}")
