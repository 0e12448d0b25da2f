"""Executables on device arrays: arguments, results, shared memory, and errors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from xla_peer import XlaExecutor, pjrt

jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def xla() -> XlaExecutor:
    return XlaExecutor("cpu")


def doubled() -> tnf.GraphProgram:
    return tnf.compile(lambda p: {"y": p["x"] * 2 + p["b"]}, {"x": spec(2, 3), "b": spec(2, 3)})


def spec(*shape: Any, dtype: str = "float64") -> tnf.TensorSpec:
    return tnf.TensorSpec(shape, dtype)


def test_trees_of_device_arrays_in_and_out(xla: XlaExecutor) -> None:
    executable = xla.compile(doubled())
    x = np.arange(6.0).reshape(2, 3)
    given = {"x": xla.put(x), "b": xla.put(np.ones((2, 3)))}
    once = executable(given)["y"]
    assert isinstance(once, jax.Array)
    twice = executable({"x": once, "b": given["b"]})["y"].block_until_ready()
    np.testing.assert_array_equal(xla.get(twice), 4 * x + 3)
    np.testing.assert_array_equal(np.asarray(twice), 4 * x + 3)
    np.testing.assert_array_equal(np.from_dlpack(twice), 4 * x + 3)
    assert xla.get(twice).flags.writeable
    assert not np.asarray(twice).flags.writeable


def test_compiled_for_specs_of_a_symbolic_program(xla: XlaExecutor) -> None:
    program = tnf.compile(lambda x: x + x, spec("n"))
    with pytest.raises(errors.NonStaticShapeError, match="symbolic extents; give specs"):
        xla.compile(program)
    executable = xla.compile(program, spec(4))
    assert executable.input_specs == (spec(4),)
    assert xla.compile(program, np.ones(4)) is executable
    np.testing.assert_array_equal(executable(xla.put(np.ones(4))), 2 * np.ones(4))


def test_what_an_executable_tells(xla: XlaExecutor) -> None:
    program = tnf.compile(lambda a, b: tnf.tanh(a @ b), spec(8, 16), spec(16, 4))
    executable = xla.compile(program)
    assert executable.cost_analysis()["flops"] >= 2 * 8 * 16 * 4
    memory = executable.memory_analysis()
    assert memory["argument"] == 8 * (8 * 16 + 16 * 4)
    assert memory["output"] == 8 * 8 * 4
    assert "ENTRY" in executable.optimized_hlo()
    assert "stablehlo.tanh" in executable.text
    assert executable.input_names == ("a", "b")
    assert "f64[8,16]" in repr(executable)


def test_arguments_that_do_not_fit(xla: XlaExecutor) -> None:
    executable = xla.compile(tnf.compile(lambda x: x + x, spec(4)))
    good = xla.put(np.ones(4))
    deleted = xla.put(np.ones(4))
    deleted.delete()
    for argument, error, words in (
        (np.ones(4), errors.InvalidConfigError, "x: expected a device array.*use put"),
        (3.0, errors.InvalidConfigError, "use put"),
        (xla.put(np.ones(4, "i8")), errors.DTypeError, r"expected f64\[4\], got i64\[4\]"),
        (xla.put(np.ones(8, "f4")), errors.DTypeError, r"got f32\[8\]"),
        (xla.put(np.ones((2, 2))), errors.ShapeError, r"got f64\[2,2\]"),
        (deleted, errors.InvalidConfigError, "is gone"),
        ((good, good), errors.ArityError, "structure"),
    ):
        with pytest.raises(error, match=words):
            executable(argument)
    with pytest.raises(errors.ArityError):
        executable()
    np.testing.assert_array_equal(executable(good), 2 * np.ones(4))


@pytest.mark.parametrize("dtype", [d for d in tnf.DType if "float6" not in d.value], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_aligned_memory_of_every_dtype(dtype: Any, order: Any, xla: XlaExecutor) -> None:
    x = xla_peer.empty((3, 4), dtype, order)
    x[...] = np.arange(12).reshape(3, 4).astype(dtype.dtype)
    assert x.ctypes.data % 64 == 0
    assert x.flags.c_contiguous == (order == "C")
    for copy in (True, False):
        back = xla.get(xla.put(x, copy=copy))
        assert back.dtype == x.dtype
        assert back.tobytes() == x.tobytes()
    read_only = x.copy()
    read_only.flags.writeable = False
    assert xla.get(xla.put(read_only)).tobytes() == x.tobytes()


def test_what_writing_to_an_array_later_means(xla: XlaExecutor) -> None:
    shared = xla_peer.empty((1 << 16,))
    shared[...] = 1.0
    view, own = xla.put(shared, copy=False), xla.put(shared)
    plain = np.ones(1 << 20)
    copied = xla.put(plain)
    shared[...] = 2.0
    plain[...] = 2.0
    assert np.asarray(view)[0] == 2.0
    assert (np.asarray(own) == 1.0).all()
    assert (np.asarray(copied) == 1.0).all()
    assert view.unsafe_buffer_pointer() == shared.ctypes.data


@pytest.mark.parametrize("order", ["C", "F", "A"])
def test_orders_in_and_out(order: Any) -> None:
    xla = XlaExecutor("cpu", order=order)
    c = np.arange(24.0).reshape(2, 3, 4)
    f = np.asfortranarray(c)
    program = tnf.compile(lambda x, y: (x + 2 * y, tnf.sum(x, axis=0)), c, c)
    for x, y in ((c, c), (f, f), (c, f), (f, c)):
        whole, part = xla.run(program, x, y)
        np.testing.assert_array_equal(whole, 3 * c)
        np.testing.assert_array_equal(part, c.sum(axis=0))
        wanted = order if order != "A" else ("F" if x is f and y is f else "C")
        assert whole.flags[f"{wanted}_CONTIGUOUS"]
        assert part.flags[f"{wanted}_CONTIGUOUS"]


def test_column_major_programs_hold_no_transposes() -> None:
    from lowering import lower_to_stablehlo

    program = tnf.compile(lambda x, y: x * 2 + y, spec(64, 32), spec(64, 32))
    xla = XlaExecutor("cpu")
    module = lower_to_stablehlo(program, input_orders="FF", output_orders="F")
    assert module.text.count("stablehlo.transpose") == 3
    x = np.asfortranarray(np.ones((64, 32)))
    xla.run(program, x, x)
    (kept,) = xla._compiled.entries()
    assert "transpose" not in kept.optimized_hlo()
    with pytest.raises(errors.InvalidConfigError, match="input_orders"):
        lower_to_stablehlo(program, input_orders="F")


def test_donation(xla: XlaExecutor) -> None:
    program = tnf.compile(lambda state, x: state + x, spec(1 << 16), spec(1 << 16))
    executable = xla.compile(program, donate=["state"])
    assert executable.memory_analysis()["alias"] == 8 << 16
    x = xla.put(np.ones(1 << 16))
    state = xla.compile(program)(x, x)
    pointer = state.block_until_ready().unsafe_buffer_pointer()
    again = executable(state, x).block_until_ready()
    assert again.unsafe_buffer_pointer() == pointer
    np.testing.assert_array_equal(again, 3 * np.ones(1 << 16))
    with pytest.raises(errors.InvalidConfigError, match="state: this device array is gone"):
        executable(state, x)
    with pytest.raises(errors.InvalidConfigError, match="no input is named 'y'"):
        xla.compile(program, donate=["y"])


def test_options_are_checked() -> None:
    program = tnf.compile(lambda x: tnf.exp(x), spec(4))
    x = np.linspace(0, 1, 4)
    quick = XlaExecutor("cpu", optimization_level=0, options={"xla_cpu_enable_fast_math": False})
    np.testing.assert_allclose(quick.run(program, x), np.exp(x))
    with pytest.raises(errors.InvalidConfigError, match="no_such_option"):
        XlaExecutor("cpu", options={"no_such_option": True}).run(program, x)
    with pytest.raises(errors.InvalidConfigError, match="0 to 3"):
        XlaExecutor("cpu", optimization_level=7)
    with pytest.raises(errors.InvalidConfigError, match="order must be"):
        XlaExecutor("cpu", order="K")  # type: ignore[arg-type]


def test_an_unknown_call_is_blamed_on_the_users_line() -> None:
    import lowering
    from lowering.operations import Integer
    from tenferro.extension import ExtensionOp, apply, extension_family

    @extension_family("tenferro-tests", "unknown_call", version=1)
    class Unknown(ExtensionOp):
        def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
            return [(input_dtypes[0], input_shapes[0])]

    def rule(op: Any, w: Any, x: Any) -> Any:
        called = {"call_target_name": "nobody_has_this", "api_version": Integer(4, "i32")}
        return w.op("custom_call", x, result=x.spec, **called)

    lowering.register_extension_lowering(Unknown.family_id, rule, "cpu")
    program = tnf.compile(lambda x: apply(Unknown(), x), spec(4))
    with pytest.raises(errors.BackendFailureError, match=r"(?s)nobody_has_this.*test_executable"):
        XlaExecutor("cpu").run(program, np.ones(4))


def test_many_threads_compile_once() -> None:
    xla = XlaExecutor("cpu")
    program = tnf.compile(lambda x: tnf.tanh(x) @ x, spec("n", "n"))
    wrong: list[Any] = []
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        barrier.wait()
        for n in (3, 4, 5, 3):
            x = np.random.default_rng([seed, n]).normal(size=(n, n))
            if not np.allclose(xla.run(program, x), np.tanh(x) @ x):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert xla.cache_stats().misses == 3


def test_errors_while_running_are_ours(xla: XlaExecutor) -> None:
    """Errors that are raised after the types were checked must still name the argument."""
    executable = xla.compile(tnf.compile(lambda x, y: x + y, spec(4), spec(4)))
    x = xla.put(np.ones(4))
    for _ in range(3):
        executable(x, x)
    gone = xla.put(np.ones(4))
    gone.delete()
    with pytest.raises(errors.InvalidConfigError, match="y: this device array is gone"):
        executable(x, gone)


def test_programs_without_inputs_or_outputs(xla: XlaExecutor) -> None:
    constant = tnf.compile(lambda: tnf.ones(3))
    np.testing.assert_array_equal(xla.run(constant), np.ones(3))
    np.testing.assert_array_equal(xla.compile(constant)(), np.ones(3))
    nothing = tnf.compile(lambda x: (), spec(3))
    assert xla.run(nothing, np.ones(3)) == ()
    assert xla.compile(nothing)(xla.put(np.ones(3))) == ()


def test_wide_dtypes_whatever_jax_is_set_to(xla: XlaExecutor) -> None:
    program = tnf.compile(lambda x: x * (1 + 1e-12), spec(2))
    x = np.ones(2)
    for wide in (True, False):
        with jax.enable_x64(wide):
            for _ in range(2):
                np.testing.assert_array_equal(xla.run(program, x), x * (1 + 1e-12))
                assert xla.compile(program)(xla.put(x)).dtype == np.float64


# ---- DLPack ------------------------------------------------------------------------------------------


class Producer:
    """Object with only the DLPack methods. Its memory is then not recognized as that of a NumPy array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize(
    "dtype", [d for d in tnf.DType if not d.is_narrow and d is not tnf.DType.BF16], ids=str
)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("copy", [True, False])
def test_dlpack_in_and_out(dtype: Any, order: Any, copy: bool, xla: XlaExecutor) -> None:
    x = xla_peer.empty((2, 3), dtype, order)
    x[...] = np.arange(6).reshape(2, 3)
    placed = xla.put(Producer(x), copy=copy)
    assert placed.devices() == {xla.device}
    assert placed.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(placed), x)
    twice = xla.compile(tnf.compile(lambda x: tnf.flip(x), x))(placed)
    np.testing.assert_array_equal(np.from_dlpack(twice), np.flip(x))
    np.testing.assert_array_equal(np.asarray(xla.put(Producer(twice))), np.flip(x))


