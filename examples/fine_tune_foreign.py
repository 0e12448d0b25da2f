"""Load a network that JAX exported, differentiate it, and fine-tune it for ten steps, without importing JAX.

The first part of the script runs JAX in a separate process, which writes `model.jax` by `jax.export`. The second part
reads this file and never imports JAX.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lowering
import tenferro as tnf

EXPORT = """
import sys, jax, jax.numpy as jnp
from jax import export

def model(w1, b1, w2, b2, x):
    h = jax.nn.gelu(x @ w1 + b1)
    h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
    return jax.nn.log_softmax(h @ w2 + b2)

shapes = [(8, 16), (16,), (16, 3), (3,), (32, 8)]
specs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
open(sys.argv[1], "wb").write(export.export(jax.jit(model))(*specs).serialize())
"""

place = Path(tempfile.mkdtemp()) / "model.jax"
subprocess.run([sys.executable, "-c", EXPORT, str(place)], check=True)

model = lowering.import_stablehlo(place)
assert "jax" not in sys.modules
print(f"{len(model.instructions)} operations, inputs {', '.join(map(str, model.input_specs))}")

rng = np.random.default_rng(0)
weights = [rng.normal(size=spec.shape).astype("f4") * 0.3 for spec in model.input_specs[:-1]]
x = rng.normal(size=(32, 8)).astype("f4")
labels = np.argmax(x[:, :3], axis=1)


def loss(weights: Any, x: Any) -> Any:
    """Return the mean negative log-likelihood of the labels."""
    return -tnf.mean(tnf.take_along_axis(model(*weights, x), labels[:, None], axis=1))


step = tnf.jit(tnf.value_and_grad(loss))
losses = []
for _ in range(10):
    value, gradients = step(weights, x)
    losses.append(float(value))
    weights = [w - 0.5 * g for w, g in zip(weights, gradients, strict=True)]
print("loss", " ".join(f"{value:.3f}" for value in losses))
assert losses[-1] < 0.7 * losses[0]

tnf.check_grads(lambda w: tnf.sum(model(w, *weights[1:], x)), (weights[0],), order=1)
print("its gradient is right")
