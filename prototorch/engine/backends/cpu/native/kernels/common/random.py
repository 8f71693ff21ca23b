"""Random bits, uniform numbers and dropout by Philox4x64-10 (Salmon et al., 2011), bit for bit as
`prototorch.ops.random`.

A piece of work draws the words for a few hundred elements into the thread's scratch memory and uses them while they are
in the cache. The generator is counter-based: the counter follows from the element's index, so that pieces are
independent.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import I64, Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import loop_nest, op_tasks
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

_I128 = ir.IntType(128)
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_MASK = (1 << 64) - 1
#: blocks of the generator drawn at a time, 32 bytes each, and those of a piece
_BLOCKS_TOGETHER, PIECE_BLOCKS = 64, 1024


def _multiply_wide(k: KernelBuilder, a: Any, multiplier: int) -> tuple[Any, Any]:
    """Return the upper and the lower 64 bits of a product."""
    product = k.b.mul(k.b.zext(a, _I128), ir.Constant(_I128, multiplier))
    return k.b.trunc(k.b.lshr(product, ir.Constant(_I128, 64)), I64), k.b.trunc(product, I64)


def _philox_block(k: KernelBuilder, count: Int64, step: Any, seed: Any, site: Any) -> list[Any]:
    """Return the four words of one block. The counter of the first block is 1."""
    b, zero = k.b, ir.Constant(I64, 0)
    c0, c1, c2, c3 = (count + 1).v, zero, step, zero
    k0, k1 = seed, site
    for i in range(10):
        h0, l0 = _multiply_wide(k, c0, _MULTIPLIERS[0])
        h1, l1 = _multiply_wide(k, c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = b.xor(b.xor(h1, c1), k0), l1, b.xor(b.xor(h0, c3), k1), l0
        if i < 9:
            k0, k1 = b.add(k0, ir.Constant(I64, _WEYL[0])), b.add(k1, ir.Constant(I64, _WEYL[1]))
    return [c0, c1, c2, c3]


def draw_words(k: KernelBuilder, key: Pointer, site: Int64, first: Int64, count: Index, words: Pointer) -> None:
    """Store the words of blocks ``first`` to ``first + count``."""
    seed, step = key.load(0).v, key.load(1).v
    with k.range(count) as i:
        for j, word in enumerate(_philox_block(k, first + i, step, seed, site.v)):
            words.store(Num(k, word, "uint64"), i * 4 + j)


def _for_each_block(
    k: KernelBuilder, key: Pointer, site: Int64, size: int, each: int, use: Callable[[Pointer, Int64, Any], None]
) -> None:
    """Emit ``use(words, first element, number of elements)``. Work items are blocks of the generator, each for
    ``each`` elements."""
    words = k.local.as_type("uint64")
    with k.range(k.first, k.last, _BLOCKS_TOGETHER) as first:
        count = (k.last - first).minimum(_BLOCKS_TOGETHER)
        draw_words(k, key, site, first, count, words)
        at = first * each
        use(words, at, (Int64(k, k.word(size)) - at).minimum(count * each))


def site_argument(site: int) -> int:
    """A site as the signed integer that a kernel takes."""
    return (site & _MASK) - ((site & 1 << 63) << 1)


def _task(kernel: Any, arguments: tuple[int, ...], site: int, size: int, each: int) -> ParallelTask:
    counts = -(-size // each)
    return ParallelTask(
        kernel.address,
        (*arguments, site_argument(site)),
        counts,
        counts if size <= 1 << 13 else PIECE_BLOCKS,
        _BLOCKS_TOGETHER * 32,
    )


def _dropout(k: KernelBuilder, size: int, least: int, scale: float, ones: bool) -> None:
    """Store x times the scaled mask, or (``ones``) the scaled mask alone."""
    x, key, out = k.pointer(0), k.pointer(1, "uint64"), k.pointer(2)
    keep = k.num(scale).splat(k.lanes)

    def use(words: Pointer, at: Int64, count: Index) -> None:
        bits = words.as_type("uint16")

        def body(i: Int64, mask: Mask) -> None:
            factor = k.select(is_at_least(k, bits.load(i, k.lanes), least), keep, k.zero(k.lanes))
            out.store(factor if ones else x.load(at + i, k.lanes, mask) * factor, at + i, mask)

        k.for_each_vector(count, body)

    _for_each_block(k, key, k.argument(3), size, 16, use)


def is_at_least(k: KernelBuilder, bits: Num, least: int) -> Num:
    """Compare 16 random bits with a threshold; never true for a threshold of 2 ** 16."""
    if least > 65535:
        return bits < 0
    return bits >= least


@native_kernel("dropout")
def dropout(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """x times the scaled mask, with 16 random bits for each element of the mask; the mask has ``noise_shape`` and is
    broadcast."""
    x = ins[0]
    noise = attrs.get("noise_shape")
    noise = x.shape if noise is None else tuple(noise)
    if x.dtype != "float32":
        return None
    rate, site = attrs["rate"], attrs["site"]
    threshold_and_scale = round(rate * 65536), 1 / (1 - rate)
    if noise == x.shape:
        kernel = kernel_code(_dropout, x.size, *threshold_and_scale, False)
        return TaskList(lambda i, o: [_task(kernel, (*i, *o), site, x.size, 16)])
    size = prod(noise)
    factors = np.empty(size, np.float32)
    kernel = kernel_code(_dropout, size, *threshold_and_scale, True)
    multiply = op_tasks(loop_nest((x, Spec(noise)), outs), "multiply", outs)
    at = factors.ctypes.data
    return TaskList(
        lambda i, o: [_task(kernel, (0, i[1], at), site, size, 16), *multiply.bind((i[0], at), o)], keep_alive=factors
    )


def _random_bits(k: KernelBuilder, size: int) -> None:
    key, out, lanes = k.pointer(0, "uint64"), k.pointer(1, "uint32"), vector_lanes("int32")

    def use(words: Pointer, at: Int64, count: Index) -> None:
        bits = words.as_type("uint32")
        k.for_each_vector(count, lambda i, mask: out.store(bits.load(i, lanes), at + i, mask), lanes)

    _for_each_block(k, key, k.argument(2), size, 8, use)


@native_kernel("random_bits")
def random_bits(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """uint32 words."""
    kernel, size, site = kernel_code(_random_bits, outs[0].size), outs[0].size, attrs["site"]
    return TaskList(lambda i, o: [_task(kernel, (*i, *o), site, size, 8)])


def _random_uniform(k: KernelBuilder, size: int, low: float, high: float, dtype: str) -> None:
    key, out, lanes = k.pointer(0, "uint64"), k.pointer(1, dtype), vector_lanes(dtype)
    largest = np.nextafter(np.asarray(high, dtype), np.asarray(low, dtype)).item()

    def use(words: Pointer, at: Int64, count: Index) -> None:
        bits = words.as_type("uint32")

        def body(i: Int64, mask: Mask) -> None:
            unit = (bits.load(i, lanes) >> 8).cast("int32").cast(dtype) * 2.0**-24
            if (low, high) != (0.0, 1.0):  # two roundings, as in the reference implementation
                product = k.b.fmul(unit.v, k.num(high - low, dtype).splat(lanes).v)
                unit = Num(k, k.b.fadd(product, k.num(low, dtype).splat(lanes).v), dtype, lanes)
                unit = k.minimum(unit, k.num(largest, dtype).splat(lanes))
            out.store(unit, at + i, mask)

        k.for_each_vector(count, body, lanes)

    _for_each_block(k, key, k.argument(2), size, 8, use)


@native_kernel("random_uniform")
def random_uniform(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Uniform numbers in [low, high), of 24 random bits each."""
    dtype, size, site = outs[0].dtype, outs[0].size, attrs["site"]
    if dtype not in ("float32", "float64"):
        return None
    kernel = kernel_code(_random_uniform, size, float(attrs.get("low", 0.0)), float(attrs.get("high", 1.0)), dtype)
    return TaskList(lambda i, o: [_task(kernel, (*i, *o), site, size, 8)])
