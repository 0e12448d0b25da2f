"""For every op, the programs of its derivatives must have the same values natively and through PJRT."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro.ops import dynamic
from tenferro.ops.reduction import Sort
from tenferro.types import DType
from tests.ad.cases import Case, cases, direction_like
from tests.levels import LEVELS, peer_of
from xla_peer import XlaExecutor

FLOATS = {dtype for dtype in DType if dtype.is_inexact}
HOST_ONLY = (dynamic.DynamicTruncate, dynamic.PadToMatch)
"""Ops that XLA cannot run, because the extents of their results depend on data."""


def by_op(dtypes: Any, per_dtype: int) -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = {}
    for case in cases(dtypes, per_dtype):
        if type(case.sample.op) not in HOST_ONLY and case.sample.xla:
            groups.setdefault(case.sample.op.name, []).append(case)
    return groups


GROUPS, MORE = by_op({DType.F32, DType.BF16, DType.C64}, 1), by_op(FLOATS, 4)


@pytest.fixture(scope="module", params=LEVELS)
def xla(request: pytest.FixtureRequest) -> XlaExecutor:
    return peer_of(request)


def derivatives(case: Case) -> Any:
    """Return a function that computes the tangents of a case, its cotangents, and the tangents of the cotangents."""

    def fn(primals: Any, directions: Any, y_bars: Any) -> Any:
        def pulled(*xs: Any) -> Any:
            return tnf.vjp(case.fn, *xs)[1](y_bars)

        x_bars, x_bar_dots = tnf.jvp(pulled, primals, directions)
        return tnf.jvp(case.fn, primals, directions)[1], x_bars, x_bar_dots

    return fn


@pytest.mark.parametrize("name", GROUPS)
def test_derivatives_agree_on_both_peers(name: str, xla: XlaExecutor) -> None:
    agree(GROUPS[name], xla)


@pytest.mark.sweep
@pytest.mark.parametrize("name", MORE)
def test_more_derivatives_agree_on_both_peers(name: str, xla: XlaExecutor) -> None:
    agree(MORE[name], xla)


@pytest.mark.parametrize("is_stable", [False, True])
def test_tangents_are_sorted_with_their_elements(is_stable: bool, xla: XlaExecutor) -> None:
    """The tangents must be permuted like the sorted values.

    Many keys are equal, and XLA's unstable sort may reorder elements with equal keys.
    """
    keys, x = np.arange(300.0) % 3, np.arange(300.0)

    def sorted_x(x: Any) -> Any:
        return tnf.lax.sort((keys, x), is_stable=is_stable)[1]

    program = tnf.compile(lambda x: tnf.jvp(sorted_x, (x,), (x,)), x)
    for y, y_dot in (program.run(x), xla.run(program, x)):
        assert np.array_equal(y_dot, y)
        assert np.array_equal(np.sort(y), x)


def test_tangents_of_an_unstable_sort_are_ordered_by_a_stable_one() -> None:
    """The program of the derivative must contain a stable sort.

    If keys are equal, only a stable sort permutes the tangents in the same way on every backend.
    """
    keys, x = np.arange(300.0) % 3, np.arange(300.0)

    def tangents(keys: Any) -> Any:
        return tnf.jvp(lambda keys: tnf.lax.sort(keys, is_stable=False), (keys,), (x,))[1]

    program = tnf.compile(tangents, keys)
    sorts = [step.op for step in program.instructions if isinstance(step.op, Sort)]
    assert [op.stable for op in sorts] == [True]
    assert np.array_equal(program.run(keys), x[np.argsort(keys, kind="stable")])


def agree(group: list[Case], xla: XlaExecutor) -> None:
    arguments = []
    for case in group:
        directions = tuple(direction_like(x, 1) for x in case.primals)
        y_bars = tuple(direction_like(y, 2) for y in case.expected)
        arguments.append((case.primals, directions, y_bars))

    def all_of_them(arguments: Any) -> Any:
        return [derivatives(case)(*given) for case, given in zip(group, arguments, strict=True)]

    program = tnf.compile(all_of_them, arguments)
    lowering.lower_to_stablehlo(program).verify()
    native, through_xla = program.run(arguments), xla.run(program, arguments)
    for case, left, right in zip(group, native, through_xla, strict=True):
        for a, b in zip(tnf.types.flatten(left)[0], tnf.types.flatten(right)[0], strict=True):
            assert a.dtype == b.dtype
            assert_close(a, b, str(case))


def assert_close(a: Any, b: Any, what: str) -> None:
    epsilon = float(ml_dtypes.finfo(a.dtype).eps)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = 1 + np.max(np.abs(a[np.isfinite(a)]), initial=0)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= 1000 * epsilon * scale
    assert (same | near).all(), (what, a[~(same | near)], b[~(same | near)])
