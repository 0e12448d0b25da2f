"""`Artifact`, a StableHLO module with its signature and constants, in memory or in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

import tenferro
from lowering import StableHloModule, import_stablehlo
from tenferro.api import tree_files
from tenferro.errors import InvalidConfigError, NonStaticShapeError
from tenferro.files import replacing, target_of
from tenferro.program import BoundedCache, GraphProgram, check_arguments
from tenferro.table import first_of
from tenferro.tracebacks import public_methods
from tenferro.types import flatten, unflatten
from xla_peer.executable import Executable
from xla_peer.executor import XlaExecutor
from xla_peer.manifest import Manifest
from xla_peer.mesh import Mesh, PartitionedProgram, partitioned_as
from xla_peer.storage import constants_path, gradient_path, stored, suffix_of
from xla_peer.vectors import TestVector, read_vectors, vectors_path

__all__ = ["Artifact"]


@public_methods
class Artifact:
    """An exported StableHLO module with its description and constants, as `export` and `load` return it.

    Attributes:
        manifest: the names and types of inputs and outputs, the structure of arguments and results, the platforms, and
            the versions.
        module: the StableHLO module, with constants as its last arguments.
        bytecode: the module as a portable artifact, the content of a `.mlirbc` file.
        constants: the arrays for the module's last arguments, by name.
        gradient: an artifact of the derivative. It takes the inputs and cotangents of the float outputs, and returns
            cotangents of the float inputs. None if the artifact was exported without a gradient.

    >>> import numpy as np, tenferro as tnf, xla_peer
    >>> artifact = xla_peer.export(lambda x: {"twice": x + x}, tnf.TensorSpec(("n",), "float64"))
    >>> artifact.run(np.arange(3.0)), artifact
    ({'twice': array([0., 2., 4.])}, <Artifact <lambda> for cpu: (x: f64[n]) -> (result['twice']: f64[n])>)
    """

    def __init__(
        self,
        manifest: Manifest,
        module: StableHloModule,
        bytecode: bytes,
        constants: Mapping[str, Any],
        vectors_file: bytes = b"",
        gradient: Artifact | None = None,
    ) -> None:
        self.manifest = manifest
        self.module = module
        self.bytecode = bytecode
        self.constants = dict(constants)
        self.gradient = gradient
        self._vectors_file = vectors_file
        self._executables: BoundedCache[Executable] = BoundedCache(64)

    @property
    def text(self) -> str:
        """The StableHLO text of the module."""
        return self.module.plain_text

    @cached_property
    def vectors(self) -> tuple[TestVector, ...]:
        """The test vectors in the artifact; see `xla_peer.verify`.

        Raises:
            InvalidConfigError: the file of vectors is malformed.
        """
        return self._read_vectors()[0]

    @cached_property
    def vectors_about(self) -> dict[str, Any]:
        """The seed of the test vectors, and the package versions with which they were computed."""
        return self._read_vectors()[1]

    def _read_vectors(self) -> tuple[tuple[TestVector, ...], dict[str, Any]]:
        if not self._vectors_file:
            return (), {}
        inputs, outputs = (
            [spec for _, spec in part] for part in (self.manifest.inputs, self.manifest.outputs)
        )
        return read_vectors(self._vectors_file, inputs, outputs)

    @cached_property
    def _default_executor(self) -> XlaExecutor:
        platforms = self.manifest.platforms
        return XlaExecutor("cpu" if "cpu" in platforms else platforms[0])

    def compile(self, executor: XlaExecutor | None = None, *specs: Any) -> Executable:
        """Compile the artifact for device arrays on a device.

        Args:
            executor: the executor of the device. By default it is an executor for the CPU if the artifact was exported
                for the CPU, else for the artifact's first platform.
            specs: concrete specs or arrays, one per input, if the artifact has symbolic extents.

        Raises:
            InvalidConfigError: the artifact was not exported for the executor's platform.
            ShapeError, GuardError: the specs do not match the artifact's inputs.
            NonStaticShapeError: the artifact has symbolic extents, and no specs are given.
        """
        if not specs and not self.module.is_static:
            raise NonStaticShapeError(
                f"compile: {self.manifest.name} has symbolic extents; give specs or arrays, one per input"
            )
        chosen = specs or [spec for _, spec in self.manifest.inputs]
        return self._compiled(executor or self._default_executor, [tuple(s.shape) for s in chosen])

    def _compiled(self, executor: XlaExecutor, shapes: Sequence[tuple[int, ...]]) -> Executable:
        if self.manifest.partitioning is not None:
            raise InvalidConfigError(
                f"{self.manifest.name} was exported for several devices; compile and run artifact.partitioned(mesh)"
            )
        if executor.platform not in self.manifest.platforms:
            raise InvalidConfigError(
                f"{self.manifest.name} was exported for {', '.join(self.manifest.platforms)}, not for "
                f"{executor.platform}; export it with platforms=({executor.platform!r}, ..)"
            )
        return self._executables.get(
            (executor, tuple(shapes)), lambda: self._build(executor, shapes)
        )

    def _build(self, executor: XlaExecutor, shapes: Sequence[tuple[int, ...]]) -> Executable:
        extra = [constant.spec.shape for constant in self.manifest.constants]
        return executor.compile_module(
            self.module.refined([*shapes, *extra]),
            self.manifest.in_tree,
            self.manifest.out_tree,
            list(self.constants.values()),
        )

    def run(self, *arrays: Any, executor: XlaExecutor | None = None) -> Any:
        """Run on NumPy arrays, and return NumPy arrays in the structure of the exported function's result.

        A partitioned artifact runs on as many devices of the platform as its mesh has.

        Raises:
            ArityError, DTypeError, ShapeError, GuardError: the arguments do not match the artifact's inputs.
            InvalidConfigError: the artifact was not exported for the executor's platform.
        """
        if self.manifest.partitioning is not None:
            executor = executor or self._default_executor
            mesh = Mesh(dict(self.manifest.partitioning.mesh), platform=executor.platform)
            return executor.run(self.partitioned(mesh), *arrays)
        names, specs = zip(*self.manifest.inputs, strict=True) if self.manifest.inputs else ((), ())
        leaves = check_arguments(self.manifest.in_tree, specs, names, arrays)
        executable = self._compiled(
            executor or self._default_executor, [leaf.shape for leaf in leaves]
        )
        results = executable.run_leaves([np.asarray(leaf, order="C") for leaf in leaves])
        return unflatten(self.manifest.out_tree, results)

    def program(self) -> GraphProgram:
        """Import the module as a program; a partitioned artifact is imported as a program for one device.

        Raises:
            TenferroError: see `lowering.import_stablehlo`.
        """
        manifest = self.manifest
        specs = [spec for _, spec in manifest.inputs]
        types = [*specs, *(constant.spec for constant in manifest.constants)]
        is_static = all(spec.is_static for spec in specs)
        program = import_stablehlo(self.module, None if is_static else types, drops_windows=True)
        if manifest.constants:
            opened, constants = program, tuple(self.constants.values())
            program = tenferro.compile(lambda *leaves: opened.run(*leaves, *constants), *specs)
        return replace(
            program,
            name=manifest.name,
            in_tree=manifest.in_tree,
            out_tree=manifest.out_tree,
            input_names=tuple([name for name, _ in manifest.inputs]),
            output_names=tuple([name for name, _ in manifest.outputs]),
        )

    def partitioned(self, mesh: Mesh | None = None) -> PartitionedProgram:
        """Import a partitioned artifact as a program with its partition.

        Args:
            mesh: the devices; None for devices of the CPU.

        Raises:
            InvalidConfigError: the artifact was exported for one device, or `mesh` does not match the artifact's mesh.
        """
        partitioning = self.manifest.partitioning
        if partitioning is None:
            raise InvalidConfigError(f"{self.manifest.name} was exported for one device")
        return partitioned_as(self.program(), partitioning, mesh)

    def call(self, *buffers: Any, executor: XlaExecutor | None = None) -> Any:
        """Run on device arrays, and return device arrays in the structure of the exported function's result."""
        shapes = [leaf.shape for leaf in flatten(buffers)[0]]
        return self._compiled(executor or self._default_executor, shapes)(*buffers)

    def save(self, path: Any) -> None:
        """Write the artifact to a file, as text (`.mlir`) or as a portable artifact (`.mlirbc`).

        Both formats contain the manifest. Constants that the module takes as arguments, test vectors and the gradient
        are written before, to separate files in the same folder.

        Raises:
            InvalidConfigError: the suffix is neither `.mlir` nor `.mlirbc`, or the path is a folder, a pipe or a
                device.
            OSError: the folder does not exist, or the disk is full.
        """
        suffix = suffix_of(path)
        for file_path in self.paths(path):
            target_of(file_path)  # raises an error before any file is written
        if self.constants and self.manifest.weights:
            tree_files.save(self.constants, self._constants_path(path))
        elif self.constants:
            with replacing(self._constants_path(path)) as file:
                np.savez(file, **{name: stored(array) for name, array in self.constants.items()})
        if self._vectors_file:
            with replacing(vectors_path(path)) as file:
                file.write(self._vectors_file)
        if self.gradient is not None:
            self.gradient.save(gradient_path(path))
        with replacing(path) as file:
            file.write(self.module.plain_text.encode() if suffix == ".mlir" else self.bytecode)

    def _constants_path(self, path: Any) -> str:
        return constants_path(path, self.manifest.weights)

    def paths(self, path: Any) -> list[str]:
        """Return the paths of the files that `save` writes; the last is the file of the module."""
        gradient = self.gradient
        return [
            *([self._constants_path(path)] if self.constants else ()),
            *([vectors_path(path)] if self._vectors_file else ()),
            *(() if gradient is None else gradient.paths(gradient_path(path))),
            str(path),
        ]

    def __repr__(self) -> str:
        takes, gives = (
            first_of([f"{name}: {spec}" for name, spec in part], 2)
            for part in (self.manifest.inputs, self.manifest.outputs)
        )
        platforms = ", ".join(self.manifest.platforms)
        return f"<Artifact {self.manifest.name} for {platforms}: ({takes}) -> ({gives})>"
