"""Solvers of Caffe with the net inside: fields of the text changed. What is accepted trains for two iterations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prototorch import caffe
from tests.fuzz.harness import FuzzFormat
from tests.fuzz.own_files import changed_text

__all__ = ["FORMAT"]

_TEXT = """
net_param {
  name: "net"
  layer { name: "data" type: "DummyData" top: "x" top: "y"
    dummy_data_param { shape { dim: 4 dim: 6 } shape { dim: 4 dim: 3 } data_filler { type: "gaussian" std: 1 } } }
  layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
    inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "act" type: "ReLU" bottom: "fc" top: "fc" }
  layer { name: "loss" type: "EuclideanLoss" bottom: "fc" bottom: "y" top: "loss" }
}
type: "SGD"
base_lr: 0.01
lr_policy: "step"
gamma: 0.5
stepsize: 10
momentum: 0.9
weight_decay: 0.0005
clip_gradients: 10
regularization_type: "L2"
max_iter: 20
iter_size: 2
display: 0
average_loss: 3
random_seed: 7
snapshot: 0
snapshot_after_train: false
solver_mode: CPU
"""


def _generate(rng: random.Random) -> bytes:
    text = _TEXT
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = changed_text(text, rng)
    return text.encode()


def _load(path: Path) -> Any:
    return caffe.get_solver(str(path))


def _run(solver: Any) -> Sequence[np.ndarray]:
    try:
        solver.step(2)
        return [np.array(blob.data) for blobs in solver.net.params.values() for blob in blobs]
    finally:
        solver.close()


FORMAT = FuzzFormat("solver", ".prototxt", _generate, _load, _run)
