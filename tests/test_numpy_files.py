"""The page of NumPy files must be up to date, and its files must compute what the page says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

pytest.importorskip("tenferro_ext_tropical")
from tools import numpy_files


def files() -> list[dict[str, Any]]:
    """Execute each file on the page; return the names that each of them defines."""
    spaces: list[dict[str, Any]] = []
    for block in re.findall(r"```py\n(.*?)```", numpy_files.PAGE.read_text(), re.DOTALL):
        space: dict[str, Any] = {}
        exec(block, space)  # the code is part of the page
        spaces.append(space)
    return spaces


def test_the_page_is_current_and_its_files_are_right() -> None:
    assert numpy_files.PAGE.read_text() == numpy_files.page(), "run python tools/numpy_files.py"
    classifier, path, fit = files()
    assert all("tenferro" not in name for space in (classifier, path, fit) for name in space)

    weights, images, labels = numpy_files.digits.load()
    found = classifier["probabilities"](weights, images)
    assert numpy_files.digits.accuracy(found, labels) > 0.9
    np.testing.assert_allclose(found.sum(1), 1.0, rtol=1e-6)

    lengths = np.array([[0, 3, 9, 20], [1, 0, 2, 9], [1, 1, 0, 4], [1, 1, 1, 0]], float)
    value, roads = path["length"](lengths)
    assert value == shortest_path(lengths)[0, -1] == 9
    assert set(zip(*np.nonzero(roads), strict=True)) == {(0, 1), (1, 2), (2, 3)}

    rates = {name: np.float64(0.9 * rate) for name, rate in numpy_files.ode_fit.TRUTH.items()}
    data = np.asarray(numpy_files.ode_fit.solution(numpy_files.ode_fit.TRUTH))[9::10]
    value, gradient = fit["misfit"](rates, data)
    for name, rate in rates.items():
        sides = [fit["misfit"]({**rates, name: rate * (1 + h)}, data)[0] for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(gradient[name], (sides[0] - sides[1]) / (2e-6 * rate), rtol=1e-6)
