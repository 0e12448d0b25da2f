"""`tenferro.random`: random numbers from keys. They are the same natively and through XLA.

A key is two uint32 numbers, and there is no other state. The random bits of a key are the results of the generator
Threefry-2x32 for the counters 0, 1, 2, and so on. The bits depend neither on the order of computation nor on the
machine, and are the same eagerly and in a program. Use a key only once: `split` and `fold_in` derive independent keys.

Bits, integers, permutations and uniform numbers in [0, 1) equal those of `jax.random` with its default generator. The
last bits of numbers computed by a logarithm or by erfinv differ between the native executor and XLA.

By default, floats are float64 and integers are int64. Samples of continuous distributions, even if drawn by rejection,
have derivatives with respect to the parameters. Samples of discrete distributions have no derivatives.

>>> from tenferro import random
>>> key = random.key(0)
>>> first, second = random.split(key)
>>> random.uniform(first, (3,), dtype="float32")
array([0.8423141 , 0.18237865, 0.2271781 ], dtype=float32)

Source: Salmon, Moraes, Dror and Shaw (SC 2011) for the generator; `jax.random` for functions and signatures.
"""

from tenferro.api.random import continuous, discrete, gammas, generator
from tenferro.api.random.continuous import *  # noqa: F403  # because the names are this module's
from tenferro.api.random.discrete import *  # noqa: F403  # because the names are this module's
from tenferro.api.random.gammas import *  # noqa: F403  # because the names are this module's
from tenferro.api.random.generator import *  # noqa: F403  # because the names are this module's

__all__: list[str] = []
__all__ += continuous.__all__
__all__ += discrete.__all__
__all__ += gammas.__all__
__all__ += generator.__all__
