"""XLA runs in a child process.

After a crash, a hang or exhausted memory, the parent must report it and continue.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, lower_to_stablehlo
from tenferro import errors
from xla_peer.cli import app
from xla_peer.isolated import IsolatedExecutor, isolated_peer
from xla_peer.peer_process import SHARED_PROCESS, PeerProcess

X = np.array([0.5, 2.0])
SERVE = """
server.serve({requests}, {answers}, {memory}, {parent})
"""
FAULTY = (
    """
import os, signal, sys, time
sys.path[:] = {path!r}
import numpy as np
import xla_peer.peer_server as server
compiled, run = server.Server._compile, server.Server._run
texts = dict()
def compile_(self, request):
    texts[request["number"]] = request["plain_text"]
    if "stablehlo.tanh" in request["plain_text"]:
        print("F0000 Check failed: n >= 0", flush=True)
        os.kill(os.getpid(), signal.SIGABRT)
    return compiled(self, request)
def run_(self, request):
    text = texts.get(request["number"], "")
    if "stablehlo.sine" in text:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "stablehlo.cosine" in text:
        time.sleep(60)
    if "stablehlo.cbrt" in text:
        np.empty(1 << 28)
    return run(self, request)
server.Server._compile, server.Server._run = compile_, run_
"""
    + SERVE
)
"""Code of a child process with faults.

It aborts on tanh, crashes on sine, hangs on cosine, and needs 2 GiB for a cube root.
"""
SERVE_SLOWLY = """
import sys, time
sys.path[:] = {path!r}
import xla_peer.peer_server as server
say = server._say
def say_(answers, message):
    time.sleep(0.5 * ("ended" in message))
    say(answers, message)
    time.sleep(0.5 * ("ended" in message))
