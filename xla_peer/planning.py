"""`plan`, which computes memory use and communication of a program partitioned over a mesh of virtual devices.

XLA's partitioner compiles the program for virtual CPU devices. It runs in a separate process, because a process
fixes its number of devices when it starts. The collectives are listed from the optimised HLO. Nothing is
executed unless results are requested.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lowering import Partitioning, PartitionSpec
from tenferro.errors import BackendFailureError, InvalidConfigError
from tenferro.extension.saving import load, save
from tenferro.program import GraphProgram
from tenferro.program.profile import shown_bytes, shown_seconds
from tenferro.table import aligned
from tenferro.types import flatten, unflatten
from xla_peer.storage import restored, stored

__all__ = ["Collective", "Plan", "collectives", "named_partitioning", "plan"]

SECONDS = 600
"""Maximum time for the process that compiles a program, in seconds."""
COLLECTIVE = re.compile(
    r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\((.*)"
)
HEADER = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
CALLED = re.compile(r"(?:body|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
ARRAY = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\]")


@dataclass(frozen=True)
class Collective:
    """A collective operation in the optimised HLO of a partitioned program.

    Attributes:
        kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
        axes: the mesh axes along which devices exchange data.
        devices: the number of devices in each group that exchanges data.
        bytes: the size, on one device, of the complete array that a group gathers, sums or exchanges.
        moved: the minimum number of bytes that each device sends.
        count: the number of executions in a run of the program; None in a loop whose trip count depends on data.
        seconds: the minimum time of all executions, or of one execution if `count` is None. One execution takes `moved`
            divided by the speed of the link. None if the speed of links is unknown.
    """

    kind: str
    axes: tuple[str, ...]
    devices: int
    bytes: int
    moved: int
    count: int | None
    seconds: float | None


@dataclass(frozen=True)
class Plan:
    """Memory and communication of a program partitioned over a mesh.

    Attributes:
        mesh: the sizes of the mesh's axes, by name.
        memory: the bytes on each device, by the kinds "argument", "output", "temporary" and "alias".
        collectives: the collectives, in the order of the HLO.
        outputs: the results of a run on virtual devices; empty if no inputs were given.
    """

    program: str
    mesh: dict[str, int]
    memory: dict[str, int]
    collectives: tuple[Collective, ...]
    outputs: tuple[Any, ...] = ()

    @property
    def memory_per_device(self) -> int:
        """The total size of arguments, results and temporaries on each device, in bytes."""
        sizes = self.memory
        return sizes["argument"] + sizes["output"] + sizes["temporary"] - sizes["alias"]

    @property
    def seconds(self) -> float | None:
        """The sum of the minimum times of all collectives; None if the speed of links is unknown."""
        times = [each.seconds for each in self.collectives]
        return None if None in times else sum(time for time in times if time is not None)

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table of the collectives: a row with the names of columns, and then a row for each collective."""
        header = ("collective", "axes", "devices", "array", "sent by each", "times", "least time")
        rows = [
            (
                each.kind,
                " ".join(each.axes) or "none",
                str(each.devices),
                shown_bytes(each.bytes),
                shown_bytes(each.moved),
                "each iteration" if each.count is None else str(each.count),
                "" if each.seconds is None else shown_seconds(each.seconds),
            )
            for each in self.collectives
        ]
        return [header, *rows]

    def __str__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        sizes = ", ".join(
            f"{name} {shown_bytes(size)}" for name, size in self.memory.items() if size
        )
        lines = [
            f"{self.program} on {math.prod(self.mesh.values())} devices, {axes}",
            f"memory per device: {shown_bytes(self.memory_per_device)} ({sizes})",
        ]
        if not self.collectives:
            return "\n".join([*lines, "no collectives"])
        if self.seconds is not None:
            lines.append(f"least time on links: {shown_seconds(self.seconds)}")
        return "\n".join([*lines, *aligned(self.rows())])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in dicts, lists, numbers and strings, for JSON."""
        return {
            "program": self.program,
            "mesh": self.mesh,
            "memory": self.memory,
            "memory_per_device": self.memory_per_device,
            "seconds": self.seconds,
            "collectives": [asdict(each) for each in self.collectives],
        }


def plan(
    program: GraphProgram,
    mesh: Mapping[str, int],
    cuts: Mapping[str, Sequence[Any]] | None = None,
    links: float | Mapping[str, float] | None = None,
    leaves: Sequence[Any] | None = None,
) -> Plan:
    """Compile a program for a mesh of virtual devices, and return its memory use and its collectives.

    The memory use is computed for XLA on the CPU; other platforms pad and fuse differently. Times are lower bounds: the
    bytes that each device must send, divided by the speed of its link.

    Args:
        program: the program to partition.
        mesh: the sizes of the mesh's axes, by name.
        cuts: entries of a `PartitionSpec` by the name of an input or output, or of an argument for all its leaves.
            Arrays without entries are replicated on every device.
        links: bytes per second of each device's link: one number, or a number by axis if the axes differ.
        leaves: inputs for a run on the virtual devices; None for no run.

    Raises:
        InvalidConfigError: the program or the mesh lacks a name that is used, or an axis has no link speed.
        ShapeError: a mesh axis does not divide an extent evenly.
        BackendFailureError: the process that compiles the program fails.

    >>> import numpy as np, tenferro as tnf
    >>> program = tnf.compile(lambda w, x: tnf.sum(x @ w, axis=0), np.ones((4, 2)), np.ones((8, 4)))
    >>> found = plan(program, {"data": 4}, {"x": ["data"]}, links=1e9)  # doctest: +SKIP
    >>> found.collectives[0].kind, found.collectives[0].bytes  # doctest: +SKIP
    ('all-reduce', 16)

    Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH" (2005),
    for the bytes that each collective must send.
    """
    answer, outputs = _asked(program, mesh, cuts, leaves)
    return Plan(
        program=program.name,
        mesh=dict(mesh),
        memory={name: size for name, size in answer["memory"].items() if name != "generated_code"},
        collectives=tuple(collectives(answer["hlo"], mesh, links)),
        outputs=tuple(outputs),
    )


def _asked(
    program: GraphProgram,
    mesh: Mapping[str, int],
    cuts: Mapping[str, Sequence[Any]] | None,
    leaves: Sequence[Any] | None,
) -> tuple[dict[str, Any], list[Any]]:
    """Compile the program in a separate process; return the answer of the process, and the outputs for `leaves`."""
    _require_mesh(mesh)
    _require_names(program, cuts or {})
    entries = {
        "in": _entries(program.input_names, cuts or {}),
        "out": _entries(program.output_names, cuts or {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        save(program, Path(folder, "program.tnf"))
        request = {"mesh": dict(mesh), **entries, "runs": leaves is not None}
        Path(folder, "request.json").write_text(json.dumps(request))
        if leaves is not None:
            arrays = [stored(np.asarray(leaf)) for leaf in leaves]
            np.savez(Path(folder, "inputs.npz"), *arrays)
        command = [sys.executable, "-m", "xla_peer.planning", folder]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise BackendFailureError(
                f"plan: compiling {program.name} for {math.prod(mesh.values())} devices took more than {SECONDS} s"
            ) from None
        answer_path = Path(folder, "answer.json")
        answer = json.loads(answer_path.read_text()) if answer_path.exists() else {}
        if "refused" in answer:
            raise InvalidConfigError(answer["refused"])
        if not answer:
            last = "\n".join(done.stderr.strip().splitlines()[-3:])
            raise BackendFailureError(
                f"plan: the process ended with status {done.returncode}: {last}"
            )
        if leaves is None:
            return answer, []
        with np.load(Path(folder, "outputs.npz")) as file:
            outputs = [file[f"arr_{i}"] for i in range(len(program.output_specs))]
        specs = program.output_specs
        return answer, [restored(y, spec.dtype) for y, spec in zip(outputs, specs, strict=True)]


def named_partitioning(
    program: GraphProgram, mesh: Mapping[str, int], cuts: Mapping[str, Sequence[Any]]
) -> Partitioning:
    """Return the partition that `cuts` describes by the names of inputs and outputs; see `plan`.

    Raises:
        InvalidConfigError, ShapeError: see `plan`.
    """
    _require_mesh(mesh)
    _require_names(program, cuts)
    inputs, outputs = (
        tuple([
            PartitionSpec(*[tuple(entry) if isinstance(entry, list) else entry for entry in each])
            for each in _entries(names, cuts)
        ])
        for names in (program.input_names, program.output_names)
    )  # fmt: skip
    return Partitioning(tuple(mesh.items()), inputs, outputs)


def _require_names(program: GraphProgram, cuts: Mapping[str, Sequence[Any]]) -> None:
    known = {*program.input_names, *program.output_names}
    roots = {re.split(r"[\[.]", name)[0] for name in known}
    if unknown := sorted(cuts.keys() - known - roots):
        raise InvalidConfigError(
            f"plan: there is no input or output {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )


def _require_mesh(mesh: Mapping[str, int]) -> None:
    if not mesh or any(size < 1 for size in mesh.values()):
        raise InvalidConfigError(
            f"plan: the axes of a mesh must have at least one device each, got {dict(mesh)}"
        )


def _entries(names: Sequence[str], cuts: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the entries of `cuts` for each leaf, by the leaf's name or by the name of the argument around it."""
    return [cuts.get(name, cuts.get(re.split(r"[\[.]", name)[0], ())) for name in names]


