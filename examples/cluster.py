"""Map a compiled derivative over data sets by processes: concurrent.futures, joblib, Dask or Ray.

A hundred spectra are fitted by the method of Gauss and Newton. The step with its Jacobian is compiled once here, into
one program, and travels to the workers with each task. A worker keeps an executor between tasks. It prepares the
program once, because the executor recognises copies of a program by their fingerprint. Each worker computes on one
core, so that workers do not compete for cores: `threads=1` for elementwise groups, and `threadpool_limits` for BLAS.

`python examples/cluster.py joblib` uses joblib, `dask` a local cluster of Dask, `ray` one of Ray; each is installed
separately.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import tenferro as tnf

WORKERS = 2
ENERGIES = np.linspace(-1.0, 1.0, 60)
START = np.array([1.0, 0.1, 0.5])


def line(p: Any) -> Any:
    """Return a Gaussian line of some height, center and width."""
    return p[0] * tnf.exp(-(((ENERGIES - p[1]) / p[2]) ** 2))


def step(p: Any, spectrum: Any) -> Any:
    """Return the parameters after a step of Gauss and Newton, with the Jacobian of the line."""
    jacobian = tnf.jacfwd(line)(p)
    return p - tnf.linalg.solve(jacobian.T @ jacobian, jacobian.T @ (line(p) - spectrum))


@functools.cache
def executor() -> tnf.GraphExecutor:
    """Return this worker's executor, on one core."""
    threadpool_limits(1)
    return tnf.GraphExecutor(threads=1)


def fit(program: Any, spectrum: Any) -> tuple[int, int, Any]:
    """Return the worker, the number of programs that it has prepared, and the fitted parameters."""
    p = START
    for _ in range(12):
        p = executor().run(program, p, spectrum)
    return os.getpid(), executor().cache_stats().misses, p


def by_futures(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map by concurrent.futures, in newly started processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        return list(pool.map(task, spectra, chunksize=5))


def by_joblib(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map by joblib."""
    import joblib  # pyright: ignore[reportMissingImports]  # because it is installed separately

    return joblib.Parallel(n_jobs=WORKERS)(joblib.delayed(task)(x) for x in spectra)


def by_dask(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map by a local cluster of Dask."""
    import dask.distributed  # pyright: ignore[reportMissingImports]  # likewise

    cluster = dask.distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, dashboard_address=None
    )
    with cluster, dask.distributed.Client(cluster) as client:
        return client.gather(client.map(task, list(spectra)))


def by_ray(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map by a pool of Ray actors, one process per actor."""
    import ray  # pyright: ignore[reportMissingImports]  # likewise
    from ray.util.multiprocessing import Pool  # pyright: ignore[reportMissingImports]

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    try:
        return Pool(WORKERS).map(task, spectra)
    finally:
        ray.shutdown()


ENGINES = {"futures": by_futures, "joblib": by_joblib, "dask": by_dask, "ray": by_ray}


def main(engine: str = "futures") -> None:
    generator = np.random.default_rng(0)
    truth = START + generator.uniform(-0.2, 0.2, (100, 3))
    spectra = [line(p) + 1e-3 * generator.normal(size=60) for p in truth]
    program = tnf.compile(step, START, spectra[0])
    results = ENGINES[engine](functools.partial(fit, program), spectra)
    workers = {worker for worker, _, _ in results}
    prepared = max(count for _, count, _ in results)
    fitted = np.array([p for _, _, p in results])
    error = np.max(np.abs(fitted - truth))
    print(
        f"{len(results)} fits by {len(workers)} workers of {engine}, {prepared} compilation in each"
    )
    print(f"largest error of a parameter: {error:.1e}")
    assert error < 0.01
    assert prepared == 1
    assert os.getpid() not in workers


if __name__ == "__main__":
    import cluster  # so that workers import the functions, and the executor, from this module

    cluster.main(*sys.argv[1:])
