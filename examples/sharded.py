"""One program on eight devices: a matrix product with its collectives, and a data-parallel training step.

The devices are virtual devices of one CPU. The same code runs on eight accelerators with `Mesh({...},
platform="tpu")`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import numpy as np
from digits import DATA
from train_digits import initial, step

import tenferro as tnf
from xla_peer import Mesh, PartitionSpec, XlaExecutor, partition

COLLECTIVES = r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
STEPS = 20


def collectives(executable: Any) -> str:
    """Return the number of collectives of each kind that XLA's partitioner inserted, as text."""
    counts = Counter(re.findall(COLLECTIVES, executable.optimized_hlo()))
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def product(xla: XlaExecutor) -> None:
    """Run a matrix product with three partitionings of its operands."""
    mesh = Mesh({"rows": 4, "columns": 2})
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(512, 256)), generator.normal(size=(256, 128))
    program = tnf.compile(lambda a, b: a @ b, a, b)
    rows, columns = PartitionSpec("rows"), PartitionSpec(None, "columns")
    print(f"a 512x256 matrix times a 256x128 one on {mesh}")
    for words, specs, out in (
        ("a by rows, b by columns", (rows, columns), PartitionSpec("rows", "columns")),
        ("both along the sum", (PartitionSpec(None, "rows"), rows), PartitionSpec()),
        ("a by rows, result whole", (rows, None), PartitionSpec()),
    ):
        cut = partition(program, mesh, specs, out)
        executable = xla.compile(cut)
        y = executable(*cut.put(a, b))
        error = np.max(np.abs(np.asarray(y) - a @ b))
        piece = y.addressable_shards[0].data.shape
        print(
            f"  {words:<24} {piece[0]:>3}x{piece[1]:<3} per device, "
            f"{collectives(executable):<13} off by {error:.0e}"
        )
        assert error < 1e-12


def training(xla: XlaExecutor) -> None:
    """Run a training step of the digits, with replicated weights and the images split into eight shards."""
    with np.load(DATA) as data:
        images, labels = data["images"].astype(float), data["labels"].astype(np.int64)
    count = len(labels) // 8 * 8
    seen = images[:count], labels[:count]
    program = tnf.compile(step, initial(), *seen)
    mesh = Mesh({"batch": 8})
    batch = PartitionSpec("batch")
    cut = partition(program, mesh, (None, batch, batch))
    one, many = initial(), initial()
    parts = cut.put(many, *seen)[1:]
    executable = xla.compile(cut)
    many = cut.put(many, *seen)[0]
    for _ in range(STEPS):
        one, loss = xla.run(program, one, *seen)
        many, sharded_loss = executable(many, *parts)
    apart = abs(float(sharded_loss) - float(loss)) / float(loss)
    print(f"{STEPS} training steps on {count} images, {count // 8} per device of {mesh}")
    print(
        f"  {collectives(executable)} in a step; loss {float(loss):.6f}, {apart:.0e} apart, relative"
    )
    assert apart < 1e-9


def main() -> None:
    jax.config.update("jax_num_cpu_devices", 8)
    xla = XlaExecutor("cpu")
    product(xla)
    training(xla)


if __name__ == "__main__":
    main()
