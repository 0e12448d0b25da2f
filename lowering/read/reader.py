"""`Reader`: converts the operations of a module to the ops of a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation, is_token
from lowering.read.expansions import expanded_op
from tenferro.dims import UpperBound, is_exact
from tenferro.errors import InvalidConfigError, ShapeError, TenferroError, UnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.ops.dynamic import PadToMatch
from tenferro.ops.elementwise import Convert
from tenferro.ops.indexing import Gather
from tenferro.ops.structural import BroadcastInDim, Reshape, Slice, Transpose
from tenferro.program import ProgramBuilder, SourceLine, Subprogram
from tenferro.types import DType, TensorSpec

__all__ = ["MALFORMED", "MOST_OPS", "Read", "ReadRows", "Reader", "located"]

Read = Callable[["Reader", Operation, Sequence[int]], "int | Sequence[int]"]
"""Function that converts an operation: it appends ops on these operands to the program, and returns the results."""
ReadRows = Mapping[str, Read]
Note = Callable[["Reader", Operation, Sequence[int], Sequence[int]], None]
Rule = Callable[[int, int, tuple[int, ...]], Any]
"""Function that returns the mark of a call; see the argument `rules` of `import_stablehlo`.

Its arguments are the number of operands, the number of results, and the positions of the renamed values among both.
"""
Write = Callable[[Sequence[int]], Sequence[int]]
"""Function that writes the ops of a region on its arguments, and returns the results."""

MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, StopIteration)
"""Exceptions that readers raise for malformed operations.

Parsers do not check all attributes and operands, for example those of custom calls.
"""
DEEPEST_CALL = 128
SMALL = 1024
"""Maximum number of elements of a constant that is copied into the regions that use it.

