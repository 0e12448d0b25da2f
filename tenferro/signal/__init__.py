"""`tenferro.signal`: convolutions, windows and spectra, with the names and values of `scipy.signal`.

The functions are composed of convolutions and Fourier transforms, so they have derivatives of any order. Windows and
frequencies are constants.

Source: SciPy 1.16, reference, scipy.signal; `jax.scipy.signal` for the choice of names.
"""

from tenferro.counterparts import open_namespace
from tenferro.signal import convolution, spectral
from tenferro.signal.convolution import *  # noqa: F403  # because the names are this module's
from tenferro.signal.spectral import *  # noqa: F403  # because the names are this module's

__all__: list[str] = []
__all__ += convolution.__all__
__all__ += spectral.__all__

open_namespace(globals(), __all__, "tnf.signal")
