"""A row's net as an ONNX file, exported from PyTorch: what the engines for inference are given.

python -m benchmarks.peers.onnx_model ROW BATCH WEIGHTS.npz MODEL.onnx
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import torch

from benchmarks.peers.torch_nets import LRN
from benchmarks.peers.torch_peer import build_net
from benchmarks.peers.torch_weights import load
from benchmarks.workloads import WORKLOADS, Workload


def export(row: Workload, batch: int, weights: str, path: str) -> None:
    """Write the net with these weights for this batch size; opset 17 has the layer normalisation as one node."""
    net = build_net(row).eval()
    with np.load(weights) as arrays:
        load(net, {name: arrays[name] for name in arrays.files})
    LRN.exporting = True
    x, _ = row.batch(batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package says that it is the older one
        torch.onnx.export(net, (torch.from_numpy(x),), path, input_names=["x"], opset_version=17, dynamo=False)


if __name__ == "__main__":
    export(WORKLOADS[sys.argv[1]], int(sys.argv[2]), sys.argv[3], sys.argv[4])
