"""`einsum_plan` must describe a contraction with the values of `einsum`, and print a path that users can read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors

RANDOM = np.random.default_rng(5)
CASES: dict[str, tuple[Any, ...]] = {
    "a chain": ("ij,jk,kl->il", (2, 9), (9, 8), (8, 3)),
    "integers": ((2, 9), [0, 1], (9, 8), [1, 70], (8, 3), [70, 3], [0, 3]),
    "no output labels": ((2, 3), [5, 1], (3,), [1]),
    "an ellipsis": ("...ij,jk,...k->...i", (4, 2, 3), (3, 5), (1, 5)),
    "ellipses of unequal rank": ("...i,...i,i->...", (4, 2, 3), (2, 3), (3,)),
    "a trace and a diagonal": ("iij,jk,k->i", (3, 3, 2), (2, 4), (4,)),
    "ones that broadcast": ("ij,jk,kl->il", (2, 1), (9, 1), (8, 3)),
    "one operand": ("ijk->ki", (2, 3, 4)),
    "an outer product": ("i,j,k->kij", (2,), (3,), (4,)),
}


def arrays_of(arguments: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
    arrays = {i: RANDOM.standard_normal(x) for i, x in enumerate(arguments) if isinstance(x, tuple)}
    return list(arrays.values()), tuple(arrays.get(i, x) for i, x in enumerate(arguments))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("optimize", ["auto", False, "greedy", "optimal"])
def test_values_are_einsum_s(case: str, optimize: Any) -> None:
    operands, arguments = arrays_of(CASES[case])
    plan = tnf.einsum_plan(*CASES[case], optimize=optimize)
    expected = tnf.einsum(*arguments, optimize=False)
    np.testing.assert_allclose(plan(*operands), expected, rtol=1e-12, atol=1e-12)
    assert plan == tnf.einsum_plan(*arguments, optimize=optimize)
    assert hash(plan) == hash(tnf.einsum_plan(*arguments, optimize=optimize))
    # The result of a step has only the labels that later steps or the output need. The result of the last step
    # therefore has the size of the output.
    assert plan.steps[-1].elements == expected.size


def test_cost_by_definition() -> None:
    plan = tnf.einsum_plan("ij,jk,kl->il", (2, 9), (9, 8), (8, 3), optimize=[(1, 2), (0, 1)])
    assert [step.equation for step in plan.steps] == ["jk,kl->jl", "ij,jl->il"]
    assert [step.multiplications for step in plan.steps] == [9 * 8 * 3, 2 * 9 * 3]
    assert [step.elements for step in plan.steps] == [27, 6]
    assert (plan.multiplications, plan.largest) == (270, 27)
    best = tnf.einsum_plan("ij,jk,kl->il", (2, 9), (9, 8), (8, 3))
    assert best.multiplications == 2 * 9 * 8 + 2 * 8 * 3
    assert str(best).splitlines()[1] == "  0 x 1: ij,jk->ik, 144 multiplications, 16 elements"


def test_the_path_is_taken() -> None:
    shapes = [(2, 50), (50, 50), (50, 3)]
    x, y, z = map(np.ones, shapes)
    for path, largest in (([(1, 2), (0, 1)], 150), ([(0, 1), (0, 1)], 100)):
        plan = tnf.einsum_plan("ij,jk,kl->il", *shapes, optimize=path)
        program = tnf.compile(plan, x, y, z)
        assert plan.largest == largest
        assert max(program.types[i.outputs[0]].size for i in program.instructions) == largest


def test_in_transforms_and_on_the_peer() -> None:
    operands, arguments = arrays_of(CASES["a chain"])
    plan = tnf.einsum_plan(*CASES["a chain"])
    gradient = tnf.grad(lambda *xs: tnf.sum(plan(*xs) ** 2))(*operands)
    x, y, z = operands
    np.testing.assert_allclose(gradient, 2 * (x @ y @ z) @ (y @ z).T, rtol=1e-12)
    program = tnf.compile(plan, *operands)
    np.testing.assert_allclose(
        xla_peer.XlaExecutor().run(program, *operands), x @ y @ z, rtol=1e-12
    )
    assert tnf.jit(plan)(*operands).shape == (2, 3)
    assert tnf.einsum(*arguments).shape == (2, 3)


def test_names_as_extents() -> None:
    plan = tnf.einsum_plan("ij,jk,kl->il", ("n", 9), (9, "m"), tnf.TensorSpec(("m", 2), "float32"))
    for n, m in ((3, 4), (1, 7)):
        x, y, z = (RANDOM.standard_normal(s) for s in ((n, 9), (9, m), (m, 2)))
        np.testing.assert_allclose(plan(x, y, z), x @ y @ z, rtol=1e-12)
    assert "[n,9], [9,m], [m,2]" in str(plan)
    with pytest.raises(errors.ShapeError):
        plan(np.ones((3, 9)), np.ones((9, 4)), np.ones((5, 2)))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda p: p(np.ones((2, 9)), np.ones((9, 8))), errors.ArityError, "planned for 3 operands"),
        (lambda p: p(np.ones((2, 9)), np.ones((9, 7)), np.ones((7, 3))), errors.ShapeError, "operand 1"),
        (lambda p: p(np.ones((2, 9)), np.ones(9), np.ones((8, 3))), errors.ShapeError, "operand 1"),
        (lambda p: tnf.einsum_plan("ij,jk", (2, 3)), errors.InvalidConfigError, "names 2 operands"),
        (lambda p: tnf.einsum_plan("ij,jk", (2, 3), (4, 5)), errors.ShapeError, "'j'"),
        (lambda p: tnf.einsum_plan("ij,jk", (2, 3), [3, 4]), errors.InvalidConfigError, "shapes"),
        (lambda p: tnf.einsum_plan("ij"), errors.InvalidConfigError, "at least one operand"),
        (lambda p: tnf.einsum_plan("...i,...i", (2, 3), (4, 3)), errors.ShapeError, "broadcast"),
    ],
)  # fmt: skip
def test_what_does_not_fit(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call(tnf.einsum_plan(*CASES["a chain"]))