server._say = say_
"""
"""Code of a child process that is late: it reports the end of its worker with a delay, and continues with a delay."""
OVERFLOWING = """func.func @main(%x: tensor<3xf32>) -> tensor<5xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %x, %c, low = [-9223372036854775807], high = [-9223372036854775807], interior = [0]
    : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = stablehlo.slice %0 [1:4] : (tensor<5xf32>) -> tensor<3xf32>
  return %0 : tensor<5xf32>
}"""

SYMBOLIC = """func.func @main(%x: tensor<?xf64>) -> tensor<?xf64> {
  %0 = stablehlo.add %x, %x : tensor<?xf64>
  return %0 : tensor<?xf64>
}"""
DOUBLE = """func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = stablehlo.add %x, %x : tensor<2xf64>
  %unused = stablehlo.sine %x : tensor<2xf64>
  return %0 : tensor<2xf64>
}"""


@pytest.fixture(scope="module")
def process() -> Iterator[PeerProcess]:
    process = PeerProcess(FAULTY)
    yield process
    process.close()


@pytest.fixture
def faulty(process: PeerProcess) -> IsolatedExecutor:
    return IsolatedExecutor(process=process)


def waves(x: Any) -> Any:
    return tnf.sum(tnf.sin(x * 2) + x)


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in tnf.DType if "float6" not in d.value], ids=str)
def test_every_dtype_goes_to_the_child_and_back(dtype: Any) -> None:
    x = np.arange(6).reshape(2, 3).T.astype(dtype.dtype)
    y = IsolatedExecutor().run(tnf.compile(lambda x: tnf.flip(x, axis=0), x), x)
    assert y.dtype == x.dtype
    assert y.tobytes() == np.flip(x, 0).tobytes()


def test_trees_constants_and_empty_arrays() -> None:
    large = np.arange(100_000.0)

    def fn(x: Any, empty: Any) -> Any:
        return {"sum": x + large, "empty": empty, "one": (tnf.sum(x),)}

    x = np.ones(100_000)
    result = IsolatedExecutor().run(tnf.compile(fn, x, np.ones((0, 3))), x, np.ones((0, 3)))
    np.testing.assert_array_equal(result["sum"], x + large)
    assert result["empty"].shape == (0, 3)
    assert result["one"][0] == 100_000
    result["sum"][0] = 5.0  # this raises an error if the array is read-only


def test_a_program_is_compiled_once_and_memory_shrinks(process: PeerProcess) -> None:
    executor = IsolatedExecutor(process=process)
    program = tnf.compile(lambda x: x + x, tnf.TensorSpec(("n",), "float64"))
    for size in (3, 3, 5 << 20, 3):
        x = np.arange(float(size))
        np.testing.assert_array_equal(executor.run(program, x), x + x)
    assert executor.cache_stats().misses == 2
    assert process._memory is not None
    assert process._memory.size <= 64 << 20
    executor.cache_clear()
    np.testing.assert_array_equal(executor.run(program, X), X + X)


def test_errors_are_those_of_an_executor() -> None:
    with pytest.raises(errors.PlatformUnavailableError, match="cpu"):
        IsolatedExecutor("no_such_platform")
    program = tnf.compile(lambda x: x + x, X)
    with pytest.raises(errors.InvalidConfigError, match="device 99"):
        IsolatedExecutor(device=99).run(program, X)
    with pytest.raises(errors.ShapeError):
        IsolatedExecutor().run(program, np.ones(3))
    for bad in ({"timeout": 0}, {"memory_limit": 0}):
        with pytest.raises(errors.InvalidConfigError, match="above 0"):
            IsolatedExecutor(**bad)
    symbolic = import_stablehlo(SYMBOLIC).origin
    assert symbolic is not None
    with pytest.raises(errors.NonStaticShapeError, match="refine"):
        IsolatedExecutor().compile_module(symbolic)


def test_an_executor_is_mirrored() -> None:
    executor = xla_peer.XlaExecutor(precision="default", optimization_level=1, effects="drop")
    mirror = isolated_peer(executor, True)
    assert isinstance(mirror, IsolatedExecutor)
    assert mirror.settings == executor.settings
    assert mirror.options["optimization_level"] == 1
    assert isolated_peer(executor, False) is executor
    assert isolated_peer(mirror, True) is mirror


def test_the_environment_decides_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    # tests/conftest.py disables isolation, so that the check runs in this process.
    assert isinstance(isolated_peer(None, None), xla_peer.XlaExecutor)
    monkeypatch.delenv("TENFERRO_ISOLATED")
    assert isinstance(isolated_peer(None, None), IsolatedExecutor)
    before = SHARED_PROCESS.starts
    assert xla_peer.check_parity(lambda x: x * 2, X).ok
    assert SHARED_PROCESS.starts == max(before, 1)


def test_artifacts_run_in_the_child() -> None:
    large = np.arange(100_000.0)
    x = np.ones(100_000)
    artifact = xla_peer.export(lambda x: {"y": x * large}, x, largest_constant=1 << 10)
    assert artifact.constants
    result = artifact.run(x, executor=IsolatedExecutor())
    np.testing.assert_array_equal(result["y"], large)
    report = xla_peer.check_parity(
        lambda x: {"y": x * large}, x, against=artifact, executor=IsolatedExecutor()
    )
    assert report.ok


# ---- endings -------------------------------------------------------------------------------------


def test_a_crash_while_running_is_a_verdict_with_the_op_and_the_module(
    faulty: IsolatedExecutor, tmp_path: Path
) -> None:
    report = xla_peer.check_parity(waves, X, executor=faulty)
    assert not report.ok
    assert [output.verdict for output in report.outputs] == ["peer ended: SIGSEGV"]
    ended = report.ended
    assert ended is not None
    assert (ended.how, ended.stage) == ("SIGSEGV", "running")
    assert ended.op.startswith("Sin")
    assert "test_isolated.py" in ended.line
    assert ended.module.count("stablehlo.") == 1  # the module has been shrunk to the sine
    assert "ENDED: SIGSEGV" in str(report)
    assert "no result" in str(report)
    assert json.loads(report.to_json())["ended"]["how"] == "SIGSEGV"
    assert "stablehlo.sine" in (ended.save(tmp_path) / "module.mlir").read_text()
    assert report.reproduction is ended
    # After a crash, the next program must run in a new child process.
    assert xla_peer.check_parity(lambda x: x * 2, X, executor=faulty).ok


def test_a_crash_while_compiling_has_the_last_words(faulty: IsolatedExecutor) -> None:
    report = xla_peer.check_parity(lambda x: tnf.tanh(x), X, executor=faulty, locate=False)
    assert report.ended is not None
    assert report.ended.op == ""
    assert (report.ended.how, report.ended.stage) == ("SIGABRT", "compiling")
    assert report.ended.said == "F0000 Check failed: n >= 0"


def test_a_hang_is_a_verdict(process: PeerProcess) -> None:
    executor = IsolatedExecutor(process=process, timeout=20.0)
    executor.run(tnf.compile(lambda x: x + x, X), X)
    impatient = IsolatedExecutor(process=process, timeout=0.5)
    report = xla_peer.check_parity(lambda x: tnf.cos(x), X, executor=impatient)
    assert report.ended is not None
    assert report.ended.how == "timeout"
    assert "0.5 s" in str(report)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are set from /proc")
def test_exhausted_memory_is_a_verdict(process: PeerProcess) -> None:
    executor = IsolatedExecutor(process=process, memory_limit=1 << 30)
    report = xla_peer.check_parity(lambda x: tnf.cbrt(x) + x, X, executor=executor)
    assert report.ended is not None
    assert report.ended.how == "out of memory"
    assert report.ended.op.startswith("Cbrt")
    generous = IsolatedExecutor(process=process, memory_limit=1 << 33)
    assert xla_peer.check_parity(lambda x: tnf.cbrt(x) + x, X, executor=generous).ok


def test_text_over_which_xla_itself_ends() -> None:
    x = np.arange(3, dtype="f4")
    ours = lower_to_stablehlo(tnf.compile(lambda x: x + x, x))
    module = replace(ours, text=OVERFLOWING, plain_text=OVERFLOWING, trusted=False)
    compiled = IsolatedExecutor().compile_module(module)
    with pytest.raises(errors.PeerEndedError, match="SIGABRT") as caught:
        compiled.run_leaves([x])
    assert "stablehlo.pad" in caught.value.module


def test_an_original_text_that_ends_the_peer(faulty: IsolatedExecutor) -> None:
    program = import_stablehlo(DOUBLE)
    report = xla_peer.check_parity(program, X, executor=faulty)
    assert report.ended is not None
    assert report.ended.how == "SIGSEGV"
    assert any("original text ends the peer" in note for note in report.notes)


def test_against_and_judge(faulty: IsolatedExecutor) -> None:
    module = lower_to_stablehlo(tnf.compile(lambda x: tnf.sin(x), X))
    report = xla_peer.check_parity(lambda x: tnf.sin(x), X, against=module, executor=faulty)
    assert [output.verdict for output in report.outputs] == ["peer ended: SIGSEGV"]
    assert report.platform == "module"
    judged = xla_peer.judge(module, [X], [np.sin(X)], [np.sin(X) + 1e-9], executor=faulty)
    assert judged.outputs[0].verdict == "wrong: b"
    assert any("it ended over the module, SIGSEGV" in note for note in judged.notes)
    neither = xla_peer.judge(module, [X], [np.sin(X) + 1], [np.sin(X) + 1e-9], executor=faulty)
    assert neither.outputs[0].verdict == "wrong"
    against = xla_peer.check_parity(
        lambda x: tnf.sin(x), X, against=lambda x: np.sin(x) + 1, executor=faulty
    )
    assert against.outputs[0].verdict == "wrong: other"


def test_jitted_functions_run_in_the_child(faulty: IsolatedExecutor) -> None:
    jax = pytest.importorskip("jax")
    x = X.astype("f4")
    good = xla_peer.check_parity(
        lambda x: tnf.exp(x), x, against=jax.jit(lambda x: jax.numpy.exp(x)), executor=faulty
    )
    assert good.ok
    bad = xla_peer.check_parity(
        lambda x: tnf.exp(x), x, against=jax.jit(lambda x: jax.numpy.sin(x)), executor=faulty
    )
    assert bad.ended is not None


# ---- the child -----------------------------------------------------------------------------------


def test_a_child_that_is_killed_in_the_middle(process: PeerProcess) -> None:
    executor = IsolatedExecutor(process=process, timeout=50)
    executor.run(tnf.compile(lambda x: x + x, X), X)
    threading.Timer(0.3, os.kill, [process.worker, signal.SIGKILL]).start()
    with pytest.raises(errors.PeerEndedError, match="SIGKILL"):
        executor.run(tnf.compile(lambda x: tnf.cos(x), X), X)
    starts = process.starts
    np.testing.assert_array_equal(executor.run(tnf.compile(lambda x: x + x, X), X), X + X)
    assert process.starts == starts + 1
    # If a child is killed between two requests, it must be restarted, and no crash be reported.
    worker = process.worker
    os.kill(worker, signal.SIGKILL)
    while _is_alive(worker):
        time.sleep(0.01)
    np.testing.assert_array_equal(executor.run(tnf.compile(lambda x: x - 1, X), X), X - 1)
    assert process.starts == starts + 2
    # If the process that forks the children is killed, it must be restarted, and no crash be reported.
    assert process._process is not None
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    np.testing.assert_array_equal(executor.run(tnf.compile(lambda x: x - 2, X), X), X - 2)


def test_a_request_that_is_repeated_before_the_next_worker_is_not_lost() -> None:
    # The child reports the end of its worker only after the next request is in the pipe, and then continues with a
    # delay.
    process = PeerProcess(SERVE_SLOWLY + SERVE)
    executor = IsolatedExecutor(process=process, timeout=30)
    try:
        executor.run(tnf.compile(lambda x: x + x, X), X)
        worker = process.worker
        os.kill(worker, signal.SIGKILL)
        while _is_alive(worker):
            time.sleep(0.01)
        np.testing.assert_array_equal(executor.run(tnf.compile(lambda x: x - 1, X), X), X - 1)
        assert process.starts == 2
    finally:
        process.close()


def test_many_threads_share_a_child() -> None:
    executor = IsolatedExecutor()
    program = tnf.compile(lambda x: x * 3, X)
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(5):
            results[number] = executor.run(program, X + number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, y in results.items():
        np.testing.assert_array_equal(y, (X + number) * 3)


def test_ctrl_c_ends_the_request_and_not_the_next(process: PeerProcess) -> None:
    executor = IsolatedExecutor(process=process, timeout=50)
    double = tnf.compile(lambda x: x + x, X)
    executor.run(double, X)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            executor.run(tnf.compile(lambda x: tnf.cos(x), X), X)
    finally:
        signal.signal(signal.SIGINT, before)
    np.testing.assert_array_equal(executor.run(double, X), X + X)


PARENT = """
import os, signal, sys
import numpy as np, tenferro as tnf
from xla_peer.isolated import IsolatedExecutor
from xla_peer.peer_process import SHARED_PROCESS
program = tnf.compile(lambda x: x + x, np.ones(2))
executor = IsolatedExecutor()
executor.run(program, np.ones(2))
first = SHARED_PROCESS.worker
print("child", first, flush=True)
fork = os.fork()
if fork == 0:
    executor.run(program, np.ones(2))
    print("child", SHARED_PROCESS.worker, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(fork, 0)
executor.run(program, np.ones(2))
assert SHARED_PROCESS.worker == first
print("input", sys.stdin.read(), flush=True)
"""
"""Code of a process that starts a child, forks, and then kills a child."""


def test_no_child_is_left_and_the_streams_are_untouched() -> None:
    environment = dict(os.environ, TENFERRO_NOTICES="off")
    done = subprocess.run(
        [sys.executable, "-c", PARENT],
        input="words",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    children = [int(pid) for pid in re.findall(r"^child (\d+)$", done.stdout, re.MULTILINE)]
    assert len(set(children)) == 2
    assert done.stdout.endswith("input words\n")
    deadline = time.monotonic() + 10
    while any(map(_is_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_is_alive, children))


def _is_alive(pid: int) -> bool:
    """Return whether the process is running. A process that has ended but remains as a zombie is not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


# ---- the command line ----------------------------------------------------------------------------


def test_the_command_line_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: PeerProcess
) -> None:
    monkeypatch.setattr("xla_peer.isolated.SHARED_PROCESS", process)
    monkeypatch.delenv("TENFERRO_ISOLATED")
    path = tmp_path / "model.py"
    path.write_text("import tenferro as tnf\ndef f(x):\n    return tnf.sin(x) * 2\n")
    command = ["parity", f"{path}:f", "2xf64", "--repro", str(tmp_path / "found")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "peer ended: SIGSEGV" in done.output
    assert "model.py:3" in done.output
    assert (tmp_path / "found" / "module.mlir").exists()
    assert CliRunner().invoke(app, [*command, "--in-process"]).exit_code == 0
