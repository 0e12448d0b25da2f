"""`tenferro.special`: special functions, with the names and signatures of `jax.scipy.special`.

The functions here are real functions of real tensors. They are composed of standard ops, so they run on every peer and
have derivatives of every order. They promote and broadcast their operands like the functions of `tenferro`. float16 and
bfloat16 are computed in float32 and rounded once. The docstring of a function states its error bound in native
execution, in units in the last place (ulps) of float64 or float32.

Source: jax.scipy.special for names and signatures, SciPy for values at the ends of domains.
"""

from tenferro.counterparts import open_namespace
from tenferro.special import (
    bessel,
    cylinder,
    entropies,
    gammas,
    hypergeometric,
    incomplete,
    integrals,
    normal,
    spherical,
    sums,
)
from tenferro.special.bessel import *  # noqa: F403  # because the names are this module's
from tenferro.special.cylinder import *  # noqa: F403  # because the names are this module's
from tenferro.special.entropies import *  # noqa: F403  # because the names are this module's
from tenferro.special.gammas import *  # noqa: F403  # because the names are this module's
from tenferro.special.hypergeometric import *  # noqa: F403  # because the names are this module's
from tenferro.special.incomplete import *  # noqa: F403  # because the names are this module's
from tenferro.special.integrals import *  # noqa: F403  # because the names are this module's
from tenferro.special.normal import *  # noqa: F403  # because the names are this module's
from tenferro.special.spherical import *  # noqa: F403  # because the names are this module's
from tenferro.special.sums import *  # noqa: F403  # because the names are this module's

__all__: list[str] = []
__all__ += bessel.__all__
__all__ += cylinder.__all__
__all__ += entropies.__all__
__all__ += gammas.__all__
__all__ += hypergeometric.__all__
__all__ += incomplete.__all__
__all__ += integrals.__all__
__all__ += normal.__all__
__all__ += spherical.__all__
__all__ += sums.__all__

open_namespace(globals(), __all__, "tnf.special")
