"""Count the data structures that list ops with their values, and the loops over such lists, in the syntax tree.

    python tools/census.py           prints the table of this tree
    python tools/census.py FOLDER    prints the table of another checkout

The kinds, counted over `tenferro`, `lowering` and `xla_peer`, are:

record      a class or a tuple type that holds an op together with its operands and results
container   a class that holds a sequence of records, such as `nodes`, `instructions` or `steps`
copy        a loop over such a sequence that applies each op again
sweep       a loop backward over such a sequence
execution   a loop over such a sequence that calls each op's kernel
door        a function or method that takes an op as its first argument and applies it to values
table       a value of a module that names three or more ops, other than a column and its parts; the table of StableHLO
            operations in `lowering/read` does not count
check       an `isinstance`, `issubclass` or comparison of a `type` with classes of ops, in `tenferro/exec`
size        lines of `tenferro/exec` without kernels and LLVM code, at most 100 columns each, and its longest files
calls       Python calls, files, and transitions between files of the second `tenferro.compile(lambda x: x + x, x)`
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGES = ("tenferro", "lowering", "xla_peer")
LISTS = {"nodes", "instructions", "steps", "_steps", "region", "code", "calls", "_instructions"}
LOOPED = LISTS | {"numbers", "reads"}
"""Names of sequences whose loops are counted.

They are lists of ops, lists of instruction numbers, and lists of values that an op reads.
"""
WRITERS = {"add", "add_mark", "emit", "emit_all", "apply", "apply_one", "apply_all", "apply_beside",
           "add_op", "Instruction", "Step", "Node", "_step", "rule"}  # fmt: skip
DOORS = {"add", "emit", "emit_all", "apply", "apply_one", "apply_all", "apply_beside", "_applied"}
RECORDS = {"Instruction", "ExecInstruction", "Node", "Needed", "Step", "_Step", "Any"}
SEQUENCES = {"list", "tuple", "Sequence", "Mapping", "dict"}
OPS = {"op", "ops", "operation", "tensor_op"}
READS = {"inputs", "reads", "operands", "arguments", "slots"}
WRITES = {"outputs", "writes", "results", "made", "out"}


def main() -> int:
    """Print the count of each kind of structure or loop, and below the count each occurrence."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    places: dict[str, list[str]] = {
        kind: [] for kind in ("record", "container", "copy", "sweep", "execution", "door", "table")
    }
    ops = _ops(root / "tenferro/ops")
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            tree = ast.parse(path.read_text())
            for kind, line, name in counted(tree):
                places[kind].append(f"{path.relative_to(root)}:{line} {name}")
            if path.parent != root / "tenferro/ops":
                tables = _tables(tree, ops, path.is_relative_to(root / "lowering/read"))
                places["table"] += [f"{path.relative_to(root)}:{name}" for name in tables]
    places["check"] = list(_checks(root))
    for kind, lines in places.items():
        print(f"{kind:<10}{len(lines):>4}")
        for line in lines:
            print(f"      {line}")
    machine = dict(_sizes(root / "tenferro/exec"))
    total = sum([n for name, n in machine.items() if not name.startswith(("kernels/", "llvm/"))])
    print(f"size      {total:>4}")
    for name in sorted(machine, key=machine.__getitem__)[:-6:-1]:
        print(f"      {machine[name]:>4} {name}")
    calls, files, changes = _walk(root)
    print(f"calls     {calls:>4} in {files} files, {changes} changes of file")
    return 0


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each file with its number of lines; a line of more than 100 columns counts as several."""
    for path in sorted(folder.rglob("*.py")):
        lines = path.read_text().splitlines()
        yield str(path.relative_to(folder)), sum([max(1, -(-len(line) // 100)) for line in lines])


def counted(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Yield the kind, line and name of each structure or loop of the kinds that this tool counts."""
    for node, function in _with_functions(tree):
        if isinstance(node, ast.ClassDef):
            fields = _fields(node)
            # A field with the types of the operands (`TensorSpec`) does not make a class a record, because it holds
            # no operands.
            values = {name for name, kind in fields.items() if "TensorSpec" not in kind}
            if values & OPS and values & READS and values & WRITES:
                yield "record", node.lineno, node.name
            elif any(_holds_records(fields[name]) for name in fields.keys() & LISTS):
                yield "container", node.lineno, node.name
        elif isinstance(node, ast.Assign) and _is_record_alias(node.value):
            yield "record", node.lineno, ast.unparse(node.targets[0])
        elif isinstance(node, ast.FunctionDef):
            names = [arg.arg for arg in node.args.args if arg.arg not in ("self", "cls")]
            # Skip inner functions, because they implement an op, and methods of protocols, because they have no body.
            if node.name in DOORS and names[:1] and names[0] in OPS and function in ("", "class"):
                yield "door", node.lineno, node.name
        if isinstance(node, ast.For):
            listed = _is_list(node.iter)
            if listed and _is_backward(node.iter):
                yield "sweep", node.lineno, function
            if listed and _called(node.body) & WRITERS and not _is_backward(node.iter):
                yield "copy", node.lineno, function
            if listed and _calls_kernel(node.body):
                yield "execution", node.lineno, function


