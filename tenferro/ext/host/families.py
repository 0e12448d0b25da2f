"""Ops that check a condition, or call a Python function, when a running program reaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.errors import CheckFailedError
from tenferro.extension import ExtensionOp, extension_family
from tenferro.types import DType, TensorSpec

__all__ = ["Callback", "Check"]


@extension_family("tenferro", "check", version=1)
@dataclass(frozen=True)
class Check(ExtensionOp):
    """Raise `template.format(*values)` as an error unless all elements of the condition are true.

    The operands are the result of the previous effect, the condition, and the values. The output is always False. It is
    the first operand of the next effect, and this dependence keeps the effects in order.

    Attributes:
        template: a format string with numbered fields, as in "x={0}, y={1:.3f}".
        count: the number of values.
        batch_rank: the number of leading batch axes of the condition and of all values.
    """

    template: str
    count: int
    batch_rank: int = 0
    effects = True

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of operands: the result of the previous effect, the condition, and the values."""
        return 2 + self.count

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(DType.Bool, ())]

    def failure(self, inputs: Sequence[Any]) -> CheckFailedError | None:
        """Return the error for the first example of the batch whose condition is false; None if all are true."""
        _, condition, *values = inputs
        condition = np.asarray(condition)
        if condition.all():
            return None
        axes = tuple(range(self.batch_rank, condition.ndim))
        index = tuple(map(int, np.argwhere(~condition.all(axis=axes))[0]))
        text = self.template.format(*[np.asarray(value)[index] for value in values])
        where = f" (example {', '.join(map(str, index))} of the batch)" if index else ""
        return CheckFailedError(f"check: {text}{where}")


@extension_family("tenferro", "pure_callback", version=1)
@dataclass(frozen=True, eq=False)
class Callback(ExtensionOp):
    """Call of a Python function on arrays.

    Attributes:
        function: a function from arrays to a list of arrays.
        results: the types of the results.
        count: the number of operands.
        method: how the function is called for a batch; see `tenferro.pure_callback`.
        effects: whether calls have effects, so that their order must be kept. Then the first operand is the result of
            the previous effect, and the first result is False, which becomes an operand of the next effect.
    """

    function: Callable[..., Sequence[Any]]
    results: tuple[TensorSpec, ...]
    count: int
    method: str | None = None
    effects: bool = False  # pyright: ignore[reportIncompatibleVariableOverride]  # because the payload decides

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of arguments."""
        return self.count

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it depends on the payload
        """The number of results."""
        return len(self.results)

    def payload_hash(self) -> int:
        return hash((self.function, self.results, self.count, self.method, self.effects))

    def payload_eq(self, other: Any) -> bool:
        return (
            isinstance(other, Callback)
            and self.function == other.function
            and (self.results, self.count, self.method, self.effects)
            == (other.results, other.count, other.method, other.effects)
        )

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return list(self.results)
