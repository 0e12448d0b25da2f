"""Every name of NumPy and `jax.numpy` must exist in tenferro, have a listed counterpart, or have a reason."""

from __future__ import annotations

import types
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.signal
import numpy as np
import pytest
import scipy.linalg

import tenferro as tnf
from tenferro.counterparts import ABSENT, COUNTERPARTS, reason_of_absence

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
    """Return the public names of a module that are not modules."""
    names = [name for name in dir(module) if not name.startswith("_")]
    return [n for n in names if not isinstance(getattr(module, n, None), types.ModuleType)]


NAMESPACES: dict[str, tuple[Any, list[Any]]] = {
    "tnf": (tnf, [np, jnp]),
    "tnf.lax": (tnf.lax, [jax.lax]),
    "tnf.lax.linalg": (tnf.lax.linalg, [jax.lax.linalg]),
    "tnf.nn": (tnf.nn, [jax.nn]),
    "tnf.signal": (tnf.signal, [jax.scipy.signal]),
    "tnf.linalg": (tnf.linalg, [np.linalg, jnp.linalg, jax.scipy.linalg, scipy.linalg]),
}
"""Modules that correspond to each namespace of tenferro.

Each of their names must exist in the namespace, or have a counterpart or a reason for its absence.
"""


@pytest.mark.parametrize("shown", NAMESPACES)
def test_every_name_is_here_or_has_a_reason(shown: str) -> None:
    here, modules = NAMESPACES[shown]
    known = {*dir(here), *COUNTERPARTS.get(shown, ())}
    names = {name for module in modules for name in public(module)} - known
    # All remaining names are deprecated, and exist only in older releases of NumPy.
    assert {name for name in names if reason_of_absence(shown, name) is None} <= {
        "fix",
        "in1d",
        "trapz",
    }


def test_no_name_is_in_two_lists() -> None:
    for shown, (here, _) in NAMESPACES.items():
        assert not ABSENT.get(shown, {}).keys() & {*dir(here)}
        assert not ABSENT.get(shown, {}).keys() & COUNTERPARTS.get(shown, {}).keys()


def test_the_reason_is_told() -> None:
    with pytest.raises(tnf.errors.MissingNameError, match=r"numpy\.loadtxt returns"):
        tnf.loadtxt  # noqa: B018  # because the attribute raises
    with pytest.raises(tnf.errors.MissingNameError, match=r"tnf\.lax has no 'add_p'; primitives"):
        tnf.lax.add_p  # noqa: B018  # because the attribute raises
