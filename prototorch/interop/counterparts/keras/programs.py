"""Layers of Keras that cannot be read as data, with what to do about it."""

from __future__ import annotations

from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.row import CounterpartRows

ROWS = CounterpartRows(
    system="keras",
    rows=(
        KerasRow(
            name="Lambda", reason="it holds a program of Python, which is not run: replace it by a layer before saving"
        ),
        KerasRow(
            name="TFOpLambda",
            reason="a function of TensorFlow that Keras 2 has written down: replace it by a layer, or save with Keras "
            "3",
        ),
        KerasRow(
            name="SlicingOpLambda",
            reason="a slice that Keras 2 has written down: replace it by a layer, or save with Keras 3",
        ),
        KerasRow(name="TensorFlowOpLayer", reason="an op of TensorFlow: replace it by a layer before saving"),
        KerasRow(name="TFSMLayer", reason="it calls a SavedModel: convert the model that it calls"),
        KerasRow(
            name="TorchModuleWrapper",
            reason="it holds a pickled module of PyTorch, which is not run: save its state_dict() instead",
        ),
        KerasRow(name="JaxLayer", reason="it holds a function of JAX, which is not run"),
        KerasRow(name="FlaxLayer", reason="it holds a module of Flax, which is not run"),
    ),
)
