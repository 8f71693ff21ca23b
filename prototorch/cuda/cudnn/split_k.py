"""Products with a long inner dimension and a small result, such as the weight gradients of dense layers: the inner
dimension is split into slices, so that there are about as many blocks as the GPU has multiprocessors.

cuDNN's heuristics split them themselves on some versions (9.19: 33 slices of 256 x 256 over 32,768 rows), and hardly on
others (9.28: 4): what they give is used where it fills half of the GPU, else the same kernel with more slices.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.cuda.cudnn.engine import Engine, parse_engine
from prototorch.cuda.cudnn.graph_desc import GraphDesc

__all__ = ["MATMUL_TILES", "MIN_SLICE_ROWS", "count_slices", "count_tiles", "select_split_k_plan"]

#: rows and columns of the tile of a block by KERNEL_CFG, of the runtime-compiled matmul engine that splits (7): from
#: the names of its kernels, the same in cuDNN 9.19 and 9.28
MATMUL_TILES = {
    0: (256, 128), 1: (128, 256), 2: (256, 64), 3: (64, 256), 4: (128, 128), 5: (128, 64), 6: (64, 128), 7: (64, 64),
    8: (128, 128), 9: (128, 64), 10: (64, 128), 11: (64, 64), 12: (64, 64), 13: (256, 128), 14: (128, 256),
    15: (256, 64), 16: (64, 256), 17: (128, 128), 18: (128, 64), 19: (64, 128), 20: (64, 64), 21: (128, 128),
    22: (128, 64), 23: (64, 128), 24: (64, 64), 25: (128, 32),
}  # fmt: skip
#: the engine takes no more slices than this
MAX_SLICES = 128
#: a slice of fewer rows costs more for its partial result than it saves
MIN_SLICE_ROWS = 256


def count_tiles(desc: GraphDesc, tile: tuple[int, int]) -> int:
    """The number of tiles of a matmul graph's result."""
    *batch, m, n = desc.tensor("y").dims
    return prod(batch) * -(-m // tile[0]) * -(-n // tile[1])


def count_slices(desc: GraphDesc, tile: tuple[int, int], blocks: int) -> int:
    """How many slices of the inner dimension make about ``blocks`` blocks, each of at least `MIN_SLICE_ROWS`."""
    k = desc.tensor("a").dims[-1]
    return max(1, min(blocks // count_tiles(desc, tile), k // MIN_SLICE_ROWS, MAX_SLICES))


def select_split_k_plan(module: Any, graph: Any, desc: GraphDesc) -> int | None:
    """The index of the plan that fills the GPU, in the ranking of a graph with the attribute ``blocks``; it is
    appended where the ranking has none. None for other graphs, and where no engine of the ranking splits."""
    blocks = dict(desc.attrs).get("blocks")
    if blocks is None:
        return None
    splitting: Engine | None = None
    for index in range(graph.get_execution_plan_count()):
        engine = parse_engine(graph.get_plan_name_at_index(index))
        tile = MATMUL_TILES.get(engine.knob("KERNEL_CFG", -1))
        if engine.knob("SPLIT_K_SLC") < 2 or tile is None:
            continue
        if engine.slices * 2 > count_slices(desc, tile, blocks):
            return index
        splitting = splitting or engine
    if splitting is None:
        return None
    kernel = splitting.knob("KERNEL_CFG")
    slices = count_slices(desc, MATMUL_TILES[kernel], blocks)
    graph.create_execution_plan(
        splitting.number, {module.knob_type.KERNEL_CFG: kernel, module.knob_type.SPLIT_K_SLC: slices}
    )
    return int(graph.get_execution_plan_count()) - 1
