"""Native execution of Fourier transforms, by SciPy's pocketfft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.extension import ExtensionCaches, ExtensionRuntime, Routine

__all__ = ["FftRuntime"]


class FftRuntime(ExtensionRuntime):
    """Runtime of Fourier transforms. SciPy's pocketfft caches its own plans."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def compiled_routine(self, op: Any) -> Routine:
        """Return the transform that compiled code calls.

        Its results differ from those of `execute` in the last bits.
        """
        return Routine("fft", kind=op.kind, lengths=op.lengths)

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Transform x by SciPy's n-dimensional function for the op's kind."""
        from scipy import fft  # because importing scipy takes long

        (x,) = inputs
        axes = tuple(range(-len(op.lengths), 0))
        function = {"fft": fft.fftn, "ifft": fft.ifftn, "rfft": fft.rfftn, "irfft": fft.irfftn}
        return function[op.kind](x, op.lengths_of(x.shape), axes)
