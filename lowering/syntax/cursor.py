"""`Cursor`, which reads integers, strings and sections of MLIR's bytecode.

Source: MLIR bytecode format, "Format Overview" and "Encoding".
"""

from __future__ import annotations

from lowering.large_files import MappedBytes
from lowering.mlir_bindings import MlirDiagnosticError

__all__ = ["Cursor"]


class Cursor:
    """Position in a range of bytes. Reading beyond the end raises an error with the offset."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes | MappedBytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def error(self, message: str) -> MlirDiagnosticError:
        """Create an error at this position."""
        return MlirDiagnosticError([(message, f"byte {self.at}")])

    @property
    def is_empty(self) -> bool:
        """Whether all bytes have been read."""
        return self.at >= self.end

    def byte(self) -> int:
        """Read the next byte."""
        if self.at >= self.end:
            raise self.error("attempting to parse a byte at the end of the bytecode")
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count: int) -> bytes:
        """Read the next `count` bytes; from a mapped file, many bytes are returned as a memoryview."""
        if count > self.end - self.at:
            raise self.error(f"attempting to parse {count} bytes when {self.end - self.at} remain")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Read a varint, MLIR's encoding of a 64-bit integer in one to nine bytes.

        The number of trailing zero bits of the first byte is the number of bytes that follow.
        """
        at = self.at
        if at >= self.end:
            raise self.error("attempting to parse a byte at the end of the bytecode")
        first = self.data[at]
        if first & 1:
            self.at = at + 1
            return first >> 1
        count = 8 if first == 0 else (first & -first).bit_length() - 1
        if at + 1 + count > self.end:
            raise self.error("a number is cut off")
        self.at = at + 1 + count
        if first == 0:
            return int.from_bytes(self.data[at + 1 : self.at], "little")
        return int.from_bytes(self.data[at : self.at], "little") >> (count + 1)

    def flagged(self) -> tuple[int, bool]:
        """Read a varint whose lowest bit is a flag; return the number that the other bits form, and the flag."""
        value = self.number()
        return value >> 1, bool(value & 1)

    def signed(self) -> int:
        """Read a signed varint, whose lowest bit is the sign."""
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def count(self) -> int:
        """Read the number of items that follow; each item has at least one byte."""
        value = self.number()
        if value > self.end - self.at:
            raise self.error(f"{value} items in {self.end - self.at} bytes")
        return value

    def signed_list(self) -> tuple[int, ...]:
        """Read a count and that many signed varints."""
        return tuple([self.signed() for _ in range(self.count())])

    def terminated(self) -> bytes:
        """Read the bytes up to and including a null byte, and return them without the null byte."""
        end = self.data.find(b"\0", self.at, self.end)
        if end < 0:
            raise self.error("malformed null-terminated string, no null character found")
        string = bytes(self.data[self.at : end])
        self.at = end + 1
        return string

    def align(self, alignment: int) -> None:
        """Skip padding bytes up to the next multiple of `alignment`."""
        if alignment < 1 or alignment & (alignment - 1):
            raise self.error("expected alignment to be a power of two")
        while self.at % alignment:
            if self.byte() != 0xCB:
                raise self.error("expected alignment byte")

    def section(self) -> tuple[int, Cursor]:
        """Read the next section: its number, and a cursor over its data."""
        head = self.byte()
        length = self.number()
        if head & 0x80:
            self.align(self.number())
        if length > self.end - self.at:
            raise self.error(f"a section of {length} bytes when {self.end - self.at} remain")
        inside = Cursor(self.data, self.at, self.at + length)
        self.at += length
        return head & 0x7F, inside
