"""The command line, called in this process and in separate processes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tenferro as tnf
import xla_peer
from tenferro.types import flatten, unflatten
from xla_peer.cli import app
from xla_peer.mesh import saved_partitioning
from xla_peer.onnx import import_onnx
from xla_peer.onnx import run as run_onnx

MODEL = """
import tenferro as tnf

def loss(w, x):
    return tnf.sum(tnf.tanh(x @ w) ** 2)

def layer(x, w):
    h = tnf.tanh(x @ w)
    return {"h": h, "best": tnf.argmax(h, axis=1)}

def scaled(params, x, power=2):
    return tnf.sum(params["w"] @ x) * params["b"] ** power

def bad(x):
    return x.nothing

def log(x):
    return tnf.log(x)

program = tnf.compile(loss, tnf.TensorSpec((3, 4), "f8"), tnf.TensorSpec(("n", 3), "f8"))
"""
COMMANDS = ("run", "export", "convert", "verify", "parity", "grad", "inspect", "fuzz", "bench", "doctor")  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.output


def document(*words: str, status: int = 0) -> Any:
    return json.loads(call(*words, "--json", status=status))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    assert "--json" in call(command, "--help")
    assert command in call("--help")


def test_run_by_position_by_name_and_from_files(folder: Path) -> None:
    x, w = np.ones((2, 3)), np.full((3, 4), 0.1)
    np.save("x.npy", x)
    np.savez("all.npz", w=w, x=x)
    np.savez("order.npz", first=x, second=w)
    expected = np.tanh(x @ w)
    np.save("w.npy", w)
    for words in (["x.npy", "w.npy"], ["w=w.npy", "x.npy"], ["all.npz"], ["order.npz"]):
        found = document("run", "model.py:layer", *words)["outputs"]
        np.testing.assert_allclose(found[1]["values"], expected)
    call("run", "model.py:layer", "all.npz", "--platform", "cpu", "-o", "out.npz")
    with np.load("out.npz") as file:
        np.testing.assert_allclose(file["result['h']"], expected)
    np.savez("params.npz", w=w, b=np.array(3.0))
    found = document("run", "model.py:scaled", "params=params.npz", "4xf64")
    assert found["outputs"][0]["shape"] == []


def test_what_a_file_of_arrays_unpacks_to_is_limited() -> None:
    np.savez_compressed("zeros.npz", x=np.zeros(1 << 24))
    words = ["run", "model.py:total", "zeros.npz"]
    Path("model.py").write_text(MODEL + "\ndef total(x):\n    return tnf.sum(x)\n")
    assert "bytes, at most" in call(*words, status=2)
    assert call("--limit", "200000000", *words).split()[-1] == "0."


def test_run_programs_and_artifacts(folder: Path) -> None:
    tnf.save(tnf.compile(lambda x: x + 1, np.ones(2)), "p.tnf")
    assert "f64[2]" in call("run", "p.tnf")
    assert "f64[]" in call("run", "model.py:program")
    said = call("export", "model.py:layer", "nx3xf64", "3x4xf64", "-o", "m.mlirbc", "--vectors", "2",
                "--gradient", "--platform", "cpu,cuda")  # fmt: skip
    assert "f64[n,3]" in said
    assert "m.gradient.mlirbc.vectors.npz" in said
    assert "4 of 4 test vectors agree on cpu" in call("verify", "m.mlirbc")
    assert document("verify", "m.mlirbc")["ok"] is True
    assert "f64[5,4]" in call("run", "m.mlirbc", "5x3xf64", "3x4xf64")
    assert "stablehlo" in call("inspect", "m.mlirbc")


WEIGHTS = """
import numpy as np
import tenferro as tnf

W = np.linspace(-1, 1, 60).reshape(3, 20)

def model(p, x):
    h = tnf.tanh(x @ (W @ p["w"]) + p["b"])
    return {"y": tnf.sum(h**2), "h": h[1:]}

