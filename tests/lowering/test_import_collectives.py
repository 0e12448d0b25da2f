"""Programs of several devices, run on one device.

Each collective must equal its definition, and programs must equal JAX's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors

REPLICAS, PARTITIONS = 2, 2
X = np.arange(4 * 4 * 3, dtype="f4").reshape(4, 4, 3) ** 2  # the axes are device, row and column

# Each process has the number replica * 2 + partition. The groups of processes are those that the section "Parallel
# execution" of the specification defines.
ACROSS: dict[str, tuple[str, str, list[list[int]]]] = {
    "replicas": ("[[0, 1]]", "", [[0, 2], [1, 3]]),
    "replicas in the other order": ("[[1, 0]]", "", [[2, 0], [3, 1]]),
    "replicas and partitions": (
        "[[0, 1]]",
        "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,",
        [[0, 2, 1, 3]],
    ),
    "flattened ids": (
        "[[0, 3], [2, 1]]",
        "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids,",
        [[0, 3], [2, 1]],
    ),
}
BY_PARTITION: dict[str, tuple[str, str, list[list[int]]]] = {
    "replicas": ACROSS["replicas"],
    "partitions": (
        "[[1, 0]]",
        "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,",
        [[1, 0], [3, 2]],
    ),
}


@pytest.fixture(params=[True, False], ids=["MLIR", "our reader"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return `import_stablehlo`, once with MLIR's reader and once with tenferro's reader."""
    monkeypatch.setattr("lowering.importing.is_jaxlib_installed", lambda: request.param)
    return lowering.import_stablehlo


def program_of(
    read: Any, operation: str, result: str = "tensor<4x3xf32>", **options: Any
) -> tnf.GraphProgram:
    """Import a function that each device applies to its shard. There are two replicas, each of two partitions."""
    text = (
        f"func.func @main(%x: tensor<4x3xf32>) -> {result} {{ {operation} return %y : {result} }}"
    )
    options = {"devices": {"replicas": REPLICAS, "partitions": PARTITIONS}} | options
    return read(text, **options)


def groups_attribute(groups: str) -> str:
    rows = np.array(json.loads(groups))
    return f"replica_groups = dense<{groups}> : tensor<{'x'.join(map(str, rows.shape))}xi64>"


def region(name: str, element: str = "f32") -> str:
    return (
        f"({{ ^bb0(%a: tensor<{element}>, %b: tensor<{element}>): "
        f"%r = stablehlo.{name} %a, %b : tensor<{element}> stablehlo.return %r : tensor<{element}> }})"
    )


def by_groups(function: Any, groups: list[list[int]]) -> Any:
    """Compute each device's result by `function`.

    Its arguments are the values of the device's group, and the device's position in the group.
    """
    results: dict[int, Any] = {}
    for group in groups:
        for place, device in enumerate(group):
            results[device] = function([X[member] for member in group], place)
    return np.stack([results[device] for device in range(4)])


@pytest.mark.parametrize("across", ACROSS)
@pytest.mark.parametrize(
    ("name", "reduce"), [("add", np.add.reduce), ("maximum", np.maximum.reduce), ("subtract", None)]
)
def test_all_reduce(read: Any, across: str, name: str, reduce: Any) -> None:
    """A region that is not associative, such as a subtraction, must first be applied to neighbours in the group."""
    ids, channel, groups = ACROSS[across]
    operation = (
        f'%y = "stablehlo.all_reduce"(%x) <{{{channel} {groups_attribute(ids)}}}> {region(name)} '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )

    def combined(values: list[Any], place: int) -> Any:
        if reduce is not None:
            return reduce(values)
        pairs = [values[i] - values[i + 1] for i in range(0, len(values), 2)]
        return pairs[0] if len(pairs) == 1 else pairs[0] - pairs[1]

    np.testing.assert_array_equal(program_of(read, operation).run(X), by_groups(combined, groups))


@pytest.mark.parametrize("ids", ["[[0, 1]]", "[[0], [1]]"])
def test_cross_replica_sum(read: Any, ids: str) -> None:
    """The operation `cross-replica-sum`, which `all_reduce` has replaced, must be read, too. It has no region."""
    types = "(tensor<4x3xf32>) -> tensor<4x3xf32>"
    operation = f'%y = "stablehlo.cross-replica-sum"(%x) <{{{groups_attribute(ids)}}}> : {types}'
    replicas = X.reshape(REPLICAS, PARTITIONS, 4, 3)
    wanted = replicas.sum(0, keepdims=True) + 0 * replicas if ids == "[[0, 1]]" else replicas
    y = program_of(read, operation).run(X)
    np.testing.assert_array_equal(y, wanted.reshape(X.shape))
    with pytest.raises(errors.TenferroError, match="lack"):
        program_of(read, operation.replace("0", "2"))


@pytest.mark.parametrize("across", ACROSS)
@pytest.mark.parametrize("axis", [0, 1])
def test_all_gather(read: Any, across: str, axis: int) -> None:
    ids, channel, groups = ACROSS[across]
    shape = [4, 3]
    shape[axis] *= len(groups[0])
    result = f"tensor<{shape[0]}x{shape[1]}xf32>"
    operation = (
        f'%y = "stablehlo.all_gather"(%x) <{{all_gather_dim = {axis} : i64, {channel} {groups_attribute(ids)}}}> '
        f": (tensor<4x3xf32>) -> {result}"
    )
    wanted = by_groups(lambda values, place: np.concatenate(values, axis), groups)
    np.testing.assert_array_equal(program_of(read, operation, result).run(X), wanted)


