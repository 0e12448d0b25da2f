"""Transformed functions must be picklable.

A decorated function is stored by its name, any other by how it was made.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import InvalidConfigError
from xla_peer import XlaExecutor


def square(x: Any) -> Any:
    return x * x


def scaled(x: Any, how: str, *, by: Any = 1.0) -> Any:
    return getattr(tnf, how)(x) * by


@tnf.jit
def decorated(x: Any) -> Any:
    return 3 * square(x)


@tnf.value_and_grad
def derived(x: Any) -> Any:
    return square(x)


@tnf.vmap
def mapped(x: Any) -> Any:
    return tnf.sum(x)


@tnf.checkpoint
def computed_again(x: Any) -> Any:
    return tnf.sin(tnf.sin(x))


@tnf.custom_vjp
def clipped(x: Any) -> Any:
    return x


clipped.defvjp(lambda x: (x, None), lambda _, y_bar: (tnf.clip(y_bar, -1.0, 1.0),))


def tangent(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return square(x), 7 * x_dot


# `doubtful` cannot be found by its name `square`, which belongs to another function.
doubtful = tnf.custom_jvp(square)
doubtful.defjvp(tangent)


class Model:
    def __init__(self, weight: float) -> None:
        self.weight = weight

    @tnf.jit
    def loss(self, x: Any) -> Any:
        return self.weight * x

    def __hash__(self) -> int:
        return hash(self.weight)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.weight == other.weight


MADE: dict[str, Callable[[], Any]] = {
    "jit": lambda: tnf.jit(square),
    "grad": lambda: tnf.grad(square),
    "value_and_grad": lambda: tnf.value_and_grad(square),
    "jacfwd": lambda: tnf.jacfwd(square),
    "jacrev": lambda: tnf.jacrev(square),
    "hessian": lambda: tnf.hessian(square),
    "jit of grad": lambda: tnf.jit(tnf.grad(square)),
    "grad of jit": lambda: tnf.grad(tnf.jit(square)),
    "checkpoint": lambda: tnf.checkpoint(square),
    "custom_jvp": lambda: tnf.grad(doubtful),
    "executor": lambda: tnf.jit(square, executor=XlaExecutor(optimization_level=0)),
    "native executor": lambda: tnf.grad(square, executor=tnf.GraphExecutor(threads=1)),
    "argnums": lambda: tnf.grad(square, argnums=(0,)),
    "holomorphic": lambda: tnf.grad(square, holomorphic=True),
}


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("made", MADE)
def test_they_compute_the_same(made: str, protocol: int) -> None:
    fn = MADE[made]()
    x: Any = 3.0 + (1j if made == "holomorphic" else 0)
    again = pickle.loads(pickle.dumps(fn, protocol))
    assert again is not fn
    assert repr(again).split(":")[0] == repr(fn).split(":")[0]
    assert tnf.tree.all(tnf.tree.map(np.array_equal, again(x), fn(x)))


def test_options_of_jit_and_vmap() -> None:
    fn = tnf.jit(scaled, static_argnums=1, cache_size=7)
    again = pickle.loads(pickle.dumps(fn))
    assert again(4.0, "sqrt", by=2.0) == again(4.0, how="sqrt", by=2.0) == 4.0
    assert again.cache_stats().capacity == 7
    x = np.arange(6.0).reshape(2, 3)
    over_columns = pickle.loads(pickle.dumps(tnf.vmap(tnf.sum, in_axes=1)))
    np.testing.assert_array_equal(over_columns(x), [3.0, 5.0, 7.0])


@pytest.mark.parametrize("fn", [decorated, derived, mapped, computed_again, clipped, Model.loss])
def test_decorated_functions_are_their_names(fn: Any) -> None:
    assert pickle.loads(pickle.dumps(fn)) is fn
    assert copy.deepcopy(fn) is fn


def test_methods() -> None:
    loss = pickle.loads(pickle.dumps(Model(5.0).loss))
    with tnf.disable_jit():
        assert loss(3.0) == 15.0


def test_another_process() -> None:
    script = "import pickle, sys; fs = pickle.load(sys.stdin.buffer); print(*[float(f(3.0)) for f in fs])"
    functions = [decorated, tnf.jit(square), tnf.grad(square), tnf.grad(doubtful)]
    ended = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(functions),
        capture_output=True,
        check=True,
    )
    assert ended.stdout.split() == [b"27.0", b"9.0", b"6.0", b"7.0"]


@pytest.mark.parametrize("transform", [tnf.grad, tnf.jacfwd, tnf.vmap])
def test_contexts_are_not_pickled(transform: Any) -> None:
    with pytest.raises(InvalidConfigError, match=r"AdContext .* is not pickled"):
        pickle.dumps(transform(square, context=tnf.AdContext()))


def test_functions_of_functions_by_value() -> None:
    cloudpickle: Any = pytest.importorskip("cloudpickle")
    fn = cloudpickle.loads(cloudpickle.dumps(tnf.jit(tnf.grad(lambda x: x * x))))
    assert fn(3.0) == 6.0
