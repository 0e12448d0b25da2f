"""Test vectors: inputs, results of native execution and allowed differences, in a separate file.

With test vectors, `xla_peer.verify` can check an artifact on another machine, platform or version.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.archives import SMALL, opened_archive
from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.interruption import is_interruption
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec, flatten, unflatten
from xla_peer.parity.comparison import Allowance, Alternatives
from xla_peer.parity.paths import limits
from xla_peer.storage import Arrays, restored, stored

__all__ = ["TestVector", "read_vectors", "vectors_of", "vectors_path", "write_vectors"]


@dataclass(frozen=True)
class TestVector:
    """Arguments of a program, and the results of its native run on them.

    Attributes:
        inputs: the leaves of the arguments.
        outputs: the results of native execution.
        allowed: the largest allowed difference of each element, and alternative values of some elements.
    """

    __test__ = False  # because pytest collects names that begin with test

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    allowed: tuple[Allowance, ...]


def vectors_of(
    program: GraphProgram, cases: Sequence[Sequence[Any]], platform: str = "cpu"
) -> tuple[TestVector, ...]:
    """Compute a test vector for each case; the tolerances hold for `platform` and for the CPU.

    A case is the list of the leaves of the arguments.
    """
    vectors: list[TestVector] = []
    for leaves_in in cases:
        arguments = unflatten(program.in_tree, leaves_in)
        leaves = program.check_arguments(arguments)
        outputs, _ = flatten(program.run(*arguments))
        allowed = limits(program, leaves, outputs, platform=platform)
        vectors.append(TestVector(tuple(leaves), tuple(outputs), tuple(allowed)))
    return tuple(vectors)


def write_vectors(vectors: Sequence[TestVector], seed: int, versions: Any) -> bytes:
    """Return the content of a file of test vectors."""
    arrays: dict[str, Any] = {}
    for number, vector in enumerate(vectors):
        for part in ("inputs", "outputs"):
            for i, array in enumerate(getattr(vector, part)):
                arrays[f"{number}.{part}.{i}"] = stored(np.asarray(array))
        for i, (limit, (places, values), *_) in enumerate(vector.allowed):
            arrays[f"{number}.limits.{i}"] = np.asarray(limit)
            if len(places):
                arrays[f"{number}.places.{i}"] = places
                arrays[f"{number}.values.{i}"] = stored(values)
    arrays["about"] = np.array(
        json.dumps({"cases": len(vectors), "seed": seed, "versions": dict(versions)})
    )
    buffer = io.BytesIO()
    # Large arrays are not compressed, because the reader rejects a file that unpacks to far more than its size.
    is_small = sum([array.nbytes for array in arrays.values()]) < SMALL // 2
    (np.savez_compressed if is_small else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def read_vectors(
    content: bytes, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[tuple[TestVector, ...], dict[str, Any]]:
    """Read the test vectors in the content of a file, and its metadata.

    Raises:
        InvalidConfigError: the file has no vectors, or vectors of other types.
    """
    try:
        with opened_archive(io.BytesIO(content), "vectors: the file") as archive:
            file = Arrays(archive)
            about = json.loads(str(file["about"]))
            cases = int(about["cases"])
            if not 0 <= cases <= len(file.names):
                raise InvalidConfigError(f"vectors: {cases} cases in {len(file.names)} arrays")
            vectors = tuple(
                TestVector(
                    _leaves(file, number, "inputs", inputs),
                    _leaves(file, number, "outputs", outputs),
                    tuple([_allowance(file, number, i, y) for i, y in enumerate(outputs)]),
                )
                for number in range(cases)
            )
    except TenferroError:
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise InvalidConfigError(f"vectors: the file has no vectors: {error!r}") from error
    return vectors, about


def _leaves(file: Any, number: int, part: str, specs: Sequence[TensorSpec]) -> tuple[Any, ...]:
    arrays: list[Any] = []
    for i, spec in enumerate(specs):
        array = restored(file[f"{number}.{part}.{i}"], spec.dtype)
        if array.dtype != spec.dtype.dtype or array.ndim != spec.rank:
            raise InvalidConfigError(f"vectors: {part} {i} is {array.dtype}{list(array.shape)}")
        arrays.append(array)
    return tuple(arrays)


def _allowance(file: Any, number: int, index: int, spec: TensorSpec) -> Allowance:
    limit = file[f"{number}.limits.{index}"]
    if f"{number}.places.{index}" not in file.names:
        return Allowance(limit)
    values = restored(file[f"{number}.values.{index}"], spec.dtype)
    return Allowance(limit, Alternatives(file[f"{number}.places.{index}"], values))


def vectors_path(path: Any) -> str:
    """Return the path of the file of test vectors of the artifact at `path`.

    >>> vectors_path("model.mlirbc")
    'model.mlirbc.vectors.npz'
    """
    return f"{path}.vectors.npz"
