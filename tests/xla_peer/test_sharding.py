"""Sharded programs over several devices. Each test runs one check of `sharded.py` in a new process."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import Mesh, PartitionSpec, XlaExecutor, partition


def test_eight_devices_of_one_cpu(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.xla_peer.sharded", tmp_path / "cache"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all passed\n")


@pytest.mark.sweep
def test_two_processes_of_four_devices() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "tests.xla_peer.two_processes"]
    started = [
        subprocess.Popen(
            [*command, str(process), port],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for process in range(2)
    ]
    for process in started:
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 0, output
        assert output.endswith("passed\n")


def test_what_is_jaxs_is_said_to_be() -> None:
    import jax

    program = tnf.compile(lambda x: x + x, np.ones(4))
    theirs = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    with pytest.raises(errors.InvalidConfigError, match=r"xla_peer.Mesh.*mesh.axis_names"):
        partition(program, theirs)
    mesh = Mesh(theirs.devices, theirs.axis_names)
    with pytest.raises(errors.InvalidConfigError, match=r"of xla_peer, got .* from jax"):
        partition(program, mesh, jax.sharding.PartitionSpec("x"))


def test_numbers_in_the_place_of_devices() -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"sizes by name such as .*got 2"):
        Mesh((2,), ("x",))


def test_executables_are_not_pickled() -> None:
    compiled = XlaExecutor("cpu").compile(tnf.compile(lambda x: x + x, np.ones(4)))
    with pytest.raises(errors.UnsupportedError, match="pickle its program"):
        pickle.dumps(compiled)


def test_specs_are_values() -> None:
    spec = PartitionSpec("x", None, ("y", "z"))
    assert spec == PartitionSpec("x", None, ("y", "z"))
    assert hash(spec) == hash(PartitionSpec("x", None, ("y", "z")))
    assert spec != PartitionSpec("x")
    assert spec.extents((4, 3, 8), {"x": 2, "y": 2, "z": 2}, "t") == (2, 3, 2)
