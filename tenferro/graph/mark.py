"""Marks: instructions of a graph that only affect differentiation, and that programs omit.

A `Mark` gives some of its inputs new names. Programs are built as if the old names had been used.
Differentiation calls the mark for the tangents of the new names. In this way a graph represents custom
derivatives, stopped gradients and checkpointed regions.

An `Opaque` is a linear map that has only a transpose. It exists between linearisation and transposition; a
program that needs its values raises an error.
"""

from __future__ import annotations

from typing import Any

from tenferro.errors import ADRuleUnsupportedError
from tenferro.types import TensorSpec

__all__ = ["Alias", "Mark", "Opaque", "StopGradient"]


class Mark:
    """Mark, whose output i is input `takes[i]` under a new name.

    Equal marks are not merged.

    Attributes:
        is_kept: whether programs keep the mark in addition to their instructions, so that it defines the
            derivative of a call of the program in a trace.
    """

    __slots__ = ("takes",)
    has_effects = False
    is_kept = False

    def __init__(self, takes: tuple[int, ...]) -> None:
        self.takes = takes

    @property
    def name(self) -> str:
        """Text in a printed program."""
        return type(self).__name__

    @property
    def token(self) -> Any:
        """The mark itself, because marks are not merged."""
        return self

    @property
    def key(self) -> Any:
        """Key that the same mark has in every trace of a function; None if there is no such key."""
        return (type(self), self.takes)

    def specialize(self, bindings: Any) -> Mark:
        """Return the mark itself, because it has no extents."""
        return self

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the types of the inputs that it renames."""
        return tuple([inputs[position] for position in self.takes])

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the inputs whose tangents the mark needs."""
        return self.takes

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return the tangents of the outputs; None is zero. `mode` is "forward", or "reverse" when the result
        will be transposed.
        """
        return tuple(tangents[index] for index in self.takes)

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Return the cotangents of the linear inputs; None is zero."""
        x_bars: list[Any] = [None] * len(inputs)
        for index, y_bar in zip(self.takes, y_bars, strict=True):
            if y_bar is not None and linear[index]:
                x_bars[index] = y_bar if x_bars[index] is None else x_bars[index] + y_bar
        return tuple(x_bars)

    def __str__(self) -> str:
        return self.name


class Alias(Mark):
    """Mark that gives each input a fresh name, with respect to which a function can be differentiated."""

    __slots__ = ()


class StopGradient(Mark):
    """Mark whose output differentiation treats as a constant."""

    __slots__ = ()

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return no inputs."""
        return ()

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return a zero tangent."""
        return (None,) * len(self.takes)


class Opaque:
    """A linear map of its last inputs, defined only by its transpose.

    Attributes:
        types: the types of the outputs.
        first_linear: the number of the first linear input.
        refusal: the message of the error when a program needs the values.
    """

    __slots__ = ("first_linear", "refusal", "types")
    has_effects = False

    def __init__(self, types: tuple[TensorSpec, ...], first_linear: int, refusal: str) -> None:
        self.types = types
        self.first_linear = first_linear
        self.refusal = refusal

    @property
    def name(self) -> str:
        """Text in a printed program."""
        return type(self).__name__

    key = None

    @property
    def token(self) -> Any:
        """The map itself, because maps are not merged."""
        return self

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the types of the outputs."""
        return self.types

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Return the cotangents of the linear inputs; None is zero."""
        raise NotImplementedError

    def refuse(self) -> ADRuleUnsupportedError:
        """Return the error for a program that needs the values."""
        return ADRuleUnsupportedError(self.refusal)

    def __str__(self) -> str:
        return self.name