A larger constant whose elements are all equal is stored as a broadcast scalar.
"""
MOST_OPS = 2_000_000

_PLACE = re.compile(r'"([^"]*)":(\d+):\d+')


class Reader:
    """Converter of a module to a program.

    Args:
        tree: the module.
        readers: the reader of each operation, by name.
        note: is called after an operation has been read, and records results that are computed from extents.
        largest: the maximum number of operations after inlining calls.
        trusted: whether the program, and programs derived from it, are trusted.
        rules: for names of functions of the module, the function that marks the results of a call for differentiation.
        callbacks: the Python functions that the module calls by number.

    Attributes:
        extents: for each value that is computed from the extents of arguments, an array of numbers and `SymDim`s.
        claims: for each comparison of extents that is decided at run time, the left extent, the relation and the right
            extent.
        lowest: lower bounds of symbols, from assertions of the module.
        quotients: for each extent that is a quotient rounded towards zero, its dividend and divisor.
        needed: the symbols that occur in shape operands.
        ranges: lower and upper bounds of integers that depend on data, see `lowering.read.ranges`.
        pieces: the operands of each vector of integers that is a concatenation.
        drops_windows: whether a scatter ignores windows that are partly out of bounds, as XLA does.
        truncates: whether sizes that depend on data truncate results at run time; otherwise they raise errors.
        devices: the devices, if the program computes the results of several devices; else None.
        device: returns the number of the current device, an int64 scalar.
        sent: the values that were sent and not yet received, and the pairs of devices, by builder and channel.
        feeds: the functions whose results infeeds read, if processes are computed one by one; else None.
        unrolled: the number of iterations of loops that were read one after another.
        probed: the elements that probes outside regions have recorded, by id; None for elements that are not
            constant.
    """

    def __init__(
        self,
        tree: ModuleTree,
        readers: ReadRows,
        note: Note,
        largest: int = MOST_OPS,
        trusted: bool = True,
        rules: Mapping[str, Rule] | None = None,
        callbacks: Sequence[Callable[..., Any]] = (),
    ) -> None:
        self.tree = tree
        self.callbacks = callbacks
        self.rules = {} if rules is None else rules
        self.note = note
        self.readers = readers
        self.trusted = trusted
        self.builder = ProgramBuilder(trusted=trusted)
        self.largest = largest
        self._count = 0
        self._depth = 0
        self._values: Mapping[int, int] = {}
        self._expansions: dict[str, StdTensorOp | None] = {}
        self.extents: dict[int, Any] = {}
        self.claims: dict[int, tuple[Any, str, Any]] = {}
        self.lowest: dict[Any, int] = {}
        self.quotients: dict[Any, tuple[Any, Any]] = {}
        self.needed: set[Any] = set()
        self.ranges: dict[int, Any] = {}
        self.pieces: dict[int, tuple[int, ...]] = {}
        self.drops_windows = False
        self.truncates = False
        self.devices: Any = None
        self.sent: dict[tuple[int, int], list[tuple[Any, Any]]] = {}
        self.feeds: list[str] | None = None
        self.unrolled = 0
        self.probed: dict[str, list[Any]] = {}
        self.device: Callable[[], int] = _no_device
        self._source: SourceLine | None = None
        self._caller: SourceLine | None = None

    # ---- functions and blocks ----------------------------------------------------------------

    def call(self, name: str, operands: Sequence[int]) -> list[int]:
        """Read a call of the module's function `name`, and return the results.

        The function's body is read for these operands. If it is the expansion of a CHLO operation, the op is applied.

        Raises:
            InvalidConfigError: the module has no such function, or calls are nested too deeply.
            UnsupportedError: the function has no body.
        """
        function = self.tree.functions.get(name)
        if function is None:
            raise InvalidConfigError(f"the module has no function @{name}")
        if not function.body.operations:
            raise UnsupportedError(f"@{name} is declared and has no body")
        if name not in self._expansions:
            self._expansions[name] = expanded_op(function)
        op = self._expansions[name]
        if op is not None:
            return [self.apply_one(op, *operands)]
        if self._depth >= DEEPEST_CALL:
            raise InvalidConfigError(f"@{name}: calls are nested more than {DEEPEST_CALL} deep")
        self._depth += 1
        # Operations of jitted library functions have no file and line; they get those of the call.
        caller, self._caller = self._caller, self._source
        try:
            results = self.block(function.body, operands, {})
        finally:
            self._depth -= 1
            self._caller = caller
        rule = self.rules.get(name)
        return results if rule is None else self._marked(rule, operands, results)

    def _marked(self, rule: Rule, operands: Sequence[int], results: list[int]) -> list[int]:
        """Mark the float and complex results of a call as the rule says, and return the renamed results."""
        places = [i for i, y in enumerate(results) if self.spec(y).dtype.is_inexact]
        if not places or all([self.constant_array(x) is not None for x in operands]):
            return results
        first = len(operands)
        mark = rule(first, len(results), tuple([first + i for i in places]))
        renamed = self.builder.mark(mark, *operands, *results)
        for place, value in zip(places, renamed, strict=True):
            results[place] = value
        return results

    def block(self, block: Block, arguments: Sequence[int], outer: Mapping[int, int]) -> list[int]:
        """Read the operations of a block for these arguments, and return the values that the block returns.

        Args:
            outer: the values of the enclosing blocks, by their numbers in the module.
        """
        values = Scope(outer)
        values.update(zip(block.arguments, arguments, strict=True))
        for operation in block.operations[:-1]:
            results = self.operation(operation, values)
            values.update(zip(operation.results, results, strict=True))
        return [values[value] for value in block.operations[-1].operands]

    def operation(self, operation: Operation, values: Mapping[int, int]) -> Sequence[int]:
        """Read one operation, and check that its results have the declared types.

        Raises:
            UnsupportedError: the operation has no reader, or a type is not supported.
        """
        read = self.readers.get(operation.name)
        if read is None:
            raise UnsupportedError(f"{operation.name}: there is no reader for it").at(
                located(operation)
            )
        for declared in operation.types:
            if isinstance(declared, ForeignType) and not is_token(declared):
                raise UnsupportedError(f"{operation.name}: results of type {declared}").at(
                    located(operation)
                )
        self._count += 1
        if self._count > self.largest or len(self.builder) > MOST_OPS:
            raise InvalidConfigError(
                f"the module has more than {self.largest} operations once its calls are their bodies"
            )
        try:
            operands = [values[value] for value in operation.operands]
            self._values = values
            self._source = source_of(operation) or self._caller
            output = read(self, operation, operands)
            results = (output,) if isinstance(output, int) else tuple(output)
            self.note(self, operation, operands, results)
        except TenferroError as error:
            error.at(located(operation))
            raise
        except MALFORMED as error:
            raise InvalidConfigError(
                f"{operation.name} is malformed: {type(error).__name__}: {error}"
            ).at(located(operation)) from error
        if len(results) != len(operation.types):
            raise InvalidConfigError(
                f"{operation.name} gives {len(results)} results, and declares {len(operation.types)}"
            ).at(located(operation))
        for value, declared in zip(results, operation.types, strict=True):
            if isinstance(declared, TensorSpec) and not self._agrees(value, declared):
                raise InvalidConfigError(
                    f"{operation.name}: read as {self.spec(value)}, and declared as {declared}"
                ).at(located(operation))
        return results

    def _agrees(self, value: int, declared: TensorSpec) -> bool:
        """Return whether a value has the type that the module declares; dynamic extents match any extent.

        If the module declares a number, but the value's extent is symbolic, a guard checks the extent at run time.
        """
        spec = self.spec(value)
        if spec == declared:
            return True
        if spec.dtype is not declared.dtype or spec.rank != declared.rank:
            return False
        for mine, wanted in zip(spec.shape, declared.shape, strict=True):
            if isinstance(wanted, int) and mine != wanted:
                if isinstance(mine, int):
                    return False
                if isinstance(mine, UpperBound) and isinstance(mine.dim, int) and mine.dim < wanted:
                    return False
                self.builder.guards.require(mine, "==", wanted, "the module declares an extent")
        self.require_bounds(value, declared)
        return True

    def require_bounds(self, value: int, declared: Any) -> None:
        """Check a value's extents against the bounds that the module declares, at run time if they are symbolic.

        Raises:
            ShapeError: an extent exceeds its bound.
        """
        if not isinstance(declared, TensorSpec) or declared.is_static:
            return
        for mine, wanted in zip(self.spec(value).shape, declared.shape, strict=True):
            if not isinstance(wanted, UpperBound) or not is_exact(mine):
                continue
            if isinstance(mine, int) and isinstance(wanted.dim, int):
                if mine > wanted.dim:
                    raise ShapeError(f"{self.spec(value)} is declared as {declared}")
            else:
                self.builder.guards.require(wanted.dim, ">=", mine, "the module declares a bound")

    def parts(
        self, *regions: tuple[Block | Write, Sequence[TensorSpec]]
    ) -> tuple[list[Subprogram], list[int]]:
        """Read regions with arguments of these types as sub-programs.

        A region is a block of the module, or a function that writes its ops. Return the sub-programs, and the outer
        values that any of the regions uses. The inputs of each sub-program are these outer values, then its own
        arguments. Small constants are copied into the sub-programs instead.
        """
        outside, outer, source, device = self.builder, self._values, self._source, self.device
        extents, claims = self.extents, self.claims
        ranges, pieces = self.ranges, self.pieces
        inner: list[tuple[Captures, list[int], list[int]]] = []
        for block, specs in regions:
            self.builder = ProgramBuilder(trusted=self.trusted)
            arguments = [self.builder.input(spec) for spec in specs]
            self.extents, self.claims, self.ranges, self.pieces = {}, {}, {}, {}
            captures = Captures(outside, self.builder, outer, extents, self.extents)
            self._values = captures
            self.device = partial(_captured, captures, device)
            try:
                outputs = (
                    self.block(block, arguments, captures)
                    if isinstance(block, Block)
                    else list(block(arguments))
                )
                inner.append((captures, arguments, outputs))
            finally:
                self.builder, self._values, self._source = outside, outer, source
                self.device = device
                self.extents, self.claims = extents, claims
                self.ranges, self.pieces = ranges, pieces
        captured = list(
            dict.fromkeys(value for captures, _, _ in inner for value in captures.inputs)
        )
        parts = [
            captures.inside.part([*map(captures.input, captured), *arguments], outputs)
            for captures, arguments, outputs in inner
        ]
        return parts, captured

    def scratch(self) -> Reader:
        """Return a new reader for regions in isolation, which may use only constants of the enclosing blocks."""
        reader = Reader(self.tree, self.readers, self.note, self.largest)
        reader.drops_windows = self.drops_windows
        reader._values = Constants(self, reader, self._values)
        return reader

    @property
    def source(self) -> SourceLine | None:
        """The user's line of the operation that is being read."""
        return self._source

    @property
    def surroundings(self) -> Mapping[int, int]:
        """The values that regions of the operation that is being read may use."""
        return self._values

    # ---- writing -----------------------------------------------------------------------------

    def apply(self, op: StdTensorOp, *values: int) -> tuple[int, ...]:
        """Apply an op to values, and return its outputs."""
        return self.builder.apply(op, *values, source=self._source)

    def apply_one(self, op: StdTensorOp, *values: int) -> int:
        """Apply an op with one output to values, and return the output."""
        (output,) = self.builder.apply(op, *values, source=self._source)
        return output

    def spec(self, value: int) -> TensorSpec:
        """Return the shape and dtype of a value."""
        return self.builder.type_of(value)

    def constant_array(self, value: int) -> Any:
        """Return the elements of a value that is a constant op; None for any other value."""
        return self.builder.constant_array(value)

    def evaluated(self, value: int) -> Any:
        """Compute the elements of a value that depends on no argument; return None for any other value."""
        return self.builder.evaluated(value)

    def constant(self, array: Any, dtype: DType | None = None) -> int:
        """Append a constant; a large array whose strides are zero becomes a broadcast scalar."""
        array = np.asarray(array, None if dtype is None else dtype.dtype)
        if array.size > SMALL and not any(array.strides):
            scalar = self.builder.constant(array.flat[0], self._source)
            return self.apply_one(BroadcastInDim(array.shape, ()), scalar)
        return self.builder.constant(np.ascontiguousarray(array).reshape(array.shape), self._source)

    def full(self, value: Any, like: TensorSpec) -> int:
        """Return a tensor of the type `like` whose elements all equal a number."""
        scalar = self.builder.constant(np.asarray(value, like.dtype.dtype), self._source)
        return self.spread(scalar, like.shape)

    def spread(self, value: int, shape: Sequence[int]) -> int:
        """Broadcast a scalar to a shape; a tensor of any other rank is returned unchanged."""
        shape = tuple(shape)
        if self.spec(value).rank:
            return value
        if not shape:
            return value
        return self.apply_one(BroadcastInDim(shape, ()), value)

    def convert(self, value: int, dtype: DType) -> int:
        """Convert a value to a dtype; return it unchanged if it has that dtype."""
        return value if self.spec(value).dtype is dtype else self.apply_one(Convert(dtype), value)

    def transpose(self, value: int, perm: Sequence[int]) -> int:
        """Permute the axes of a value; return it unchanged if their order does not change."""
        perm = tuple(perm)
        return value if perm == tuple(range(len(perm))) else self.apply_one(Transpose(perm), value)

    def reshape(self, value: int, shape: Sequence[int]) -> int:
        """Reshape in row-major order, with transpositions before and after the op `Reshape`, which is column-major."""
        shape = tuple(shape)
        old_shape = self.spec(value).shape
        if old_shape == shape:
            return value
        if [e for e in old_shape if e != 1] == [e for e in shape if e != 1]:
            return self.apply_one(Reshape(shape), value)  # row-major and column-major order agree
        turned = (
            value if _is_flat(old_shape) else self.transpose(value, range(len(old_shape))[::-1])
        )
        if _is_flat(shape):
            return self.apply_one(Reshape(shape), turned)
        return self.transpose(self.apply_one(Reshape(shape[::-1]), turned), range(len(shape))[::-1])

    def slice(self, value: int, axis: int, start: int, limit: int, stride: int = 1) -> int:
        """Slice a value along one axis."""
        shape = self.spec(value).shape
        if (start, limit, stride) == (0, shape[axis], 1):
            return value
        starts = [start if i == axis else 0 for i in range(len(shape))]
        limits = [limit if i == axis else extent for i, extent in enumerate(shape)]
        strides = [stride if i == axis else 1 for i in range(len(shape))]
        return self.apply_one(Slice(tuple(starts), tuple(limits), tuple(strides)), value)

    def take(self, value: int, axis: int, indices: int) -> int:
        """Gather the slices of a value at a vector of indices along an axis; the indices are clamped."""
        shape = self.spec(value).shape
        op = Gather(
            offset_dims=tuple([i for i in range(len(shape)) if i != axis]),
            collapsed_slice_dims=(axis,),
            operand_batching_dims=(),
            start_indices_batching_dims=(),
            start_index_map=(axis,),
            index_vector_dim=1,
            slice_sizes=tuple([1 if i == axis else extent for i, extent in enumerate(shape)]),
        )
        return self.apply_one(op, value, indices)

    def at_bound(self, value: int, axis: int) -> int:
        """Pad an axis whose extent depends on data with zeros, up to its bound; return any other value unchanged."""
        spec = self.spec(value)
        extent = spec.shape[axis]
        if not isinstance(extent, UpperBound):
            return value
        shape: list[Any] = [extent.dim if i == axis else 1 for i in range(spec.rank)]
        return self.apply_one(PadToMatch(axis), value, self.spread(self.constant(False), shape))

    # ---- regions on whole tensors ----------------------------------------------------------------

    def lifted(self, block: Block, arguments: Sequence[int]) -> list[int]:
        """Apply a region, which is a function of scalars, to the elements of tensors with equal shapes.

        Raises:
            UnsupportedError: the region is not elementwise.
        """
        shape = self.spec(arguments[0]).shape
        values = Scope(self.surroundings)
        values.update(zip(block.arguments, arguments, strict=True))
        for operation in block.operations[:-1]:
            results = self._lifted(operation, values, shape)
            values.update(zip(operation.results, results, strict=True))
        return [self.spread(values[value], shape) for value in block.operations[-1].operands]

    def _lifted(
        self, operation: Operation, values: Mapping[int, int], shape: tuple[int, ...]
    ) -> Sequence[int]:
        if operation.name == "func.call":
            function: Function = self.tree.functions[operation.attributes["callee"]]
            inside = [self.spread(values[value], shape) for value in operation.operands]
            return self.lifted(function.body, inside)
        is_elementwise = not operation.regions and all(
            isinstance(spec, TensorSpec) and not spec.shape for spec in operation.types
        )
        read = self.readers.get(operation.name)
        if not is_elementwise or read is None:
            raise UnsupportedError(f"a region with {operation.name}").at(located(operation))
        operands = [values[value] for value in operation.operands]
        if any(self.spec(value).shape for value in operands):
            operands = [self.spread(value, shape) for value in operands]
        output = read(self, operation, operands)
        return (output,) if isinstance(output, int) else tuple(output)


