"""`tenferro.random`: random numbers from keys, from `tenferro.api.random`."""

from tenferro.api import random as functions
from tenferro.api.random import *  # noqa: F403  # because the names are this module's
from tenferro.counterparts import open_namespace

__doc__ = functions.__doc__
__all__: list[str] = []
__all__ += functions.__all__

open_namespace(globals(), __all__, "tnf.random")
