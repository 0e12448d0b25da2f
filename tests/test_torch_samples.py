"""PyTorch's samples.

The tables must be complete, the page up to date, and a selection of samples must agree.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, get_origin

import pytest

import tenferro as tnf
from tools.torch_samples.absent import ABSENT
from tools.torch_samples.differences import DIFFERENCES, difference_of
from tools.torch_samples.table import ROWS

PAGE = Path(__file__).parents[1] / "docs" / "torch_samples.md"
SELECTION = (
    *("abs", "clip", "lgamma", "where", "sum", "var", "sort", "concat", "at", "einsum"),
    *("linalg.eigh", "fft.rfft", "special.log_ndtr", "nn.layer_norm"),
)
"""Functions of each kind that this test runs. `make torch-samples` runs all functions."""


def public_functions() -> Iterator[str]:
    for prefix in ("", "linalg.", "nn.", "fft.", "special."):
        module = getattr(tnf, prefix[:-1]) if prefix else tnf
        for name in getattr(module, "__all__", dir(module)):
            member = getattr(module, name)
            is_function = callable(member) and not inspect.isclass(member)
            if name[0] != "_" and is_function and get_origin(member) is None:
                yield prefix + name


def test_each_public_function_has_rows_or_a_reason() -> None:
    names = set(public_functions())
    assert not names - set(ROWS) - set(ABSENT)
    assert not set(ROWS) & set(ABSENT)
    assert set(ABSENT) <= names


@pytest.mark.parametrize("name", ROWS)
def test_rows_name_a_function(name: str) -> None:
    assert callable(reduce(getattr, name.split("."), tnf))
    assert ROWS[name]


def test_each_difference_is_needed() -> None:
    section = PAGE.read_text().partition("## Differences on purpose")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| `.*\| (\d+) \| (.*) \|$", section, re.MULTILINE)
    assert [words for _, words in lines] == [entry.words for entry in DIFFERENCES.values()]
    assert all(int(count) > 0 for count, _ in lines)


def test_a_difference_explains_its_own_outcome_alone() -> None:
    outcome = "DTypeError: fabs: takes real numbers, got c128[2]"
    assert difference_of("fabs", "value", "complex128", outcome) == "complex order"
    assert difference_of("fabs", "value", "complex128", "off by 1 where 0.1 is allowed") is None
    words = "off by 1 where 0.1 is allowed"
    assert difference_of("nextafter", "vjp", "float64", words) == "neighbours"
    assert difference_of("nextafter", "value", "float64", words) is None


@pytest.fixture(scope="module")
def campaign() -> Any:
    pytest.importorskip("torch")
    with pytest.WarningsRecorder(_ispytest=True):
        from tools.torch_samples import campaign
    return campaign


@pytest.mark.filterwarnings("ignore")  # PyTorch's samples call deprecated functions
@pytest.mark.parametrize("name", SELECTION)
def test_a_selection_agrees(campaign: Any, name: str) -> None:
    for unit in campaign.units([name]):
        record = campaign.record_of(unit, 1)
        assert not record["failures"], record


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (lambda x, dim=None, keepdim=False: tnf.sum(x, axis=dim, keepdims=keepdim) * (1 + 1e-12), "value"),
        (lambda x, dim=None, keepdim=False: tnf.sum(tnf.stop_gradient(x), axis=dim, keepdims=keepdim), "jvp"),
        (lambda x, dim=None, keepdim=False: tnf.sum(tnf.stop_gradient(x), axis=dim, keepdims=keepdim), "vjp"),
    ],
)  # fmt: skip
def test_a_wrong_function_is_noticed(campaign: Any, wrong: Any, check: str) -> None:
    import torch

    from tools.torch_samples.row import Row

    record = campaign.record_of(("mean", Row("sum", ours=wrong), torch.float64), 2)
    assert any([f" {check}: off by" in failure for failure in record["failures"]])
