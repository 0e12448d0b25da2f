"""Benchmarks of loops: all contestants (libraries) run each kernel in one process, in alternation.

python benchmarks/loops                          measures all kernels, values and gradients
python benchmarks/loops --only adi lu            measures only these kernels
python benchmarks/loops --against numpy jax      measures only native and these contestants
python benchmarks/loops --interpreted            runs native without compiled code, as if llvmlite were missing
python benchmarks/loops --quick                  shortens runs and the time limit; takes some ten minutes
python benchmarks/loops --json FILE              also writes every time, in seconds, to a file
python benchmarks/loops --write                  also writes the table in docs/loops.md
python benchmarks/loops --check                  only checks, on small inputs, that all results agree
python benchmarks/loops --pairs 20 --other PATH  compares this checkout with another, in alternating runs
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

# Every library uses one BLAS thread. With more threads on a busy machine, the threads of NumPy's BLAS would wait for
# each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# After a call, an OpenBLAS thread spins, here for 2^16 cycles. By default it would occupy a core for 30 ms while the
# next contestant runs.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
os.environ.setdefault("JAX_ENABLE_X64", "1")
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from agreement import check  # because the libraries read the environment on import
from cells import Cell, measure
from contestants import CONTESTANTS, Run, interpreted, native, warm_up
from interleaved import geometric_mean
from kernel import Kernel
from kernels import KERNELS
from pairs import compare, serve
from report import summary, table, write_json, write_page


def main() -> int:
    """Run the requested measurements or checks; return 1 if results disagree."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", help="names of kernels")
    parser.add_argument(
        "--against", nargs="*", choices=[name for name in CONTESTANTS if name != "native"]
    )
    parser.add_argument("--seconds", type=float, help="of turns for one cell")
    parser.add_argument("--limit", type=float, help="seconds after which a run is given up")
    parser.add_argument("--interpreted", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--other", type=Path, help="a checkout to compare with")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = [kernel.name for kernel in KERNELS]
    if unknown := [name for name in options.only or () if name not in known]:
        parser.error(f"no kernel {', '.join(unknown)}; there are {', '.join(known)}")
    kernels = [kernel for kernel in KERNELS if not options.only or kernel.name in options.only]
    names = list(CONTESTANTS) if options.against is None else ["native", *options.against]
    limit = options.limit or (4.0 if options.quick else 20.0)
    if options.serve:
        serve(native_run, limit)
        return 0
    if options.check:
        return check(kernels, names)
    if options.pairs:
        if options.other is None:
            parser.error("--pairs needs --other PATH, another checkout")
        judge(kernels, options.pairs, options.other)
        return 0
    if options.interpreted:
        CONTESTANTS["native"] = interpreted
    warm_up(names)
    seconds = options.seconds or (0.1 if options.quick else 2.0)
    cells: list[Cell] = []
    for kernel in kernels:
        for gradient in (False, True) if kernel.gradient is not None else (False,):
            cell = measure(kernel, gradient, names, seconds, limit)
            cells.append(cell)
            print(cell.line(), flush=True)
    print(summary(cells))
    if options.json:
        write_json(cells, options.json)
    if options.write:
        write_page(table(cells) + "\n\n" + summary(cells))
    return 0


GRADIENT = ", gradient"


def judge(kernels: list[Kernel], pairs: int, other: Path) -> None:
    """Compare this checkout with the checkout `other`.

    Print the ratio of their times for each kernel, and the geometric means.
    """
    names = [kernel.name for kernel in kernels]
    gradients = [kernel.name + GRADIENT for kernel in kernels if kernel.gradient is not None]
    medians = compare(Path(__file__).parent, sorted([*names, *gradients]), pairs, other)
    for what, group in (("values", names), ("gradients", gradients)):
        if ratios := [medians[name] for name in group if name in medians]:
            mean = geometric_mean(ratios)
            print(f"{what}: {mean:.3f} in the geometric mean of {len(ratios)}")


def native_run(name: str) -> Run:
    """Return a function that runs a kernel or its gradient natively. `name` is the name that `judge` prints."""
    kernel = next(x for x in KERNELS if x.name == name.removesuffix(GRADIENT))
    return native(kernel, kernel.arguments(kernel.size), name.endswith(GRADIENT))


if __name__ == "__main__":
    raise SystemExit(main())
