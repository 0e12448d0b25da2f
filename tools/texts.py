"""Print hashes of the results of compiling every sample: the schedule, the generated Python and LLVM, and StableHLO.

Use the hashes to check that renaming or rewording changes no program. Run `python tools/texts.py > before.txt` before
the change and `python tools/texts.py > after.txt` after it. The two files must be equal.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lowering
import tenferro as tnf
from tenferro.dispatch import apply
from tenferro.errors import TenferroError
from tenferro.exec import GraphExecutor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "loops")]

from tests.samples import ALL  # noqa: E402
from tests.samples.families import FAMILY_SAMPLES  # noqa: E402

KERNELS = importlib.import_module("kernels").KERNELS
LINE = re.compile(r"(\.py)(:\d+|\", line \d+)|loc\([^)]*\)")
"""Pattern of a source position. Positions are removed before hashing, because they change when lines are added."""


def programs() -> Iterator[tuple[str, tnf.GraphProgram]]:
    """Yield the names and programs of all samples, and of the benchmark loops and their gradients."""
    for sample in ALL:
        specs = [tnf.TensorSpec(x.shape, x.dtype) for x in sample.inputs]
        yield str(sample), tnf.compile(lambda *xs, op=sample.op: apply(op, *xs), *specs)
    for family, samples in FAMILY_SAMPLES.items():
        for number, sample in enumerate(samples):
            yield f"{family.__name__} {number}", tnf.compile(sample.fn, *sample.inputs)
    for kernel in KERNELS:
        arguments = kernel.arguments(kernel.small)
        function, arrays = kernel.of_arrays(tnf, arguments)
        yield kernel.name, tnf.compile(function, *arrays)
        if kernel.gradient is not None:
            loss, arrays = kernel.loss(tnf, arguments)
            yield f"{kernel.name}, gradient", tnf.compile(tnf.grad(loss, kernel.gradient), *arrays)


def digest(text: Callable[[], Any]) -> str:
    """Return a hash of the text that `text` returns, or of the error that it raises."""
    try:
        result = str(text())
    except TenferroError as error:
        result = f"{type(error).__name__}: {error}"
    return hashlib.sha256(LINE.sub(r"\1", result).encode()).hexdigest()[:16]


def main() -> None:
    """Print a line for each program, with its name and hashes."""
    warnings.simplefilter("ignore")
    executor, compiled = GraphExecutor(), GraphExecutor(compiled=True)
    for name, program in programs():
        texts = (
            lambda program=program: executor.compile(program),
            lambda program=program: executor.source(program),
            lambda program=program: compiled.source(program, "llvm"),
            lambda program=program: lowering.lower_to_stablehlo(program).plain_text,
        )
        print(" ".join(map(digest, texts)), name)


if __name__ == "__main__":
    main()
