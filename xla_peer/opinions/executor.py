"""`AdapterExecutor`, which runs modules through an adapter of another compiler, in a separate process."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from lowering import StableHloModule, lower_to_stablehlo
from lowering.guarded import last_words
from tenferro.errors import BackendFailureError, PeerEndedError, PlatformUnavailableError
from tenferro.program import GraphProgram
from tenferro.types import DType
from xla_peer.opinions.registry import Adapter
from xla_peer.parity.contenders import checked_outputs

__all__ = ["AdapterExecutor", "Options"]

WORKER = Path(__file__).parent / "worker.py"
STARTING = 300.0
"""Maximum time to import a compiler, in seconds."""

Options = Mapping[str, bool | int | str]


class AdapterExecutor:
    """Executor that runs programs and modules by the adapter of a compiler; a crash or a hang raises an error.

    A separate process imports the compiler at the first call, and each call runs in a fork of that process. The
    executor can be passed to `check_parity(program, *arrays, executor=..)` in place of an `XlaExecutor`.

    Args:
        adapter: the adapter; see `register`.
        timeout: maximum time for compiling and running a module, in seconds.
        options: debug options of XLA, for adapters of XLA, which accept them.

    Raises:
        PlatformUnavailableError: the adapter cannot be imported by its interpreter, or the system has no `os.fork`.

    >>> from xla_peer.opinions import jaxlib_adapter
    >>> import tenferro as tnf
    >>> with AdapterExecutor(jaxlib_adapter()) as executor:
    ...     executor.run(tnf.compile(lambda x: x + x, np.ones(2)), np.ones(2))
    array([2., 2.])
    """

    platform = "cpu"

    def __init__(
        self, adapter: Adapter, *, timeout: float = 120.0, options: Options | None = None
    ) -> None:
        self.adapter, self.timeout, self.options = adapter, timeout, dict(options or {})
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._messages: IO[bytes] | None = None
        self._version = ""
        self._finalizer: Any = None

    def __repr__(self) -> str:
        return f"<AdapterExecutor of {self.adapter.name}>"

    def __enter__(self) -> AdapterExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process that has imported the compiler; the next call starts a new process."""
        with self._lock:
            self._end()

    @property
    def version(self) -> str:
        """The version of the compiler; empty if the adapter does not report it."""
        with self._lock:
            self._started()
        return self._version

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """Lower a program, run the module, and return the result in the tree of the program's function.

        Raises:
            PeerEndedError: the compiler ended its process, or took too long.
            BackendFailureError: the compiler rejected the module.
            ArityError, DTypeError, ShapeError: the results do not have the types of the program's outputs.
        """
        leaves = program.check_arguments(arrays)
        static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
        module = lower_to_stablehlo(static)
        outputs = self.outputs(module.plain_text, leaves)
        return program.pack(checked_outputs(self.adapter.name, static, outputs, "its results"))

    def compile_module(self, module: StableHloModule) -> _Module:
        """Return an object with the method `run_leaves`, which compiles and runs the module at each call."""
        return _Module(self, module)

    def outputs(
        self, module: str | bytes, arrays: Sequence[Any], options: Options | None = None
    ) -> list[Any]:
        """Compile and run a module on arrays, and return the results of `main`.

        Args:
            options: debug options of XLA in addition to those of the executor.

        Raises:
            PeerEndedError, BackendFailureError: see `run`.
        """
        with tempfile.TemporaryDirectory(prefix="tenferro-opinion-") as folder:
            directory = Path(folder)
            places = [_write(directory, f"x{n}", x) for n, x in enumerate(arrays)]
            settings = {**self.options, **(options or {})}
            request = {"function": self.adapter.function, "arrays": places, "options": settings}
            answer = self._ask(directory, module, request | {"is_text": False})
            return [_read(directory, *place) for place in answer["arrays"]]

    def text(self, function: str, module: str) -> str:
        """Call the function `function` in the adapter's file with a module, and return the text that it returns."""
        with tempfile.TemporaryDirectory(prefix="tenferro-opinion-") as folder:
            request = {"function": function, "arrays": [], "options": {}, "is_text": True}
            return str(self._ask(Path(folder), module, request)["text"])

    # ---- the process -----------------------------------------------------------------------------

    def _ask(
        self, folder: Path, module: str | bytes, request: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Write a request to a folder, send the folder's path to the process, and return the answer from the folder."""
        data = module.encode() if isinstance(module, str) else module
        (folder / "module").write_bytes(data)
        document = {**request, "is_bytes": not isinstance(module, str)}
        (folder / "request.json").write_text(json.dumps(document))
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert self._messages is not None
            os.ftruncate(self._messages.fileno(), 0)
            text = data.decode(errors="replace")
            try:
                process.stdin.write(f"{folder}\n")
                process.stdin.flush()
                status = int(self._reply(self.timeout)["status"])
            except TimeoutError:
                self._end()
                raise self._ended("timeout", f"{self.timeout:g} s", text) from None
            except (EOFError, OSError, ValueError):
                said = self._said()
                self._end()
                raise self._ended("the adapter's process is gone", said, text) from None
            except (
                BaseException
            ):  # a late answer would be read as the answer to the next request, so end the process
                self._end()
                raise
            said = self._said()
        path = folder / "answer.json"
        if status or not path.exists():
            name = f"exit status {status}"
            if status < 0:
                with contextlib.suppress(ValueError):
                    name = signal.Signals(-status).name
            raise self._ended(name, said, text)
        answer = json.loads(path.read_text())
        if "error" in answer:
            raise BackendFailureError(f"{self.adapter.name}: {answer['error']}")
        return dict(answer)

    def _ended(self, ending: str, said: str, module: str) -> PeerEndedError:
        return PeerEndedError(ending, "running", said, module, self.adapter.name)

    def _started(self) -> subprocess.Popen[str]:
        """Return the process that has imported the adapter, and start it if it is not running.

        Raises:
            PlatformUnavailableError: the adapter cannot be imported.
        """
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        if not hasattr(os, "fork"):
            raise PlatformUnavailableError(f"{self.adapter.name}: opinions need os.fork")
        adapter = self.adapter
        settings = {
            "file": adapter.file,
            "module": adapter.module,
            "function": adapter.function,
            "path": [] if adapter.file else sys.path,
        }
        messages: Any = tempfile.TemporaryFile("a+b")  # noqa: SIM115  because it lives as long as the process
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(settings, file)
            file.flush()
            try:
                self._process = subprocess.Popen(
                    [adapter.python, "-P", str(WORKER), file.name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=messages,
                    text=True,
                    process_group=0,
                )
            except OSError as error:
                messages.close()
                raise PlatformUnavailableError(
                    f"{adapter.name}: the interpreter {adapter.python} does not start: {error}"
                ) from None
            self._messages = messages
            self._finalizer = weakref.finalize(self, _end, self._process, messages)
            try:
                hello = self._reply(STARTING)
            except (EOFError, TimeoutError, ValueError) as error:
                hello = {"error": self._said() or type(error).__name__}
        if "error" in hello:
            self._end()
            raise PlatformUnavailableError(
                f"{adapter.name}: {adapter.python} cannot import the adapter: {hello['error']}"
            )
        self._version = str(hello["version"])
        return self._process

    def _reply(self, seconds: float) -> Mapping[str, Any]:
        """Read the next line that the process writes, as JSON.

        Raises:
            EOFError: the process ended.
            TimeoutError: the process writes no line within `seconds`.
            ValueError: the reply is invalid.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise EOFError
                line += piece
        return dict(json.loads(line))

    def _said(self) -> str:
        if self._messages is None:
            return ""
        return last_words(os.pread(self._messages.fileno(), 1 << 16, 0))

    def _end(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._messages = self._finalizer = None


class _Module:
    """Module that an adapter compiles and runs at each call."""

    def __init__(self, executor: AdapterExecutor, module: StableHloModule) -> None:
        self.executor, self.module = executor, module

    def run_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """Run the module on arrays, through files.

        Raises:
            PeerEndedError, BackendFailureError: see `AdapterExecutor.run`.
        """
        return self.executor.outputs(self.module.plain_text, leaves)


def _end(process: subprocess.Popen[str], messages: IO[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # the process and its forks
    process.wait()
    for stream in (process.stdin, process.stdout, messages):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _write(folder: Path, stem: str, x: Any) -> list[Any]:
    """Write the bytes of an array to a file, and return the file's name, the dtype and the shape."""
    array = np.asarray(x, order="C")
    (folder / stem).write_bytes(array.tobytes())
    return [stem, array.dtype.name, list(array.shape)]


def _read(folder: Path, stem: str, dtype: str, shape: Sequence[int]) -> Any:
    """Read an array from a file that contains the bytes of its elements."""
    data = bytearray((folder / Path(stem).name).read_bytes())
    try:
        kind: Any = np.dtype(dtype)
    except TypeError:
        kind = DType.of(dtype).dtype
    return np.frombuffer(data, kind).reshape(shape)
