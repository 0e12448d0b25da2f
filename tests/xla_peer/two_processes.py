"""Run twice by a test, once per process: eight devices in two processes, joined over loopback."""

from __future__ import annotations

import sys

import jax
import numpy as np

import tenferro as tnf
from xla_peer import Mesh, PartitionSpec, XlaExecutor, partition


def main() -> None:
    process, port = int(sys.argv[1]), sys.argv[2]
    jax.config.update("jax_num_cpu_devices", 4)
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((64, 32)), rng.standard_normal((32, 16))
    program = tnf.compile(lambda x, w: tnf.sum(tnf.tanh(x @ w), axis=0), x, w)
    mesh = Mesh({"rows": 8})
    assert mesh.size == 8
    assert len(jax.local_devices()) == 4
    cut = partition(program, mesh, (PartitionSpec("rows"), None))
    found = XlaExecutor("cpu").run(cut, x, w)
    np.testing.assert_allclose(found, np.tanh(x @ w).sum(0), rtol=1e-12)
    jax.distributed.shutdown()
    print("passed")


if __name__ == "__main__":
    main()
