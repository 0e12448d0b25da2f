"""`debug_print` must print each line once and in order, after every transform.

Where it cannot print, it must raise an error or print nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors

X = np.array([1.0, 2.0])
PRINTED = ["sum 3.0", "square 5.00", "twice", "twice"]


def noisy(x: Any) -> Any:
    total = tnf.sum(x)
    tnf.debug_print("sum {}", total)
    square = tnf.sum(x * x)
    tnf.debug_print("square {s:.2f}", s=square)
    tnf.debug_print("twice")
    tnf.debug_print("twice")
    return square


def step(carry: Any, x: Any) -> Any:
    tnf.debug_print("c={} x={x}", carry, x=x)
    return carry + x, carry


def running(x: Any) -> Any:
    return tnf.scan(step, 0.0, x)[0]


TURNS = ["c=0.0 x=1.0", "c=1.0 x=2.0"]


def pushed(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: tnf.jvp(f, (x,), (x,))


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "at-once": lambda f: f,
    "jit": tnf.jit,
    "grad": tnf.grad,
    "jit-of-grad": lambda f: tnf.jit(tnf.grad(f)),
    "grad-of-jit": lambda f: tnf.grad(tnf.jit(f)),
    "value-and-grad": tnf.value_and_grad,
    "jvp": pushed,
    "linearize": lambda f: lambda x: tnf.linearize(f, x),
    "hessian": tnf.hessian,
    "unused": lambda f: tnf.jit(lambda x: (f(x), x)[1]),
    "unused-jit": lambda f: tnf.jit(lambda x: (tnf.jit(f)(x), x)[1]),
    "disabled": lambda f: lambda x: _without_jit(f, x),
}


def _without_jit(f: Callable[..., Any], x: Any) -> Any:
    with tnf.disable_jit():
        return tnf.jit(f)(x)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize(("f", "printed"), [(noisy, PRINTED), (running, TURNS)])
def test_each_line_is_printed_once_and_in_order(
    name: str, f: Any, printed: list[str], capsys: Any
) -> None:
    transformed = TRANSFORMS[name](f)
    for _ in range(3):  # later runs execute another form of the program
        transformed(X)
        assert capsys.readouterr().out.splitlines() == printed


def test_pulling_back_prints_nothing(capsys: Any) -> None:
    _, pull = tnf.vjp(noisy, X)
    assert capsys.readouterr().out.splitlines() == PRINTED
    pull(1.0)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(tnf.grad(noisy)(X), 2 * X)


def test_recomputation_prints_nothing(capsys: Any) -> None:
    tnf.grad(tnf.checkpoint(noisy))(X)
    assert capsys.readouterr().out.splitlines() == PRINTED


def test_a_line_for_each_example(capsys: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        tnf.debug_print("{} {}", x, y)
        tnf.debug_print("shared {}", 2 * y)
        return x + y

    tnf.jit(tnf.vmap(f, in_axes=(0, None)))(X, 5.0)
    assert capsys.readouterr().out.splitlines() == ["1.0 5.0", "2.0 5.0", "shared 10.0"]
    result = tnf.vmap(tnf.vmap(f, in_axes=(0, None)), in_axes=(None, 0))(X, 10 * X)
    np.testing.assert_array_equal(result, X + 10 * X[:, None])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["1.0 10.0", "2.0 10.0", "1.0 20.0", "2.0 20.0"]
    assert lines[4:] == ["shared 20.0", "shared 40.0"]
    tnf.vmap(running)(np.array([X, 3 * X]))
    assert capsys.readouterr().out.splitlines() == [
        *("c=0.0 x=1.0", "c=0.0 x=3.0", "c=1.0 x=2.0", "c=3.0 x=6.0")
    ]


def test_loops_and_branches(capsys: Any) -> None:
    def doubled(x: Any) -> Any:
        def goes_on(c: Any) -> Any:
            tnf.debug_print("is {} < 3", c)
            return c < 3

        tnf.debug_print("before")
        result = tnf.while_loop(goes_on, lambda c: c * 2, x)
        tnf.debug_print("after")
        return result

    assert tnf.jit(doubled)(1.0) == 4
    printed = ["before", "is 1.0 < 3", "is 2.0 < 3", "is 4.0 < 3", "after"]
    assert capsys.readouterr().out.splitlines() == printed

    def branch(text: str) -> Callable[[Any], Any]:
        def taken(x: Any) -> Any:
            tnf.debug_print("{} {}", text, x)
            return x

        return taken

    chosen = tnf.jit(lambda x: tnf.cond(x > 0, branch("up"), branch("down"), x))
    chosen(2.0)
    chosen(-2.0)
    assert capsys.readouterr().out.splitlines() == ["up 2.0", "down -2.0"]


def test_equal_calls_are_not_one(capsys: Any) -> None:
    program = tnf.compile(noisy, X)
    assert tnf.jit(lambda x: program.run(x) + program.run(x))(X) == 10
    assert capsys.readouterr().out.splitlines() == PRINTED * 2


def test_eager_variables(capsys: Any) -> None:
    variable = tnf.EagerRuntime().variable(X)
    y = tnf.jit(noisy)(variable)
    assert capsys.readouterr().out.splitlines() == PRINTED
    y.backward()
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(np.asarray(variable.grad), 2 * X)


def test_formats(capsys: Any) -> None:
    def f(x: Any) -> Any:
        tnf.debug_print("{{}} {1!r} {0.shape} {0[1]:.1f} {t} {n} {0}", x, "{}", t=None, n=7)
        return x

    tnf.jit(f)(X)
    f(X)
    assert capsys.readouterr().out.splitlines() == ["{} '{}' (2,) 2.0 None 7 [1. 2.]"] * 2


def test_saved_and_pickled_programs(tmp_path: Any, capsys: Any) -> None:
    program = tnf.compile(running, X)
    tnf.save(program, tmp_path / "p.tnf")
    for copy in (tnf.load(tmp_path / "p.tnf"), pickle.loads(pickle.dumps(program))):
        assert copy.run(X) == 3
        assert capsys.readouterr().out.splitlines() == TURNS


def test_the_peer_refuses_or_drops(tmp_path: Any, capsys: Any) -> None:
    program = tnf.compile(tnf.value_and_grad(lambda x: noisy(x) + running(x)), X)
    assert program.has_effects
    with pytest.raises(errors.UnsupportedError, match=r"in noisy(.|\n)*without_effects"):
        lowering.lower_to_stablehlo(program)
    with pytest.raises(errors.UnsupportedError, match="without_effects"):
        xla_peer.XlaExecutor().run(program, X)
    silent = program.without_effects()
    assert not silent.has_effects
    y, slope = xla_peer.XlaExecutor(effects="drop").run(program, X)
    assert y == 8
    np.testing.assert_array_equal(slope, 2 * X + 1)
    xla_peer.export(silent, path=tmp_path / "silent.mlir")
    assert silent.run(X)[0] == 8
    assert capsys.readouterr().out == ""
    with pytest.raises(errors.InvalidConfigError, match=r'"refuse" or "drop", got .no.'):
        xla_peer.XlaExecutor(effects="no")  # pyright: ignore[reportArgumentType]  # because "no" is no mode


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tnf.debug_print("{} {}", 1.0), "asks for 1, which was not passed"),
        (lambda: tnf.debug_print("{}", 1.0, y=2.0), "does not use argument 'y'"),
        (lambda: tnf.debug_print("{x"), "expected '}'"),
        (lambda: tnf.debug_print("{:{}}", 1.0, 2), "a format within a format"),
        (lambda: tnf.debug_print(1.0), "the format 1.0: "),  # pyright: ignore[reportArgumentType]  # because that is refused
        (lambda: tnf.jit(lambda x: tnf.debug_print("{}", x))(1.0), "the function returns no tensor"),
    ],
)  # fmt: skip
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(errors.InvalidConfigError) as caught:
        call()
    assert text in str(caught.value)
