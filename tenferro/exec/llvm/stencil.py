"""Compiled stencils: elementwise ops, pads and slices that are computed in one pass over the result.

Padding cuts the result into regions, in each of which one formula without conditions computes the elements.
Intermediate values are computed when they are read, and not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from math import prod
from typing import Any, TypeAlias

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import Code, Index
from tenferro.exec.llvm.compiled import WrittenFunction, written_function
from tenferro.exec.llvm.control import COMPILED, MAX_CHAIN
from tenferro.exec.llvm.link import Processor
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.ops.structural import Pad, Slice
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec

__all__ = ["CUTS", "strip_height", "written_stencil"]

MAX_REGIONS = 64
"""Maximum number of regions; the code contains separate loops for each region."""
STRIP_ELEMENTS = 1 << 16
"""Number of elements of a strip of the result; the function computes one strip, so that calls can be interrupted."""
Cuts: TypeAlias = "tuple[frozenset[int], ...]"
"""Indices at which the formula of an element changes, along each axis."""


def _cuts_of_slice(op: Any, cuts: Cuts, x: TensorSpec, y: TensorSpec) -> Cuts:
    starts = op.resolved("starts", (x.shape,))
    moved = [{cut - start for cut in each} for each, start in zip(cuts, starts, strict=True)]
    return _inside(moved, y)


def _cuts_of_pad(op: Any, cuts: Cuts, x: TensorSpec, y: TensorSpec) -> Cuts:
    axes = zip(cuts, op.low, x.shape, strict=True)
    return _inside([{low, low + n, *[cut + low for cut in each]} for each, low, n in axes], y)


def _inside(cuts: Sequence[set[int]], y: TensorSpec) -> Cuts:
    pairs = zip(cuts, y.shape, strict=True)
    return tuple([frozenset([cut for cut in each if 0 < cut < n]) for each, n in pairs])


CUTS: Mapping[type, Callable[[Any, Cuts, TensorSpec, TensorSpec], Cuts]] = {
    Slice: _cuts_of_slice,
    Pad: _cuts_of_pad,
}
"""Functions from the cuts of an operand to the cuts of the result; other ops do not change cuts."""


def regions(program: GraphProgram) -> list[tuple[tuple[int, int], ...]]:
    """Return the regions of the result, each as a range of indices along each axis.

    Raises:
        NotCompiledError: there are more than `MAX_REGIONS` regions.
    """
    cuts: dict[int, Cuts] = {}
    for slot in program.input_slots:
        cuts[slot] = (frozenset(),) * program.types[slot].rank
    for step in program.instructions:
        y = program.types[step.outputs[0]]
        cut = CUTS.get(type(step.op))
        if cut is not None:
            x = step.inputs[0]
            moved = cut(step.op, cuts[x], program.types[x], y)
        else:
            same = [cuts[x] for x in step.inputs if program.types[x].shape == y.shape]
            moved = tuple([
                frozenset[int]().union(*[each[axis] for each in same]) for axis in range(y.rank)
            ])  # fmt: skip
        cuts[step.outputs[0]] = moved
    (result,) = program.output_slots
    ends = [
        sorted({0, *each, n})
        for each, n in zip(cuts[result], program.types[result].shape, strict=True)
    ]
    if prod([len(each) - 1 for each in ends]) > MAX_REGIONS:
        raise NotCompiledError(f"a stencil of more than {MAX_REGIONS} regions")
    return list(product(*[list(pairwise(each)) for each in ends]))


def strip_height(y: TensorSpec) -> int:
    """Return the number of rows of a strip; a row is a slice along the first axis of the result y."""
    return max(1, min(y.shape[0], STRIP_ELEMENTS * y.shape[0] // y.size))


def written_stencil(program: GraphProgram, processor: Processor) -> WrittenFunction:
    """Return the LLVM module of a function of operands, the result, scratch memory and the first row of a strip.

    Raises:
        NotCompiledError: an op is not compiled, a chain of ops is too long, or there are too many regions.
    """
    code = processor.code()
    body = Body(code)
    (result,) = program.output_slots
    spec = program.types[result]
    values: dict[int, Tensor] = {}
    names: list[str] = []
    for number, slot in enumerate(program.input_slots):
        names.append(f"%a{number}")
        x = body.stored(Memory(names[-1], program.types[slot]))
        values[slot] = (
            body.number(x.spec, body.at(x, (0,) * x.spec.rank)) if x.spec.size == 1 else x
        )
    chains = dict.fromkeys(program.input_slots, 0)
    for step in program.instructions:
        chain = 1 + max([chains[slot] for slot in step.inputs], default=0)
        if chain > MAX_CHAIN:
            raise NotCompiledError(f"a chain of more than {MAX_CHAIN} ops")
        operands, types = [values[slot] for slot in step.inputs], [program.types[step.outputs[0]]]
        if isinstance(step.op, Pad):
            value = _padded(body, step.op, operands, types[0])
        else:
            (value,) = COMPILED.cell(step.op).write(body, step.op, operands, types)
        values[step.outputs[0]], chains[step.outputs[0]] = value, chain
    stop = code.intrinsic("smin", code.add("%start", strip_height(spec)), spec.shape[0])
    for region in regions(program):
        _write_region(body, region, stop, values[result], Memory("%y0", spec))
    code.ret(0)
    strips = -(-spec.shape[0] // strip_height(spec))
    return written_function(body, "stencil", [*names, "%y0"], ["%start"], calls=strips)


def _padded(body: Body, op: Pad, operands: Sequence[Tensor], y: TensorSpec) -> Tensor:
    """Return the padded operand; the range of an index determines whether to write padding or the operand's element."""
    code, (x, padding) = body.code, operands

    def element(index: tuple[Index, ...]) -> Any:
        inner: list[Index] = []
        for i, low, n in zip(index, op.low, x.spec.shape, strict=True):
            inner.append(code.add(i, -low))
            first, last = code.range_of(inner[-1])
            if last <= 0 or first >= n:
                return body.at(padding, (0,) * padding.spec.rank)
            assert first >= 0
            assert last <= n
        return body.at(x, tuple(inner))

    return Tensor(y, element, x.reads | padding.reads)


def _write_region(
    body: Body, region: tuple[tuple[int, int], ...], stop: Index, x: Tensor, y: Memory
) -> None:
    """Write loops over the rows of a region in the strip from `%start` to `stop`."""
    code, (first, last) = body.code, region[0]
    begin = code.intrinsic("smax", "%start", first)
    count = code.value("sub", code.intrinsic("smin", stop, last), begin, type="i64")

    def write(index: tuple[Index, ...]) -> None:
        axis = len(index)
        if axis == len(region):
            offset = code.ravel_index(index, y.spec.shape)
            code.store(body.at(x, index), y.pointer, offset, y.spec.dtype)
            return
        start, end = region[axis]
        code.loop(
            end - start, lambda i: write((*index, _within(code, code.add(i, start), start, end)))
        )

    def row(i: Index) -> None:
        write((_within(code, code.add(begin, i), first, last),))

    with code.scope(), code.times(min(last - first, strip_height(y.spec))):
        code.loop(count, row)


def _within(code: Code, index: Index, first: int, last: int) -> Index:
    """Record the range of an index, and return the index."""
    if not isinstance(index, int):
        code.ranges[index] = (first, last)
    return index
