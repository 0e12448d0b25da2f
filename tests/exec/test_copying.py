"""Copies into another order: the same elements, whichever way the blocks are cut."""

import numpy as np
import pytest

from tenferro.exec import copying
from tenferro.exec.copying import Dense
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers

SHAPES = [
    (2,) * 12,
    (3, 5, 2, 7, 2, 3, 4),
    (40, 70),
    (130, 3, 129),
    (2, 3000),
    (3000, 2),
    (17, 1, 19, 1, 23),
    (1100, 2, 3),
    (5,),
    (0, 4),
    (),
]


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small arrays are cut into blocks."""
    monkeypatch.setattr(copying, "SMALLEST", 0)
    monkeypatch.setattr(copying, "NEAR", 1)


@pytest.fixture(params=["strips", "tiles"])
def collisions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the steps of every array lead to the same places of the cache."""
    if request.param == "tiles":
        monkeypatch.setattr(copying, "TURNED", 0)
        monkeypatch.setattr(copying, "COLLIDING", 1)
        monkeypatch.setattr(copying, "TILE", 4)


@pytest.mark.usefixtures("small_caches", "collisions")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_permutation_is_copied(shape: tuple[int, ...], order: str) -> None:
    rng = np.random.default_rng(0)
    dense = Dense(order, Resources(Workers(2), Pool(0)))
    for dtype in ("float64", "int8", "complex128"):
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        for perm in [tuple(range(x.ndim))[::-1], *[rng.permutation(x.ndim) for _ in range(4)]]:
            view = x.transpose(perm)
            if view.ndim and rng.random() < 0.5:
                view = np.flip(view, rng.integers(view.ndim))
            copy = dense(view)
            assert copy.flags.c_contiguous if order == "C" else copy.flags.f_contiguous
            assert copy.dtype == view.dtype
            assert not np.may_share_memory(copy, x)
            assert np.array_equal(copy, view)


@pytest.mark.usefixtures("small_caches")
def test_repeated_elements_and_gaps_are_copied() -> None:
    x = np.arange(6000.0).reshape(60, 100)
    copies = {order: Dense(order) for order in ("C", "F")}
    for view in (np.broadcast_to(x[:, :1, None], (60, 100, 30)), x[::3, ::7], x[::-2, ::-1].T):
        for dense in copies.values():
            assert np.array_equal(dense(view), view)


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_are_copied_on_threads(order: str) -> None:
    """By NumPy too, where neighbours of the one are neighbours of the other."""
    dense = Dense(order, Resources(Workers(2), Pool(0)))
    x = np.arange(1_600_000.0)
    for view in (
        x.reshape(800, 2000)[::-1],
        x[::-1],
        x.reshape(100, 20, 800)[:, ::2],
        x.reshape(800, 2000).T,
    ):
        copy = dense(view)
        assert not np.may_share_memory(copy, x) or copy is view
        assert np.array_equal(copy, view)
