"""Combinations of gradient transformations: sequences, and transformations of some of the parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

from tenferro.api import tree
from tenferro.api.optim.transformation import GradientTransformation
from tenferro.errors import ArityError
from tenferro.types import ArrayLike, PyTree

__all__ = ["chain", "masked"]


def chain(*args: GradientTransformation) -> GradientTransformation:
    """Return a transformation that applies several transformations in order. Its state is the tuple of their states.

    Raises:
        ArityError: in `update`, the number of states differs from the number of transformations.

    Source: optax.chain.
    """

    def init(params: PyTree) -> tuple[Any, ...]:
        return tuple([transformation.init(params) for transformation in args])

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        if len(state) != len(args):
            raise ArityError(
                f"chain: {len(args)} transformations need as many states, got {len(state)}; "
                "give what init or the last update gave"
            )
        states: list[Any] = []
        for transformation, own in zip(args, state, strict=True):
            updates, following = transformation.update(updates, own, params)
            states.append(following)
        return updates, tuple(states)

    return GradientTransformation(init, update)


class MaskedNode(NamedTuple):
    """Tree without leaves that replaces a parameter for which the mask is False."""


class MaskedState(NamedTuple):
    """State of the inner transformation, whose trees have a `MaskedNode` where the mask is False."""

    inner_state: Any


def masked(inner: GradientTransformation, mask: ArrayLike) -> GradientTransformation:
    """Return a transformation that applies `inner` only where the mask is True, and leaves the other updates unchanged.

    Args:
        mask: a tree of booleans that is a prefix of the parameters' tree, or a function from the parameters to such a
            tree.

    Source: optax.masked.
    """

    def mask_of(params: PyTree) -> Any:
        return mask(params) if callable(mask) else mask

    def chosen(mask_tree: PyTree, params: PyTree) -> Any:
        return tree.map(lambda is_on, p: p if is_on else MaskedNode(), mask_tree, params)

    def init(params: PyTree) -> MaskedState:
        return MaskedState(inner.init(chosen(mask_of(params), params)))

    def update(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[Any, Any]:
        mask_tree = mask_of(updates)
        own = None if params is None else chosen(mask_tree, params)
        changed, following = inner.update(chosen(mask_tree, updates), state.inner_state, own)
        merged = tree.map(
            lambda is_on, new, old: new if is_on else old, mask_tree, changed, updates
        )
        return merged, MaskedState(following)

    return GradientTransformation(init, update)
