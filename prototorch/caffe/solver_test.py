"""The test of a net: the means of its outputs over a number of batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prototorch.caffe.net import Net

__all__ = ["TestResult", "run_test"]


@dataclass(frozen=True)
class TestResult:
    """Means over the batches of a test. loss: the net's; outputs: by blob, in alphabetical order."""

    __test__ = False  # no test of pytest

    loss: float
    outputs: dict[str, np.ndarray]


def run_test(
    net: Net,
    iterations: int,
    is_stopped: Callable[[], bool] = lambda: False,
    on_batch: Callable[[int, dict[str, np.ndarray]], None] | None = None,
) -> TestResult | None:
    """Run a net forward so many times.

    is_stopped: asked before each batch; where it says so, None is returned. on_batch: gets the number and the outputs
    of each batch.
    """
    sums: dict[str, np.ndarray] = {}
    loss = 0.0
    last = len(net.caffe_net.layers) - 1
    for number in range(iterations):
        if is_stopped():
            return None
        loss += net.forward_range(0, last)
        outputs = {name: np.array(net.blobs[name].data) for name in net.caffe_net.outputs}
        for name, array in outputs.items():
            sums[name] = sums[name] + array if name in sums else array
        if on_batch is not None:
            on_batch(number, outputs)
    count = max(iterations, 1)
    return TestResult(loss / count, {name: array / count for name, array in sums.items()})
