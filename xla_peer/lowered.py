"""Lowering of programs for an executor, to a module and the constants that the module takes as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowering import PLATFORMS, StableHloModule, lower_to_stablehlo
from tenferro.errors import UnsupportedError
from tenferro.program import GraphProgram, hoist_constants
from tenferro.types import TensorSpec
from xla_peer.mesh import PartitionedProgram

__all__ = ["LARGEST_CONSTANT", "Lowered", "LoweringSettings"]

LARGEST_CONSTANT = 1 << 16
"""Maximum size of a constant in the text of a module, in bytes.

Larger constants become arguments of the module, because XLA copies constants in the text several times.
"""

MAX_OPS = 50_000
"""Maximum number of ops outside of loops, because XLA's compile time grows with the square of this number."""


class Lowered(NamedTuple):
    """A program lowered to a module for an executor.

    Attributes:
        module: the StableHLO module.
        constants: the arrays for the module's last arguments, by name.
        output_specs: the types of the outputs before a transpose to F order.
        callbacks: the Python functions that the module calls.
    """

    module: StableHloModule
    constants: dict[str, Any]
    output_specs: tuple[TensorSpec, ...]
    callbacks: tuple[Any, ...] = ()


@dataclass(frozen=True)
class LoweringSettings:
    """Settings of an executor that determine the text of its modules; see the arguments of `XlaExecutor`."""

    platform: str
    precision: str = "highest"
    linalg: str = "library"
    extensions: str = "expand"
    effects: str = "refuse"

    @property
    def lowered_for(self) -> str:
        """The platform whose lowerings are used: the executor's own, or the CPU for an unknown plugin."""
        return self.platform if self.platform in PLATFORMS else "cpu"

    @property
    def linalg_routines(self) -> str:
        """The setting `linalg`, or "inline" if the platform has no supported linear algebra routines."""
        return self.linalg if self.platform in PLATFORMS else "inline"

    def lower(
        self,
        program: GraphProgram,
        shapes: Sequence[Any],
        orders: Sequence[str] | None = None,
        out: str = "C",
        donate: Sequence[str] = (),
        cut: PartitionedProgram | None = None,
        calls_python: bool = False,
    ) -> Lowered:
        """Lower a program for arguments of the given shapes.

        Args:
            orders: memory order of each input, "C" or "F"; by default "C" for all.
            out: memory order of all outputs.
            cut: `program` with its partitioning, or None. The constants of a partitioned program are written in the
                text.
            calls_python: whether the module may call Python functions, which requires that this process compiles it.

        Raises:
            UnsupportedError: the program has more than `MAX_OPS` ops, whose compilation would take minutes to hours.
        """
        static = program.specialize(program.bind(shapes))
        if len(static.instructions) > MAX_OPS:
            raise UnsupportedError(
                f"{program.name} has {len(static.instructions)} ops outside of loops, "
                f"and XLA compiles at most {MAX_OPS}; "
                "tenferro.compile(.., roll=True) rolls repeated ops into loops, and native execution has no limit"
            )
        if self.effects == "drop":
            static = static.without_effects()
        constants: dict[str, Any] = {}
        input_orders = ("C",) * len(shapes) if orders is None else tuple(orders)
        if cut is None:
            static, constants = hoist_constants(static, LARGEST_CONSTANT)
            input_orders = (*input_orders, *["C"] * len(constants))
        callbacks: list[Any] | None = [] if calls_python and cut is None else None
        module = lower_to_stablehlo(
            static,
            self.lowered_for,
            self.precision,
            extensions=self.extensions,
            linalg=self.linalg_routines,
            input_orders=input_orders,
            output_orders=(out,) * len(static.output_specs),
            donate=donate,
            partitioning=None if cut is None else cut.partitioning,
            callbacks=callbacks,
        )
        specs = static.output_specs
        if out == "F":
            specs = tuple([TensorSpec.of(spec.shape[::-1], spec.dtype) for spec in specs])
        return Lowered(module, constants, specs, tuple(callbacks or ()))
