"""Programs of benchmarks/jax_users: native results must equal NumPy's, and gradients must equal finite differences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from xla_peer import native

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "benchmarks" / "jax_users")]

from chance import CHANCE  # noqa: E402  # needs the path
from differential_equations import DIFFERENTIAL_EQUATIONS  # noqa: E402
from grids import GRIDS  # noqa: E402
from small_carries import SMALL_CARRIES  # noqa: E402
from user_program import UserProgram  # noqa: E402

PROGRAMS = [*SMALL_CARRIES, *DIFFERENTIAL_EQUATIONS, *CHANCE, *GRIDS]
SLOW_BY_HAND = ("32 bodies, leapfrog", "game of life")
BY_HAND = [
    pytest.param(program, id=program.name, marks=[pytest.mark.sweep] * (program.name in SLOW_BY_HAND))
    for program in PROGRAMS
    if program.by_hand is not None
]  # fmt: skip
DIFFERENTIATED = [
    pytest.param(program, id=program.name)
    for program in PROGRAMS
    if program.name in ("rotations, 3 x 3 carry", "cubic spline", "hidden Markov model, forward")
]


@pytest.fixture(autouse=True)
def wide_numbers() -> Iterator[None]:
    """Enable JAX's 64-bit dtypes, as the benchmark does."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def test_there_are_twenty_programs_with_names_of_their_own() -> None:
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names) >= 20


@pytest.mark.parametrize("program", BY_HAND)
def test_results_are_those_by_hand(program: UserProgram) -> None:
    arguments = program.arguments()
    assert program.by_hand is not None
    expected = np.asarray(program.by_hand(*program.arguments()))
    result = native(program.function)(*arguments)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(result, expected, rtol=0, atol=program.tolerance * scale)


@pytest.mark.parametrize("program", DIFFERENTIATED)
def test_gradients_are_central_differences(program: UserProgram) -> None:
    arguments = list(program.arguments())
    function = native(program.differentiated())
    _, gradients = function(*arguments)
    number, step = program.gradient[0], 1e-6
    direction = np.random.default_rng(1).standard_normal(np.shape(arguments[number]))
    losses: list[float] = []
    for sign in (1, -1):
        moved = list(arguments)
        moved[number] = arguments[number] + sign * step * direction
        losses.append(float(function(*moved)[0]))
    difference = (losses[0] - losses[1]) / (2 * step)
    assert abs(difference) > 1e-3
    np.testing.assert_allclose(np.sum(gradients[0] * direction), difference, rtol=1e-5)
