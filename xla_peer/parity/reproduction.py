"""A failing case as a folder: what one files, and what reads it again."""

from __future__ import annotations

import hashlib
import io
import json
import platform as machine
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.extension.saving import save
from tenferro.files import replacing, target_of
from tenferro.program import GraphProgram
from xla_peer.parity.turns import native_outputs

__all__ = ["save_reproduction", "triage"]

SCRIPT = """import numpy as np, tenferro as tnf, xla_peer
program = tnf.load("repro.tnf")
inputs = [x.view(spec.dtype.dtype) for x, spec in zip(np.load("repro.npz").values(), program.input_specs)]
print(xla_peer.check_parity(program, *inputs, executor=xla_peer.XlaExecutor(PLATFORM)))
"""
WITH_JAX = '''"""Run repro.mlir on repro.npz with jax alone, and compare with expected.npz."""

import jax
import numpy as np
from jax.extend import backend
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)
INPUTS, OUTPUTS = INPUT_DTYPES, OUTPUT_DTYPES


def arrays(path, dtypes):
    return [x.view(jax.numpy.dtype(name)) for x, name in zip(np.load(path).values(), dtypes)]


client = backend.get_backend(PLATFORM)
device = client.local_devices()[0]
if "lapack_" in (text := open("repro.mlir").read()):
    from jaxlib.cpu import _lapack

    _lapack.initialize()
compiled = client.compile_and_load(text, xla_client.DeviceList((device,)), xla_client.CompileOptions())
inputs = [jax.device_put(x, device) for x in arrays("repro.npz", INPUTS)]
results = compiled.execute_sharded(inputs).disassemble_into_single_device_arrays()
for number, ((y,), wanted) in enumerate(zip(results, arrays("expected.npz", OUTPUTS))):
    y = np.asarray(y)
    same = (y == wanted) | ((y != y) & (wanted != wanted))
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    apart = np.where(same, 0, abs(y.astype(wide) - wanted.astype(wide)))
    worst = np.unravel_index(np.argmax(np.where(np.isnan(apart), np.inf, apart)), y.shape) if y.size else ()
    where = list(map(int, worst))
    print(f"result {number}: {np.count_nonzero(~same)} of {y.size} elements differ", end="")
    print(f"; at {where} jax {jax.__version__} has {y[worst]}, expected {wanted[worst]}" if y.size else "")
'''
SECONDS = 300


def save_reproduction(
    folder: Any,
    program: GraphProgram,
    leaves: Sequence[Any],
    text: str | None,
    platform: str = "cpu",
) -> Path:
    """Write a failing case to a folder, and return the folder.

    `repro.npz` has the arguments, `repro.tnf` the program and `repro.py` four lines that check it again. Where there is
    StableHLO, it is `repro.mlir`, with `expected.npz`, the native results, and `repro_jax.py`, which needs JAX
    alone. `about.json` has the versions, the processor and a digest of the module and its arguments.

    Raises:
        InvalidConfigError: a folder, a pipe or a device in the place of a file.
        OSError: the folder cannot be made or written.
    """
    directory = Path(folder)
    directory.mkdir(parents=True, exist_ok=True)
    inputs = _archive("x", leaves)
    script = SCRIPT.replace("PLATFORM", repr(platform))
    about: dict[str, Any] = {
        "platform": platform,
        "versions": _versions(),
        "machine": f"{machine.system()} {machine.machine()}",
        "program": str(program),
    }
    files = {"repro.npz": inputs, "repro.py": script.encode()}
    if text is not None:
        files["repro.mlir"] = text.encode()
        about["digest"] = hashlib.sha256(text.encode() + inputs).hexdigest()
        try:
            expected = native_outputs(program, leaves)
        except TenferroError as error:  # because the failure may be the native path's
            about["native"] = str(error).splitlines()[0]
        else:
            files["expected.npz"] = _archive("y", expected)
            dtypes = [[str(x.dtype) for x in arrays] for arrays in (leaves, expected)]
            with_jax = WITH_JAX.replace("PLATFORM", repr(platform))
            with_jax = with_jax.replace("INPUT_DTYPES", repr(dtypes[0]))
            files["repro_jax.py"] = with_jax.replace("OUTPUT_DTYPES", repr(dtypes[1])).encode()
    files["about.json"] = json.dumps(about, indent=2).encode()
    for name in ("repro.tnf", *files):
        target_of(directory / name)  # before the first is written
    save(program, directory / "repro.tnf")
    for name, content in files.items():
        with replacing(directory / name) as file:
            file.write(content)
    return directory


def _archive(letter: str, arrays: Sequence[Any]) -> bytes:
    buffer = io.BytesIO()
    named: dict[str, Any] = {f"{letter}{i:03}": np.asarray(x) for i, x in enumerate(arrays)}
    np.savez(buffer, **named)
    return buffer.getvalue()


def _versions() -> dict[str, str]:
    """Versions of what computes, and of Python."""
    versions = {"python": machine.python_version()}
    for name in ("tenferro", "jax", "jaxlib", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def triage(folder: Any, python: str = sys.executable) -> str:
    """The text of an issue about a failing case: module, what JAX gives here, and the versions.

    Args:
        folder: as `save_reproduction` writes it.
        python: the interpreter whose JAX runs `repro_jax.py`, in a process of its own.

    Raises:
        InvalidConfigError: a folder without `about.json`, `repro.mlir` or `repro_jax.py`.
    """
    directory = Path(folder)
    names = ("about.json", "repro.mlir", "repro_jax.py")
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        raise InvalidConfigError(
            f"triage: {directory} has no {', '.join(missing)}; give a folder that `tenferro parity --repro` wrote"
        )
    about = json.loads((directory / "about.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    module = (directory / "repro.mlir").read_text().strip()
    script = (directory / "repro_jax.py").read_text().strip()
    return "\n".join([
        f"XLA ({about['platform']}) computes a module wrongly, or crashes on it",
        "",
        "```mlir",
        module,
        "```",
        "",
        "Run here:",
        "",
        "```",
        _outcome(directory, python),
        "```",
        "",
        f"Found with {versions}, on {about['machine']}.",
        f"Digest of module and inputs: {about['digest'][:16]}.",
        "",
        "<details><summary>repro_jax.py, beside repro.mlir, repro.npz and expected.npz</summary>",
        "",
        "```python",
        script,
        "```",
        "",
        "</details>",
    ])  # fmt: skip


def _outcome(directory: Path, python: str) -> str:
    """What the script says, or how it ends."""
    try:
        done = subprocess.run(
            [python, "repro_jax.py"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no result in {SECONDS} s"
    if done.returncode == 0:
        return done.stdout.strip()
    words = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return f"{done.stdout.strip()}\nended with status {done.returncode}: {words[-1] if words else 'no words'}".strip()
