"""One case of a layer in both libraries: outputs, masks, gradients, new statistics and losses, in our layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import torch
from keras.src.backend import get_keras_mask, set_keras_mask

from prototorch import ops
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.graph.trace import LayerContext, Trace, record_layer
from prototorch.layers.base import Layer
from prototorch.layers.channels import MapLayer
from prototorch.ops.core import backward_pass, use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec
from tests.keras_random.differences import differs
from tests.keras_random.layer_cases import LayerCase, keras_layer
from tests.layers.kernel_layouts import Layout, moved, split

NAME = "layer"
#: an argument of Keras' or of PyTorch's that is wrong, a case that it lacks
KERAS_ERRORS = (ValueError, RuntimeError, NotImplementedError, TypeError)
#: variables of Keras' layer that no weight of ours stands for
NORMALIZATION_EXTRAS: dict[str, int] = {}


class KerasRefusesError(Exception):
    """Keras does not take the case."""


@contextmanager
def refusals() -> Iterator[None]:
    """Inside, an error of Keras or PyTorch is a `KerasRefusesError`."""
    try:
        yield
    except KERAS_ERRORS as error:
        raise KerasRefusesError(str(error)) from error


@dataclass
class Results:
    """What a case gives, by names that are the same on both sides."""

    outputs: list[np.ndarray] = field(default_factory=list)
    masks: list[np.ndarray | None] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def output_gradients(case: LayerCase, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """The gradients of the outputs that both sides are given."""
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape) * case.compared_positions(i) for i, shape in enumerate(shapes)]


def our_results(case: LayerCase, weights: dict[str, np.ndarray] | None = None) -> tuple[Results, dict[str, np.ndarray]]:
    """The results of the case, and its weights: random ones if they are not given."""
    graph = Graph()
    trace = Trace(graph, case.training, case.dtype)
    context = LayerContext(trace, NAME, NAME, case.layer, case.layer)
    inputs = [graph.input(f"x{i}", Spec(x.shape, str(x.dtype))) for i, x in enumerate(case.inputs)]
    fed = {f"x{i}": x for i, x in enumerate(case.inputs)}
    for i, mask in enumerate(case.masks):
        if mask is not None:
            fed[f"m{i}"] = mask
            context.set_mask(inputs[i], graph.input(f"m{i}", Spec(fed[f"m{i}"].shape, "bool")))
    with use_interpreter(graph), graph.scope(NAME):
        made = record_layer(context, case.layer, tuple(inputs))
        outputs = made if isinstance(made, tuple) else (made,)
        floats = [y for y in outputs if y.spec.is_float]
        seeds = zip(floats, output_gradients(case, [y.shape for y in floats]), strict=True)
        loss = sum(ops.sum(y * graph.constant(g.astype(y.dtype))) for y, g in seeds)
        extra = sum([*trace.losses, *trace.regularization_losses()], 0.0)
        total = loss + extra
        variables = {v.name: v for v in inputs if v.spec.is_float}
        variables |= {w.name: graph.states[w.name] for w in trace.weights.values() if w.trainable}
        one = graph.constant(np.ones((), total.dtype))
        grads = backward_pass(list(graph.nodes), [(total, one)], list(variables.values()))
    wanted = {f"y{i}": y for i, y in enumerate(outputs)} | {f"extra {i}": v for i, v in enumerate([extra]) if extra}
    wanted |= {f"gradient of {n}": g for n, g in zip(variables, grads, strict=True) if g is not None}
    wanted |= {f"new {n}": v for n, v in trace.updates.items()}
    masks = [context.mask(y) for y in outputs]
    wanted |= {f"mask {i}": m for i, m in enumerate(masks) if m is not None}
    if weights is None:
        rng = np.random.default_rng(3)
        weights = {n: _initial(rng, n, w.spec.shape).astype(case.dtype) for n, w in trace.weights.items()}
    run = make_executor(make_plan(graph, wanted, None, cpu()), cpu(), {n: w.copy() for n, w in weights.items()})
    done = {n: np.array(a) for n, a in run({n: fed[n] for n in run.plan.inputs}).items()}
    ys = [done.pop(f"y{i}") for i in range(len(outputs))]
    ms = [done.pop(f"mask {i}") if m is not None else None for i, m in enumerate(masks)]
    return Results(ys, ms, {n.replace(f" {NAME}/", " ", 1): a for n, a in done.items()}), weights


def _initial(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = rng.standard_normal(shape) * 0.5
    return np.abs(values) + 0.3 if "variance" in name else values


def keras_takes(case: LayerCase) -> None:
    """Call Keras' layer. Raises KerasRefusesError for what it does not take."""
    keras_results(case, None)


