"""Tracebacks must end at the user's line.

On the way to it, they must contain only the user's own functions.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro.errors import AxisError
from tenferro.tracebacks import INTERNAL

X, Y = np.ones(3), np.ones((2, 2))


def inner(a: Any, b: Any) -> Any:
    return a + b  # tracebacks must end here


def outer(a: Any, b: Any) -> Any:
    return inner(a, b)


def carried(c: Any, x: Any) -> Any:
    return inner(c, Y), x


def rule(primals: Any, tangents: Any) -> Any:
    return primals[0], inner(tangents[0], Y)


def custom(x: Any) -> Any:
    own = tnf.custom_jvp(lambda x: x)
    own.defjvp(rule)
    return tnf.sum(own(x))


eager = tnf.EagerRuntime().variable(X)
symbolic = tnf.compile(lambda x: x + x, tnf.TensorSpec(("n",), "f8"))

# Each entry has a call, and the names of the functions of this file between the call and the line that raises the
# error.
CASES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a call": (lambda: tnf.add(X, Y), []),
    "a call of linalg": (lambda: tnf.linalg.cholesky(X), []),
    "a call of fft": (lambda: tnf.fft.fft(X, axis=3), []),
    "a call of random": (lambda: tnf.random.normal(tnf.random.key(0), (-1,)), []),
    "an operator": (lambda: tnf.compile(inner, X, Y), ["inner"]),
    "a property": (lambda: tnf.compile(lambda x: x.mT, X), ["<lambda>"]),
    "a method": (lambda: tnf.compile(lambda x: x.reshape(7), X), ["<lambda>"]),
    "an index": (lambda: tnf.compile(lambda x: x[0, 0], X), ["<lambda>"]),
    "an update": (lambda: tnf.compile(lambda x: x.at[0].set(Y), X), ["<lambda>"]),
    "NumPy's function": (lambda: tnf.compile(lambda x: np.add(x, Y), X), ["<lambda>"]),
    "jit": (lambda: tnf.jit(outer)(X, Y), ["outer", "inner"]),
    "grad": (lambda: tnf.grad(outer)(X, Y), ["outer", "inner"]),
    "jit of grad": (lambda: tnf.jit(tnf.grad(outer))(X, Y), ["outer", "inner"]),
    "hessian": (lambda: tnf.hessian(outer)(X, Y), ["outer", "inner"]),
    "jvp": (lambda: tnf.jvp(outer, (X, Y), (X, Y)), ["outer", "inner"]),
    "a pullback": (lambda: tnf.vjp(lambda x: x, X)[1](Y), []),
    "vmap": (lambda: tnf.vmap(outer)(Y, np.ones((2, 3))), ["outer", "inner"]),
    "scan": (lambda: tnf.scan(carried, X, X), ["carried", "inner"]),
    "a rule": (lambda: tnf.grad(custom)(X), ["rule", "inner"]),
    "a kind of its own": (lambda: tnf.cond(True, outer, outer, X, Y), ["outer", "inner"]),
    "eager": (lambda: inner(eager, Y), ["inner"]),
    "a program": (lambda: symbolic.run(Y), []),
    "an executor": (lambda: tnf.GraphExecutor().run(symbolic, Y), []),
    "a list of extents": (lambda: tnf.zeros((2, -3)), []),
    "too many arguments": (lambda: tnf.exp(X, X, X, X, X), []),
    "an unknown option": (lambda: tnf.sum(X, ax=0), []),
    "lowering": (lambda: lowering.lower_to_stablehlo(symbolic, platform="toaster"), []),
}  # fmt: skip


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it was to fail")


@pytest.mark.parametrize("case", CASES)
def test_it_ends_at_the_users_line(case: str) -> None:
    call, between = CASES[case]
    error = raised(call)
    frames = traceback.extract_tb(error.__traceback__)
    assert [frame.filename for frame in frames] == [__file__] * len(frames)
    assert [frame.name for frame in frames] == ["raised", "<lambda>", *between]
    text = "".join(traceback.format_exception(error))
    assert "During handling" not in text
    assert len(text.splitlines()) <= 3 * len(frames) + 3, text


def test_in_a_process_of_its_own() -> None:
    script = "import tenferro as tnf, numpy as np\n\ntnf.add(np.ones(3), np.ones(2))\n"
    command = [sys.executable, "-c", script]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert len(shown.splitlines()) == 3, shown
    environment = {**os.environ, "TENFERRO_TRACEBACK": "full"}
    full = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "elementwise.py" in full.stderr


def test_in_a_notebook() -> None:
    """A notebook compiles a cell under a name that is no file. The traceback must still end in the cell."""
    cell = "def f(x):\n    return x @ x\n\ntnf.grad(f)(np.ones(3)[None])"
    code = compile(cell, "<ipython-input-1-0123456789ab>", "exec")
    error = raised(lambda: exec(code, {"tnf": tnf, "np": np}))
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    assert places[2:] == [
        ("<ipython-input-1-0123456789ab>", 4),
        ("<ipython-input-1-0123456789ab>", 2),
    ]
    assert "<ipython-input-1-0123456789ab>:2 in f" in str(error)


def test_all_can_be_seen() -> None:
    tnf.errors.show_internal_frames()
    try:
        files = [
            frame.filename
            for frame in traceback.extract_tb(raised(CASES["a call"][0]).__traceback__)
        ]
    finally:
        tnf.errors.show_internal_frames(False)
    assert files[-1].startswith(INTERNAL)


def test_an_unforeseen_error_says_how_to_see_all() -> None:
    class Odd:
        @property
        def shape(self) -> Any:
            raise KeyError("odd")

        dtype = np.dtype("f8")

    error = raised(lambda: tnf.compile(lambda x: x, Odd()))
    assert isinstance(error, KeyError)
    # `shape` is a method of the user's object.
    assert traceback.extract_tb(error.__traceback__)[-1].name == "shape"
    assert not hasattr(error, "__notes__")
    unforeseen = raised(lambda: tnf.GraphExecutor().run(None, X))
    assert "TENFERRO_TRACEBACK=full" in "".join(traceback.format_exception(unforeseen))


def test_causes_are_short() -> None:
    """The cause of an error must be the kernel's exception, without the frames inside the kernel."""
    error = raised(lambda: tnf.zeros((1 << 60,)))
    for link in (error, error.__cause__, error.__context__):
        frames = traceback.extract_tb(link.__traceback__) if link is not None else []
        assert not [frame for frame in frames if frame.filename.startswith(INTERNAL)]


