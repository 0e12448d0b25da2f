"""Checkpoints with a policy must save only the values that the policy selects, and recompute all others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import InvalidConfigError

RANDOM = np.random.default_rng(0)
WEIGHTS = [RANDOM.normal(size=(5, 5)) / 2 for _ in range(4)]
X = RANDOM.normal(size=(3, 5))

POLICIES: dict[str | None, tuple[int, int]] = {
    None: (15, 7),
    "nothing_saveable": (15, 7),
    "dots_saveable": (11, 7),
    "dots_with_no_batch_dims_saveable": (11, 7),
    "everything_saveable": (11, 4),
}
"""Expected numbers of matrix products and of sines, for each policy, in the program of a value and its gradient.

The forward pass has 4 of each, and the backward pass 7 products. All values that are not saved are recomputed, except
the last sine, which the backward pass does not need.
"""


def layers(weights: Any, x: Any) -> Any:
    for w in weights:
        x = tnf.sin(x @ w)
    return x


def loss(weights: Any, x: Any, **options: Any) -> Any:
    return tnf.sum(tnf.checkpoint(layers, **options)(weights, x) ** 2)


def plain(weights: Any, x: Any) -> Any:
    return tnf.sum(layers(weights, x) ** 2)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_decides_what_is_computed_again(policy: str | None) -> None:
    program = tnf.compile(tnf.value_and_grad(lambda w: loss(w, X, policy=policy)), WEIGHTS)
    counts = Counter(i.op.name for i in program.instructions)
    assert (counts["DotGeneral"], counts["Sin"]) == POLICIES[policy]
    gradients = program.run(WEIGHTS)[1]
    for gradient, wanted in zip(gradients, tnf.grad(plain)(WEIGHTS, X), strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-13)


def test_batch_axes_count() -> None:
    def product(x: Any) -> Any:
        return tnf.sin(tnf.exp(x) @ x)

    x = RANDOM.normal(size=(2, 3, 3))
    for policy, expected in (("dots_saveable", 3), ("dots_with_no_batch_dims_saveable", 4)):
        fn = tnf.checkpoint(product, policy=policy)
        program = tnf.compile(tnf.value_and_grad(lambda x, fn=fn: tnf.sum(fn(x))), x)
        assert Counter(i.op.name for i in program.instructions)["DotGeneral"] == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_in_loops_batches_and_second_derivatives(policy: str | None) -> None:
    step = tnf.checkpoint(lambda c, w: (tnf.sin(c @ w), None), policy=policy)
    stacked = np.stack(WEIGHTS)
    scanned = tnf.grad(lambda w: tnf.sum(tnf.scan(step, X, w)[0] ** 2))(stacked)
    np.testing.assert_allclose(scanned, np.stack(tnf.grad(plain)(WEIGHTS, X)), rtol=1e-12)

    def one(w: Any, **options: Any) -> Any:
        return loss([w, *WEIGHTS[1:]], X[:2], **options)

    second = tnf.hessian(lambda w: one(w, policy=policy))(WEIGHTS[0])
    wanted = tnf.hessian(lambda w: plain([w, *WEIGHTS[1:]], X[:2]))(WEIGHTS[0])
    np.testing.assert_allclose(second, wanted, rtol=1e-11, atol=1e-12)
    batched = tnf.vmap(tnf.grad(lambda x: loss(WEIGHTS, x, policy=policy)))(X[:, None])
    rows = tnf.grad(lambda x: plain(WEIGHTS, x))(X)
    np.testing.assert_allclose(batched[:, 0], rows, rtol=1e-12)


def test_refusals() -> None:
    with pytest.raises(
        InvalidConfigError, match="policy must be one of nothing_saveable, everything"
    ):
        tnf.checkpoint(layers, policy="dots")
    with pytest.raises(InvalidConfigError, match="exclude each other"):
        tnf.checkpoint(layers, policy="dots_saveable", levels=2)
