"""`Mesh`, a grid of devices with named axes, and programs that are partitioned over a mesh."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering import Partitioning, PartitionSpec
from tenferro.dispatch import as_operand
from tenferro.errors import ArityError, DTypeError, InvalidConfigError
from tenferro.extension.saving import load, load_attributes, save
from tenferro.program import GraphProgram
from tenferro.tracebacks import public_methods
from tenferro.types import DType, agree, difference, flatten, prefix_leaves, unflatten
from xla_peer import pjrt

__all__ = [
    "Mesh",
    "PartitionedProgram",
    "load_partitioned",
    "partition",
    "partitioned_as",
    "saved_partitioning",
]


@public_methods
class Mesh:
    """Grid of devices with named axes, along which a `PartitionSpec` cuts tensors.

    Args:
        devices: the size of each axis by name; the mesh then consists of the first devices of the platform. Or an array
            of devices, as for jax.sharding.Mesh.
        axis_names: the names of the axes, if `devices` is an array.
        platform: the platform of the devices, if `devices` has sizes.

    `jax.config.update("jax_num_cpu_devices", 8)` before the first use creates eight devices from one CPU.

    Raises:
        InvalidConfigError: there are fewer devices than the mesh needs, or the number of names is not the number of
            axes.
        PlatformUnavailableError: the platform is not available; the message names the available platforms.

    >>> Mesh({"x": 1, "y": 1})
    Mesh(x=1, y=1 on cpu)
    """

    def __init__(
        self,
        devices: Mapping[str, int] | Any,
        axis_names: Sequence[str] | None = None,
        *,
        platform: str = "cpu",
    ) -> None:
        if isinstance(devices, Mapping):
            sizes = {str(name): int(size) for name, size in devices.items()}
            self.devices = _grid(sizes, platform)
        else:
            self.devices = np.array(devices, dtype=object)
            names = tuple(axis_names or ())
            if len(names) != self.devices.ndim:
                raise InvalidConfigError(
                    f"Mesh: {names} names {len(names)} axes of a grid of shape {self.devices.shape}"
                )
            sizes = dict(zip(names, self.devices.shape, strict=True))
            for device in self.devices.flat:
                if not hasattr(device, "client"):
                    raise InvalidConfigError(
                        f"Mesh: expected an array of devices, or sizes by name such as {{'x': 2}}, got {device!r} "
                        "in the place of a device"
                    )
        if not self.devices.size:
            raise InvalidConfigError(f"Mesh: no device in {sizes}")
        self.shape = sizes
        self.axis_names = tuple(sizes)
        self.platform: str = self.devices.flat[0].client.platform

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.devices.size

    def sharding(self, spec: PartitionSpec) -> Any:
        """Return the jax.sharding.NamedSharding of a spec over this mesh.

        Raises:
            InvalidConfigError: the mesh lacks an axis of the spec.
        """
        nothing = (0,) * len(spec.entries)
        spec.extents(nothing, self.shape, "sharding")
        return pjrt.named_sharding(self.devices, self.axis_names, spec.constrained("sharding"))

    def put(self, array: Any, spec: PartitionSpec | None = None) -> Any:
        """Shard an array over the mesh. Without a spec, the array is replicated on every device.

        With several processes, each process passes the whole array. The arrays must be equal. To check this, the
        processes compare the SHA-256 of the arrays by one small all-gather, which takes about a millisecond per
        megabyte. A device array is copied from device to device.

        Raises:
            ShapeError, InvalidConfigError: the spec does not fit, or the arrays differ among processes.
        """
        spec = PartitionSpec() if spec is None else spec
        if pjrt.is_device_array(array):
            spec.extents(array.shape, self.shape, "put")
            return pjrt.resharded(array, self.sharding(spec))
        operand = np.asarray(as_operand(array))
        pjrt.require_same_in_all_processes({"the array": operand}, self.devices)
        return self.put_checked(operand, spec)

    def put_checked(self, array: Any, spec: PartitionSpec) -> Any:
        """Shard a NumPy array over the mesh, without a check that it is the same in all processes."""
        spec.extents(array.shape, self.shape, "put")
        return pjrt.put_sharded(array, self.sharding(spec))

    def put_local(self, array: Any, spec: PartitionSpec, shape: Sequence[int] | None = None) -> Any:
        """Build an array that is sharded over the mesh; each process passes the elements of its own devices.

        The method works like jax.make_array_from_process_local_data, except that the dtype is never narrowed. With one
        process, `array` is the whole array.

        Args:
            array: the elements of the process's own devices.
            spec: the axes of the mesh along which the whole array is cut.
            shape: the shape of the whole array; by default, extents sharded over processes are multiplied by the
                number of processes.

        Raises:
            ShapeError: `array` has another shape than the elements of the process's devices.
            InvalidConfigError: a mesh axis is unknown, or processes that store the same elements passed different ones.
        """
        whole = self.part_of(as_operand(array), spec, shape)
        pjrt.require_equal_replicas({"the array": whole}, self.devices)
        return whole

    def part_of(self, array: Any, spec: PartitionSpec, shape: Sequence[int] | None) -> Any:
        """Build the array that `put_local` returns, without comparing elements that several processes store."""
        return pjrt.put_local(array, self.sharding(spec), shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Any:
        return tuple(self.shape.items()), tuple(self.devices.flat)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in self.shape.items())
        return f"Mesh({axes} on {self.platform})"


def _grid(sizes: Mapping[str, int], platform: str) -> Any:
    wanted = math.prod(sizes.values())
    devices = pjrt.client(platform).devices()
    if wanted > len(devices) or min(sizes.values(), default=1) < 1:
        hint = '; jax.config.update("jax_num_cpu_devices", n) before first use makes more'
        raise InvalidConfigError(
            f"Mesh: {dict(sizes)} has {wanted} places, platform {platform!r} has {len(devices)} devices"
            + (hint if platform == "cpu" else "")
        )
    grid = np.empty(wanted, dtype=object)
    grid[:] = devices[:wanted]
    return grid.reshape(tuple(sizes.values()))


@dataclass(frozen=True)
@public_methods
class PartitionedProgram:
    """A program with a mesh, and with a `PartitionSpec` for each leaf of its arguments and its result.

    `XlaExecutor.run` and `XlaExecutor.compile` accept a partitioned program in place of a program; see `partition`.
    """

    program: GraphProgram
    mesh: Mesh
    in_specs: tuple[PartitionSpec, ...]
    out_specs: tuple[PartitionSpec, ...]

    @property
    def partitioning(self) -> Partitioning:
        """The sizes of the mesh and the specs, without devices, as the lowered module contains them."""
        return Partitioning(tuple(self.mesh.shape.items()), self.in_specs, self.out_specs)

    def save(self, path: Any) -> None:
        """Write the program and its partition to a `.tnf` file.

        `load_partitioned` reads both; `tenferro.load` reads the program alone.

        Raises:
            UnsupportedError, InvalidConfigError, OSError: as `tenferro.save`.
        """
        save(self.program, path, attributes={PARTITIONING: self.partitioning.to_document()})

    def put(self, *arrays: Any) -> tuple[Any, ...]:
        """Shard the arguments over the mesh, and return them in the program's trees.

        With several processes, each process passes the whole arguments, which must be equal in all processes; see
        `Mesh.put`.

        Raises:
            ArityError, DTypeError, ShapeError: the arguments do not fit.
            InvalidConfigError: arguments differ among processes; the message names them.
        """
        leaves = self.program.check_arguments(arrays)
        return unflatten(self.program.in_tree, self.put_leaves(leaves))

    def put_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """Shard leaves that `check_arguments` returned over the mesh; the processes compare all leaves at once."""
        named = dict(zip(self.program.input_names, leaves, strict=True))
        pjrt.require_same_in_all_processes(named, self.mesh.devices)
        return [
            self.mesh.put_checked(x, spec) for x, spec in zip(leaves, self.in_specs, strict=True)
        ]

    def put_local(self, *arrays: Any) -> tuple[Any, ...]:
        """Shard the arguments over the mesh; each process passes the elements of its own devices.

        Replicated arguments are passed whole, and must be the same in all processes.

        Raises:
            ArityError, DTypeError, ShapeError: the arguments do not fit.
            InvalidConfigError: processes that store the same elements passed different ones.
        """
        leaves, tree = flatten(arrays)
        if not agree(tree, self.program.in_tree):
            parting = difference(self.program.in_tree, tree, ("expected", "got"))
            raise ArityError(f"put_local: the arguments have another structure: {parting}")
        whole: dict[str, Any] = {}
        inputs = zip(
            leaves, self.program.input_names, self.program.input_specs, self.in_specs, strict=True
        )
        for leaf, name, wanted, spec in inputs:
            part = as_operand(leaf)
            if DType.of(part.dtype) is not wanted.dtype:
                raise DTypeError(f"put_local: {name}: expected {wanted.dtype}, got {part.dtype}")
            shape = wanted.shape if wanted.is_static else None
            whole[name] = self.mesh.part_of(part, spec, shape)
        pjrt.require_equal_replicas(whole, self.mesh.devices)
        return unflatten(tree, list(whole.values()))


PARTITIONING = "partitioning"
"""Name of the attribute of a `.tnf` file that contains the partition."""


def saved_partitioning(path: Any) -> Partitioning | None:
    """Return the partition in a `.tnf` file; None if the file contains a program without a partition."""
    document = load_attributes(path).get(PARTITIONING)
    return None if document is None else Partitioning.of_document(document)


def load_partitioned(path: Any, mesh: Mesh | None = None) -> PartitionedProgram:
    """Load the program and its partition in a file that `PartitionedProgram.save` wrote.

    Args:
        mesh: the mesh to use; by default a mesh of CPU devices with the sizes in the file.

    Raises:
        InvalidConfigError: the file has no partition, there are too few devices, or the mesh has other axes.

    >>> import os, tempfile, numpy as np, tenferro as tnf
    >>> path = os.path.join(tempfile.mkdtemp(), "sum.tnf")
    >>> program = tnf.compile(lambda x: tnf.sum(x), np.ones(4))
    >>> partition(program, Mesh({"batch": 1}), PartitionSpec("batch")).save(path)
    >>> load_partitioned(path).in_specs
    (PartitionSpec('batch'),)
    """
    partitioning = saved_partitioning(path)
    if partitioning is None:
        raise InvalidConfigError(f"load_partitioned: {path} contains a program without a partition")
    return partitioned_as(load(path), partitioning, mesh)


def partitioned_as(
    program: GraphProgram, partitioning: Partitioning, mesh: Mesh | None = None
) -> PartitionedProgram:
    """Return a program with a partition over the devices of `mesh`, by default over CPU devices.

    Raises:
        InvalidConfigError, ShapeError: the partition does not fit the devices or the types.
    """
    mesh = Mesh(dict(partitioning.mesh)) if mesh is None else mesh
    if tuple(mesh.shape.items()) != partitioning.mesh:
        raise InvalidConfigError(
            f"partition: the saved partition is over {dict(partitioning.mesh)}, and the mesh is {mesh}"
        )
    inputs = list(zip(program.input_names, program.input_specs, strict=True))
    outputs = list(zip(program.output_names, program.output_specs, strict=True))
    partitioning.require_fits(inputs, outputs)
    return PartitionedProgram(program, mesh, partitioning.inputs, partitioning.outputs)


def partition(
    program: GraphProgram, mesh: Mesh, in_specs: Any = None, out_specs: Any = None
) -> PartitionedProgram:
    """Partition a program over a mesh.

    When the result is compiled, XLA's partitioner derives the program of each device, and inserts the collectives.

    Args:
        in_specs: one `PartitionSpec` for all arguments, or a tuple with one entry per argument. An entry may be a tree
            that is a prefix of the argument's tree. None replicates an argument on every device.
        out_specs: the specs of the result: one for all leaves, or a tree that is a prefix of the result's tree.

    Raises:
        ArityError: the specs are not a prefix of the trees.
        ShapeError: an extent cannot be divided evenly.
        InvalidConfigError: a mesh axis is unknown, or a Mesh or PartitionSpec is jax's instead of tenferro's.

    >>> import numpy as np, tenferro as tnf
    >>> from xla_peer import XlaExecutor
    >>> program = tnf.compile(lambda x: tnf.sum(x), np.ones(4))
    >>> cut = partition(program, Mesh({"batch": 1}), PartitionSpec("batch"))
    >>> XlaExecutor("cpu").run(cut, np.arange(4.0))
    array(6.)
    """
    checked: Any = mesh
    if not isinstance(checked, Mesh):
        raise InvalidConfigError(
            f"partition: mesh must be an xla_peer.Mesh, got {type(checked).__name__}; of jax's, "
            "Mesh(mesh.devices, mesh.axis_names)"
        )
    arguments = unflatten(program.in_tree, range(len(program.input_specs)))
    result = unflatten(program.out_tree, range(len(program.output_specs)))
    cut = PartitionedProgram(
        program,
        mesh,
        _specs("in_specs", in_specs, arguments),
        _specs("out_specs", out_specs, result),
    )
    named = zip(
        (*program.input_names, *program.output_names),
        (*program.input_specs, *program.output_specs),
        (*cut.in_specs, *cut.out_specs),
        strict=True,
    )
    for name, leaf, spec in named:
        spec.extents(leaf.shape, mesh.shape, name)
    return cut


def _specs(name: str, prefix: Any, tree: Any) -> tuple[PartitionSpec, ...]:
    try:
        entries = prefix_leaves(prefix, tree)
    except ValueError as error:
        raise ArityError(f"partition: {name} is not a prefix of the tree: {error}") from None
    for entry in entries:
        if entry is not None and not isinstance(entry, PartitionSpec):
            raise InvalidConfigError(
                f"partition: {name} holds PartitionSpecs of xla_peer, got {entry!r} from "
                f"{type(entry).__module__}"
            )
    return tuple(PartitionSpec() if entry is None else entry for entry in entries)
