"""What names in PyTorch's files stand for: stacked recurrent layers, and names of old versions."""

from __future__ import annotations

import re

__all__ = ["canonical_parts"]

_STACKED = re.compile(r"(weight|bias)_(ih|hh|hr)_l(\d+)(_reverse)?")
#: torchvision's DenseNets before 0.3: ``denselayer1.norm.1.weight``; module names with a dot are refused since
_OLD_DENSENET = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12])\.(.+)")


def canonical_parts(name: str) -> tuple[str, ...]:
    """The parts of an array's name between its dots.

    ``lstm.weight_ih_l1`` of a stacked layer becomes ``lstm.l1.weight_ih_l0``: a layer ``lstm.l1`` of one level; the
    first level keeps its name. ``denselayer1.norm.1.weight`` becomes ``denselayer1.norm1.weight``.
    """
    if old := _OLD_DENSENET.fullmatch(name):
        name = f"{old[1]}{old[2]}.{old[3]}"
    parts = tuple(re.split(r"[./]", name))
    stacked = _STACKED.fullmatch(parts[-1])
    if stacked is None or stacked[3] == "0":
        return parts
    kind, side, level, reverse = stacked.groups()
    return (*parts[:-1], f"l{level}", f"{kind}_{side}_l0{reverse or ''}")
