"""Random arguments for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.dims import SymDim
from tenferro.errors import GuardError, InvalidConfigError, ShapeError
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["random_array", "random_arrays"]

TRIES = 64
"""Maximum number of draws of symbolic extents before an error; a draw must satisfy the guards of the program."""


def random_arrays(program: GraphProgram, generator: np.random.Generator) -> list[Any]:
    """Draw an array for each input of a program; a symbolic extent is drawn from 1 to 6.

    Floats are normally distributed, and integers are between 0 and 9.

    Raises:
        InvalidConfigError: none of `TRIES` draws of extents satisfies the program's guards.
    """
    extents = [extent for spec in program.input_specs for extent in spec.shape]
    symbols = sorted(
        {leaf for d in extents if isinstance(d, SymDim) for leaf in d.leaves()}, key=str
    )
    for _ in range(TRIES):
        bindings = {symbol: int(generator.integers(1, 7)) for symbol in symbols}
        try:
            shapes = [_concrete(spec, bindings) for spec in program.input_specs]
            program.bind(shapes)
        except (GuardError, ShapeError):
            continue
        return [
            random_array(TensorSpec.of(shape, spec.dtype), generator)
            for shape, spec in zip(shapes, program.input_specs, strict=True)
        ]
    raise InvalidConfigError(
        f"{program.name}: no extents between 1 and 6 satisfy {', '.join(map(str, program.guards))}; "
        "give arrays"
    )


def _concrete(spec: TensorSpec, bindings: Any) -> tuple[int, ...]:
    return tuple(
        [extent if isinstance(extent, int) else extent.evaluate(bindings) for extent in spec.shape]
    )


def random_array(spec: TensorSpec, generator: np.random.Generator) -> Any:
    """Draw an array of normally distributed floats, of integers from 0 to 9, or of bools."""
    dtype, shape = spec.dtype, spec.shape
    if dtype.is_bool:
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        return np.asarray(generator.integers(0, 10, shape)).astype(dtype.dtype)
    values = np.asarray(generator.standard_normal(shape))
    if dtype.is_complex:
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype.dtype)
