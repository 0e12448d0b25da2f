"""Detection of functions that depend on the phases of singular vectors or eigenvectors, and so have no derivative.

A complex matrix does not determine the phases of its singular vectors: u_i e^(i phi) and v_i e^(i phi) are as valid as
u_i and v_i. A function that depends on the phases is not a function of the matrix, and has no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.api.elementwise import conj
from tenferro.api.linear import matmul
from tenferro.api.manipulation import matrix_transpose
from tenferro.dispatch.replay import applied
from tenferro.ext.linalg.families import Eig, Eigh, Svd
from tenferro.ops import StdTensorOp
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, Instruction
from tenferro.types import Tensor

__all__ = ["invariants", "phase_dependence"]

Outputs = Sequence[Any]
Rephasing = Callable[[Outputs, np.random.Generator], Outputs]


def invariants(op: StdTensorOp, outputs: Outputs) -> tuple[Any, ...]:
    """Return what the operands of an op determine uniquely: values, and products of vectors in which phases cancel.

    For an op without such vectors, return its outputs.
    """
    kind = type(op.op) if isinstance(op, Extension) and len(outputs) > 1 else None
    if kind in (Eigh, Eig):
        w, v = outputs
        return w, _outer(v, conj(v))
    if kind is Svd:
        u, s, vh = outputs
        v, k = matrix_transpose(vh), s.shape[-1]
        rest = [matmul(x, matrix_transpose(conj(x))) for x in (u[..., k:], v[..., k:])]
        return s, _outer(u[..., :k], v[..., :k]), *rest
    return tuple(outputs)


def _outer(x: Tensor, y: Tensor) -> Any:
    """Compute the outer products x[i, k] y[j, k] of the k-th columns of x and y."""
    return x[..., :, None, :] * y[..., None, :, :]


def phase_dependence(
    program: GraphProgram, inputs: Sequence[Any], generator: np.random.Generator
) -> str:
    """Describe the first op with vectors whose phases affect the outputs of the program; "" if there is none.

    The phases of the vectors are changed at random, and the outputs are compared.
    """
    values = dict(zip(program.input_slots, inputs, strict=True))
    for index, (instruction, _, outputs) in enumerate(applied(program.instructions, values)):
        rephased = _rephased(instruction.op, outputs, generator)
        if rephased is not None:
            rest = program.instructions[index + 1 :]
            plain = _outputs(program, rest, values)
            changed = {**values, **dict(zip(instruction.outputs, rephased, strict=True))}
            if not all(map(_is_close, plain, _outputs(program, rest, changed))):
                return _words(program, instruction)
    return ""


def _words(program: GraphProgram, instruction: Instruction) -> str:
    types = ", ".join([str(program.types[slot]) for slot in instruction.inputs])
    source = "" if instruction.source is None else f"\n  at {instruction.source}"
    return (
        f"the function depends on the phases of the vectors that {instruction.op} of {types} gives; "
        "these are arbitrary, so that it is not a function of the matrix and has no derivative: use values, "
        f"absolute values, or products such as u @ (f(s) * vh) in which the phases cancel{source}"
    )


def _rephased(op: StdTensorOp, outputs: Outputs, generator: np.random.Generator) -> Outputs | None:
    """Change the phases of the vectors that an op returns at random. Return None if the op has no free phases."""
    family = type(op.op) if isinstance(op, Extension) and len(outputs) > 1 else None
    rephase = None if family is None else REPHASINGS.get(family)
    is_complex = any([np.iscomplexobj(y) for y in outputs])
    return rephase(outputs, generator) if rephase is not None and is_complex else None


def _rephased_eigenvectors(outputs: Outputs, generator: np.random.Generator) -> Outputs:
    w, v = outputs
    return w, (v * _phases(v.shape[-1], generator)).astype(v.dtype)


def _rephased_singular_vectors(outputs: Outputs, generator: np.random.Generator) -> Outputs:
    u, s, vh = outputs
    phases = _phases(max(u.shape[-1], vh.shape[-2]), generator)
    left = u * phases[: u.shape[-1]]
    right = vh * phases.conj()[: vh.shape[-2], None]
    return left.astype(u.dtype), s, right.astype(vh.dtype)


REPHASINGS: Mapping[type, Rephasing] = {
    Svd: _rephased_singular_vectors,
    Eigh: _rephased_eigenvectors,
    Eig: _rephased_eigenvectors,
}


def _phases(count: int, generator: np.random.Generator) -> Any:
    return np.exp(2j * np.pi * generator.uniform(size=count))


def _outputs(
    program: GraphProgram, instructions: Sequence[Instruction], values: dict[int, Any]
) -> list[Any]:
    """Run the remaining instructions on the values that have been computed, and return the outputs of the program."""
    values = dict(values)
    for _ in applied(instructions, values):
        pass
    return [values[slot] for slot in program.output_slots]


def _is_close(a: Any, b: Tensor) -> bool:
    """Return whether two results are equal up to rounding. A dependence on phases would change a result much more."""
    if a.dtype.kind not in "fc" or not a.size:
        return True
    finite = np.isfinite(a)
    scale = np.max(np.abs(a[finite]), initial=0.0)
    apart = np.max(np.abs(a[finite] - b[finite]), initial=0.0)
    return bool(apart <= 1e3 * np.finfo(a.dtype).eps * (1 + scale))
