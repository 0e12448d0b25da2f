"""Every module that is compiled in these tests is verified first."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest import mock

import pytest

from tenferro.exec.llvm import link
from tests.exec.llvm_verifier import verify


@pytest.fixture(scope="session", autouse=True)
def modules_are_verified() -> Generator[None]:
    compiled = link._compiled

    def verified(module: Any, *arguments: Any, **options: Any) -> bytes:
        verify(module)
        return compiled(module, *arguments, **options)

    with mock.patch.object(link, "_compiled", verified):
        yield
