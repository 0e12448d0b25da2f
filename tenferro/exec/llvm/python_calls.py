"""Calls of Python from compiled loops: signal handlers and kernels.

A loop runs without the interpreter's lock. After each chunk of about `CHUNK_WORK` instructions it takes the lock and
checks for signals. If a handler or a kernel raises, the loop returns, and the exception is set in the thread's state
when `@f` returns, as in any function of an extension module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenferro.exec.llvm import array_function
from tenferro.exec.llvm.code import Code, Index

__all__ = [
    "CALL_PYTHON",
    "CHECK_SIGNALS",
    "CHUNK_WORK",
    "FAILED",
    "SHARED",
    "UNFINISHED",
    "UNLIMITED",
    "addresses",
    "call_python",
    "check_signals",
    "counted_loop",
    "entry",
    "while_loop",
]

FAILED = -1
"""Status of a loop in which a signal handler or a kernel has raised."""
UNFINISHED = 1
"""Status of a while loop that has returned between two iterations, and continues at the next call."""
UNLIMITED = -1
"""Number of chunks of a while loop that runs to completion."""
CHUNK_WORK = 10_000_000
"""Estimated number of instructions between two checks for signals, some milliseconds."""
NAMES = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyGILState_Ensure", "PyGILState_Release",
    "PyErr_CheckSignals", "PyObject_CallFunction", "Py_DecRef",
)  # fmt: skip
CHECK_SIGNALS, CALL_PYTHON = "tenferro_check_signals", "tenferro_call_python"
"""Functions of the module `SHARED` that texts call."""
SHARED = f"""declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_DecRef(ptr)
@two_numbers = private constant [3 x i8] c"LL\\00"
define i64 @{CHECK_SIGNALS}() nounwind {{
  %lock = call i32 @PyGILState_Ensure()
  %status = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %lock)
  %wide = sext i32 %status to i64
  ret i64 %wide
}}
define i64 @{CALL_PYTHON}(ptr %function, i64 %first, i64 %second) nounwind {{
  %lock = call i32 @PyGILState_Ensure()
  %y = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %function, ptr @two_numbers, i64 %first, i64 %second)
  %raised = icmp eq ptr %y, null
  call void @Py_DecRef(ptr %y)
  call void @PyGILState_Release(i32 %lock)
  %status = sext i1 %raised to i64
  ret i64 %status
}}
"""
LOCK = """declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
"""


def addresses() -> dict[str, int]:
    """Return the addresses of CPython's functions that a loop calls."""
    return array_function.cpython_addresses(NAMES)


def entry(
    code: Code,
    pointers: Sequence[str],
    numbers: Sequence[str],
    function: str,
    releases: bool,
) -> str:
    """Return the text of `@f`, which calls a function and may release the interpreter's lock meanwhile."""
    if not releases:
        return array_function.entry(code, function, pointers, numbers)
    before = "  %thread = call ptr @PyEval_SaveThread()"
    after = "  call void @PyEval_RestoreThread(ptr %thread)"
    return LOCK + array_function.entry(code, function, pointers, numbers, before, after)


def check_signals(code: Code) -> None:
    """Write a check for signals, which returns `FAILED` if a handler raises."""
    code.declared[CHECK_SIGNALS] = f"declare i64 @{CHECK_SIGNALS}() cold nounwind"
    status = code.value(f"call i64 @{CHECK_SIGNALS}()")
    code.return_if(code.value(f"icmp ne i64 {status}, 0"), FAILED)


def call_python(code: Code, function: str, number: int, address: str) -> None:
    """Write a call of a Python object with an integer and an address, which returns `FAILED` if it raises."""
    code.declared[CALL_PYTHON] = f"declare i64 @{CALL_PYTHON}(ptr, i64, i64) nounwind"
    where = code.value(f"ptrtoint ptr {address} to i64")
    status = code.value(f"call i64 @{CALL_PYTHON}(ptr {function}, i64 {number}, i64 {where})")
    code.return_if(code.value(f"icmp ne i64 {status}, 0"), FAILED)


def counted_loop(code: Code, count: int, body: Callable[[Index], None]) -> None:
    """Write a loop over 0, 1, .. count - 1, in chunks with a check for signals after each if it is long."""
    if count <= 1:
        code.loop(count, body)
        return
    head, end, start, size = (code.name(each) for each in ("chunk", "chunked", "start", "size"))
    before, work = code.block, code.work
    code.line(f"br label {head}")
    code.label(head)
    bounds = len(code.lines)
    code.lines += [""]  # for the bounds of the chunk, which depend on the work of an iteration
    with code.times(count):
        code.loop(size, lambda i: body(code.add(i, start)))
    work = code.work - work
    if work <= CHUNK_WORK:
        code.lines[bounds] = f"  {start} = add i64 0, 0\n  {size} = add i64 0, {count}"
        return
    following = code.value(f"add nsw i64 {start}, {size}")
    check_signals(code)
    more = code.value(f"icmp slt i64 {following}, {count}")
    iterations = max(1, CHUNK_WORK * count // work)
    code.lines[bounds] = "\n".join([
        f"  {start} = phi i64 [0, %{before}], [{following}, %{code.block}]",
        f"  {start}.left = sub nsw i64 {count}, {start}",
        f"  {start}.short = icmp slt i64 {start}.left, {iterations}",
        f"  {size} = select i1 {start}.short, i64 {start}.left, i64 {iterations}",
    ])  # fmt: skip
    code.line(f"br i1 {more}, label {head}, label {end}")
    code.label(end)


def while_loop(
    code: Code, condition: Callable[[], str], body: Callable[[], None], chunks: str | None = None
) -> str:
    """Write a while loop with a check for signals after each chunk, and return its status.

    Args:
        chunks: number of chunks after which the loop returns; None to run to completion.

    Returns:
        0, or `UNFINISHED`.
    """
    head, inside, end = (code.name(each) for each in ("head", "body", "end"))
    work_left, work, chunks_left = code.alloca("i64"), code.work, ""
    code.while_loops += 1
    if chunks is not None:
        chunks_left = code.alloca("i64")
        code.entry.append(f"  store i64 {chunks}, ptr {chunks_left}")
    code.entry.append(f"  store i64 {CHUNK_WORK}, ptr {work_left}")
    code.line(f"br label {head}")
    code.label(head)
    with code.scope():
        more = condition()
    code.line(f"br i1 {more}, label {inside}, label {end}")
    code.label(inside)
    with code.scope():
        body()
    work = max(1, (code.work - work) // code.frequency)
    rest = code.value(f"sub i64 {code.value(f'load i64, ptr {work_left}')}, {work}")
    code.line(f"store i64 {rest}, ptr {work_left}")

    def end_chunk() -> None:
        check_signals(code)
        code.line(f"store i64 {CHUNK_WORK}, ptr {work_left}")
        if chunks is not None:
            following = code.value(f"sub i64 {code.value(f'load i64, ptr {chunks_left}')}, 1")
            code.line(f"store i64 {following}, ptr {chunks_left}")
            stay = code.name("stay")
            is_last = code.value(f"icmp eq i64 {following}, 0")
            code.line(f"br i1 {is_last}, label {end}, label {stay}")
            code.label(stay)

    code.branch(code.value(f"icmp slt i64 {rest}, 0"), end_chunk, lambda: None)
    code.line(f"br label {head}")
    code.label(end)
    if chunks is None:
        return "0"
    is_unfinished = code.value(f"icmp eq i64 {code.value(f'load i64, ptr {chunks_left}')}, 0")
    return code.value(f"select i1 {is_unfinished}, i64 {UNFINISHED}, i64 0")