def keras_results(case: LayerCase, weights: dict[str, np.ndarray] | None) -> Results:
    """The same by Keras' layer with the same weights; without weights only the first call is made."""
    there = (lambda a: np.moveaxis(a, 1, -1)) if case.is_channels_last else (lambda a: a)
    back = (lambda a: np.moveaxis(a, -1, 1)) if case.is_channels_last else (lambda a: a)
    with refusals():
        layer = keras_layer(case.layer, ndim=case.inputs[0].ndim, **case.words)
    tensors = [torch.tensor(there(x).copy(), requires_grad=x.dtype.kind == "f") for x in case.inputs]
    call = _caller(case, layer, tensors)
    with torch.no_grad(), refusals():
        call(training=False)  # builds it
        _ = layer.losses
    if weights is None:
        return Results()
    assign = WeightNames(case, layer, weights)
    assign.give()
    for tensor, mask in zip(tensors, case.masks, strict=True):
        if mask is not None:
            set_keras_mask(tensor, torch.tensor(mask))
    with refusals():
        made = call(training=case.training)
    outputs = list(made) if isinstance(made, list | tuple) else [made]
    grads = output_gradients(case, [back(y.detach().numpy()).shape for y in outputs if y.dtype.is_floating_point])
    floats = [y for y in outputs if y.dtype.is_floating_point]
    loss = sum((y * torch.tensor(there(g).astype(case.dtype))).sum() for y, g in zip(floats, grads, strict=True))
    extra = sum(layer.losses, 0.0)
    total = loss + extra
    arrays = {}
    if total.requires_grad:
        with refusals():
            total.backward()
    for i, tensor in enumerate(tensors):
        if tensor.grad is not None:
            arrays[f"gradient of x{i}"] = back(tensor.grad.numpy())
    arrays |= {f"gradient of {n}": g for n, g in assign.gradients()}
    if layer.losses:
        arrays["extra 0"] = np.asarray(float(extra))
    if case.training:
        arrays |= {f"new {n}": a for n, a in assign.statistics()}
    masks = [get_keras_mask(y) for y in outputs]
    return Results([back(y.detach().numpy()) for y in outputs], [m if m is None else m.numpy() for m in masks], arrays)


def _caller(case: LayerCase, layer: keras.layers.Layer, tensors: list[Any]) -> Any:
    name = type(case.layer).__name__
    options = {k: v for k, v in case.call.items() if v}
    if name == "MultiHeadAttention":
        query, *rest = tensors
        value, key = [*rest, None, None][:2] if rest else (query, None)
        return lambda training: layer(query, value, key, training=training, **options)
    if name in ("SimpleRNN", "LSTM", "GRU") and len(tensors) > 1:
        states = tensors[1:] if len(tensors) > 2 else tensors[1]
        mask = case.masks[0]  # given by hand, see the row "A mask beside first states"
        options = {} if mask is None or not differs("A mask beside first states") else {"mask": torch.tensor(mask)}
        return lambda training: layer(tensors[0], initial_state=states, training=training, **options)
    given = tensors if len(tensors) > 1 else tensors[0]
    return lambda training: layer(given, training=training)


class WeightNames:
    """Which variable of a Keras layer is which of our weights: by the end of its path, and transposed as it needs."""

    def __init__(self, case: LayerCase, layer: keras.layers.Layer, weights: dict[str, np.ndarray]):
        self.case = case
        self.variables: dict[str, tuple[Any, np.ndarray]] = {}
        variables = [v for v in layer.weights if "seed" not in v.path]
        for full, array in weights.items():
            parts = full.split("/")[1:]
            found = [v for v in variables if _path_ends(v.path, parts)]
            assert len(found) == 1, f"{full}: {[v.path for v in variables]}"
            self.variables["/".join(parts)] = (found[0], array)
        assert len(self.variables) == len(variables) - NORMALIZATION_EXTRAS.get(type(case.layer).__name__, 0)

    def layout(self, name: str, array: np.ndarray) -> Layout:
        """How this weight goes to Keras' layout and back."""
        shape = self.case.inputs[0].shape
        return _layout(self.case.layer, name, array, shape[1] if self.case.is_channels_last else shape[-1])

    def give(self) -> None:
        """Assign our values."""
        for name, (variable, array) in self.variables.items():
            to, _ = self.layout(name, array)
            variable.assign(to(array).reshape(tuple(variable.shape)).copy())

    def gradients(self) -> list[tuple[str, np.ndarray]]:
        """The gradients in our layout."""
        grads = [(n, v.value.grad, a) for n, (v, a) in self.variables.items()]
        return [(n, self.layout(n, a)[1](g.numpy()).reshape(a.shape)) for n, g, a in grads if g is not None]

    def statistics(self) -> list[tuple[str, np.ndarray]]:
        """The weights that are not trained, as they are after the call."""
        named = [(n, v, a) for n, (v, a) in self.variables.items() if not v.trainable and "moving" in n]
        return [(n, v.value.detach().numpy().reshape(a.shape)) for n, v, a in named]


def _path_ends(path: str, parts: list[str]) -> bool:
    """Whether a variable's path names these parts: wrappers and cells add names of their own."""
    steps = path.split("/")
    if steps[-1] != parts[-1]:
        return False
    prefix = parts[0] if len(parts) > 1 else ""
    words = {"forward_layer": "forward", "backward_layer": "backward"}
    word = "" if prefix == "layer" or prefix.endswith("activation") else words.get(prefix, prefix)
    return not word or any(step.startswith(word) for step in steps[:-1])


def _layout(layer: Layer, name: str, array: np.ndarray, channels: int) -> Layout:
    """How a weight goes to Keras' layout and back."""
    if not isinstance(layer, MapLayer) or array.ndim < 3:
        return (lambda a: a, lambda a: a)
    is_depthwise = name.startswith("depthwise") or (name == "kernel" and type(layer).__name__.startswith("Depthwise"))
    return split(array.ndim - 2, channels) if is_depthwise else moved(array.ndim - 2)
