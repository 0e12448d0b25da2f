"""Edits that damage a file's content.

A number determines each edit, so a mutant is stored as a list of numbers. An edit damages one element of the file's
format. The elements are the values of JSON, the members of an archive, the header of an array, the words of a module's
text, and the module's manifest. In files of other formats, an edit changes bytes.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

__all__ = ["edited"]

NUMBERS = (0, 1, -1, 2, 63, 64, 65, 127, 128, 255, 1 << 15, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 40,
           (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 31), -(1 << 63), 10**30)  # fmt: skip
WORDS = ("", "x", "\x00", "é", "\ud800", "a" * 3000, "../../etc/passwd", "/dev/zero", "NaN", "-0.0", "1e999",
         "n", "x0.0", "f64[n]", "f64[(n+m+k+l+p+q)^40,3]", "f64[((((n+1)^100)^10)^10),3]",
         "f64[n//0]", "f64[" + "1," * 64 + "1]", "f64[" + "1," * 20_000 + "1]", "f64[8589934592,8589934592]",
         "f64[-1]", "f64[<=n,?]", "f64[max(n, min(m, 3))]", "(" * 500, "c128[n%m]", "bf16[2,3]", "bool[3]",
         "i64[]", "f64[99999999999999999999999999999999]", "float64", "object", "V8", "==", "is 1 or",
         "tuple", "namedtuple", "GT", "Add", "Reshape", "Scan", "tenferro.linalg.svd.v1", "program",
         "0x1p-1", "default", "highest", "cpu", "tpu")  # fmt: skip
SPEC = re.compile(r"\w+\[.*\]")
VALUES: tuple[Any, ...] = (None, True, False, 0.5, float("nan"), [], {}, [[]], [0], [None], {"tuple": []},
                           {"dict": [["a", 0]]}, {"namedtuple": "T", "fields": ["a"], "items": [0]},
                           {"dtype": "float32"}, {"float": "inf"}, {"dim": "n^200"}, {"expression": "x0.0*x0.1"},
                           {"program": {}}, {"scalar": ["float64", "00"]}, {"complex": ["0x1p0", "0x1p0"]})  # fmt: skip
TOKENS = ("tensor<8589934592x8589934592xf64>", "tensor<*xf64>", "tensor<?xf64>", "tensor<0xf64>", "f64", "i1",
          "dense<[]>", "dense<1>", "array<i64>", "array<i64: 9223372036854775807>", "%0", "%99", "@main", "loc(unknown)",
          "#stablehlo.channel_handle<handle = 0, type = 0>", "true", "unit", "{}", "()", "->", ",", "\x00", "\xff", '"')  # fmt: skip
MANIFEST = re.compile(rb'tenferro\.manifest = "((?:[^"\\]|\\.)*)"', re.DOTALL)

Edit = Callable[[bytes, Random], bytes]


def edited(name: str, content: bytes, number: int) -> bytes:
    """Apply the edit with this number to the content of a file.

    The file's name determines the format.
    """
    random = Random(number)
    suffix = name.rpartition(".")[2]
    edits = {"json": _json, "tnf": _archive, "npz": _archive, "npy": _array, "mlir": _module}
    if suffix not in edits or random.random() < 0.06:
        return _bytes(content, random)
    try:
        return edits[suffix](content, random)
    except Exception:
        return _bytes(content, random)  # because an earlier edit may have made it unreadable


# ---- bytes -----------------------------------------------------------------------------------------


def _bytes(content: bytes, random: Random) -> bytes:
    if not content:
        return bytes([random.randrange(256)])
    data, place = bytearray(content), random.randrange(len(content))
    length = min(random.choice((1, 2, 4, 8, 30)), len(data) - place)
    match random.randrange(7):
        case 0 | 1:
            data[place] ^= 1 << random.randrange(8)
        case 2:
            data[place] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        case 3:
            del data[place : place + length]
        case 4:
            source = random.randrange(len(content))
            data[place:place] = content[source : source + length]
        case 5:
            del data[place:]
        case _:
            number = random.choice(NUMBERS) % (1 << 8 * length)
            data[place : place + length] = number.to_bytes(length, "little")
    return bytes(data)


# ---- JSON --------------------------------------------------------------------------------------------


def _json(content: bytes, random: Random) -> bytes:
    root = [json.loads(content)]
    holder, key = _place(root, random)
    other, name = _place(root, random)
    match random.randrange(12):
        case 0:
            holder[key] = random.choice(NUMBERS)
        case 1:
            holder[key] = random.choice(WORDS)
        case 2:
            holder[key] = random.choice(VALUES)
        case 3:
            holder[key] = json.loads(json.dumps(other[name]))
        case 4 if holder is not root:
            del holder[key]
        case 5 if isinstance(holder, list):
            holder.insert(key, json.loads(json.dumps(holder[key])))
        case 6:
            for _ in range(random.choice((1, 10, 200, 900))):
                value = holder[key]
                holder[key] = random.choice(([value], {"tuple": [value]}, {"program": value}))
        case _:
            holder[key] = _varied(holder[key], random)
    return json.dumps(root[0], separators=(",", ":")).encode()


def _place(root: list[Any], random: Random) -> tuple[Any, Any]:
    """Choose a JSON field, then one of its occurrences, and return the container and key of the occurrence.

    The field is chosen first, so that rare fields are edited as often as frequent ones.
    """
    fields: dict[tuple[str, ...], list[tuple[Any, Any]]] = {}
    remaining: list[tuple[tuple[str, ...], Any]] = [((), root)]
    while remaining:
        path, node = remaining.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            field = (*path, key if isinstance(key, str) else "*")
            fields.setdefault(field, []).append((node, key))
            if isinstance(node[key], dict | list):
                remaining.append((field, node[key]))
    return random.choice(fields[random.choice(sorted(fields))])


def _spec(random: Random) -> str:
    """Return the text of a tensor type, such as `f64[n,3]`, with unusual extents."""
    extents = [_extent(random) for _ in range(random.choice((0, 1, 2, 3)))]
    if random.random() < 0.05:
        extents *= 2000
    return f"{random.choice(('f64', 'i32', 'bool', 'bf16', 'c64', 'f8'))}[{','.join(extents)}]"


def _extent(random: Random) -> str:
    """Return the text of an extent: arithmetic on symbols and numbers, sometimes with huge powers."""
    text = random.choice(("n", "m", "k", "(n+m+k+l+p+q)", "x0.0", "3", str(random.choice(NUMBERS))))
    for _ in range(random.choice((0, 0, 1, 2, 4, 30))):
        number = random.choice((2, 3, 40, 100, 9999))
        other = random.choice(("n", "m", "(n+1)", "7", "0", "(a+b+c+d)"))
        text = random.choice((f"({text})^{number}", f"{text}*{other}", f"{text}//{other}", f"{text}%{other}",
                              f"max({text}, {other})", f"({text}-{other})", f"<={text}", f"-{text}"))  # fmt: skip
    return text


def _varied(value: Any, random: Random) -> Any:
    """Return a JSON value of the same type that differs slightly from `value`."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + random.choice((-1, 1, 64, -1e300))
    if isinstance(value, str):
        if SPEC.fullmatch(value) and random.random() < 0.8:
            return _spec(random)
        place = random.randrange(len(value) + 1)
        added = random.choice((*WORDS, "[", "]", ",", ")", "^9999", "*n", "//0"))
        return value[:place] + added + value[place:]
    if isinstance(value, list):
        return random.choice((value[::-1], value * 2, value[:1], value * 2000))
    return {**value, random.choice(WORDS): random.choice(VALUES)}


