"""`tenferro.tree`: functions of trees, from `tenferro.api.tree`."""

from tenferro.api import tree as functions
from tenferro.api.tree import *  # noqa: F403  # because the names are this module's
from tenferro.counterparts import open_namespace

__doc__ = functions.__doc__
__all__: list[str] = []
__all__ += functions.__all__

open_namespace(globals(), __all__, "tnf.tree")
