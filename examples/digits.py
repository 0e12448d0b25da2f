"""The forward pass of a small classifier of handwritten digits, natively and through PJRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from xla_peer import XlaExecutor, check_parity

DATA = Path(__file__).parent / "data" / "digits.npz"


def probabilities(weights: dict[str, Any], images: Any) -> Any:
    """Return the probabilities of the ten digits, by a perceptron, for images of 64 pixels from 0 to 16."""
    x = tnf.astype(images, "float32") / 16
    hidden = tnf.maximum(x @ weights["w0"] + weights["b0"], 0)
    return tnf.softmax(hidden @ weights["w1"] + weights["b1"])


def load() -> tuple[dict[str, Any], Any, Any]:
    """Return the weights, and the images and labels that were not used to fit the weights."""
    with np.load(DATA) as data:
        held_out = np.arange(len(data["labels"])) % 4 == 0
        weights = {name: data[name] for name in ("w0", "b0", "w1", "b1")}
        return weights, data["images"][held_out], data["labels"][held_out]


def accuracy(scores: Any, labels: Any) -> float:
    """Return the fraction of images whose most probable digit equals the label."""
    return float(np.mean(scores.argmax(-1) == labels))


def main() -> None:
    weights, images, labels = load()
    program = tnf.compile(probabilities, weights, tnf.TensorSpec(("n", 64), "uint8"))
    xla = XlaExecutor("cpu")
    native, peer = program.run(weights, images), xla.run(program, weights, images)
    print(f"digits: {len(labels)} images that the weights were not fitted to")
    print(f"native  {accuracy(native, labels):.4f} right")
    print(f"PJRT    {accuracy(peer, labels):.4f} right\n")
    print(check_parity(program, weights, images, executor=xla))


if __name__ == "__main__":
    main()
