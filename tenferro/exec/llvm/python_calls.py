"""Calls of Python's signal handlers from compiled loops.

A loop runs without the GIL. After each chunk of about `CHUNK_WORK` instructions it acquires the GIL and calls the
handlers of pending signals. If a handler raises an exception, the loop ends, and its caller raises the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenferro.exec.llvm import array_function
from tenferro.exec.llvm.code import Code, Index, typed_arguments
from tenferro.exec.llvm.ir import Declaration, Function, Instruction, Value

__all__ = ["CHUNK_WORK", "FAILED", "check_signals", "counted_loop", "define_function", "while_loop"]

FAILED = -1
"""Status of a function in which a signal handler has raised an exception."""
CHUNK_WORK = 10_000_000
"""Estimated number of instructions, which take some milliseconds, between two checks for signals."""


def define_function(
    code: Code, pointers: Sequence[str], numbers: Sequence[str], name: str, releases: bool = True
) -> None:
    """End the current function, and define `@f`, which unpacks its arguments and calls the function.

    Args:
        pointers, numbers: the names of the function's pointer and integer parameters.
        releases: whether `@f` releases the GIL during the call.
    """
    code.define(name, pointers, numbers)
    part, arguments, status = Code(), Value("%arguments", "ptr"), Value("%status", "i64")
    for position, x in enumerate(typed_arguments(pointers, numbers)):
        at, operands = Value(f"{x}.at", "ptr"), (arguments, Value(position, "i64"))
        part.append(Instruction("getelementptr", operands, at, "i64"))
        part.append(Instruction("load", (at,), x, x.type))
    thread, save, restore = Value("%thread", "ptr"), "PyEval_SaveThread", "PyEval_RestoreThread"
    if releases:
        code.declared[save] = Declaration(save, "ptr", ())
        code.declared[restore] = Declaration(restore, "void", ("ptr",))
        part.append(Instruction("call", (Value(f"@{save}", "ptr"),), thread, "ptr"))
    for area, offset in code.areas.items():
        operands = Value("%scratch", "ptr"), Value(offset, "i64")
        part.append(Instruction("getelementptr", operands, Value(area, "ptr"), "i8"))
    operands = Value(f"@{name}", "ptr"), *typed_arguments((*pointers, *code.areas), numbers)
    part.append(Instruction("call", operands, status, "i64"))
    if releases:
        part.append(Instruction("call", (Value(f"@{restore}", "ptr"), thread), type="void"))
    part.ret(status)
    code.functions["f"] = Function("f", "i64", (arguments,), part.region)


def check_signals(code: Code) -> None:
    """Write a call of the handlers of pending signals, and a return of `FAILED` if a handler raises an exception."""
    status = code.call(array_function.CHECK_SIGNALS, "i64", (), " cold nounwind")
    code.return_if(code.icmp("ne", status, 0), FAILED)


def counted_loop(code: Code, count: int, body: Callable[[Index], None]) -> None:
    """Write a loop over 0, 1, .. count - 1, which checks for signals after each chunk of iterations."""

    def iteration(i: Index) -> None:
        work = code.work
        body(i)
        work = (code.work - work) // code.frequency
        if work * count > CHUNK_WORK:
            # For a power of two, the bits of i tell whether a chunk ends, and no other counter is needed.
            size = 1 << max(0, (CHUNK_WORK // work).bit_length() - 1)
            rest = code.value("and", i, size - 1, type="i64")
            is_end = code.icmp("eq", rest, size - 1)
            code.branch(is_end, lambda: check_signals(code), lambda: None)

    code.loop(count, iteration)


def while_loop(code: Code, condition: Callable[[], str], body: Callable[[], None]) -> None:
    """Write a while loop, which checks for signals after each chunk of iterations."""
    head, inside, end = (code.name(each) for each in ("head", "body", "end"))
    work_left, work = code.alloca("i64"), code.work
    code.while_loops += 1
    code.entry.append(Instruction("store", (Value(CHUNK_WORK, "i64"), work_left)))
    code.br(head)
    code.label(head)
    with code.scope():
        more = condition()
    code.br(inside, end, condition=more)
    code.label(inside)
    with code.scope():
        body()
    work = max(1, (code.work - work) // code.frequency)
    rest = code.value("sub", code.load_value("i64", work_left), work)
    code.store_value(rest, work_left, "i64")

    def end_chunk() -> None:
        check_signals(code)
        code.store_value(CHUNK_WORK, work_left, "i64")

    code.branch(code.icmp("slt", rest, 0), end_chunk, lambda: None)
    code.br(head)
    code.label(end)