leaves = {"w": tnf.TensorSpec((20, 4), "f8"), "b": tnf.TensorSpec((4,), "f8")}
program = tnf.compile(model, leaves, tnf.TensorSpec(("n", 3), "f8"))
"""


@pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="onnx is not installed")
def test_a_program_is_converted_through_every_format_and_back(folder: Path) -> None:
    (folder / "weights.py").write_text(WEIGHTS)
    call("convert", "weights.py:program", "a.tnf", "--verify")
    call("convert", "a.tnf", "b.mlir", "--verify", "--weights", "w.safetensors")
    call("convert", "b.mlir", "c.onnx", "--verify")
    call("convert", "c.onnx", "d.py", "--verify")
    call("convert", "d.py", "e.mlirbc", "--verify")
    document_of_last = document("convert", "e.mlirbc", "f.tnf", "--verify")
    assert document_of_last["files"] == ["f.tnf"]
    assert document_of_last["verification"]["ok"] is True
    first, last = tnf.load("a.tnf"), tnf.load("f.tnf")
    point = [np.full((4,), 0.5), np.linspace(0, 1, 80).reshape(20, 4), np.ones((5, 3))]
    expected = flatten(first.run(*unflatten(first.in_tree, point)))[0]
    for y, z in zip(flatten(last.run(*point))[0], expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-14)
    weights = tnf.tree.load("w.safetensors")["constant0"]
    np.testing.assert_array_equal(weights, np.linspace(-1, 1, 60).reshape(3, 20))
    assert "holds its own" in call(
        "convert", "a.tnf", "g.tnf", "--weights", "w.safetensors", status=2
    )
    tnf.tree.save({"constant0": weights + 1}, "w.safetensors")
    assert "differs from the constant" in call("convert", "b.mlir", "g.tnf", status=2)
    assert "a path must end in one of" in call("convert", "a.tnf", "g.txt", status=2)


@pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="onnx is not installed")
def test_weights_are_beside_each_format_that_has_none_of_its_own(folder: Path) -> None:
    (folder / "weights.py").write_text(WEIGHTS)
    call("convert", "weights.py:program", "a.tnf")
    source = "a.tnf"
    for output in ("b.py", "c.onnx", "d.mlir", "e.py", "f.onnx", "g.tnf"):
        name = f"{output[0]}.safetensors"
        options = [] if output.endswith(".tnf") else ["--weights", name]
        said = document("convert", source, output, "--verify", *options)
        assert said["verification"]["ok"] is True
        if options:
            assert sorted(map(str, said["files"])) == sorted([output, name])
            (array,) = tnf.tree.load(name).values()
            np.testing.assert_array_equal(array, np.linspace(-1, 1, 60).reshape(3, 20))
        source = output
    assert not list(folder.glob("*.npz"))
    executed = subprocess.run(
        [sys.executable, "-c", "import runpy; print(runpy.run_path('e.py')['CONSTANTS'].keys())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert "c0" in executed.stdout
    model = import_onnx("c.onnx")
    point = [np.full((4,), 0.5), np.linspace(0, 1, 80).reshape(20, 4), np.ones((5, 3))]
    expected = flatten(model.run(*point))[0]
    for y, z in zip(run_onnx("c.onnx", point), expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-14)


def test_a_partition_travels_with_the_program(folder: Path) -> None:
    call("convert", "model.py:loss", "a.tnf", "4x2xf64", "8x4xf64")
    call("convert", "a.tnf", "b.mlir", "--mesh", "data=2", "--cut", "x=data", "--cut", "w=-,data")
    assert 'sdy.mesh @mesh = <["data"=2]>' in Path("b.mlir").read_text()
    call("convert", "b.mlir", "c.tnf", "--verify")
    cut = saved_partitioning("c.tnf")
    assert cut == xla_peer.load("b.mlir").manifest.partitioning
    assert cut is not None
    assert [spec.entries for spec in cut.inputs] == [((), ("data",)), (("data",),)]
    options = ("--mesh", "data=2", "--cut", "x=data", "--cut", "w=-,data")
    call("export", "model.py:loss", "4x2xf64", "8x4xf64", "-o", "f.mlir", *options)
    call("export", "c.tnf", "-o", "g.mlir")
    for name in ("f.mlir", "g.mlir"):
        assert xla_peer.load(name).manifest.partitioning == cut
    call("export", "c.tnf", "-o", "h.mlir", "--mesh", "none")
    assert xla_peer.load("h.mlir").manifest.partitioning is None
    assert "not partitioned" in call(
        "export", "c.tnf", "-o", "i.mlir", "--gradient", *options, status=2
    )
    assert "--mesh none" in call("export", "c.tnf", "-o", "d.py", status=2)
    assert "--mesh none" in call("convert", "c.tnf", "d.py", status=2)
    call("convert", "c.tnf", "d.py", "--mesh", "none", "--verify")
    assert "no input or output z" in call(
        "convert", "a.tnf", "e.tnf", "--mesh", "data=2", "--cut", "z=data", status=2
    )
    assert "cut into 3 equal parts" in call(
        "convert", "a.tnf", "e.tnf", "--mesh", "data=3", "--cut", "x=data", status=2
    )


def test_a_conversion_with_other_results_has_exit_status_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "plain.py").write_text("raise SystemExit('executed')")
    assert "is not a target" in call("convert", "plain.py", "a.tnf", status=2)
    words = ("convert", "model.py:loss", "a.tnf", "3x4xf64", "2x3xf64", "--verify")
    call(*words)
    monkeypatch.setattr("xla_peer.cli.read_back", lambda path: lambda w, x: np.sum(x @ w))
    assert "DISAGREE" in call(*words, status=1)


def test_random_inputs_are_the_same_for_one_seed() -> None:
    first, again, other = (
        document("run", "model.py:loss", "3x4xf64", "2x3xf64", "--seed", seed) for seed in "001"
    )
    assert first == again != other


def test_parity_agrees_and_disagrees(folder: Path) -> None:
    said = call("parity", "model.py:loss", "3x4xf32", "2x3xf32", "--grad", "--html", "p.html")
    assert "agree" in said
    assert "DISAGREE" not in said
    assert "<table" in (folder / "p.html").read_text()
    assert document("parity", "model.py:loss", "3x4xf32", "2x3xf32")["ok"] is True
    call("parity", "model.py:loss", "3x4xf32", "2x3xf32", "--ulps", "0", "--repro", "r", status=1)


def test_grad_gives_value_gradients_and_a_check() -> None:
    found = document("grad", "model.py:loss", "3x4xf64", "2x3xf64", "--check")
    assert [item["name"] for item in found["outputs"]] == ["value", "d/dw", "d/dx"]
    only = document(
        "grad", "model.py:loss", "3x4xf64", "2x3xf64", "--argnums", "1", "--platform", "cpu"
    )
    np.testing.assert_allclose(only["outputs"][1]["values"], found["outputs"][2]["values"])


def test_inspect_shows_every_stage(folder: Path) -> None:
    said = call(
        "inspect", "model.py:loss", "3x4xf64", "2x3xf64", "--html", "i.html", "--dot", "i.dot"
    )
    for part in (
        "program loss",
        "clean_up",
        "native instructions",
        "stablehlo.tanh",
        "HloModule",
        "flops",
    ):
        assert part in said
    assert "srcdoc" in (folder / "i.html").read_text()
    assert (folder / "i.dot").read_text().startswith("digraph")
    assert "memory |" in call("inspect", "model.py:loss", "3x4xf64", "2x3xf64", "--show", "profile")
    assert "HloModule" not in call(
        "inspect", "model.py:loss", "3x4xf64", "2x3xf64", "--show", "passes"
    )


def test_bench_and_doctor() -> None:
    rows = document("bench", "model.py:loss", "3x4xf64", "2x3xf64", "--seconds", "0.05")
    assert [row["contestant"] for row in rows] == ["native", "PJRT cpu", "PJRT cpu, on device"]
    assert all(row["least"] <= row["median"] <= row["most"] for row in rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "model.py:loss", "3x4xf64"], "no value for x"),
        (["run", "model.py:loss", "3x4xf64", "2x3xf64", "1.0"], "takes 2 inputs"),
        (["run", "model.py:nothing"], "it has loss"),
        (["run", "nowhere.py:loss"], "does not exist"),
        (["run", "nowhere.mlir"], "does not exist"),
        (["run", "model"], "not a target"),
        (["run", "model.py:loss", "3x4xf64", "y=2x3xf64"], "no input 'y'"),
        (["run", "model.py:loss", "w=3x4xf64", "w=3x4xf64"], "given twice"),
        (["run", "model.py:loss", "3x4xf64", "nx3xf64"], "give numbers"),
        (["run", "model.py:loss", "3x4xf64", "__import__('os')"], "is not an input"),
        (["run", "model.py:loss", "3x4xf64", "none.npy"], "none.npy"),
        (["run", "model.py:loss", "3x4xf64", "model.npz"], "no arrays"),
        (["run", "model.py:loss", "3x4xf64", "2x4xf64"], "must agree"),
        (["run", "model.py:bad", "3xf64"], "nothing"),
        (["run", "model.py:log", "-1.0xf64"], "is not an input"),
        (["run", "model.py:log", "0.0", "--check-finite"], "made -inf"),
        (["run", "model.py:log", "1.0", "--platform", "abacus"], "abacus"),
        (["run", "model.py:log", "1.0", "-o", "x.txt"], ".npz"),
        (["export", "model.py:log", "f64", "-o", "x.txt"], ".mlir"),
        (["grad", "model.py:log", "3"], "no float input"),
        (["verify", "model.py"], "ends neither"),
    ],
)  # fmt: skip
def test_misuse_is_told_and_ends_with_two(words: list[str], said: str, folder: Path) -> None:
    (folder / "model.npz").write_bytes(b"PK not a zip")
    assert said in call(*words, status=2)
    error = document(*words, status=2)
    assert set(error) == {"error", "kind"}


def test_usage_errors_end_with_two() -> None:
    assert "Missing argument" in call("run", status=2)
    assert "No such command" in call("nothing", status=2)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "xla_peer.cli", *words]


def test_a_process_prints_plain_text_and_nothing_else() -> None:
    done = subprocess.run(
        command("run", "model.py:loss", "3x4xf64", "2x3xf64", "--platform", "cpu"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_an_interruption_leaves_nothing_behind(folder: Path) -> None:
    (folder / "slow.py").write_text(
        textwrap.dedent("""
            import time, pathlib
            def f(x):
                pathlib.Path("begun").touch()
                time.sleep(60)
                return x
        """)
    )
    # A shell's background jobs ignore interrupts, and their children inherit this. Restore the default, so that the
    # child can be interrupted.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command("export", "slow.py:f", "3xf64", "-o", "out.mlir"),
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    for _ in range(600):
        if (folder / "begun").exists():
            break
        time.sleep(0.05)
    os.kill(process.pid, 2)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in said
    left = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert left == {"begun", "model.py", "slow.py"}


NUMBERS = """
import tenferro as tnf

