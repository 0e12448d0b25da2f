"""Train a small transformer in jax.numpy to continue sequences, by SGD; `transformer.py` does so with tenferro."""

import jax
import jax.numpy as jnp
import numpy as np

TOKENS, LENGTH, WIDTH, HEADS, LAYERS = 11, 12, 32, 2, 2
STEPS, RATE = 120, 0.5


def initial(key):
    init = jax.nn.initializers.normal(0.2)
    keys = iter(jax.random.split(key, 2 + 4 * LAYERS))
    matrix = lambda *shape: init(next(keys), shape, "float32")
    params = {"embed": matrix(TOKENS, WIDTH), "place": matrix(LENGTH, WIDTH), "layers": []}
    for _ in range(LAYERS):
        layer = {"qkv": matrix(WIDTH, 3 * WIDTH), "out": matrix(WIDTH, WIDTH)}
        layer |= {"up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH)}
        params["layers"].append(layer)
    return params


def attention(layer, x):
    qkv = (x @ layer["qkv"]).reshape(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
    q, k, v = (qkv[:, :, i] for i in range(3))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ layer["out"]


def logits(params, tokens):
    x = params["embed"][tokens] + params["place"][: tokens.shape[1]]
    for layer in params["layers"]:
        x = x + attention(layer, jax.nn.standardize(x))
        x = x + jax.nn.gelu(jax.nn.standardize(x) @ layer["up"]) @ layer["down"]
    return jax.nn.standardize(x) @ params["embed"].T


def loss(params, tokens):
    scores = jax.nn.log_softmax(logits(params, tokens[:, :-1]))
    wanted = jax.nn.one_hot(tokens[:, 1:], TOKENS, dtype="float32")
    return -jnp.mean(jnp.sum(scores * wanted, axis=-1))


@jax.jit
def step(params, tokens):
    value, gradient = jax.value_and_grad(loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradient), value


def train():
    rng = np.random.default_rng(0)
    params, losses = initial(jax.random.key(0)), []
    for _ in range(STEPS):
        start, stride = rng.integers(0, TOKENS, (2, 32, 1))
        tokens = (start + stride * np.arange(LENGTH)) % TOKENS
        params, value = step(params, tokens.astype("int32"))
        losses.append(float(value))
    return losses


if __name__ == "__main__":
    losses = train()
    print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {STEPS} steps")
