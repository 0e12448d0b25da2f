"""Interpreted loops: errors must name the failing line, and programs can be printed as Python."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.exec.kernels.composed import has_zeros, maximum
from tenferro.exec.plan.block import cuts
from tenferro.extension import HostReferenceRuntime, apply
from tests.test_printed_programs import WornOut

X = np.linspace(0.1, 1.0, 6)
EXECUTOR = tnf.GraphExecutor("K", compiled=False)


def test_an_error_in_an_inner_loop_names_its_line() -> None:
    def inner(_: Any, c: Any) -> Any:
        return apply(WornOut(), c) - 0.3  # the error must name this line

    def function(x: Any) -> Any:
        return tnf.fori_loop(0, 2, lambda _, c: tnf.fori_loop(0, 2, inner, c) + 0.0, x)

    program = tnf.compile(function, X)
    executor = tnf.GraphExecutor(
        "K", compiled=False, runtimes=[HostReferenceRuntime(WornOut.family_id)]
    )
    for _ in range(2):
        executor.run(program, X + 2.0)
        with pytest.raises(errors.BackendFailureError, match="worn out") as caught:
            executor.run(program, X)
        place = str(caught.value).rpartition(".py:")[2]
        line = Path(__file__).read_text().splitlines()[int(place.split()[0]) - 1]
        assert "the error must name this line" in line


@pytest.mark.parametrize("size", [3, 3000])
def test_zeros_of_few_and_of_many_elements(size: int) -> None:
    x = np.ones(size)
    assert not has_zeros(x)
    x[-1] = np.nan
    assert not has_zeros(x)
    x[0] = -0.0
    assert has_zeros(x)
    y = np.zeros(size)
    assert not np.signbit(maximum(x, y)[0])
    assert not np.signbit(maximum(y, x)[0])


def test_rows_of_an_inner_loop_that_do_not_fit_name_its_line() -> None:
    def outer(_: Any, c: Any) -> Any:
        rows = tnf.scan(lambda u, _: (u, u), c, None, length=1 << 50)[1]  # too large for memory
        return c + rows[0]

    program = tnf.compile(lambda x: tnf.fori_loop(0, 2, outer, x), X)
    for _ in range(2):
        with pytest.raises(errors.BackendFailureError, match=r"Scan: the kernel for .* failed") as caught:  # fmt: skip
            EXECUTOR.run(program, X)
        place = str(caught.value).rpartition(".py:")[2]
        line = Path(__file__).read_text().splitlines()[int(place.split()[0]) - 1]
        assert "too large for memory" in line


def test_the_text_of_a_program_is_python() -> None:
    """A printed program must have a function for its top-level steps, and one for each loop body and branch."""

    def fn(x: Any, big: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return tnf.cond(c[0] > 0, tnf.tanh, tnf.negative, c), None

        y = tnf.scan(step, x, None, length=3)[0]
        z = tnf.cond(y[0] > 0, lambda y: tnf.sin(y), lambda y: tnf.cos(y), y)
        return z, tnf.exp(big) * big + 1.0

    big = np.ones((512, 512))
    text = EXECUTOR.source(tnf.compile(fn, X, big))
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert names == re.findall(r"^def (\w+)", text, re.MULTILINE)
    kinds = sorted(re.sub(r"\d+", "n", name) for name in names)
    assert kinds == [*["cond_n_n"] * 4, "run", "scan_n_n"]
    branches = sorted(name[-2:] for name in names if name.startswith("cond"))
    assert branches == ["_0", "_0", "_1", "_1"]


@pytest.mark.parametrize(
    ("period", "steps", "starts"),
    [
        (1, 1001, [0, 250, 500, 750, 1000]), (3, 1100, [0, 249, 498, 747, 996]),
        (125, 1100, [0, 250, 500, 750, 1000]), (126, 1100, [0, 882]), (300, 1500, [0, 900]),
    ],
)  # fmt: skip
def test_long_programs_are_cut_where_they_repeat_themselves(
    period: int, steps: int, starts: list[int]
) -> None:
    kinds = ["cos" if number % period == 0 else "sin" for number in range(steps)]
    assert [*cuts(kinds, 250, 1000)] == [*pairwise([*starts, steps])]