def collectives(
    hlo: str, mesh: Mapping[str, int], links: float | Mapping[str, float] | None = None
) -> list[Collective]:
    """Return the collectives of a partitioned module, from the text of its optimised HLO.

    >>> hlo = '''
    ... %body (x: f32[8]) -> f32[8] {
    ...   %sum = f32[8]{0} all-reduce(%x), replica_groups={{0,1},{2,3}}, to_apply=%add
    ... }
    ... ENTRY %main (x: f32[8]) -> f32[16] {
    ...   %loop = f32[8] while(%x), body=%body, backend_config={"known_trip_count":{"n":"5"}}
    ...   %all = f32[16]{0} all-gather(%loop), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}
    ... }'''
    >>> for each in collectives(hlo, {"data": 2, "model": 2}, 1e9):
    ...     print(each.kind, each.axes, each.bytes, each.moved, each.count, each.seconds)
    all-reduce ('model',) 32 32 5 1.6e-07
    all-gather ('data',) 64 32 1 3.2e-08
    """
    counts = _counts(hlo)
    rows: list[Collective] = []
    computation = ""
    for line in hlo.splitlines():
        if header := HEADER.match(line):
            computation = header[1]
        match = COLLECTIVE.search(line)
        if match is None:
            continue
        types, kind, rest = match.groups()
        group = _group(rest, kind, math.prod(mesh.values()))
        axes, n = _axes(group, mesh), len(group[0])
        size = sum(_bytes(dtype, extents) for dtype, extents in ARRAY.findall(types))
        size = size * n if kind == "reduce-scatter" else size
        moved = {
            "all-reduce": 2 * size * (n - 1) // n,
            "collective-permute": size if axes else 0,
        }.get(kind, size * (n - 1) // n)
        count = counts.get(computation, 1)
        speed = _speed(axes, links)
        seconds = None if speed is None else moved * (1 if count is None else count) / speed
        rows.append(Collective(kind, axes, n, size, moved, count, seconds))
    return rows


def _counts(hlo: str) -> dict[str, int | None]:
    """Return the number of executions of each computation in one run of the module; None if it depends on data."""
    counts: dict[str, int | None] = {}
    calls: list[tuple[str, str, int | None]] = []
    computation = ""
    for line in hlo.splitlines():
        if header := HEADER.match(line):
            computation = header[1]
            if line.startswith("ENTRY"):
                counts[computation] = 1
        trips = TRIP_COUNT.search(line)
        is_loop = " while(" in line
        factor = int(trips[1]) if trips and is_loop else None if is_loop else 1
        names = CALLED.findall(line)
        for branches in BRANCHES.findall(line):
            names += re.findall(r"[\w.\-]+", branches)
        calls += [(computation, name, factor) for name in names]
    # In the text of HLO, a computation precedes its callers. So in reverse order, callers come first.
    for caller, name, factor in reversed(calls):
        outer, others = counts.get(caller, 0), counts.get(name, 0)
        if outer is None or factor is None or others is None:
            counts[name] = None
        else:
            counts[name] = others + outer * factor
    return counts


def _group(text: str, kind: str, devices: int) -> list[list[int]]:
    """Return the groups of devices that exchange data in a collective, from its line of HLO."""
    name = "source_target_pairs" if kind == "collective-permute" else "replica_groups"
    if listed := re.search(rf"{name}=\{{(\{{.*?\}})\}}", text):
        return [
            [int(n) for n in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1])
        ]
    if iota := re.search(rf"{name}=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text):
        shape, source, order = (
            None if part is None else [int(n) for n in part.split(",")] for part in iota.groups()
        )
        numbers = np.arange(devices).reshape(source)
        return np.transpose(numbers, order).reshape(shape).tolist()
    return [list(range(devices))]


def _axes(groups: Sequence[Sequence[int]], mesh: Mapping[str, int]) -> tuple[str, ...]:
    """Return the mesh axes along which the devices of a group differ."""
    differing: set[str] = set()
    for group in groups:
        places = np.unravel_index(np.array(group), tuple(mesh.values()))
        differing.update(
            name for name, place in zip(mesh, places, strict=True) if len(set(place.tolist())) > 1
        )
    return tuple(name for name in mesh if name in differing)


def _bytes(dtype: str, extents: str) -> int:
    bits = 8 if dtype == "pred" else int(re.findall(r"\d+", dtype)[0])
    size = math.prod(int(n) for n in extents.split(",")) if extents else 1
    return -(-size * bits // 8)


def _speed(axes: Sequence[str], links: float | Mapping[str, float] | None) -> float | None:
    if links is None or isinstance(links, int | float):
        return links
    if missing := [name for name in axes if name not in links]:
        raise InvalidConfigError(f"plan: the link of axis {missing[0]} has no speed")
    return min((links[name] for name in axes), default=math.inf)


def _answer(folder: Path) -> None:
    """Compile the program in a folder, and write the answer to it: the main function of the separate process."""
    import jax

    request = json.loads((folder / "request.json").read_text())
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", math.prod(request["mesh"].values()))
    from tenferro.errors import TenferroError
    from xla_peer import Mesh, PartitionSpec, XlaExecutor
    from xla_peer.mesh import PartitionedProgram

    program = load(folder / "program.tnf", trusted=True)  # because `plan` wrote the file
    path = folder / "answer.json"
    specs = {
        side: tuple(
            [
                PartitionSpec(*[tuple(e) if isinstance(e, list) else e for e in entry])
                for entry in request[side]
            ]
        )
        for side in ("in", "out")
    }
    try:
        mesh = Mesh(request["mesh"])
        sides = (
            (program.input_names, program.input_specs, specs["in"]),
            (program.output_names, program.output_specs, specs["out"]),
        )
        for names, types, cuts in sides:
            for name, spec, cut in zip(names, types, cuts, strict=True):
                cut.extents(spec.shape, mesh.shape, name)
        cut = PartitionedProgram(program, mesh, specs["in"], specs["out"])
        executor = XlaExecutor("cpu")
        executable = executor.compile(cut)
    except TenferroError as error:
        path.write_text(json.dumps({"refused": str(error)}))
        return
    if request["runs"]:
        with np.load(folder / "inputs.npz") as file:
            arrays = [file[f"arr_{i}"] for i in range(len(program.input_specs))]
        leaves = [restored(x, s.dtype) for x, s in zip(arrays, program.input_specs, strict=True)]
        outputs, _ = flatten(executor.run(cut, *unflatten(program.in_tree, leaves)))
        np.savez(folder / "outputs.npz", *[stored(np.asarray(y)) for y in outputs])
    memory = executable.memory_analysis()
    path.write_text(json.dumps({"memory": memory, "hlo": executable.optimized_hlo()}))


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
