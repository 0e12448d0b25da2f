"""Inspection of the namespace by array libraries.

Source: Array API standard 2024.12, section "Inspection".
"""

from __future__ import annotations

from typing import Any

from tenferro.api.data_types import isdtype
from tenferro.api.device import DEVICE, check_device
from tenferro.errors import InvalidConfigError
from tenferro.types import DType

__all__ = ["API_VERSIONS", "ArrayNamespaceInfo", "__array_namespace_info__", "check_version"]

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""Versions of the standard that the namespace implements."""


def check_version(api_version: str | None) -> None:
    """Check that the namespace implements a version of the Array API standard; None means any version.

    Raises:
        InvalidConfigError: the namespace does not implement this version.
    """
    if api_version is not None and api_version not in API_VERSIONS:
        raise InvalidConfigError(
            f"the Array API version {api_version!r} is not one of {', '.join(API_VERSIONS)}"
        )


class ArrayNamespaceInfo:
    """Description of the namespace for array libraries: its capabilities, devices and dtypes.

    >>> import tenferro as tnf
    >>> info = tnf.__array_namespace_info__()
    >>> info.default_device(), info.default_dtypes()["real floating"]
    ('cpu', DType.F64)
    """

    def __repr__(self) -> str:
        return f"<ArrayNamespaceInfo of tenferro, Array API {API_VERSIONS[-1]}>"

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities by name.

        Masks and data-dependent shapes need the elements of arrays, so they are not supported in traces. The maximum
        number of axes, 64, is that of NumPy.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the only device, "cpu"."""
        return DEVICE

    def devices(self) -> list[str]:
        """Return all devices."""
        return [DEVICE]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the default dtype of each kind of numbers, and of indices."""
        check_device("default_dtypes", device)
        return {
            "real floating": DType.F64,
            "complex floating": DType.C64,
            "integral": DType.I64,
            "indexing": DType.I64,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return dtypes of the standard by name: all of them, or those of `kind`, which `isdtype` explains.

        Narrow dtypes, float16 and bfloat16 are missing, because they are additions of tenferro to the standard.
        """
        check_device("dtypes", device)
        common = [dtype for dtype in DType if not dtype.is_narrow]
        return {
            dtype.value: dtype
            for dtype in common
            if dtype not in (DType.F16, DType.BF16) and (kind is None or isdtype(dtype, kind))
        }


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807  # because the standard calls it so
    """Return the namespace's capabilities, devices and dtypes."""
    return ArrayNamespaceInfo()
