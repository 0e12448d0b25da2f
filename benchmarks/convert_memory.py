"""Peak memory of `tenferro convert`, divided by the size of the model's weights, for each pair of formats.

python benchmarks/convert_memory.py                         converts a model with 512 MB of float32 weights
python benchmarks/convert_memory.py --megabytes 2048 --sources tnf onnx
python benchmarks/convert_memory.py --sources foreign-mlir  converts modules whose text contains the weights
python benchmarks/convert_memory.py --write                 also writes the table to docs/travel.md

Each conversion runs in a new process. The peak of a conversion is the maximum resident memory (VmHWM) of this process,
minus that of converting a small model. Pages of memory-mapped files count. A separate column has the peak of the child
process that reads foreign modules.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "travel.md"
BEGIN, END = "<!-- memory of conversions -->", "<!-- end -->"
LAYERS = 4

MAKE = f"""
import sys
import numpy as np
import tenferro as tnf
n, path = int(sys.argv[1]), sys.argv[2]
if path.endswith("foreign.mlir"):
    with open(path, "w") as file:
        print(f"func.func @main(%x: tensor<3x{{n}}xf32>) -> tensor<3x{{n}}xf32> {{{{", file=file)
        x = "%x"
        for i in range({LAYERS}):
            print(f'  %w{{i}} = stablehlo.constant dense<"0x', end="", file=file)
            for row in np.random.default_rng(i).standard_normal((n, n), np.float32):
                file.write(row.tobytes().hex().upper())
            print(f'"> : tensor<{{n}}x{{n}}xf32>', file=file)
            print(f"  %y{{i}} = stablehlo.dot_general {{x}}, %w{{i}}, contracting_dims = [1] x [0]"
                  f" : (tensor<3x{{n}}xf32>, tensor<{{n}}x{{n}}xf32>) -> tensor<3x{{n}}xf32>", file=file)
            x = f"%y{{i}}"
        print(f"  return {{x}} : tensor<3x{{n}}xf32>\\n}}}}", file=file)
    raise SystemExit
layers = [np.random.default_rng(i).standard_normal((n, n), np.float32) for i in range({LAYERS})]
def model(x):
    for layer in layers:
        x = tnf.tanh(x @ layer)
    return x
program = tnf.compile(model, tnf.TensorSpec((3, n), "float32"))
if path.endswith("foreign.mlirbc"):
    from lowering import lower_to_stablehlo
    open(path, "wb").write(lower_to_stablehlo(program).portable_artifact())
else:
    tnf.save(program, path)
"""

CONVERT = """
import resource, sys
from lowering import import_stablehlo
from xla_peer.cli import app
# Start the reading process now, while this one is small: Linux includes the parent's peak at the time of the fork in
# the child's peak.
import_stablehlo("func.func @main() { return }")
try:
    app(sys.argv[1:], standalone_mode=False)
finally:
    lines = open("/proc/self/status").read().splitlines()
    own = int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    from lowering import guarded
    guarded._PROCESS.end()
    print("peak", own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

SOURCES = {
    "tnf": ".tnf",
    "mlir": ".mlir",
    "mlirbc": ".mlirbc",
    "py": ".py",
    "onnx": ".onnx",
    "foreign-mlir": "foreign.mlir",
    "foreign-mlirbc": "foreign.mlirbc",
}
OWN = [name for name in SOURCES if not name.startswith("foreign")]
"""Formats that `convert` can both read and write. The formats of other tools can only be read."""
OUTPUTS = (".tnf", ".mlir", ".mlirbc", ".py", ".onnx")


def process(code: str, *arguments: str) -> str:
    """Run Python code in a new process, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def source_in(folder: Path, name: str, width: int) -> Path:
    """Write a model in the format `name`, a key of `SOURCES`, and return the path of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"source{SOURCES[name]}"
    if SOURCES[name].startswith("foreign") or name == "tnf":
        process(MAKE, str(width), str(path))
        return path
    first = folder / "first.tnf"
    process(MAKE, str(width), str(first))
    process(CONVERT, "convert", str(first), str(path))
    first.unlink()
    return path


def peaks(source: Path, output: str, *options: str) -> tuple[int, int]:
    """Convert a file; return the peak memory of the process, and of its child that reads the source, in bytes."""
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        said = process(CONVERT, "convert", str(source), f"{folder}/output{output}", *options)
    own, children = said.split("peak ")[1].split()
    return int(own) * 1024, int(children) * 1024


def main() -> None:
    """Convert models between the chosen formats, and print a table of the peak memory."""
    parser = argparse.ArgumentParser(description="Peak memory of conversions")
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--sources", nargs="*", default=[*SOURCES], choices=[*SOURCES])
    parser.add_argument("--outputs", nargs="*", default=[*OUTPUTS], choices=[*OUTPUTS])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    width = int((given.megabytes * 1e6 / LAYERS / 4) ** 0.5)
    size = LAYERS * 4 * width**2
    columns = [*given.outputs, *(["reading process"] if {*given.sources} - {*OWN} else [])]
    rows = [f"| from | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    print("\n".join(rows), flush=True)
    for name in given.sources:
        with tempfile.TemporaryDirectory() as folder:
            cells: list[str] = []
            largest = 0.0
            small = source_in(Path(folder) / "small", name, 8)
            large = source_in(Path(folder) / "large", name, width)
            for output in given.outputs:
                bare, bare_child = peaks(small, output)
                own, child = peaks(large, output)
                cells.append(f"{(own - bare) / size:.2f}")
                largest = max(largest, (child - bare_child) / size)
            if len(columns) > len(given.outputs):
                cells.append("-" if name in OWN else f"{largest:.2f}")
            rows.append(f"| {name} | {' | '.join(cells)} |")
            print(rows[-1], flush=True)
    if given.write:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(rows) + f"\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
