"""Readers of operations that communicate between devices.

By default the program computes the results of one device, and a collective on a group of one device returns its
operand. A mesh in the module, or `import_stablehlo(devices=..)`, defines several devices. Then the program computes the
results of all devices at once, along a leading axis. A collective is read as an `Exchange` of values, followed by each
device's own computation.

A device is identified by the numbers of its replica and of its partition. The number of the device is replica *
partitions + partition, where `partitions` is the number of partitions of a replica.

Source: StableHLO spec, "Parallel execution", #all_gather, #all_reduce, #all_to_all, #collective_broadcast,
#collective_permute, #partition_id, #recv, #reduce_scatter, #replica_id, #send; Shardy's documentation of `sdy.manual_computation`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lowering.module_tree import Block, Operation
from lowering.read.control import MOST_ITERATIONS, chosen_branch, evaluated_values, has_next
from lowering.read.meshes import Cut, constraint_of, cuts_of, groups_along, names_of
from lowering.read.reader import DEEPEST_CALL, Reader, ReadRows, Scope, Write, located
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ext.collectives import Exchange, on_all_devices
from tenferro.ext.sharding.families import ShardingConstraint
from tenferro.ops import elementwise as el
from tenferro.ops import structural as st
from tenferro.ops.extension import Extension
from tenferro.ops.indexing import DynamicSlice, Gather
from tenferro.program import ProgramBuilder
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "Devices", "on_devices"]


class Devices(NamedTuple):
    """The devices that run a module: the number of replicas, and the number of partitions of each replica."""

    replicas: int
    partitions: int

    @property
    def total(self) -> int:
        """The number of devices."""
        return self.replicas * self.partitions

    @classmethod
    def of(cls, requested: int | Mapping[str, int], attributes: Mapping[str, Any]) -> Devices:
        """Return the devices that the caller requests, after a check against the module's declarations.

        Args:
            requested: the number of devices; a dictionary with "replicas" and "partitions"; or the sizes of a mesh's
                axes by name, whose product is the number of partitions.
            attributes: the module's attributes, which may declare the numbers of replicas and partitions.

        Raises:
            InvalidConfigError: a number is below 1, or contradicts the module.

        >>> Devices.of({"x": 4, "y": 2}, {}), Devices.of({"replicas": 2}, {})
        (Devices(replicas=1, partitions=8), Devices(replicas=2, partitions=1))
        """
        declared = [attributes.get(f"mhlo.num_{name}s") for name in ("replica", "partition")]
        sizes: list[Any] = [requested] if isinstance(requested, int) else list(requested.values())
        if not sizes or not all([isinstance(n, int) and n >= 1 for n in sizes]):
            raise InvalidConfigError(
                f"import_stablehlo: devices must be at least 1, got {requested!r}"
            )
        if isinstance(requested, Mapping) and requested.keys() <= {"replicas", "partitions"}:
            devices = cls(requested.get("replicas", 1), requested.get("partitions", 1))
        else:
            replicas = declared[0] or 1
            total = math.prod(sizes)
            devices = cls(replicas, total // replicas) if total % replicas == 0 else cls(1, total)
        mine = [devices.replicas, devices.partitions]
        if any([said not in (None, n) for said, n in zip(declared, mine, strict=True)]):
            raise InvalidConfigError(
                f"import_stablehlo: the module has {declared[0] or 1} replicas and {declared[1] or 1} partitions, "
                f"got devices={requested!r}"
            )
        return devices


def on_devices(
    r: Reader, write: Write, specs: Sequence[TensorSpec], values: Sequence[int], devices: Devices
) -> list[int]:
    """Apply a function on all devices at once; each result has a leading axis with an element per device.

    Args:
        write: writes the function for one device; it maps the arguments to the results.
        specs: the types of one device's arguments.
        values: the arguments of all devices, each with a leading axis.
    """
    outside, device, among = r.builder, r.device, r.devices
    r.builder = ProgramBuilder(trusted=r.trusted)
    number = r.builder.input(TensorSpec.of((), DType.I64))
    arguments = [r.builder.input(spec) for spec in specs]
    r.device, r.devices = (lambda: number), devices
    extents, r.extents = r.extents, {}
    claims, r.claims = r.claims, {}
    ranges, r.ranges = r.ranges, {}
    pieces, r.pieces = r.pieces, {}
    try:
        outputs = write(arguments)
        program = r.builder.finish(outputs, inputs=[number, *arguments])
    finally:
        r.builder, r.device, r.devices = outside, device, among
        r.extents, r.claims = extents, claims
        r.ranges, r.pieces = ranges, pieces
    together = on_all_devices(program, devices.total)
    numbers = r.constant(np.arange(devices.total, dtype=np.int64))
    places = dict(zip(together.input_slots, [numbers, *values], strict=True))
    r.builder.copy(together.instructions, places)
    return [places[slot] for slot in together.output_slots]


# ---- groups ------------------------------------------------------------------------------------


def channel_of(operation: Operation) -> int:
    """Return the number of an operation's channel; 0 if the operation has no channel."""
    channel = re.search(r"-?\d+", str(operation.attributes.get("channel_handle", "")))
    return int(channel[0]) if channel else 0


