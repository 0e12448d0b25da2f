"""SciPy's functions of eager tensors, and the gradient of one of these functions.

SciPy calls the functions of its arguments' namespace if SCIPY_ARRAY_API is set before SciPy is imported. Tenferro then
computes the operations, and records them for `backward`.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
from scipy import fft, integrate, signal, special, stats

import tenferro as tnf

rt = tnf.EagerRuntime()
data = np.random.default_rng(0).normal(size=(50, 3))
x = rt.variable(data)

CALLS = {
    "stats.zscore": lambda x: stats.zscore(x),
    "stats.skew": lambda x: stats.skew(x, axis=0),
    "stats.pearsonr": lambda x: stats.pearsonr(x[:, 0], x[:, 1]).statistic,
    "special.logsumexp": lambda x: special.logsumexp(x, axis=1),
    "signal.detrend": lambda x: signal.detrend(x, axis=0),
    "fft.fft": lambda x: fft.fft(x, axis=0),
    "integrate.trapezoid": lambda x: integrate.trapezoid(x, axis=0),
}
for name, call in CALLS.items():
    result, wanted = call(x), call(data)
    assert isinstance(result, tnf.EagerTensor)
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-10, atol=1e-12)
    print(f"{name:20} {result.spec}")

tnf.sum(special.logsumexp(x, axis=1)).backward()
np.testing.assert_allclose(x.grad, special.softmax(data, axis=1), rtol=1e-12)
print("the gradient of the sum of logsumexp is softmax:", x.grad[0])
