"""Planner for einsum: opt_einsum finds an order of contractions.

Source: opt_einsum (Smith and Gray, 2018, doi:10.21105/joss.00753).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.extension import ExtensionCacheKey

__all__ = [
    "PLANS",
    "Path",
    "checked_optimize",
    "plan",
    "plan_info",
    "require_bounded",
    "unbounded",
    "waits_for_extents",
]

PLANS = ExtensionCacheKey("tenferro.einsum.v1", "plans")
"""Key of the cache of paths, whose keys are the op with the shapes of the operands."""

Path = tuple[tuple[int, ...], ...]
"""Positions of the operands that each step contracts. The result of a step is appended to the remaining operands."""

TYPICAL_EXTENT = 32
"""Number that replaces a symbolic extent in planning. It affects only the speed of the einsum, not its result."""


MOST_OPERANDS = {"optimal": 8, "branch-all": 8, "branch-2": 20}
"""Maximum number of operands for optimisers that try every order; the number of orders grows factorially."""

MOST_NEIGHBOURS = 10
"""Maximum number of neighbours of an operand for optimisers that enumerate connected sets of operands.

Two operands are neighbours if they share a summed label. With n neighbours there are at least 2 ** n connected sets.
"""


def require_bounded(optimize: Any, inputs: Sequence[str], output: str) -> None:
    """Require that the optimiser `optimize` finds a path for these operands within seconds.

    Raises:
        InvalidConfigError: the optimiser may take too long.

    >>> require_bounded("optimal", ["ab", "bc", "cd"], "ad")
    """
    reason = unbounded(optimize, inputs, output)
    if reason is not None:
        raise InvalidConfigError(reason)


def unbounded(optimize: Any, inputs: Sequence[str], output: str) -> str | None:
    """Return the reason why the optimiser may take too long for these operands; None if it is fast enough."""
    name = optimize[0] if isinstance(optimize, tuple) and optimize else optimize
    most = MOST_OPERANDS.get(name) if isinstance(name, str) else None
    if most is not None and len(inputs) > most:
        return (
            f"einsum: optimize={name!r} tries orders one by one, and takes {most} operands at most, got "
            f"{len(inputs)}; write 'auto' or 'dp', or an optimiser of your own, such as opt_einsum.paths.BranchBound()"
        )
    if name not in ("dp", "dynamic-programming", "auto-hq"):
        return None
    summed = [set(labels) - set(output) for labels in inputs]
    densest = max([sum(1 for y in summed if x & y) - 1 for x in summed], default=0)
    if densest <= MOST_NEIGHBOURS:
        return None
    return (
        f"einsum: optimize={name!r} goes through all connected parts, and takes operands that share summed labels "
        f"with {MOST_NEIGHBOURS} others at most, got one with {densest}; write 'auto' or 'random-greedy', or an "
        "optimiser of your own, such as opt_einsum.DynamicProgramming()"
    )


def checked_optimize(optimize: Any, operands: int) -> Any:
    """Return the normal form of the argument `optimize`: a name, a path, an opt_einsum optimiser, or (name, limit).

    True becomes "auto". False becomes the empty path, which contracts from left to right.

    Raises:
        InvalidConfigError: `optimize` has none of these forms, or is a path for another number of operands.

    >>> checked_optimize(True, 3), checked_optimize(["einsum_path", (1, 2), (0, 1)], 3)
    ('auto', ((1, 2), (0, 1)))
    """
    if optimize is True or optimize is None or optimize == "auto":
        return "auto"
    if optimize is False:
        return ()
    if isinstance(optimize, str):
        import opt_einsum

        names = sorted(opt_einsum.paths._PATH_OPTIONS)  # pyright: ignore  # because it has no other list
        if optimize not in names:
            raise InvalidConfigError(
                f"einsum: optimize must be one of {', '.join(names)}, got {optimize!r}"
            )
        return optimize
    if callable(optimize) and _is_optimiser(optimize):
        return optimize
    if isinstance(optimize, tuple | list):
        steps: list[Any] = list(optimize)
        if steps[:1] == ["einsum_path"]:
            steps = steps[1:]
        elif len(steps) == 2 and isinstance(steps[0], str) and isinstance(steps[1], int | float):
            return (checked_optimize(steps[0], operands), int(steps[1]))
        try:
            path = tuple([tuple([position.__index__() for position in step]) for step in steps])
        except (TypeError, AttributeError):
            path = None
        if path is not None:
            _completed(path, operands)
            return path
    raise InvalidConfigError(
        "einsum: optimize must be True, False, the name of an optimiser, (name, memory limit), a path, or "
        f"an opt_einsum optimiser, got {optimize!r:.80}"
    )


def _is_optimiser(optimize: Any) -> bool:
    import opt_einsum

    return isinstance(optimize, opt_einsum.paths.PathOptimizer)


def _is_path(optimize: Any) -> bool:
    return isinstance(optimize, tuple) and not (optimize and isinstance(optimize[0], str))


def waits_for_extents(operands: int, optimize: Any) -> bool:
    """Return whether the path depends on the extents, so that it cannot be planned before they are known."""
    return operands > 2 and not _is_path(optimize)


def plan(inputs: Sequence[str], output: str, shapes: Sequence[Any], optimize: Any) -> Path:
    """Plan the path for operands of these shapes.

    Raises:
        InvalidConfigError: an explicit path does not fit the operands.

    >>> plan(("ij", "jk", "kl"), "il", ((2, 9), (9, 9), (9, 2)), "optimal")
    ((0, 1), (0, 1))
    """
    if _is_path(optimize):
        return _completed(optimize, len(inputs))
    if not waits_for_extents(len(inputs), optimize):
        return _completed((), len(inputs))
    steps, _ = plan_info(inputs, output, shapes, optimize)
    return _completed(tuple(steps), len(inputs))


def plan_info(
    inputs: Sequence[str], output: str, shapes: Sequence[Any], optimize: Any
) -> tuple[list[tuple[int, ...]], Any]:
    """Return the path, and opt_einsum's report on it: its cost, its scaling and its largest intermediate value."""
    import opt_einsum  # imported here, because the import takes as long as NumPy's

    require_bounded(optimize, inputs, output)
    limit = None
    if isinstance(optimize, tuple) and optimize and isinstance(optimize[0], str):
        optimize, limit = optimize
    elif _is_path(optimize):
        optimize = list(_completed(optimize, len(inputs)))
    extents = [
        tuple([extent if isinstance(extent, int) else TYPICAL_EXTENT for extent in shape])
        for shape in shapes
    ]
    names = _names("".join(inputs))
    distinct = "".join(dict.fromkeys(output))
    equation = (",".join(inputs) + "->" + distinct).translate(names)
    steps, info = opt_einsum.contract_path(
        equation, *extents, shapes=True, optimize=optimize, memory_limit=limit
    )
    return [tuple(step) for step in steps], info


def _names(labels: str) -> dict[int, str]:
    """Return a map from labels that are not letters to symbols of opt_einsum that are not used as labels."""
    import opt_einsum

    letters = set(labels)
    symbols = map(opt_einsum.get_symbol, count())
    free = (symbol for symbol in symbols if symbol not in letters)
    return {ord(label): next(free) for label in dict.fromkeys(labels) if not label.isalpha()}


def _completed(steps: Path, operands: int) -> Path:
    """Return `steps`, followed by steps that contract the remaining operands from left to right."""
    path: list[tuple[int, ...]] = []
    left = operands
    for step in steps:
        if (
            not step
            or len(set(step)) != len(step)
            or not all(0 <= position < left for position in step)
        ):
            raise InvalidConfigError(
                f"einsum: step {tuple(step)} of the path does not name some of {left} operands"
            )
        path.append(tuple(step))
        left += 1 - len(step)
    return (*path, *[(0, 1)] * (left - 1))
