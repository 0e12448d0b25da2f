"""Names of NumPy and `jax.numpy`: each is here, or has a counterpart or a reason; and the same call gives the same values."""

from __future__ import annotations

import types
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from tenferro.counterparts import ABSENT, COUNTERPARTS

R = np.random.default_rng(3)
A, B = R.normal(size=(4, 3)), R.normal(size=(4, 3))
V, W = R.normal(size=5), R.normal(size=5)
K, J = R.integers(-20, 20, (3, 4)), R.integers(-20, 20, (4,))
HOLES = np.where(R.random((4, 5)) < 0.3, np.nan, R.normal(size=(4, 5)))
C = A + 1j * B
P, Q = np.array([3.0, 0.0, -1.0, 2.0]), np.array([2.0, 1.0])
BYTES = R.integers(0, 256, (2, 3)).astype(np.uint8)
SMALL = np.array([0.0, -0.0, 1.0, -3.5, 5e-324, -1e-310, 1.7e308, np.inf, -np.inf, np.nan])
with np.errstate(all="ignore"):
    SMALL_F4, SMALL_F2 = SMALL.astype("f4"), SMALL.astype("f2")
ROWS = np.array([[1, 2], [0, 5], [1, 2], [0, 4], [0, 5]])


def public(module: Any) -> list[str]:
    """The public names of a module that are no modules."""
    names = [name for name in dir(module) if not name.startswith("_")]
    return [n for n in names if not isinstance(getattr(module, n, None), types.ModuleType)]


@pytest.mark.parametrize("module", [np, jnp], ids=["numpy", "jax.numpy"])
def test_every_name_is_here_or_has_a_reason(module: Any) -> None:
    known = {*dir(tnf), *ABSENT, *COUNTERPARTS["tnf"]}
    # What an older release still has is deprecated, and gone from the newest.
    assert {name for name in public(module) if name not in known} <= {"fix", "in1d", "trapz"}


def test_no_name_is_in_two_lists() -> None:
    assert not set(ABSENT) & set(dir(tnf))
    assert not set(ABSENT) & set(COUNTERPARTS["tnf"])


def test_the_reason_is_told() -> None:
    with pytest.raises(tnf.errors.MissingNameError, match=r"numpy\.loadtxt returns"):
        tnf.loadtxt  # noqa: B018  # because the attribute raises
