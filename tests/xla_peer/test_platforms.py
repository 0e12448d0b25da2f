"""It must be possible to compile every op for TPU and CUDA without such a device.

`make platforms` downloads the compilers.

The compilers run in a separate process. If a check inside a compiler fails, it ends the process.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro import errors
from tenferro.ext.linalg import families as fam
from tenferro.extension import apply
from tests.ops.test_parity import program_of
from tests.samples import SAMPLES

ROOT = Path(__file__).parent.parent.parent
WHEELS = Path(os.environ.get("TENFERRO_PLATFORM_WHEELS", ROOT / ".platforms"))

FAMILIES: dict[str, tuple[Any, int, tuple[int, ...]]] = {
    "cholesky": (fam.Cholesky(), 1, (2, 5, 5)),
    "qr": (fam.Qr(), 1, (2, 6, 4)),
    "qr full": (fam.Qr(True), 1, (6, 4)),
    "svd": (fam.Svd(), 1, (2, 6, 4)),
    "svd full wide": (fam.Svd(True), 1, (4, 6)),
    "eigh": (fam.Eigh(), 1, (2, 5, 5)),
    "eig": (fam.Eig(), 1, (5, 5)),
    "lu": (fam.Lu(), 1, (2, 6, 4)),
    "solve": (fam.Solve("C"), 2, (2, 5, 5)),
    "triangular solve": (fam.TriangularSolve(), 2, (5, 5)),
}

DTYPES = {"bool", "i32", "f32", "f64", "bf16", "c64", "c128"}
REFUSED = {
    "tpu": ("BitcastConvert c64", "Convert c64"),
    "cuda": ("Convolution i32", "Convolution bool"),
}
"""Ops and dtypes that tenferro itself rejects on a platform. On TPU, complex128 is rejected for all ops."""
SAYS_NO = {"tpu": {"ReducePrecision f64"}, "cuda": set[str]()}
"""Ops and dtypes that the compiler of a platform may reject with an error. It must not end the process."""


def may_refuse(platform: str, name: str) -> bool:
    """Return whether the compiler of a platform may reject a module with an error."""
    return name in SAYS_NO[platform] or (platform == "tpu" and "c128" in name)


def lowers(sample: Any) -> bool:
    """Return whether the sample's op can be lowered to StableHLO."""
    try:
        lower_to_stablehlo(program_of([sample], constants=False))
    except errors.TenferroError:
        return False
    return True


def dtype_of(sample: Any) -> str:
    """Return the dtype of a sample's first input, or of its output if it has no input."""
    types = sample.op.infer() if not sample.inputs else [sample.inputs[0]]
    return tnf.DType.of(types[0].dtype).short


def modules(platform: str) -> dict[str, str]:
    """Return modules by name.

    They have all samples of each op and dtype, and each linear algebra family in both lowerings.
    """
    texts: dict[str, str] = {}
    refused: list[str] = []
    for card, samples in SAMPLES.items():
        for dtype, group in itertools.groupby(
            sorted(filter(lowers, samples), key=dtype_of), key=dtype_of
        ):
            if dtype not in DTYPES:
                continue
            program = program_of(list(group), constants=False)
            try:
                module = lower_to_stablehlo(program, platform)
            except errors.UnsupportedError as error:
                refused.append(f"{card.__name__} {dtype}: {error}")
                continue
            texts[f"{card.__name__} {dtype}"] = module.text
    for name, (op, count, shape) in FAMILIES.items():
        for dtype in ("float32", "float64", "complex64", "complex128"):
            arrays = [np.ones(shape, dtype)] * count
            program = tnf.compile(lambda *xs, op=op: apply(op, *xs), *arrays)
            for linalg in ("library", "inline"):
                try:
                    module = lower_to_stablehlo(program, platform, linalg=linalg)
                except errors.UnsupportedError:
                    continue
                texts[f"{name} {dtype} {linalg}"] = module.text
    assert all("c128" in line or line.startswith(REFUSED[platform]) for line in refused), refused
    return texts


@pytest.mark.platforms
@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_everything_compiles(platform: str) -> None:
    texts = modules(platform)
    assert {name.split()[1] for name in texts} >= DTYPES
    failed: dict[str, str] = {}
    left = dict(texts)
    while left:
        found, words = compiled(platform, left)
        failed |= {
            name: error for name, error in found.items() if error and not may_refuse(platform, name)
        }
        left = {name: text for name, text in left.items() if name not in found}
        if left:
            culprit = next(iter(left))
            failed[culprit] = f"the compiler ended: {words}"
            del left[culprit]
    assert not failed, json.dumps(failed, indent=1)


def compiled(platform: str, texts: dict[str, str]) -> tuple[dict[str, str], str]:
    """Compile modules in a new process.

    Return the errors by the names of the modules, up to the end of the process, and the fatal messages of the
    process.
    """
    child = subprocess.run(
        [sys.executable, Path(__file__).parent / "compile_only.py", platform, WHEELS],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    lines = [line for line in child.stdout.splitlines() if line.startswith("[")]
    fatal = [line for line in child.stderr.splitlines() if line.startswith("F")]
    return dict(map(json.loads, lines)), "".join(fatal)
