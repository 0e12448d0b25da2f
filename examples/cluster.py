"""Map a compiled derivative over data sets in several processes, by concurrent.futures, joblib, Dask or Ray.

A hundred spectra are fitted by the Gauss-Newton method. Its step, which contains the Jacobian, is compiled once, in
this process; each task sends the program to a worker process. A worker keeps one executor for all its tasks. The
executor recognises copies of a program by their fingerprint, so it prepares the program once. Each worker computes on
one core, so that workers do not compete for cores: `threads=1` limits elementwise groups, and `threadpool_limits`
limits BLAS.

`python examples/cluster.py joblib` uses joblib, `dask` a local cluster of Dask, `ray` a local cluster of Ray. Each of
these packages is installed separately.
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
    """Return a Gaussian line with the height, centre and width in `p`."""
    return p[0] * tnf.exp(-(((ENERGIES - p[1]) / p[2]) ** 2))


def step(p: Any, spectrum: Any) -> Any:
    """Return the parameters after one Gauss-Newton step."""
    jacobian = tnf.jacfwd(line)(p)
    return p - tnf.linalg.solve(jacobian.T @ jacobian, jacobian.T @ (line(p) - spectrum))


@functools.cache
def executor() -> tnf.GraphExecutor:
    """Return this worker's executor, which uses one thread."""
    threadpool_limits(1)
    return tnf.GraphExecutor(threads=1)


def fit(program: Any, spectrum: Any) -> tuple[int, int, Any]:
    """Fit one spectrum; return the worker's process id, the number of programs it has prepared, and the parameters."""
    p = START
    for _ in range(12):
        p = executor().run(program, p, spectrum)
    return os.getpid(), executor().cache_stats().misses, p


def by_futures(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map a task over the spectra by concurrent.futures, in newly started processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        return list(pool.map(task, spectra, chunksize=5))


def by_joblib(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map a task over the spectra by joblib."""
    import joblib  # pyright: ignore[reportMissingImports]  # installed separately

    return joblib.Parallel(n_jobs=WORKERS)(joblib.delayed(task)(x) for x in spectra)


def by_dask(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map a task over the spectra by a local cluster of Dask."""
    import dask.distributed  # pyright: ignore[reportMissingImports]  # installed separately

    cluster = dask.distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, dashboard_address=None
    )
    with cluster, dask.distributed.Client(cluster) as client:
        return client.gather(client.map(task, list(spectra)))


def by_ray(task: Callable[..., Any], spectra: Sequence[Any]) -> list[Any]:
    """Map a task over the spectra by a pool of Ray actors, one process per actor."""
    import ray  # pyright: ignore[reportMissingImports]  # installed separately
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
