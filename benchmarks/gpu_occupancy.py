"""The kernels of a step that start few threads for what they move: by counting, without a GPU.

    python -m benchmarks.gpu_occupancy --rows resnet50,lenet --precision bf16 --batch 256

A launch has grid x block threads; a GPU of 132 multiprocessors holds 132 x 2,048 of them. Listed are launches that have
less than half of those and move more than `SMALL` bytes: smaller ones take no longer than a launch itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu_recording_device import ArrayDesc, RecordingDevice
from benchmarks.gpu_roofline import plan_of_row, predict_steps
from benchmarks.workloads import GPU_WORKLOADS, TRAINING, find_workload

MULTIPROCESSORS, RESIDENT_THREADS = 132, 2048  # of an H100 or H200
SMALL = 6e6  # bytes that 3.0e12 bytes a second move in 2 microseconds
FEW = 0.45  # of the threads


@dataclass(frozen=True)
class LaunchSize:
    """A launch: threads, and the bytes of its arrays."""

    name: str
    grid: int
    block: int
    nbytes: int

    @property
    def share(self) -> float:
        """Of the threads that a GPU holds."""
        return min(1.0, self.grid * self.block / (MULTIPROCESSORS * RESIDENT_THREADS))


class SizeDevice(RecordingDevice):
    """A recording device that notes the sizes of launches as well, in ``sizes``."""

    def __init__(self, precision: str):
        super().__init__(precision)
        self.sizes: list[LaunchSize] = []

    def launch(self, module: str, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        """See `RecordingDevice.launch`."""
        arrays = {id(a): a.nbytes for a in args if isinstance(a, ArrayDesc)}
        self.sizes.append(LaunchSize(name, grid, block, sum(arrays.values())))
        super().launch(module, name, grid, block, args)


def launch_sizes(net: str, precision: str, batch: int, what: str = TRAINING) -> list[LaunchSize]:
    """The launches of the package's own kernels in a step of a row of the benchmark's table."""
    device = SizeDevice(precision)
    plan, backend = plan_of_row(find_workload(net), what, batch, device)
    device.sizes.clear()
    predict_steps(plan, backend, device)
    return device.sizes


def few_threads(sizes: Sequence[LaunchSize]) -> dict[LaunchSize, int]:
    """Those that start few threads for what they move, and how often; the largest first."""
    counts: dict[LaunchSize, int] = {}
    for one in sizes:
        if one.share < FEW and one.nbytes > SMALL:
            counts[one] = counts.get(one, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[0].nbytes * item[1]))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(GPU_WORKLOADS))
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--batch", type=int, default=256)
    args = parser.parse_args()
    print("| net | kernel | times | blocks x threads | of a GPU's threads | MB of its arrays |")
    print("| --- | --- | --- | --- | --- | --- |")
    for net in args.rows.split(","):
        sizes = launch_sizes(net, args.precision, args.batch)
        for one, times in few_threads(sizes).items():
            size = f"{one.grid} x {one.block} | {one.share:.0%} | {one.nbytes / 1e6:,.1f}"
            print(f"| {net} | {one.name} | {times} | {size} |")
        print(f"| {net} | all {len(sizes)} | | | | |")


if __name__ == "__main__":
    main()
