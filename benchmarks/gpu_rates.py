"""The rates of the GPUs that predictions are made for, and the time of a launch at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.gpu_recording_device import LaunchCost

__all__ = ["BANDWIDTH_SHARES", "BEST", "CARDS", "GRAPH_NODE_SECONDS", "SOBER", "Rates", "find_card", "launch_seconds"]

#: seconds of a kernel as a node of a CUDA graph, of those that wait for each other: 1.5 to 2 microseconds
GRAPH_NODE_SECONDS = 1.7e-6
BEST, SOBER = "best", "sober"


@dataclass(frozen=True)
class Rates:
    """Rates at which a step is predicted.

    bytes_per_second: of sweeps. flops_per_second: of products, by precision. launch_seconds, product_seconds: what a
    launch takes beside its work, one that is no product and one that is.
    """

    bytes_per_second: float
    flops_per_second: Mapping[str, float]
    launch_seconds: float = GRAPH_NODE_SECONDS
    product_seconds: float = GRAPH_NODE_SECONDS


def _products(bf16: float, fp32: float) -> dict[str, float]:
    """bf16 and fp16 alike; tf32 half of that."""
    return {"bf16": bf16, "fp16": bf16, "tf32": bf16 / 2, "fp32": fp32}


#: by a part of the device's name. "best": near what these plans can reach: copies measured at 4.3e12 bytes a second
#: (H200; 4.8e12 by the datasheet) and 3.0e12 (H100; 3.35e12), one large product in bf16 at 788e12 and 798e12 operations
#: (989e12 by the datasheet). "sober": convolutions at 300e12, sweeps at 0.7 of a measured copy, 4 microseconds for the
#: launch of a product (its prologue, its last wave, split sums)
CARDS: dict[str, dict[str, Rates]] = {
    "H200": {BEST: Rates(4.0e12, _products(650e12, 60e12)), SOBER: Rates(3.0e12, _products(300e12, 40e12),
                                                                        product_seconds=4e-6)},
    "H100": {BEST: Rates(2.8e12, _products(650e12, 60e12)), SOBER: Rates(2.1e12, _products(300e12, 40e12),
                                                                        product_seconds=4e-6)},
}  # fmt: skip


#: the share of the sweeps' rate that a kernel reaches, where it is not all of it, by the name of the kernel: layer norm
#: gives a block to each row, which waits between its sums (0.9e12 bytes a second soberly on an H200)
BANDWIDTH_SHARES = {"layer": 0.3, "layer_grad": 0.3}


def find_card(device: str) -> dict[str, Rates]:
    """The rates of a GPU by its name, such as "NVIDIA H100 80GB HBM3". Raises ValueError for one of another kind."""
    found = next((rates for card, rates in CARDS.items() if card in device.upper()), None)
    if found is None:
        raise ValueError(f"there are no rates of {device!r}; there are those of {', '.join(CARDS)}")
    return found


def launch_seconds(one: LaunchCost, precision: str, rates: Rates) -> float:
    """The time of a launch."""
    kind = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32" if precision != "fp32" else "fp32"}
    flops_per_second = rates.flops_per_second[kind.get(one.operand_dtype, "fp32")]
    start = rates.product_seconds if one.flops else rates.launch_seconds
    bytes_per_second = rates.bytes_per_second * BANDWIDTH_SHARES.get(one.name, 1.0)
    return start + max(one.nbytes / bytes_per_second, one.flops / flops_per_second)
