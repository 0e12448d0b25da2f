"""A wrong value from XLA on CPU, reported in tensorflow/tensorflow 57744, and the parity check's report on it."""

import numpy as np

import tenferro as tnf
import xla_peer


def log_power(x, y):
    return tnf.log(x**y)


if __name__ == "__main__":
    x, y = np.array([10.0, 3.0], "float32"), np.array([40.0, 2.0], "float32")
    print(xla_peer.check_parity(log_power, x, y))