def groups_of(r: Reader, operation: Operation, by_channel: str) -> list[list[int]]:
    """Return the groups of devices that communicate, as lists of device numbers in the order of the attribute.

    Args:
        by_channel: the meaning of the attribute's numbers if the operation has a channel. The numbers are partitions of
            each replica ("partitions"), or replicas with all their partitions ("both").
    """
    replicas, partitions = _among(r)
    groups = _groups_attribute(operation)
    has_channel = channel_of(operation) > 0
    is_flat = has_channel and "use_global_device_ids" in operation.attributes
    across = "ids" if is_flat else by_channel if has_channel else "replicas"
    if not groups.size:
        counts = {"ids": replicas * partitions, "partitions": partitions}
        groups = np.arange(counts.get(across, replicas))[None]
    rows: list[list[int]] = []
    for members in groups.reshape(-1, groups.shape[-1]).tolist():
        group = [number for number in members if number >= 0]  # smaller groups are padded with -1
        if across == "ids":
            rows.append(group)
        elif across == "partitions":
            rows += [[r_ * partitions + p for p in group] for r_ in range(replicas)]
        elif across == "both":
            rows.append([r_ * partitions + p for p in range(partitions) for r_ in group])
        else:
            rows += [[r_ * partitions + p for r_ in group] for p in range(partitions)]
    return rows


def _groups_attribute(operation: Operation) -> Any:
    """Return the attribute `replica_groups` as an array with a row per group.

    If the attribute names mesh axes instead, the groups are computed from the mesh.
    """
    groups = operation.attributes["replica_groups"]
    if isinstance(groups, str):
        return groups_along(groups)
    return np.asarray(groups, np.int64)


def _among(r: Reader) -> Devices:
    assert r.devices is not None
    return r.devices


def members_of(r: Reader, operation: Operation, by_channel: str) -> list[tuple[int, ...]]:
    """Return, for each device, the members of the group that contains it; see `groups_of`.

    Raises:
        InvalidConfigError: a group contains a number that no device has, or a device is not in exactly one group.
    """
    count, groups = _among(r).total, groups_of(r, operation, by_channel)
    members = [device for group in groups for device in group]
    if sorted(members) != list(range(count)):
        raise InvalidConfigError(
            f"{operation.name}: the groups must have each of {count} devices once, got {groups}"
        )
    of_devices = {device: tuple(group) for group in groups for device in group}
    return [of_devices[device] for device in range(count)]


def exchanged(r: Reader, x: int, sources: Sequence[Sequence[int]]) -> int:
    """Return the values that x has on other devices, along a new leading axis.

    `sources` contains, for each device, the list of these other devices.
    """
    op = Exchange(tuple(map(tuple, sources)))
    return r.apply_one(Extension(op), x, r.device())


def gathered(r: Reader, operation: Operation, x: int, by_channel: str) -> tuple[int, int]:
    """Gather the values of x on all devices of this device's group along a new leading axis.

    Return the values, and this device's position in its group.
    """
    groups = members_of(r, operation, by_channel)
    if len({*map(len, groups)}) > 1:
        raise UnsupportedError(
            f"{operation.name}: groups of different sizes, {sorted({*groups})}; give groups of one size"
        )
    return exchanged(r, x, groups), position_of(r, groups)


def position_of(r: Reader, groups: Sequence[Sequence[int]]) -> int:
    """Return this device's position in its group; `groups` contains the group of each device."""
    return of_device(r, [group.index(device) for device, group in enumerate(groups)])


def of_device(r: Reader, numbers: Sequence[int]) -> int:
    """Return the element of `numbers` that belongs to this device; the list has one element per device."""
    gather = Gather(
        offset_dims=(),
        collapsed_slice_dims=(0,),
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        start_index_map=(0,),
        index_vector_dim=0,
        slice_sizes=(1,),
    )
    return r.apply_one(gather, r.constant(np.array(numbers, np.int64)), r.reshape(r.device(), (1,)))


def is_alone(r: Reader, operation: Operation) -> bool:
    """Return whether the program computes the results of only one device.

    Raises:
        UnsupportedError: the program computes only one device, but the operation's groups contain several.
    """
    if r.devices is not None:
        return False
    groups = _groups_attribute(operation)
    _require_one(operation, groups.shape[-1] if groups.size else 1)
    return True


