"""Meshes and shardings from Shardy's text: the partition of tensors over devices.

Source: Shardy's documentation of `sdy.mesh`, `sdy.sharding` and `sdy.manual_computation`; StableHLO's attribute
`replica_group_mesh_axes`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lowering.syntax.constraints import MOST_DEVICES
from tenferro.errors import InvalidConfigError, UnsupportedError

__all__ = ["Cut", "Mesh", "constraint_of", "cuts_of", "groups_along", "names_of"]

_AXIS = re.compile(r'"([^"]+)"\s*=\s*(\d+)')
_DEVICES = re.compile(r"device_ids\s*=\s*\[([^\]]*)\]")
_SHARDING = re.compile(
    r'<(@[\w.$-]+|@"[^"]+"|mesh<[^>]*>), \[((?:\{[^{}]*\}(?:p\d+)?(?:, )?)*)\][^<>]*>'
)
_PLAIN_SHARDING = re.compile(
    r'<@(?:"([^"]+)"|([\w.$-]+)), \[((?:\{[^{}]*\}(?:, )?)*)\]>'
)  # without priorities, and without replicated or unreduced axes
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r'"([^"]+)"(:\(\d+\)\d+)?')
_MESH_AXIS = re.compile(r'mesh_axis<name="([^"]*)",size=(\d+)>')
_AXIS_REF = re.compile(r'axis_ref<name="([^"]*)"(?:,sub_axis_info=\((\d+)\)(\d+))?>')


def device_count(sizes: Mapping[str, int]) -> int:
    """Return the number of devices of a mesh with axes of these sizes.

    Raises:
        UnsupportedError: there are more than `MOST_DEVICES`.
    """
    count = math.prod(sizes.values())
    if count > MOST_DEVICES:
        raise UnsupportedError(f"a mesh of {count} devices; {MOST_DEVICES} are the most")
    return count


@dataclass(frozen=True)
class Mesh:
    """Devices in a grid with named axes.

    Attributes:
        sizes: the extent of each axis, by name.
        devices: the number of the device at each position, in row-major order.
    """

    sizes: dict[str, int]
    devices: tuple[int, ...]

    @classmethod
    def of_text(cls, text: str) -> Mesh:
        """Parse the mesh that an attribute describes.

        >>> Mesh.of_text('#sdy.mesh<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>')
        Mesh(sizes={'x': 2, 'y': 2}, devices=(0, 2, 1, 3))
        """
        sizes = {name: int(size) for name, size in _AXIS.findall(text)}
        listed = _DEVICES.search(text)
        count = device_count(sizes)
        devices = tuple(map(int, listed[1].split(","))) if listed else tuple(range(count))
        if sorted(devices) != list(range(count)):
            raise InvalidConfigError(f"sdy.mesh: {text} does not number {count} devices")
        return cls(sizes, devices)

    def parts(self, axes: tuple[str, ...]) -> np.ndarray:
        """Return the part number of each device along some axes; the first axis varies slowest."""
        grid = np.indices(tuple(self.sizes.values())).reshape(len(self.sizes), -1)
        coordinates = dict(zip(self.sizes, grid, strict=True))
        part = np.zeros(len(self.devices), np.int64)
        for axis in axes:
            part = part * self.sizes[axis] + coordinates[axis]
        of_device = np.empty_like(part)
        of_device[list(self.devices)] = part
        return of_device


@dataclass(frozen=True)
class Cut:
    """Layout of a tensor that is partitioned over the manual axes of a mesh.

    Attributes:
        axes: for each axis of the tensor, the mesh axes that cut it.
    """

    mesh: Mesh
    axes: tuple[tuple[str, ...], ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of parts along each axis of the tensor."""
        return tuple([math.prod(self.mesh.sizes[axis] for axis in axes) for axes in self.axes])

    @property
    def rows(self) -> np.ndarray:
        """The part number of each device, in row-major order."""
        return self.mesh.parts(tuple([axis for axes in self.axes for axis in axes]))


def names_of(text: str) -> tuple[str, ...]:
    """Return the axes that an attribute lists."""
    return tuple([name for name, _ in _NAME.findall(text)])


