"""Program that runs an adapter, in the environment of its compiler: `python worker.py SETTINGS.json`.

It imports the adapter once, and forks a process for each request, so that a crash ends only the process of one request.
A request is a folder with a module and arrays. The answer is written to the same folder. The worker reads the paths of
folders from standard input, and writes statuses to standard output. Nothing is unpickled. This file needs only Python
and NumPy, because tenferro may not be installed in the environment.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

LONGEST_MESSAGE = 4000
"""Maximum number of characters of an error message."""


def load_adapter(module: str, file: str) -> Any:
    """Import the Python module with the adapter, from the path `file`, or by the name `module` if `file` is empty."""
    if not file:
        return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def named(adapter: Any, function: str) -> Any:
    """Return the attribute of a module that the dotted name `function` denotes."""
    for name in function.split("."):
        adapter = getattr(adapter, name)
    return adapter


def dtype_of(name: str) -> Any:
    """Return the dtype of NumPy or of ml_dtypes with the given name."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def read_array(folder: Path, stem: str, dtype: str, shape: list[int]) -> Any:
    """Read an array from a file that contains the bytes of its elements."""
    data = bytearray((folder / stem).read_bytes())
    return np.frombuffer(data, dtype_of(dtype)).reshape(shape)


def write_array(folder: Path, stem: str, array: Any) -> list[Any]:
    """Write the bytes of an array to a file, and return the file's name, the dtype and the shape."""
    dense = np.asarray(array, order="C")
    if dense.dtype.hasobject:
        raise TypeError(f"an adapter must return arrays of numbers, got {dense.dtype}")
    (folder / stem).write_bytes(dense.tobytes())
    return [stem, dense.dtype.name, list(dense.shape)]


def perform(adapter: Any, folder: Path) -> None:
    """Run the adapter on the request in a folder, and write the answer to the folder."""
    answer: dict[str, Any]
    try:
        request = json.loads((folder / "request.json").read_text())
        content = (folder / "module").read_bytes()
        module = content if request["is_bytes"] else content.decode()
        arrays = [read_array(folder, *place) for place in request["arrays"]]
        function = named(adapter, request["function"])
        if request["is_text"]:
            answer = {"text": function(module)}
        else:
            options = [request["options"]] if request["options"] else []
            results = list(function(module, arrays, *options))
            answer = {"arrays": [write_array(folder, f"y{n}", y) for n, y in enumerate(results)]}
    except Exception as error:  # because a compiler may raise anything
        answer = {"error": f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]}
    partial = folder / "answer.partial"
    partial.write_text(json.dumps(answer))
    partial.rename(folder / "answer.json")


def main(path: str) -> None:
    """Answer requests until the standard input ends."""
    settings = json.loads(Path(path).read_text())
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # compilers may write to standard output, too: redirect it to standard error
    if settings["path"]:
        sys.path[:] = settings["path"]
    adapter: Any = None
    try:
        adapter = load_adapter(settings["module"], settings["file"])
        function = settings["function"].rpartition(".")[0]
        version = getattr(named(adapter, function) if function else adapter, "version", None)
        hello = {"version": str(version()) if callable(version) else ""}
    except BaseException as error:  # because the parent process must receive the error
        traceback.print_exc()
        hello = {"error": f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]}
    replies.write(json.dumps(hello) + "\n")
    if "error" in hello:
        return
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            perform(adapter, Path(line.rstrip("\n")))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        replies.write(json.dumps({"status": os.waitstatus_to_exitcode(status)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
