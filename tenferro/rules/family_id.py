"""Ids of extension families: `<package>.<name>.v<major>`.

Source: docs/specification/identity.md.
"""

from __future__ import annotations

import re
from typing import Any

from tenferro.errors import MalformedFamilyIdError

__all__ = ["by_version", "check_family_id", "major_version"]

FAMILY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.[A-Za-z_][A-Za-z0-9_]*\.v(0|[1-9][0-9]*)")


def check_family_id(family_id: Any) -> str:
    """Check that an id has the form `<package>.<name>.v<major>`, and return it.

    Raises:
        MalformedFamilyIdError: the id has another form.

    >>> check_family_id("tenferro-ext-tropical.fused_dot_general.v1")
    'tenferro-ext-tropical.fused_dot_general.v1'
    """
    if not isinstance(family_id, str) or not FAMILY_ID.fullmatch(family_id):
        raise MalformedFamilyIdError(
            f"family_id {family_id!r} does not match the namespaced format "
            "<package>.<name>.v<major>, such as my-package.fft.v1"
        )
    return family_id


def major_version(family_id: str) -> int:
    """Return the major version that is part of a family id.

    >>> major_version("my-package.fft.v2")
    2
    """
    return int(family_id.rpartition(".v")[2])


def by_version(family_id: str) -> tuple[str, int]:
    """Return the key that sorts ids by name, then numerically by version: v9 before v10.

    >>> sorted(["demo.fft.v10", "demo.fft.v9", "demo.dct.v2"], key=by_version)
    ['demo.dct.v2', 'demo.fft.v9', 'demo.fft.v10']
    """
    return family_id.rpartition(".v")[0], major_version(family_id)
