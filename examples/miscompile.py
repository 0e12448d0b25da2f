"""Show a wrong value that XLA computes on CPU (tensorflow issue 57744), and the report of the parity check about it."""

import numpy as np

import tenferro as tnf
import xla_peer


def log_power(x, y):
    return tnf.log(x**y)


if __name__ == "__main__":
    x, y = np.array([10.0, 3.0], "float32"), np.array([40.0, 2.0], "float32")
    print(xla_peer.check_parity(log_power, x, y))
