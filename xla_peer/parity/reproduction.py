"""Folders that reproduce failing cases, and issue texts about such folders."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform as machine
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from lowering import import_stablehlo
from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.extension.saving import save
from tenferro.files import replacing, target_of
from tenferro.program import GraphProgram
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.twins import twins
from xla_peer.storage import stored

__all__ = ["save_reproduction", "triage"]

SCRIPT = """import numpy as np, tenferro as tnf, xla_peer
program = tnf.load("repro.tnf")
inputs = [x.view(spec.dtype.dtype) for x, spec in zip(np.load("inputs.npz").values(), program.input_specs)]
print(xla_peer.check_parity(program, *inputs, executor=xla_peer.XlaExecutor(PLATFORM)))
"""
WITH_JAX = '''"""Run module.mlir on inputs.npz with jax alone, and compare with expected.npz."""

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
if "lapack_" in (text := open("module.mlir").read()):
    from jaxlib.cpu import _lapack

    _lapack.initialize()
compiled = client.compile_and_load(text, xla_client.DeviceList((device,)), xla_client.CompileOptions())
inputs = [jax.device_put(x, device) for x in arrays("inputs.npz", INPUTS)]
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
"""Maximum run time of `repro_jax.py`, in seconds."""
VARIABLES = (
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "JAX_ENABLE_X64",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)
"""Environment variables on which a result may depend."""
VERSION = "import jaxlib.version; print(jaxlib.version.__version__)"


def save_reproduction(
    folder: Any,
    program: GraphProgram,
    leaves: Sequence[Any],
    text: str | None,
    platform: str = "cpu",
    said: str = "",
) -> Path:
    """Write a failing case to a folder, and return the folder.

    `inputs.npz` contains the arguments, `repro.tnf` the program, and `repro.py` four lines that check the program
    again. If StableHLO text is given, `module.mlir` has this text, `expected.npz` the native results, and
    `repro_jax.py` a script that needs only JAX. `about.json` has the versions, the environment, the results of the
    installed jaxlib, and a digest of the module and its arguments.

    Args:
        text: the StableHLO text of the program.
        said: a description of the peer's result, in one line.

    Raises:
        InvalidConfigError: the path of one of the files is a folder, a pipe or a device.
        OSError: the folder cannot be created or written.
    """
    directory = Path(folder)
    directory.mkdir(parents=True, exist_ok=True)
    inputs = _archive("x", leaves)
    script = SCRIPT.replace("PLATFORM", repr(platform))
    about: dict[str, Any] = {
        "platform": platform,
        "versions": _versions(),
        "machine": f"{machine.system()} {machine.machine()}",
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "outcomes": {f"jaxlib {_versions().get('jaxlib', 'missing')}": said} if said else {},
        "program": str(program),
    }
    files = {"inputs.npz": inputs, "repro.py": script.encode()}
    if text is not None:
        files["module.mlir"] = text.encode()
        about["digest"] = hashlib.sha256(text.encode() + inputs).hexdigest()
        try:
            expected = native_outputs(program, leaves)
        except TenferroError as error:  # because the native run may fail, as the peer's run did
            about["native"] = str(error).splitlines()[0]
        else:
            files["expected.npz"] = _archive("y", expected)
            dtypes = [[str(x.dtype) for x in arrays] for arrays in (leaves, expected)]
            with_jax = WITH_JAX.replace("PLATFORM", repr(platform))
            with_jax = with_jax.replace("INPUT_DTYPES", repr(dtypes[0]))
            files["repro_jax.py"] = with_jax.replace("OUTPUT_DTYPES", repr(dtypes[1])).encode()
    files["about.json"] = json.dumps(about, indent=2).encode()
    for name in ("repro.tnf", *files):
        target_of(directory / name)  # raises an error before the first file is written
    save(program, directory / "repro.tnf")
    for name, content in files.items():
        with replacing(directory / name) as file:
            file.write(content)
    return directory


def _archive(letter: str, arrays: Sequence[Any]) -> bytes:
    buffer = io.BytesIO()
    named: dict[str, Any] = {f"{letter}{i:03}": stored(np.asarray(x)) for i, x in enumerate(arrays)}
    np.savez(buffer, **named)
    return buffer.getvalue()


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that affect results."""
    versions = {"python": machine.python_version()}
    for name in ("tenferro", "jax", "jaxlib", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def triage(folder: Any, pythons: Sequence[str] = (), reports: Iterable[Any] | None = None) -> str:
    """Return the text of an issue about a failing case.

    The text has the module, the results of each JAX, the versions, and similar public reports.

    Args:
        folder: a folder that `save_reproduction` has written.
        pythons: paths of Python interpreters that run `repro_jax.py` with their JAX; by default the current one.
        reports: public reports with which the module is compared; by default the hall of miscompiles, if it is
            installed.

    Raises:
        InvalidConfigError: the folder lacks `about.json`, `module.mlir` or `repro_jax.py`, or `about.json` is
            invalid.
    """
    directory = Path(folder)
    names = ("about.json", "module.mlir", "repro_jax.py")
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        raise InvalidConfigError(
            f"triage: {directory} has no {', '.join(missing)}; give a folder that `tenferro parity --repro` wrote"
        )
    about = _about(directory / "about.json")
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    outcomes = dict(about.get("outcomes", {}))
    ran = [
        line
        for python in pythons or (sys.executable,)
        for line in _ran(directory, python, outcomes)
    ]
    module = (directory / "module.mlir").read_text().strip()
    script = (directory / "repro_jax.py").read_text().strip()
    return "\n".join([
        f"XLA ({about['platform']}) computes a module wrongly, or crashes on it",
        "",
        "```mlir",
        module,
        "```",
        "",
        *ran,
        *[f"- {version}: {words}" for version, words in outcomes.items()],
        *[""] * bool(outcomes),
        *_alike(module, reports),
        "",
        f"Found with {versions}, on {about['machine']}.",
        f"Digest of module and inputs: {about['digest'][:16]}.",
        "",
        "<details><summary>repro_jax.py, beside module.mlir, inputs.npz and expected.npz</summary>",
        "",
        "```python",
        script,
        "```",
        "",
        "</details>",
    ])  # fmt: skip


def _about(path: Path) -> dict[str, Any]:
    """Read `about.json`, and check that it has versions and a digest."""
    try:
        about = json.loads(path.read_text())
        if isinstance(about["versions"], dict) and isinstance(about["digest"], str):
            return {"platform": "cpu", "machine": "another machine", **about}
    except (ValueError, KeyError, TypeError):
        pass
    raise InvalidConfigError(
        f"triage: {path} has no versions and digest; give a folder that `tenferro parity --repro` wrote"
    )


def _ran(directory: Path, python: str, outcomes: dict[str, str]) -> list[str]:
    """Run a reproduction with a Python interpreter, and return the lines of the issue about the result.

    If `outcomes`, which was read from `about.json`, has an outcome for the same version of jaxlib, it is removed.
    """
    try:
        done = subprocess.run(
            [python, "-c", VERSION], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        version = done.stdout.strip().splitlines()[-1] if done.returncode == 0 else "unknown"
        outcome = _outcome(directory, python)
    except OSError as error:
        raise InvalidConfigError(
            f"triage: {python} does not run ({error.strerror}); give the path of an interpreter that has JAX"
        ) from None
    except (subprocess.TimeoutExpired, IndexError):
        version, outcome = "unknown", f"no answer in {SECONDS} s"
    outcomes.pop(f"jaxlib {version}", None)
    return [f"With jaxlib {version}:", "", "```", outcome, "```", ""]


def _alike(module: str, reports: Iterable[Any] | None) -> list[str]:
    """Return the lines of the issue about public reports with a similar module."""
    try:
        near = twins(import_stablehlo(module), reports)
    except TenferroError as error:
        return [f"Not compared with public reports: {str(error).splitlines()[0]:.200}"]
    if not near:
        return ["No public report in the hall of miscompiles is like it."]
    return ["Public reports that are like it:", "", *[f"- {twin}" for twin in near]]


def _outcome(directory: Path, python: str) -> str:
    """Return the script's output, or how it ended."""
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
