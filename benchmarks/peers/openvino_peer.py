"""OpenVINO among the contenders: inference of the exported net in float32."""

from __future__ import annotations

import numpy as np
import openvino

from benchmarks.contender import Contender, Setup, Weights
from benchmarks.workloads import Workload


class OpenVino(Contender):
    """OpenVINO's CPU plugin for one request at a time; unasked, it would compute in bfloat16 where the CPU can."""

    def __init__(self, row: Workload, setup: Setup):
        super().__init__(row, setup)
        settings = {
            "INFERENCE_NUM_THREADS": setup.threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        core = openvino.Core()
        self.request = core.compile_model(core.read_model(str(setup.onnx)), "CPU", settings).create_infer_request()

    def parameters(self) -> None:
        return None

    def load(self, weights: Weights) -> None:
        pass  # they are in the file

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x = openvino.Tensor(x, shared_memory=True)

    def infer(self) -> np.ndarray:
        self.request.infer([self.x], share_inputs=True)
        return self.request.get_output_tensor(0).data
