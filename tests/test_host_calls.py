"""Checks that run in programs, and callbacks to Python functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import lower_to_stablehlo
from tenferro.errors import (
    ADRuleUnsupportedError,
    CheckFailedError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
    UnsupportedError,
)


def root(x: Any) -> Any:
    tnf.check(x >= 0, "negative: {0}, least {least:.1f}", x, least=tnf.min(x))
    return tnf.sqrt(x)


GOOD, BAD = np.array([1.0, 4.0]), np.array([1.0, -4.0])


@pytest.mark.parametrize("fn", [root, tnf.jit(root), tnf.vmap(root)], ids=["eager", "jit", "vmap"])
def test_a_check_passes_or_raises(fn: Any) -> None:
    np.testing.assert_allclose(fn(GOOD), [1, 2])
    with pytest.raises(CheckFailedError, match=r"check: negative: .*least -4\.0"):
        fn(BAD)


def test_the_error_has_the_line_and_the_example() -> None:
    with pytest.raises(CheckFailedError, match=r"(?s)test_host_calls\.py:\d+ in root"):
        tnf.jit(root)(BAD)
    with pytest.raises(CheckFailedError, match=r"negative: -4\.0.*\(example 1 of the batch\)"):
        tnf.vmap(root)(BAD)
    assert issubclass(CheckFailedError, TenferroError)
    assert issubclass(CheckFailedError, ValueError)


def test_checks_in_loops_branches_and_derivatives() -> None:
    def falling(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            tnf.check(c > 0, "step {}: {}", i, c)
            return c - 1

        return tnf.fori_loop(0, 5, body, x)

    assert tnf.jit(falling)(5.5) == 0.5
    with pytest.raises(CheckFailedError, match=r"step 3: -0\.5"):
        tnf.jit(falling)(2.5)

    def branch(x: Any) -> Any:
        def one(x: Any) -> Any:
            tnf.check(x < 9, "large")
            return x

        return tnf.cond(x > 3, one, lambda x: x, x)

    assert tnf.jit(branch)(1.0) == 1
    with pytest.raises(CheckFailedError, match="large"):
        tnf.jit(branch)(10.0)
    np.testing.assert_allclose(tnf.grad(lambda x: tnf.sum(root(x)))(GOOD), [0.5, 0.25])
    with pytest.raises(CheckFailedError, match="negative"):
        tnf.grad(lambda x: tnf.sum(root(x)))(BAD)


def test_checks_through_pjrt() -> None:
    xla_peer = pytest.importorskip("xla_peer")
    executor = xla_peer.XlaExecutor()
    compiled = tnf.jit(root, executor=executor)
    for _ in range(2):
        np.testing.assert_allclose(compiled(GOOD), [1, 2])
        with pytest.raises(CheckFailedError, match=r"(?s)least -4\.0.*in root"):
            compiled(BAD)

    def looped(x: Any) -> Any:
        def body(_: Any, c: Any) -> Any:
            tnf.check(c > 0, "below")
            return c - 1

        return tnf.fori_loop(0, 5, body, x)

    with pytest.raises(UnsupportedError, match=r"(?s)in a loop or branch.*in body"):
        tnf.jit(looped, executor=executor)(9.0)

    def printed(x: Any) -> Any:
        tnf.check(x > 0, "below")
        tnf.debug_print("{}", x)
        return x

    with pytest.raises(UnsupportedError, match="debug_print"):
        tnf.jit(printed, executor=executor)(1.0)
    assert tnf.jit(printed, executor=xla_peer.XlaExecutor(effects="drop"))(1.0) == 1


def test_refused_checks() -> None:
    with pytest.raises(DTypeError, match="condition is f64"):
        tnf.check(1.0, "no")
    with pytest.raises(InvalidConfigError, match="check: the format"):
        tnf.check(True, "{}")
    with pytest.raises(InvalidConfigError, match="message must be a string"):
        tnf.check(True, 3)  # pyright: ignore[reportArgumentType]  # wrong on purpose


# ---- callbacks ---------------------------------------------------------------------------------------


def squares(x: Any, y: Any) -> Any:
    return {"sum": x * x + y, "shape": np.array(x.shape, np.int64)}


SPECS = {"sum": tnf.TensorSpec((2,), "f8"), "shape": tnf.TensorSpec((1,), "i8")}


def test_a_callback_is_called_with_arrays() -> None:
    def fn(x: Any) -> Any:
        result = tnf.pure_callback(squares, SPECS, x, y=2.0)
        return result["sum"] * 2, result["shape"]

    for call in (fn, tnf.jit(fn)):
        doubled, shape = call(GOOD)
        np.testing.assert_allclose(doubled, 2 * (GOOD**2 + 2))
        assert shape.tolist() == [2]


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_batches_of_callbacks(method: str) -> None:
    shapes: list[Any] = []

    def product(x: Any, y: Any) -> Any:
        shapes.append((x.shape, y.shape))
        return x * y

    def fn(x: Any, y: Any) -> Any:
        return tnf.pure_callback(product, tnf.TensorSpec((2,), "f8"), x, y, vmap_method=method)

    x, y = np.arange(6.0).reshape(3, 2), np.array([2.0, 3.0])
    np.testing.assert_allclose(tnf.vmap(fn, in_axes=(0, None))(x, y), x * y)
    assert (
        shapes
        == {
            "sequential": [((2,), (2,))] * 3,
            "expand_dims": [((3, 2), (1, 2))],
            "broadcast_all": [((3, 2), (3, 2))],
        }[method]
    )


def test_a_custom_rule_differentiates_a_callback() -> None:
    @tnf.custom_jvp
    def sine(x: Any) -> Any:
        return tnf.pure_callback(np.sin, x, x)

    sine.defjvp(lambda primals, dots: (sine(primals[0]), tnf.cos(primals[0]) * dots[0]))
    np.testing.assert_allclose(tnf.grad(lambda x: tnf.sum(sine(x)))(GOOD), np.cos(GOOD))


def test_callbacks_in_loops() -> None:
    def fn(x: Any) -> Any:
        step = lambda _, c: tnf.pure_callback(lambda c: c + 1, c, c)  # a function of the carry
        return tnf.fori_loop(0, 4, step, x)

    assert tnf.jit(fn)(1.0) == 5


def test_refused_callbacks() -> None:
    spec = tnf.TensorSpec((2,), "f8")
    with pytest.raises(ADRuleUnsupportedError, match="custom_jvp"):
        tnf.grad(lambda x: tnf.sum(tnf.pure_callback(np.sin, spec, x)))(GOOD)
    with pytest.raises(UnsupportedError, match="vmap_method"):
        tnf.vmap(lambda x: tnf.pure_callback(np.sin, tnf.TensorSpec((), "f8"), x))(GOOD)
    with pytest.raises(TenferroError, match=r"returns shape \(3,\)"):
        tnf.pure_callback(lambda x: np.ones(3), spec, GOOD)
    with pytest.raises(TenferroError, match="returns complex128"):
        tnf.pure_callback(lambda x: x + 1j, spec, GOOD)
    with pytest.raises(TenferroError, match="another structure"):
        tnf.pure_callback(lambda x: (x, x), spec, GOOD)
    with pytest.raises(InvalidConfigError, match="vmap_method must be None or one of"):
        tnf.pure_callback(np.sin, spec, GOOD, vmap_method="legacy")
    with pytest.raises(InvalidConfigError, match="no leaf"):
        tnf.pure_callback(np.sin, (), GOOD)
    program = tnf.compile(lambda x: tnf.pure_callback(np.sin, x, x), GOOD)
    for platform in ("cpu", "cuda"):
        with pytest.raises(UnsupportedError, match=r"tenferro\.pure_callback\.v1"):
            lower_to_stablehlo(program, platform)


def test_callbacks_on_the_peer(tmp_path: Path) -> None:
    """Callbacks through PJRT.

    They must run in order, their exceptions must reach the caller, and their executables must not be cached.
    """
    executor = xla_peer.XlaExecutor(cache_dir=tmp_path)

    def fn(x: Any) -> Any:
        step = lambda _, c: tnf.pure_callback(lambda c: c + 1, c, c)  # a function of the carry
        turned = tnf.pure_callback(lambda x: x.T, x, x)
        result = tnf.pure_callback(squares, SPECS, x[0], y=2.0)
        return tnf.fori_loop(0, 4, step, turned), result

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    looped, result = tnf.jit(fn, executor=executor)(x)
    assert looped.tolist() == (x.T + 4).tolist()
    assert result["sum"].tolist() == [3, 6]
    assert result["shape"].tolist() == [2]
    # The two lowered texts are equal, because the programs differ only in the Python function. They must not share an
    # executable.
    for added in (1, 2):
        plus = lambda x, added=added: tnf.pure_callback(lambda x: x + added, x, x)
        other = xla_peer.XlaExecutor(cache_dir=tmp_path)
        assert (tnf.jit(plus, executor=other)(x) == x + added).all()

    def refuses(x: Any) -> Any:
        raise LookupError("not here")

    for callback, error in ((refuses, LookupError), (lambda x: x[1:], ShapeError)):
        with pytest.raises(error, match=r"not here|returns shape"):
            tnf.jit(lambda x, f=callback: tnf.pure_callback(f, x, x), executor=executor)(x)
    few = np.array([1, 0], tnf.int4.dtype)
    with pytest.raises(UnsupportedError, match="4 bits"):
        tnf.jit(lambda x: tnf.pure_callback(lambda x: x, x, x), executor=executor)(few)
