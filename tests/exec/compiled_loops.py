"""Functions that run a function in a compiled loop, and functions that compare results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import link
from tenferro.ops.control import ControlOp

__all__ = [
    "has_numpys_bits",
    "in_a_loop",
    "in_two_iterations",
    "require_near",
    "require_same_bits",
    "run_as_written_and_optimised",
]


ROUNDED_OTHERWISE = {
    "Power", "Exp", "Expm1", "Log", "Log1p", "Cbrt", "Sin", "Cos", "Tan", "Tanh", "Logistic", "Atan2", "Asin", "Acos",
    "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Erfc", "ErfInv", "Lgamma", "Digamma", "ReduceSum",
    "ReduceProd", "CumSum", "CumProd", "DotGeneral", "Convolution",
}  # fmt: skip
"""Ops whose compiled results may differ from NumPy's by rounding, because compiled code uses other algorithms."""
ROUNDED_OTHERWISE_IF_COMPLEX = {"Multiply", "Divide", "Abs", "Sign"}
"""Ops whose compiled results may differ only for complex numbers: NumPy fuses products and sums on some processors."""


def has_numpys_bits(card: type, is_complex: bool) -> bool:
    """Return whether an op's compiled results must have the same bits as NumPy's."""
    others = ROUNDED_OTHERWISE_IF_COMPLEX if is_complex else set[str]()
    return card.__name__ not in ROUNDED_OTHERWISE | others


def run_as_written_and_optimised(
    executor: tnf.GraphExecutor, program: tnf.GraphProgram, *arrays: Any
) -> Any:
    """Run optimised compiled code, and return its results.

    Code without LLVM's optimisation passes must return the same bits, except for the bits of NaN.
    """

    def parsed(module: Any, context: Any, _: Any) -> Any:
        return context.parsed(module.plain)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link.Linker, "baseline", lambda *_: None)
        executor.cache_clear()
        optimised = executor.run(program, *arrays)
        patch.setattr(link, "_after_passes", parsed)
        executor.cache_clear()
        result = executor.run(program, *arrays)
    assert not executor.compile_stats().failures
    executor.cache_clear()
    for y, z in zip(tnf.tree.leaves(result), tnf.tree.leaves(optimised), strict=True):
        require_same_bits(np.asarray(y), np.asarray(z))
    return optimised


def require_same_bits(y: Any, z: Any) -> None:
    """Require equal dtypes, shapes and bits. Only the bits of NaN may differ."""
    is_nan = y != y
    assert (y.dtype, y.shape) == (z.dtype, z.shape)
    np.testing.assert_array_equal(is_nan, z != z)
    assert np.where(is_nan, 0, y).tobytes() == np.where(is_nan, 0, z).tobytes()


def require_near(found: list[Any], wanted: list[Any], relative: float = 1e-12) -> None:
    """Require equal types, integers, infinities and NaN, and finite floats that are equal up to rounding."""
    for y, z in zip(found, wanted, strict=True):
        assert (y.dtype, y.shape) == (z.dtype, z.shape)
        if y.dtype.kind in "biu":
            np.testing.assert_array_equal(y, z)
            continue
        a, b = y.astype(complex), z.astype(complex)
        assert (np.isnan(a) == np.isnan(b)).all()
        is_infinite = np.isinf(b)
        np.testing.assert_array_equal(a[is_infinite], b[is_infinite])
        is_finite = np.isfinite(b)
        size = np.abs(b[is_finite]).max(initial=0.0)
        allowed = (
            max(relative, 16 * float(np.finfo(np.float32).eps))
            if y.dtype.itemsize <= 4 or y.dtype == np.complex64
            else relative
        )
        np.testing.assert_allclose(a[is_finite], b[is_finite], rtol=allowed, atol=allowed * size)


def in_a_loop(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """Apply a function to each row of the arrays in a compiled loop; return the stacked results."""
    program = tnf.compile(
        lambda *xs: tnf.scan(lambda n, x: (n + 1, function(*x)), 0, xs)[1], *arrays
    )
    executor = tnf.GraphExecutor("K", compiled=True)
    steps = executor.compile(program, *arrays).instructions
    (remark,) = [step.remark for step in steps if isinstance(step.source_op, ControlOp)]
    assert remark == "compiled"
    return run_as_written_and_optimised(executor, program, *arrays)


def in_two_iterations(f: Any, *arrays: Any) -> Any:
    """Apply a function in a compiled loop of two iterations, both with the same operands; return its result."""
    stacked = [np.stack([x, x]) for x in arrays]
    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(lambda *xs: tnf.scan(lambda c, x: (c, f(*x)), 0.0, xs)[1], *stacked)
    schedule = executor.compile(program)
    assert "# compiled" in str(schedule)
    assert "call i64 %host" not in executor.source(program, "llvm")
    results = run_as_written_and_optimised(executor, program, *stacked)
    leaves = tnf.tree.leaves(results)
    for leaf in leaves:
        np.testing.assert_array_equal(leaf[0], leaf[1])
    return leaves[0][0] if len(leaves) == 1 else tuple(leaf[0] for leaf in leaves)
