"""Convolutions must be rewritten as matrix products exactly if this needs no copy.

Results must be equal.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import lax, passes
from tenferro.dispatch import apply_one
from xla_peer import XlaExecutor


def convolution(x: Any, w: Any, axes: tuple[str, str, str], **options: Any) -> Any:
    arguments = {"window_strides": (1, 1), "padding": "VALID", **options}
    return lax.conv_general_dilated(x, w, dimension_numbers=axes, **arguments)


def program_of(x: Any, w: Any, *axes: str, **options: Any) -> tnf.GraphProgram:
    return tnf.compile(lambda x, w: convolution(x, w, axes, **options), x, w)  # type: ignore[arg-type]


def is_contracted(program: tnf.GraphProgram) -> bool:
    names = {step.op.name for step in passes.contract_convolutions(program).instructions}
    assert len(names & {"DotGeneral", "Convolution"}) == 1
    return "DotGeneral" in names


def numbers(*shape: int, dtype: Any = "f8") -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(dtype)


LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_channels_last(dtype: str) -> None:
    x, w = numbers(2, 5, 4, 3, dtype=dtype), numbers(1, 1, 3, 6, dtype=dtype)
    program = program_of(x, w, *LAST)
    assert is_contracted(program)
    steps = passes.contract_convolutions(program).instructions
    assert [step.op.name for step in steps] == ["Reshape", "DotGeneral"]
    np.testing.assert_allclose(
        program.run(x, w), np.einsum("nhwc,co->nhwo", x, w[0, 0]), rtol=1e-5 if dtype == "f4" else 1e-13
    )  # fmt: skip


def test_channels_first_of_one_image() -> None:
    x, w = numbers(1, 3, 5, 4), numbers(6, 3, 1, 1)
    program = program_of(x, w, *FIRST)
    assert is_contracted(program)
    wanted = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0])
    np.testing.assert_allclose(program.run(x, w), wanted, rtol=1e-12)
    assert not is_contracted(program_of(numbers(2, 3, 5, 4), w, *FIRST))


def test_kernels_as_long_as_the_image() -> None:
    x, w = numbers(2, 5, 4, 3), numbers(5, 4, 3, 6)
    program = program_of(x, w, *LAST, window_strides=(2, 1))
    assert is_contracted(program)
    wanted = np.einsum("nhwc,hwco->no", x, w)[:, None, None]
    np.testing.assert_allclose(program.run(x, w), wanted, rtol=1e-12)


def test_gradients() -> None:
    x, w, y_bar = numbers(2, 5, 4, 3), numbers(1, 1, 3, 6), numbers(2, 5, 4, 6)
    loss = lambda x, w: tnf.sum(y_bar * convolution(x, w, LAST))
    program = tnf.compile(tnf.grad(loss, (0, 1)), x, w)
    names = [step.op.name for step in passes.contract_convolutions(program).instructions]
    assert names.count("DotGeneral") == 2
    assert "Convolution" not in names
    x_bar, w_bar = program.run(x, w)
    np.testing.assert_allclose(x_bar, np.einsum("nhwo,co->nhwc", y_bar, w[0, 0]), rtol=1e-12)
    wanted = np.einsum("nhwo,nhwc->co", y_bar, x)[None, None]
    np.testing.assert_allclose(w_bar, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"window_strides": (1, 2)},
        {"padding": ((0, 0), (1, 0))},
        {"padding": ((0, 0), (0, -1))},
        {"lhs_dilation": (1, 2)},
        {"feature_group_count": 3},
        {"batch_group_count": 2},
    ],
)
def test_those_that_move_otherwise_stay(options: dict[str, Any]) -> None:
    features = 1 if "feature_group_count" in options else 3
    x, w = numbers(2, 5, 4, 3), numbers(1, 1, features, 6)
    program = program_of(x, w, *LAST, **options)
    assert not is_contracted(program)
    np.testing.assert_allclose(program.run(x, w), XlaExecutor().run(program, x, w), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f2", "i4", "c16"])
def test_other_dtypes_stay(dtype: str) -> None:
    x, w = (3 * numbers(2, 5, 4, 3)).astype(dtype), np.ones((1, 1, 3, 6), dtype)
    assert not is_contracted(program_of(x, w, *LAST))


def test_whole_kernels_that_are_dilated_stay() -> None:
    x, w = numbers(2, 5, 3, 3), numbers(5, 2, 3, 6)
    assert not is_contracted(program_of(x, w, *LAST, rhs_dilation=(1, 2)))
    assert is_contracted(program_of(x[:, :, :2], w, *LAST))


def test_whole_kernels_that_are_reversed_stay() -> None:
    x, w = numbers(2, 5, 4, 3), numbers(5, 4, 3, 6)
    (step,) = program_of(x, w, *LAST).instructions
    for reversal, pointwise in (
        ((True, False), False),
        ((False, True), True),
        ((False, False), True),
    ):
        kernel = w[:, :1] if pointwise else w
        op = replace(step.op, window_reversal=reversal)  # type: ignore[type-var]
        program = tnf.compile(lambda x, w, op=op: apply_one(op, x, w), x, kernel)
        assert is_contracted(program) is pointwise
        result = program.run(x, kernel)
        np.testing.assert_allclose(result, XlaExecutor().run(program, x, kernel), rtol=1e-12)


def test_extents_of_zero() -> None:
    for shape, kernel in (
        ((0, 5, 4, 3), (1, 1, 3, 6)),
        ((2, 5, 4, 0), (1, 1, 0, 6)),
        ((2, 5, 4, 3), (1, 1, 3, 0)),
    ):
        x, w = np.ones(shape), np.ones(kernel)
        result = program_of(x, w, *LAST).run(x, w)
        np.testing.assert_array_equal(result, np.zeros((*shape[:3], kernel[3])))


def test_random_layouts() -> None:
    """In random layouts, the rewritten program must equal XLA's results of the original program."""
    contracted = 0
    for seed in range(60):
        random = Random(seed)
        axes = [
            random.choice(["".join(random.sample("NHWC", 4)), "NHWC", "NCHW"]) for _ in range(2)
        ]
        of_w = "".join(random.sample("HWIO", 4))
        extents = {"N": random.choice([1, 2]), **{axis: random.choice([1, 2, 3]) for axis in "HWC"}}
        kernel = {"I": extents["C"], "O": random.choice([1, 2, 4])}
        kernel |= {axis: random.choice([1, extents[axis]]) for axis in "HW"}
        options = {
            "window_strides": (random.choice([1, 1, 2]), random.choice([1, 1, 2])),
            "rhs_dilation": (random.choice([1, 1, 2]), 1),
        }
        if any(
            options["rhs_dilation"][i] * (kernel[a] - 1) >= extents[a] for i, a in enumerate("HW")
        ):
            continue
        x, w = numbers(*[extents[a] for a in axes[0]]), numbers(*[kernel[a] for a in of_w])
        program = program_of(x, w, axes[0], of_w, axes[1], **options)
        contracted += is_contracted(program)
        wanted = XlaExecutor().run(program, x, w)
        np.testing.assert_allclose(program.run(x, w), wanted, rtol=1e-11, atol=1e-13)
    assert contracted > 20
