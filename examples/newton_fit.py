"""Fit a logistic regression with SciPy's trust-region Newton method, whose curvature comes from `hvp`.

The Hessian is never formed: the conjugate gradients in the method need only Hessian-vector products, which are forward
derivatives of the gradient. At the result, the gradient must be small, and the loss must agree with that of L-BFGS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from digits import DATA
from scipy import optimize

import tenferro as tnf


def main() -> None:
    with np.load(DATA) as data:
        images, labels = data["images"] / 16.0, data["labels"].astype(np.int64)
    shape = (64, 10)

    def loss(flat: Any) -> Any:
        """Return the mean cross entropy of ten classes, plus 1e-3 times the sum of the squared weights."""
        scores = tnf.log_softmax(images @ tnf.reshape(flat, shape))
        chosen = tnf.take_along_axis(scores, labels[:, None], axis=1)
        return -tnf.mean(chosen) + 1e-3 * tnf.sum(flat * flat)

    value_and_gradient = tnf.jit(tnf.value_and_grad(loss))
    product = tnf.jit(lambda flat, v: tnf.hvp(loss, (flat,), (v,)))
    start = np.zeros(np.prod(shape))
    results = {
        "trust-ncg with hvp": optimize.minimize(
            value_and_gradient,
            start,
            jac=True,
            hessp=product,
            method="trust-ncg",
            options={"gtol": 1e-8},
        ),
        "L-BFGS": optimize.minimize(
            value_and_gradient,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"gtol": 1e-8, "ftol": 1e-15, "maxiter": 2000},
        ),
    }
    for name, result in results.items():
        slope = np.max(np.abs(value_and_gradient(result.x)[1]))
        print(f"{name:<18} loss {result.fun:.12f} after {result.nit} steps, gradient {slope:.1e}")
    newton, lbfgs = results.values()
    assert abs(newton.fun - lbfgs.fun) < 1e-10
    assert newton.nit < lbfgs.nit


if __name__ == "__main__":
    main()
