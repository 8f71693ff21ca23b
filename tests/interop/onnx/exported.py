"""Models that are exported to ONNX, and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from prototorch.engine.harness.case import Case
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.symbolic import top_names
from prototorch.layers.add_loss import AddLoss
from prototorch.layers.sampling import Noise
from prototorch.layers.stream_recurrent import StreamRecurrentLayer
from prototorch.model.model import Model

onnxruntime.set_default_logger_severity(4)


def refusal_of(case: Case) -> str | None:
    """Words of the reason why a layer cannot be exported for batches of any size; None where it can."""
    if isinstance(case.instance, StreamRecurrentLayer):
        return "reads time along the first axis"
    instance = case.instance
    if isinstance(instance, Noise) or getattr(instance, "always", False) is True:
        return "draws random numbers"
    if type(instance).__module__.endswith(("_loss", "class_accuracy")) and not isinstance(instance, AddLoss):
        return "one number for the whole batch" if getattr(instance, "reduction", None) != "none" else None
    return None


def model_of(case: Case) -> Model:
    """A model of one layer, with the case's weights."""
    inputs = tuple(InputNode(f"x{i}", tuple(s.shape[1:]), s.dtype) for i, s in enumerate(case.specs("float32")))
    tops = tuple(top_names("layer", case.instance.output_count()))
    model = Model(Net("net", inputs, (LayerNode("layer", case.instance, tuple(i.name for i in inputs), tops),), tops))
    model.build()
    for name, array in case.weights("float32").items():
        model.weights[name][...] = np.abs(array) + 0.5 if "variance" in name else array
    return model


def scatter_weights(model: Model, seed: int = 0) -> None:
    """Give scales, shifts and running statistics values that are not neutral."""
    rng = np.random.default_rng(seed)
    model.build()
    for name, array in model.weights.items():
        if array.dtype.kind != "f":
            continue
        if "variance" in name or "gamma" in name:
            array[...] = rng.uniform(0.5, 1.5, array.shape)
        elif array.ndim == 1:
            array[...] = rng.normal(0, 0.1, array.shape)


def random_inputs(model: Model, batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of a net: normal, or indices where layers read them so."""
    rng, indices = np.random.default_rng(seed), model.net.index_inputs()
    made = {}
    for node in model.net.inputs:
        shape = (batch, *(n or 5 for n in node.shape))
        high = indices[node.name][1] if node.name in indices else 2
        whole = node.name in indices or not node.dtype.startswith("float")
        made[node.name] = (rng.integers(0, high, shape) if whole else rng.normal(size=shape)).astype(node.dtype)
    return made


def predictions(model: Model, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of the net in their order, without its preprocessing."""
    made = model.predict_on_batch(inputs if len(inputs) > 1 else next(iter(inputs.values())))
    return [made[name] for name in model.outputs] if isinstance(made, dict) else [made]


def run_onnx(path: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of ONNX Runtime for a file."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    return list(session.run(None, {name: array for name, array in inputs.items() if name in wanted}))


def assert_same(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], tolerance: float = 1e-5) -> None:
    """Assert that outputs agree in shape, dtype and elements, relative to the largest of each."""
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        assert mine.dtype == other.dtype
        scale = max(1.0, float(np.abs(mine).max(initial=0)))
        np.testing.assert_allclose(other / scale, mine / scale, rtol=0, atol=tolerance)


def check_file(path: Any) -> onnx.ModelProto:
    """The model in a file, which onnx.checker finds right, shapes included."""
    onnx.checker.check_model(str(path), full_check=True)
    return onnx.load(str(path))
