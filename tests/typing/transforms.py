"""Types of the transforms, as type checkers infer them. basedpyright reads this file, and no test runs it."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

import tenferro as tnf


def loss(w: tnf.Tensor, scale: float) -> tuple[tnf.Tensor, int]:
    return w * scale, 1


def takes(x: tnf.ArrayLike) -> None: ...


assert_type(tnf.jit(loss)(np.ones(3), 2.0), tuple[tnf.Tensor, int])
slope: Callable[[tnf.Tensor, float], Any] = tnf.grad(loss)
tnf.grad(loss)(np.ones(3))  # pyright: ignore[reportCallIssue]
assert_type(tnf.value_and_grad(loss)(np.ones(3), 2.0), tuple[tuple[tnf.Tensor, int], Any])
assert_type(tnf.vmap(loss)(np.ones(3), 2.0), tuple[tnf.Tensor, int])

takes([1.0, [np.ones(2)]])
takes("text")  # pyright: ignore[reportArgumentType]
tnf.jit(loss)(np.ones(3), "two")  # pyright: ignore[reportArgumentType]
tnf.jit(loss)(np.ones(3))  # pyright: ignore[reportCallIssue]
