"""prototorch: deep learning from a text file.

    import prototorch as pt
    model = pt.load_model("lenet", classes=10)
    loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    history = model.fit(x, y, validation_split=0.1)

Names are loaded when they are first used, so that ``import prototorch`` itself is light. The exact list of public names
is `__all__`; `tests/test_public_names.py` holds it and those of the public modules.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from prototorch.errors import did_you_mean, explain_word

__version__ = "0.1.0"
__distribution__ = "prototorch-dl"  # by which the command line knows this package from another one

#: public name -> its module and its name there; an empty name stands for the module itself
_PUBLIC = {
    "load_model": ("prototorch.model.load", "load_model"),
    "model_from_bytes": ("prototorch.model.copying", "model_from_bytes"),
    "read_weights": ("prototorch.model.loading.read.read_file", "read_weights"),
    "save": ("prototorch.utils.serialization", "save"),
    "load": ("prototorch.utils.serialization", "load"),
    "models": ("prototorch.interop.shipped_models", ""),
    "generate": ("prototorch.model.generation", "generate"),
    "permutation_importance": ("prototorch.model.permutation_importance", "permutation_importance"),
    "evaluation_report": ("prototorch.model.evaluation_report", "evaluation_report"),
    "generate_stream": ("prototorch.model.generation", "generate_stream"),
    "Weights": ("prototorch.model.weights_block", "Weights"),
    "Model": ("prototorch.model.model", "Model"),
    "Sequential": ("prototorch.model.sequential", "SequentialModel"),
    "Input": ("prototorch.static.symbols", "Input"),
    "Variable": ("prototorch.static.variable", "GraphVariable"),
    "Graph": ("prototorch.static.graph", "StaticGraph"),
    "gradients": ("prototorch.static.gradients", "gradients"),
    "group": ("prototorch.static.variable", "group"),
    "Data": ("prototorch.data.data_block", "Data"),
    "EvaluationResult": ("prototorch.train.evaluation_result", "EvaluationResult"),
    "Callback": ("prototorch.train.callbacks", "Callback"),
    "Layer": ("prototorch.layers.base", "Layer"),
    "Module": ("prototorch.nn.module", "Module"),
    "Function": ("prototorch.eager.function", "Function"),
    "cuda": ("prototorch.cuda", ""),
    "backends": ("prototorch.backends", ""),
    "autograd": ("prototorch.autograd", ""),
    "linalg": ("prototorch.linalg", ""),
    "special": ("prototorch.special", ""),
    "grad": ("prototorch.eager.functions.gradients", "grad"),
    "load_compiled": ("prototorch.compiler.saved_function", "load_compiled"),
    "compile": ("prototorch.compiler.compiled_function", "compile"),
    "training": ("prototorch.eager.layer_call", "training"),
    "manual_seed": ("prototorch.eager.generator", "manual_seed"),
    "Generator": ("prototorch.eager.generator", "Generator"),
    "default_generator": ("prototorch.eager.generator", "default_generator"),
    "errors": ("prototorch.errors", ""),
    "ops": ("prototorch.ops", ""),
    "nn": ("prototorch.nn", ""),
    "layers": ("prototorch.layers", ""),
    "losses": ("prototorch.losses", ""),
    "metrics": ("prototorch.metrics", ""),
    "optimizers": ("prototorch.optimizers", ""),
    "schedules": ("prototorch.optimizers.schedules", ""),
    "callbacks": ("prototorch.train.builtin_callbacks", ""),
    "initializers": ("prototorch.initializers", ""),
    "regularizers": ("prototorch.regularizers", ""),
    "constraints": ("prototorch.constraints", ""),
    "data": ("prototorch.data", ""),
    "optim": ("prototorch.optim", ""),
    "utils": ("prototorch.utils", ""),
    "func": ("prototorch.func", ""),
    "caffe": ("prototorch.caffe", ""),
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return ["__version__", *sorted({**_PUBLIC, **_tensor_names()})]
    if name in _PUBLIC:
        module, attribute = _PUBLIC[name]
        loaded = importlib.import_module(module)
        value = getattr(loaded, attribute) if attribute else loaded
    elif os.path.isdir(os.path.join(__path__[0], name)):  # ``from prototorch import train`` asks here first
        hint = "; TensorFlow's optimizers are in prototorch.optimizers" if name == "train" else ""
        raise AttributeError(f"the package prototorch.{name} has not been imported: import prototorch.{name}{hint}")
    else:
        names = {} if name.startswith("__") else importlib.import_module("prototorch.eager.namespace").NAMES
        if name not in names and not name.startswith("__"):
            names = _tensor_names()
        if name not in names:
            hint = explain_word(name) or f".{did_you_mean(name, [*_PUBLIC, *names])}"
            raise AttributeError(f"prototorch has no attribute {name!r}{hint}")
        value = names[name]
    globals()[name] = value
    return value


def _tensor_names() -> dict[str, Any]:
    """The names of PyTorch's face: functions of tensors (some are nn.functional's, too), element types, modes."""
    names: dict[str, Any] = importlib.import_module("prototorch.eager.namespace").NAMES
    importlib.import_module("prototorch.nn.functional")
    return {**names, **importlib.import_module("prototorch.eager.registry").FUNCTIONS}


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, *_tensor_names(), *(name for name in globals() if name.startswith("__"))])
