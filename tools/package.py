"""`make package`: build a wheel and a source distribution, check them, and install and test them in new environments.

For each extra (a set of optional dependencies), the wheel is installed with the extra into an environment, and the
code in `USES` is run there. Then the source distribution is installed without extras. All files are created in FOLDER
and are not removed.

python tools/package.py FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLAIN = """
import lowering, numpy as np, tenferro as tnf
f = lambda x: tnf.sum(tnf.sin(x) ** 2)
assert np.allclose(tnf.grad(f)(np.ones(3)), np.sin(2.0))
assert "stablehlo.sine" in lowering.lower_to_stablehlo(tnf.compile(f, np.ones(3))).text
loop = tnf.compile(lambda x: tnf.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x), 1.0)
assert "compiled" in str(tnf.GraphExecutor(compiled=True).compile(loop))
try:
    import jaxlib
except ModuleNotFoundError:
    try:
        import xla_peer; xla_peer.XlaExecutor("cpu")
    except Exception as error:
        assert "tenferro" in str(error) and "xla" in str(error), error
    else:
        raise AssertionError("an executor without jaxlib")
"""
USES = {
    "": PLAIN,
    "safetensors": """
import numpy as np, tenferro as tnf
tnf.tree.save({"w": np.ones(2)}, "weights.safetensors")
assert tnf.tree.load("weights.safetensors")["w"].shape == (2,)
""",
    "cli": "import subprocess, sys; subprocess.run([sys.executable.replace('python', 'tenferro'), '--help'], check=True)",
    "xla": """
import numpy as np, tenferro as tnf, xla_peer
assert xla_peer.check_parity(lambda x: tnf.sum(tnf.sin(x) ** 2), np.ones(3), grad=True).ok
""",
}
"""Code that is run to test each extra. The key "" is the installation without extras."""


def run(*words: str | Path, folder: Path = ROOT) -> None:
    """Run a command; if it fails, exit with its output and its status."""
    done = subprocess.run(
        [*map(str, words)], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{done.stderr}\nstatus {done.returncode}")


def environment(folder: Path, *packages: str | Path) -> Path:
    """Create a virtual environment with these packages and their dependencies; return the path of its Python."""
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", *packages)
    return python


def main(folder: Path) -> None:
    """Build the wheel and the source distribution, check both, and test both."""
    folder.mkdir(parents=True, exist_ok=True)
    builder = environment(folder / "builder", "build", "twine")
    run(builder, "-m", "build", "--outdir", folder / "dist", ROOT)
    wheel, source = (max(folder.glob(f"dist/*{end}")) for end in (".whl", ".tar.gz"))
    run(builder, "-m", "twine", "check", "--strict", wheel, source)
    for extra, use in USES.items():
        python = environment(folder / (extra or "plain"), f"{wheel}[{extra}]" if extra else wheel)
        run(python, "-c", use, folder=folder)
        print(f"wheel {f'with [{extra}]' if extra else 'without extras'}: works", flush=True)
    run(environment(folder / "source", source), "-c", PLAIN, folder=folder)
    print("source distribution without extras: works")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
