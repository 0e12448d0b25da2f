"""What the executor's threads know of their surroundings."""

import os
import subprocess
import sys

import pytest

COUNTED = "from tenferro.exec.workers import Workers; print(Workers(2).blas_is_threaded())"


@pytest.mark.parametrize("count", [1, 2])
def test_threads_of_blas_are_those_it_was_given(count: int) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("BLAS takes no more threads than there are cores")
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(count))}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(count > 1)
