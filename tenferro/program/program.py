"""`GraphProgram`: an immutable program, made from a graph. Passes, executors and the lowering use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.counterparts import tell_missing_members
from tenferro.dims import Guard, GuardLog, SymDim, is_exact
from tenferro.errors import ArityError, DTypeError, NonStaticShapeError
from tenferro.graph import Graph, Instruction, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.ops.source import Constant
from tenferro.program.arguments import (
    as_extents,
    bind_symbols,
    check_arguments,
    check_leaves,
    is_extents,
)
from tenferro.program.effects import without_effects
from tenferro.program.instructions import copy_into, instructions_of
from tenferro.program.native import native_executor, native_run
from tenferro.rules.family_id import by_version
from tenferro.table import wrapped
from tenferro.tracebacks import end_at_the_caller, public
from tenferro.types import DType, TensorSpec, TreeDef, flatten, unflatten

if TYPE_CHECKING:
    from tenferro.program.memory_plan import MemoryPlan
    from tenferro.program.profile import Profile
    from tenferro.program.subprogram import Subprogram

__all__ = ["GraphProgram", "flat_tree"]


@dataclass(frozen=True, eq=False)
class GraphProgram:
    """Compiled function: instructions on numbered values, called slots, and the trees of arguments and result.

    Slots 0 .. n-1 are the n inputs. `print(program)` shows one line per instruction.

    Attributes:
        trusted: False for a program from a file of unknown origin, and for programs derived from such a program. A
            separate process compiles its StableHLO first, because XLA may crash.
        origin: the `StableHloModule` from which the program was imported; None for other programs. It is neither saved
            nor compared.
        marked: the same computation with its marks, if a trace that calls the program must differentiate it by a mark;
            see `Mark.is_kept`. It is neither saved nor compared.

    Source: docs/specification/schedule.md.
    """

    name: str
    instructions: tuple[Instruction, ...]
    types: tuple[TensorSpec, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    in_tree: TreeDef
    out_tree: TreeDef
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    guards: tuple[Guard, ...] = ()
    trusted: bool = True
    origin: Any = None
    marked: Subprogram | None = None

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        outputs: Sequence[int],
        *,
        name: str = "main",
        inputs: Sequence[int] | None = None,
        in_tree: TreeDef | None = None,
        out_tree: TreeDef | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        guards: Iterable[Guard] | None = None,
    ) -> GraphProgram:
        """Return the program of the instructions on which `outputs` depend. Its values are numbered as slots."""
        inputs = tuple(graph.inputs if inputs is None else inputs)
        instructions, values, output_slots = instructions_of(graph, inputs, outputs)
        kept = (each.op for each in graph.instructions if getattr(each.op, "is_kept", False))
        keeper: Any = next(kept, None)
        marked = None if keeper is None else keeper.kept_part(graph, inputs, outputs)
        return cls(
            name=name,
            instructions=instructions,
            types=tuple(map(graph.types.__getitem__, values)),
            input_slots=tuple(range(len(inputs))),
            output_slots=output_slots,
            in_tree=flat_tree(len(inputs)) if in_tree is None else in_tree,
            out_tree=flat_tree(len(outputs)) if out_tree is None else out_tree,
            input_names=tuple(_numbered("x", inputs) if input_names is None else input_names),
            output_names=tuple(_numbered("y", outputs) if output_names is None else output_names),
            guards=tuple(graph.guards.guards if guards is None else guards),
            trusted=graph.trusted,
            marked=marked,
        )

    # ---- arguments and results ---------------------------------------------------------------

    @cached_property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Types of the inputs, in the order of the leaves of the arguments."""
        return tuple(self.types[slot] for slot in self.input_slots)

    @cached_property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        """Types of the outputs, in the order of the leaves of the result."""
        return tuple(self.types[slot] for slot in self.output_slots)

    @cached_property
    def takes_extents(self) -> bool:
        """Whether an argument is an empty array that stands for extents; callers may pass integers instead."""
        return any(map(is_extents, self.input_specs))

    @cached_property
    def gives_a_leaf(self) -> bool:
        """Whether the result is a single array instead of a container."""
        return self.out_tree == flatten(0)[1]

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.types)

    @cached_property
    def is_static(self) -> bool:
        """Whether all extents of all slots are numbers."""
        return all(spec.is_static for spec in self.types)

    @cached_property
    def extensions(self) -> tuple[Extension, ...]:
        """One op of each extension family in the program, including loops and branches, sorted by family."""
        called: dict[str, Extension] = {}
        for instruction in self.instructions:
            op = instruction.op
            if isinstance(op, Extension):
                called[op.family_id] = op
            elif isinstance(op, ControlOp):
                inner = [extension for part in op.parts for extension in part.program.extensions]
                called.update({extension.family_id: extension for extension in inner})
        return tuple([called[family_id] for family_id in sorted(called, key=by_version)])

    @property
    def families(self) -> tuple[str, ...]:
        """Ids of the extension families in the program, including loops and branches, sorted by name and version."""
        return tuple([op.family_id for op in self.extensions])

    @cached_property
    def has_effects(self) -> bool:
        """Whether an op of the program, including loops and branches, has effects, like `tenferro.debug_print`."""
        return any(instruction.op.has_effects for instruction in self.instructions)

    def without_effects(self) -> GraphProgram:
        """Return the program without ops that only have effects, such as debug prints.

        >>> import tenferro as tnf
        >>> def double(x):
        ...     tnf.debug_print("x is {}", x)
        ...     return 2 * x
        >>> program = tnf.compile(double, 1.0)
        >>> program.run(3.0)
        x is 3.0
        array(6.)
        >>> program.without_effects().run(3.0)
        array(6.)
        """
        return without_effects(self)

    def run(self, *arrays: Any) -> Any:
        """Run the program natively on NumPy arrays. Return the tree of results, which are newly allocated arrays.

        Raises:
            ArityError, ShapeError, DTypeError: the arguments do not fit `input_specs`.
            GuardError: a condition on symbolic extents does not hold.
        """
        try:
            return native_run(self, arrays)
        except Exception as error:
            end_at_the_caller(error)
            raise

    __call__ = run

    def check_arguments(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the leaves of `arguments` as arrays, after checking that they have the declared ranks and dtypes."""
        return check_arguments(self.in_tree, self.input_specs, self.input_names, arguments)

    def check_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """Return `leaves` as arrays, after checking that they have the declared ranks and dtypes."""
        return check_leaves(self.input_specs, self.input_names, leaves)

    def bind(
        self, shapes: Sequence[Sequence[Any]], guards: GuardLog | None = None
    ) -> dict[Any, Any]:
        """Return the values of the symbols, computed from the shapes of the inputs, after checking the guards.

        Args:
            guards: the guards of the trace that calls the program. Shapes may then contain symbols of this trace, and
                conditions on these symbols are added to `guards`.

        Raises:
            ShapeError: an extent contradicts its spec.
            GuardError: a guard of the program fails.
        """
        bindings = bind_symbols(self.input_specs, self.input_names, shapes, guards)
        for guard in self.guards:
            if guards is None:
                guard.check(bindings)
            else:
                guards.carry(guard, bindings)
        return bindings

    def pack(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of results whose leaves are `leaves`."""
        return unflatten(self.out_tree, leaves)

    # ---- other forms -------------------------------------------------------------------------

    def specialize(self, bindings: Mapping[Any, int]) -> GraphProgram:
        """Return the program with each symbol replaced by its number in `bindings`, and without guards."""
        if not bindings:
            return self if not self.guards else replace(self, guards=())
        return replace(
            self,
            types=tuple(_bind_type(spec, bindings) for spec in self.types),
            instructions=tuple(
                instruction._replace(op=instruction.op.specialize(bindings))
                for instruction in self.instructions
            ),
            guards=(),
            marked=None if self.marked is None else self.marked.with_extents(bindings),
        )

    @public
    def specialize_to(self, specs: Sequence[Any]) -> GraphProgram:
        """Return the program specialised to static types: `specs` are specs or arrays, one per input, or trees of them.

        Raises:
            ArityError, ShapeError, DTypeError, GuardError: the specs do not fit.
            NonStaticShapeError: a spec is symbolic.
        """
        leaves = flatten(tuple(specs))[0]
        if len(leaves) != len(self.input_slots):
            raise ArityError(
                f"{self.name}: takes {len(self.input_slots)} inputs, got {len(leaves)}"
            )
        pairs = zip(leaves, self.input_specs, self.input_names, strict=True)
        leaves = [
            leaf if isinstance(leaf, TensorSpec) else as_extents(leaf, spec, name)
            for leaf, spec, name in pairs
        ]
        leaves = [leaf if hasattr(leaf, "shape") else np.asarray(leaf) for leaf in leaves]
        for name, wanted, leaf in zip(self.input_names, self.input_specs, leaves, strict=True):
            if DType.of(leaf.dtype) is not wanted.dtype:
                raise DTypeError(f"{name}: expected {wanted}, got {DType.of(leaf.dtype)}")
        shapes = [tuple(leaf.shape) for leaf in leaves]
        for name, shape in zip(self.input_names, shapes, strict=True):
            if not all(isinstance(extent, int) for extent in shape):
                raise NonStaticShapeError(f"{name}: shape {shape} is not concrete")
        return self.specialize(self.bind(shapes))

    def lowering_view(self) -> GraphProgram:
        """Return the program that the lowering converts to StableHLO. No native pass has been applied to it.

        Source: docs/specification/expansion.md.
        """
        return self

    def to_graph(self) -> tuple[Graph, list[int]]:
        """Return a new graph with the instructions of this program, and a list of the graph's value for each slot."""
        graph = Graph(self.trusted)
        values = [graph.add_input(spec) for spec in self.input_specs]
        values += [-1] * (self.n_slots - len(values))
        copy_into(graph, self.instructions, values)
        return graph, values

    @cached_property
    def fingerprint(self) -> str:
        """Digest of what the program computes. Equal programs have equal fingerprints, in every process.

        If the payload of an extension op cannot be written as text, no other program has the same fingerprint; see
        `ExtensionOp.payload_text`.
        """
        import hashlib  # because it is slow to import, and few programs need it

        guards = list(map(str, self.guards))  # without source lines
        digest = hashlib.sha256(f"{self.input_specs}{self.output_slots}{guards}".encode())
        digest.update(f"{self.in_tree}{self.out_tree}".encode())
        texts: dict[Any, str] = {}
        for op, inputs, outputs, _, _ in self.instructions:
            text = texts.get(op.token)
            if text is None:
                text = texts[op.token] = _text_of(op)
            digest.update(f"{text}{inputs}{outputs}".encode())
        return digest.hexdigest()

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        """The key under which the compiled program is cached in this process.

        It contains the fingerprint, the names and source lines that errors show, and the classes of extension ops. A
        class that is defined again has the same name, but may act differently.
        """
        import hashlib  # because it is slow to import, and few programs need it

        told = [self.name, self.input_names, self.output_names]
        lines = [each.source for each in (*self.guards, *self.instructions)]
        text = f"{self.fingerprint}{told}{lines}"
        ops = [i.op for i in self.instructions if isinstance(i.op, Extension | ControlOp)]
        inner = [
            type(op.op)
            if isinstance(op, Extension)
            else tuple([part.identity for part in op.parts])
            for op in ops
        ]
        return hashlib.sha256(text.encode()).digest(), *inner

    @cached_property
    def constant_bytes(self) -> int:
        """Total size of the program's constants in bytes, including constants in loops and branches."""
        return sum(
            memoryview(i.op.data).nbytes
            if isinstance(i.op, Constant)
            else sum([part.constant_bytes for part in i.op.parts])
            for i in self.instructions
            if isinstance(i.op, Constant | ControlOp)
        )

    def __eq__(self, other: object) -> bool:
        """Return whether two programs have equal fingerprints. Such programs compute the same results."""
        if self is other:
            return True
        return type(self) is type(other) and self.fingerprint == other.fingerprint  # pyright: ignore[reportAttributeAccessIssue]  # because the types are equal

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @public
    def profile(self, *arrays: Any, runs: int = 5) -> Profile:
        """Run the program natively, and measure the time and memory of each instruction.

        Times are in seconds, as the median of `runs` runs. Memory is in bytes. `print` shows the slowest instructions
        and the memory over time. The method `to_html()` returns a page with the graph, times and memory.

        Raises:
            ArityError, ShapeError, DTypeError, GuardError: as for `run`.
            InvalidConfigError: `runs` is less than one.
        """
        return native_executor().profile(self, *arrays, runs=runs)

    @public
    def source(self, *specs: Any) -> str:
        """Return Python code of the native run of the program.

        Inputs have the types `specs`, by default the declared types.

        >>> import numpy as np, tenferro as tnf
        >>> program = tnf.compile(lambda x: tnf.exp(x + 1.0) * 2.0, np.ones(3))
        >>> print(program.source())
        def run(v0):
            v3 = add(v0, c); del v0
            v4 = exp(v3, out=v3); del v3
            v7 = multiply(v4, c_3, out=v4); del v4
            return [v7]
        """
        return native_executor().source(self, *specs)

    @public
    def memory_plan(self, *specs: Any) -> MemoryPlan:
        """Return the live ranges of large intermediate values in a native run on inputs of the types `specs`.

        Printing the plan lists, for each value, its bytes, its offset in the executor's arena, and its first and last
        line in `source()`. The attribute `size` is the size of the arena. The attribute `bound` is the maximum number
        of bytes that are live at the same time.

        >>> import numpy as np, tenferro as tnf
        >>> program = tnf.compile(lambda x: tnf.sum((x @ x) @ x), np.ones((200, 200)))
        >>> print(program.memory_plan())
        2 values in 625.0 KiB; 625.0 KiB are needed at once
        slot    bytes   offset  from  to
          %1  320,000        0     0   1
          %2  320,000  320,000     1   2
        """
        return native_executor().memory_plan(self, *specs)

    # ---- pictures ----------------------------------------------------------------------------

    @public
    def to_dot(self) -> str:
        """Return the program in DOT, the language of Graphviz. The command `dot -Tsvg` draws it.

        >>> import tenferro as tnf
        >>> program = tnf.compile(lambda x: x + x, tnf.TensorSpec((2,), "f8"))
        >>> program.to_dot().splitlines()[0]
        'digraph "<lambda>" {'
        """
        from tenferro.program.drawing import to_dot  # because few programs are drawn

        return to_dot(self)

    @public
    def to_html(self) -> str:
        """Return a self-contained HTML page that draws the program.

        Every box shows the types of an op's outputs. Consecutive ops from one source line or function are collapsed.
        When the mouse is over a box, the page shows the line of the user's code.
        """
        from tenferro.program.drawing import to_html  # because few programs are drawn

        return to_html(self)

    def _repr_html_(self) -> str:
        from tenferro.program.drawing.page import as_frame  # because few programs are drawn

        return as_frame(self.to_html())

    # ---- printing ----------------------------------------------------------------------------

    def __str__(self) -> str:
        takes = [
            f"%{slot} {name}: {spec}"
            for slot, name, spec in zip(
                self.input_slots, self.input_names, self.input_specs, strict=True
            )
        ]
        lines = wrapped(takes, f"program {self.name}(", ")")
        lines += [f"  guard {guard}" for guard in self.guards]
        drafts = []
        for instruction in self.instructions:
            results = ", ".join(f"%{slot}: {self.types[slot]}" for slot in instruction.outputs)
            operands = "".join(f" %{slot}" for slot in instruction.inputs)
            drafts.append((f"  {results} = {instruction.op}{operands}", instruction.source))
            if isinstance(instruction.op, ControlOp):
                for part in instruction.op.parts:
                    drafts += [(f"    {line}", None) for line in str(part.program).splitlines()]
        width = min(max((len(text) for text, _ in drafts), default=0), 72)
        for text, source in drafts:
            comment = f"  # {_short(source)}" if source else ""
            lines.append(f"{text:<{width}}{comment}" if comment else text)
        gives = [
            f"%{slot}: {spec}"
            for slot, spec in zip(self.output_slots, self.output_specs, strict=True)
        ]
        first, *rest = wrapped(gives, "  return ", "")
        return "\n".join([*lines, first.rstrip(), *[line for line in rest if line]])

    def __repr__(self) -> str:
        return (
            f"<GraphProgram {self.name}: {len(self.input_slots)} inputs, "
            f"{len(self.instructions)} instructions, {len(self.output_slots)} outputs>"
        )


tell_missing_members(
    GraphProgram,
    (),
    {
        "as_text": "print(program) prints it, and lowering.lower_to_stablehlo(program) lowers it",
        "compile": "call the program on arrays; its first call compiles it",
        "cost_analysis": "program.profile(*arrays) measures its steps",
        "in_avals": "program.input_specs has the types of its arguments",
        "memory_analysis": "program.memory_plan() has its buffers",
        "out_info": "program.output_specs has the types of its results",
    },
    "programs",
)  # members of the objects that `jax.jit(f).lower(*args)` returns


def _text_of(op: StdTensorOp) -> str:
    """Return a text that identifies an op in every process: equal texts mean equal ops."""
    if isinstance(op, Extension):
        return op.written()
    if isinstance(op, Constant):
        return f"{op!r}{op.digest.hex()}"
    if isinstance(op, ControlOp):
        return f"{op!r}{[part.fingerprint for part in op.parts]}"
    return repr(op)


def _short(source: SourceLine) -> str:
    location = f"{source.file.rpartition('/')[2]}:{source.line}"
    return f"{location}, derivative of {source.derivative_of}" if source.derivative_of else location


def _bind_type(spec: TensorSpec, bindings: Mapping[Any, int]) -> TensorSpec:
    if spec.is_static:
        return spec
    return TensorSpec.of(
        tuple(
            extent.evaluate(bindings)
            if isinstance(extent, SymDim)
            else extent
            if is_exact(extent)
            else _bind_bound(extent, bindings)
            for extent in spec.shape
        ),
        spec.dtype,
    )


def _bind_bound(extent: Any, bindings: Mapping[Any, int]) -> Any:
    dim = getattr(extent, "dim", None)
    return type(extent)(dim.evaluate(bindings)) if isinstance(dim, SymDim) else extent


def flat_tree(count: int) -> TreeDef:
    """Return the tree of a tuple of `count` leaves."""
    return flatten(tuple(range(count)))[1]


def _numbered(prefix: str, values: Sequence[int]) -> list[str]:
    return [f"{prefix}{number}" for number in range(len(values))]
