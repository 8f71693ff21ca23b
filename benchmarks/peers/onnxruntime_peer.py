"""ONNX Runtime among the contenders: inference of the exported net."""

from __future__ import annotations

import numpy as np
import onnxruntime

from benchmarks.contender import Contender, Setup, Weights
from benchmarks.workloads import Workload


class OnnxRuntime(Contender):
    """ONNX Runtime on its CPU kernels with all graph optimisations."""

    def __init__(self, row: Workload, setup: Setup):
        super().__init__(row, setup)
        assert setup.onnx is not None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = setup.threads, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(setup.onnx), options, providers=["CPUExecutionProvider"])

    def parameters(self) -> None:
        return None

    def load(self, weights: Weights) -> None:
        pass  # they are in the file

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x = {self.session.get_inputs()[0].name: x}

    def infer(self) -> np.ndarray:
        return self.session.run(None, self.x)[0]
