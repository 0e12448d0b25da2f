"""Warnings that are shown at most once per process."""

from __future__ import annotations

import warnings

__all__ = ["warn_once"]

_warned: set[type[Warning]] = set()


def warn_once(message: str, category: type[Warning]) -> None:
    """Warn, unless the process has already shown a warning of this category through this function."""
    if category not in _warned:
        _warned.add(category)
        warnings.warn(message, category, stacklevel=2)