def test_dlpack_of_bfloat16_between_devices(xla: XlaExecutor) -> None:
    x = np.arange(6).astype(tnf.DType.BF16.dtype)
    placed = xla.put(x)
    again = xla.put(Producer(placed))
    assert again.dtype == x.dtype
    assert np.asarray(again).tobytes() == x.tobytes()
    assert xla.put(placed) is placed


def test_shared_memory_is_shared_and_copied_memory_is_not(xla: XlaExecutor) -> None:
    x = xla_peer.empty((4,), "float64")
    x[...] = 1.0
    shared, own = xla.put(Producer(x), copy=False), xla.put(Producer(x))
    x[...] = 2.0
    np.testing.assert_array_equal(np.asarray(shared), np.full(4, 2.0))
    np.testing.assert_array_equal(np.asarray(own), np.ones(4))


def test_dlpack_that_is_not_dense(xla: XlaExecutor) -> None:
    x = np.arange(6.0)[::2]
    with pytest.raises(errors.BackendFailureError, match="Producer"):
        xla.put(Producer(x), copy=False)


def test_a_column_major_device_array_is_refused(xla: XlaExecutor) -> None:
    x = xla_peer.empty((2, 3), "float64", "F")
    x[...] = np.arange(6.0).reshape(2, 3)
    with pjrt.wide_dtypes():
        foreign = jax.dlpack.from_dlpack(x)
    exe = xla.compile(tnf.compile(lambda x: x + 1, x))
    exe(xla.put(x))
    with pytest.raises(errors.InvalidConfigError, match="row-major"):
        exe(foreign)
    for array in (np.asarray(foreign), foreign, Producer(x)):
        placed = xla.put(array)
        assert pjrt.is_row_major(placed)
        np.testing.assert_array_equal(np.asarray(exe(placed)), x + 1)
    mesh = xla_peer.Mesh(np.array(jax.devices("cpu")[:1]), ("x",))
    assert pjrt.is_row_major(mesh.put(foreign, xla_peer.PartitionSpec("x")))
