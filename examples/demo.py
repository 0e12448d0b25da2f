"""The main steps of using tenferro: trace, run natively, export StableHLO, run through PJRT, and compare."""

from __future__ import annotations

import time

import numpy as np
from ising import STEPS, WIDTH, free_energy, onsager

import lowering
import tenferro as tnf
from xla_peer import XlaExecutor, check_parity

BETA = 0.3


def head(text: str, lines: int) -> str:
    """Return the first `lines` lines of a text, and a note with the number of omitted lines."""
    rows = text.splitlines()
    return "\n".join([*rows[:lines], f"  ... {len(rows) - lines} more lines"])


def main() -> None:
    print(f"2D Ising model, strip of width {WIDTH}, {STEPS} transfer steps, beta = {BETA}\n")
    start = time.perf_counter()
    program = tnf.compile(free_energy, tnf.TensorSpec((), "float64"))
    traced = time.perf_counter()
    native = float(program.run(BETA))
    first = time.perf_counter()
    program.run(BETA)
    again = time.perf_counter()
    print(head(str(program), 12), "\n")
    module = lowering.lower_to_stablehlo(program)
    print(head(str(module), 12), "\n")
    xla = XlaExecutor("cpu")
    begin = time.perf_counter()
    peer = float(xla.run(program, BETA))
    compiled = time.perf_counter()
    xla.run(program, BETA)
    warm = time.perf_counter()
    exact = onsager(BETA)
    print(f"native  {native:.12f}   off by {abs(native - exact):.1e}")
    print(f"PJRT    {peer:.12f}   off by {abs(peer - exact):.1e}")
    print(f"Onsager {exact:.12f}   exact for the infinite lattice\n")
    print(f"traced in {traced - start:.3f} s")
    print(f"native: first run {first - traced:.3f} s, again {again - first:.3f} s")
    print(f"PJRT:   first run {compiled - begin:.3f} s, again {warm - compiled:.3f} s\n")
    print(check_parity(program, np.float64(BETA), executor=xla))

    gradient = tnf.compile(tnf.grad(free_energy), tnf.TensorSpec((), "float64"))
    exact = (onsager(BETA + 1e-4) - onsager(BETA - 1e-4)) / 2e-4
    print(
        f"\nbonds' mean energy per site, by reverse mode: {len(gradient.instructions)} instructions"
    )
    print(f"native  {float(gradient.run(BETA)):.12f}")
    print(f"exact   {exact:.12f}   for the infinite lattice\n")
    print(check_parity(gradient, np.float64(BETA), executor=xla))


if __name__ == "__main__":
    main()
