"""Warnings that a process gives once."""

from __future__ import annotations

import warnings

__all__ = ["warn_once"]

_warned: set[type[Warning]] = set()


def warn_once(message: str, category: type[Warning]) -> None:
    """Warn once per process and category."""
    if category not in _warned:
        _warned.add(category)
        warnings.warn(message, category, stacklevel=2)
