"""Python from compiled loops: kernels are called, and the handlers of signals, as between two bytecodes.

A loop runs without the interpreter's lock. After every `PART` instructions or so it takes the lock and lets Python
call the handlers of signals that have come in. Where a handler or a kernel raises, the loop ends, and the exception
is its caller's: it is in the thread's state when `@f` returns, as in any function of an extension module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenferro.exec.llvm import array_function
from tenferro.exec.llvm.code import Code, Index

__all__ = [
    "CALL",
    "CHECK",
    "FAILED",
    "PART",
    "SHARED",
    "UNFINISHED",
    "WHOLE",
    "addresses",
    "call_python",
    "check",
    "entry",
    "repeat",
    "turns",
]

FAILED = -1
"""What a loop gives when a handler or a kernel has raised; its caller raises the exception."""
UNFINISHED = 1
"""What a while loop gives when it has been left between two turns, and goes on when it is called again."""
WHOLE = -1
"""In place of a number of parts: until the loop ends."""
PART = 10_000_000
"""Instructions between two looks, by estimate: some milliseconds."""
NAMES = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyGILState_Ensure", "PyGILState_Release",
    "PyErr_CheckSignals", "PyObject_CallFunction", "Py_DecRef",
)  # fmt: skip
CHECK, CALL = "tenferro_check_signals", "tenferro_call_python"
"""Functions that texts call, of the module `SHARED`."""
SHARED = f"""declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_DecRef(ptr)
@two_numbers = private constant [3 x i8] c"LL\\00"
define i64 @{CHECK}() nounwind {{
  %lock = call i32 @PyGILState_Ensure()
  %status = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %lock)
  %wide = sext i32 %status to i64
  ret i64 %wide
}}
define i64 @{CALL}(ptr %function, i64 %first, i64 %second) nounwind {{
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
    """Where the functions of Python lie that a loop calls."""
    return array_function.functions_of_python(NAMES)


def entry(
    code: Code,
    pointers: Sequence[str],
    numbers: Sequence[str],
    function: str = "loop",
    releases: bool = True,
) -> str:
    """Return the text of `@f`, which is called with the interpreter's lock and calls a function, without it by default."""
    if not releases:
        return array_function.entry(code, function, pointers, numbers)
    before = "  %thread = call ptr @PyEval_SaveThread()"
    after = "  call void @PyEval_RestoreThread(ptr %thread)"
    return LOCK + array_function.entry(code, function, pointers, numbers, before, after)


def check(code: Code) -> None:
    """Let Python call the handlers of signals; leave where one raises."""
    code.declared[CHECK] = f"declare i64 @{CHECK}() cold nounwind"
    status = code.value(f"call i64 @{CHECK}()")
    code.leave_if(code.value(f"icmp ne i64 {status}, 0"), FAILED)


def call_python(code: Code, function: str, number: int, address: str) -> None:
    """Call a Python object with a number and an address; leave where it raises."""
    code.declared[CALL] = f"declare i64 @{CALL}(ptr, i64, i64) nounwind"
    where = code.value(f"ptrtoint ptr {address} to i64")
    status = code.value(f"call i64 @{CALL}(ptr {function}, i64 {number}, i64 {where})")
    code.leave_if(code.value(f"icmp ne i64 {status}, 0"), FAILED)


def turns(code: Code, count: int, body: Callable[[Index], None]) -> None:
    """`body` of 0, 1, .. count - 1, in parts with a look at signals after each, if that is much work."""
    if count <= 1:
        code.loop(count, body)
        return
    head, end, start, size = (code.name(each) for each in ("part", "parted", "start", "size"))
    before, work = code.block, code.work
    code.line(f"br label {head}")
    code.label(head)
    bounds = len(code.lines)
    code.lines += [""]  # the part's bounds, once the work of a turn is known
    with code.times(count):
        code.loop(size, lambda i: body(code.add(i, start)))
    work = code.work - work
    if work <= PART:
        code.lines[bounds] = f"  {start} = add i64 0, 0\n  {size} = add i64 0, {count}"
        return
    following = code.value(f"add nsw i64 {start}, {size}")
    check(code)
    more = code.value(f"icmp slt i64 {following}, {count}")
    code.lines[bounds] = "\n".join([
        f"  {start} = phi i64 [0, %{before}], [{following}, %{code.block}]",
        f"  {start}.left = sub nsw i64 {count}, {start}",
        f"  {start}.short = icmp slt i64 {start}.left, {max(1, PART * count // work)}",
        f"  {size} = select i1 {start}.short, i64 {start}.left, i64 {max(1, PART * count // work)}",
    ])  # fmt: skip
    code.line(f"br i1 {more}, label {head}, label {end}")
    code.label(end)


def repeat(
    code: Code, condition: Callable[[], str], body: Callable[[], None], parts: str | None = None
) -> str:
    """`body` while the condition holds, with a look at signals after each part.

    Args:
        parts: after how many the loop is left.

    Returns:
        0, or UNFINISHED where it has been left.
    """
    head, inside, end = (code.name(each) for each in ("head", "body", "end"))
    left, work, rest_of_parts = code.cell("i64"), code.work, ""
    code.while_loops += 1
    if parts is not None:
        rest_of_parts = code.cell("i64")
        code.entry.append(f"  store i64 {parts}, ptr {rest_of_parts}")
    code.entry.append(f"  store i64 {PART}, ptr {left}")
    code.line(f"br label {head}")
    code.label(head)
    with code.scope():
        more = condition()
    code.line(f"br i1 {more}, label {inside}, label {end}")
    code.label(inside)
    with code.scope():
        body()
    work = max(1, (code.work - work) // code.often)
    rest = code.value(f"sub i64 {code.value(f'load i64, ptr {left}')}, {work}")
    code.line(f"store i64 {rest}, ptr {left}")

    def look() -> None:
        check(code)
        code.line(f"store i64 {PART}, ptr {left}")
        if parts is not None:
            following = code.value(f"sub i64 {code.value(f'load i64, ptr {rest_of_parts}')}, 1")
            code.line(f"store i64 {following}, ptr {rest_of_parts}")
            stay = code.name("stay")
            is_last = code.value(f"icmp eq i64 {following}, 0")
            code.line(f"br i1 {is_last}, label {end}, label {stay}")
            code.label(stay)

    code.branch(code.value(f"icmp slt i64 {rest}, 0"), look, lambda: None)
    code.line(f"br label {head}")
    code.label(end)
    if parts is None:
        return "0"
    is_left = code.value(f"icmp eq i64 {code.value(f'load i64, ptr {rest_of_parts}')}, 0")
    return code.value(f"select i1 {is_left}, i64 {UNFINISHED}, i64 0")
