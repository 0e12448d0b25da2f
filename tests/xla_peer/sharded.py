"""Checks on eight virtual CPU devices.

They run in a separate process, because a process cannot change its number of devices.

Each check prints its name. The last line of the output says that all checks have passed.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable

import jax
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from xla_peer import Mesh, PartitionSpec, XlaExecutor, partition

P = PartitionSpec
RNG = np.random.default_rng(0)


def refused(error: type[Exception], words: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=re.escape(words)):
        call()


def a_sharded_product_reduces_once() -> None:
    mesh = Mesh({"x": 4, "y": 2})
    a, b = RNG.standard_normal((64, 32)), RNG.standard_normal((32, 16))
    program = tnf.compile(lambda a, b: tnf.tanh(a @ b), a, b)
    cut = partition(program, mesh, (P("x", "y"), P("y")), P("x"))
    xla = XlaExecutor("cpu")
    expected = np.tanh(a @ b)
    np.testing.assert_allclose(xla.run(cut, a, b), expected, rtol=1e-12)
    exe = xla.compile(cut)
    assert "all-reduce" in exe.optimized_hlo()
    assert "sdy.mesh" in exe.text
    y = exe(*cut.put(a, b))
    assert {shard.data.shape for shard in y.addressable_shards} == {(16, 16)}
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-12)
    again = exe(*cut.put(a, b))
    np.testing.assert_array_equal(np.asarray(again), np.asarray(y))
    exe.module.verify()
    with contextlib.suppress(errors.UnsupportedError):  # because older jaxlibs raise it
        assert exe.module.portable_artifact()


def every_spec_gives_what_one_device_gives() -> None:
    mesh = Mesh({"x": 2, "y": 2, "z": 2})
    x = RNG.standard_normal((8, 4, 2))

    def fn(x):
        s = tnf.softmax(x, axis=0)
        return {"s": s, "i": tnf.argmax(x, axis=1), "c": tnf.cumulative_sum(x, axis=0),
                "g": tnf.grad(lambda x: tnf.sum(tnf.sort(x, axis=0) ** 3))(x),
                "r": tnf.roll(x, 3, axis=0)}  # fmt: skip

    program = tnf.compile(fn, x)
    xla = XlaExecutor("cpu")
    expected = xla.run(program, x)
    for spec in [
        P(),
        P("x"),
        P(None, "x"),
        P(("x", "y", "z")),
        P("z", "y", "x"),
        P(("y", "x"), None, "z"),
    ]:
        for out in (None, {"s": spec, "i": P(), "c": P("x"), "g": P(None, "y"), "r": P("z")}):
            found = xla.run(partition(program, mesh, spec, out), x)
            for name, y in expected.items():
                np.testing.assert_allclose(found[name], y, rtol=1e-12, atol=1e-13)


def a_training_step_is_data_parallel() -> None:
    mesh = Mesh({"batch": 8})
    params = {"w": RNG.standard_normal((5, 3)), "b": np.zeros(3)}
    x, y = RNG.standard_normal((32, 5)), RNG.standard_normal((32, 3))

    def step(p, x, y):
        loss, g = tnf.value_and_grad(lambda p: tnf.mean((tnf.tanh(x @ p["w"] + p["b"]) - y) ** 2))(
            p
        )
        return loss, {name: p[name] - 0.1 * g[name] for name in p}

    program = tnf.compile(step, params, x, y)
    cut = partition(program, mesh, (P(), P("batch"), P("batch")))
    xla = XlaExecutor("cpu")
    one, many = xla.run(program, params, x, y), xla.run(cut, params, x, y)
    np.testing.assert_allclose(one[0], many[0], rtol=1e-12)
    np.testing.assert_allclose(one[1]["w"], many[1]["w"], rtol=1e-11)
    assert "all-reduce" in xla.compile(cut).optimized_hlo()


def values_inside_a_program_are_sharded() -> None:
    """A carry with a sharding constraint must stay sharded inside a loop.

    Without the constraint, the partitioner replicates the carry.
    """
    mesh = Mesh({"x": 4, "y": 2})
    w, x = RNG.standard_normal((6, 6)), RNG.standard_normal((16, 6))

    def loss(w, x, spec=None):
        def step(h, _):
            return tnf.lax.with_sharding_constraint(tnf.tanh(h @ w), spec), None

        h = tnf.scan(step, x, None, length=3)[0]
        return tnf.sum(tnf.lax.with_sharding_constraint(h, spec) ** 2)

    xla = XlaExecutor("cpu")
    h = x
    for _ in range(3):
        h = np.tanh(h @ w)
    for spec, shape in (
        (None, "f64[16,6]"),
        (P(("x", "y")), "f64[2,6]"),
        (P("x", "y"), "f64[4,3]"),
    ):
        program = tnf.compile(lambda w, x, spec=spec: loss(w, x, spec), w, x)
        cut = partition(program, mesh)
        np.testing.assert_allclose(xla.run(cut, w, x), (h**2).sum(), rtol=1e-12)
        assert f"= {shape}{{1,0}} tanh(" in xla.compile(cut).optimized_hlo()
        np.testing.assert_allclose(xla.run(program, w, x), (h**2).sum(), rtol=1e-12)

    rows = P(("x", "y"), P.UNCONSTRAINED)
    gradient = tnf.compile(tnf.grad(lambda w, x: loss(w, x, rows)), w, x)
    batch = tnf.compile(
        tnf.vmap(tnf.grad(lambda w, x: loss(w, x, rows)), (None, 0)), w, np.stack([x, -x])
    )
    cut = partition(gradient, mesh, (None, P("x")))
    expected = gradient.run(w, x)
    np.testing.assert_allclose(xla.run(cut, w, x), expected, rtol=1e-10)
    np.testing.assert_allclose(
        xla.run(partition(batch, mesh), w, np.stack([x, -x])), [expected, expected], rtol=1e-10
    )
    with tempfile.TemporaryDirectory() as folder:
        cut.save(f"{folder}/cut.tnf")
        xla_peer.export(cut, path=f"{folder}/cut.mlir")
        again = [
            xla_peer.load_partitioned(f"{folder}/cut.tnf", mesh),
            xla_peer.load(f"{folder}/cut.mlir").partitioned(mesh),
        ]
        for each in again:
            text = xla.compile(each).text
            assert text.count("sdy.sharding_constraint") == xla.compile(cut).text.count(
                "sdy.sharding_constraint"
            )
            np.testing.assert_allclose(xla.run(each, w, x), expected, rtol=1e-10)
    refused(
        errors.InvalidConfigError,
        "no 'y'",
        lambda: xla.run(partition(program, Mesh({"x": 8})), w, x),
    )
    refused(
        errors.InvalidConfigError, "unconstrained", lambda: partition(gradient, mesh, (None, rows))
    )


def a_partition_is_saved_exported_and_read_back() -> None:
    mesh = Mesh({"x": 4, "y": 2})
    a, b = RNG.standard_normal((8, 6)), RNG.standard_normal((6, 4))
    table = RNG.standard_normal((4, 5000))  # large enough to be written to a separate file
    program = tnf.compile(lambda p: {"y": tnf.sin(p["a"] @ p["b"]) @ table}, {"a": a, "b": b})
    cut = partition(program, mesh, ({"a": P("x"), "b": P(None, "y")},), {"y": P("x", "y")})
    single = program.run({"a": a, "b": b})
    xla = XlaExecutor("cpu")
    with tempfile.TemporaryDirectory() as folder:
        cut.save(f"{folder}/cut.tnf")
        again = xla_peer.load_partitioned(f"{folder}/cut.tnf")
        assert (again.mesh, again.in_specs, again.out_specs) == (mesh, cut.in_specs, cut.out_specs)
        assert again.program.fingerprint == program.fingerprint
        assert tnf.load(f"{folder}/cut.tnf").fingerprint == program.fingerprint
        suffixes = [".mlir"]
        with contextlib.suppress(errors.UnsupportedError):  # because older jaxlibs raise it
            xla_peer.export(cut).save(f"{folder}/cut.mlirbc")
            suffixes.append(".mlirbc")
        xla_peer.export(cut, path=f"{folder}/cut.mlir")
        for suffix in suffixes:
            artifact = xla_peer.load(f"{folder}/cut{suffix}")
            assert artifact.manifest.partitioning == cut.partitioning
            np.testing.assert_allclose(artifact.run({"a": a, "b": b})["y"], single["y"], rtol=1e-12)
            read = artifact.partitioned(mesh)
            report = xla_peer.check_parity(
                read.program,
                {"a": a, "b": b},
                against=lambda *leaves, read=read: xla.run(read, *leaves),
                interpreter=False,
            )
            assert report.ok
            assert (read.in_specs, read.out_specs) == (cut.in_specs, cut.out_specs)
            refused(errors.InvalidConfigError, "several devices", artifact.compile)
            refused(
                errors.InvalidConfigError,
                "and the mesh is",
                lambda a=artifact: a.partitioned(Mesh({"x": 8})),
            )
    refused(
        errors.InvalidConfigError, "not partitioned", lambda: xla_peer.export(cut, format="numpy")
    )
    refused(
        errors.InvalidConfigError, "not partitioned", lambda: xla_peer.export(cut, gradient=True)
    )
    refused(errors.InvalidConfigError, "one device", xla_peer.export(program).partitioned)


def symbols_are_bound_per_shape() -> None:
    mesh = Mesh({"x": 8})
    program = tnf.compile(lambda x: tnf.sum(x * x), tnf.TensorSpec(("n",), "f4"))
    cut = partition(program, mesh, P("x"))
    xla = XlaExecutor("cpu")
    for n in (8, 16):
        x = np.arange(n, dtype="f4")
        np.testing.assert_allclose(xla.run(cut, x), (x * x).sum())
    refused(errors.ShapeError, "cannot be cut into 8", lambda: xla.run(cut, np.ones(9, "f4")))


def linear_algebra_is_right_where_it_cannot_be_cut() -> None:
    mesh = Mesh({"x": 8})
    a = RNG.standard_normal((16, 4, 4))
    program = tnf.compile(
        lambda a: tnf.linalg.qr(a)[1] ** 2 + tnf.abs(tnf.linalg.det(a))[:, None, None], a
    )
    xla = XlaExecutor("cpu")
    np.testing.assert_allclose(
        xla.run(partition(program, mesh, P("x"), P("x")), a),
        xla.run(program, a),
        rtol=1e-10,
        atol=1e-12,
    )


def donation_and_misuse() -> None:
    mesh = Mesh({"x": 8})
    x = RNG.standard_normal((16, 3))
    program = tnf.compile(lambda x: x * 2, x)
    cut = partition(program, mesh, P("x"), P("x"))
    xla = XlaExecutor("cpu")
    exe = xla.compile(cut, donate=("x",))
    (placed,) = cut.put(x)
    np.testing.assert_array_equal(np.asarray(exe(placed)), x * 2)
    refused(errors.InvalidConfigError, "donated", lambda: exe(placed))
    plain = xla.compile(cut)
    refused(errors.InvalidConfigError, "expected an array on", lambda: plain(xla.put(x)))
    refused(errors.InvalidConfigError, "expected an array on", lambda: plain(mesh.put(x, P(None))))
    refused(errors.ShapeError, "16", lambda: plain(mesh.put(np.ones((8, 3)), P("x"))))
    refused(errors.ShapeError, "axis 1 of extent 3", lambda: partition(program, mesh, P(None, "x")))
    refused(errors.InvalidConfigError, "no 'y'", lambda: partition(program, mesh, P("y")))
    refused(errors.ShapeError, "3 entries", lambda: partition(program, mesh, P(None, None, "x")))
    refused(errors.InvalidConfigError, "cuts one axis", lambda: P("x", "x"))
    refused(errors.InvalidConfigError, "a name", lambda: P(3))
    refused(errors.InvalidConfigError, "16 places", lambda: Mesh({"x": 16}))
    refused(errors.ArityError, "prefix", lambda: partition(program, mesh, (P(), P())))
    refused(
        errors.InvalidConfigError, "holds PartitionSpecs", lambda: partition(program, mesh, "x")
    )
    devices = np.array(jax.devices()).reshape(4, 2)
    assert Mesh(devices, ("x", "y")) == Mesh({"x": 4, "y": 2})
    refused(errors.InvalidConfigError, "names 1 axes", lambda: Mesh(devices, ("x",)))


def executables_come_back_from_disk(folder: str) -> None:
    mesh = Mesh({"x": 8})
    x = RNG.standard_normal((16, 3))
    program = tnf.compile(lambda x: tnf.sum(tnf.exp(x), axis=0), x)
    for hits in (0, 1):
        xla = XlaExecutor("cpu", cache_dir=folder)
        found = xla.run(partition(program, mesh, P("x")), x)
        np.testing.assert_allclose(found, np.exp(x).sum(0), rtol=1e-12)
        assert xla.compile_cache_stats().hits == hits


def other_devices() -> None:
    x = RNG.standard_normal(3)
    program = tnf.compile(lambda x: x + 1, x)
    first, last = XlaExecutor("cpu", 0), XlaExecutor("cpu", 7)
    np.testing.assert_array_equal(first.run(program, x), last.run(program, x))
    refused(
        errors.InvalidConfigError,
        "expected an array on",
        lambda: last.compile(program)(first.put(x)),
    )
    assert xla_peer.XlaExecutor("cpu", 7).put(x).devices() == {jax.devices()[7]}


def cut_arrays_are_not_gathered_unasked() -> None:
    x = np.arange(8.0)
    mesh = Mesh({"x": 8})
    program = tnf.compile(lambda x: x + 1, x)
    xla = XlaExecutor("cpu")
    for spec in (P("x"), P()):
        array = mesh.put(x, spec)
        for call in (
            lambda array=array: program.run(array),
            lambda array=array: tnf.jit(lambda x: x + 1)(array),
            lambda array=array: tnf.jit(lambda x: x + 1, executor=xla)(array),
            lambda array=array: xla.run(program, array),
            lambda array=array: xla.run(partition(program, mesh, spec), array),
            lambda array=array: tnf.sin(array),
        ):
            refused(errors.BackendFailureError, "is on 8 devices", call)
    np.testing.assert_array_equal(program.run(xla.get(array)), x + 1)
    one = jax.device_put(np.float32(x), jax.devices()[3])
    np.testing.assert_array_equal(tnf.jit(lambda x: x + 1)(one), np.float32(x) + 1)


def device_arrays_are_put_elsewhere_without_the_host() -> None:
    x = np.arange(16.0).reshape(8, 2)
    mesh = Mesh({"x": 4, "y": 2})
    rows = mesh.put(x, P("x"))
    both = mesh.put(rows, P("x", "y"))
    assert both.sharding.is_equivalent_to(mesh.sharding(P("x", "y")), 2)
    assert both.dtype == np.float64
    np.testing.assert_array_equal(XlaExecutor("cpu").get(both), x)
    np.testing.assert_array_equal(XlaExecutor("cpu").put(both), x)
    refused(errors.ShapeError, "put", lambda: mesh.put(rows, P(None, "x")))


def parts_of_one_process_are_the_whole() -> None:
    x, w = np.arange(8.0), np.ones(3)
    mesh = Mesh({"x": 8})
    program = tnf.compile(lambda x, w: tnf.sum(x) * w, x, w)
    cut = partition(program, mesh, (P("x"), None))
    result = XlaExecutor("cpu").compile(cut)(*cut.put_local(x, w))
    np.testing.assert_array_equal(result, 28 * w)
    assert mesh.put_local(x, P("x")).dtype == np.float64
    refused(errors.ShapeError, "put_local", lambda: cut.put_local(x[:4], w))
    refused(errors.DTypeError, "w: expected", lambda: cut.put_local(x, np.float32(w)))
    refused(errors.ArityError, "put_local", lambda: cut.put_local(x))
    refused(errors.InvalidConfigError, "'z'", lambda: mesh.put_local(x, P("z")))


def main() -> None:
    jax.config.update("jax_num_cpu_devices", 8)
    for check in (
        a_sharded_product_reduces_once,
        every_spec_gives_what_one_device_gives,
        a_training_step_is_data_parallel,
        values_inside_a_program_are_sharded,
        a_partition_is_saved_exported_and_read_back,
        symbols_are_bound_per_shape,
        linear_algebra_is_right_where_it_cannot_be_cut,
        donation_and_misuse,
        lambda: executables_come_back_from_disk(sys.argv[1]),
        other_devices,
        cut_arrays_are_not_gathered_unasked,
        device_arrays_are_put_elsewhere_without_the_host,
        parts_of_one_process_are_the_whole,
    ):
        check()
        print(check.__name__, flush=True)
    print("all passed")


if __name__ == "__main__":
    main()
