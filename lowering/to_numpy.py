"""`to_numpy`, which writes a program as a Python file that needs only NumPy."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tenferro
from lowering.numpy_source import CELLS
from lowering.numpy_source.expression import Code, Expression, tuple_of
from lowering.numpy_source.extension import is_written
from lowering.numpy_source.library import NAMES, text_of
from lowering.numpy_source.writer import Writer
from tenferro.dims import SymDim
from tenferro.errors import UnsupportedError
from tenferro.program import GraphProgram, expand_extensions, prune_outputs
from tenferro.types import TreeDef, unflatten

__all__ = ["READ_CONSTANTS", "NumpySource", "Recorded", "to_numpy"]

TEMPLATE = '''"""{name}: {title}

Written by tenferro {version}; it needs NumPy alone.{proof}
"""

{imports}

{before}

@np.errstate(all="ignore")
def {name}({parameters}):
    """Compute {results}.

{arguments}
    """
{body}
{check}'''
CHECK = '''

def check():
    """Compare results with recorded ones; return the number of those that differ."""
    failures = []
{cases}
    for name, problem in failures:
        print(f"{{name}}: {{problem}}")
    count = {count}
    print(f"{function}: {{count - len(failures)}} of {{count}} recorded results agree")
    return len(failures)


if __name__ == "__main__":
    raise SystemExit(1 if check() else 0)
'''

READ_CONSTANTS = 'CONSTANTS = dict(np.load(Path(__file__).with_suffix(".npz")))'
"""Statement by which a generated file reads its constant arrays from an `.npz` file."""
MAX_RETURN = 84
"""Maximum length in characters of a container that the `return` statement has on one line."""
MAX_LISTED_RESULTS = 48
"""Maximum number of elements of recorded results that are written as lists.