@pytest.mark.parametrize("across", ACROSS)
def test_reduce_scatter(read: Any, across: str) -> None:
    ids, channel, groups = ACROSS[across]
    count = len(groups[0])
    result = f"tensor<{4 // count}x3xf32>"
    operation = (
        f'%y = "stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, {channel} {groups_attribute(ids)}}}> '
        f"{region('add')} : (tensor<4x3xf32>) -> {result}"
    )
    wanted = by_groups(lambda values, place: np.split(sum(values), count)[place], groups)
    np.testing.assert_array_equal(program_of(read, operation, result).run(X), wanted)


@pytest.mark.parametrize("across", BY_PARTITION)
def test_all_to_all(read: Any, across: str) -> None:
    ids, channel, groups = BY_PARTITION[across]
    operation = (
        f'%y = "stablehlo.all_to_all"(%x) <{{split_dimension = 0 : i64, concat_dimension = 1 : i64, '
        f"split_count = 2 : i64, {channel} {groups_attribute(ids)}}}> : (tensor<4x3xf32>) -> tensor<2x6xf32>"
    )
    wanted = by_groups(
        lambda values, place: np.concatenate([np.split(v, 2)[place] for v in values], 1), groups
    )
    np.testing.assert_array_equal(program_of(read, operation, "tensor<2x6xf32>").run(X), wanted)


