"""`tenferro.linalg`: linear algebra on matrices in the last two axes. Leading axes are batch axes.

Functions have the names and signatures of the Array API. Functions that the standard does not have follow NumPy or
SciPy. Supported dtypes are float32, float64, complex64 and complex128; integers are converted to float64.

Source: Array API standard 2024.12, extension "linalg"; `numpy.linalg`; `scipy.linalg`.
"""

from tenferro.api.linalg import equations, factors, functions, matrices, powers, structured
from tenferro.api.linalg.equations import *  # noqa: F403  # because the names are this module's
from tenferro.api.linalg.factors import *  # noqa: F403  # because the names are this module's
from tenferro.api.linalg.functions import *  # noqa: F403  # because the names are this module's
from tenferro.api.linalg.matrices import *  # noqa: F403  # because the names are this module's
from tenferro.api.linalg.powers import *  # noqa: F403  # because the names are this module's
from tenferro.api.linalg.structured import *  # noqa: F403  # because the names are this module's

__all__: list[str] = []
__all__ += equations.__all__
__all__ += factors.__all__
__all__ += functions.__all__
__all__ += matrices.__all__
__all__ += powers.__all__
__all__ += structured.__all__