Results with more elements are stored in the file of constant arrays.
"""


class Recorded(NamedTuple):
    """Inputs of a native run and its results, with which a generated file compares the results of its own function.

    Attributes:
        inputs, outputs: the leaves of arguments and results.
        limits: for each output, the maximum difference of each element.
        others: for each output, flat indices of elements and alternative values that these elements may have; or None.
    """

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    limits: Sequence[Any]
    others: Sequence[Any]


@dataclass(frozen=True)
class NumpySource:
    """A program as Python source.

    Attributes:
        name: the name of the Python function.
        text: the text of the Python file.
        constants: the arrays that the Python file reads from an `.npz` file of the same name, by name; empty if it
            reads no file.
        statements: the number of lines of the function's body, and of the functions that are sub-programs.
        weights: the name of a safetensors file that contains the arrays instead of an `.npz` file, or "".
    """

    name: str
    text: str
    constants: dict[str, Any]
    statements: int
    weights: str = ""

    def beside(self, path: Any) -> Path:
        """Return the path of the file with the constant arrays, if the Python file is stored at `path`."""
        return (
            Path(path).with_name(self.weights) if self.weights else Path(path).with_suffix(".npz")
        )

    def __str__(self) -> str:
        return self.text


def to_numpy(
    program: GraphProgram, recorded: Sequence[Recorded] = (), weights: str = ""
) -> NumpySource:
    """Write a program as a Python file that needs only NumPy.

    Loops and conditionals are written as Python's statements. Functions that NumPy lacks are defined in the file. If
    operands are zeros of both signs, the sign of a zero result may differ from native execution. All other results
    agree up to rounding.

    Args:
        recorded: inputs and results; the file compares its own results with them when it is run.
        weights: the name of a safetensors file in the same folder, from which the Python file maps its constant arrays.
            By default it reads them from an `.npz` file.

    Raises:
        UnsupportedError: the program contains bfloat16, effects, or an extension without an expansion. The error
            names the op and the line.
        NonStaticShapeError: an extent depends on the data, but the code of an op needs it as an expression.

    >>> import numpy as np, tenferro as tnf
    >>> program = tnf.compile(lambda x, w: {"y": tnf.tanh(x @ w)}, np.ones((2, 3)), np.ones((3, 4)))
    >>> print(to_numpy(program).text.splitlines()[-1].split("  #")[0])
        return {"y": np.tanh(x @ w)}
    """
    program = expand_extensions(prune_outputs(program), keep=is_written)
    if program.has_effects:
        raise UnsupportedError(
            f"to_numpy: {program.name} has effects, such as prints; program.without_effects() leaves them out"
        )
    writer = Writer(CELLS, [*NAMES])
    name = writer.fresh(identifier(program.name, "function"))
    signature = Signature(program, writer)
    try:
        body = _body(program, writer, signature)
    except RecursionError as error:
        raise UnsupportedError(f"to_numpy: {program.name} is nested too deeply") from error
    cases, count = _cases(writer, recorded, program, name, signature)
    if cases:
        writer.functions.add("disagreement")
    imports = ["import numpy as np"]
    constants = ""
    if writer.constants:
        imports = ["from pathlib import Path", "", *imports]
        constants = f"{READ_CONSTANTS}\n"
    if writer.constants and weights:
        read = writer.function("mapped_arrays")
        constants = f"\n\nCONSTANTS = {read}(Path(__file__).with_name({quoted(weights)}))\n"
    functions = "".join(f"\n\n{text}\n" for text in text_of(writer.functions))
    functions += "\n".join(["", "", *writer.definitions])
    before = functions + constants if weights else constants + functions
    takes, gives = (
        ", ".join(f"{name}: {spec}" for name, spec in zip(names, specs, strict=True))
        for names, specs in (
            (program.input_names, program.input_specs),
            (program.output_names, program.output_specs),
        )
    )
    text = TEMPLATE.format(
        name=name,
        title=f"({takes}) -> ({gives})",
        version=tenferro.__version__,
        proof=f" `python` on this file compares its results with {count} recorded ones."
        if cases
        else "",
        imports="\n".join(imports),
        before=before,
        parameters=", ".join(signature.parameters),
        results=", ".join(program.output_names) or "nothing",
        arguments=textwrap.indent(_arguments(program), "    "),
        body="\n".join(body),
        check=CHECK.format(cases=cases, count=count, function=name) if cases else "",
    )
    text = re.sub(r"\n{4,}", "\n\n\n", text)
    statements = len(body) + sum(map(bool, writer.definitions))
    return NumpySource(name, text, writer.constants, statements, weights)


def _arguments(program: GraphProgram) -> str:
    lines = ["Args:"] if program.input_specs else []
    for name, spec in zip(program.input_names, program.input_specs, strict=True):
        shape = tuple_of(spec.shape) if spec.shape else "()"
        lines.append(f"    {name}: {spec.dtype} of shape {shape}.")
    return "\n".join(lines or ["It takes no arguments."])


def _body(program: GraphProgram, writer: Writer, signature: Signature) -> list[str]:
    """Return the lines of the function's body: symbols, guards, instructions, and the `return` statement."""
    symbols = signature.extents(writer)
    for guard in program.guards:
        if isinstance(guard.lhs, int) and isinstance(guard.rhs, int):
            guard.check({})
            continue
        lhs, rhs = writer.extent(guard.lhs), writer.extent(guard.rhs)
        require = writer.function("require")
        writer.say(f'{require}({lhs}, "{guard.relation}", {rhs}, {quoted(guard.reason)})')
    inputs = signature.expressions
    for spec in program.input_specs:
        writer.dtype(spec.dtype)
    outputs = writer.program(program, inputs)
    result = tree_text(program.out_tree, [str(output) for output in outputs])
    source = outputs[0].source if len(outputs) == 1 else None
    for line in return_statement(result):
        writer.say(line, source)
    body = ast.parse("\n".join(["if True:", *writer.lines]))
    read = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
    return [f"    {line}" for name, line in symbols.items() if name in read] + writer.lines


