"""`tenferro.optimize`: minimization, from `tenferro.api.optimize`."""

from tenferro.api import optimize as functions
from tenferro.api.optimize import *  # noqa: F403  # because the names are this module's
from tenferro.counterparts import open_namespace

__doc__ = functions.__doc__
__all__: list[str] = []
__all__ += functions.__all__

open_namespace(globals(), __all__, "tnf.optimize")