def _ops(folder: Path) -> set[str]:
    """Return the names of the ops, from the list `CARDS` of each file of `tenferro/ops`."""
    listed = [
        node.value
        for path in folder.glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CARDS"
    ]
    return {name.id for value in listed for name in ast.walk(value) if isinstance(name, ast.Name)}


def _tables(tree: ast.Module, ops: set[str], is_reader: bool) -> Iterator[str]:
    """Yield the line, name and number of ops of each table.

    Columns (`Column(..)`) and their parts (`ROWS`) are skipped.
    """
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        is_column = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "Column"
        is_vocabulary = isinstance(node.value, ast.Dict) and all(
            [
                isinstance(key, ast.Constant) and isinstance(key.value, str)
                for key in node.value.keys
            ]
        )
        if name in ("__all__", "ROWS") or is_column or (is_reader and is_vocabulary):
            continue
        # Names inside a lambda are code, not entries of the table.
        parts = _walk_outside(node.value, ast.Lambda)
        used = {part.id for part in parts if isinstance(part, ast.Name)}
        used |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
        if len(used & ops) >= 3:
            yield f"{node.lineno} {name}, of {len(used & ops)} ops"


def _walk_outside(node: ast.AST, kind: type[ast.AST]) -> list[ast.AST]:
    """Return the node and its descendants. Nodes of class `kind` are included, but nodes below them are not."""
    visited, left = list[ast.AST](), [node]
    while left:
        visited.append(left.pop())
        if not isinstance(visited[-1], kind):
            left += ast.iter_child_nodes(visited[-1])
    return visited


def _checks(root: Path) -> Iterator[str]:
    """Yield each check of an op's class in the executor. The check names the class, or reads a table of classes."""
    trees = {
        path: ast.parse(path.read_text()) for path in sorted((root / "tenferro/exec").rglob("*.py"))
    }
    classes = set(
        _classes(
            [ast.parse(path.read_text()) for path in (root / "tenferro/ops").glob("*.py")],
            {"StdTensorOp"},
        )
    )
    classes |= set(_classes(list(trees.values()), {"PlannedOp"}))
    classes |= {
        ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Tuple | ast.Dict)
        and _named(node.value) & classes
    }
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call | ast.Compare):
                continue
            compared: list[ast.AST] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "isinstance",
                "issubclass",
            ):
                compared = [*node.args[1:]]
            elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
                compared = [*node.comparators]
            if any([_named(each) & classes for each in compared]):
                yield f"{path.relative_to(root)}:{node.lineno} {ast.unparse(node)}"


def _classes(trees: Iterable[ast.Module], bases: set[str]) -> Iterator[str]:
    """Return the names in `bases`, and the names of all classes that inherit from them, directly or not."""
    names, count = set(bases), 0
    derived = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    while len(names) > count:
        count = len(names)
        names |= {
            node.name
            for node in derived
            if {name for base in node.bases for name in _named(base)} & names
        }
    yield from names


