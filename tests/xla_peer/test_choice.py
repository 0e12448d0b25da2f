"""`native(f, choose=True)` must choose native or `jax.jit` by their times, and state the reason."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import DisagreementWarning, InvalidConfigError
from xla_peer import choice, native
from xla_peer.choice import Choice
from xla_peer.flat_function import FlatFunction

X = np.linspace(0.1, 2.0, 7, dtype="float32")


@pytest.fixture(autouse=True)
def narrow_numbers() -> Iterator[None]:
    """Disable JAX's 64-bit dtypes, whatever other tests have set. This is JAX's default."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the comparison of times start with the first call, not only after long runs."""
    monkeypatch.setattr(choice, "FIRST_RESULT", 0.0)


def choice_of(fn: Any, run: Any, jitted: Any = None) -> Choice:
    """Return a choice between the native `run` and `jax.jit(fn)`.

    If `jitted` is passed, it takes the place of `jax.jit(fn)`.
    """
    function = FlatFunction(fn, [jax.ShapeDtypeStruct(X.shape, X.dtype)], "f")
    program = function.program
    function.fn = jitted or function.fn
    return Choice(function, program, run, 0.0, False)


def sines(x: Any) -> Any:
    return [jnp.sin(x)]


def sine(x: Any) -> Any:
    return jnp.sin(x)


def slow(program: Any, arrays: Any) -> Any:
    time.sleep(0.02)
    return tnf.GraphExecutor("K").run_leaves(program, arrays)


def wrong(program: Any, arrays: Any) -> Any:
    return [y + 1 for y in slow(program, arrays)]


def test_nothing_is_compared_before_native_runs_have_taken_the_estimate() -> None:
    function = native(jnp.sin, choose=True)
    for _ in range(2):
        function(X)
    side, reason = function.report().choices[0]
    assert side == "native"
    assert reason.startswith("not compared: native runs took ")


def test_by_default_nothing_is_compared(at_once: None) -> None:
    function = native(jnp.sin)
    function(X)
    assert function.report().choices == ()


@pytest.mark.parametrize("results", ["numpy", "jax"])
def test_each_program_has_its_own_choice(at_once: None, results: Any) -> None:
    function = native(lambda p: {"y": jnp.sin(p["x"]), "k": 3}, choose=True, results=results)
    for x in (X, X, X[:3], X[:3]):
        y = function({"x": x})
        np.testing.assert_allclose(y["y"], np.sin(x), rtol=1e-6)
        assert isinstance(y["y"], np.ndarray if results == "numpy" else jax.Array)
    choices = function.report().choices
    assert len(choices) == 2
    for side, reason in choices:
        assert side in ("native", "jax.jit")
        assert "results agree" in reason
        assert f"; {side} runs ({reason})" in str(function.report())


def test_the_faster_side_stays() -> None:
    chosen = choice_of(sines, slow)
    chosen([X])
    assert (chosen.side, chosen.is_decided) == ("jax.jit", True)
    assert chosen.reason.startswith("native ")
    (y,) = chosen([X])
    np.testing.assert_array_equal(y, np.asarray(jax.jit(jnp.sin)(X)))
    y[0] = 0  # results must be writeable arrays


def test_jit_that_is_slower_does_not_stay() -> None:
    def idle(x: Any) -> Any:
        time.sleep(0.02)
        return [np.sin(x)]

    chosen = choice_of(sines, lambda program, arrays: [np.sin(X)], idle)
    chosen([X])
    assert (chosen.side, chosen.is_decided) == ("native", True)


def test_wrong_results_are_named_and_not_used() -> None:
    chosen = choice_of(sines, wrong)
    with pytest.warns(DisagreementWarning, match=r"jax\.jit runs from now on"):
        chosen([X])
    assert chosen.side == "jax.jit"
    # As if XLA had miscompiled `sines`, let jax.jit return the result of another function.
    chosen = choice_of(sines, slow, jax.jit(lambda x: [jnp.cos(x)]))
    with pytest.warns(DisagreementWarning, match="native runs from now on"):
        chosen([X])
    assert chosen.side == "native"
    assert "wrong" in chosen.reason


def test_a_module_that_jit_refuses_runs_natively() -> None:
    def refused(x: Any) -> Any:
        raise RuntimeError("no such target\nand more")

    chosen = choice_of(sines, slow, refused)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen([X])
    assert chosen.side == "native"
    assert chosen.reason == "jax.jit failed: RuntimeError: no such target"


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (X, X * np.float32(1 + 1e-6), True),
        (X, X * np.float32(1 + 1e-3), False),
        (np.array([1, 2], "float64"), np.array([1, 2 + 1e-8], "float64"), False),
        (np.array([1, np.nan, np.inf], "float32"), np.array([1, np.nan, np.inf], "float32"), True),
        (np.array([1, np.nan], "float32"), np.array([1, np.inf], "float32"), False),
        (np.array([1, np.inf], "float32"), np.array([1, -np.inf], "float32"), False),
        (np.arange(3), np.arange(3), True),
        (np.arange(3), np.array([0, 1, 3]), False),
        (np.zeros(0), np.zeros(0), True),
        (np.array([1j, 2], "complex64"), np.array([1j, 2 + 1e-6j], "complex64"), True),
    ],
)
def test_close_results_need_no_verdict(x: Any, y: Any, expected: bool) -> None:
    assert choice.is_close(x, y) is expected


def test_choose_is_for_one_set_of_shapes_and_is_pickled() -> None:
    with pytest.raises(InvalidConfigError, match="choose compares a program for one set of shapes"):
        native(jnp.sin, choose=True, specs=[tnf.TensorSpec(("n",), "float32")])
    again = pickle.loads(pickle.dumps(native(sine, choose=True)))
    again(X)
    assert len(again.report().choices) == 1
