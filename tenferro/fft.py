"""`tenferro.fft`: Fourier transforms, from `tenferro.api.fft`."""

from tenferro.api import fft as functions
from tenferro.api.fft import *  # noqa: F403  # because the names are this module's
from tenferro.counterparts import open_namespace

__doc__ = functions.__doc__
__all__: list[str] = []
__all__ += functions.__all__

open_namespace(globals(), __all__, "tnf.fft")
