"""Fixtures for the tests of packages that extend tenferro, found by pytest where tenferro is installed.

`assert_extension` takes what `tenferro.extension.check_extension` takes, and fails with its report:

    def test_entropy(assert_extension):
        assert_extension(Entropy(), [p], rules=rules, runtime=runtime)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["assert_extension"]


@pytest.fixture
def assert_extension() -> Callable[..., None]:
    """A function that fails, with the report, unless an op keeps the contract of extensions."""
    from tenferro.extension import check_extension  # because a run without it should not load it

    def check(op: Any, sample_inputs: Any, **options: Any) -> None:
        report = check_extension(op, sample_inputs, **options)
        assert report.ok, f"\n{report}"

    return check
