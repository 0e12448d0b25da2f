"""A program is planned for absent devices.

Its memory and its collectives must equal sizes that are computed from the sharding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.types import flatten, unflatten
from xla_peer import planning

WIDTH, HIDDEN, BATCH = 32, 64, 128


def test_a_layer_cut_over_data_and_model() -> None:
    def gradients(w: Any, v: Any, x: Any) -> Any:
        """Compute the gradients of a sharded layer.

        The forward pass sums over the mesh axis `model`, and each gradient over `data`.
        """
        return tnf.grad(lambda w, v: tnf.sum(tnf.tanh(x @ w) @ v), argnums=(0, 1))(w, v)

    spec = tnf.TensorSpec
    program = tnf.compile(
        lambda w, v, x: (tnf.tanh(x @ w) @ v, *gradients(w, v, x)),
        spec((WIDTH, HIDDEN), "f8"),
        spec((HIDDEN, WIDTH), "f8"),
        spec((BATCH, WIDTH), "f8"),
    )
    mesh = {"data": 2, "model": 4}
    w, v = [None, "model"], ["model"]
    cuts = {"w": w, "v": v, "x": ["data"], "result[0]": ["data"], "result[1]": w, "result[2]": v}
    rng = np.random.default_rng(0)
    leaves = [rng.normal(size=s.shape) / 8 for s in program.input_specs]
    found = planning.plan(program, mesh, cuts, {"data": 1e9, "model": 4e9}, leaves)
    expected = flatten(program.run(*unflatten(program.in_tree, leaves)))[0]
    for y, z in zip(found.outputs, expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-11)
    weights, rows = 8 * 2 * WIDTH * HIDDEN // 4, 8 * BATCH * WIDTH // 2
    assert found.memory["argument"] == weights + rows
    reductions = found.collectives
    assert {each.kind for each in reductions} == {"all-reduce"}
    sent = {axis: sum(each.moved for each in reductions if each.axes == (axis,)) for axis in mesh}
    # An all-reduce over n devices moves 2 (n - 1) / n of the data. Here n is 4 for the rows, and 2 for the gradients.
    assert sent == {"model": rows * 3 // 2, "data": weights}
    assert found.seconds is not None
    np.testing.assert_allclose(found.seconds, sent["model"] / 4e9 + sent["data"] / 1e9)


def test_groups_in_each_notation() -> None:
    line = (
        "  %y = bf16[4,8]{1,0} reduce-scatter(%x), replica_groups={}, dimensions={0}, to_apply=%add"
    )
    (each,) = planning.collectives(line, {"a": 2, "b": 4})
    assert (each.axes, each.devices, each.bytes, each.moved) == (("a", "b"), 8, 512, 448)
    line = "  %y = (f8e4m3fn[16]{0}, c64[2]{0}) all-to-all(%x, %z), replica_groups=[2,4]<=[8]"
    (each,) = planning.collectives(line, {"a": 2, "b": 4})
    assert (each.axes, each.devices, each.bytes, each.moved) == (("b",), 4, 32, 24)
    line = "  %y = f32[6]{0} collective-permute(%x), source_target_pairs={{0,4},{4,0}}"
    (each,) = planning.collectives(line, {"a": 2, "b": 4})
    assert (each.axes, each.moved, each.seconds) == (("a",), 24, None)


def test_executions_of_a_computation_with_two_callers() -> None:
    """A computation with two callers must count as executed as often as both callers together."""
    text = """
%shared (p: f32[]) -> f32[] {
}
%body (p: f32[]) -> f32[] {
  %a = f32[] call(%p), to_apply=%shared
}
ENTRY %main (p: f32[]) -> f32[] {
  %b = f32[] call(%p), to_apply=%shared
  %c = f32[] while(%b), condition=%test, body=%body, backend_config={"known_trip_count":{"n":"5"}}
}
"""
    counts = planning._counts(text)
    assert (counts["main"], counts["body"], counts["shared"]) == (1, 5, 6)
