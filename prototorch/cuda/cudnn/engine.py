"""cuDNN's engines, by the names that it gives its plans: "eng7_k17=33_k24=3" is engine 7 with two knobs.

Engine numbers are those of one kind of graph and may change with cuDNN's version; the knobs' numbers are those of
`cudnn_graph.h` and do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["KNOBS", "Engine", "parse_engine"]

#: the knobs (cudnnBackendKnobType_t) by number; others keep their number as name
KNOBS = {
    0: "SPLIT_K", 2: "TILE_SIZE", 3: "USE_TEX", 5: "KBLOCK", 6: "LDGA", 12: "SPLIT_K_BUF", 13: "TILEK", 14: "STAGES",
    15: "REDUCTION_MODE", 17: "SPLIT_K_SLC", 18: "IDX_MODE", 22: "LDGC", 23: "SPECFILT", 24: "KERNEL_CFG",
    25: "WORKSPACE", 27: "TILE_CGA_M", 28: "TILE_CGA_N", 38: "STREAM_K",
}  # fmt: skip
_NAME = re.compile(r"eng(\d+)((?:_k\d+=-?\d+)*)")
_KNOB = re.compile(r"_k(\d+)=(-?\d+)")


@dataclass(frozen=True)
class Engine:
    """An engine and its knobs: (name, value) in the order of their numbers. ``number`` is None for an engine that is
    not named by a number: one that the frontend adds."""

    name: str
    number: int | None
    knobs: tuple[tuple[str, int], ...]

    def knob(self, name: str, default: int = 0) -> int:
        """The value of a knob; ``default`` where the engine does not have it."""
        return dict(self.knobs).get(name, default)

    @property
    def has_clusters(self) -> bool:
        """Whether its blocks run in clusters: an engine for Hopper or newer, with its matrix instructions of a whole
        warp group. A cluster may be of one block."""
        return self.knob("TILE_CGA_M") > 0

    @property
    def slices(self) -> int:
        """Into how many slices the inner dimension is split, as far as the knobs tell: at least 1."""
        return max(1, self.knob("SPLIT_K_SLC"), self.knob("SPLIT_K") if self.knob("SPLIT_K") > 1 else 1)

    def __str__(self) -> str:
        number = [self.name] if self.number is None else [f"engine {self.number}"]
        return " ".join([*number, *(f"{name}={value}" for name, value in self.knobs)])


def parse_engine(name: str) -> Engine:
    """The engine of a plan's name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return Engine(name, None, ())
    knobs = tuple((KNOBS.get(int(k), f"k{k}"), int(v)) for k, v in _KNOB.findall(match[2]))
    return Engine(name, int(match[1]), knobs)
