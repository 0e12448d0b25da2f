"""Programs over several devices, in processes of their own; see `sharded.py`."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from xla_peer import PartitionSpec


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


def test_specs_are_values() -> None:
    spec = PartitionSpec("x", None, ("y", "z"))
    assert spec == PartitionSpec("x", None, ("y", "z"))
    assert hash(spec) == hash(PartitionSpec("x", None, ("y", "z")))
    assert spec != PartitionSpec("x")
    assert spec.extents((4, 3, 8), {"x": 2, "y": 2, "z": 2}, "t") == (2, 3, 2)
