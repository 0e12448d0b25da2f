"""Modules of unknown origin.

Input that crashes the reading process must raise an error at every entry point.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import StableHloModule, guarded, import_stablehlo, lower_to_stablehlo
from lowering.guarded import Limits, perform
from lowering.mlir_bindings import MlirDiagnosticError
from lowering.mlir_tree import module_tree
from lowering.tree_encoding import decoded_tree, encoded_tree
from tenferro import errors
from tenferro.ops.control import ControlOp

GOOD = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
FATAL = """func.func @main(%x: tensor<4x16xf32>) -> tensor<16x4xf32> {
  %0 = "stablehlo.all_to_all"(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 4 : i64,
    replica_groups = dense<> : tensor<0x0xi64>} : (tensor<4x16xf32>) -> tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}"""
"""Module that crashes older versions of jaxlib. Their verifier divides by the size of a group, which is zero here."""
LAST_WORDS = "SIGFPE|group size of replica_groups"
X = np.arange(3.0, dtype="f4")


def bomb(levels: int) -> str:
    """Return a short module with an attribute that expands to 2 ** (`levels` + 1) integers."""
    aliases = [f"#a{n + 1} = [#a{n}, #a{n}]" for n in range(levels)]
    return "\n".join(
        ["#a0 = [0, 0]", *aliases, f"module attributes {{t.a = #a{levels}}} {{", GOOD, "}"]
    )


def foreign(text: str) -> StableHloModule:
    """Return a module that counts as written by another tool. It must therefore be read in a separate process."""
    ours = lower_to_stablehlo(tnf.compile(lambda x: x + x, X))
    return replace(ours, text=text, plain_text=text, trusted=False)


# ---- entry points --------------------------------------------------------------------------------


def saved(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "module.mlir"
    path.write_text(text)
    return path


def artifact_of(tmp_path: Path, text: str) -> Path:
    """Return an artifact of tenferro that also contains the function of `text`, as a private function."""
    path = tmp_path / "artifact.mlir"
    xla_peer.export(lambda x: x + x, X, path=path)
    second_function = text.replace("@main", "private @beside")
    whole = path.read_text().rstrip()
    assert whole.endswith("}")
    path.write_text(f"{whole[:-1]}{second_function}\n}}\n")
    return path


DOORS: dict[str, Callable[[Path, str], Any]] = {
    "text": lambda _, text: import_stablehlo(text),
    "bytes": lambda _, text: import_stablehlo(text.encode()),
    "path": lambda folder, text: import_stablehlo(saved(folder, text)),
    "module": lambda _, text: import_stablehlo(foreign(text)),
    "verify": lambda _, text: foreign(text).verify(),
    "bytecode": lambda _, text: foreign(text).bytecode(),
    "portable artifact": lambda _, text: foreign(text).portable_artifact(),
    "refined": lambda _, text: replace(
        foreign(text), input_specs=(tnf.TensorSpec(("n",), "f4"),)
    ).refined([(3,)]),
    "load": lambda folder, text: xla_peer.load(artifact_of(folder, text)),
    "compile_module": lambda _, text: xla_peer.XlaExecutor().compile_module(foreign(text)),
}


@pytest.mark.parametrize("door", DOORS)
def test_text_that_ends_the_parser(door: str, tmp_path: Path) -> None:
    DOORS[door](tmp_path, GOOD)
    kinds = (MlirDiagnosticError, errors.InvalidConfigError, errors.BackendFailureError)
    with pytest.raises(kinds, match=LAST_WORDS):
        DOORS[door](tmp_path, FATAL)
    DOORS[door](tmp_path, GOOD)


OVERFLOWING = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %x, %c, low = [-9223372036854775807], high = [-9223372036854775807], interior = [0]
    : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = stablehlo.slice %0 [1:4] : (tensor<5xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}"""
"""Module whose padding overflows 64 bits.

StableHLO's verifier accepts the module, and XLA's simplifier aborts the process.
"""