def cuts_of(text: str, meshes: dict[str, str], manual: tuple[str, ...]) -> list[Cut]:
    """Parse the shardings of several values, along manual axes.

    Raises:
        UnsupportedError: a sharding uses a part of an axis, or the text is not a sharding.

    >>> text = '#sdy.sharding_per_value<[<@m, [{"x", ?}, {}]>]>'
    >>> cuts_of(text, {"m": '<["x"=2]>'}, ("x",))[0].counts
    (2, 1)
    """
    cuts: list[Cut] = []
    for mesh_name, dimensions in _SHARDING.findall(text):
        name = mesh_name.removeprefix("@").strip('"')
        described = mesh_name if mesh_name.startswith("mesh<") else meshes.get(name)
        if described is None:
            raise InvalidConfigError(f"sdy: the module has no mesh @{name}")
        axes: list[tuple[str, ...]] = []
        for dimension in _DIMENSION.findall(dimensions):
            named = _NAME.findall(dimension)
            if any([part for _, part in named]):
                raise UnsupportedError(f"sdy: {dimension} cuts by a part of an axis")
            axes.append(tuple([axis for axis, _ in named if axis in manual]))
        cuts.append(Cut(Mesh.of_text(described), tuple(axes)))
    if text.count("<@") + text.count("<mesh<") != len(cuts):
        raise UnsupportedError(f"sdy: the shardings {text} are of a form without a reader")
    return cuts


def constraint_of(text: str, meshes: dict[str, str]) -> tuple[tuple[str, ...] | None, ...] | None:
    """Parse one sharding: return the mesh axes that cut each axis of a tensor, or None for an axis that is left open.

    Return None for a sharding that a `PartitionSpec` cannot describe. It may use a part of a mesh axis, or leave an
    axis open that it cuts. It may name more axes than the ones that cut the tensor, or be over a mesh without axes.

    >>> meshes = {"m": '<["x"=2]>'}
    >>> constraint_of('#sdy.sharding<@m, [{"x"}, {?}, {}]>', meshes)
    (('x',), None, ())
    >>> constraint_of('#sdy.sharding<@m, [{"x", ?}]>', meshes)
    """
    sharding = _PLAIN_SHARDING.fullmatch(text.removeprefix("#sdy.sharding"))
    if sharding is None or not Mesh.of_text(meshes[sharding[1] or sharding[2]]).sizes:
        return None
    entries: list[tuple[str, ...] | None] = []
    for dimension in _DIMENSION.findall(sharding[3]):
        named = _NAME.findall(dimension)
        if any([part for _, part in named]) or (named and "?" in dimension):
            return None
        entries.append(None if "?" in dimension else tuple([axis for axis, _ in named]))
    return tuple(entries)


def groups_along(text: str) -> np.ndarray:
    """Return groups of devices, one per row, that differ only along the mesh axes that an attribute lists.

    It may list a part of an axis as `(m)k`: the factor k that follows the first factor m.

    Raises:
        InvalidConfigError: the mesh does not have an axis, or a part does not divide it.

    >>> axes = '[mesh_axis<name="x", size=2>, mesh_axis<name="y", size=2>]'
    >>> groups_along(f'<mesh<axes={axes}>, axes=[axis_ref<name="x">]>')
    array([[0, 2],
           [1, 3]])
    """
    text = re.sub(r"\s", "", text)
    sizes = {name: int(size) for name, size in _MESH_AXIS.findall(text)}
    ends = {name: {1, size} for name, size in sizes.items()}
    inside: list[str] = []
    for name, before, steps in _AXIS_REF.findall(text):
        if name not in sizes:
            raise InvalidConfigError(f"replica_groups: the mesh has no axis {name!r}")
        start = int(before or 1)
        ends[name] |= {start, start * int(steps or sizes[name])}
        inside.append(f"{name}({start})")
    parts: dict[str, int] = {}
    for name, places in ends.items():
        for start, stop in pairwise(sorted(places)):
            if stop % start:
                raise InvalidConfigError(
                    f"replica_groups: axis {name!r} has no parts of {start} and {stop}"
                )
            parts[f"{name}({start})"] = stop // start
    mesh = Mesh(parts, tuple(range(device_count(parts))))
    varying = tuple([part for part in inside if part in parts])  # without axes of extent 1
    fixed = tuple([part for part in parts if part not in varying])
    order = np.lexsort((mesh.parts(varying), mesh.parts(fixed)))
    return order.reshape(-1, math.prod([parts[part] for part in varying]))
