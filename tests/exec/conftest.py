"""Fixture that verifies every LLVM module before a test of this folder compiles it."""

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
