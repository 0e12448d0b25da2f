"""`XlaExecutor`: arguments and results of every dtype and layout, and an error for each misuse."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import XlaExecutor, pjrt


@pytest.fixture(scope="module")
def xla() -> XlaExecutor:
    return XlaExecutor("cpu")


@pytest.mark.parametrize("dtype", [d for d in tnf.DType if "float6" not in d.value], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0, 3), (4, 1, 3)], ids=str)
def test_what_goes_in_comes_out(dtype: Any, order: str, shape: Any, xla: XlaExecutor) -> None:
    size = int(np.prod(shape))
    x = np.asarray(np.arange(size).reshape(shape).astype(dtype.dtype), order=order)
    program = tnf.compile(lambda x: (x, tnf.flip(x)), x)
    for _ in range(3):  # because later calls take a faster path
        same, flipped = xla.run(program, x)
        assert same.dtype == flipped.dtype == x.dtype
        assert same.tobytes() == x.tobytes()
        assert flipped.tobytes() == np.flip(x).tobytes()
    only = tnf.compile(lambda x: tnf.flip(x), x)
    for _ in range(3):
        assert xla.run(only, x).tobytes() == np.flip(x).tobytes()


def test_views_and_read_only_arrays(xla: XlaExecutor) -> None:
    x = np.arange(24.0).reshape(4, 6)
    program = tnf.compile(lambda x: x * 2, tnf.TensorSpec((2, 3), "f8"))
    view = x[::2, ::-2]
    view.flags.writeable = False
    np.testing.assert_array_equal(xla.run(program, view), view * 2)


def test_results_are_the_callers_own(xla: XlaExecutor) -> None:
    x = np.ones((2, 2))
    program = tnf.compile(lambda x: (x, x, x + x), x)
    results = xla.run(program, x)
    results[0][...] = 7
    assert (results[1] == 1).all()
    assert (x == 1).all()


def test_compiled_once_per_program_and_shapes() -> None:
    xla = XlaExecutor("cpu", cache_size=2)
    program = tnf.compile(lambda x: x + x, tnf.TensorSpec(("n",), "f8"))
    for n in (2, 3, 2, 3, 4):
        np.testing.assert_array_equal(xla.run(program, np.ones(n)), 2 * np.ones(n))
    stats = xla.cache_stats()
    assert (stats.misses, stats.evictions, stats.entries) == (3, 1, 2)
    xla.cache_clear()
    assert xla.cache_stats().entries == 0


@pytest.mark.parametrize(
    ("arrays", "error", "words"),
    [
        ((np.ones(3, "f4"),), errors.DTypeError, "astype"),
        # The size of float32[6] in bytes is that of float64[3].
        ((np.ones(6, "f4"),), errors.DTypeError, "float32"),
        ((np.ones((3, 1)),), errors.ShapeError, "expected f64"),
        ((np.ones(4),), errors.ShapeError, "axis 0 must have extent 3, got 4"),
        ((), errors.ArityError, "takes 1 arrays"),
        ((np.ones(3), np.ones(3)), errors.ArityError, "takes 1 arrays"),
    ],
)
def test_arguments_that_do_not_fit(
    arrays: tuple[Any, ...], error: type, words: str, xla: XlaExecutor
) -> None:
    program = tnf.compile(lambda x: x + x, tnf.TensorSpec((3,), "f8"))
    with pytest.raises(error, match=words):
        xla.run(program, *arrays)


def test_absent_platforms_and_devices_are_named() -> None:
    with pytest.raises(errors.PlatformUnavailableError, match=r"(?s)tpu.*cpu.*install"):
        XlaExecutor("tpu")
    with pytest.raises(errors.PlatformUnavailableError, match=r"nowhere.*cpu"):
        XlaExecutor("nowhere")
    with pytest.raises(errors.InvalidConfigError, match="device 7"):
        XlaExecutor("cpu", 7)


def test_jit_runs_on_the_peer(xla: XlaExecutor) -> None:
    double = tnf.jit(lambda p: {"y": p["x"] * 2}, executor=xla)
    np.testing.assert_array_equal(double({"x": np.arange(3)})["y"], [0, 2, 4])


def test_what_was_checked_once_is_not_mistaken_for_another_structure(xla: XlaExecutor) -> None:
    x = np.arange(3.0)
    tree = tnf.compile(lambda p: p["a"] * 2, {"a": x})
    for _ in range(2):
        np.testing.assert_array_equal(xla.run(tree, {"a": x}), x * 2)
    with pytest.raises(errors.ArityError):
        xla.run(tree, x)
    flat = tnf.compile(lambda x: x * 2, x)
    for _ in range(2):
        np.testing.assert_array_equal(xla.run(flat, x), x * 2)
    with pytest.raises(errors.ArityError):
        xla.run(flat, {"a": x})
    with pytest.raises(errors.DTypeError):
        xla.run(flat, x.astype("f4"))
    np.testing.assert_array_equal(xla.run(flat, x[::-1]), x[::-1] * 2)


def test_shapes_that_take_turns(xla: XlaExecutor) -> None:
    program = tnf.compile(lambda x: tnf.sum(x), tnf.TensorSpec(("n",), "f4"))
    for n in (3, 5, 3, 5, 3):
        assert xla.run(program, np.ones(n, "f4")) == n


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            '%fft.3 = c128[4] fft(..), metadata={source_file="/home/u/a.py" source_line=7}',
            "/home/u/a.py:7",
        ),
        ('error: loc("model.py":12:0): something is wrong', "model.py:12"),
        ("No registered implementation for custom call to nobody_has_this for Host", "user.py:3"),
        ("UNIMPLEMENTED: in %dynamic-slice.7 = f64[2] dynamic-slice(..)", "user.py:5"),
        ("INTERNAL: no words about any place", ""),
    ],
)
def test_xlas_words_are_traced_to_the_users_line(message: str, line: str) -> None:
    from xla_peer.executor import _blamed_line

    text = """module @main {
    %0 = stablehlo.custom_call @nobody_has_this(%arg0) : (tensor<2xf64>) -> tensor<2xf64> loc(#loc0)
    %1 = stablehlo.dynamic_slice %0, %2, sizes = [2] : (tensor<4xf64>, tensor<i64>) -> tensor<2xf64> loc(#loc1)
}
#loc0 = loc("user.py":3:0)
#loc1 = loc("user.py":5:0)
"""
    assert _blamed_line(text, message) == line


def test_gpu_is_the_one_that_jax_finds() -> None:
    client = SimpleNamespace(platform_version="cuda 13000")
    assert pjrt.named_platform("gpu", client) == "cuda"
    assert pjrt.named_platform("cpu", client) == "cpu"


def test_the_gradient_of_a_written_out_loop_of_7000_ops(xla: XlaExecutor) -> None:
    """With `roll=True`, XLA must compile an unrolled loop quickly, not in minutes.

    The reference is reverse mode that is written with NumPy.
    """

    def iterated(x: Any, w: Any) -> Any:
        for _ in range(1000):
            y = tnf.sin(x * w) + x
            x = tnf.cos(y * 0.5) - 0.25 * x
        return tnf.sum(x)

    x, w = np.linspace(0.1, 1, 8), np.linspace(1, 1.5, 8)
    assert len(tnf.compile(iterated, x, w).instructions) > 7000
    program = tnf.compile(tnf.value_and_grad(iterated, argnums=1), x, w, roll=True)
    value, derivative = xla.run(program, x, w)
    path = [x]
    for _ in range(1000):
        y = np.sin(path[-1] * w) + path[-1]
        path.append(np.cos(y * 0.5) - 0.25 * path[-1])
    np.testing.assert_allclose(value, path[-1].sum(), rtol=1e-12)
    x_bar, w_bar = np.ones(8), np.zeros(8)
    for x in path[-2::-1]:
        y_bar = -0.5 * np.sin((np.sin(x * w) + x) * 0.5) * x_bar
        w_bar = w_bar + np.cos(x * w) * x * y_bar
        x_bar = np.cos(x * w) * w * y_bar + y_bar - 0.25 * x_bar
    np.testing.assert_allclose(derivative, w_bar, rtol=1e-9)


def test_a_program_of_too_many_ops_is_refused_before_xla_is_asked(
    xla: XlaExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def iterated(x: Any) -> Any:
        for _ in range(60):
            x = tnf.sin(x) * x
        return x

    monkeypatch.setattr("xla_peer.lowered.MAX_OPS", 100)
    written_out = tnf.compile(iterated, 0.5)
    with pytest.raises(errors.UnsupportedError, match=r"120 ops .* at most 100; .*roll=True"):
        xla.run(written_out, 0.5)
    rolled = tnf.compile(iterated, 0.5, roll=True)
    np.testing.assert_allclose(xla.run(rolled, 0.5), written_out.run(0.5), rtol=1e-13)
