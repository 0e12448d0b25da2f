"""The device of the Array API: there is only one, because executors decide where programs run."""

from __future__ import annotations

from tenferro.errors import InvalidConfigError

__all__ = ["DEVICE", "check_device"]

DEVICE = "cpu"


def check_device(name: str, device: str | None) -> None:
    """Check that `device` is None or "cpu".

    Raises:
        InvalidConfigError: `device` is another device.
    """
    if device is not None and device != DEVICE:
        raise InvalidConfigError(
            f'{name}: arrays must be on the device "{DEVICE}", got {device!r}; an executor takes a program elsewhere'
        )
