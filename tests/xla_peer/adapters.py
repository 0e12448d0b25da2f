"""Adapters of imaginary compilers for tests. Their results are right or wrong, or they are slow or crash."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any


def version() -> str:
    return "7"


def doubled(module: str, arrays: Sequence[Any]) -> list[Any]:
    assert "stablehlo" in module
    return [x + x for x in arrays]


def refused(module: str, arrays: Sequence[Any]) -> list[Any]:
    raise NotImplementedError("it takes no such module")


def crashed(module: str, arrays: Sequence[Any]) -> list[Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return []


def left(module: str, arrays: Sequence[Any]) -> list[Any]:
    print("about to leave")
    os._exit(7)


def slow(module: str, arrays: Sequence[Any]) -> list[Any]:
    time.sleep(600)
    return []


def objects(module: str, arrays: Sequence[Any]) -> list[Any]:
    import numpy as np

    return [np.array([None])]


def names(module: str) -> str:
    return module.upper()
