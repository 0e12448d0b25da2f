"""The table of exceptional points must contain every public function and every op.

Otherwise there must be a reason.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator

import numpy as np

import tenferro as tnf
from tenferro.ad.rules import AD_RULES
from tenferro.ops import STD_OPS, control, dynamic
from tenferro.program import GraphProgram
from tests.points.binary import BINARY
from tests.points.names import OTHERS
from tests.points.unary import UNARY
from tests.points.vectors import LINEAR, REDUCTIONS

TABLE = {re.match(r"[\w.]+", name)[0] for name in (*UNARY, *BINARY, *REDUCTIONS, *LINEAR)}
ALIASES = {
    f"linalg.{name}": name
    for name in ("diagonal", "matmul", "matrix_transpose", "outer", "tensordot", "trace", "vecdot")
}


NAMESPACES = {
    "linalg": "its functions are enumerated",
    "fft": "its functions are enumerated",
    "nn": "its functions are enumerated",
    "lax": "the ops by JAX's names, which are enumerated as ops",
    "special": "its functions are enumerated",
    "stats": "distributions, made of functions in the table; tested against SciPy in tests/stats",
    "signal": "compositions of Fourier transforms and convolutions; tested against SciPy in tests/signal",
    "random": "samples; those that can be differentiated are made of functions in the table",
    "optim": "steps of optimisers",
    "optimize": "solvers",
    "tree": "no functions of tensors",
    "errors": "no functions of tensors",
    "extension": "no functions of tensors",
}


def test_every_namespace_is_enumerated_or_has_a_reason() -> None:
    modules = {name for name in tnf.__all__ if isinstance(getattr(tnf, name), types.ModuleType)}
    assert modules == NAMESPACES.keys()


def public_functions() -> Iterator[str]:
    for prefix, module in (
        ("", tnf),
        ("linalg.", tnf.linalg),
        ("fft.", tnf.fft),
        ("nn.", tnf.nn),
        ("special.", tnf.special),
    ):
        for name in module.__all__:
            value = getattr(module, name)
            is_alias = typing.get_origin(value) is not None
            plain = callable(value) and not is_alias
            if plain and not isinstance(value, type | tnf.DType) and not name.startswith("__"):
                yield prefix + name


def test_every_public_function_is_in_the_table_or_has_a_reason() -> None:
    names = {ALIASES.get(name, name) for name in public_functions()}
    assert names - TABLE - OTHERS.keys() == set()
    assert OTHERS.keys() - names == set(), "reasons for names that do not exist"
    assert OTHERS.keys() & TABLE == set(), "reasons for names that are in the table"


WITHOUT_A_ROW = {
    **dict.fromkeys(control.CARDS, "its derivative is that of its body"),
    **dict.fromkeys(dynamic.CARDS, "linear, and under no public name"),
}
UNDER_NO_NAME = {
    "BitcastConvert": "has no derivative",
    "Complex": "linear; its parts are under `real` and `imag`",
    "Convolution": "bilinear, and under no public name",
    "CumMax": "a maximum a position, under no public name",
    "CumMin": "a minimum a position, under no public name",
    "DynamicSlice": "linear, and under no public name",
    "DynamicUpdateSlice": "linear, and under no public name",
    "EmbedDiag": "linear, and under no public name",
    "GatherDynamicSliceSizes": "linear, and under no public name",
    "OptimizationBarrier": "the identity, and under no public name",
    "ReducePrecision": "linear, and under no public name",
    "Scatter": "updates by index, whose names are methods",
    "Reverse": "linear; inside transposes",
}


def op_names() -> set[str]:
    """Return the names of the ops in the programs of all records, both for values and for derivatives."""
    programs: list[GraphProgram] = []
    x = np.ones(3)
    for record in UNARY.values():
        programs.append(tnf.compile(record.function, x))
        if record.is_complex:
            programs.append(tnf.compile(record.function, x.astype(complex)))
    programs += [tnf.compile(record.function, x, x) for record in BINARY.values()]
    programs += [tnf.compile(record.function, x) for record in REDUCTIONS.values()]
    programs += [tnf.compile(record.function, np.ones(record.shape)) for record in LINEAR.values()]
    return {type(step.op).__name__ for program in programs for step in program.instructions}


def test_every_differentiable_op_is_in_a_row_or_has_a_reason() -> None:
    active = {card.__name__ for card in STD_OPS if AD_RULES[card].jvp is not None}
    reasons = UNDER_NO_NAME.keys() | {card.__name__ for card in WITHOUT_A_ROW}
    assert active - op_names() - reasons == set()
