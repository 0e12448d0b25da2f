"""Native passes: each a pure function from program to program, in a file named for what it does."""

from collections.abc import Callable

from tenferro.program import GraphProgram

__all__ = ["NATIVE_PASSES"]

NATIVE_PASSES: tuple[Callable[[GraphProgram], GraphProgram], ...] = ()
"""What the native path applies, in this order."""
