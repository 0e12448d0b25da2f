"""`check_finite`: the first op that makes what is not finite, with the user's line."""

from __future__ import annotations

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors

CHECKED = tnf.GraphExecutor(check_finite=True)


def test_the_first_op_is_named_with_its_line() -> None:
    program = tnf.compile(lambda x: tnf.sum(tnf.log(x) * 0.0), np.ones(3))
    x = np.array([1.0, 0.0, 2.0])
    with pytest.raises(
        errors.NonFiniteError, match=r"(?s)Log: made -inf at \[1\] of 0\.0; 1 of 3.*test_check"
    ):
        CHECKED.run(program, x)
    assert np.isnan(program.run(x))
    np.testing.assert_array_equal(CHECKED.run(program, np.ones(3)), 0.0)


def test_in_gradients_too() -> None:
    gradient = tnf.compile(tnf.grad(lambda x: tnf.sum(tnf.sqrt(x))), np.ones(2))
    with pytest.raises(
        errors.NonFiniteError, match=r"(?s)inf.*test_check_finite.*derivative of Sqrt"
    ):
        CHECKED.run(gradient, np.array([4.0, 0.0]))


def test_what_comes_in_is_no_fault_of_an_op() -> None:
    program = tnf.compile(lambda x: tnf.exp(x) + 1, np.ones(2))
    found = CHECKED.run(program, np.array([-np.inf, np.nan]))
    assert found[0] == 1.0
    assert np.isnan(found[1])
    with pytest.raises(errors.NonFiniteError, match="Subtract: made nan"):
        CHECKED.run(tnf.compile(lambda x: x - x, np.ones(2)), np.array([np.inf, 1.0]))


def test_every_kind_of_number() -> None:
    for dtype in ("float16", "bfloat16", "float32", "complex128"):
        x = np.array([0.0, 1.0]).astype(tnf.DType.of(dtype).dtype)
        program = tnf.compile(lambda x: (x * 2) / x, x)
        with pytest.raises(errors.NonFiniteError, match="Divide: made"):
            CHECKED.run(program, x)
    ints = np.array([1, 0])
    assert CHECKED.run(tnf.compile(lambda x: x * 2, ints), ints)[0] == 2
