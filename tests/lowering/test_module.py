"""What a module can be made into, and that its text is deterministic and pure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from lowering import mlir_bindings
from tenferro import errors

CODE = """
import lowering, numpy as np, sys, tenferro as tnf
program = tnf.compile(lambda x, y: {"a": tnf.erf(x) @ y, "b": tnf.sort(x)}, *[tnf.TensorSpec((3, 3), "f4")] * 2)
print(lowering.lower_to_stablehlo(program).fingerprint)
assert not any(name.split(".")[0] in ("jax", "jaxlib") for name in sys.modules)
"""


def module_of(fn, *specs) -> lowering.StableHloModule:
    return lowering.lower_to_stablehlo(tnf.compile(fn, *specs))


def test_text_is_the_same_in_every_process_and_needs_no_jaxlib() -> None:
    shown = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(shown) == 1


def test_the_fingerprint_ignores_lines_and_nothing_else() -> None:
    spec = tnf.TensorSpec((3,), "f4")
    first = module_of(lambda x: tnf.exp(x), spec)
    moved = module_of(
        lambda x: tnf.exp(x),
        spec,
    )
    other = module_of(lambda x: tnf.exp(x), tnf.TensorSpec((3,), "f8"))
    assert first.text != moved.text
    assert first.fingerprint == moved.fingerprint != other.fingerprint
    assert "test_module.py" in first.text
    assert "test_module.py" not in str(first)


def test_bytecode_and_artifact_read_back_as_the_same_module() -> None:
    module = module_of(lambda x: tnf.sum(tnf.exp(x) @ x), tnf.TensorSpec((3, 3), "f4"))
    assert module.bytecode()[:4] == b"ML\xefR"
    mlir_bindings.parse_and_verify(module.bytecode())
    for target in (None, "1.0.0"):
        artifact = module.portable_artifact(target)
        assert artifact[:4] == b"ML\xefR"
        text = mlir_bindings.deserialize_portable_artifact(artifact)
        assert "stablehlo.dot_general" in text
        assert "stablehlo.exponential" in text
    assert module.portable_artifact() == module.portable_artifact()


@pytest.mark.parametrize("target", ["nonsense", "99.0.0", "0.1.0", ""])
def test_an_unknown_target_version_is_named(target: str) -> None:
    module = module_of(lambda x: x + x, tnf.TensorSpec((3,), "f4"))
    with pytest.raises(tnf.errors.TenferroError, match="version"):
        module.portable_artifact(target)


def test_malformed_text_gives_line_and_column() -> None:
    with pytest.raises(mlir_bindings.MlirDiagnosticError, match=r"2:\d+"):
        mlir_bindings.parse_and_verify("module {\n  nonsense\n}")


@pytest.mark.parametrize("content", [b"", b"ML\xefR", b"ML\xefR" + bytes(64), b"\x00\x01"])
def test_malformed_bytes_are_an_error(content: bytes) -> None:
    with pytest.raises(tnf.errors.TenferroError):
        mlir_bindings.deserialize_portable_artifact(content)


def test_templates_are_what_stablehlo_legalises_to() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    try:
        import chlo_templates
    finally:
        sys.path.pop(0)
    files = chlo_templates.all_templates()
    assert {path.name for path in chlo_templates.FOLDER.iterdir()} == set(files)
    for name, content in files.items():
        assert (chlo_templates.FOLDER / name).read_text() == content


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1, 0, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_templates_take_every_shape(shape: tuple[int, ...], dtype: str) -> None:
    def fn(x: tnf.TracedTensor) -> list[tnf.TracedTensor]:
        names = ["asinh", "acos", "sinh", "atanh"]
        names += [] if dtype.startswith("c") else ["erf", "erfc", "lgamma", "digamma"]
        return [getattr(tnf, name)(x) for name in names]

    module_of(fn, tnf.TensorSpec(shape, dtype)).verify()


def test_a_symbolic_program_is_lowered_for_its_specs() -> None:
    program = tnf.compile(lambda x: x + tnf.ones_like(x), tnf.TensorSpec(("n",), "f8"))
    with pytest.raises(tnf.errors.NonStaticShapeError, match="n"):
        lowering.lower_to_stablehlo(program)
    module = lowering.lower_to_stablehlo(program, specs=[tnf.TensorSpec((4,), "f8")])
    assert "tensor<4xf64>" in module.text
    module.verify()


def test_large_constants_are_compact() -> None:
    big = np.random.default_rng(0).normal(size=10_000)
    module = module_of(lambda x: x + big, tnf.TensorSpec((10_000,), "f8"))
    assert 'dense<"0x' in module.text
    assert len(module.text) < 2.2 * 8 * 10_000
    module.verify()


@pytest.mark.parametrize(
    "fn", [tnf.sin, tnf.abs, lambda z: z / z, lambda z: tnf.cumulative_sum(z) ** z]
)
def test_what_ends_the_tpu_compiler_is_refused_with_the_users_line(fn: Any) -> None:
    program = tnf.compile(fn, tnf.TensorSpec((3,), "complex128"))
    lowering.lower_to_stablehlo(program, "cpu")
    lowering.lower_to_stablehlo(tnf.compile(fn, tnf.TensorSpec((3,), "complex64")), "tpu")
    with pytest.raises(errors.UnsupportedError, match=r"(?s)c128\[3\] on tpu.*test_module"):
        lowering.lower_to_stablehlo(program, "tpu")


def test_complex_convolutions_for_gpus_are_four_real_ones() -> None:
    from tenferro.door import apply
    from tenferro.ops.contraction import Convolution
    from tests.samples import SAMPLES
    from xla_peer import XlaExecutor

    xla = XlaExecutor("cpu")
    for sample in SAMPLES[Convolution]:
        program = tnf.compile(lambda *xs, op=sample.op: apply(op, *xs), *sample.inputs)
        kind = sample.inputs[0].dtype.kind
        if kind in "biu":
            with pytest.raises(errors.UnsupportedError, match="Convolution"):
                lowering.lower_to_stablehlo(program, "cuda")
        elif kind == "c":
            module = lowering.lower_to_stablehlo(program, "cuda")
            assert module.text.count("stablehlo.convolution") == 4
            (found,) = xla.compile_module(module)(*map(xla.put, sample.inputs))
            np.testing.assert_allclose(found, sample.expected[0], rtol=2e-5)
