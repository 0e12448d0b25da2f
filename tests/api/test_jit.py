"""`jit` must handle keyword arguments, static arguments and their equality, methods, names, and errors."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree
import pytest

import tenferro as tnf
from tenferro.errors import ConcretizationError, DTypeError, InvalidConfigError
from xla_peer import XlaExecutor

X = np.array([1.0, 2.0, 3.0])


def scaled(x: Any, lr: Any = 1.0, *, shift: Any = 0.0, mode: str = "add") -> Any:
    """Documented."""
    return x * lr + shift if mode == "add" else x * lr - shift


def test_keyword_arguments_are_traced() -> None:
    f = tnf.jit(scaled)
    assert f(X, lr=2.0).tolist() == [2, 4, 6]
    assert f(X, lr=3.0, shift=np.ones(3)).tolist() == [4, 7, 10]
    assert f(X, 3.0, shift=2.0).tolist() == [5, 8, 11]
    assert f(x=X, lr=0.5).tolist() == [0.5, 1, 1.5]
    assert f.cache_stats().misses == 4
    f(X, lr=9.0)
    assert f.cache_stats().misses == 4
    tree = tnf.jit(lambda x, **options: x + options["a"]["b"])
    assert tree(1.0, a={"b": 2.0}) == 3


@pytest.mark.parametrize(
    "options",
    [{"static_argnames": "mode"}, {"static_argnames": ("mode",)}, {"static_argnames": ["mode"]}],
)
def test_static_keywords(options: Any) -> None:
    f = tnf.jit(scaled, **options)
    assert f(X, shift=1.0, mode="add").tolist() == [2, 3, 4]
    assert f(X, shift=1.0, mode="subtract").tolist() == [0, 1, 2]
    assert f.cache_stats().misses == 2
    f(X, shift=5.0, mode="add")
    assert f.cache_stats().misses == 2


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": 1},
        {"static_argnums": (1,)},
        {"static_argnums": -1},
        {"static_argnames": "n"},
    ],
)
def test_static_positions_and_names_stand_for_each_other(options: Any) -> None:
    f = tnf.jit(lambda x, n: tnf.concat([x] * n), **options)
    assert f(X, 2).shape == (6,)
    assert f(X, n=3).shape == (9,)
    assert f(x=X, n=1).shape == (3,)


def test_functions_and_strings_are_static() -> None:
    f = tnf.jit(lambda x, how, name: getattr(tnf, name)(how(x)), static_argnums=(1, 2))
    assert f(X, tnf.square, "sum") == 14
    assert f(X, tnf.negative, "max") == -1
    assert f.cache_stats().misses == 2


def test_numpys_numbers_are_arrays_of_their_types() -> None:
    f = tnf.jit(lambda x: x * 2)
    for x in (np.float64(0.5), np.array(0.5), np.float32(0.5), np.float32(0.5), np.complex64(1j)):
        y = f(x)
        assert isinstance(y, np.ndarray)
        assert (y.dtype, y.shape) == (x.dtype, ())
        assert y == 2 * x
    assert f.cache_stats().misses == 3
    nested = tnf.jit(lambda tree: tree["a"] + tree["b"])
    for a in (np.float64(1), np.float64(2), np.float32(1)):
        assert nested({"a": a, "b": a}).dtype == a.dtype
    with pytest.raises(tnf.errors.DTypeError, match="x"):
        f(np.datetime64("2026-01-01"))


def test_static_values_that_look_equal_are_told_apart() -> None:
    f = tnf.jit(lambda x, k: x + (1.0 if k is True else 10.0 * k), static_argnums=1)
    assert f(1.0, True) == 2
    assert f(1.0, 1) == 11
    signed = tnf.jit(lambda x, k: tnf.copysign(x, k), static_argnums=1)
    assert signed(1.0, 0.0) == 1
    assert signed(1.0, -0.0) == -1
    none = tnf.jit(lambda x, k: x * 2, static_argnums=1)
    none(1.0, float("nan"))
    none(1.0, float("nan"))
    assert none.cache_stats().misses == 1


@dataclass(frozen=True)
class Model:
    width: int

    @functools.partial(tnf.jit, static_argnums=0)
    def twice(self, x: Any, times: Any = 2.0) -> Any:
        return x * times * self.width

    def plain(self, x: Any) -> Any:
        return x * self.width


def test_methods() -> None:
    assert Model(3).twice(1.0) == 6
    assert Model(5).twice(1.0, times=1.0) == 5
    assert Model(3).twice.lower(X).input_names == ("x",)
    assert Model(3).twice.cache_stats().misses == Model.twice.cache_stats().misses == 3
    assert tnf.jit(Model(7).plain)(2.0) == 14


def test_it_looks_like_the_function() -> None:
    f = tnf.jit(scaled, static_argnames="mode")
    assert (f.__name__, f.__doc__, f.__wrapped__) == ("scaled", "Documented.", scaled)
    f(X)
    assert repr(f) == "<jit of scaled: 1 program>"
    assert f.lower(X, 2.0, shift=1.0, mode="add").input_names == ("x", "lr", "shift")
    assert f.lower(X).name == "scaled"
    program = f.lower(X, shift=1.0)
    assert program.run(X, {"shift": 2.0}).tolist() == [3, 4, 5]


def test_transforms_of_jitted_functions() -> None:
    f = tnf.jit(lambda x, k=1.0: k * tnf.sum(x * x))
    assert tnf.grad(f)(X, k=3.0).tolist() == [6, 12, 18]
    assert tnf.grad(tnf.jit(tnf.grad(lambda x, k: k * x**3)))(2.0, k=2.0) == 24
    assert tnf.jit(tnf.grad(f))(X, k=3.0).tolist() == [6, 12, 18]
    assert tnf.jacobian(tnf.jit(lambda x: x * x))(X).tolist() == np.diag(2 * X).tolist()
    assert tnf.vmap(tnf.jit(lambda x: x * 2))(X).tolist() == [2, 4, 6]
    g = tnf.jit(lambda x, mode: f(x) if mode == "square" else tnf.sum(x), static_argnames="mode")
    assert tnf.grad(lambda x: g(x, mode="square"))(X).tolist() == [2, 4, 6]


def test_through_another_executor() -> None:
    f = tnf.jit(scaled, executor=XlaExecutor(), static_argnames="mode")
    assert f(X, lr=2.0, mode="subtract", shift=1.0).tolist() == [1, 3, 5]


def test_eager_tensors_by_keyword() -> None:
    x = tnf.EagerRuntime().variable(X)
    y = tnf.sum(tnf.jit(scaled)(x, lr=2.0))
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_disable_jit() -> None:
    seen: list[Any] = []
    f = tnf.jit(lambda x, k: seen.append(x) or x * k)
    with tnf.disable_jit():
        assert f(2.0, k=3.0) == 6
        with tnf.disable_jit(False):
            f(2.0, k=3.0)
    assert seen[0] == 2.0
    assert "Traced" in type(seen[1]).__name__


def test_eval_shape() -> None:
    types = tnf.eval_shape(
        lambda x, *, w: {"y": x @ w}, tnf.TensorSpec((2, 3), "float32"), w=np.ones((3, 4), "f4")
    )
    assert types == {"y": tnf.TensorSpec((2, 4), "float32")}
    jitted = tnf.jit(lambda x, power: {"y": x**power}, static_argnames="power")
    assert jitted.eval_shape(tnf.TensorSpec((2,), "float32"), power=2) == {
        "y": tnf.TensorSpec((2,), "float32")
    }


def test_errors_say_what_to_write() -> None:
    with pytest.raises(DTypeError, match=r"mode of scaled is 'add'.*static_argnames='mode'"):
        tnf.jit(scaled)(X, mode="add")
    with pytest.raises(DTypeError, match=r"how of .* is <function.*static_argnames='how'"):
        tnf.jit(lambda x, how: how(x))(X, lambda x: x)
    with pytest.raises(InvalidConfigError, match=r"how of .* is a list, which has no hash"):
        tnf.jit(lambda x, how: x, static_argnums=1)(X, [1])
    with pytest.raises(InvalidConfigError, match=r"n of .* is a tensor"):
        tnf.jit(lambda x, n: x, static_argnums=1)(X, X)
    with pytest.raises(InvalidConfigError, match=r"'modus'.*no such parameter"):
        tnf.jit(scaled, static_argnames="modus")
    with pytest.raises(InvalidConfigError, match="static_argnums has 7"):
        tnf.jit(scaled, static_argnums=7)
    with pytest.raises(InvalidConfigError, match="static_argnums must be integers"):
        tnf.jit(scaled, static_argnums="mode")
    with pytest.raises(ConcretizationError, match="static_argnames"):
        tnf.jit(lambda x, train: x if train else -x)(X, True)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        tnf.jit(lambda x, y: x)(X)
    with pytest.raises(DTypeError, match=r"write 3\.0"):
        tnf.grad(lambda x: x * x)(3)
    with pytest.raises(DTypeError, match=r"write x\.astype\(float\)"):
        tnf.grad(lambda x: tnf.sum(x))(np.arange(3))


def test_trees_of_static_and_other_arguments() -> None:
    f = tnf.jit(lambda p, n, q: optree.tree_map(lambda a, b: a * n + b, p, q), static_argnums=1)
    assert f({"a": 1.0}, 3, {"a": 2.0}) == {"a": 5.0}


def test_tracing_builds_no_executor_and_jit_one(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    initialise = tnf.GraphExecutor.__init__

    def noted(self: Any, *arguments: Any, **options: Any) -> None:
        built.append(self)
        initialise(self, *arguments, **options)

    monkeypatch.setattr(tnf.GraphExecutor, "__init__", noted)
    program = tnf.compile(lambda x: x + x, np.ones(3))
    tnf.eval_shape(lambda x: tnf.grad(tnf.sum)(x), np.ones(3))
    program.run(np.ones(3))
    assert not built
    double = tnf.jit(lambda x: x + x)
    double(np.ones(3))
    double(np.ones((2, 2)))
    double.lower(np.ones(3))
    assert len(built) == 1
    tnf.jit(lambda x: x + x, executor=built[0])(np.ones(3))
    assert len(built) == 1
