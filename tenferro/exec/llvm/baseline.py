"""Baseline compilation: the first tier, without LLVM's passes, for a call that would otherwise wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.ir import (
    Declaration,
    Function,
    Instruction,
    Loop,
    Module,
    Region,
    Structure,
)
from tenferro.exec.llvm.vectorise import NotVectorisedError, VectorLoop, VectorVariants

__all__ = ["BASELINE_PENALTY", "Work", "baseline_module", "pass_time"]

PASS_TIME, PASS_TIME_PER_LINE = 5e6, 100e3
"""Estimated time of LLVM's passes and of each line of text in them, in nanoseconds."""
BASELINE_PENALTY = 0.08
"""Estimated time that an instruction takes longer without passes, in nanoseconds."""
VECTOR_INSTRUCTION_COST = 2
"""Cost of a vector instruction without passes, in scalar instructions."""
VECTOR_LINE_TIME = 8e3
"""Estimated time to compile a line with vectors without passes, in nanoseconds."""


class Work(NamedTuple):
    """Estimated number of instructions of a call.

    instructions: total in one iteration of a while loop, or in the call
    innermost:    part of each innermost loop, by the label of its block
    iterations:   assumed iterations of a while loop; otherwise 1
    """

    instructions: int
    innermost: Mapping[str, int] = {}
    iterations: int = 1

    @classmethod
    def from_code(cls, code: Code, iterations: int = 1) -> Work:
        """Return the work of a written function."""
        return cls(code.work, code.innermost, iterations)

    def times(self, calls: int) -> Work:
        """Return the work of several calls."""
        innermost = {label: calls * work for label, work in self.innermost.items()}
        return self._replace(instructions=calls * self.instructions, innermost=innermost)


def pass_time(module: Module) -> float:
    """Return the estimated time of LLVM's passes, in nanoseconds."""
    return PASS_TIME + PASS_TIME_PER_LINE * module.text.count("\n")


def baseline_module(module: Module, work: Work, lanes: int) -> Module | None:
    """Return the module for compilation without passes, with loops vectorised where that saves time.

    Args:
        lanes: number of float64 in the processor's widest vectors.

    Returns:
        None if the passes save more time in this call than they take.
    """
    left, innermost = float(work.instructions), dict(work.innermost)
    gain = BASELINE_PENALTY * (1 - VECTOR_INSTRUCTION_COST / lanes)
    variants = VectorVariants(module.all_functions)
    functions: dict[str, Function | Declaration] = {}

    def vectorised(loop: Loop) -> VectorLoop | None:
        nonlocal left
        # Count a label once, because another function of the module may have it too.
        saved = innermost.pop(loop.label, 0) * gain
        # The body and the next index.
        if saved * work.iterations < VECTOR_LINE_TIME * (len(loop.body) + 1):
            return None
        try:
            vectors = VectorLoop(loop, lanes, variants)
        except NotVectorisedError:
            return None
        new = [x for name, x in vectors.functions.items() if name not in functions]
        lengths = [x.length + 1 for x in new if isinstance(x, Function)]
        if saved * work.iterations < VECTOR_LINE_TIME * (len(vectors.body) + sum(lengths)):
            return None
        functions.update(vectors.functions)
        left -= saved / BASELINE_PENALTY
        return vectors

    plain = {**module.functions, **module.late_functions}
    rewritten = {name: _rewritten(x, vectorised) for name, x in plain.items()}
    if left * BASELINE_PENALTY > pass_time(module):
        return None
    return Module(module.globals, {**functions, **rewritten})


def _rewritten(
    function: Function | Declaration, vectorised: Callable[[Loop], VectorLoop | None]
) -> Function | Declaration:
    """Return a function with its innermost loops vectorised."""
    if isinstance(function, Declaration):
        return function
    region, is_changed = _rewritten_region(function.region, vectorised)
    return replace(function, region=region) if is_changed else function


def _rewritten_region(
    region: Region, vectorised: Callable[[Loop], VectorLoop | None]
) -> tuple[Region, bool]:
    """Return a region with its innermost loops vectorised, and whether there are any."""
    result: Region = []
    for x in region:
        new: Instruction | Structure = x
        if isinstance(x, Loop) and x.is_block:
            new = vectorised(x) or x
        elif isinstance(x, Loop):
            body, is_changed = _rewritten_region(x.body, vectorised)
            new = replace(x, body=body) if is_changed else x
        result.append(new)
    return result, any([new is not x for new, x in zip(result, region, strict=True)])
