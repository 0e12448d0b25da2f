"""Jacobians and Hessians of functions of arrays must be right at exceptional points, in all modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tests.points.test_points import a_tenth
from tests.points.vectors import LINEAR, REDUCTIONS
from xla_peer import XlaExecutor

PEERS = [
    *[("native", name) for name in REDUCTIONS],
    *a_tenth([("PJRT", name) for name in REDUCTIONS]),
]


def derivatives(function: Any) -> Any:
    """Return a function that computes the Jacobian and the Hessian.

    The Jacobian is computed in both modes, and the Hessian forward over reverse and reverse over reverse.
    """
    reverse = tnf.jacrev(function)
    return lambda x: (
        tnf.jacfwd(function)(x),
        reverse(x),
        tnf.jacfwd(reverse)(x),
        tnf.jacrev(reverse)(x),
    )


@pytest.mark.parametrize("case", PEERS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions(case: tuple[str, str], dtype: str) -> None:
    peer, name = case
    record = REDUCTIONS[name]
    run = tnf.jit(derivatives(record.function), executor=XlaExecutor() if peer == "PJRT" else None)
    conventions = record.conventions or {}
    for point in (*record.points, *conventions):
        x = np.array(point)
        first = np.array(conventions[point]) if point in conventions else record.jacobian(x)
        second = np.zeros((*first.shape, x.size))
        if point not in conventions and record.hessian is not None:
            second = record.hessian(x)
        results = run(x.astype(dtype))
        for got, right in zip(results, (first, first, second, second), strict=True):
            scale = np.max(np.abs(right), initial=1.0)
            bound = 16 * float(np.finfo(dtype).eps) * scale
            np.testing.assert_allclose(got, right, rtol=0, atol=bound, err_msg=f"{name} at {point}")


@pytest.mark.parametrize("name", LINEAR)
def test_linear_functions_have_the_same_jacobian_everywhere(name: str) -> None:
    record = LINEAR[name]
    size = int(np.prod(record.shape))
    columns = [record.definition(unit.reshape(record.shape)) for unit in np.eye(size)]
    right = np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *record.shape)
    run = tnf.jit(derivatives(record.function))
    for fill in (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan):
        forward, reverse, *seconds = run(np.full(record.shape, fill))
        np.testing.assert_allclose(forward, right, atol=1e-15, err_msg=f"at {fill}")
        np.testing.assert_allclose(reverse, right, atol=1e-15, err_msg=f"at {fill}")
        assert not any(np.any(second) for second in seconds), fill
