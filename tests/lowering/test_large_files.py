"""Large constants must be decoded directly from a module's file.

They must equal those that a reader of the whole text finds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowering import import_stablehlo, importing, large_files
from lowering.mlir_bindings import MlirDiagnosticError, bytecode, portable_artifact
from tenferro import errors
from tenferro.program import GraphProgram

SIZE = 70_000
"""Number of elements of a constant. It makes the constant large for every type of at least one byte."""
RANDOM = np.random.default_rng(0)
CONSTANTS: dict[str, Any] = {
    "f32": RANDOM.normal(size=SIZE).astype("f4"),
    "f64": RANDOM.normal(size=(2, SIZE // 2)),
    "bf16": RANDOM.normal(size=SIZE).astype(ml_dtypes.bfloat16),
    "f16": RANDOM.normal(size=SIZE).astype("f2"),
    "i64": RANDOM.integers(-9, 9, (7, SIZE // 7)),
    "ui8": RANDOM.integers(0, 256, SIZE).astype("u1"),
    "complex<f32>": RANDOM.normal(size=2 * SIZE).astype("f4").view("c8"),
}
TYPES = [f"tensor<{'x'.join(map(str, x.shape))}x{element}>" for element, x in CONSTANTS.items()]


def module(form: str) -> str:
    """Return a module that returns large constants, written in the given form, a small constant, and a splat."""
    values = [
        (x.tobytes().hex().upper(), kind) for x, kind in zip(CONSTANTS.values(), TYPES, strict=True)
    ]
    lines, blobs = [], []
    for n, (digits, kind) in enumerate(values):
        if form == "resource":
            blobs.append(f'    w.{n}: "0x10000000{digits}"')
            lines.append(f"%{n} = stablehlo.constant dense_resource<w.{n}> : {kind}")
        elif form == "generic":
            literal = f'dense<"0x{digits}"> : {kind}'
            lines.append(f'%{n} = "stablehlo.constant"() <{{value = {literal}}}> : () -> {kind}')
        else:
            lines.append(f'%{n} = stablehlo.constant dense<"0x{digits}"> : {kind}')
    lines.append('%small = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>')
    lines.append(f"%splat = stablehlo.constant dense<7> : tensor<{SIZE}xi32>")
    types = ", ".join([*TYPES, "tensor<2xf32>", f"tensor<{SIZE}xi32>"])
    lines.append(
        f"return {', '.join(f'%{n}' for n in range(len(TYPES)))}, %small, %splat : {types}"
    )
    text = f"func.func @main() -> ({types}) {{\n  " + "\n  ".join(lines) + "\n}\n"
    separator = ",\n"
    resources = f"{{-# dialect_resources: {{ builtin: {{\n{separator.join(blobs)}\n}} }} #-}}\n"
    return text + resources if blobs else text


@pytest.fixture(autouse=True)
def all_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read every file in small pieces. The text of a constant then extends over several pieces."""
    monkeypatch.setattr(large_files, "LARGE_FILE", 0)
    monkeypatch.setattr(large_files, "PIECE", 1 << 16)


def require_constants(program: GraphProgram) -> None:
    """Run the program, and require that it returns the constants that the module contains."""
    *found, small, splat = program.run()
    for result, wanted in zip(found, CONSTANTS.values(), strict=True):
        assert result.dtype == wanted.dtype
        assert result.shape == wanted.shape
        assert result.tobytes() == wanted.tobytes()
    np.testing.assert_array_equal(small, np.array([1, 2], "f4"))
    np.testing.assert_array_equal(splat, np.full(SIZE, 7, "i4"))


@pytest.mark.parametrize("with_mlir", [True, False])
@pytest.mark.parametrize("form", ["pretty", "generic", "resource"])
def test_text(form: str, with_mlir: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: with_mlir)
    path = tmp_path / "module.mlir"
    path.write_text(module(form))
    contents, elements = large_files.read_large(path)
    assert len(elements) == len(CONSTANTS)
    assert len(contents) < 4000
    require_constants(import_stablehlo(path))
    require_constants(import_stablehlo(str(path), trusted=True))
    require_constants(import_stablehlo(path, trusted=True))  # without the check by MLIR


