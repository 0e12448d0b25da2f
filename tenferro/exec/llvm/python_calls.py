"""Calls of Python's signal handlers from compiled loops.

A loop runs without the GIL. After each chunk of about `CHUNK_WORK` instructions it acquires the GIL and calls the
handlers of pending signals. If a handler raises an exception, the loop ends, and the built-in function raises the
exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenferro.exec.llvm import array_function
from tenferro.exec.llvm.code import Code, Index
from tenferro.exec.llvm.ir import Declaration, Instruction, Value

__all__ = ["CHUNK_WORK", "FAILED", "check_signals", "counted_loop", "define_function", "while_loop"]

FAILED = -1
"""Status that a function returns if a signal handler has raised an exception."""
CHUNK_WORK = 10_000_000
"""Estimated number of instructions between two checks for signals, which take some milliseconds."""


def define_function(
    code: Code, pointers: Sequence[str], numbers: Sequence[str], name: str, releases: bool = True
) -> None:
    """Define a function with the instructions written so far, and define `@f`, which calls it.

    Args:
        pointers, numbers: the names of the function's parameters, which are pointers and then integers.
        releases: whether `@f` releases the GIL during the call.
    """
    code.define(name, pointers, numbers)
    before: list[Instruction] = []
    after: list[Instruction] = []
    if releases:
        thread, save, restore = Value("%thread", "ptr"), "PyEval_SaveThread", "PyEval_RestoreThread"
        code.declared[save] = Declaration(save, "ptr", ())
        code.declared[restore] = Declaration(restore, "void", ("ptr",))
        before.append(Instruction("call", (Value(f"@{save}", "ptr"),), thread, "ptr"))
        after.append(Instruction("call", (Value(f"@{restore}", "ptr"), thread), type="void"))
    array_function.define_entry(code, name, pointers, numbers, before, after)


def check_signals(code: Code) -> None:
    """Write a call of the handlers of pending signals, and a return of `FAILED` if one raises an exception."""
    status = code.call(array_function.CHECK_SIGNALS, "i64", (), " cold nounwind")
    code.return_if(code.icmp("ne", status, 0), FAILED)


def counted_loop(code: Code, count: int, body: Callable[[Index], None]) -> None:
    """Write a loop over 0, 1, .. count - 1; after each chunk of a long loop, it checks for signals."""
    if count <= 1:
        code.loop(count, body)
        return
    head, end = code.name("chunk"), code.name("chunked")
    start, size = code.name("start", "i64"), code.name("size", "i64")
    before, work = code.block, code.work
    code.br(head)
    code.label(head)
    outer, code.region = code.region, []
    with code.times(count):
        code.loop(size, lambda i: body(code.add(i, start)))
    work = code.work - work
    chunk, code.region = code.region, outer
    total, zero = Value(count, "i64"), Value(0, "i64")
    if work <= CHUNK_WORK:
        code.region += [
            Instruction("add", (zero, zero), start), Instruction("add", (zero, total), size), *chunk,
        ]  # fmt: skip
        return
    iterations = Value(max(1, CHUNK_WORK * count // work), "i64")
    left, is_short = Value(f"{start}.left", "i64"), Value(f"{start}.short", "i1")
    following = code.name("v", "i64")
    phi = Instruction("phi", (zero, following), start, "i64")
    code.region += [
        phi,
        Instruction("sub", (total, start), left, flags="nsw"),
        Instruction("icmp", (left, iterations), is_short, flags="slt"),
        Instruction("select", (is_short, left, iterations), size),
        *chunk,
    ]
    code.append(Instruction("add", (start, size), following, flags="nsw"))
    check_signals(code)
    phi.labels = before, code.block
    code.br(head, end, condition=code.icmp("slt", following, count))
    code.label(end)


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
