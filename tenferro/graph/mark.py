"""Marks: notes to differentiation that a graph carries and a program does not.

A `Mark` gives some of its inputs new names. Programs are built without it, as if the old names had been
used; differentiation asks it for the tangents. So a custom derivative, a stopped gradient, or a
checkpointed region are stated in the graph where they apply.

An `Opaque` is a linear map that only its transpose can compute. It lives between linearisation and
transposition; a program that needs its value is refused.
"""

from __future__ import annotations

from typing import Any

from tenferro.errors import ADRuleUnsupportedError
from tenferro.types import TensorSpec

__all__ = ["Alias", "Mark", "Opaque", "StopGradient"]


class Mark:
    """Output i is input `takes[i]`, under a new name.

    Marks are never shared: each is a separate node.

    Attributes:
        is_kept: whether a program keeps it beside its instructions, so that a call of the program in a trace is
            differentiated by it.
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
        """The mark itself, because no two are shared."""
        return self

    @property
    def key(self) -> Any:
        """Key by which traces of one function share the mark, or None."""
        return (type(self), self.takes)

    def specialize(self, bindings: Any) -> Mark:
        """Return the mark itself, because it has no extents."""
        return self

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the types of the inputs that it names."""
        return tuple([inputs[position] for position in self.takes])

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the inputs with tangents that matter."""
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
    """A fresh name for each input: a value to differentiate with respect to, however it was computed."""

    __slots__ = ()


class StopGradient(Mark):
    """The input as a constant."""

    __slots__ = ()

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return no inputs."""
        return ()

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return a zero tangent."""
        return (None,) * len(self.takes)


class Opaque:
    """A linear map of its last inputs, defined by its transpose alone.

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
        """The map itself, because no two are shared."""
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
