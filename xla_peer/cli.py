"""The command line: `tenferro run | export | convert | verify | parity | judge | golden | watch | triage | plan | digits | grad | inspect | fuzz | bench | doctor`.

The exit status is 0 on success, 1 if results disagree or a platform fails, 2 for invalid arguments and refused
targets, and 130 after an interruption. Files are written under a temporary name and renamed, so that an interruption
leaves no partial file.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import lowering
import tenferro as tnf
import xla_peer
from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.files import replacing
from tenferro.program.profile import shown_seconds
from tenferro.types import flatten, leaf_paths, unflatten
from xla_peer.isolated import isolated_by_default
from xla_peer.notices import silenced
from xla_peer.parity import reproduction
from xla_peer.parity.budget import LOCATE_SECONDS
from xla_peer.storage import stored

try:
    import typer

    from xla_peer.command_line.output import Output, as_json, summary
except ModuleNotFoundError as missing:  # pragma: no cover
    raise SystemExit(
        f"tenferro: the command line needs {missing.name}: pip install '.[cli]' in tenferro's checkout"
    ) from None

from xla_peer.command_line.inputs import UNPACKED, matched, read_inputs
from xla_peer.command_line.meshes import read_cuts, read_links, read_mesh
from xla_peer.command_line.target import Target, find_target
from xla_peer.command_line.writing import FORMS, Written, read_back, write_program
from xla_peer.pullback import float_arguments
from xla_peer.sampling import random_arrays

__all__ = ["app", "main"]

app = typer.Typer(
    name="tenferro",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Programs of tensors: run them on NumPy or through PJRT, export them, and see whether both agree.",
    epilog="A target is file.py:function, a .py file that `export` wrote, a program in a .tnf file, an ONNX model, "
    "or StableHLO in a .mlir or .mlirbc file. "
    "An input is a .npy or .npz file, a type such as 2x3xf64 for random numbers, or a number; "
    "name=input chooses by name.",
)


@app.callback()
def options(
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            help="What an .npz file may unpack to; by default it is held to a ratio to its size.",
        ),
    ] = None,
) -> None:
    """Run programs of tensors on NumPy or through PJRT, compare the results, and export programs."""
    UNPACKED.set(limit)


TargetName = Annotated[
    str, typer.Argument(metavar="TARGET", help="file.py:function, .tnf, .mlir", show_default=False)
]
Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT..", help=".npy, .npz, 2x3xf64, 0.5, name=INPUT", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Seed = Annotated[int, typer.Option(help="Of random inputs.")]
Ulps = Annotated[float | None, typer.Option(help="Allowed, in place of what rounding explains.")]
Rtol = Annotated[float | None, typer.Option(help="Allowed relative to each element.")]
Atol = Annotated[float | None, typer.Option(help="Allowed in absolute terms.")]
Interpreter = Annotated[
    bool, typer.Option("--interpreter", help="Ask StableHLO's reference interpreter too.")
]
ReportPage = Annotated[str | None, typer.Option(help="Write the report as a page.")]
Repro = Annotated[
    str | None, typer.Option(help="Where they part, write a reproduction to this folder.")
]
Precision = Annotated[
    str | None, typer.Option(help="highest: accept no products with fewer bits than their dtype.")
]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Run XLA in this process: faster, and a crash ends it.")
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", help="Time that XLA may take to compile, and to run.")
]
Memory = Annotated[
    int | None, typer.Option(metavar="BYTES", help="Memory that XLA may take for the module.")
]
Platform = Annotated[str, typer.Option(help="cpu, cuda, rocm, tpu, or the path of a PJRT plugin.")]


Mesh = Annotated[
    str,
    typer.Option(
        metavar="AXIS=N,..", help="Cut it over axes of devices, such as data=64; or none."
    ),
]
Cuts = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=AXES", help="As for `plan`: x=data or w=-,model; repeatable."),
]


NEGATIVE = {"ignore_unknown_options": True}
"""Settings of commands that accept negative numbers as arguments.

