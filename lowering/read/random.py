"""Readers of `rng_bit_generator`; the random bits equal those of XLA.

The state consists of a key and a counter, each a uint64. If there is a third uint64, it is the upper half of the
counter. StableHLO leaves the algorithm DEFAULT to the implementation. Here it is PHILOX, as in XLA on CPUs.

Source: StableHLO spec #rng_bit_generator; Salmon, Moraes, Dror and Shaw (SC 2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Reader, ReadRows
from tenferro.errors import UnsupportedError
from tenferro.ext.random.families import Threefry2x32
from tenferro.ops import elementwise as el
from tenferro.ops import structural as st
from tenferro.ops.extension import Extension
from tenferro.ops.source import Iota
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS"]

HALF = 32
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
UNSIGNED = {2: DType.U2, 4: DType.U4, 8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64}
"""Unsigned integers by number of bits; narrow ones are the lowest bits of the generator's words, as in XLA."""


def rng_bit_generator(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    (state,) = operands
    spec = r.spec(state)
    wanted = operation.types[1]
    if spec.dtype is not DType.U64 or spec.shape not in ((2,), (3,)):
        raise UnsupportedError(
            f"rng_bit_generator: a state of {spec}; ui64[2] and ui64[3] are known"
        )
    if not isinstance(wanted, TensorSpec):
        raise UnsupportedError(f"rng_bit_generator: bits of type {wanted}")
    unsigned = UNSIGNED.get(wanted.dtype.bits)
    if unsigned is None:
        raise UnsupportedError(
            f"rng_bit_generator: elements of {wanted.dtype.bits} bits; generate ui8 and convert"
        )
    words = [_word(r, state, i) for i in range(spec.shape[0])]
    make = _threefry if operation.attributes["rng_algorithm"] == "THREE_FRY" else _philox
    is_wide = wanted.dtype.itemsize == 8
    bits, used = make(r, words, wanted.shape, is_wide)
    counter = words[1]
    words[1] = r.apply_one(el.Add(), counter, r.constant(used, DType.U64))
    if len(words) > 2:
        carried = r.apply_one(el.Compare("LT"), words[1], counter)
        words[2] = r.apply_one(el.Add(), words[2], r.convert(carried, DType.U64))
    lined = [r.reshape(word, (1,)) for word in words]
    bits_wanted = r.convert(bits, unsigned)
    if wanted.dtype is not unsigned:
        bits_wanted = r.apply_one(el.BitcastConvert(wanted.dtype), bits_wanted)
    return [r.apply_one(st.Concatenate(0, len(lined)), *lined), bits_wanted]


def _word(r: Reader, state: int, index: int) -> int:
    return r.reshape(r.slice(state, 0, index, index + 1), ())


def _low(r: Reader, x: int) -> int:
    """Return the lower 32 bits of each 64-bit integer."""
    mask = r.full(2**HALF - 1, r.spec(x))
    return r.convert(r.apply_one(el.And(), x, mask), DType.U32)


def _high(r: Reader, x: int) -> int:
    return r.convert(r.apply_one(el.ShiftRightLogical(), x, r.full(HALF, r.spec(x))), DType.U32)


def _joined(r: Reader, low: int, high: int) -> int:
    """Combine lower and upper halves of 32 bits to 64-bit integers."""
    wide = r.convert(high, DType.U64)
    upper = r.apply_one(el.ShiftLeft(), wide, r.full(HALF, r.spec(wide)))
    return r.apply_one(el.Or(), upper, r.convert(low, DType.U64))


def _counts(r: Reader, counter: int, size: int) -> int:
    """Return `counter`, `counter + 1`, .. as a vector of `size` elements."""
    steps = r.apply_one(Iota((size,), 0, DType.U64))
    return r.apply_one(el.Add(), r.spread(counter, (size,)), steps)


def _threefry(
    r: Reader, words: list[int], shape: tuple[int, ...], is_wide: bool
) -> tuple[int, int]:
    """Generate bits by Threefry, two 32-bit words per counter.

    Two words form one element of a 64-bit result. For a 32-bit result they are neighbours along one axis. Return the
    bits, and the number of counters that are used.
    """
    key = [r.reshape(part, (1,)) for part in (_low(r, words[0]), _high(r, words[0]))]
    key_words = r.apply_one(st.Concatenate(0, 2), *key)
    if is_wide or not shape:
        size = math.prod(shape)
        first, second = _mixed(r, key_words, words[1], size)
        bits = _joined(r, first, second) if is_wide else first
        return r.reshape(bits, shape), size
    even = [axis for axis, extent in enumerate(shape) if extent % 2 == 0]
    axis = even[0] if even else max(range(len(shape)), key=lambda i: (shape[i], -i))
    half = (*shape[:axis], (shape[axis] + 1) // 2, *shape[axis + 1 :])
    size = math.prod(half)
    pair = [
        r.reshape(word, (*half[: axis + 1], 1, *half[axis + 1 :]))
        for word in _mixed(r, key_words, words[1], size)
    ]
    both = r.apply_one(st.Concatenate(axis + 1, 2), *pair)
    merged = (*half[:axis], 2 * half[axis], *half[axis + 1 :])
    return r.slice(r.reshape(both, merged), axis, 0, shape[axis]), size


def _mixed(r: Reader, key: int, counter: int, size: int) -> tuple[int, ...]:
    counts = _counts(r, counter, size)
    return r.apply(Extension(Threefry2x32()), key, _low(r, counts), _high(r, counts))


def _philox(r: Reader, words: list[int], shape: tuple[int, ...], is_wide: bool) -> tuple[int, int]:
    """Generate bits by Philox, four 32-bit words per counter; return the bits, and the number of counters used."""
    count = math.prod(shape) * (2 if is_wide else 1)
    size = -(-count // 4)
    low = _counts(r, words[1], size)
    # If the state has no third number, the key is also the upper half of the counter, as in XLA.
    upper = r.spread(words[2] if len(words) > 2 else words[0], (size,))
    carried = r.apply_one(el.Compare("LT"), low, r.spread(words[1], (size,)))
    upper = r.apply_one(el.Add(), upper, r.convert(carried, DType.U64))
    block = [_low(r, low), _high(r, low), _low(r, upper), _high(r, upper)]
    keys = [_low(r, words[0]), _high(r, words[0])]
    for round_number in range(ROUNDS):
        if round_number:
            keys = [
                r.apply_one(el.Add(), k, r.constant(w, DType.U32))
                for k, w in zip(keys, WEYL, strict=True)
            ]
        block = _philox_round(r, block, [r.spread(k, (size,)) for k in keys])
    lined = [r.reshape(word, (size, 1)) for word in block]
    flat = r.reshape(r.apply_one(st.Concatenate(1, 4), *lined), (4 * size,))
    flat = r.slice(flat, 0, 0, count)
    if not is_wide:
        return r.reshape(flat, shape), size
    pairs = r.reshape(flat, (count // 2, 2))
    halves = [r.reshape(r.slice(pairs, 1, i, i + 1), (count // 2,)) for i in (0, 1)]
    return r.reshape(_joined(r, *halves), shape), size


def _philox_round(r: Reader, block: list[int], keys: list[int]) -> list[int]:
    products: list[int] = []
    for word, factor in zip((block[0], block[2]), MULTIPLIERS, strict=True):
        wide = r.convert(word, DType.U64)
        products.append(r.apply_one(el.Multiply(), wide, r.full(factor, r.spec(wide))))
    (h0, l0), (h1, l1) = ((_high(r, p), _low(r, p)) for p in products)

    def mixed(a: int, b: int, c: int) -> int:
        return r.apply_one(el.Xor(), r.apply_one(el.Xor(), a, b), c)

    return [mixed(h1, block[1], keys[0]), l1, mixed(h0, block[3], keys[1]), l0]


ROWS: ReadRows = {"stablehlo.rng_bit_generator": rng_bit_generator}
