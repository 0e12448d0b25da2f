"""Calls of signal handlers from compiled loops.

A loop runs without the interpreter's lock. After each chunk of about `CHUNK_WORK` instructions it takes the lock and
checks for signals. If a handler raises, the loop returns, and the exception is set in the thread's state
when `@f` returns, as in any function of an extension module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenferro.exec.llvm import array_function
from tenferro.exec.llvm.code import Code, Index, typed_arguments
from tenferro.exec.llvm.ir import Declaration, Function, Instruction, Value

__all__ = ["CHUNK_WORK", "FAILED", "check_signals", "counted_loop", "define_function", "while_loop"]

FAILED = -1
"""Status of a loop in which a signal handler has raised."""
CHUNK_WORK = 10_000_000
"""Estimated number of instructions between two checks for signals, some milliseconds."""


def define_function(
    code: Code, pointers: Sequence[str], numbers: Sequence[str], name: str, releases: bool = True
) -> None:
    """End the current function, of pointers and integers, and define `@f`, which unpacks its arguments and calls it.

    Args:
        releases: whether to release the interpreter's lock meanwhile.
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
    """Write a check for signals, which returns `FAILED` if a handler raises."""
    status = code.call(array_function.CHECK_SIGNALS, "i64", (), " cold nounwind")
    code.return_if(code.icmp("ne", status, 0), FAILED)


def counted_loop(code: Code, count: int, body: Callable[[Index], None]) -> None:
    """Write a loop over 0, 1, .. count - 1, with a check for signals after each chunk if it is long."""

    def iteration(i: Index) -> None:
        work = code.work
        body(i)
        work = (code.work - work) // code.frequency
        if work * count > CHUNK_WORK:
            # A power of two, so that no other variable counts iterations.
            size = 1 << max(0, (CHUNK_WORK // work).bit_length() - 1)
            rest = code.value("and", i, size - 1, type="i64")
            is_end = code.icmp("eq", rest, size - 1)
            code.branch(is_end, lambda: check_signals(code), lambda: None)

    code.loop(count, iteration)


def while_loop(code: Code, condition: Callable[[], str], body: Callable[[], None]) -> None:
    """Write a while loop with a check for signals after each chunk."""
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