@pytest.mark.parametrize(
    ("channel", "source"),
    [
        # Replica 1 receives from replica 0, or partition 1 from partition 0. All other devices must receive zeros.
        ("", [None, None, 0, 1]),
        ("channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,", [None, 0, None, 2]),
    ],
    ids=["replicas", "partitions"],
)
def test_collective_permute(read: Any, channel: str, source: list[int | None]) -> None:
    operation = (
        f'%y = "stablehlo.collective_permute"(%x) <{{{channel} source_target_pairs = dense<[[0, 1]]> : '
        "tensor<1x2xi64>}> : (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    wanted = [np.zeros_like(X[0]) if s is None else X[s] for s in source]
    np.testing.assert_array_equal(program_of(read, operation).run(X), wanted)


def test_what_is_sent_is_received(read: Any) -> None:
    """A device must receive what its source has sent. Device 3 has no source, and must receive zeros."""
    channel = (
        "channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, is_host_transfer = false"
    )
    pairs = "source_target_pairs = dense<[[0, 2], [3, 1], [1, 0]]> : tensor<3x2xi64>"
    operation = (
        "%t = stablehlo.create_token : !stablehlo.token "
        f'%s = "stablehlo.send"(%x, %t) <{{{channel}, {pairs}}}> '
        ": (tensor<4x3xf32>, !stablehlo.token) -> !stablehlo.token "
        f'%r:2 = "stablehlo.recv"(%s) <{{{channel}, {pairs}}}> '
        ": (!stablehlo.token) -> (tensor<4x3xf32>, !stablehlo.token) "
        "%u = stablehlo.after_all %s, %r#1 : !stablehlo.token "
        "%y = stablehlo.add %r#0, %x : tensor<4x3xf32>"
    )
    program = program_of(read, operation, devices={"x": 4})
    np.testing.assert_array_equal(
        program.run(X), X + X[[1, 3, 0, 0]] * np.reshape([1, 1, 1, 0], (4, 1, 1)).astype("f4")
    )
    early = operation.replace("(%s) <", "(%t) <").split('%s = "stablehlo.send"')
    send, rest = early[1].split("%r:2", 1)
    recv, end = rest.split("%u =", 1)
    turned = f'{early[0]}%r:2{recv}%s = "stablehlo.send"{send}%u ={end}'
    with pytest.raises(errors.UnsupportedError, match="channel 5 needs a send before it"):
        program_of(read, turned, devices={"x": 4})
    with pytest.raises(errors.UnsupportedError, match="send: return the value that it writes"):
        program_of(read, operation, devices=None)


@pytest.mark.parametrize("across", BY_PARTITION)
def test_collective_broadcast(read: Any, across: str) -> None:
    ids, channel, groups = BY_PARTITION[across]
    operation = (
        f'%y = "stablehlo.collective_broadcast"(%x) <{{{channel} {groups_attribute(ids)}}}> '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    wanted = by_groups(lambda values, place: values[0], groups)
    np.testing.assert_array_equal(program_of(read, operation).run(X), wanted)


def test_a_broadcast_leaves_zeros_outside_of_its_groups(read: Any) -> None:
    operation = (
        f'%y = "stablehlo.collective_broadcast"(%x) <{{{groups_attribute("[[1]]")}}}> '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    wanted = [0 * X[0], 0 * X[1], X[2], X[3]]
    np.testing.assert_array_equal(program_of(read, operation).run(X), wanted)


def test_numbers_of_processes(read: Any) -> None:
    operation = (
        "%r = stablehlo.replica_id : tensor<ui32> %p = stablehlo.partition_id : tensor<ui32> "
        "%ten = stablehlo.constant dense<10> : tensor<ui32> %t = stablehlo.multiply %r, %ten : tensor<ui32> "
        "%y = stablehlo.add %t, %p : tensor<ui32>"
    )
    y = program_of(read, operation, "tensor<ui32>").run(X)
    assert y.dtype == np.uint32
    assert y.tolist() == [0, 1, 10, 11]
    flat = program_of(read, operation, "tensor<ui32>", devices={"x": 2, "y": 2})
    assert flat.run(X).tolist() == [0, 1, 2, 3]


def test_a_collective_of_what_all_devices_share(read: Any) -> None:
    operation = (
        "%c = stablehlo.constant dense<3.0> : tensor<4x3xf32> "
        f'%y = "stablehlo.all_reduce"(%c) <{{{groups_attribute("[[0, 1]]")}}}> {region("add")} '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    np.testing.assert_array_equal(program_of(read, operation).run(X), np.full_like(X, 6))


def test_a_collective_in_a_loop_and_in_a_branch(read: Any) -> None:
    """A collective in a loop or in a branch must act on the devices of the enclosing program."""
    permute = (
        '"stablehlo.collective_permute"({}) <{{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : '
        "tensor<4x2xi64>}}> : (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    operation = (
        "%zero = stablehlo.constant dense<0> : tensor<i32> %one = stablehlo.constant dense<1> : tensor<i32> "
        "%three = stablehlo.constant dense<3> : tensor<i32> %i:2 = stablehlo.while(%n = %zero, %v = %x) "
        ": tensor<i32>, tensor<4x3xf32> cond { %c = stablehlo.compare LT, %n, %three, SIGNED : "
        "(tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %c : tensor<i1> } do { "
        "%odd = stablehlo.compare EQ, %n, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        '%w = "stablehlo.if"(%odd) ({ stablehlo.return %v : tensor<4x3xf32> }, { '
        f"%p = {permute.format('%v')} stablehlo.return %p : tensor<4x3xf32> }}) : (tensor<i1>) -> tensor<4x3xf32> "
        "%m = stablehlo.add %n, %one : tensor<i32> stablehlo.return %m, %w : tensor<i32>, tensor<4x3xf32> } "
        "%y = stablehlo.add %i#1, %x : tensor<4x3xf32>"
    )
    program = program_of(read, operation, devices={"replicas": 4})
    np.testing.assert_array_equal(program.run(X), np.roll(X, 2, 0) + X)


def test_derivatives_reach_the_devices_that_were_asked(read: Any) -> None:
    """The cotangent of x_d must be the sum of the cotangents in the group of device d.

    The result y_d of each device is the sum of x over the group of d.
    """
    ids, channel, groups = ACROSS["flattened ids"]
    operation = (
        f'%y = "stablehlo.all_reduce"(%x) <{{{channel} {groups_attribute(ids)}}}> {region("add")} '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    program = program_of(read, operation)
    y_bar = np.random.default_rng(1).standard_normal(X.shape).astype("f4")
    _, pull = tnf.vjp(program, X)
    wanted = np.empty_like(X)
    for group in groups:
        wanted[group] = y_bar[group].sum(0)
    np.testing.assert_allclose(pull(y_bar)[0], wanted, rtol=1e-6)


def test_the_peer_runs_what_is_read(read: Any) -> None:
    operation = (
        f'%y = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, {groups_attribute("[[0, 1]]")}}}> '
        ": (tensor<4x3xf32>) -> tensor<8x3xf32>"
    )
    assert xla_peer.check_parity(program_of(read, operation, "tensor<8x3xf32>"), X).ok


@pytest.mark.parametrize(
    ("groups", "devices", "error", "words"),
    [
        ("[[0, 1]]", None, errors.UnsupportedError, "among 2 devices: a program here is one device's; give devices="),
        ("[[0]]", {"replicas": 2}, errors.InvalidConfigError, "each of 2 devices once"),
        ("[[0, 1]]", 0, errors.InvalidConfigError, "devices must be at least 1"),
        ("[[0, 1]]", {}, errors.InvalidConfigError, "devices must be at least 1"),
    ],
)  # fmt: skip
def test_what_is_refused(groups: str, devices: Any, error: Any, words: str) -> None:
    operation = (
        f'%y = "stablehlo.all_reduce"(%x) <{{{groups_attribute(groups)}}}> {region("add")} '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    with pytest.raises(error, match=words):
        program_of(lowering.import_stablehlo, operation, devices=devices)


@pytest.mark.parametrize(("channel", "kind"), [(0, "replicas"), (1, "partitions")])
def test_pairs_of_devices_that_do_not_exist(channel: int, kind: str) -> None:
    """#collective_permute (C4): each number is below the number of replicas, or of partitions if there is a channel."""
    operation = (
        '%y = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 2]]> : tensor<1x2xi64>, '
        f"channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 0>}}> : (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    for devices in ({"replicas": 2, "partitions": 2}, {"replicas": 2, "partitions": 1}):
        with pytest.raises(errors.InvalidConfigError, match=f"the number of {kind} is"):
            program_of(lowering.import_stablehlo, operation, devices=devices)


def test_devices_that_the_module_does_not_have() -> None:
    text = """module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32} {
      func.func @main(%x: tensor<f32>) -> tensor<ui32> { %y = stablehlo.partition_id : tensor<ui32>
      return %y : tensor<ui32> } }"""
    x = np.zeros(8, "f4")
    program = lowering.import_stablehlo(text, devices=8)
    assert program.run(x).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    with pytest.raises(
        errors.InvalidConfigError, match="2 replicas and 4 partitions, got devices=4"
    ):
        lowering.import_stablehlo(text, devices=4)


def test_parts_of_a_mesh_with_its_own_order(read: Any) -> None:
    """A mesh may list its devices in another order.

    Here device 2 has the position 1 in the mesh, and must receive the second shard.
    """
    text = """module {
  sdy.mesh @m = <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>
  func.func @main(%x: tensor<4xui32>) -> tensor<4xui32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"x", "y"}]>] out_shardings=[<@m, [{"x", "y"}]>] manual_axes={"x", "y"} (%v: tensor<1xui32>) {
      %1 = stablehlo.partition_id : tensor<ui32>
      %2 = stablehlo.reshape %1 : (tensor<ui32>) -> tensor<1xui32>
      %ten = stablehlo.constant dense<10> : tensor<1xui32>
      %3 = stablehlo.multiply %v, %ten : tensor<1xui32>
      %4 = stablehlo.add %3, %2 : tensor<1xui32>
      sdy.return %4 : tensor<1xui32>
    } : (tensor<4xui32>) -> tensor<4xui32>
    return %0 : tensor<4xui32>
  }
}"""
    assert read(text).run(np.arange(4, dtype="u4")).tolist() == [0, 12, 21, 33]


JAX = """
import json, sys
import numpy as np
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
rng = np.random.default_rng(0)
some = lambda *shape: rng.standard_normal(shape).astype("f4")

def shard(f, in_specs, out_specs, **options):
    return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False, **options)

def every(a, b):
    return (
        jax.lax.psum(a, "x") + jax.lax.axis_index("x"), jax.lax.all_gather(b, "y", tiled=True),
        jax.lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True),
        jax.lax.all_to_all(a, "y", split_axis=1, concat_axis=0, tiled=True),
        jax.lax.ppermute(b, "x", [(0, 1), (1, 2), (2, 3)]), jax.lax.pmax(a, ("x", "y")),
    )

def ring(a):
    step = lambda i, c: jax.lax.ppermute(c, "x", [(k, (k + 1) % 4) for k in range(4)]) + a * jax.lax.axis_index("x")
    return jax.lax.fori_loop(0, 3, step, a)

def layer(w, x):
    h = shard(lambda w, x: jax.lax.psum(jnp.tanh(x) @ w, "y"), (P("y", None), P("x", "y")), P("x", None))
    return jnp.mean(h(w, x) ** 2)

partly = shard(lambda a: jax.lax.psum(a, "x"), (P("x"),), P(), axis_names={"x"})
def constrained(w, x):
    h = jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("x", P.UNCONSTRAINED)))
    step = lambda h, _: (jax.lax.with_sharding_constraint(jnp.tanh(h), NamedSharding(mesh, P(("x", "y")))), None)
    h, _ = jax.lax.scan(step, h, None, length=2)
    h = jax.lax.cond(h[0, 0] > 0, lambda h: jax.lax.with_sharding_constraint(h, NamedSharding(mesh, P("y"))) * 2, jnp.exp, h)
    return jnp.mean(jax.jit(lambda h: jax.lax.with_sharding_constraint(h, NamedSharding(mesh, P())) ** 2)(h))

cases = {
    "constrained": (constrained, [some(6, 4), some(8, 6)]),
    "constrained gradient": (jax.vmap(jax.grad(constrained), (None, 0)), [some(6, 4), some(2, 8, 6)]),
    "every": (shard(every, (P("x", "y"), P("x", "y")),
                    (P(None, "y"), P("x"), P("x", "y"), P(("x", "y")), P("x", "y"), P())), [some(8, 8), some(8, 4)]),
    "partly": (lambda a: partly(a) * 2, [some(8, 4)]),
    "ring": (shard(ring, P("x"), P("x")), [some(8, 3)]),
    "layer": (layer, [some(6, 5), some(8, 6)]),
    "gradient": (jax.grad(layer), [some(6, 5), some(8, 6)]),
    "annotated": (
        jax.jit(lambda w, x: jnp.tanh(x @ w).sum(0), out_shardings=NamedSharding(mesh, P("y")),
                in_shardings=(NamedSharding(mesh, P(None, "y")), NamedSharding(mesh, P("x", None)))),
        [some(6, 4), some(8, 6)],
    ),
}
for name, (f, arrays) in cases.items():
    lowered = jax.jit(f).lower(*arrays)
    with open(f"{sys.argv[1]}/{name}.mlir", "w") as file:
        file.write(lowered.as_text())
    results = jax.tree.leaves(lowered.compile()(*arrays))
    named = {f"x{i}": a for i, a in enumerate(arrays)} | {f"y{i}": np.asarray(y) for i, y in enumerate(results)}
    np.savez(f"{sys.argv[1]}/{name}.npz", **named)
"""


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that contains modules that JAX lowered for eight devices, and their results."""
    folder = tmp_path_factory.mktemp("partitioned")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", JAX, str(folder)], check=True, env=os.environ | flags)
    return folder


def test_the_collective_that_is_wrong(partitioned: Path) -> None:
    """If one collective has wrong groups or a wrong reduction, the parity report must name this collective."""
    text = (partitioned / "layer.mlir").read_text()
    with np.load(partitioned / "layer.npz") as saved:
        w, x = saved["x0"], saved["x1"]

    def single(w: Any, x: Any) -> Any:
        return tnf.mean((tnf.tanh(x) @ w) ** 2)

    right = "[[0, 1], [2, 3], [4, 5], [6, 7]]"
    line = 1 + text[: text.index("all_reduce")].count("\n")
    for wrong, change in (
        (text.replace(right, "[[0, 3], [2, 1], [4, 5], [6, 7]]"), f"groups along y, {right},"),
        (text.replace("stablehlo.add", "stablehlo.maximum", 1), "add"),
    ):
        assert wrong != text
        program = lowering.import_stablehlo(wrong)
        report = xla_peer.check_parity(program, w, x, against=single, interpreter=False)
        assert not report.ok
        words = f"all_reduce in line {line}: with {change} in its place the outputs agree"
        assert words in report.notes


@pytest.mark.parametrize(
    "name",
    [
        "every", "partly", "ring", "layer", "gradient", "annotated", "constrained",
        "constrained gradient",
    ],
)  # fmt: skip
def test_jax_on_eight_devices(read: Any, partitioned: Path, name: str) -> None:
    program = read(partitioned / f"{name}.mlir")
    with np.load(partitioned / f"{name}.npz") as saved:
        arrays = [saved[key] for key in saved if key.startswith("x")]
        wanted = [saved[key] for key in saved if key.startswith("y")]
    for mine, other in zip(tnf.tree.leaves(program.run(*arrays)), wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=1e-5)
    if name == "layer":
        with np.load(partitioned / "gradient.npz") as saved:
            slope, (w, x) = saved["y0"], (saved["x0"], saved["x1"])
        np.testing.assert_allclose(tnf.grad(program)(w, x), slope, rtol=1e-4, atol=1e-6)


# ---- groups, roots and processes in modules of the reference interpreter --------------------------


def test_groups_may_differ_in_size(read: Any) -> None:
    """Groups may have different sizes.

    All values are negative, so that a zero in place of a missing member would change the maximum.
    """
    x = -1 - X[:3]
    operation = (
        f'%y = "stablehlo.all_reduce"(%x) <{{{groups_attribute("[[0, 2], [1, -1]]")}}}> {region("maximum")} '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    y = program_of(read, operation, devices={"replicas": 3}).run(x)
    np.testing.assert_array_equal(y, [x[[0, 2]].max(0), x[1], x[[0, 2]].max(0)])
    gathered = operation.replace("all_reduce", "all_gather").replace(region("maximum"), "")
    gathered = gathered.replace("<{", "<{all_gather_dim = 0 : i64, ")
    # MLIR's verifier rejects the module with another message.
    with pytest.raises(errors.TenferroError, match=r"groups of different sizes|Invalid replica id"):
        program_of(read, gathered, devices={"replicas": 3})


def test_the_first_of_a_group_has_the_reduction() -> None:
    operation = (
        f'%y = "stablehlo.collective_reduce"(%x) <{{{groups_attribute("[[3, 0], [1, 2]]")}}}> {region("add")} '
        ": (tensor<4x3xf32>) -> tensor<4x3xf32>"
    )
    y = program_of(lowering.import_stablehlo, operation, devices={"replicas": 4}).run(X)
    zeros = np.zeros_like(X[0])
    np.testing.assert_array_equal(y, [zeros, X[1] + X[2], zeros, X[0] + X[3]])


def test_roots_are_data() -> None:
    """Each of the two results of this broadcast has a root, which an operand defines.

    Device 4 is in no group, and must receive zeros.
    """
    x, roots = np.concatenate([X, X[:1] + 9]), np.array([[1, 0]] * 2 + [[0, 1]] * 3, "i4")
    kinds = (
        "(tensor<4x3xf32>, tensor<4x3xf32>, tensor<2xi32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)"
    )
    operation = (
        f'%t = stablehlo.negate %x : tensor<4x3xf32> %y:2 = "stablehlo.OP"(%x, %t, %n) <{{has_dynamic_root, '
        f"{groups_attribute('[[0, 1], [2, 3]]')}}}> REGION : {kinds}"
    )
    text = (
        "func.func @main(%x: tensor<4x3xf32>, %n: tensor<2xi32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) { "
        f"{operation} return %y#0, %y#1 : tensor<4x3xf32>, tensor<4x3xf32> }}"
    )
    copied = text.replace("OP", "collective_broadcast").replace("REGION", "")
    y, z = lowering.import_stablehlo(copied, devices={"replicas": 5}).run(x, roots)
    zeros = np.zeros_like(X[0])
    np.testing.assert_array_equal(y, [X[1], X[1], X[2], X[2], zeros])
    np.testing.assert_array_equal(z, [-X[0], -X[0], -X[3], -X[3], zeros])
    total = text.replace("OP", "collective_reduce").replace("REGION", region("add"))
    y, z = lowering.import_stablehlo(total, devices={"replicas": 4}).run(X, roots[:4])
    np.testing.assert_array_equal(y, [zeros, X[0] + X[1], X[2] + X[3], zeros])
    np.testing.assert_array_equal(z, [-X[0] - X[1], zeros, zeros, -X[2] - X[3]])


@pytest.mark.parametrize(
    ("axes", "groups"),
    [
        ('axis_ref<name = "x">', [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ('axis_ref<name = "y", sub_axis_info = (1)2>', [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ('axis_ref<name = "y", sub_axis_info = (2)2>', [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ('axis_ref<name = "y">, #stablehlo.axis_ref<name = "x">', [[0, 4, 1, 5, 2, 6, 3, 7]]),
    ],
)
def test_groups_along_axes_of_a_mesh(axes: str, groups: list[list[int]]) -> None:
    mesh = ", ".join(
        f'#stablehlo.mesh_axis<name = "{name}", size = {n}>' for name, n in (("x", 2), ("y", 4))
    )
    operation = (
        '%y = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = '
        f"#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [{mesh}]>, axes = [#stablehlo.{axes}]>}}> "
        f": (tensor<4x3xf32>) -> tensor<{4 * len(groups[0])}x3xf32>"
    )
    x = np.concatenate([X, X + 0.5])
    result = f"tensor<{4 * len(groups[0])}x3xf32>"
    y = program_of(lowering.import_stablehlo, operation, result, devices={"replicas": 8}).run(x)
    for group in groups:
        for device in group:
            np.testing.assert_array_equal(y[device], np.concatenate(x[group]))


@pytest.mark.parametrize("count", [1_000_000, 1 << 60])
def test_meshes_of_more_devices_than_fit_are_refused(count: int) -> None:
    mesh = f'#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = {count}>]>'
    operation = (
        '%y = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = '
        f'#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [#stablehlo.axis_ref<name = "x">]>}}> '
        ": (tensor<4x3xf32>) -> tensor<8x3xf32>"
    )
    with pytest.raises(errors.UnsupportedError, match=f"a mesh of {count} devices"):
        program_of(lowering.import_stablehlo, operation, "tensor<8x3xf32>")
    sharded = f"""sdy.mesh @m = <["x"={count}]> func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %y = sdy.sharding_constraint %x <@m, [{{"x"}}]> : tensor<4xf32> return %y : tensor<4xf32> }}"""
    with pytest.raises(errors.UnsupportedError, match=f"a mesh of {count} devices"):
        lowering.import_stablehlo(sharded)


@pytest.mark.parametrize("is_right", [True, False])
def test_processes_of_the_reference_interpreter(is_right: bool) -> None:
    """A module of the reference interpreter may run two replicas of two partitions.

    Each has two arguments and two results.
    """
    results = [(3, 1), (2, 0), (1, 3), (0, 2 if is_right else 7)]
    checks = "\n".join(
        f"check.expect_eq_const %r#{2 * process + number}, dense<{value}> : tensor<1xi64>"
        for process, pair in enumerate(results)
        for number, value in enumerate(pair)
    )
    operands = "\n".join(
        f"%{name}{process} = stablehlo.constant dense<{process}> : tensor<1xi64>"
        for process in range(4)
        for name in "ab"
    )
    names = ", ".join(f"%{name}{process}" for process in range(4) for name in "ab")
    kinds = ", ".join(["tensor<1xi64>"] * 8)
    text = f"""
      func.func @one(%x: tensor<1xi64>, %y: tensor<1xi64>) -> (tensor<1xi64>, tensor<1xi64>) {{
        %p = "stablehlo.collective_permute"(%x) <{{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}}> : (tensor<1xi64>) -> tensor<1xi64>
        %q = "stablehlo.collective_permute"(%p) <{{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}> : (tensor<1xi64>) -> tensor<1xi64>
        %s = "stablehlo.collective_permute"(%y) <{{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}> : (tensor<1xi64>) -> tensor<1xi64>
        return %q, %s : tensor<1xi64>, tensor<1xi64>
      }}
      func.func @main() {{
        {operands}
        %r:8 = "interpreter.run_parallel"({names}) <{{programs = [[@one, @one], [@one, @one]]}}> : ({kinds}) -> ({kinds})
        {checks}
        return
      }}"""
    if is_right:
        lowering.import_stablehlo(text)
    else:
        with pytest.raises(errors.InvalidConfigError, match="does not hold"):
            lowering.import_stablehlo(text)
    with pytest.raises(errors.InvalidConfigError, match="8 operands, and the functions have 6"):
        lowering.import_stablehlo(text.replace("[[@one, @one]", "[[@one, @main]"))


def processes(functions: str, programs: str, operands: str, kinds: str, checks: str) -> str:
    count = kinds.split("->")[1].count("tensor<") + kinds.split("->")[1].count("!")
    return f"""
      {functions}
      func.func @main() {{
        %t = stablehlo.after_all : !stablehlo.token
        %x = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
        %r:{count} = "interpreter.run_parallel"({operands}) {{{programs}}} : {kinds}
        {checks}
        return
      }}"""


CHANNEL = (
    "channel_handle = #stablehlo.channel_handle<handle = 7, type = 2>, is_host_transfer = true"
)
TALK = f"""
  func.func @tell(%x: tensor<2xi32>, %t: !stablehlo.token) -> !stablehlo.token {{
    %y = stablehlo.add %x, %x : tensor<2xi32>
    %1 = "stablehlo.send"(%x, %t) {{{CHANNEL}}} : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
    %2 = "stablehlo.send"(%y, %1) {{{CHANNEL}}} : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
    return %2 : !stablehlo.token
  }}
  func.func @listen(%t: !stablehlo.token) -> (tensor<2xi32>, tensor<2xi32>) {{
    %x, %1 = "stablehlo.recv"(%t) {{{CHANNEL}}} : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)
    %y, %2 = "stablehlo.recv"(%1) {{{CHANNEL}}} : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)
    return %x, %y : tensor<2xi32>, tensor<2xi32>
  }}"""
HEARD = "check.expect_eq_const %r#0, dense<[3, 4]> : tensor<2xi32> check.expect_eq_const %r#1, dense<[6, 8]> : tensor<2xi32>"


def test_processes_of_different_functions() -> None:
    """#send, #recv: messages must arrive in the order in which they were sent.

    It does not matter which process comes first in the grid.
    """
    kinds = "(!stablehlo.token, tensor<2xi32>, !stablehlo.token) -> (tensor<2xi32>, tensor<2xi32>, !stablehlo.token)"
    text = processes(TALK, "programs = [[@listen], [@tell]]", "%t, %x, %t", kinds, HEARD)
    lowering.import_stablehlo(text)
    with pytest.raises(errors.InvalidConfigError, match="does not hold"):
        lowering.import_stablehlo(text.replace("dense<[6, 8]>", "dense<[6, 9]>"))
    answer = '%2 = "stablehlo.send"(%x, %1)'
    deaf = text.replace('%2 = "stablehlo.send"(%y, %1)', answer).replace(
        "handle = 7", "handle = 8", 1
    )
    with pytest.raises(errors.UnsupportedError, match="channel 7 needs a send"):
        lowering.import_stablehlo(deaf)


SUM = f"<{{{groups_attribute('[[0, 1]]')}}}> {region('add', 'i32')} : (tensor<2xi32>) -> tensor<2xi32>"
TOGETHER = f"""
  func.func @first(%x: tensor<2xi32>) -> tensor<2xi32> {{
    %y = stablehlo.add %x, %x : tensor<2xi32>
    %z = "stablehlo.all_reduce"(%y) {SUM}
    %0 = "stablehlo.collective_permute"(%z) <{{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}}> : (tensor<2xi32>) -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }}
  func.func @second(%x: tensor<2xi32>) -> tensor<2xi32> {{
    %z = "stablehlo.all_reduce"(%x) {SUM}
    %i = stablehlo.replica_id : tensor<ui32>
    %j = stablehlo.convert %i : (tensor<ui32>) -> tensor<i32>
    %k = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %y = stablehlo.add %z, %k : tensor<2xi32>
    %0 = "stablehlo.collective_permute"(%y) <{{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}}> : (tensor<2xi32>) -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }}"""


def test_collectives_of_processes_of_different_functions(read: Any) -> None:
    """Processes of different functions must run their collectives in the same order.

    Here they are a sum, and then an exchange of numbers.
    """
    kinds = "(tensor<2xi32>, tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>)"
    sums = "check.expect_eq_const %r#0, dense<[10, 13]> : tensor<2xi32> check.expect_eq_const %r#1, dense<[9, 12]> : tensor<2xi32>"
    text = processes(TOGETHER, "programs = [[@first], [@second]]", "%x, %x", kinds, sums)
    read(text)
    with pytest.raises(errors.InvalidConfigError, match="does not hold"):
        read(text.replace("[10, 13]", "[10, 14]"))
    head, _, tail = text.partition("@second(")
    for broken, match in (
        (head + "@second(" + tail.replace("stablehlo.add %a, %b", "stablehlo.maximum %a, %b", 1), "all_reduce with"),
        (head.replace("return %0", "return %z") .replace('%0 = "stablehlo.collective_permute"(%z) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<2xi32>) -> tensor<2xi32>', "") + "@second(" + tail, "permute and the end"),
    ):  # fmt: skip
        with pytest.raises(errors.TenferroError, match=match):
            read(broken)


IN_REGIONS = f"""
  func.func @loops(%x: tensor<2xi32>) -> tensor<2xi32> {{
    %zero = stablehlo.constant dense<0> : tensor<i32> %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<2xi32> cond {{
      %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %c : tensor<i1>
    }} do {{
      %s = "stablehlo.all_reduce"(%v) {SUM}
      %j = stablehlo.add %i, %one : tensor<i32> stablehlo.return %j, %s : tensor<i32>, tensor<2xi32> }}
    return %r#1 : tensor<2xi32>
  }}
  func.func private @once(%x: tensor<2xi32>) -> tensor<2xi32> {{
    %s = "stablehlo.all_reduce"(%x) {SUM} return %s : tensor<2xi32>
  }}
  func.func @calls(%x: tensor<2xi32>) -> tensor<2xi32> {{
    %id = stablehlo.replica_id : tensor<ui32> %zero = stablehlo.constant dense<0> : tensor<ui32>
    %first = stablehlo.compare EQ, %id, %zero : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %a = "stablehlo.if"(%first) ({{ stablehlo.return %x : tensor<2xi32> }}, {{
      %s = func.call @once(%x) : (tensor<2xi32>) -> tensor<2xi32> stablehlo.return %s : tensor<2xi32> }}) : (tensor<i1>) -> tensor<2xi32>
    %b = stablehlo.negate %a : tensor<2xi32>
    %s = func.call @once(%b) : (tensor<2xi32>) -> tensor<2xi32>
    return %s : tensor<2xi32>
  }}"""


def test_collectives_in_loops_branches_and_calls_of_different_functions() -> None:
    """Two processes start with x.

    The sum of both is 2 x. Then one process adds 2 x, and the other one -2 x.
    """
    kinds = "(tensor<2xi32>, tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>)"
    check = "".join([f"check.expect_eq_const %r#{n}, dense<0> : tensor<2xi32>\n" for n in (0, 1)])
    text = processes(IN_REGIONS, "programs = [[@loops], [@calls]]", "%x, %x", kinds, check)
    lowering.import_stablehlo(text)
    with pytest.raises(errors.InvalidConfigError, match="does not hold"):
        lowering.import_stablehlo(text.replace("stablehlo.negate", "stablehlo.abs"))
    more = text.replace("%two = stablehlo.constant dense<2>", "%two = stablehlo.constant dense<3>")
    with pytest.raises(errors.UnsupportedError, match=r"all_reduce and the end"):
        lowering.import_stablehlo(more)
    start = "%zero = stablehlo.constant dense<0> : tensor<i32>"
    decided = text.replace("@main()", "@main(%n: tensor<i32>)").replace("%x, %x)", "%x, %n, %x)")
    decided = decided.replace(start, "").replace("@loops(%x: tensor<2xi32>", "@loops(%x: tensor<2xi32>, %zero: tensor<i32>")  # fmt: skip
    decided = decided.replace(": (tensor<2xi32>, tensor<2xi32>) -> (tensor<2xi32>", ": (tensor<2xi32>, tensor<i32>, tensor<2xi32>) -> (tensor<2xi32>")  # fmt: skip
    with pytest.raises(errors.UnsupportedError, match="while: has operations that communicate"):
        lowering.import_stablehlo(decided)


def test_processes_answer_each_other() -> None:
    """Two different functions each send a message and wait for that of the other. Then both add the messages."""
    to_device = (
        "channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, is_host_transfer = false"
    )
    pairs = "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>"

    def talks(name: str, scale: str, order: str) -> str:
        send = f'%s = "stablehlo.send"(%v, %t) {{{to_device}, {pairs}}} : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token'
        receive = f'%y, %u = "stablehlo.recv"(%t) {{{to_device}, {pairs}}} : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)'
        steps = [send, receive] if order == "send first" else [receive, send]
        return f"""func.func @{name}(%x: tensor<2xi32>, %t: !stablehlo.token) -> tensor<2xi32> {{
          %c = stablehlo.constant dense<{scale}> : tensor<2xi32> %v = stablehlo.multiply %x, %c : tensor<2xi32>
          {steps[0]}
          {steps[1]}
          %z = "stablehlo.all_reduce"(%y) {SUM.replace("[[0, 1]]", "[[0], [1]]").replace("1x2x", "2x1x")}
          return %z : tensor<2xi32> }}"""

    kinds = "(tensor<2xi32>, !stablehlo.token, tensor<2xi32>, !stablehlo.token) -> (tensor<2xi32>, tensor<2xi32>)"
    check = "check.expect_eq_const %r#0, dense<[30, 40]> : tensor<2xi32> check.expect_eq_const %r#1, dense<[6, 8]> : tensor<2xi32>"

    def read(first: str, second: str) -> None:
        functions = talks("one", "2", first) + talks("two", "10", second)
        text = processes(functions, "programs = [[@one, @two]]", "%x, %t, %x, %t", kinds, check)
        text = text.replace("[[0], [1]]", "[[0]]").replace("2x1x", "1x1x")
        lowering.import_stablehlo(text)

    read("send first", "send first")
    read("send first", "receive first")
    with pytest.raises(errors.UnsupportedError, match="channel 3 needs a send"):
        read("receive first", "receive first")


@pytest.mark.parametrize(
    ("programs", "match"),
    [
        ("programs = []", "rows of equal length"),
        ("programs = [[@listen], [@tell, @tell]]", "rows of equal length"),
        ("programs = [[@listen], [@nobody]]", "no function @nobody"),
        ("programs = [[@listen], [@listen]]", "3 operands, and the functions have 2"),
    ],
)
def test_grids_of_functions_that_are_none(programs: str, match: str) -> None:
    kinds = "(!stablehlo.token, tensor<2xi32>, !stablehlo.token) -> (tensor<2xi32>, tensor<2xi32>, !stablehlo.token)"
    with pytest.raises(errors.InvalidConfigError, match=match):
        lowering.import_stablehlo(processes(TALK, programs, "%t, %x, %t", kinds, HEARD))


def test_infeed_and_outfeed_of_a_process() -> None:
    """#infeed, #outfeed: each infeed must return the results of the next function in the list."""
    functions = """
      func.func @first() -> tensor<2xi32> { %0 = stablehlo.constant dense<[3, 4]> : tensor<2xi32> return %0 : tensor<2xi32> }
      func.func @second() -> tensor<2xi32> { %0 = stablehlo.constant dense<[6, 8]> : tensor<2xi32> return %0 : tensor<2xi32> }
      func.func @read(%t: !stablehlo.token) -> (tensor<2xi32>, tensor<2xi32>, !stablehlo.token) {
        %x, %1 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)
        %y, %2 = "stablehlo.infeed"(%1) : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)
        %3 = "stablehlo.outfeed"(%x, %2) : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
        return %x, %y, %3 : tensor<2xi32>, tensor<2xi32>, !stablehlo.token
      }"""
    kinds = "(!stablehlo.token) -> (tensor<2xi32>, tensor<2xi32>, !stablehlo.token)"
    programs = "programs = [[@read]], infeed = [@first, @second]"
    lowering.import_stablehlo(processes(functions, programs, "%t", kinds, HEARD))
    short = processes(functions, programs.replace(", @second", ""), "%t", kinds, HEARD)
    with pytest.raises(errors.UnsupportedError, match=r"stablehlo\.infeed"):
        lowering.import_stablehlo(short)


def test_numbers_of_processes_of_different_functions() -> None:
    functions = "".join([
        f"func.func @{name}() -> tensor<ui32> {{ %0 = stablehlo.{name}_id : tensor<ui32> return %0 : tensor<ui32> }}\n"
        for name in ("replica", "partition")
    ])  # fmt: skip
    checks = "".join([
        f"check.expect_eq_const %r#{place}, dense<{number}> : tensor<ui32>\n"
        for place, number in enumerate([0, 1, 1, 1])
    ])  # fmt: skip
    programs = "programs = [[@replica, @partition], [@replica, @partition]]"
    kinds = "() -> (tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>)"
    lowering.import_stablehlo(processes(functions, programs, "", kinds, checks))