def return_statement(text: str) -> list[str]:
    """Return the lines of the `return` statement of an expression; each entry of a long container has its own line.

    >>> return_statement("(x, y)"), return_statement("(x,)")
    (['return x, y'], ['return (x,)'])
    """
    tree = ast.parse(text, mode="eval").body
    starts: list[int] = []
    if isinstance(tree, ast.Dict):
        starts = [key.col_offset for key in tree.keys if key is not None]
    elif isinstance(tree, ast.Tuple | ast.List):
        starts = [entry.col_offset for entry in tree.elts]
    if len(text) > MAX_RETURN and starts:
        ends = [*starts[1:], -1]
        entries = [text[i:j].rstrip(" ,") for i, j in zip(starts, ends, strict=True)]
        return [f"return {text[0]}", *[f"    {entry}," for entry in entries], text[-1]]
    is_bare = isinstance(tree, ast.Tuple) and len(starts) > 1
    return [f"return {text[1:-1] if is_bare else text}"]


def quoted(text: str) -> str:
    """Return the Python string literal of a text, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def identifier(name: str, default: str) -> str:
    """Convert the name of a program or input to a Python identifier; return `default` if that is impossible.

    >>> identifier("<lambda>", "function"), identifier("my-model.v1", "function")
    ('function', 'my_model_v1')
    """
    name = re.sub(r"\W+", "_", name).strip("_")
    return default if not name or name == "lambda" or name[0].isdigit() else name


class Signature:
    """Parameters of the generated function, and Python expressions for the program's inputs.

    If the arguments of the traced function are trees of plain containers, the generated function has the same
    parameters. Otherwise it has a parameter for each leaf.

    Attributes:
        structure: the tree of each parameter, with the numbers of the program's inputs as leaves.
        parameters: the names of the parameters, in order.
        expressions: an expression such as `params["w"]` for each input of the program.
    """

    def __init__(self, program: GraphProgram, writer: Writer) -> None:
        self.program = program
        self.arguments: list[Any] = []
        texts = [name.replace("'", '"') for name in program.input_names]
        roots = [re.match(r"[A-Za-z_]\w*", text) for text in texts]
        is_plain = all(re.fullmatch(r'[A-Za-z_]\w*(\["\w+"\]|\[\d+\])*', text) for text in texts)
        numbers = list(range(len(texts)))
        arguments = unflatten(program.in_tree, numbers)
        self.structure: Any = list(arguments) if isinstance(arguments, tuple) else [*numbers]
        structured = is_plain and _is_plain_tree(self.structure)
        self.parameters: list[str] = []
        names: list[str] = []
        if structured:
            for number, entry in enumerate(self.structure):
                leaves = _paths(entry, "")
                root = roots[next(iter(leaves))] if leaves else None
                names.append(root[0] if root else f"x{number}")
            structured = len({*names}) == len(names)
        if structured:
            self.parameters = [writer.fresh(name) for name in names]
            for name, entry in zip(self.parameters, self.structure, strict=True):
                for leaf, text in _paths(entry, name).items():
                    texts[leaf] = text
        if not structured:
            self.structure = numbers
            self.parameters = texts = [
                writer.fresh(identifier(name, "x")) for name in program.input_names
            ]
        self.expressions = [
            Expression(Code(text, free=True), spec)
            for text, spec in zip(texts, program.input_specs, strict=True)
        ]

    def extents(self, writer: Writer) -> dict[str, str]:
        """Return a dictionary from Python variables to the statements that assign the values of symbols to them.

        The names of the variables are added to `writer.extents`.

        Raises:
            UnsupportedError: no axis of an input has the symbol alone as its extent.
        """
        lines: dict[str, str] = {}
        for value in self.expressions:
            for axis, extent in enumerate(value.spec.shape):
                leaf = extent.as_leaf() if isinstance(extent, SymDim) else None
                if leaf is None or str(leaf) in writer.extents:
                    continue
                name = writer.extents[str(leaf)] = writer.fresh(str(leaf))
                lines[name] = f"{name} = {value}.shape[{axis}]"
        missing = {
            str(leaf)
            for value in self.expressions
            for extent in value.spec.shape
            if isinstance(extent, SymDim)
            for leaf in extent.leaves()
        } - writer.extents.keys()
        if missing:
            raise UnsupportedError(
                f"to_numpy: no argument has the extent {', '.join(sorted(missing))} alone, from which it is read"
            )
        return lines

    def call(self, name: str, leaves: Sequence[str]) -> str:
        """Return the text of a call of the generated function `name`, whose arguments have the leaves `leaves`."""
        return f"{name}({', '.join(_text(entry, leaves) for entry in self.structure)})"


def _is_plain_tree(tree: Any) -> bool:
    """Return whether a tree consists only of lists, tuples, None, and dicts whose keys are identifiers."""
    if type(tree) is dict:
        return all(isinstance(key, str) and key.isidentifier() for key in tree) and all(
            map(_is_plain_tree, tree.values())
        )
    if type(tree) in (list, tuple):
        return all(map(_is_plain_tree, tree))
    return tree is None or isinstance(tree, int)


def _paths(tree: Any, root: str) -> dict[int, str]:
    """Return a dictionary from the leaves of a tree, which are integers, to Python expressions for them.

    The expressions select the leaves from the value of the expression `root`.

    >>> _paths({"a": [0, 1], "b": None}, "p")
    {0: 'p["a"][0]', 1: 'p["a"][1]'}
    """
    if tree is None:
        return {}
    if isinstance(tree, int):
        return {tree: root}
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {
        leaf: text
        for key, entry in entries
        for leaf, text in _paths(entry, f"{root}[{_key(key)}]").items()
    }


def _key(key: str | int) -> str:
    return f'"{key}"' if isinstance(key, str) else str(key)


def _text(tree: Any, leaves: Sequence[str]) -> str:
    if isinstance(tree, dict):
        return (
            "{" + ", ".join(f'"{key}": {_text(value, leaves)}' for key, value in tree.items()) + "}"
        )
    if isinstance(tree, list):
        return f"[{', '.join(_text(value, leaves) for value in tree)}]"
    if isinstance(tree, tuple):
        return tuple_of([_text(value, leaves) for value in tree]) if tree else "()"
    return "None" if tree is None else leaves[int(tree)]


def tree_text(tree: TreeDef, leaves: Sequence[str]) -> str:
    """Return the Python expression of a tree whose leaves are the expressions `leaves`.

    If the tree has containers that are not plain, such as dataclasses, return a tuple of the leaves.

    >>> import optree
    >>> from tenferro.types import flatten
    >>> tree_text(flatten({"a": [0, None], "b": (1,)})[1], ["x", "y"])
    '{"a": [x, None], "b": (y,)}'
    """
    structure = unflatten(tree, list(range(len(leaves))))
    if _is_plain_tree(structure):
        return _text(structure, leaves)
    return tuple_of(leaves)


def _cases(
    writer: Writer,
    recorded: Sequence[Recorded],
    program: GraphProgram,
    name: str,
    signature: Signature,
) -> tuple[str, int]:
    """Return the statements of the function `check`, and the number of results that it compares."""
    lines: list[str] = []
    count = 0
    structure = unflatten(program.out_tree, list(range(len(program.output_specs))))
    if not _is_plain_tree(structure):
        structure = tuple(range(len(program.output_specs)))
    paths = _paths(structure, "result")
    arrays = [
        x for case in recorded for part in (case.inputs, case.outputs, case.limits) for x in part
    ]
    if sum(x.size for x in arrays) > MAX_LISTED_RESULTS:
        writer.max_listed = 0
    for number, case in enumerate(recorded):
        inputs = [writer.array(x).text for x in case.inputs]
        call = signature.call(name, inputs)
        lines.append(f"    result = {call}")
        for i, (y, limit, other) in enumerate(
            zip(case.outputs, case.limits, case.others, strict=True)
        ):
            extra = (
                ""
                if other is None
                else f", ({writer.array(other[0]).text}, {writer.array(other[1]).text})"
            )
            lines.append(
                f"    problem = disagreement({paths[i]}, {writer.array(y).text}, {writer.array(limit).text}{extra})"
            )
            lines.append(
                f"    failures += [({quoted(f'case {number}, {program.output_names[i]}')}, problem)] if problem else []"
            )
            count += 1
    return "\n".join(lines), count
