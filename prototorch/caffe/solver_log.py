"""The lines that a solver logs, in the form that log parsers of Caffe read (``parse_log.py``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from prototorch.caffe.interop.caffe_net import CaffeNet

__all__ = ["SmoothedLoss", "SolverLog", "output_lines"]


class SmoothedLoss:
    """The mean of the last ``average_loss`` losses of one call of `Solver.step`."""

    def __init__(self, count: int):
        self._count, self._losses = count, list[float]()

    def add(self, loss: float) -> float:
        """The mean with one more loss."""
        self._losses = [*self._losses, loss][-self._count :]
        return sum(self._losses) / len(self._losses)


class SolverLog:
    """Writes lines about the iterations of a solver. write: takes a line."""

    def __init__(self, write: Callable[[str], None]):
        self.write = write
        self._start_time, self._last = time.perf_counter(), 0

    def restart(self) -> None:
        """Measure the speed from here on."""
        self._start_time = time.perf_counter()

    def iteration(self, iteration: int, loss: float, display: int) -> None:
        """The loss of an iteration that is displayed, and the speed since the last one."""
        seconds, iterations = time.perf_counter() - self._start_time, iteration - self._last
        speed = (
            f" ({iterations / seconds:.6g} iter/s, {seconds:.6g}s/{display} iters)"
            if iterations > 0 and seconds
            else ""
        )
        self.write(f"Iteration {iteration}{speed}, loss = {loss:.6g}")
        self._last = iteration
        self.restart()

    def outputs(self, phase: str, net: CaffeNet, values: Mapping[str, np.ndarray]) -> None:
        """The elements of a net's outputs. phase: "Train" or "Test"."""
        for number, line in enumerate(output_lines(net, values)):
            self.write(f"    {phase} net output #{number}: {line}")


def output_lines(net: CaffeNet, values: Mapping[str, np.ndarray]) -> list[str]:
    """``loss = 0.3 (* 1 = 0.3 loss)`` for each element of each output."""
    weights = {t: w for layer in net.layers for t, w in zip(layer.tops, layer.loss_weights, strict=False) if w}
    lines = []
    for name, array in values.items():
        weight = weights.get(name)
        for value in np.asarray(array).reshape(-1):
            share = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            lines.append(f"{name} = {value:.6g}{share}")
    return lines
