"""Arrays in shared memory are large enough for blocks of their real size, counted from the texts of the kernels.

The CPU plays blocks of few threads, where an array that is too small for a whole block goes unnoticed. The address
sanitizer plays whole blocks (`test_memory_errors.py`, slow); the sizes are counted here.
"""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from prototorch.cuda import kernels
from prototorch.cuda.kernels import column_tiles, launch, radix_sort

STATIC_BYTES = 48 * 1024  #: what a block may declare


def read_source(name: str) -> str:
    return (files(kernels) / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("bits", range(1, radix_sort.MAX_BITS + 1))
def test_the_counts_of_a_sort_have_an_element_for_each_digit_and_thread(bits):
    source, threads = read_source("radix_sort.cu"), min(launch.BLOCK, radix_sort.TILE)
    names = {
        "BITS": bits,
        "DIGITS": 1 << bits,
        "MOST_THREADS": int(re.findall(r"#define MOST_THREADS (\d+)", source)[0]),
    }
    slots = {
        eval(f"i + {rest}", {"i": digit * threads + thread, **names})
        for rest in re.findall(r"return i \+ ([^;]+);", source)
        for digit in range(1 << bits)
        for thread in range(threads)
    }
    assert len(slots) == threads << bits, "two counts share an element"
    declared = [eval(size, names) for size in re.findall(r"__shared__ u16 counts\[(.+)\];", source)]
    assert len(declared) == 3
    assert max(slots) < min(declared), f"{max(slots) + 1} elements are used of {min(declared)}"
    assert names["MOST_THREADS"] >= threads
    assert 2 * max(declared) + 4 * names["MOST_THREADS"] + 4 * names["DIGITS"] <= STATIC_BYTES


def largest_exchanged(vectors: int) -> int:
    """The last element that ``sum_groups`` of column_tiles.cuh writes, where a tile has so many vectors."""
    groups = launch.BLOCK // vectors
    half, last = 1, -1
    while half * 2 < groups:
        half *= 2
    while half and groups > 1:
        last = max(last, (min(2 * half, groups) - half) * vectors - 1)
        half //= 2
    return last


def test_the_partial_sums_of_columns_fit_in_the_exchange():
    source = read_source("column_tiles.cuh")
    assert "#define COLUMN_TILE_THREADS 256\n#define EXCHANGE (COLUMN_TILE_THREADS / 2)\n" in source
    assert launch.BLOCK <= 256
    for vectors in range(1, column_tiles.MAX_TILE_VECTORS + 1):
        assert largest_exchanged(vectors) < 128


def test_an_array_of_an_element_for_each_thread_has_room_for_a_whole_block():
    limits = dict(re.findall(r"#define (MAX_BLOCK_THREADS) (\d+)", read_source("block_reduce.cuh")))
    seen = set()
    for entry in files(kernels).iterdir():
        if not entry.name.endswith((".cu", ".py", ".cuh")):
            continue
        for name, size in re.findall(
            r"__shared__ \w+ (shared|best|number|of_warps)\[(\w+)\];", entry.read_text("utf-8")
        ):
            threads = 32 * int(size) if name == "of_warps" else int(limits.get(size, size))
            assert threads >= launch.block_size_for(1 << 30) == launch.BLOCK, f"{entry.name}: {name}[{size}]"
            seen.add(name)
    assert seen == {"shared", "best", "number", "of_warps"}