def odd(x, z):
    return {"log": tnf.log(x), "ratio": x / x, "half": tnf.astype(x, "bfloat16"), "turned": z * 1j}

def real(x):
    return tnf.sum(tnf.sin(x) / 3)
"""


def strict(text: str) -> Any:
    """Parse JSON strictly: NaN and infinities raise an error."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("run", "odd_model.py:odd", "x.npy", "z.npy"), 0),
        (("run", "odd_model.py:odd", "x.npy", "z.npy", "--platform", "cpu"), 0),
        (("parity", "odd_model.py:odd", "x.npy", "z.npy"), 0),
        (("parity", "odd_model.py:real", "3xf32", "--grad", "--ulps", "0", "--interpreter"), None),
        (("grad", "odd_model.py:real", "3xf32", "--check"), None),
        (("inspect", "odd_model.py:real", "3xf32"), 0),
        (("inspect", "odd_model.py:real", "3xf32", "--show", "profile"), 0),
        (("export", "odd_model.py:real", "nxf32", "--vectors", "1"), 0),
        (("fuzz", "--programs", "2"), 0),
        (("bench", "odd_model.py:real", "3xf32", "--seconds", "0.01"), 0),
        (("doctor", "rocm"), 1),
        (("run", "odd_model.py:absent"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_json_holds_numbers(folder: Path, words: tuple[str, ...], status: int | None) -> None:
    (folder / "odd_model.py").write_text(NUMBERS)
    np.save("x.npy", np.array([0.0, -1.0, np.inf]))
    np.save("z.npy", np.array([1 + 2j, np.nan + 0j]))
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert status in (None, done.exit_code), done.output
    found = strict(done.stdout)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert not re.search(r"np\.\w+\(|array\(", done.stdout)


def test_json_of_what_is_no_number(folder: Path) -> None:
    (folder / "odd_model.py").write_text(NUMBERS)
    np.save("x.npy", np.array([0.0, -1.0, np.inf]))
    np.save("z.npy", np.array([1 + 2j, np.nan + 0j]))
    values = {
        output["name"]: output["values"]
        for output in document("run", "odd_model.py:odd", "x.npy", "z.npy")["outputs"]
    }
    assert values["result['log']"] == ["-inf", "nan", "inf"]
    assert values["result['ratio']"] == ["nan", 1.0, "nan"]
    assert values["result['half']"] == [0.0, -1.0, "inf"]
    assert values["result['turned']"][0] == [-2.0, 1.0]


def test_json_of_a_disagreement(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON of a disagreement must be valid.

    It must also be valid for NaN, for an output of only one path, and for an infinite error.
    """

    def poisoned(self: Any, program: Any, *arrays: Any) -> Any:
        leaves, tree = flatten(tnf.GraphExecutor().run(program, *arrays))
        return unflatten(tree, [np.full_like(y, np.nan) for y in leaves])

    monkeypatch.setattr("xla_peer.XlaExecutor.run", poisoned)
    (folder / "odd_model.py").write_text(NUMBERS)
    done = CliRunner().invoke(
        app, ["parity", "odd_model.py:real", "3xf32", "--json"], catch_exceptions=False
    )
    assert done.exit_code == 1
    (output,) = strict(done.stdout)["outputs"]
    assert (output["xla"], output["share"], output["max_ulps"]) == ("nan", "inf", "inf")
    assert isinstance(output["native"], float)
