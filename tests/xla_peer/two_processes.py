"""Script that a test runs in two processes.

They have eight devices in total, and are connected over loopback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import jax
import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import Mesh, PartitionSpec, XlaExecutor, partition

P = PartitionSpec


def refused(words: str, call: Callable[[], object]) -> None:
    """Require the same error in every process.

    If only one process raised it, this process would wait for the other one forever.
    """
    with pytest.raises(errors.InvalidConfigError, match=words):
        call()


def whole_arguments_must_be_the_same(process: int, mesh: Mesh, xla: XlaExecutor) -> None:
    x, w = np.arange(16.0), np.ones(2)
    program = tnf.compile(lambda x, w: tnf.sum(x) * w, x, w)
    cut = partition(program, mesh, (P("rows"), None))
    other = w + process
    own = np.arange(16.0) + 16 * process
    refused("put: w: not the same in every process", lambda: cut.put(x, other))
    refused("put: x: not the same in every process", lambda: xla.run(cut, own, w))
    refused("put: x, w: not the same", lambda: cut.put(own, other))
    refused("put: the array: not the same", lambda: mesh.put(own, P("rows")))
    refused("put: the array: not the same", lambda: mesh.put(other.astype(["f4", "f8"][process])))
    np.testing.assert_array_equal(xla.run(cut, x, w), x.sum() * w)


def each_process_gives_its_own_part(process: int, mesh: Mesh, xla: XlaExecutor) -> None:
    x, w = np.arange(16.0), np.ones(2)
    mine = x[8 * process : 8 * process + 8]
    program = tnf.compile(lambda x, w: tnf.sum(x) * w, x, w)
    cut = partition(program, mesh, (P("rows"), None))
    result = xla.get(xla.compile(cut)(*cut.put_local(mine, w)))
    np.testing.assert_array_equal(result, 120 * w)
    array = mesh.put_local(mine, P("rows"))
    assert array.shape == x.shape
    assert array.dtype == x.dtype
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(shard.data, x[shard.index])
    refused("w: processes that hold the same part", lambda: cut.put_local(mine, w + process))
    refused("the same part", lambda: mesh.put_local(w + process, P()))
    # Rows are split into two halves, and each half is replicated on four devices. Every process therefore has both
    # halves.
    grid = Mesh(mesh.devices.reshape(4, 2), ("copies", "rows"))
    refused("the same part", lambda: grid.put_local(x + process, P("rows")))
    np.testing.assert_array_equal(grid.put_local(x, P("rows")).addressable_shards[0].data, x[:8])


def results_in_several_processes(mesh: Mesh, xla: XlaExecutor) -> None:
    x = np.arange(16.0)
    cut = partition(tnf.compile(lambda x: x + 1, x), mesh, P("rows"), P("rows"))
    refused("sharded over several processes", lambda: xla.run(cut, x))
    refused("sharded over several processes", lambda: xla.get(mesh.put(x, P("rows"))))


def training_is_that_of_one_process(process: int, mesh: Mesh, xla: XlaExecutor) -> None:
    """Each process passes its half of the examples. gloo must sum the gradients over both processes."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((32, 4)), rng.standard_normal(4)
    y = np.tanh(x @ w)

    def step(w, x, y):
        return w - 0.1 * tnf.grad(lambda w: tnf.mean((tnf.tanh(x @ w) - y) ** 2))(w)

    program = tnf.compile(step, w, x, y)
    cut = partition(program, mesh, (None, P("rows"), P("rows")))
    executable = xla.compile(cut)
    own = slice(16 * process, 16 * process + 16)
    start = np.zeros(4)
    trained, *examples = cut.put_local(start, x[own], y[own])
    for _ in range(20):
        trained = executable(trained, *examples)
    expected = start
    for _ in range(20):
        h = np.tanh(x @ expected)
        expected = expected - 0.1 * x.T @ (2 * (h - y) * (1 - h**2)) / 32
    np.testing.assert_allclose(xla.get(trained), expected, rtol=1e-12)


def main() -> None:
    process, port = int(sys.argv[1]), sys.argv[2]
    jax.config.update("jax_num_cpu_devices", 4)
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((64, 32)), rng.standard_normal((32, 16))
    program = tnf.compile(lambda x, w: tnf.sum(tnf.tanh(x @ w), axis=0), x, w)
    mesh = Mesh({"rows": 8})
    assert mesh.size == 8
    assert len(jax.local_devices()) == 4
    cut = partition(program, mesh, (PartitionSpec("rows"), None))
    found = XlaExecutor("cpu").run(cut, x, w)
    np.testing.assert_allclose(found, np.tanh(x @ w).sum(0), rtol=1e-12)
    xla = XlaExecutor("cpu")
    whole_arguments_must_be_the_same(process, mesh, xla)
    each_process_gives_its_own_part(process, mesh, xla)
    results_in_several_processes(mesh, xla)
    training_is_that_of_one_process(process, mesh, xla)
    jax.distributed.shutdown()
    print("passed")


if __name__ == "__main__":
    main()
