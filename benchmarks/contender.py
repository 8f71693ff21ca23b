"""What a framework must offer to be measured: the one interface behind which ours and the peers stand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.workloads import Workload

#: weights in prototorch's names, order and layouts (convolutions [out, in, ...], dense layers [in, out])
Weights = Mapping[str, np.ndarray]


class UnsupportedError(Exception):
    """A contender cannot do what a line of the table asks; its text is the reason that the table shows."""


@dataclass(frozen=True)
class Setup:
    """How a contender is made: threads, whether dropout draws, and the exported model's path for those that want it."""

    threads: int
    dropout: bool = True
    onnx: Path | None = None


class Contender(ABC):
    """A net in one framework, bound to a batch.

    Made with the first weights of its own framework; `load` gives all the same weights. What a contender does not do
    raises `UnsupportedError`.
    """

    def __init__(self, row: Workload, setup: Setup):
        self.row, self.setup = row, setup

    @abstractmethod
    def parameters(self) -> int | None:
        """The number of elements that training changes; None where an exported net has them folded together."""

    @abstractmethod
    def load(self, weights: Weights) -> None:
        """Take these weights (the trained ones; running statistics begin alike everywhere)."""

    @abstractmethod
    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        """Take this batch, in whatever form is the quickest."""

    def train(self) -> float:
        """One whole step of training on the batch; its loss, so that it has ended."""
        raise UnsupportedError("it does not train")

    @abstractmethod
    def infer(self) -> np.ndarray:
        """The net's first output for the batch; all outputs are computed."""

    def epoch(self, x: np.ndarray, y: np.ndarray, batch: int) -> float:
        """One shuffled epoch over images (uint8, to be divided by 255), as its users write it; the mean loss."""
        raise UnsupportedError("it does not train")
