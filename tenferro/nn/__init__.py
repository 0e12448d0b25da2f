"""`tenferro.nn`: functions of neural networks, with the names and signatures of `jax.nn`, and convolutions and pooling.

All are plain functions of tensors: parameters are arguments, in any pytree. The functions promote and broadcast like
the functions of `tenferro`.

Source: the module `jax.nn`; Flax for pooling.
"""

from tenferro.counterparts import open_namespace
from tenferro.nn import (
    activations,
    attention,
    convolution,
    gaussian,
    initializers,
    normalization,
    probabilities,
    products,
)
from tenferro.nn.activations import *  # noqa: F403  # because the names are this module's
from tenferro.nn.attention import *  # noqa: F403  # because the names are this module's
from tenferro.nn.convolution import *  # noqa: F403  # because the names are this module's
from tenferro.nn.gaussian import *  # noqa: F403  # because the names are this module's
from tenferro.nn.normalization import *  # noqa: F403  # because the names are this module's
from tenferro.nn.probabilities import *  # noqa: F403  # because the names are this module's
from tenferro.nn.products import *  # noqa: F403  # because the names are this module's

__all__ = ["initializers"]
__all__ += activations.__all__
__all__ += attention.__all__
__all__ += convolution.__all__
__all__ += gaussian.__all__
__all__ += normalization.__all__
__all__ += probabilities.__all__
__all__ += products.__all__

open_namespace(globals(), __all__, "tnf.nn")