def _named(node: ast.AST) -> set[str]:
    """Return the names that occur in an expression. A dotted name counts as its last part."""
    parts = list(ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.attr for part in parts if isinstance(part, ast.Attribute)
    }


def _with_functions(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, function = waiting.pop()
        yield node, function
        inside = node.name if isinstance(node, ast.FunctionDef) else function
        if isinstance(node, ast.ClassDef):
            inside = "protocol" if "Protocol" in map(ast.unparse, node.bases) else "class"
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]


def _fields(node: ast.ClassDef) -> dict[str, str]:
    """Return the annotated names and the assigned attributes of a class, with their annotations.

    If an attribute is assigned from a parameter, its annotation is that of the parameter.
    """
    fields = {
        item.target.id: ast.unparse(item.annotation)
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    arguments = {
        arg.arg: ast.unparse(arg.annotation)
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        for arg in item.args.args
        if arg.annotation is not None
    }
    for item in ast.walk(node):
        targets = item.targets if isinstance(item, ast.Assign) else [getattr(item, "target", None)]
        kind = ""
        if isinstance(item, ast.AnnAssign):
            kind = ast.unparse(item.annotation)
        elif isinstance(item, ast.Assign) and isinstance(item.value, ast.Name):
            kind = arguments.get(item.value.id, "")
        for target in targets:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                fields[target.attr] = kind or fields.get(target.attr, "")
    return fields


def _holds_records(annotation: str) -> bool:
    """Return whether an annotation may mean a sequence of records; an empty annotation may.

    Annotations of programs, instruction numbers, rows of a table about instructions, and text are excluded.
    """
    names = set(re.findall(r"\w+", annotation))
    return not names or bool(names & SEQUENCES and names & RECORDS)


def _is_record_alias(value: ast.AST) -> bool:
    text = ast.unparse(value)
    return text.startswith("tuple[") and "Op" in text and text.count("tuple[int, ...]") >= 2


def _is_list(value: ast.AST) -> bool:
    """Return whether a loop's expression is one of the lists in `LOOPED`, and not a comprehension over it."""
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.Attribute | ast.Name):
            name = part.attr if isinstance(part, ast.Attribute) else part.id
            if name in LOOPED:
                return True
        elif isinstance(part, ast.Call):
            parts += [*part.args, part.func]
        elif isinstance(part, ast.Subscript):
            parts.append(part.value)
        elif isinstance(part, ast.BinOp):
            parts += [part.left, part.right]
    return False


def _is_backward(value: ast.AST) -> bool:
    text = ast.unparse(value)
    return "reversed(" in text or "-1)" in text.replace(" ", "")


def _called(body: Iterable[ast.AST]) -> set[str]:
    calls = [call for part in body for call in ast.walk(part) if isinstance(call, ast.Call)]
    # Skip `add` with one argument, which adds to a set: a call that applies an op also passes operands.
    calls = [call for call in calls if len(call.args) != 1 or ast.unparse(call.func)[-4:] != ".add"]
    return {
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for call in calls
    }


def _calls_kernel(body: Iterable[ast.AST]) -> bool:
    return bool(
        _called(body) & {"kernel", "function", "run", "_call", "call", "kernel_of", "bound"}
    )


_WALK = """
import sys
import numpy as np, tenferro as tnf
x = np.ones(3)
tnf.compile(lambda x: x + x, x)
files = []
def note(frame, event, argument):
    if event == "call" and any(f"/{package}/" in frame.f_code.co_filename for package in PACKAGES):
        files.append(frame.f_code.co_filename)
sys.setprofile(note)
tnf.compile(lambda x: x + x, x)
sys.setprofile(None)
print(len(files), len(set(files)), sum(a != b for a, b in zip(files, files[1:])))
"""


def _walk(root: Path) -> tuple[int, int, int]:
    words = subprocess.run(
        [sys.executable, "-c", f"PACKAGES = {PACKAGES}{_WALK}"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    calls, files, changes = map(int, words)
    return calls, files, changes


if __name__ == "__main__":
    raise SystemExit(main())
