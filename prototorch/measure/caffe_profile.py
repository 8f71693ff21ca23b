"""The time of a training step of a Caffe net: layer by layer, forward, backward and update, on random data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.caffe.data import open_blob_source
from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.prediction_layers import DATA_TYPES, is_measure
from prototorch.caffe.interop.shape_settings import shape_settings
from prototorch.caffe.interop.splits import insert_splits
from prototorch.caffe.interop.translate import translate_net
from prototorch.caffe.settings import current_backend
from prototorch.caffe.solver_step import SolverStep
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.reader import read_net_file
from prototorch.errors import DataError, UsageError
from prototorch.graph.plan_printer import describe_plan
from prototorch.measure.machine import measure_peaks
from prototorch.measure.profile import Profile, build_profile
from prototorch.runtime.plan_timing import time_plan
from prototorch.runtime.variables import Variables, initial_value
from prototorch.train.step_inputs import TRAIN
from prototorch.train.synthetic_batch import make_synthetic_batch

__all__ = ["profile_caffe_net"]

Shape = tuple[int, ...]


def profile_caffe_net(
    path: str, batch: int | None = None, rounds: int | None = None, settings: Sequence[str] = ()
) -> Profile | None:
    """Run a training step (SGD with momentum) of a net file of Caffe in the phase TRAIN on random data and measure it.

    None for a net without a loss. batch: in the place of axis 0 of the data. rounds: as of `profile_step`. settings:
    shapes that only data files tell, ``data.shape=[3,227,227]``. Raises FileError, TextError, UsageError.
    """
    text = read_net_file(path)
    message = filter_net(text, "TRAIN", text["state"]["level"], text["state"]["stage"])
    shapes = shape_settings(settings)
    folder = os.path.dirname(os.path.abspath(path))
    message["layer"] = [_with_known_shapes(layer, shapes, batch, folder) for layer in message["layer"]]
    net = translate_net(insert_splits(message), "TRAIN", {})
    if not any(weight for layer in net.layers for weight in layer.loss_weights):
        return None
    backend, variables = current_backend(), Variables()
    for weight in net.weights.values():
        variables.create(weight.name, initial_value(weight, 0), own=True)
    solver = Message("SolverParameter", base_lr=0.01, lr_policy="fixed", momentum=0.9)
    plans = SolverStep(net, variables, backend, solver, 0).plans
    specs = {value: net.specs[value] for value in net.inputs.values()}
    executor, plan = plans.executor(TRAIN, specs), plans.bound_plan(TRAIN, specs)
    feeds = make_synthetic_batch(plans, executor.plan, specs)
    feeds.update({value: np.zeros(specs[value].shape, specs[value].dtype) for value in _targets(net)})
    timing = time_plan(executor, feeds, rounds)
    size = next(iter(specs.values())).shape[0] if specs else 1
    title = f"{plans.net.name}: training step, batch {size}, {backend.name}"
    return build_profile(plans.net, plan, describe_plan(plan, backend, title), timing, size, measure_peaks(backend))


def _with_known_shapes(layer: Message, stated_shapes: Mapping[str, Shape], batch: int | None, folder: str) -> Message:
    """A data or Input layer as an Input layer of these shapes; other layers as they are."""
    if layer["type"] == "Input":
        shapes = [tuple(shape["dim"]) for shape in layer["input_param"]["shape"]]
        shapes = shapes * len(layer["top"]) if len(shapes) == 1 else shapes
    elif layer["type"] in DATA_TYPES:
        shapes = _data_shapes(layer, stated_shapes, batch, folder)
    else:
        return layer
    sizes = [(batch, *shape[1:]) if batch is not None and shape else shape for shape in shapes]
    messages = [Message("BlobShape", dim=list(shape)) for shape in sizes]
    return Message(
        "LayerParameter",
        span=layer.span,
        name=layer["name"],
        type="Input",
        top=list(layer["top"]),
        input_param=Message("InputParameter", shape=messages),
    )


def _data_shapes(layer: Message, stated_shapes: Mapping[str, Shape], batch: int | None, folder: str) -> list[Shape]:
    """The shapes of a data layer's tops: stated, else from its data; labels have one value a sample."""
    tops = layer["top"]
    if any(top in stated_shapes for top in tops):
        sizes = [
            v["batch_size"] for _, v in layer.set_fields() if isinstance(v, Message) and "batch_size" in v.type.fields
        ]
        size = batch or next(iter(sizes), 0) or 1
        return [(size, *stated_shapes.get(top, ())) for top in tops]
    try:
        source = open_blob_source(layer, "TRAIN", folders=(folder,), seed=0)
    except (DataError, UsageError) as error:
        raise UsageError(
            f"the sizes of the blob {tops[0]!r} come from its data only, which cannot be read ({error}); give them: "
            f"--set {tops[0]}.shape=[3,227,227]"
        ) from None
    try:
        return [tuple(source.shapes[top]) for top in tops]
    finally:
        source.close()


def _targets(net: CaffeNet) -> set[str]:
    """The inputs that losses and accuracies read: labels, of which only 0 is surely a class."""
    readers: dict[str, list[str]] = {}
    alias: dict[str, str] = {}
    for layer in net.layers:
        for value in layer.bottom_values:
            readers.setdefault(value, []).append(layer.type)
        if layer.type == "Split":
            alias.update(dict.fromkeys(layer.top_values, layer.bottom_values[0]))
    targets = set()
    for value, types in readers.items():
        if all(is_measure(kind) for kind in types):
            while value in alias:
                value = alias[value]
            targets.add(value)
    return targets & set(net.inputs.values())