Such a command passes an unknown option on as an argument, so a misspelt option is rejected as an invalid input.
"""


class DisagreementError(Exception):
    """Error that a command raises if results disagree; `reporting` converts it to the exit status 1."""


@contextmanager
def reporting(json: bool) -> Generator[Output]:
    """Yield the `Output` of a command; convert errors that the context raises to messages and an exit status."""
    output = Output(json)
    try:
        with silenced(json):
            yield output
    except DisagreementError:
        raise typer.Exit(1) from None
    except (TenferroError, OSError) as error:
        output.fail(error)
        raise typer.Exit(2) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # because the target's own code may raise any exception
        out = str(error) or type(error).__name__
        if not json:
            traceback.print_exc()
        output.fail(InvalidConfigError(f"{type(error).__name__}: {out}"))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        output.fail(KeyboardInterrupt("interrupted; nothing is left half-written"))
        raise typer.Exit(130) from None


def _named(results: Any) -> list[tuple[str, Any]]:
    """Return pairs of a name, such as `result[0]`, and a leaf, for all leaves of a result."""
    leaves, _ = flatten(results)
    return [(f"result{path}", leaf) for path, leaf in zip(leaf_paths(results), leaves, strict=True)]


def _show(output: Output, named: list[tuple[str, Any]]) -> None:
    output.table(
        ("name", "type", "value"),
        [(name, str(tnf.TensorSpec(y.shape, y.dtype)), summary(y)) for name, y in named],
    )


def _write(path: str, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def _write_arrays(path: str, named: list[tuple[str, Any]]) -> None:
    """Write a single array to a .npy file, or several named arrays to a .npz file."""
    buffer = io.BytesIO()
    if path.endswith(".npy") and len(named) == 1:
        np.save(buffer, stored(np.asarray(named[0][1])))
    elif path.endswith(".npz"):
        np.savez(buffer, **{name: stored(np.asarray(y)) for name, y in named})
    else:
        raise InvalidConfigError(
            f"--output {path}: must be a .npz file, or a .npy file for a single result; got {len(named)} results"
        )
    _write(path, buffer.getvalue())


def _opened(target: str, inputs: list[str] | None, seed: int) -> tuple[Target, list[Any]]:
    """Return the target that a command line names, and the arguments that its `inputs` describe."""
    opened = find_target(target)
    return opened, opened.arguments(inputs or (), seed)


def _executor(platform: str, check_finite: bool = False) -> Any:
    """Return the native executor, or the executor of a platform of PJRT."""
    if platform == "native":
        return tnf.GraphExecutor(check_finite=check_finite)
    return xla_peer.XlaExecutor(platform)


def _peer(platform: str, in_process: bool, timeout: float, memory: int | None) -> Any:
    """Return an executor that runs XLA on a platform for a check; it uses a separate process unless `in_process`."""
    if in_process or not isolated_by_default():
        return xla_peer.XlaExecutor(platform)
    return xla_peer.IsolatedExecutor(platform, timeout=timeout, memory_limit=memory)


def _run(opened: Target, arguments: list[Any], platform: str, check_finite: bool) -> Any:
    if opened.artifact is not None:
        executor = None if platform == "native" else xla_peer.XlaExecutor(platform)
        return opened.artifact.run(*arguments, executor=executor)
    executor = _executor(platform, check_finite=check_finite)
    return executor.run(opened.compiled(arguments), *arguments)


@app.command(context_settings=NEGATIVE)
def run(
    target: TargetName,
    inputs: Inputs = None,
    platform: Annotated[str, typer.Option(help="native, or a platform of PJRT.")] = "native",
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write the results: .npz, or .npy.")
    ] = None,
    check_finite: Annotated[
        bool,
        typer.Option(
            "--check-finite", help="Natively: stop at the first op that makes NaN or infinity."
        ),
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run a target, natively unless a platform is given; StableHLO always runs through PJRT."""
    with reporting(json) as out:
        opened, arguments = _opened(target, inputs, seed)
        named = _named(_run(opened, arguments, platform, check_finite))
        if output is not None:
            _write_arrays(output, named)
        _show(out, named)
        out.document({"outputs": [as_json(name, y) for name, y in named]})


