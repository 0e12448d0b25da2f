"""Run a transformer that JAX exported with its weights, differentiate it, and fine-tune it, without importing JAX.

The first part of the script runs JAX in a separate process. It writes `model.jax` by `jax.export`, and `weights.npz`
with the weights, a batch of tokens, and JAX's results. The second part never imports JAX. The arguments of the exported
module are the leaves of the JAX function's arguments; a dictionary's leaves are in the order of its sorted keys.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lowering
import tenferro as tnf

OTHER_SIDE = """
import sys, jax, jax.numpy as jnp, numpy as np
from jax import export

TOKENS, LENGTH, WIDTH, HEADS = 11, 12, 16, 2

def norm(p, x):
    centred = x - x.mean(-1, keepdims=True)
    return p["scale"] * centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + p["shift"]

def attention(p, x):
    q, k, v = jnp.moveaxis((x @ p["qkv"]).reshape(*x.shape[:2], 3, HEADS, WIDTH // HEADS), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5
    before = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(before, scores, -jnp.inf))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["out"]

def model(p, tokens):
    x = p["embed"][tokens] + p["place"]
    x = x + attention(p["attention"], norm(p["norm1"], x))
    x = x + jax.nn.gelu(norm(p["norm2"], x) @ p["mlp"]["up"]) @ p["mlp"]["down"]
    return jax.nn.log_softmax(norm(p["norm3"], x) @ p["embed"].T)

def weights():
    rng = np.random.default_rng(0)
    def matrix(*shape):
        return rng.normal(size=shape, scale=0.25).astype("f4")
    def line():
        return {"scale": np.ones(WIDTH, "f4"), "shift": np.zeros(WIDTH, "f4")}
    return {
        "embed": matrix(TOKENS, WIDTH), "place": matrix(LENGTH, WIDTH),
        "attention": {"qkv": matrix(WIDTH, 3 * WIDTH), "out": matrix(WIDTH, WIDTH)},
        "mlp": {"up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH)},
        "norm1": line(), "norm2": line(), "norm3": line(),
    }

p = weights()
tokens = (np.arange(32)[:, None] * 3 + np.arange(LENGTH) * 2).astype("i4") % TOKENS
open(sys.argv[1] + "/model.jax", "wb").write(export.export(jax.jit(model))(p, tokens).serialize())
leaves = {".".join(key.key for key in path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(p)}
np.savez(sys.argv[1] + "/weights.npz", **leaves)
np.savez(sys.argv[1] + "/batch.npz", tokens=tokens, said=model(p, tokens))
"""

place = Path(tempfile.mkdtemp())
subprocess.run([sys.executable, "-c", OTHER_SIDE, str(place)], check=True)

model = lowering.import_stablehlo(place / "model.jax")
with np.load(place / "weights.npz") as file:
    names, weights = list(file), [file[name] for name in file]
with np.load(place / "batch.npz") as file:
    tokens, said = file["tokens"], file["said"]
assert "jax" not in sys.modules
print(
    f"{len(model.instructions)} operations, {sum(w.size for w in weights)} weights in {len(names)} arrays"
)

logits = model.run(*weights, tokens)
print(f"NumPy and JAX are {np.max(np.abs(logits - said)):.1e} apart")
np.testing.assert_allclose(logits, said, atol=1e-5)


def loss(weights: Any, tokens: Any) -> Any:
    """Return the mean negative log-likelihood of each next token."""
    scores = model(*weights, tokens)
    return -tnf.mean(tnf.take_along_axis(scores[:, :-1], tokens[:, 1:, None], axis=2))


step = tnf.jit(tnf.value_and_grad(loss))
losses = []
for _ in range(10):
    value, gradients = step(weights, tokens)
    losses.append(float(value))
    weights = [w - 0.5 * g for w, g in zip(weights, gradients, strict=True)]
print("loss", " ".join(f"{value:.3f}" for value in losses))
assert losses[-1] < 0.5 * losses[0]

norms = {name: float(np.linalg.norm(g)) for name, g in zip(names, gradients, strict=True)}
print("the largest gradient is that of", max(norms, key=lambda name: norms[name]))
