"""A stable radix sort on the device: keys and the positions they come from, without atomics, in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prototorch.cuda.kernels.launch import (
    BLOCK,
    KernelLaunch,
    WorkspaceArg,
    align_bytes,
    current_device,
    kernel_source,
)

__all__ = ["MAX_KEYS", "KeySort", "plan_sort"]

TILE = 4096  #: keys that one block moves in a pass
MAX_BITS = 6  #: of a digit: a count for each of them and each thread lies in shared memory
MAX_KEYS = 1 << 31  #: positions are int32
_KEY_BYTES = {"u32": 4, "u64": 8}


@dataclass(frozen=True)
class KeySort:
    """A sort of ``count`` keys in the workspace.

    Attributes:
        input_keys: where the keys must be before the launches, of the type ``key_type``.
        keys: where they are afterwards, in order.
        positions: int32[count], the position in ``input_keys`` of each key in order; equal keys keep their order.
        launches: what sorts them.
        end: the first byte of the workspace after all of it.
    """

    key_type: str
    input_keys: WorkspaceArg
    keys: WorkspaceArg
    positions: WorkspaceArg
    launches: tuple[KernelLaunch, ...]
    end: int


def plan_sort(count: int, bits: int, key_type: str = "u32", offset: int = 0) -> KeySort:
    """The launches that sort keys of so many ``bits`` by value; ``offset``: where their memory in the workspace begins.

    Each pass takes up to 6 bits and reads and writes each key once, in 3 launches; up to 4,096 keys are sorted by
    one launch.
    """
    passes = max(-(-bits // MAX_BITS), 1)
    digit_bits = max(-(-bits // passes), 1)
    tiles = -(-count // TILE)
    source = kernel_source("radix_sort", count, K=key_type, BITS=digit_bits, TILE=TILE)
    key_bytes, position_bytes = align_bytes(_KEY_BYTES[key_type] * count), align_bytes(4 * count)
    keys = [WorkspaceArg(offset + k * key_bytes) for k in range(2)]
    offset += 2 * key_bytes
    positions = [WorkspaceArg(offset + k * position_bytes) for k in range(2)]
    offset += 2 * position_bytes
    totals, end = WorkspaceArg(offset), offset + align_bytes(4 * tiles << digit_bits)
    module, n = current_device().load_module(source), np.uint32(count)

    def launch(name: str, blocks: int, *args: object) -> KernelLaunch:
        return KernelLaunch(module, name, blocks, min(BLOCK, TILE), args, source)

    launches: list[KernelLaunch] = []
    if tiles == 1:
        launches.append(launch("sort_tile", 1, n, np.uint32(passes), keys[0], positions[0], keys[1], positions[1]))
    else:
        for k in range(passes):
            shift, old, new = np.uint32(k * digit_bits), k % 2, 1 - k % 2
            launches += [
                launch("sort_count", tiles, n, np.uint32(tiles), shift, keys[old], totals),
                launch("sort_sum", 1, np.uint32(tiles << digit_bits), totals),
                launch(
                    "sort_move",
                    tiles,
                    n,
                    np.uint32(tiles),
                    shift,
                    keys[old],
                    positions[old] if k else np.uint64(0),
                    totals,
                    keys[new],
                    positions[new],
                ),
            ]
    last = passes % 2
    return KeySort(key_type, keys[0], keys[last], positions[last], tuple(launches), end)