def test_text_that_ends_the_compiler(tmp_path: Path) -> None:
    module = foreign(OVERFLOWING)
    module.verify()
    with pytest.raises(errors.BackendFailureError, match=r"SIGABRT.*compilation"):
        xla_peer.XlaExecutor().compile_module(module)
    path = tmp_path / "artifact.mlir"
    xla_peer.export(lambda x: tnf.pad(x, 1)[1:4], X, path=path)
    text = path.read_text()
    path.write_text(
        text.replace(
            "low = [1], high = [1]", "low = [-9223372036854775807], high = [-9223372036854775807]"
        )
    )
    assert path.read_text() != text
    with pytest.raises(errors.BackendFailureError, match="SIGABRT"):
        xla_peer.load(path).run(X)


@pytest.mark.parametrize("command", ["run", "verify", "inspect", "parity", "grad", "bench"])
def test_text_that_ends_the_parser_of_a_command(command: str, tmp_path: Path) -> None:
    typer = pytest.importorskip("typer.testing")
    from xla_peer.cli import app

    of_ours = command in ("run", "verify")
    path = artifact_of(tmp_path, FATAL) if of_ours else saved(tmp_path, FATAL)
    shown = typer.CliRunner().invoke(app, [command, str(path)])
    assert shown.exit_code == 2
    assert re.search(LAST_WORDS, shown.output)


def test_what_is_trusted_is_read_here(monkeypatch: Any, tmp_path: Path) -> None:
    def never(*arguments: Any) -> Any:
        raise AssertionError("the other process is asked")

    path = tmp_path / "ours.mlirbc"
    xla_peer.export(lambda x: x + x, X, path=path)
    monkeypatch.setattr(guarded._PROCESS, "ask", never)
    module = lower_to_stablehlo(
        tnf.compile(lambda x: x + x, tnf.TensorSpec(("n",), "f4")), symbolic=True
    )
    for trusted in (module, module.refined([(3,)]), module.with_attributes({"t.a": "b"})):
        trusted.verify()
        assert trusted.bytecode()
    np.testing.assert_array_equal(import_stablehlo(module.refined([(3,)])).run(X), 2 * X)
    np.testing.assert_array_equal(import_stablehlo(GOOD, trusted=True).run(X), 2 * X)
    np.testing.assert_array_equal(xla_peer.load(path, trusted=True).run(X), 2 * X)
    with pytest.raises(AssertionError, match="asked"):
        xla_peer.load(path)
    with pytest.raises(AssertionError, match="asked"):
        import_stablehlo(GOOD)


def program_file(tmp_path: Path) -> Path:
    path = tmp_path / "program.tnf"
    tnf.save(tnf.compile(lambda x: x + tnf.einsum("i,i->i", x, x), X), path)
    return path


def xla() -> xla_peer.XlaExecutor:
    return xla_peer.XlaExecutor(optimization_level=0)


