"""The cost of steps, from specs alone: floating-point operations, and bytes that must be read or written.

Each op declares its own cost (`Op.flops`, `Op.bytes_moved`). Products are exact: a convolution, its gradients, a matrix
product, a recurrent op and attention count a multiply-add for each pair of elements that are multiplied, whatever the
kernel does (so a Winograd kernel may exceed the machine's peak). Everything else counts one operation for each element
of each op it decomposes into. The bytes are those of the inputs and outputs, each once: what a kernel with an
unlimited cache would move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from prototorch.ops.core import Op
from prototorch.spec import Spec

__all__ = ["Cost", "estimate_cost"]

Specs = tuple[Spec, ...]


@dataclass(frozen=True)
class Cost:
    """Floating-point operations, and bytes moved."""

    flops: int = 0
    nbytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.nbytes + other.nbytes)

    def seconds(self, flops: float, bandwidth: float) -> float:
        """The minimum time in seconds at these peak rates, in operations and bytes per second (roofline model, Williams
        et al., 2009)."""
        return max(self.flops / flops, self.nbytes / bandwidth)


def estimate_cost(op: Op, ins: Specs, outs: Specs, attrs: Mapping[str, Any]) -> Cost:
    """The cost of an op or of a fused group: its operations, and the bytes of its inputs and outputs."""
    return _estimate_cost(op, ins, outs, tuple(sorted(attrs.items())))


@lru_cache(maxsize=4096)
def _estimate_cost(op: Op, ins: Specs, outs: Specs, items: tuple[tuple[str, Any], ...]) -> Cost:
    if op.is_view:
        return Cost()
    attrs = dict(items)
    return Cost(op.flops(ins, outs, attrs), op.bytes_moved(ins, outs, attrs))