@app.command(context_settings=NEGATIVE)
def export(
    target: TargetName,
    inputs: Inputs = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            help="Path: .mlir is text, .mlirbc a portable artifact, .py NumPy alone, .onnx ONNX, .tnf a program.",
        ),
    ] = "",
    to: Annotated[
        str,
        typer.Option(
            help="stablehlo, numpy, onnx, program; by default by the suffix. The path may come last, without -o."
        ),
    ] = "",
    platform: Annotated[str, typer.Option(help="Platforms, with commas between.")] = "cpu",
    stablehlo: Annotated[
        str, typer.Option(help="Version that readers have: week4, week12, minimum, current, 1.8.0.")
    ] = "week12",
    precision: Annotated[str, typer.Option(help="Of dots: highest, high, default.")] = "highest",
    linalg: Annotated[str, typer.Option(help="auto, library, inline.")] = "auto",
    vectors: Annotated[int, typer.Option(help="Test vectors to carry, for `tenferro verify`.")] = 0,
    gradient: Annotated[
        bool, typer.Option("--gradient", help="Export the derivative beside it.")
    ] = False,
    mesh: Mesh = "",
    cut: Cuts = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Export to StableHLO, to Python that needs NumPy alone, to ONNX, or to a program. Types such as nx3xf64 keep n symbolic."""
    with reporting(json) as out:
        output, words, form = _destination(output, inputs or [], to)
        opened = find_target(target)
        types = opened.arguments(words, seed, keep_types=True)
        options: dict[str, Any] = {}
        if form == "stablehlo":
            options = {
                "platforms": tuple(platform.split(",")),
                "target": stablehlo,
                "precision": precision,
                "linalg": linalg,
                "gradient": gradient,
            }
        function = opened.callable(types)
        partitioning = opened.partitioning
        if mesh or cut:
            function, types = opened.compiled(types), ()
            partitioning = _partitioned(opened, function, mesh, cut)
        written = write_program(
            function,
            types,
            output,
            vectors=vectors,
            seed=seed,
            partitioning=partitioning,
            **options,
        )
        _say_written(out, written)


def _say_written(out: Output, written: Written) -> None:
    out.say(written.summary)
    for path in written.files:
        out.say(f"wrote {path}, {Path(path).stat().st_size} bytes")
    out.document(written.document)


@app.command(context_settings=NEGATIVE)
def convert(
    source: TargetName,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT", help=".tnf, .mlir, .mlirbc, .py or .onnx", show_default=False
        ),
    ],
    inputs: Inputs = None,
    weights: Annotated[
        str,
        typer.Option(
            metavar="NAME.safetensors",
            help="Write arrays of more than 16 elements to this file beside the output; a .tnf holds its own.",
        ),
    ] = "",
    mesh: Mesh = "",
    cut: Cuts = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read the file back, and compare both natively on random arguments."
        ),
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Convert a program between .tnf, .mlir, .mlirbc, .py and .onnx; `export` has the options of each format."""
    with reporting(json) as out:
        opened = find_target(source)
        words = inputs or []
        types = opened.arguments(words, seed, keep_types=True)
        program = opened.compiled(types)
        partitioning = _partitioned(opened, program, mesh, cut)
        written = write_program(program, (), output, weights=weights, partitioning=partitioning)
        if not verify:
            _say_written(out, written)
            return
        report = xla_peer.check_parity(
            program,
            *_drawn(opened, program, types, words, seed),
            against=read_back(output),
            interpreter=False,
        )
        out.say(written.summary)
        for path in written.files:
            out.say(f"wrote {path}, {Path(path).stat().st_size} bytes")
        out.verdict(report.ok, report.verdict)
        out.document({**written.document, "verification": report.to_dict()})
        _require(report.ok)


def _partitioned(opened: Target, program: Any, mesh: str, cut: list[str] | None) -> Any:
    """Return the partition from --mesh and --cut, or else from the target's file; None for `--mesh none`."""
    if mesh == "none":
        return None
    if not (mesh or cut):
        return opened.partitioning
    from xla_peer.planning import named_partitioning

    return named_partitioning(program, read_mesh(mesh), read_cuts(cut or ()))


def _drawn(
    opened: Target, program: Any, types: list[Any], words: list[str], seed: int
) -> tuple[Any, ...]:
    """Return arguments for a comparison: the arrays of the command line if it names all inputs, else random arrays."""
    if words and all(not isinstance(leaf, tnf.TensorSpec) for leaf in flatten(types)[0]):
        return tuple(opened.arguments(words, seed))
    return unflatten(program.in_tree, random_arrays(program, np.random.default_rng(seed)))


