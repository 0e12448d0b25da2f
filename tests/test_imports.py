"""Modules that an import loads, and the time that it takes. Each test runs a new process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import pytest

from tenferro.exec.llvm import is_installed

TRACED = """
def f(x, y):
    z = tnf.sin(x) @ y + tnf.mean(x) * 2.0
    return tnf.where(z > 0, z, -z) / tnf.std(y)

x = tnf.TensorSpec((3, 3), "float64")
"""

PROGRAMS = {
    "function": "tnf.compile(f, x, x)",
    "gradient": "tnf.compile(tnf.grad(lambda x, y: tnf.sum(f(x, y))), x, x)",
    "symbolic extent": "tnf.compile(tnf.sum, tnf.TensorSpec(('n',), 'float64'))",
    "loop": "tnf.compile(lambda x, y: tnf.scan(lambda c, _: (f(c, y), c), x, length=5), x, x)",
    "jitted": "tnf.jit(f).lower(x, x)",
    "einsum": "tnf.compile(lambda x, y: tnf.einsum('ij,jk,kl->il', x, y, x), x, x)",
    "linalg": "tnf.compile(tnf.grad(lambda x: tnf.sum(tnf.linalg.solve(x, x))), x)",
    "decomposition": "tnf.compile(lambda x: tuple(tnf.linalg.eigh(x)), x)",
    "fft": "tnf.compile(tnf.fft.fft, x)",
    "random": "tnf.compile(lambda key: tnf.random.normal(key, (3,)), tnf.TensorSpec((2,), 'uint32'))",
    "nn": "tnf.compile(lambda x: tnf.nn.softmax(tnf.nn.relu(x)), x)",
    "special": "tnf.compile(tnf.special.gammaln, x)",
    "stats": "tnf.compile(tnf.stats.gamma.cdf, x, x)",
    "batched": "tnf.compile(tnf.vmap(f), *2 * [tnf.TensorSpec((2, 3, 3), 'float64')])",
}


def loaded(code: str, packages: Iterable[str]) -> list[str]:
    """Run code in a new process; return the modules of these packages that it loads.

    Modules that NumPy or ml_dtypes has loaded do not count.
    """
    shown = (
        "import sys, numpy, ml_dtypes\nbefore = set(sys.modules)\n"
        f"import tenferro as tnf\n{code}\n"
        f"names = {tuple(packages)!r}\n"
        "loaded = [name for name in sys.modules if name not in before]\n"
        "print(*[m for m in loaded if any(m == n or m.startswith(n + '.') for n in names)])"
    )
    run = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split("\n")[-2].split()


def test_the_package_loads_neither_jax_nor_what_few_calls_need() -> None:
    packages = ("jax", "jaxlib", "scipy", "llvmlite", "optree", "opt_einsum", "threadpoolctl")
    modules = ("importlib.metadata", "email", "html", "zipfile", "difflib", "tenferro.exec")
    assert loaded("", (*packages, *modules)) == []


def test_tracing_and_compiling_load_no_executor() -> None:
    """Tracing and compiling must load no module of the executor. All programs run in one process, to save time."""
    code = [TRACED]
    for program in PROGRAMS.values():
        code.append(f"program = {program}")
        code.append("str(program), program.lowering_view(), program.input_specs")
    assert loaded("\n".join(code), ["tenferro.exec"]) == []


INTERPRETED = {
    "array": "tnf.sin(1.0)",
    "program": f"{TRACED}\ntnf.compile(f, x, x).run(np.ones((3, 3)), np.eye(3))",
    "gradient": "tnf.grad(lambda x: tnf.sum(tnf.exp(x) * x))(np.ones(3))",
    "jitted": "tnf.jit(lambda x: x @ x + 1.0)(np.eye(3))",
    "copy": "tnf.compile(lambda x: x.T + 0.0, np.ones((64, 64))).run(np.ones((64, 64)))",
    "convolution": "tnf.lax.conv(np.ones((1, 1, 4)), np.ones((1, 1, 2)), (1,), 'VALID')",
    "conditional": "tnf.cond(np.float64(1.0) > 0, tnf.sin, tnf.cos, 1.0)",
    "einsum": "tnf.einsum('ij,jk->ik', np.eye(3), np.eye(3))",
    "linalg": "tnf.linalg.solve(np.eye(3), np.ones(3))",
    "cleared": "tnf.sin(1.0)\ntnf.default_executor().cache_clear()",
}
COMPILED = {
    "loop": "tnf.compile(lambda y: tnf.fori_loop(0, 1000, lambda i, y: tnf.sin(y) + i, y), 0.0).run(0.0)",
    "block": "tnf.jit(lambda x: tnf.sum(tnf.sin(x) * tnf.cos(x) + tnf.exp(x) * x - 1.0, axis=0))(tnf.ones(3))",
}


def test_what_is_interpreted_loads_the_executor_and_no_compiler() -> None:
    code = "\n".join(["import numpy as np", *INTERPRETED.values()])
    modules = loaded(code, ["tenferro.exec", "llvmlite.binding"])
    assert "tenferro.exec.executor" in modules
    assert [name for name in modules if "llvm" in name] == ["tenferro.exec.llvm"]


@pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
@pytest.mark.parametrize("code", COMPILED.values(), ids=COMPILED)
def test_what_may_be_compiled_loads_the_compiler(code: str) -> None:
    assert "tenferro.exec.llvm.control" in loaded(code, ["tenferro.exec.llvm"])