def _require_one(operation: Operation, count: int) -> None:
    if count > 1:
        raise UnsupportedError(
            f"{operation.name} among {count} devices: a program here is one device's; give devices=, their number, "
            "for a program of all of them, or import the module as it was before partitioning"
        )


# ---- collectives -------------------------------------------------------------------------------


def combined(r: Reader, operation: Operation, x: int) -> int:
    """Reduce the leading axis of x by the operation's region.

    The reduction is a binary tree: neighbouring slices are combined first, then neighbouring results, so the order is
    preserved.
    """
    while (count := r.spec(x).shape[0]) > 1:
        even = count - count % 2
        pair = [r.slice(r.slice(x, 0, 0, even), 0, start, even, 2) for start in (0, 1)]
        (y,) = r.lifted(operation.regions[0], pair)
        if count % 2:
            y = r.apply_one(st.Concatenate(0, 2), y, r.slice(x, 0, even, count))
        x = y
    return r.reshape(x, r.spec(x).shape[1:])


def all_reduce(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    if is_alone(r, operation):
        return list(operands)
    groups = members_of(r, operation, "both")
    return [reduced(r, operation, x, groups) for x in operands]


def replica_sum(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read `cross-replica-sum`, the older form of `all_reduce` with an addition as its region.

    Raises:
        InvalidConfigError: the groups do not contain all replicas 0, 1, ..; MLIR does not verify the groups of this
            operation.
    """
    groups = _groups_attribute(operation)
    members = sorted(groups[groups >= 0].tolist())
    if members != list(range(len(members))):
        raise InvalidConfigError(f"{operation.name}: the groups {groups.tolist()} lack a replica")
    scalar = TensorSpec.of((), r.spec(operands[0]).dtype)
    total = replace(operation, name="stablehlo.add", operands=(0, 1), results=(2,), types=(scalar,))
    end = replace(operation, name="stablehlo.return", operands=(2,), results=(), types=())
    region = Block((0, 1), (scalar, scalar), [total, end])
    return all_reduce(r, replace(operation, regions=(region,)), operands)


def reduced(r: Reader, operation: Operation, x: int, groups: Sequence[Sequence[int]]) -> int:
    """Reduce the values that x has on the devices of a group, for each group; groups may differ in size."""
    sizes = [len(group) for group in groups]
    largest = max(sizes)
    values = exchanged(r, x, [[*group, *[-1] * (largest - len(group))] for group in groups])
    total = combined(r, operation, values)
    for size in sorted({*sizes} - {largest}):
        is_size = r.apply_one(el.Compare("EQ"), of_device(r, sizes), r.constant(size, DType.I64))
        smaller = combined(r, operation, r.slice(values, 0, 0, size))
        is_size = r.spread(is_size, r.spec(total).shape)
        total = r.apply_one(el.Select(), is_size, smaller, total)
    return total


def all_gather(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    if is_alone(r, operation):
        return list(operands)
    axis = operation.attributes["all_gather_dim"]
    return [merged(r, gathered(r, operation, x, "both")[0], axis) for x in operands]


def merged(r: Reader, x: int, axis: int) -> int:
    """Concatenate the slices x[0], x[1], .. along the axis number `axis` of a slice."""
    shape = r.spec(x).shape
    x = r.transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, len(shape))))
    count, *rest = shape
    rest[axis] = rest[axis] * count
    return r.reshape(x, rest)


def part_of(r: Reader, x: int, axis: int, count: int, index: int) -> int:
    """Divide x into `count` equal parts along an axis, and return the part number `index`.

    Raises:
        InvalidConfigError: the axis's extent is not a multiple of `count`.
    """
    shape = r.spec(x).shape
    if shape[axis] % count:
        raise InvalidConfigError(f"axis {axis} of {r.spec(x)} has no {count} equal parts")
    size = shape[axis] // count
    start = r.apply_one(el.Multiply(), index, r.constant(size, DType.I64))
    zero = r.constant(0, DType.I64)
    starts = [start if i == axis else zero for i in range(len(shape))]
    sizes = tuple([size if i == axis else extent for i, extent in enumerate(shape)])
    return r.apply_one(DynamicSlice(sizes), x, *starts)


def reduce_scatter(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    if is_alone(r, operation):
        return list(operands)
    (x,) = operands
    values, index = gathered(r, operation, x, "both")
    count = r.spec(values).shape[0]
    axis = operation.attributes["scatter_dimension"]
    return [part_of(r, combined(r, operation, values), axis, count, index)]


def all_to_all(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    if is_alone(r, operation):
        return list(operands)
    a = operation.attributes
    results: list[int] = []
    for x in operands:
        values, index = gathered(r, operation, x, "partitions")
        count = r.spec(values).shape[0]
        if a["split_count"] != count:
            raise InvalidConfigError(
                f"{operation.name}: split_count is {a['split_count']}, and a group has {count} devices"
            )
        part = part_of(r, values, a["split_dimension"] + 1, count, index)
        results.append(merged(r, part, a["concat_dimension"]))
    return results


def permuted(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `collective_permute`, which moves values between pairs of devices; a device without a source gets zeros."""
    pairs = np.asarray(operation.attributes["source_target_pairs"], np.int64).reshape(-1, 2)
    if r.devices is None:
        _require_one(operation, int(pairs.max(initial=0)) + 1)
        return operands[0] if len(pairs) else r.full(0, r.spec(operands[0]))
    return _moved(r, operation, operands[0], pairs)


def _moved(r: Reader, operation: Operation, x: int, pairs: Any) -> int:
    """Return the value that x has on the source of each device, and zeros on devices without a source."""
    y = exchanged(r, x, [[source] for source in _sources(r, operation, pairs)])
    return r.reshape(y, r.spec(x).shape)


def _sources(r: Reader, operation: Operation, pairs: Any) -> list[int]:
    """Return, for each device, the number of the device from which it receives a value, or -1."""
    replicas, partitions = _among(r)
    sources = [-1] * (replicas * partitions)
    is_among_partitions = channel_of(operation) > 0
    count, kind = (partitions, "partitions") if is_among_partitions else (replicas, "replicas")
    for source, target in np.asarray(pairs, np.int64).reshape(-1, 2).tolist():
        if not 0 <= min(source, target) <= max(source, target) < count:
            raise InvalidConfigError(
                f"{operation.name}: a pair sends from {source} to {target}, but the number of {kind} is {count}"
            )
        if is_among_partitions:
            moves = [(n * partitions + source, n * partitions + target) for n in range(replicas)]
        else:
            moves = [(source * partitions + p, target * partitions + p) for p in range(partitions)]
        for sender, receiver in moves:
            sources[receiver] = sender
    return sources


def send(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `send`: record the values for a later `recv` on the same channel, and return the token.

    Raises:
        UnsupportedError: the receiver is the host, or the program runs on one device.
    """
    *values, token = operands
    if r.devices is None or operation.attributes.get("is_host_transfer", False):
        raise UnsupportedError(
            f"{operation.name}: return the value that it writes as a result of the module"
        )
    pairs = operation.attributes.get("source_target_pairs")
    r.sent.setdefault((id(r.builder), channel_of(operation)), []).append((values, pairs))
    return token


def receive(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read `recv`: return the values that this device's source has sent on the channel, and the token.

    Raises:
        UnsupportedError: the sender is the host, or no `send` on the channel precedes the operation.
    """
    if r.devices is None or operation.attributes.get("is_host_transfer", False):
        raise UnsupportedError(
            f"{operation.name}: pass the value that it reads as an argument of the module"
        )
    channel = channel_of(operation)
    queue = r.sent.get((id(r.builder), channel), [])
    values, pairs = queue.pop(0) if queue else (None, None)
    pairs = operation.attributes.get("source_target_pairs", pairs)
    if values is None or pairs is None or not np.size(pairs):
        raise UnsupportedError(
            f"{operation.name}: channel {channel} needs a send before it in the same function, and source_target_pairs "
            "of one of the two; a collective_permute says both at once"
        )
    return [*[_moved(r, operation, x, pairs) for x in values], operands[-1]]


def broadcast(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read `collective_broadcast`: each device gets the value of its group's root, or zeros if it is in no group."""
    count = len(operation.results)
    if is_alone(r, operation):
        return operands[:count]
    groups = groups_of(r, operation, "partitions")
    members: list[Sequence[int]] = [()] * _among(r).total
    for group in groups:
        for device in group:
            if device >= len(members):
                raise InvalidConfigError(
                    f"{operation.name}: group {group}, of {len(members)} devices"
                )
            members[device] = group
    size = max(map(len, groups), default=0)
    sources = [[*group, *[-1] * (size - len(group))] for group in members]
    roots = roots_of(r, operation, operands)
    return [
        r.reshape(part_of(r, exchanged(r, x, sources), 0, size, root), r.spec(x).shape)
        for x, root in zip(operands[:count], roots, strict=True)
    ]


def roots_of(r: Reader, operation: Operation, operands: Sequence[int]) -> list[int]:
    """Return, for each result, the position of the root in its group: 0, or an element of the last operand."""
    count = len(operation.results)
    if operation.attributes.get("has_dynamic_root", False) is False:
        return [r.constant(0, DType.I64)] * count
    positions = r.convert(operands[-1], DType.I64)
    if r.spec(positions).shape != (count,):
        raise InvalidConfigError(
            f"{operation.name}: {count} results must have as many roots, got {r.spec(positions)}"
        )
    return [r.reshape(r.slice(positions, 0, i, i + 1), ()) for i in range(count)]


def rooted(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read `collective_reduce`: a group's root gets the sum or other reduction, and all other devices get zeros."""
    count = len(operation.results)
    if is_alone(r, operation):
        return operands[:count]
    results: list[int] = []
    groups = members_of(r, operation, "both")
    place = position_of(r, groups)
    for x, root in zip(operands[:count], roots_of(r, operation, operands), strict=True):
        total = reduced(r, operation, x, groups)
        spec = r.spec(total)
        is_root = r.spread(r.apply_one(el.Compare("EQ"), place, root), spec.shape)
        results.append(r.apply_one(el.Select(), is_root, total, r.full(0, spec)))
    return results


def infeed(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read `infeed`: call the next function of the list `r.feeds`, and return its results and the token.

    Raises:
        UnsupportedError: no function is left, or the operation is not inside of `interpreter.run_parallel`.
    """
    if not r.feeds:
        raise UnsupportedError(
            f"{operation.name}: pass the value that it reads as an argument of the module"
        )
    return [*r.call(r.feeds.pop(0), []), operands[-1]]


def outfeed(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `outfeed`: return the token. The values are dropped, because nothing can read them.

    Raises:
        UnsupportedError: the operation is not inside of `interpreter.run_parallel`.
    """
    if r.feeds is None:
        raise UnsupportedError(
            f"{operation.name}: return the value that it writes as a result of the module"
        )
    return operands[-1]


def run_parallel(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read `interpreter.run_parallel`, which runs a function on each of several processes; a process is a device.

    If all processes run the same function, they are computed at once; see `_run_in_turn` for different functions.

    Raises:
        InvalidConfigError: the grid of functions is empty or ragged, or a function is unknown or has the wrong
            number of arguments or results.
        UnsupportedError: see `_run_in_turn`.
    """
    programs, feeds = operation.attributes["programs"], operation.attributes.get("infeed")
    grid = [list(row) for row in programs if not isinstance(row, str)]
    if not grid or len(grid) != len(programs) or len({*map(len, grid)}) != 1 or not grid[0]:
        raise InvalidConfigError(
            f"{operation.name}: programs must be rows of equal length, got {programs}"
        )
    names = [name for row in grid for name in row]
    for name in (*names, *(feeds or ())):
        if name not in r.tree.functions:
            raise InvalidConfigError(f"{operation.name}: the module has no function @{name}")
    functions = [r.tree.functions[name] for name in names]
    for words, count, wanted in (
        ("operands", len(operands), sum([len(each.body.types) for each in functions])),
        ("results", len(operation.results), sum([len(each.result_types) for each in functions])),
    ):
        if count != wanted:
            raise InvalidConfigError(
                f"{operation.name}: {count} {words}, and the functions have {wanted}"
            )
    devices = Devices(len(grid), len(grid[0]))
    if len({*names}) == 1 and feeds is None and devices.total > 1:
        return _run_at_once(r, names[0], operands, devices)
    starts = np.cumsum([0, *[len(each.body.types) for each in functions]]).tolist()
    arguments = [operands[start:end] for start, end in pairwise(starts)]
    outside = r.devices, r.device, r.feeds
    r.devices, r.feeds = (devices if devices.total > 1 else None), list(feeds or ())
    try:
        return _run_in_turn(r, operation, names, arguments)
    finally:
        r.devices, r.device, r.feeds = outside


Steps = Generator[tuple[Operation, list[int]], Sequence[int], list[int]]
"""Generator that reads the function of one process.

It yields each operation that communicates, with its operands. It is sent the results of the operation. At the end it
returns the function's results.
"""


def _run_in_turn(
    r: Reader, operation: Operation, names: Sequence[str], arguments: Sequence[Sequence[int]]
) -> list[int]:
    """Read the processes in turn, each until it waits for a message, or for all processes at a collective.

    Operations that communicate may be in called functions, and in branches and loops that no argument decides, which
    are unrolled.

    Raises:
        UnsupportedError: processes wait for each other; or a process reaches a different collective than the others, or
            ends while they wait; or an operation that communicates is in any other region.
    """
    talking = frozenset(
        [name for name in r.tree.functions if any([_talks(each) for each in _reached(r, name)])]
    )
    steps = [
        _steps_of_call(r, name, xs, talking) for name, xs in zip(names, arguments, strict=True)
    ]
    messages: list[_Message] = []
    waiting: dict[int, tuple[Operation, list[int]]] = {}
    results: dict[int, list[int]] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(steps)))
    while len(results) < len(steps):
        for process, answer in answers.items():
            r.device = partial(r.constant, process, DType.I64)
            try:
                waiting[process] = steps[process].send(answer)
            except StopIteration as done:
                waiting.pop(process, None)
                results[process] = done.value
        delivered = {p: _delivered(r, p, *waiting[p], messages) for p in waiting}
        answers = {process: answer for process, answer in delivered.items() if answer is not None}
        if waiting and not answers:
            answers = dict(enumerate(_met(r, operation, waiting, len(steps))))
    return [value for process in range(len(steps)) for value in results[process]]


class _Message(NamedTuple):
    """Values that were sent on a channel and not yet received.

    `targets` contains the processes that may receive the values, or is None for all processes.
    """

    channel: int
    targets: frozenset[int] | None
    values: Sequence[int]


def _delivered(
    r: Reader, process: int, operation: Operation, operands: list[int], messages: list[_Message]
) -> Sequence[int] | None:
    """Send a process's message, or receive one; return the results, or None if the process has to wait."""
    if operation.name not in POINT_TO_POINT:
        return None
    *values, token = operands
    channel = channel_of(operation)
    pairs = operation.attributes.get("source_target_pairs")
    sources = None if pairs is None or not np.size(pairs) else _sources(r, operation, pairs)
    if operation.name == "stablehlo.send":
        targets = None
        if sources is not None:
            targets = frozenset([to for to, source in enumerate(sources) if source == process])
        messages.append(_Message(channel, targets, values))
        return [token]
    if sources is not None and sources[process] < 0:
        zeros = [r.full(0, spec) for spec in operation.types if isinstance(spec, TensorSpec)]
        return [*zeros, token]
    for message in messages:
        is_mine = message.targets is None or process in message.targets
        if message.channel == channel and is_mine:
            messages.remove(message)
            return [*message.values, token]
    return None


def _met(
    r: Reader, operation: Operation, waiting: Mapping[int, tuple[Operation, list[int]]], count: int
) -> list[list[int]]:
    """Read the collective that all processes have reached, and return the results of each process.

    Raises:
        UnsupportedError: a process waits for a message, has ended, or is at another collective.
    """
    for process, (each, _) in waiting.items():
        if each.name in POINT_TO_POINT:
            raise UnsupportedError(
                f"{operation.name}: process {process} waits for ever: {each.name} on channel {channel_of(each)} needs a send"
            ).at(located(each))
    reached = [waiting.get(process) for process in range(count)]
    kinds = {None if each is None else _kind_of(each[0]) for each in reached}
    meeting = [each for each in reached if each is not None]
    if len(kinds) > 1:
        names = sorted({"the end" if each is None else each[0].name for each in reached})
        raise UnsupportedError(
            f"{operation.name}: processes of different functions reach {' and '.join(names)} with other attributes or "
            "types at once; all take part in one collective after the other"
        )
    first = meeting[0][0]
    columns = list(zip(*[operands for _, operands in meeting], strict=True))
    specs = [r.spec(column[0]) for column in columns]

    def write(values: Sequence[int]) -> list[int]:
        return list(r.operation(first, dict(zip(first.operands, values, strict=True))))

    stacked = [_stacked(r, column) for column in columns]
    together = on_devices(r, write, specs, stacked, _among(r))
    return [[_unstacked(r, y, process) for y in together] for process in range(count)]


def _callee(operation: Operation) -> Any:
    """Return the name of the function that an operation calls; None if it calls none."""
    attributes = operation.attributes
    return attributes.get("callee", attributes.get("decomposition"))


def _talks(operation: Operation) -> bool:
    """Return whether an operation communicates with other processes."""
    return operation.name in COLLECTIVES or operation.name in POINT_TO_POINT


def _steps_of_call(
    r: Reader, name: str, operands: Sequence[int], talking: frozenset[str], depth: int = 0
) -> Steps:
    """Read a function that communicates with other processes, or calls a function that does."""
    if depth > DEEPEST_CALL:
        raise InvalidConfigError(f"@{name}: calls are nested more than {DEEPEST_CALL} deep")
    return _steps_of_block(r, r.tree.functions[name].body, operands, {}, talking, depth)


def _steps_of_block(
    r: Reader,
    block: Block,
    arguments: Sequence[int],
    outer: Mapping[int, int],
    talking: frozenset[str],
    depth: int,
) -> Steps:
    """Read a block that contains operations that communicate; all other operations are read by their usual readers."""
    values = Scope(outer)
    values.update(zip(block.arguments, arguments, strict=True))
    for operation in block.operations[:-1]:
        operands = [values[value] for value in operation.operands]
        callee = _callee(operation)
        is_meeting = operation.name in COLLECTIVES and r.devices is not None
        results: Sequence[int]
        if is_meeting or operation.name in POINT_TO_POINT:
            results = yield operation, operands
        elif callee in talking:
            results = yield from _steps_of_call(r, callee, operands, talking, depth + 1)
        elif any([
            _talks(each) or _callee(each) in talking
            for region in operation.regions
            for each in region.walk()
        ]):  # fmt: skip
            run = partial(_steps_of_block, r, outer=values, talking=talking, depth=depth)
            results = yield from _steps_of_regions(r, operation, operands, run)
        else:
            results = r.operation(operation, values)
        values.update(zip(operation.results, results, strict=True))
    return [values[value] for value in block.operations[-1].operands]


def _steps_of_regions(
    r: Reader, operation: Operation, operands: list[int], run: Callable[..., Steps]
) -> Steps:
    """Read the selected branch of a conditional, or the iterations of a loop one after another.

    Raises:
        UnsupportedError: arguments decide which branch is taken, or when the loop ends; unrolled loops have
            more than `MOST_ITERATIONS` iterations; or the operation has regions of another kind.
    """
    regions = operation.regions
    if operation.name in ("stablehlo.case", "stablehlo.if"):
        index = r.evaluated(operands[0])
        if index is not None:
            branches = regions if operation.name == "stablehlo.case" else regions[::-1]
            return (yield from run(branches[chosen_branch(int(index), len(branches))], ()))
    if operation.name == "stablehlo.while":
        values = operands
        (decision,) = yield from run(regions[0], values)
        while (continues := has_next(r, decision)) is not None:
            if not continues:
                return list(values)
            results = yield from run(regions[1], values)
            values = evaluated_values(r, results)
            (decision,) = yield from run(regions[0], values)
    raise UnsupportedError(
        f"{operation.name}: has operations that communicate among processes of different functions; they may be in "
        f"branches and in loops of at most {MOST_ITERATIONS} iterations in all, which no argument decides"
    ).at(located(operation))


def _kind_of(operation: Operation) -> tuple[Any, ...]:
    """Return the properties that must be equal for operations of different processes to be the same collective."""
    attributes = sorted([(name, str(value)) for name, value in operation.attributes.items()])
    region = [each.name for block in operation.regions for each in block.operations]
    return operation.name, tuple(attributes), operation.types, tuple(region)


def _stacked(r: Reader, values: Sequence[int]) -> int:
    """Stack the values of all devices along a new leading axis."""
    rows = [r.reshape(x, (1, *r.spec(x).shape)) for x in values]
    return r.apply_one(st.Concatenate(0, len(rows)), *rows)


def _unstacked(r: Reader, x: int, device: int) -> int:
    return r.reshape(r.slice(x, 0, device, device + 1), r.spec(x).shape[1:])


def _reached(r: Reader, name: str) -> Iterator[Operation]:
    """Yield the operations of a function and of all functions that it calls, directly or not, including regions."""
    names = [name]
    for called in names:
        for operation in r.tree.functions[called].body.walk():
            yield operation
            callee = _callee(operation)
            if callee in r.tree.functions and callee not in names:
                names.append(callee)


def _run_at_once(r: Reader, name: str, operands: Sequence[int], devices: Devices) -> Sequence[int]:
    """Apply one function for all processes at once, along a leading axis; return the results process by process."""
    count = len(operands) // devices.total
    columns = [list(operands[i::count]) for i in range(count)]
    specs = [r.spec(column[0]) for column in columns]
    values = [_stacked(r, column) for column in columns]
    together = on_devices(r, lambda arguments: r.call(name, arguments), specs, values, devices)
    return [_unstacked(r, y, device) for device in range(devices.total) for y in together]


def number(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `replica_id` or `partition_id`: return the number of this device's replica or partition."""
    name = operation.name.removeprefix("stablehlo.").removesuffix("_id")
    if r.devices is None:
        _require_one(operation, r.tree.attributes.get(f"mhlo.num_{name}s", 1))
        return r.constant(0, operation.spec.dtype)
    op = el.Remainder() if name == "partition" else el.Divide()
    value = r.apply_one(op, r.device(), r.constant(r.devices.partitions, DType.I64))
    return r.convert(value, operation.spec.dtype)


# ---- shardings ---------------------------------------------------------------------------------


def sharding_constraint(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a sharding constraint of a whole tensor as an extension op, which returns its operand.

    The constraint is omitted if the program computes the results of several devices, or if a `PartitionSpec` cannot
    describe it.
    """
    entries = constraint_of(str(operation.attributes["sharding"]), r.tree.meshes)
    if r.devices is not None or entries is None:
        return operands[0]
    return r.apply_one(Extension(ShardingConstraint(entries)), operands[0])


def manual_computation(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read `sdy.manual_computation`: apply its body to a part of each operand per device, and join the results.

    If several devices compute the same part of a result, the part of the first device is used.
    """
    if r.devices is not None:
        raise UnsupportedError(f"{operation.name} inside of a program of several devices")
    a = operation.attributes
    manual = names_of(a["manual_axes"])
    into, out = [
        cuts_of(str(a[name]), r.tree.meshes, manual) for name in ("in_shardings", "out_shardings")
    ]
    (body,) = operation.regions
    meshes = {cut.mesh.devices: cut.mesh for cut in (*into, *out)}
    if len(meshes) != 1 or len(into) != len(operands) or len(out) != len(operation.results):
        raise UnsupportedError(f"{operation.name}: its operands and results must have one mesh")
    (mesh,) = meshes.values()
    specs = [spec for spec in body.types if isinstance(spec, TensorSpec)]
    parts = [_cut(r, x, cut) for x, cut in zip(operands, into, strict=True)]
    shapes = [r.spec(x).shape[1:] for x in parts]
    if [spec.shape for spec in specs] != shapes:
        raise InvalidConfigError(
            f"{operation.name}: its operands have parts of shapes {shapes}, and the body takes {specs}"
        )
    results = on_devices(
        r,
        lambda arguments: r.block(body, arguments, {}),
        specs,
        parts,
        Devices(1, len(mesh.devices)),
    )
    return [_joined(r, y, cut) for y, cut in zip(results, out, strict=True)]


def _cut(r: Reader, x: int, cut: Cut) -> int:
    """Split x into the parts of all devices, along a new leading axis with an element per device."""
    shape, counts = r.spec(x).shape, cut.counts
    split: list[Any] = []
    for extent, count in zip(shape, counts, strict=True):
        if isinstance(extent, int) and extent % count:
            raise InvalidConfigError(f"sdy: an axis of {r.spec(x)} has no {count} equal parts")
        split += [count, extent // count]
    rank = len(shape)
    y = r.transpose(r.reshape(x, split), (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)))
    return _rows(r, r.reshape(y, (math.prod(counts), *split[1::2])), cut.rows)


def _joined(r: Reader, x: int, cut: Cut) -> int:
    """Assemble a whole tensor from the parts of all devices, which are stacked along the leading axis of x."""
    counts, (_, *shape) = cut.counts, r.spec(x).shape
    _, firsts = np.unique(cut.rows, return_index=True)
    y = r.reshape(_rows(r, x, firsts), (*counts, *shape))
    rank = len(counts)
    y = r.transpose(
        y, [axis for pair in zip(range(rank), range(rank, 2 * rank), strict=True) for axis in pair]
    )
    return r.reshape(y, [count * extent for count, extent in zip(counts, shape, strict=True)])


def _rows(r: Reader, x: int, rows: np.ndarray) -> int:
    """Gather the slices x[rows[0]], x[rows[1]], ..; return x itself if `rows` is 0, 1, .., x.shape[0] - 1."""
    shape = r.spec(x).shape
    if rows.tolist() == list(range(shape[0])):
        return x
    gather = Gather(
        offset_dims=tuple(range(1, len(shape))),
        collapsed_slice_dims=(0,),
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *shape[1:]),
    )
    return r.apply_one(gather, x, r.constant(np.asarray(rows, np.int64)))


COLLECTIVES = frozenset(
    [
        f"stablehlo.{name}"
        for name in ("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute",
                     "collective_reduce", "cross-replica-sum", "reduce_scatter")
    ]
)  # fmt: skip
"""Operations in which all processes exchange values at the same time."""
POINT_TO_POINT = frozenset(["stablehlo.recv", "stablehlo.send"])

ROWS: ReadRows = {
    "interpreter.run_parallel": run_parallel,
    "sdy.manual_computation": manual_computation,
    "sdy.sharding_constraint": sharding_constraint,
    "stablehlo.all_gather": all_gather,
    "stablehlo.all_reduce": all_reduce,
    "stablehlo.all_to_all": all_to_all,
    "stablehlo.collective_broadcast": broadcast,
    "stablehlo.collective_permute": permuted,
    "stablehlo.collective_reduce": rooted,
    "stablehlo.cross-replica-sum": replica_sum,
    "stablehlo.infeed": infeed,
    "stablehlo.outfeed": outfeed,
    "stablehlo.partition_id": number,
    "stablehlo.recv": receive,
    "stablehlo.reduce_scatter": reduce_scatter,
    "stablehlo.replica_id": number,
    "stablehlo.send": send,
}
