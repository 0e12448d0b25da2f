"""Files written by `export_for_jax` must run, with their gradients, where JAX is installed but tenferro is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors

READER = """
import sys
import numpy as np
import jax
jax.config.update("jax_enable_x64", True)
from jax import export
call = export.deserialize(bytearray(open(sys.argv[1], "rb").read())).call
given = np.load(sys.argv[2])
p, x = {"w": given["w"]}, given["x"]
loss = lambda p, x: call(p, x)["loss"]
gradient = jax.jit(jax.grad(loss))(p, x)
curve = jax.jvp(lambda s: jax.grad(loss, 1)(p, s * x)[0], (1.0,), (1.0,)) if sys.argv[3] == "2" else None
np.savez(sys.argv[2], y=call(p, x)["y"], g=gradient["w"], order=0 if curve is None else 1)
assert "tenferro" not in sys.modules
"""


def layer(p, x):  # users write functions without annotations
    y = tnf.tanh(x @ tnf.linalg.inv(p["w"]))
    return {"y": y, "loss": tnf.sum(y * y)}


@pytest.mark.parametrize("platforms", [("cpu",), ("cpu", "cuda", "tpu")], ids=str)
def test_another_process_runs_and_differentiates_it(
    tmp_path: Path, platforms: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((3, 3)) + 3 * np.eye(3), rng.standard_normal((4, 3))
    path, data = tmp_path / "layer.jax", tmp_path / "data.npz"
    content = xla_peer.export_for_jax(layer, {"w": w}, x, path=path, platforms=platforms)
    assert path.read_bytes() == content
    np.savez(data, w=w, x=x)
    subprocess.run([sys.executable, "-c", READER, path, data, "1"], check=True)
    found = np.load(data)
    np.testing.assert_allclose(found["y"], layer({"w": w}, x)["y"], rtol=1e-11)
    expected = tnf.grad(lambda p: layer(p, x)["loss"])({"w": w})["w"]
    np.testing.assert_allclose(found["g"], expected, rtol=1e-9, atol=1e-12)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    spec = tnf.TensorSpec(("n",), "f4")
    with pytest.raises(errors.NonStaticShapeError, match=r"xla_peer\.export"):
        xla_peer.export_for_jax(lambda x: x, spec)
    with pytest.raises(errors.InvalidConfigError, match="platforms"):
        xla_peer.export_for_jax(lambda x: x, np.ones(2), platforms=("metal",))
    with pytest.raises(errors.InvalidConfigError, match="vjp_order"):
        xla_peer.export_for_jax(lambda x: x, np.ones(2), vjp_order=-1)
    with pytest.raises(FileNotFoundError):
        xla_peer.export_for_jax(lambda x: x, np.ones(2), path=tmp_path / "no" / "x.jax")