def test_public_functions_stay_themselves() -> None:
    for function in (
        tnf.add,
        tnf.grad,
        tnf.linalg.qr,
        tnf.extension.apply,
        lowering.import_stablehlo,
    ):
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__doc__
        assert function.__wrapped__


def test_messages_about_axes_name_the_function_that_was_called() -> None:
    x = np.ones((2, 3))
    calls: dict[str, Callable[[], Any]] = {
        "mean": lambda: tnf.mean(x, axis=7),
        "nanstd": lambda: tnf.nanstd(x, axis=7),
        "concatenate": lambda: tnf.concatenate([x, x], axis=7),
        "linspace": lambda: tnf.linspace(x, x, 3, axis=7),
        "vector_norm": lambda: tnf.linalg.vector_norm(x, axis=7),
        "nn.layer_norm": lambda: tnf.nn.layer_norm(x, axis=7),
        "rfft2": lambda: tnf.fft.rfft2(x, axes=(0, 7)),
    }
    for name, call in calls.items():
        with pytest.raises(AxisError, match=rf"^{re.escape(name)}: axis 7 is outside"):
            call()


def test_messages_about_axes_name_what_the_users_function_called() -> None:
    with pytest.raises(AxisError, match=r"^sum: axis 7"):
        tnf.compile(lambda x: tnf.sum(x, axis=7), X)