PROGRAMS: dict[str, Callable[[Path, bool], Any]] = {
    "file": lambda path, trusted: tnf.load(path, trusted=trusted),
    "module": lambda path, trusted: import_stablehlo(
        lower_to_stablehlo(tnf.load(path), linalg="inline").text, trusted=trusted
    ),
    "specialised": lambda path, trusted: tnf.load(path, trusted=trusted).specialize_to([X]),
}
USES: dict[str, Callable[[tnf.GraphProgram], Any]] = {
    "run": lambda program: xla().run(program, X),
    "compile": lambda program: xla().compile(program),
    "parity": lambda program: xla_peer.check_parity(program, X, executor=xla()),
    "export": lambda program: xla_peer.export(program).bytecode,
    "verify": lambda program: lower_to_stablehlo(program, extensions="composite").verify(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("origin", PROGRAMS)
def test_programs_of_unknown_origin_are_tried_first(
    origin: str, use: str, monkeypatch: Any, tmp_path: Path
) -> None:
    asked: list[str] = []

    def note(operation: str, *arguments: Any, **options: Any) -> Any:
        asked.append(operation)
        raise MlirDiagnosticError([("its process ended by SIGABRT", operation)])

    path = program_file(tmp_path)
    programs = {trusted: PROGRAMS[origin](path, trusted) for trusted in (False, True)}
    assert programs[False] == programs[True]
    for module in ("xla_peer.executor", "lowering.module"):
        monkeypatch.setattr(
            f"{module}.perform", lambda *a, trusted, **k: None if trusted else note(*a, **k)
        )
    with pytest.raises(errors.TenferroError, match="SIGABRT"):
        USES[use](programs[False])
    if use != "export":  # because the exported bytes differ between the two
        USES[use](programs[True])
    assert len(asked) == 1


def in_a_loop(program: tnf.GraphProgram) -> tnf.GraphProgram:
    return tnf.compile(lambda x: tnf.fori_loop(0, 2, lambda i, y: program.run(y), x), X)


MADE: dict[str, Callable[[tnf.GraphProgram], tnf.GraphProgram]] = {
    "called": lambda program: tnf.compile(lambda x: 2 * program.run(x), X),
    "gradient": lambda program: tnf.compile(tnf.grad(lambda x: tnf.sum(program.run(x))), X),
    "tangent": lambda program: tnf.compile(lambda x: tnf.jvp(program.run, (x,), (x,)), X),
    "batch": lambda program: tnf.compile(tnf.vmap(program.run), np.stack([X, X])),
    "checkpoint": lambda program: tnf.compile(tnf.checkpoint(program.run), X),
    "jitted": lambda program: tnf.compile(tnf.jit(program.run), X),
    "loop": in_a_loop,
    "gradient of a loop": lambda program: tnf.compile(
        tnf.grad(lambda x: tnf.sum(in_a_loop(program).run(x))), X
    ),
    "choice": lambda program: tnf.compile(
        lambda x: tnf.cond(x[0] > 0, program.run, lambda y: y, x), X
    ),
    "body": lambda program: in_a_loop(program).instructions[-1].op.parts[-1].program,
    "rewritten": lambda program: program.without_effects(),
    "copy": lambda program: pickle.loads(pickle.dumps(program)),
}


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("use", MADE)
def test_what_is_made_of_a_program_has_its_origin(use: str, trusted: bool, tmp_path: Path) -> None:
    path = tmp_path / "program.tnf"
    tnf.save(tnf.compile(lambda x: tnf.sin(x) * x, X), path)
    assert MADE[use](tnf.load(path, trusted=trusted)).trusted is trusted


def test_bodies_of_a_program_have_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "program.tnf"
    tnf.save(in_a_loop(tnf.compile(tnf.sin, X)), path)
    text = lower_to_stablehlo(tnf.load(path)).text
    for trusted in (False, True):
        for program in (tnf.load(path, trusted=trusted), import_stablehlo(text, trusted=trusted)):
            loop = next(i.op for i in program.instructions if isinstance(i.op, ControlOp))
            assert {program.trusted, *[part.program.trusted for part in loop.parts]} == {trusted}


def test_derivatives_that_run_at_once_have_their_origin(tmp_path: Path) -> None:
    ran: list[tnf.GraphProgram] = []

    class Noting:
        def run(self, program: tnf.GraphProgram, *arrays: Any) -> Any:
            ran.append(program)
            return program.run(*arrays)

    path = tmp_path / "program.tnf"
    tnf.save(tnf.compile(lambda x: tnf.sum(tnf.sin(x)), X), path)
    program = tnf.load(path)
    tnf.grad(program.run, executor=Noting())(X)
    tnf.vmap(program.run, executor=Noting())(np.stack([X, X]))
    tnf.jit(program.run, executor=Noting())(X)
    assert [program.trusted for program in ran] == [False] * 3


def test_a_program_of_unknown_origin_runs(tmp_path: Path) -> None:
    path = program_file(tmp_path)
    np.testing.assert_allclose(
        xla().run(tnf.load(path), X + 1), tnf.load(path).run(X + 1), rtol=1e-6
    )


@pytest.mark.parametrize("command", ["run", "parity"])
def test_a_command_tries_a_program_first(command: str, monkeypatch: Any, tmp_path: Path) -> None:
    typer = pytest.importorskip("typer.testing")
    from xla_peer.cli import app

    def ends(*arguments: Any, **options: Any) -> Any:
        raise MlirDiagnosticError([("its process ended by SIGABRT", "compilation")])

    monkeypatch.setattr("xla_peer.executor.perform", ends)
    options = ["--platform", "cpu"] if command == "run" else []
    shown = typer.CliRunner().invoke(app, [command, str(program_file(tmp_path)), *options])
    assert shown.exit_code
    assert "SIGABRT" in shown.output


def test_values_that_64_bits_do_not_count_are_refused() -> None:
    """An extent beyond 64 bits must raise an error before XLA's compiler sees it.

    The compiler would abort the process.
    """
    program = tnf.compile(lambda x: tnf.pad(x, 1 << 31)[:1, :1], np.ones((1, 1)))
    with pytest.raises(
        errors.UnsupportedError, match=r"Pad: f64\[\d+,\d+\] takes.*\n.*test_guarded"
    ):
        lower_to_stablehlo(program)


@pytest.mark.parametrize(
    ("target", "types", "words"),
    [
        ("lapack_dgetrf_ffi", "(tensor<ui8>) -> tensor<2x3xf64>", "custom_call is malformed"),
        ("mhlo.topk", "(tensor<ui8>) -> tensor<ui8>", "custom_call"),
        ("mhlo.topk", "(tensor<1x9xbf16>) -> tensor<1x9xbf16>", "custom_call"),
    ],
)
def test_custom_calls_that_mlir_does_not_check(target: str, types: str, words: str) -> None:
    taken, given = types.split(" -> ")
    text = f"""func.func @main(%x: {taken[1:-1]}) -> {given} {{
      %0 = "stablehlo.custom_call"(%x) {{call_target_name = "{target}", api_version = 4 : i32}} : {types}
      return %0 : {given}
    }}"""
    with pytest.raises(errors.TenferroError, match=words):
        import_stablehlo(text)


@pytest.mark.parametrize("name", [b"main", b"sine", b"builtin", b"StableHLO", b"vhlo"])
def test_bytecode_whose_text_is_not_utf_8(name: bytes, tmp_path: Path) -> None:
    bytecode = bytearray(lower_to_stablehlo(tnf.compile(tnf.sin, X)).bytecode())
    if name not in bytecode:
        bytecode = bytearray(lower_to_stablehlo(tnf.compile(tnf.sin, X)).portable_artifact())
    bytecode[bytecode.index(name) + 1] = 0xFF
    path = tmp_path / "module.mlirbc"
    path.write_bytes(bytecode)
    for read in (import_stablehlo, xla_peer.load):
        with pytest.raises(errors.TenferroError):
            read(path)


# ---- damage --------------------------------------------------------------------------------------

FLIP = """
import sys, warnings
import numpy as np
import tenferro as tnf, xla_peer
from lowering import import_stablehlo
from tenferro.errors import TenferroError

folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
path = f"{folder}/small.mlirbc"
xla_peer.export(lambda x: tnf.pad(x, 1)[1:, ::2].at[0].set(1.0), np.ones((2, 3)), path=path)
content = open(path, "rb").read()
rng = np.random.default_rng(seed)
bits = [63 * 8, 1059 * 8 + 5] + rng.integers(8 * len(content), size=count - 2).tolist()
outcomes = {}
for number, bit in enumerate(bits):
    damaged = bytearray(content)
    damaged[bit // 8 % len(content)] ^= 1 << bit % 8
    open(path, "wb").write(damaged)
    for read in (xla_peer.load, import_stablehlo)[: 1 + (number % 20 == 0)]:
        try:
            read(path)
            outcome = "read"
        except TenferroError as error:
            outcome = "SIG" if "ended by SIG" in str(error) else "refused"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
print("survived", outcomes)
"""


@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.sweep)])
def test_flipped_bits_are_errors_or_artifacts(count: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FLIP, tmp_path, "0", str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "survived" in done.stdout, (done.returncode, done.stderr[-2000:])
    assert "'refused'" in done.stdout
    assert "'SIG'" in done.stdout  # some of the damaged modules crash the reading process


# ---- limits --------------------------------------------------------------------------------------

AMPLE = Limits(cpu_seconds=60, wall_seconds=60.0, memory=1 << 32, largest_reply=1 << 30)


@pytest.mark.parametrize(
    ("change", "levels", "match"),
    [
        ({"cpu_seconds": 1}, 40, "more than 1 s of processor time"),
        ({"wall_seconds": 0.3}, 40, "longer than 0.3 s"),
        ({"memory": 1 << 25}, 40, "32 MiB"),
        ({"largest_reply": 10_000}, 12, "more than 10000 bytes"),
    ],
)
def test_limits(change: dict[str, Any], levels: int, match: str) -> None:
    with pytest.raises(MlirDiagnosticError, match=match):
        perform("tree", bomb(levels), trusted=False, limits=replace(AMPLE, **change))
    assert perform("tree", GOOD, trusted=False).functions


@pytest.mark.parametrize(("size", "kind"), [(200 << 20, "MemoryError"), (1 << 20, "")])
def test_a_system_error_after_the_memory_is_used(size: int, kind: str) -> None:
    """If memory runs out, the error must be recognised.

    The bindings may return NULL without an exception, for which Python raises SystemError.
    """
    code = f"""
import json
from lowering import reading_process
def perform(module):
    filled = bytearray({size})
    del filled
    raise SystemError("error return without exception set")
reading_process.OPERATIONS = {{"fill": reading_process.OPERATIONS["text"]._replace(perform=perform)}}
reply = reading_process.reply_of({{"operation": "fill", "arguments": [], "memory": 256 << 20}}, b"")
print(json.loads(reply[16 : 16 + int.from_bytes(reply[:8], "little")])["kind"])
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == kind


def test_calls_that_double() -> None:
    """A module of 3 kB whose calls expand to 2 ** 40 operations must raise an error within a short time."""
    kind = "(tensor<3xf32>) -> tensor<3xf32>"
    functions = [
        f"func.func private @f{n}(%0: tensor<3xf32>) -> tensor<3xf32> {{\n"
        f"%1 = func.call @f{n + 1}(%0) : {kind}\n%2 = func.call @f{n + 1}(%1) : {kind}\n"
        "return %2 : tensor<3xf32> }"
        for n in range(40)
    ]
    last = GOOD.replace("@main", "private @f40")
    main = GOOD.replace("stablehlo.add %x, %x : tensor<3xf32>", f"func.call @f0(%x) : {kind}")
    with pytest.raises(errors.InvalidConfigError, match="more than 37200 operations"):
        import_stablehlo("\n".join([*functions, last, main]))


def test_a_large_module_is_within_the_limits() -> None:
    array = np.arange(1 << 20, dtype="f4")
    text = lower_to_stablehlo(tnf.compile(lambda x: x + tnf.asarray(array), array)).text
    np.testing.assert_array_equal(import_stablehlo(text).run(array), 2 * array)


def test_names_that_are_no_text() -> None:
    text = GOOD.replace("func.func @main", 'func.func @"m\\FFain"')
    with pytest.raises(MlirDiagnosticError, match="malformed"):
        import_stablehlo(text)
    with pytest.raises(MlirDiagnosticError):
        import_stablehlo(GOOD + "\udcff")


# ---- the process ---------------------------------------------------------------------------------


def test_a_reading_process_that_was_killed_is_started_again() -> None:
    import_stablehlo(GOOD)
    process = guarded._PROCESS._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    np.testing.assert_array_equal(import_stablehlo(GOOD).run(X), 2 * X)


def test_one_that_dies_while_it_is_asked_is_an_error() -> None:
    import_stablehlo(GOOD)
    process = guarded._PROCESS._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    timer = threading.Timer(0.3, process.kill)
    timer.start()
    with pytest.raises(MlirDiagnosticError, match="process that reads modules ended"):
        import_stablehlo(GOOD)
    timer.join()
    import_stablehlo(GOOD)


def test_an_interruption_leaves_no_reply_for_the_next(monkeypatch: Any) -> None:
    def interrupted(deadline: float) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(guarded._PROCESS, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_stablehlo(GOOD)
    other = GOOD.replace("add", "multiply")
    np.testing.assert_array_equal(import_stablehlo(other).run(X), X * X)


def test_many_threads() -> None:
    texts = [GOOD.replace("tensor<3x", f"tensor<{n}x") for n in range(1, 17)]
    with ThreadPoolExecutor(8) as pool:
        programs = list(pool.map(import_stablehlo, texts))
    assert [program.input_specs[0].shape for program in programs] == [(n,) for n in range(1, 17)]


FORK = """
import os, sys
from lowering import guarded, import_stablehlo
text = sys.argv[1]
import_stablehlo(text)
before = guarded._PROCESS._process.pid
child = os.fork()
import_stablehlo(text)
if child == 0:
    guarded._PROCESS.end()
    os._exit(before == 0)
assert os.waitpid(child, 0)[1] == 0
import_stablehlo(text)
assert guarded._PROCESS._process.pid == before
print(before)
"""


def test_a_forked_process_has_one_of_its_own_and_both_end(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('from the folder')")
    (tmp_path / "json.py").write_text("raise SystemExit('from the folder')")
    place = str(Path(guarded.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", FORK, GOOD],
        cwd=tmp_path,  # nothing may be imported from this folder
        env={**os.environ, "PYTHONPATH": place},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


# ---- trees ---------------------------------------------------------------------------------------

EVERYTHING = """
module @named attributes {t.text = "a", t.flag, t.many = [1, [2.5, "b"], {c = true}]} {
  func.func @main(%x: tensor<2xf32> {jax.arg_info = "x"}, %p: tensor<i1>) -> (tensor<2xf32> {jax.result_info = "y"}) {
    %0 = stablehlo.constant dense<[1.0, 0x7FC00000]> : tensor<2xf32>
    %1 = stablehlo.constant dense<(1.0, -2.0)> : tensor<2x3xcomplex<f64>>
    %2 = stablehlo.constant dense<[1.5, -0.0]> : tensor<2xbf16>
    %3 = stablehlo.constant dense<> : tensor<0x2xi64>
    %4 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %5 = "stablehlo.if"(%p) ({
      %6 = stablehlo.add %x, %0 : tensor<2xf32>
      stablehlo.return %6 : tensor<2xf32>
    }, {
      stablehlo.return %x : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    %7 = stablehlo.dot_general %5, %x, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<2xf32>
    return %8 : tensor<2xf32>
  }
}
"""


def plain(value: Any) -> Any:
    """Convert a decoded value to one that can be compared by ==. Arrays become their dtype, shape and bytes."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value


def test_a_tree_comes_back_from_bytes_whole() -> None:
    tree = module_tree(EVERYTHING)
    again = decoded_tree(encoded_tree(tree))
    assert (again.name, plain(again.attributes)) == (tree.name, plain(tree.attributes))
    assert list(again.functions) == ["main"]
    one, two = tree.functions["main"], again.functions["main"]
    assert two.argument_names == ("x", "") or two.argument_names == one.argument_names
    assert (two.result_types, two.result_names) == (one.result_types, one.result_names)
    assert (two.body.arguments, two.body.types) == (one.body.arguments, one.body.types)
    for p, q in zip(tree.operations(), again.operations(), strict=True):
        assert (p.name, p.operands, p.results, p.types, p.location) == (
            q.name,
            q.operands,
            q.results,
            q.types,
            q.location,
        )
        assert plain(p.attributes) == plain(q.attributes)
        assert [len(block.operations) for block in p.regions] == [
            len(block.operations) for block in q.regions
        ]


def test_a_splat_stays_one_element() -> None:
    text = "func.func @main() -> tensor<100000x1000xf64> { %0 = stablehlo.constant dense<1.0> : tensor<100000x1000xf64> return %0 : tensor<100000x1000xf64> }"
    encoded = encoded_tree(module_tree(text))
    assert len(encoded) < 1000
    value = next(decoded_tree(encoded).operations()).attributes["value"]
    assert value.shape == (100000, 1000)
    assert not any(value.strides)


def test_damaged_trees_are_errors_or_trees() -> None:
    whole = encoded_tree(module_tree(EVERYTHING))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = int(rng.integers(256))
        try:
            decoded_tree(bytes(data[: rng.integers(len(data) // 2, len(data) + 1)]))
        except errors.TenferroError:
            refused += 1
    assert refused > 100
    with pytest.raises(errors.InvalidConfigError, match="tree"):
        decoded_tree(b"")
    looped = whole.replace(b"[1, 2], ", b"[0, 0], ")  # now the region contains itself
    assert looped != whole
    with pytest.raises(errors.InvalidConfigError, match="itself"):
        decoded_tree(looped)
