"""Window functions of signal processing, as float64 vectors of M samples.

The arguments are numbers, not tensors. A window is therefore computed at once. In a trace that uses the window, it is
a constant.

Source: NumPy 2.4, reference, section "Window functions".
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tenferro.errors import InvalidConfigError

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _samples(name: str, M: Any) -> int:  # noqa: N803  # because NumPy calls it so
    try:
        return operator.index(M)
    except TypeError:
        raise InvalidConfigError(
            f"{name}: the number of samples must be a known integer, got {M!r:.60}"
        ) from None


def bartlett(M: int) -> Any:  # noqa: N803  # because NumPy calls it so
    """Return the Bartlett window, a triangle that is 0 at both ends: 1 - |2 n / (M - 1) - 1|, for n from 0 to M - 1.

    Raises:
        InvalidConfigError: M is not an integer.

    >>> bartlett(5)
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return np.bartlett(_samples("bartlett", M))


def blackman(M: int) -> Any:  # noqa: N803
    """Return the Blackman window: 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)), for n from 0 to M - 1.

    Raises:
        InvalidConfigError: M is not an integer.

    >>> np.round(blackman(3), 6) + 0.0
    array([0., 1., 0.])
    """
    return np.blackman(_samples("blackman", M))


def hamming(M: int) -> Any:  # noqa: N803
    """Return the Hamming window: 0.54 - 0.46 cos(2 pi n / (M - 1)), for n from 0 to M - 1.

    Raises:
        InvalidConfigError: M is not an integer.

    >>> np.round(hamming(3), 6)
    array([0.08, 1.  , 0.08])
    """
    return np.hamming(_samples("hamming", M))


def hanning(M: int) -> Any:  # noqa: N803
    """Return the Hann window: 0.5 - 0.5 cos(2 pi n / (M - 1)), for n from 0 to M - 1.

    Raises:
        InvalidConfigError: M is not an integer.

    >>> hanning(5)
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return np.hanning(_samples("hanning", M))


def kaiser(M: int, beta: float) -> Any:  # noqa: N803
    """Return the Kaiser window: I0(beta sqrt(1 - (2 n / (M - 1) - 1)^2)) / I0(beta), for n from 0 to M - 1.

    I0 is the modified Bessel function of order 0.

    Raises:
        InvalidConfigError: M is not an integer.

    >>> kaiser(3, 0.0)
    array([1., 1., 1.])
    """
    return np.kaiser(_samples("kaiser", M), beta)
