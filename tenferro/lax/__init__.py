"""`tenferro.lax`: low-level functions, with the names and signatures of `jax.lax`.

The functions neither promote nor broadcast: operands of different dtypes or shapes are errors. There are two
exceptions: a Python number takes the dtype of the tensor operand, and a tensor of rank 0 is broadcast. Most functions
are one op.

Source: the module `jax.lax`.
"""

from tenferro.api.control import associative_scan, cond, fori_loop, map, scan, switch, while_loop
from tenferro.api.custom import stop_gradient
from tenferro.api.implicit import custom_linear_solve, custom_root
from tenferro.api.precision import Precision
from tenferro.counterparts import open_namespace
from tenferro.lax import (
    barrier,
    collectives,
    convolution,
    elementwise,
    fourier,
    linalg,
    products,
    shaping,
    sharding,
    slicing,
    special,
    windows,
)
from tenferro.lax.barrier import *  # noqa: F403  # because the names are this module's
from tenferro.lax.collectives import *  # noqa: F403  # because the names are this module's
from tenferro.lax.convolution import *  # noqa: F403  # because the names are this module's
from tenferro.lax.elementwise import *  # noqa: F403  # because the names are this module's
from tenferro.lax.fourier import *  # noqa: F403  # because the names are this module's
from tenferro.lax.products import *  # noqa: F403  # because the names are this module's
from tenferro.lax.shaping import *  # noqa: F403  # because the names are this module's
from tenferro.lax.sharding import *  # noqa: F403  # because the names are this module's
from tenferro.lax.slicing import *  # noqa: F403  # because the names are this module's
from tenferro.lax.special import *  # noqa: F403  # because the names are this module's
from tenferro.lax.windows import *  # noqa: F403  # because the names are this module's

__all__ = [
    "Precision",
    "associative_scan",
    "cond",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "linalg",
    "map",
    "scan",
    "stop_gradient",
    "switch",
    "while_loop",
]
__all__ += barrier.__all__
__all__ += collectives.__all__
__all__ += convolution.__all__
__all__ += elementwise.__all__
__all__ += fourier.__all__
__all__ += products.__all__
__all__ += shaping.__all__
__all__ += sharding.__all__
__all__ += slicing.__all__
__all__ += special.__all__
__all__ += windows.__all__

open_namespace(globals(), __all__, "tnf.lax")
