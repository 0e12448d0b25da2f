"""Processor time that XLA takes for a language model's gradient, lowered by tenferro and by JAX.

    python benchmarks/texts.py

The command prints, for the module of tenferro and that of JAX, the number of operations, the time of a compilation,
and the time of a run. Each time is the minimum of several. JAX's module contains functions and calls, which tenferro
inlines.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import lowering
import tenferro as tnf
import xla_peer

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from transformer_jax import LENGTH, TOKENS, initial, loss

COMPILATIONS, ROUNDS, RUNS = 3, 20, 20


def texts() -> tuple[dict[str, str], tnf.GraphProgram, list[np.ndarray]]:
    """Return the text of both modules, a program with the same signature, and the leaves of the arguments."""
    params = jax.tree.map(np.asarray, initial(jax.random.key(0)))
    tokens = np.random.default_rng(0).integers(0, TOKENS, (32, LENGTH)).astype("int32")
    program = xla_peer.from_jax(loss, params, tokens)
    gradient = tnf.compile(tnf.grad(program.run), params, tokens)
    theirs = jax.jit(jax.grad(loss)).lower(params, tokens).as_text()
    ours = lowering.lower_to_stablehlo(gradient).text
    leaves = list(map(np.asarray, jax.tree.leaves((params, tokens))))
    return {"jax": theirs, "tenferro": ours}, gradient, leaves


def compiled(text: str, program: tnf.GraphProgram) -> tuple[xla_peer.Executable, float]:
    """Compile the text of a module; return the executable, and the processor seconds of the compilation."""
    types = tuple(program.input_specs), tuple(program.output_specs)
    names = tuple(program.input_names), tuple(program.output_names)
    module = lowering.StableHloModule(text, text, "cpu", *types, *names, trusted=True)
    executor = xla_peer.XlaExecutor("cpu", cache_dir="", notices=False)
    start = time.process_time()
    executable = executor.compile_module(module)
    return executable, time.process_time() - start


def seconds_of_run(executable: xla_peer.Executable, buffers: list[Any]) -> float:
    """Return the mean processor time of a run, in seconds."""
    start = time.process_time()
    for _ in range(RUNS):
        jax.block_until_ready(executable(*buffers))
    return (time.process_time() - start) / RUNS


def main() -> None:
    """Print the measurements of both modules, and the ratios of tenferro's to JAX's."""
    both, program, leaves = texts()
    buffers = [xla_peer.XlaExecutor("cpu").put(leaf) for leaf in leaves]
    executables, compiling, running = {}, {}, {}
    for _ in range(COMPILATIONS):
        for name, text in both.items():
            executables[name], seconds = compiled(text, program)
            compiling[name] = min(seconds, compiling.get(name, seconds))
    for _ in range(ROUNDS):
        for name, executable in executables.items():
            seconds = seconds_of_run(executable, buffers)
            running[name] = min(seconds, running.get(name, seconds))
    for name, text in both.items():
        print(
            f"{name:>9}: {text.count('stablehlo.')} operations in the text, "
            f"{compiling[name]:.2f} s to compile, {running[name] * 1e3:.2f} ms to run"
        )
    ratios = [seconds["tenferro"] / seconds["jax"] for seconds in (compiling, running)]
    print(f"    ratio: {ratios[0]:.2f} to compile, {ratios[1]:.2f} to run")


if __name__ == "__main__":
    main()
