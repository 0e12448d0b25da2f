"""A convolutional network with dropout, Adam and checkpoints, for PyTorch users.

Images have shape [batch, features, height, width], kernels [out, in, height, width].
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro import nn

BATCH, EPOCHS, RATE = 64, 6, 3e-3


def initial(key: Any) -> dict[str, Any]:
    he = nn.initializers.he_normal(in_axis=1, out_axis=0)
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "dense": (10, 32 * 2 * 2)}
    keys = tnf.random.split(key, len(shapes))
    params = {name: he(k, shapes[name], "float32") for name, k in zip(shapes, keys, strict=True)}
    return params | {"bias": np.zeros(10, np.float32)}


def logits(params: dict[str, Any], images: Any, key: Any = None) -> Any:
    x = images.astype("float32") / 16
    for name in ("conv1", "conv2"):
        x = nn.relu(nn.conv(x, params[name], padding=1, data_format="NCHW"))
        x = nn.max_pool(x, 2, data_format="NCHW")
    x = x.reshape(images.shape[0], -1)
    x = x if key is None else nn.dropout(key, x, 0.25)  # without a key: no dropout, for evaluation
    return x @ params["dense"].T + params["bias"]


def loss(params: dict[str, Any], images: Any, labels: Any, key: Any) -> Any:
    chosen = nn.one_hot(labels, 10, dtype="float32")
    return -tnf.mean(tnf.sum(nn.log_softmax(logits(params, images, key)) * chosen, axis=1))


OPTIMISER = tnf.optim.adam(RATE)


@tnf.jit
def step(params: Any, state: Any, images: Any, labels: Any, key: Any) -> Any:
    value, gradient = tnf.value_and_grad(loss)(params, images, labels, key)
    updates, state = OPTIMISER.update(gradient, state, params)
    return tnf.optim.apply_updates(params, updates), state, value


def main() -> None:
    with np.load(Path(__file__).parent / "data" / "digits.npz") as data:
        images, labels = data["images"].reshape(-1, 1, 8, 8), data["labels"].astype(np.int64)
    held_out = np.arange(len(labels)) % 4 == 0
    key = tnf.random.key(0)
    params = initial(key)
    state = OPTIMISER.init(params)
    file = Path(tempfile.mkdtemp()) / "checkpoint.safetensors"
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(np.flatnonzero(~held_out))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch, key = order[start : start + BATCH], tnf.random.fold_in(key, start)
            params, state, value = step(params, state, images[batch], labels[batch], key)
        print(f"epoch {epoch}: loss {float(value):.3f}")
        tnf.tree.save(params, file)
    restored = tnf.tree.load(file)
    right = logits(restored, images[held_out]).argmax(axis=-1) == labels[held_out]
    print(f"accuracy on images not trained on: {right.mean():.1%}")
    assert right.mean() > 0.95


if __name__ == "__main__":
    main()
