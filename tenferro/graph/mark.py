"""Marks: instructions of a graph that only affect differentiation, and that programs omit.

A `Mark` renames some of its inputs: the outputs are new names for these inputs. A program is built as if the old names
had been used. Differentiation asks the mark for the tangents of the new names. Marks represent custom derivatives,
stopped gradients and checkpointed regions.

An `Opaque` is a linear map of which only the transpose is defined. It exists between linearisation and transposition. A
program that needs the values of an `Opaque` raises an error.
"""

from __future__ import annotations

from typing import Any

from tenferro.errors import ADRuleUnsupportedError
from tenferro.types import TensorSpec

__all__ = ["Alias", "Mark", "Opaque", "StopGradient"]


class Mark:
    """An instruction whose output i is input `takes[i]` under a new name.

    Equal marks are not merged.

    Attributes:
        is_kept: whether programs contain the mark in addition to the instructions that it marks. If a trace calls such
            a program, the mark defines the derivative.
    """

    __slots__ = ("takes",)
    has_effects = False
    is_kept = False

    def __init__(self, takes: tuple[int, ...]) -> None:
        self.takes = takes

    @property
    def name(self) -> str:
        """The name of the mark in a printed program."""
        return type(self).__name__

    @property
    def token(self) -> Any:
        """Token by which a graph finds equal instructions: the mark itself, because marks are not merged."""
        return self

    @property
    def key(self) -> Any:
        """Key that identifies the mark in every trace of the same function; None if it cannot be identified."""
        return (type(self), self.takes)

    def specialize(self, bindings: Any) -> Mark:
        """Return the mark itself, because it has no symbolic extents to replace."""
        return self

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the types of the inputs that the mark renames."""
        return tuple([inputs[position] for position in self.takes])

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of the inputs whose tangents the mark needs."""
        return self.takes

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return the tangents of the outputs; None stands for zero.

        `mode` is "forward", or "reverse" if the result will be transposed.
        """
        return tuple(tangents[index] for index in self.takes)

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Return the cotangents of the linear inputs; None stands for zero."""
        x_bars: list[Any] = [None] * len(inputs)
        for index, y_bar in zip(self.takes, y_bars, strict=True):
            if y_bar is not None and linear[index]:
                x_bars[index] = y_bar if x_bars[index] is None else x_bars[index] + y_bar
        return tuple(x_bars)

    def __str__(self) -> str:
        return self.name


class Alias(Mark):
    """Mark that renames its inputs, so that derivatives with respect to the new names can be taken."""

    __slots__ = ()


class StopGradient(Mark):
    """Mark that renames its inputs, and whose outputs are constants for differentiation."""

    __slots__ = ()

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return an empty tuple, because the mark needs no tangents."""
        return ()

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return a zero tangent, None, for each output."""
        return (None,) * len(self.takes)


class Opaque:
    """Map that is linear in its last inputs, and of which only the transpose is defined.

    Attributes:
        types: the types of the outputs.
        first_linear: the position of the first linear input.
        refusal: the message of the error that is raised for a program that needs the outputs.
    """

    __slots__ = ("first_linear", "refusal", "types")
    has_effects = False

    def __init__(self, types: tuple[TensorSpec, ...], first_linear: int, refusal: str) -> None:
        self.types = types
        self.first_linear = first_linear
        self.refusal = refusal

    @property
    def name(self) -> str:
        """The name of the map in a printed program."""
        return type(self).__name__

    key = None

    @property
    def token(self) -> Any:
        """Token by which a graph finds equal instructions: the map itself, because maps are not merged."""
        return self

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the types of the outputs."""
        return self.types

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Return the cotangents of the linear inputs; None stands for zero."""
        raise NotImplementedError

    def refuse(self) -> ADRuleUnsupportedError:
        """Return the error that is raised for a program that needs the outputs of the map."""
        return ADRuleUnsupportedError(self.refusal)

    def __str__(self) -> str:
        return self.name
