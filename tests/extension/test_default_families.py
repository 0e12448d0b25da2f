"""tenferro's own families must be loaded when one of them is looked up for the first time, and not before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tenferro.program import families


class Interrupted(BaseException):
    pass


def test_an_interruption_while_they_load_does_not_lose_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[int] = []

    def make() -> Iterable[Any]:
        attempts.append(1)
        if len(attempts) == 1:
            raise Interrupted
        return ()

    assert families.registered_family("tenferro.fft.v1") is not None
    monkeypatch.setattr(families, "_default_families", [make])
    with pytest.raises(Interrupted):
        families.registered_family("tenferro.fft.v1")
    assert families.registered_family("tenferro.fft.v1") is not None
    assert len(attempts) == 2
