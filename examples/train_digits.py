"""Train a classifier of handwritten digits by one training step that runs natively and through PJRT.

Adam trains a perceptron with one hidden layer on the whole training set. The step (loss, gradient, update) is one
program: it is traced once and run both natively and by XLA. The two curves of the loss must be equal, up to rounding.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from digits import DATA, accuracy

import tenferro as tnf
from xla_peer import XlaExecutor

STEPS = 150
HIDDEN = 96
RATE = 0.01

Tree = dict[str, Any]


def logits(weights: Tree, images: Any) -> Any:
    """Return the scores of the ten digits for each image; their softmax gives the probabilities."""
    hidden = tnf.tanh(images / 16.0 @ weights["w0"] + weights["b0"])
    return hidden @ weights["w1"] + weights["b1"]


def loss(weights: Tree, images: Any, labels: Any) -> Any:
    """Return the mean cross entropy, plus 1e-4 times the sum of the squared weights."""
    scores = tnf.log_softmax(logits(weights, images))
    chosen = tnf.take_along_axis(scores, tnf.expand_dims(labels, axis=1), axis=1)
    decay = sum(tnf.sum(weights[name] ** 2) for name in ("w0", "w1"))
    return -tnf.mean(chosen) + 1e-4 * decay


def step(state: Tree, images: Any, labels: Any) -> Any:
    """Take one step of Adam; return the new state, and the loss before the step."""
    value, gradient = tnf.value_and_grad(loss)(state["weights"], images, labels)
    time = state["time"] + 1.0
    new: Tree = {"weights": {}, "mean": {}, "square": {}, "time": time}
    for name, g in gradient.items():
        mean = 0.9 * state["mean"][name] + 0.1 * g
        square = 0.999 * state["square"][name] + 0.001 * g * g
        scale = tnf.sqrt(square / (1.0 - 0.999**time)) + 1e-8
        new["weights"][name] = state["weights"][name] - RATE * mean / (1.0 - 0.9**time) / scale
        new["mean"][name], new["square"][name] = mean, square
    return new, value


def initial() -> Tree:
    """Return the initial state of Adam: small random weights, zero moments, and the time 0."""
    generator = np.random.default_rng(0)
    weights = {
        "w0": generator.normal(size=(64, HIDDEN)) / 8,
        "b0": np.zeros(HIDDEN),
        "w1": generator.normal(size=(HIDDEN, 10)) / np.sqrt(HIDDEN),
        "b1": np.zeros(10),
    }
    zeros = {name: np.zeros_like(w) for name, w in weights.items()}
    return {"weights": weights, "mean": zeros, "square": zeros, "time": np.zeros(())}


def train(executor: Any, program: tnf.GraphProgram, images: Any, labels: Any) -> tuple[Tree, Any]:
    """Take all training steps; return the weights, and the loss of each step."""
    state, curve = initial(), []
    for _ in range(STEPS):
        state, value = executor.run(program, state, images, labels)
        curve.append(float(value))
    return state["weights"], np.array(curve)


def main() -> None:
    with np.load(DATA) as data:
        images, labels = data["images"].astype(float), data["labels"].astype(np.int64)
    held_out = np.arange(len(labels)) % 4 == 0
    seen = images[~held_out], labels[~held_out]
    program = tnf.compile(step, initial(), *seen)
    print(f"training step: {len(program.instructions)} instructions, {len(seen[1])} images")
    curves = []
    for name, executor in (("native", tnf.GraphExecutor()), ("PJRT", XlaExecutor("cpu"))):
        began = time.perf_counter()
        weights, curve = train(executor, program, *seen)
        seconds = time.perf_counter() - began
        right = accuracy(
            np.asarray(tnf.softmax(logits(weights, images[held_out]))), labels[held_out]
        )
        curves.append(curve)
        print(
            f"{name:<7} loss {curve[0]:.4f} -> {curve[-1]:.4f} in {seconds:.1f} s, "
            f"{right:.4f} of the {held_out.sum()} held-out images right"
        )
        assert right > 0.97
    apart = np.max(np.abs(curves[0] - curves[1]) / curves[0])
    print(f"the two curves are {apart:.1e} apart at most, relative")
    assert apart < 1e-6


if __name__ == "__main__":
    main()