class Scope(dict[int, int]):
    """Values of a block, by their numbers in the module; a missing number is looked up in the enclosing scope."""

    def __init__(self, outer: Mapping[int, int]) -> None:
        super().__init__()
        self._outer = outer

    def __missing__(self, key: int) -> int:
        value = self[key] = self._outer[key]
        return value


class Constants(Mapping[int, int]):
    """Enclosing scope of a region that is read in isolation; it contains only the constants of the enclosing blocks."""

    def __init__(self, outside: Reader, inside: Reader, outer: Mapping[int, int]) -> None:
        self._outside = outside
        self._inside = inside
        self._outer = outer

    def __getitem__(self, key: int) -> int:
        array = self._outside.constant_array(self._outer[key])
        if array is None:
            raise KeyError(key)
        return self._inside.constant(array)

    def __iter__(self) -> Iterator[int]:
        return iter(self._outer)

    def __len__(self) -> int:
        return len(self._outer)


class Captures(Mapping[int, int]):
    """Enclosing scope of a region that becomes a sub-program; outer values that the region uses become its inputs.

    Attributes:
        outside, inside: the builders of the enclosing program and of the sub-program.
        inputs: the sub-program's input for each outer value.
    """

    def __init__(
        self,
        outside: ProgramBuilder,
        inside: ProgramBuilder,
        outer: Mapping[int, int],
        extents: Mapping[int, Any],
        extents_inside: dict[int, Any],
    ) -> None:
        self._extents = extents
        self._extents_inside = extents_inside
        self.outside = outside
        self.inside = inside
        self.inputs: dict[int, int] = {}
        self._outer = outer

    def __getitem__(self, key: int) -> int:
        value = self._outer[key]
        array = self.outside.constant_array(value)
        if array is not None and array.size <= SMALL:
            return self.inside.constant(array)
        return self.input(value)

    def input(self, value: int) -> int:
        """Return the sub-program's input for an outer value, and create it at the first use."""
        if value not in self.inputs:
            self.inputs[value] = self.inside.input(self.outside.type_of(value))
            if value in self._extents:
                self._extents_inside[self.inputs[value]] = self._extents[value]
        return self.inputs[value]

    def __iter__(self) -> Iterator[int]:
        return iter(self._outer)

    def __len__(self) -> int:
        return len(self._outer)


def _no_device() -> int:
    raise UnsupportedError("the number of a device in a program of one")


def _captured(captures: Captures, device: Callable[[], int]) -> int:
    """Return the number of the current device as an input of a region's sub-program."""
    return captures.input(device())


def _is_flat(shape: Sequence[int]) -> bool:
    """Return whether row-major and column-major order agree: at most one extent is not 1."""
    return sum(extent != 1 for extent in shape) <= 1


def source_of(operation: Operation) -> SourceLine | None:
    """Return the file and line in an operation's location; None if it contains none."""
    match = _PLACE.search(operation.location)
    if match is None:
        return None
    return SourceLine("<stablehlo>" if match[1] == "-" else match[1], int(match[2]), "")


def located(operation: Operation) -> str:
    """Return an operation's location as text, reduced to file and line if it contains them; "" if it is unknown."""
    match = _PLACE.search(operation.location)
    if match is not None:
        return f"{match[1]}:{match[2]}"
    return "" if operation.location == "unknown" else operation.location
