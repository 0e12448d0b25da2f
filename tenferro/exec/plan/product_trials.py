"""Trials of products: whether the call of NumPy's loop that a line would make gives the bits of the step, on random arrays
that lie as the operands do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.exec.llvm.numpy_products import Product, product_of, tried
from tenferro.exec.schedule import ExecInstruction
from tenferro.types import TensorSpec

__all__ = ["ProductTrials"]

TRIALS = 4
"""Random operands of one product."""


class ProductTrials:
    """Trials of the products of a schedule, each once for operands that lie alike.

    Args:
        types: of its slots.
        orders: slots whose arrays are row-major with their axes in this order; all others are row-major.
        views: the steps that make views, by their slots.
    """

    def __init__(
        self,
        types: Sequence[TensorSpec],
        orders: Mapping[int, tuple[int, ...]],
        views: Mapping[int, ExecInstruction],
    ) -> None:
        self.types, self.orders, self.views = types, orders, views
        self._outcomes: dict[Any, bool] = {}

    def is_known(self, step: ExecInstruction) -> bool:
        """Whether a step is a call of the loop, and its result lies as that writes it."""
        op: Any = step.op
        (y,) = step.output_slots
        rng = np.random.default_rng(0)
        operands = self._operands(step, rng)
        product = product_of(op, *operands)
        if product is None or product.order != self.orders.get(y, ()):
            return False
        key = op, *[(x.shape, x.strides, x.dtype) for x in operands], operands[0] is operands[1]
        if key not in self._outcomes:
            trials = [self._operands(step, rng) for _ in range(TRIALS)]
            self._outcomes[key] = all([_gives_bits(step, product, *each) for each in trials])
        return self._outcomes[key]

    def _operands(self, step: ExecInstruction, rng: np.random.Generator) -> list[Any]:
        """Random operands of a product, which lie as they do in a run."""
        arrays: dict[int, Any] = {}

        def array_of(slot: int) -> Any:
            chain = list[ExecInstruction]()
            while slot in self.views:
                chain.append(self.views[slot])
                (slot,) = chain[-1].input_slots
            if slot not in arrays:
                arrays[slot] = self._random(rng, slot)
            x = arrays[slot]
            for view in reversed(chain):
                x = view.function(x)
            return x

        lhs, rhs = map(array_of, step.input_slots)
        return [lhs, lhs if step.input_slots[0] == step.input_slots[1] else rhs]

    def _random(self, rng: np.random.Generator, slot: int) -> Any:
        """Random numbers as a value lies."""
        spec = self.types[slot]
        parts = 2 if spec.dtype.is_complex else 1
        x = rng.standard_normal((*spec.shape, parts)) * 8
        x = (x.view(np.complex128) if parts == 2 else x)[..., 0]
        if spec.dtype.is_integer:
            x = rng.integers(0, 100, spec.shape)
        order = self.orders.get(slot, range(spec.rank))
        x = np.ascontiguousarray(x.astype(spec.dtype.dtype).transpose(order))
        return x.transpose(np.argsort(order))


def _gives_bits(step: ExecInstruction, product: Product, lhs: Any, rhs: Any) -> bool:
    """Whether a call gives the bits of a step."""
    call = tried(product, lhs, rhs)
    call = call.swapaxes(-1, -2) if product.is_turned else call
    return call.tobytes() == np.asarray(step.function(lhs, rhs)).tobytes()