# ---- archives and arrays ---------------------------------------------------------------------------


def _archive(content: bytes, random: Random) -> bytes:
    if random.random() < 0.1:
        return _fields(content, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    documents = [i for i, (name, _) in enumerate(members) if name.endswith(".json")]
    place = random.randrange(len(members))
    if documents and random.random() < 0.7:
        place = documents[0]
    name, data = members[place]
    match random.randrange(20):
        case 0:
            del members[place]
        case 1:
            members[place] = (random.choice((*WORDS[:7], members[0][0], "constants/9.npy")), data)
        case 2:
            members[place] = (
                name,
                random.choice((b" ", b"[", b"\x00", b"1"))
                * random.choice((0, 1, 1 << 16, 5 << 20) * 8 + (70 << 20,)),
            )
        case 3:
            members.append(members[place])
        case _:
            members[place] = (name, edited(name, data, random.randrange(1 << 60)))
    buffer = io.BytesIO()
    compression = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    if sum([len(data) for _, data in members]) > 1 << 20:
        compression = zipfile.ZIP_DEFLATED  # because LZMA is slow for large members
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        names = set[str]()
        for name, data in members:
            if name not in names:  # because zipfile warns if two members have the same name
                archive.writestr(zipfile.ZipInfo(name or "empty"), data, compression)
            names.add(name)
    return buffer.getvalue()


def _fields(content: bytes, random: Random) -> bytes:
    """Overwrite one number in the directory of a zip archive, or in the header of one of its members."""
    signatures = [m.start() for m in re.finditer(rb"PK(\x03\x04|\x01\x02|\x05\x06)", content)]
    data, place = bytearray(content), random.choice(signatures)
    offset, form = random.choice(((4, "<H"), (6, "<H"), (8, "<H"), (10, "<H"), (14, "<I"), (16, "<I"), (18, "<I"),
                                  (20, "<I"), (22, "<I"), (24, "<I"), (26, "<H"), (28, "<H"), (42, "<I")))  # fmt: skip
    width = struct.calcsize(form)
    number = random.choice((*NUMBERS, random.randrange(1 << 32))) % (1 << 8 * width)
    struct.pack_into(form, data, place + offset, number)
    return bytes(data)


def _array(content: bytes, random: Random) -> bytes:
    (length,) = struct.unpack_from("<H", content, 8)
    header, data = content[10 : 10 + length].decode("latin-1"), content[10 + length :]
    numbers = "".join(f"{random.choice(NUMBERS)}, " for _ in range(random.choice((0, 1, 2, 65))))
    header = random.choice((
        lambda: re.sub(r"\(.*?\)", f"({numbers})", header),
        lambda: re.sub(r"'descr': '.*?'", f"'descr': {random.choice(WORDS)!r}", header),
        lambda: re.sub(r"'descr': '.*?'", f"'descr': '{random.choice(('|O', '>f8', '<U9', 'V0', '|S0', '<m8', '<f2', '|b1'))}'", header),
        lambda: re.sub("False|True", random.choice(("True", "False", "None", "1")), header),
        lambda: "(" * random.choice((1, 90, 3000)) + header,
        lambda: header.replace("}", ""),
        lambda: header,
    ))()  # fmt: skip
    if random.random() < 0.2:
        data = _bytes(data, random)
    version = random.choice((b"\x01\x00",) * 8 + (b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    text = header.encode("latin-1", "replace")
    return b"\x93NUMPY" + version + struct.pack("<H", len(text) % (1 << 16)) + text + data


# ---- modules -----------------------------------------------------------------------------------------


def _module(content: bytes, random: Random) -> bytes:
    manifest = MANIFEST.search(content)
    if manifest and random.random() < 0.5:
        document = re.sub(rb"\\([0-9A-Fa-f]{2}|.)", _unescaped, manifest[1], flags=re.DOTALL)
        damaged = edited("manifest.json", document, random.randrange(1 << 60))
        escaped = b"".join(
            bytes([b]) if 32 <= b < 127 and b not in b'"\\' else b"\\%02X" % b for b in damaged
        )
        return content[: manifest.start(1)] + escaped + content[manifest.end(1) :]
    text = content.decode("utf-8", "surrogateescape")
    lines = text.splitlines(keepends=True)
    place = random.randrange(len(lines))
    match random.randrange(12):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, random.choice(lines))
        case 2:
            other = random.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
        case _:
            words = re.findall(r'[\w.%@#$]+|"[^"\n]*"|\S', text)
            here = re.split(r'([\w.%@#$]+|"[^"\n]*"|\S)', lines[place])
            if len(here) > 1:
                chosen = random.randrange(1, len(here), 2)
                here[chosen] = _word(here[chosen], words, random)
                lines[place] = "".join(here)
    return "".join(lines).encode("utf-8", "surrogateescape")


def _word(word: str, words: list[str], random: Random) -> str:
    """Return a replacement for a word of a module's text.

    It is usually a word of the same kind, because most other words would only be syntax errors.
    """
    if random.random() < 0.3:
        return random.choice(
            (random.choice(words), random.choice(TOKENS), str(random.choice(NUMBERS)))
        )
    if word.isdigit():
        return str(random.choice((*NUMBERS, int(word) + 1, int(word) - 1)))
    alike = [other for other in words if other[0] == word[0] or (other + word).isalpha()]
    return random.choice(alike)


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if len(match[1]) == 2 else match[1]