@pytest.mark.parametrize(
    ("form", "write"), [("pretty", bytecode), ("resource", bytecode), ("pretty", portable_artifact)]
)
def test_bytecode(form: str, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "module.mlirbc"
    path.write_bytes(write(module(form)))
    monkeypatch.setattr(importing, "perform", None)  # so that a use of MLIR raises an error
    require_constants(import_stablehlo(path))
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    require_constants(import_stablehlo(path))


def test_a_serialised_export_holds_bytecode_after_its_length(tmp_path: Path) -> None:
    content = bytecode(module("pretty"))
    path = tmp_path / "module.jax"
    path.write_bytes(b"12345678901" + len(content).to_bytes(4, "little") + content + b"the end")
    require_constants(import_stablehlo(path))


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc"])
def test_operations_that_passes_rewrite(suffix: str, tmp_path: Path) -> None:
    kind = f"tensor<{SIZE}xf32>"
    weights = CONSTANTS["f32"]
    text = f"""func.func @main(%x: {kind}) -> {kind} {{
  %w = stablehlo.constant dense<"0x{weights.tobytes().hex()}"> : {kind}
  %shape = stablehlo.constant dense<{SIZE}> : tensor<1xi64>
  %y = stablehlo.dynamic_reshape %x, %shape : ({kind}, tensor<1xi64>) -> tensor<?xf32>
  %z = stablehlo.dynamic_reshape %y, %shape : (tensor<?xf32>, tensor<1xi64>) -> {kind}
  %r = stablehlo.add %z, %w : {kind}
  return %r : {kind}
}}"""
    path = tmp_path / f"module.{suffix}"
    path.write_bytes(text.encode() if suffix == "mlir" else bytecode(text))
    x = np.ones(SIZE, "f4")
    np.testing.assert_array_equal(import_stablehlo(path).run(x), x + weights)


def test_literals_that_stay_in_the_text(tmp_path: Path) -> None:
    digits = "00" * SIZE
    text = f"""module attributes {{a.name = "0x{digits}"}} {{
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ return %x : tensor<2xf32> }}
}}"""
    path = tmp_path / "module.mlir"
    path.write_text(text)
    assert large_files.read_large(path) == (text, {})
    np.testing.assert_array_equal(import_stablehlo(path).run(np.ones(2, "f4")), np.ones(2))


@pytest.mark.parametrize("digits", ["zz" + "0" * 2 * SIZE, "0" * (2 * SIZE + 1)])
def test_digits_that_are_none_are_mlirs_error(digits: str, tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    kind = f"tensor<{SIZE}xui8>"
    path.write_text(
        f"""func.func @main() -> {kind} {{
  %w = stablehlo.constant dense<"0x{digits}"> : {kind}
  return %w : {kind}
}}"""
    )
    with pytest.raises(MlirDiagnosticError):
        import_stablehlo(path)


@pytest.mark.parametrize("form", ["dense", "resource"])
def test_elements_that_do_not_fit(form: str, tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    kind = f"tensor<{SIZE}xi16>"
    literal, rest = f'dense<"0x{"00" * SIZE}">', ""
    if form == "resource":
        literal = "dense_resource<w>"
        rest = f'{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{"00" * SIZE}" }} }} #-}}'
    path.write_text(
        f"""func.func @main() -> {kind} {{
  %w = stablehlo.constant {literal} : {kind}
  return %w : {kind}
}}
{rest}"""
    )
    with pytest.raises(errors.InvalidConfigError, match=f"{SIZE} bytes for a constant of type i16"):
        import_stablehlo(path)


def test_a_file_that_is_neither_text_nor_bytecode(tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(MlirDiagnosticError, match="neither text nor bytecode"):
        import_stablehlo(path)


def test_bytes_are_found_across_pieces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert not large_files.contains(path, b"word")
    path.write_bytes(bytes((1 << 16) - 2) + b"word" + bytes(1 << 16))
    assert large_files.contains(path, b"word")
    assert not large_files.contains(path, b"words")