def _destination(output: str, words: list[str], form: str) -> tuple[str, list[str], str]:
    """Return the output path, the inputs, and the format, by default from the path's suffix.

    Raises:
        InvalidConfigError: the format is unknown, or the path has the suffix of another format.
    """
    if form and form not in FORMS.values():
        raise InvalidConfigError(
            f"--to {form}: expected one of {', '.join(sorted(set(FORMS.values())))}"
        )
    if not output and form and words and Path(words[-1]).suffix in FORMS:
        output, words = words[-1], words[:-1]
    output = output or {
        "numpy": "program.py",
        "onnx": "program.onnx",
        "program": "program.tnf",
    }.get(form, "program.mlir")
    known = FORMS.get(Path(output).suffix, "stablehlo")
    if form and form != known:
        raise InvalidConfigError(f"--to {form} {output}: the suffix is that of {known}")
    return output, words, known


@app.command()
def verify(
    artifact: Annotated[
        str, typer.Argument(metavar="ARTIFACT", help=".mlir or .mlirbc", show_default=False)
    ],
    platform: Annotated[
        str | None, typer.Option(help="Where to run it; one that it was exported for.")
    ] = None,
    json: Json = False,
) -> None:
    """Verify an artifact by the test vectors that it contains."""
    with reporting(json) as out:
        verification = xla_peer.verify(artifact, platform)
        out.verdict(verification.ok, str(verification))
        out.document(verification.to_dict())
        _require(verification.ok)


@app.command(context_settings=NEGATIVE)
def parity(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[TARGET]",
            help="file.py:function, .tnf, .mlir; the first input with --before and --after",
            show_default=False,
        ),
    ] = "",
    inputs: Inputs = None,
    platform: Platform = "cpu",
    grad: Annotated[bool, typer.Option("--grad", help="Compare gradients too.")] = False,
    against: Annotated[
        str | None,
        typer.Option(help="Compare with this function, program or module, in place of PJRT."),
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="A.mlir", help="A module before passes of a compiler.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="B.mlir", help="The module after these passes.")
    ] = None,
    ulps: Ulps = None,
    rtol: Rtol = None,
    atol: Atol = None,
    bound: Annotated[
        str, typer.Option(help="sampled, or proven: wider, and never exceeded.")
    ] = "sampled",
    interpreter: Interpreter = False,
    html: ReportPage = None,
    repro: Repro = None,
    precision: Precision = None,
    search: Annotated[
        int,
        typer.Option(
            metavar="TRIES",
            help="Number of other arguments to try, which reach sides of decisions that these do not.",
        ),
    ] = 0,
    locate_seconds: Annotated[
        float, typer.Option(help="Time to search for the first op that differs.")
    ] = LOCATE_SECONDS,
    in_process: InProcess = False,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare native execution with PJRT, element by element; or a module before and after passes."""
    with reporting(json) as out:
        if before is not None or after is not None:
            if before is None or after is None or against is not None or grad:
                raise InvalidConfigError(
                    "parity: --before and --after come together, without --against and --grad"
                )
            given = [target, *(inputs or ())] if target else list(inputs or ())
            arguments = find_target(before).arguments(given, seed)
            change = xla_peer.check_transformation(
                Path(before),
                Path(after),
                flatten(tuple(arguments))[0],
                ulps=ulps,
                rtol=rtol,
                atol=atol,
                executor=_peer(platform, in_process, timeout, memory),
                isolated=False if in_process else None,
                interpreter=interpreter or None,
            )
            out.verdict(change.ok, change.parity.verdict)
            out.table(change.parity.columns, change.parity.rows())
            for line in [*change.parity.below(), *change.named()]:
                out.say(line)
            out.document(change.to_dict())
            _require(change.ok)
            return
        if not target:
            raise InvalidConfigError("parity: a target, or --before and --after")
        opened, arguments = _opened(target, inputs, seed)
        program = opened.compiled(arguments)
        report = xla_peer.check_parity(
            program,
            *arguments,
            executor=_peer(platform, in_process, timeout, memory),
            isolated=False if in_process else None,
            precision=precision,
            grad=grad,
            ulps=ulps,
            rtol=rtol,
            atol=atol,
            bound=bound,
            interpreter=interpreter or None,
            search=search,
            seed=seed,
            locate_seconds=locate_seconds,
            against=None if against is None else _contender(against, arguments),
        )
        _conclude(out, report, html, repro)


@app.command(context_settings=NEGATIVE)
def plan(
    target: TargetName,
    inputs: Inputs = None,
    mesh: Annotated[
        str, typer.Option(metavar="AXIS=N,..", help="Axes of devices, such as data=64,model=8.")
    ] = "",
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AXES",
            help="The mesh axis of each axis of an input or result, - for none: w=-,model; repeatable.",
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[AXIS=]SPEED",
            help="Speed of a device's link, such as 100GB/s, or of one axis; repeatable.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Run it on virtual devices, and compare with native results of one."
        ),
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show memory and collectives of a program on a mesh of virtual devices."""
    from xla_peer import planning

    with reporting(json) as out:
        opened = find_target(target)
        words = inputs or []
        types = opened.arguments(words, seed, keep_types=True)
        program = opened.compiled(types)
        sizes = read_mesh(mesh)
        arguments = _drawn(opened, program, types, words, seed) if check else ()
        leaves = flatten(arguments)[0] if check else None
        costs = planning.plan(program, sizes, read_cuts(cut or ()), read_links(link or ()), leaves)
        out.say(costs)
        if not check:
            out.document(costs.to_dict())
            return
        report = xla_peer.check_parity(
            program, *arguments, against=lambda *_: costs.outputs, interpreter=False
        )
        out.verdict(report.ok, report.verdict)
        out.document({**costs.to_dict(), "check": report.to_dict()})
        _require(report.ok)


