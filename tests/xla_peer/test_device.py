"""Properties that must hold on every platform.

`pytest --tenferro-platform cuda` tests them on a GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering.extensions import GPUS
from tenferro import errors
from tenferro.dispatch import apply
from tenferro.ops.contraction import DotGeneral
from tests.levels import platform_of
from xla_peer import XlaExecutor, pjrt

RNG = np.random.default_rng(7)
HOST_ALONE = "device arrays are the host's there"


@pytest.fixture(scope="module")
def xla(request: pytest.FixtureRequest) -> XlaExecutor:
    return XlaExecutor(platform_of(request))


def test_every_dtype_and_order_in_and_out(xla: XlaExecutor) -> None:
    for dtype in [dtype for dtype in tnf.DType if not dtype.is_narrow]:
        for order in ("C", "F"):
            x = np.asarray(np.arange(12).reshape(3, 4), dtype.dtype, order=order)
            placed = xla.put(x)
            assert placed.devices() == {xla.device}
            assert xla.get(placed).tobytes() == x.tobytes()
            program = tnf.compile(lambda x: tnf.flip(x), x)
            assert np.array_equal(xla.run(program, x), np.flip(x))


def test_results_stay_on_the_device_and_are_not_fetched_unasked(xla: XlaExecutor) -> None:
    program = tnf.compile(lambda x: x + x, tnf.TensorSpec((3,), "float32"))
    y = xla.compile(program)(xla.put(np.ones(3, "f4")))
    assert y.devices() == {xla.device}
    if xla.platform == "cpu":
        pytest.skip(HOST_ALONE)
    for call in (program.run, tnf.jit(lambda x: x * 2), tnf.sin, lambda y: xla.run(program, y)):
        with pytest.raises(errors.BackendFailureError, match="not copied to the host unasked"):
            call(y)
    with pytest.raises(errors.InvalidConfigError, match=r"expected an array on cpu:0"):
        XlaExecutor("cpu").compile(program)(y)
    there = XlaExecutor("cpu").put(y)
    np.testing.assert_array_equal(XlaExecutor("cpu").compile(program)(there), [4, 4, 4])


def test_donated_memory_is_taken(xla: XlaExecutor) -> None:
    x = np.ones(1 << 16)
    step = xla.compile(tnf.compile(lambda state, x: state + x, x, x), donate=["state"])
    assert step.memory_analysis()["alias"] == x.nbytes
    buffer = xla.put(x)
    state = xla.compile(tnf.compile(lambda x: x * 2, x))(buffer).block_until_ready()
    pointer = state.unsafe_buffer_pointer()
    after = step(state, buffer).block_until_ready()
    assert after.unsafe_buffer_pointer() == pointer
    np.testing.assert_array_equal(after, 3 * x)


def test_tensors_of_torch_by_dlpack(xla: XlaExecutor) -> None:
    torch = pytest.importorskip("torch")
    where = "cuda" if xla.platform in GPUS else "cpu"
    t = torch.arange(12.0, device=where).reshape(3, 4)
    program = tnf.compile(lambda x: x * 2, tnf.TensorSpec(("m", "n"), "float32"))
    for tensor in (t, t.T):
        x = xla.put(tensor)
        assert x.devices() == {xla.device}
        assert pjrt.is_row_major(x)
        y = xla.compile(program, tnf.TensorSpec(tuple(tensor.shape), "float32"))(x)
        back = torch.from_dlpack(y)
        assert back.device.type == where
        assert torch.equal(back, 2 * tensor)


def test_executables_are_kept_for_another_process(xla: XlaExecutor, tmp_path: Path) -> None:
    x = RNG.normal(size=(8, 8))
    program = tnf.compile(lambda x: tnf.tanh(x @ x), x)
    first, second = (XlaExecutor(xla.platform, cache_dir=tmp_path / "kept") for _ in range(2))
    np.testing.assert_array_equal(first.run(program, x), second.run(program, x))
    assert (first.compile_cache_stats().misses, second.compile_cache_stats().hits) == (1, 1)


@pytest.mark.parametrize("linalg", ["auto", "inline"])
def test_one_artifact_for_the_host_and_the_device(
    xla: XlaExecutor, tmp_path: Path, linalg: str
) -> None:
    w, b = RNG.normal(size=(5, 5)), RNG.normal(size=5)
    platforms = tuple(dict.fromkeys(("cpu", xla.platform)))
    path = tmp_path / "solve.mlirbc"
    xla_peer.export(
        lambda w, b: tnf.linalg.solve(w @ w.T + 5 * tnf.eye(5), tnf.tanh(b) / (1 + w[0] ** 2)),
        w, b, platforms=platforms, linalg=linalg, vectors=2, gradient=True, path=path,
    )  # fmt: skip
    for platform in platforms:
        assert xla_peer.verify(path, platform).ok
    np.testing.assert_allclose(
        xla_peer.load(path).run(w, b, executor=xla),
        np.linalg.solve(w @ w.T + 5 * np.eye(5), np.tanh(b) / (1 + w[0] ** 2)),
        rtol=1e-12,
    )


def test_what_the_device_has_no_memory_for_is_an_error(xla: XlaExecutor) -> None:
    if xla.platform == "cpu":
        pytest.skip("the host's is tried by test_out_of_memory, within limits")
    program = tnf.compile(lambda x: tnf.sin(tnf.broadcast_to(x, (1 << 38,))), np.float64(1))
    with pytest.raises(errors.BackendFailureError, match="RESOURCE_EXHAUSTED"):
        xla.run(program, np.float64(1))
    assert xla.run(tnf.compile(lambda x: x + 1, np.ones(2)), np.ones(2)).tolist() == [2, 2]


def test_random_numbers_are_the_same_everywhere(xla: XlaExecutor) -> None:
    key = tnf.random.key(3)

    def drawn(key: Any) -> Any:
        return (
            tnf.random.bits(key, (999,)),
            tnf.random.uniform(key, (999,), dtype="float32"),
            tnf.random.uniform(key, (999,), dtype="float64"),
            tnf.random.permutation(key, 99),
        )

    program = tnf.compile(drawn, key)
    for here, there in zip(program.run(key), xla.run(program, key), strict=True):
        np.testing.assert_array_equal(here, there)


def test_products_are_as_exact_as_their_precision_says(xla: XlaExecutor) -> None:
    """float32 products must have full precision.

    A GPU may use shorter floats only if the user asks for them.
    """
    a, b = (RNG.normal(size=(128, 128)).astype("f4") for _ in range(2))
    program = tnf.compile(lambda a, b: a @ b, a, b)
    exact = a.astype("f8") @ b.astype("f8")
    scale = np.abs(a.astype("f8")) @ np.abs(b.astype("f8"))
    assert (np.abs(xla.run(program, a, b) - exact) / scale).max() < 1e-6
    quick = XlaExecutor(xla.platform, precision="default").run(program, a, b)
    assert (np.abs(quick - exact) / scale).max() < 2e-3


@pytest.mark.parametrize("extents", [(2, 3, 2), (5, 7, 3), (4, 4, 4), (1, 3, 1), (30, 30, 30)])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8"])
def test_products_of_integers(xla: XlaExecutor, dtype: str, extents: tuple[int, int, int]) -> None:
    m, k, n = extents
    lhs, rhs = (RNG.integers(0, 100, shape).astype(dtype) for shape in ((m, k), (k, n)))
    program = tnf.compile(lambda lhs, rhs: lhs @ rhs, lhs, rhs)
    np.testing.assert_array_equal(xla.run(program, lhs, rhs), lhs @ rhs)
    if dtype.startswith("int"):
        op = DotGeneral((1,), (0,), accumulate_dtype=tnf.DType.I32)
        program = tnf.compile(lambda lhs, rhs: apply(op, lhs, rhs)[0], lhs, rhs)
        wide = lhs.astype("int32") @ rhs.astype("int32")
        np.testing.assert_array_equal(xla.run(program, lhs, rhs), wide)


def layer(x: Any, w1: Any, w2: Any) -> Any:
    hidden = tnf.nn.gelu(x @ w1) @ w2
    centred = hidden - tnf.mean(hidden, axis=-1, keepdims=True)
    scaled = centred / tnf.sqrt(tnf.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return tnf.sum(tnf.nn.softmax(scaled) * x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_values_and_gradients_agree_with_native_ones(xla: XlaExecutor, dtype: str) -> None:
    kind = tnf.DType.of(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype).dtype
    arrays = [RNG.normal(size=s).astype(kind) for s in ((8, 16), (16, 32), (32, 16))]
    report = xla_peer.check_parity(layer, *arrays, executor=xla, grad=True)
    assert report.ok, str(report)
    quotient = xla_peer.check_parity(lambda x, y: x / y, arrays[0], arrays[0][::-1], executor=xla)
    assert quotient.ok, str(quotient)


def test_loops_choices_transforms_and_eigenvalues(xla: XlaExecutor) -> None:
    x = RNG.normal(size=(6, 6))

    def loops(x: Any) -> Any:
        last, rows = tnf.scan(lambda c, row: (tnf.sin(c + row), c), tnf.zeros(6), x)
        iterations, _ = tnf.while_loop(
            lambda s: tnf.sum(s[1] * s[1]) > 1e-3, lambda s: (s[0] + 1, s[1] * 0.7), (0, last)
        )
        chosen = tnf.cond(tnf.sum(x) > 0, tnf.cos, tnf.sin, x)
        return rows, iterations, chosen, tnf.abs(tnf.fft.fft2(x)), tnf.sort(x, axis=0)

    program = tnf.compile(loops, x)
    for here, there in zip(program.run(x), xla.run(program, x), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-12, atol=1e-12)
    for z in (x, x + 1j * x.T):
        w, v = xla.run(tnf.compile(tnf.linalg.eig, z), z)
        np.testing.assert_allclose(z @ v, v * w, atol=1e-12)
        u, s, vh = xla.run(tnf.compile(lambda z: tnf.linalg.svd(z, full_matrices=False), z), z)
        np.testing.assert_allclose((u * s) @ vh, z, atol=1e-12)