@app.command(context_settings=NEGATIVE)
def digits(
    target: TargetName,
    inputs: Inputs = None,
    grad: Annotated[bool, typer.Option("--grad", help="Those of the gradient too.")] = False,
    html: Annotated[
        str | None, typer.Option(help="Write the source with digits beside it, as a page.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show where a function loses significant digits, line by line."""
    with reporting(json) as out:
        opened, arguments = _opened(target, inputs, seed)
        function = opened.callable(arguments) if opened.program is None else opened.program
        report = xla_peer.digits(function, *arguments, grad=grad)
        if html is not None:
            _write(html, report.to_html().encode())
        out.say(str(report))
        out.document(report.to_dict())


def _contender(target: str, arguments: list[Any]) -> Any:
    """Return what the option `--against` names: the path of a module, or a program."""
    if target.endswith((".mlir", ".mlirbc")):
        return Path(target)
    return find_target(target).compiled(arguments)


@app.command()
def judge(
    module: Annotated[
        str, typer.Argument(metavar="MODULE", help=".mlir or .mlirbc", show_default=False)
    ],
    a: Annotated[str, typer.Argument(metavar="A.npz", help="Its results.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B.npz", help="Other ones.", show_default=False)],
    inputs: Annotated[
        str, typer.Option("--inputs", help="Its arguments, .npz in their order or by name.")
    ] = "",
    platform: Platform = "cpu",
    ulps: Ulps = None,
    rtol: Rtol = None,
    atol: Atol = None,
    interpreter: Interpreter = False,
    html: ReportPage = None,
    repro: Repro = None,
    precision: Precision = None,
    in_process: InProcess = False,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Compare two files of results of a StableHLO module, and tell which one is right. Files are .npz without pickles."""
    with reporting(json) as out:
        program = lowering.import_stablehlo(Path(module))
        named_inputs = read_inputs([inputs] if inputs else [], program.input_names)
        leaves = matched(named_inputs, program.input_names, module)
        outputs = [
            matched(read_inputs([path], program.output_names), program.output_names, path)
            for path in (a, b)
        ]
        report = xla_peer.judge(
            program,
            leaves,
            *outputs,
            executor=_peer(platform, in_process, timeout, memory),
            isolated=False if in_process else None,
            precision=precision,
            ulps=ulps,
            rtol=rtol,
            atol=atol,
            interpreter=interpreter or None,
        )
        _conclude(out, report, html, repro)


@app.command()
def golden(
    module: Annotated[
        str, typer.Argument(metavar="MODULE", help=".mlir or .mlirbc", show_default=False)
    ],
    inputs: Annotated[
        str, typer.Option("--inputs", help="Its arguments, .npz in their order or by name.")
    ] = "",
    out: Annotated[str | None, typer.Option(help="Write all values to this .npz file.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A value that is wanted, such as %5; repeatable.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="The last value that is computed.")] = None,
    diff: Annotated[
        str | None, typer.Option(help="Compare with the values in this .npz file.")
    ] = None,
    inside: Annotated[
        bool,
        typer.Option(
            help="Values inside of loops, branches and functions too: %4/2/%w is in iteration 2."
        ),
    ] = False,
    precision: Precision = None,
    json: Json = False,
) -> None:
    """Compute all values of a StableHLO module natively, by the names in its text."""
    with reporting(json) as output:
        program = lowering.import_stablehlo(Path(module))
        named_inputs = read_inputs([inputs] if inputs else [], program.input_names)
        leaves = matched(named_inputs, program.input_names, module)
        names = None if not only else [_ssa(name) for name in only]
        last = None if until is None else _ssa(until)
        if out is not None:
            xla_peer.golden(Path(module), leaves, out, only=names, until=last, inside=inside)
            output.say(f"wrote {out}, {Path(out).stat().st_size} bytes")
        if diff is not None:
            comparison = xla_peer.compare_golden(
                Path(module), leaves, diff, precision=precision, inside=inside
            )
            output.verdict(comparison.ok, str(comparison))
            output.document(comparison.to_dict())
            _require(comparison.ok)
        elif out is None:
            made = xla_peer.golden(Path(module), leaves, only=names, until=last, inside=inside)
            values = list(made.items())
            _show(output, values)
            output.document({"values": [as_json(name, y) for name, y in values]})
        else:
            output.document({"file": out})


@app.command("watch")
def watch_compilers(
    module: Annotated[
        str,
        typer.Argument(
            metavar="[MODULE]",
            help=".mlir, .mlirbc, or words of a report's name; all cases by default",
            show_default=False,
        ),
    ] = "",
    inputs: Annotated[
        str, typer.Option("--inputs", help="Arguments of a module, .npz in their order or by name.")
    ] = "",
    jaxlib: Annotated[
        str,
        typer.Option(
            metavar="RELEASES",
            help="With commas between: releases such as 0.9.2, `here`, paths of interpreters.",
        ),
    ] = "",
    iree: Annotated[str, typer.Option(metavar="RELEASE", help="IREE of that release.")] = "",
    opinion: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=FILE.py:FUNCTION[@PYTHON]]", help="An adapter of your own; repeatable."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Cases by words of their names.")
    ] = None,
    page: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="PAGE.md", help="Write a page, and JSON beside it."),
    ] = None,
    since: Annotated[str, typer.Option(help="Bisect jaxlib's releases from this one on.")] = "",
    until: Annotated[str, typer.Option(help="The last release to bisect.")] = "",
    environments: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where environments with compilers are kept."),
    ] = None,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="The interpreter of these environments.")
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for compiling and running a case.")
    ] = 120.0,
    passes: Annotated[bool, typer.Option(help="Name the pass of XLA's at fault.")] = True,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail where any entry is wrong or ended.")
    ] = False,
    json: Json = False,
) -> None:
    """Run public miscompiles and ordinary programs, or a module, by releases of compilers.

    The exit status is 1 if a result that was right in the JSON beside the page is wrong now, or with --strict.
    """
    from xla_peer.command_line import watching
    from xla_peer.opinions import Environments

    with reporting(json) as out:
        folder = Environments(environments, python)
        is_bisecting = bool(since or until)
        cases = (
            watching.chosen_cases(module, inputs, only or ()) if module or not is_bisecting else []
        )
        if is_bisecting:
            if not (since and until) or len(cases) != 1:
                raise InvalidConfigError(
                    "watch: bisecting needs one case, --since and --until, got "
                    f"{len(cases)} cases, --since {since or 'none'}, --until {until or 'none'}"
                )
            change = watching.bisected(cases[0], since, until, folder)
            out.say(str(change))
            out.document(
                {
                    "last": change.last,
                    "first": change.first,
                    "entries": {name: str(entry) for name, entry in change.entries.items()},
                }
            )
            return
        adapters = watching.chosen_adapters(jaxlib, iree, opinion or (), folder)
        total = len(cases) * len(adapters)
        with out.progress("running", total) as progress:
            count = iter(range(total))
            table = watching.watched(
                cases, adapters, timeout, passes, lambda note: progress(next(count), note=note)
            )
        worse = [] if page is None else watching.written(table, Path(page))
        header = ("case", *table.compilers)
        rows = [[row.name, *map(str, row.entries.values())] for row in table.rows]
        out.table(header, rows)
        out.verdict(not table.red, str(table))
        for name, compiler in worse:
            out.verdict(False, f"was right before: {name} by {compiler}")
        out.document({**table.to_dict(), "worse": [list(pair) for pair in worse]})
        _require(not worse and not (strict and table.red))


@app.command()
def triage(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="What --repro wrote.", show_default=False)
    ],
    python: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="An interpreter whose JAX runs it; repeatable, for several versions.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the text of an issue about a failing case, with the results of each JAX and similar public reports."""
    with reporting(json) as out:
        text = reproduction.triage(folder, python or ())
        out.say(text)
        out.document({"text": text})


def _ssa(name: str) -> str:
    """Return the name of an SSA value with a leading percent sign, which `name` may lack."""
    return name if name.startswith("%") else f"%{name}"


def _conclude(out: Output, report: Any, html: str | None, repro: str | None) -> None:
    """Print a parity report, and write its page and its reproduction; raise DisagreementError if it is not ok."""
    if html is not None:
        _write(html, report.to_html().encode())
    if repro is not None and report.reproduction is not None:
        report.save(repro)
    out.verdict(report.ok, report.verdict)
    for line in report.summary():
        out.say(line)
    out.table(report.columns, report.rows())
    for line in report.below():
        out.say(line)
    out.document(report.to_dict())
    _require(report.ok)


@app.command(context_settings=NEGATIVE)
def grad(
    target: TargetName,
    inputs: Inputs = None,
    argnums: Annotated[
        str,
        typer.Option(
            help="Arguments to differentiate by, with commas between; all float ones by default."
        ),
    ] = "",
    platform: Annotated[str, typer.Option(help="native, or a platform of PJRT.")] = "native",
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write value and gradients to a .npz file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the derivatives numerically, to second order.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compute the value and the gradient of a function with one real number as its result."""
    with reporting(json) as out:
        opened, arguments = _opened(target, inputs, seed)
        function = opened.differentiable(arguments)
        chosen = _argnums(argnums, arguments)
        program = tnf.compile(tnf.value_and_grad(function, argnums=chosen), *arguments)
        value, gradients = _executor(platform).run(program, *arguments)
        named = [("value", np.asarray(value))]
        for number, gradient in zip(chosen, gradients, strict=True):
            name = opened.names[number] if number < len(opened.names) else f"x{number}"
            leaves, paths = flatten(gradient)[0], leaf_paths(gradient)
            named += [(f"d/d{name}{path}", y) for path, y in zip(paths, leaves, strict=True)]
        if output is not None:
            _write_arrays(output, named)
        _show(out, named)
        message = _checked(function, arguments) if check else ""
        if check:
            out.verdict(
                not message, message or "the derivatives agree with differences, to second order"
            )
        out.document({"outputs": [as_json(*item) for item in named], "check": message or None})
        _require(not message)


def _argnums(text: str, arguments: list[Any]) -> tuple[int, ...]:
    if text:
        try:
            return tuple(int(word) for word in text.split(","))
        except ValueError:
            raise InvalidConfigError(f"--argnums {text}: numbers with commas between") from None
    differentiable = float_arguments(arguments)
    if not differentiable:
        raise InvalidConfigError("grad: there is no float input to differentiate by")
    return differentiable


def _checked(function: Callable[..., Any], arguments: list[Any]) -> str:
    try:
        tnf.check_grads(function, tuple(arguments), order=2)
    except AssertionError as error:
        return str(error)
    return ""


class Stage(StrEnum):
    """The stages that `inspect` can show."""

    everything = "all"
    program = "program"
    passes = "passes"
    native = "native"
    stablehlo = "stablehlo"
    hlo = "hlo"
    cost = "cost"
    profile = "profile"


@app.command(context_settings=NEGATIVE)
def inspect(
    target: TargetName,
    inputs: Inputs = None,
    show: Annotated[Stage, typer.Option(help="One stage, or all.")] = Stage.everything,
    platform: Platform = "cpu",
    html: Annotated[
        str | None, typer.Option(help="Write all stages side by side, with the graph, as a page.")
    ] = None,
    dot: Annotated[str | None, typer.Option(help="Write the graph for Graphviz.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show a program at every stage: as traced, the passes, native instructions, StableHLO, optimised HLO."""
    from xla_peer.command_line.inspection import inspect_program

    with reporting(json) as out:
        opened = find_target(target)
        if opened.artifact is not None:
            out.say(opened.artifact.text)
            out.document(
                {
                    "name": opened.artifact.manifest.name,
                    "stages": {"StableHLO": opened.artifact.text},
                }
            )
            return
        arguments = opened.arguments(inputs or (), seed)
        program = opened.compiled(arguments)
        if dot is not None:
            _write(dot, program.to_dot().encode())
        if show is Stage.profile:
            profile = program.profile(*arguments)
            out.say(profile)
            out.document(profile.to_dict())
            return
        seen = inspect_program(program, arguments, platform)
        if html is not None:
            _write(html, seen.to_html().encode())
        wanted = list(Stage)[1:] if show is Stage.everything else [show]
        order = (Stage.program, Stage.native, Stage.stablehlo, Stage.hlo)
        texts = dict(zip(order, seen.stages, strict=True))
        for stage in wanted:
            if stage in texts:
                out.heading(texts[stage][0])
                out.say(texts[stage][1])
            elif stage is Stage.passes:
                out.heading("native passes")
                rows = [(row.name, str(row.before), str(row.after)) for row in seen.passes]
                out.table(("pass", "ops before", "after"), rows)
            elif stage is Stage.cost:
                out.heading("cost and memory")
                out.table(("what", "amount"), seen.facts())
        out.document(seen.to_dict())


@app.command()
def fuzz(
    minutes: Annotated[float | None, typer.Option(help="How long.")] = None,
    programs: Annotated[int | None, typer.Option(help="How many, in place of minutes.")] = None,
    start: Annotated[int, typer.Option(help="Number of the first program.")] = 0,
    folder: Annotated[
        str, typer.Option("-o", "--output", help="Where reproductions are written.")
    ] = "fuzz-findings",
    platform: Platform = "cpu",
    seed: Annotated[int, typer.Option(help="Names the stream of programs.")] = 0,
    json: Json = False,
) -> None:
    """Run random programs on both paths until results differ; for 10 minutes by default."""
    from xla_peer.fuzz import fuzz as campaign

    with reporting(json) as out:
        if minutes is None and programs is None:
            minutes = 10.0
        with out.progress("fuzzing", 1.0) as progress:
            report = campaign(
                minutes,
                programs=programs,
                seed=seed,
                start=start,
                platform=platform,
                folder=folder,
                progress=progress,
            )
        out.verdict(report.ok, str(report))
        out.document(report.to_dict())
        _require(report.ok)


@app.command(context_settings=NEGATIVE)
def bench(
    target: TargetName,
    inputs: Inputs = None,
    platform: Platform = "cpu",
    seconds: Annotated[
        float, typer.Option(help="Time to spend, once everything is compiled.")
    ] = 2.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Time a program natively and through PJRT, interleaved in one process."""
    from xla_peer.command_line.timing import bench as measured

    with reporting(json) as out:
        opened, arguments = _opened(target, inputs, seed)
        program = opened.compiled(arguments)
        with out.progress("running", seconds) as progress:
            rows = measured(program, arguments, platform, seconds, progress)
        out.table(
            ("", "first result", "median", "least", "most", "runs", "to native"),
            [
                (
                    row.contestant,
                    shown_seconds(row.first),
                    shown_seconds(row.median),
                    shown_seconds(row.least),
                    shown_seconds(row.most),
                    str(row.runs),
                    f"{row.median / rows[0].median:.2f}",
                )
                for row in rows
            ],
        )
        out.document([row.to_dict() for row in rows])


@app.command()
def doctor(
    platforms: Annotated[
        list[str] | None,
        typer.Argument(help="Names, or paths of PJRT plugins; none is all.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Report the platforms that work here, and how to install or repair the other platforms."""
    with reporting(json) as out:
        report = xla_peer.doctor(platforms or ())
        out.say(report)
        out.document(report.to_dict())
        _require(report.ok)


def _require(good: bool) -> None:
    if not good:
        raise DisagreementError


def main() -> None:
    """Run the command line."""
    # XLA logs every client that it creates, so only its warnings and errors are shown.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    app()


if __name__ == "__main__":
    sys.exit(main())
