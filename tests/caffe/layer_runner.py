"""One Caffe layer or net, translated and run on arrays, with its gradients; for tests of translators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.translate import translate_net
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.reader import read_message
from prototorch.caffe.text.upgrade import upgrade_net
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.graph.trace import Trace, trace_node
from prototorch.ops.core import backward_pass, use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec


@dataclass
class LayerRun:
    """blobs: the arrays of all blobs by name. input_gradients: by blob, where one exists. param_gradients: by (layer,
    index). updates: new values of weights that the pass changes, by our names."""

    net: CaffeNet
    blobs: dict[str, np.ndarray]
    input_gradients: dict[str, np.ndarray]
    param_gradients: dict[tuple[str, int], np.ndarray]
    updates: dict[str, np.ndarray]


def translate(
    text: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    phase: str = "TRAIN",
    dtype: str = "float64",
    path: str | None = None,
) -> CaffeNet:
    """The net of a text."""
    message = filter_net(upgrade_net(read_message(text, "NetParameter", path)), phase)
    return translate_net(message, phase, dict(shapes or {}), dtype)


def inputs_text(arrays: Mapping[str, np.ndarray]) -> str:
    """Input layers for arrays."""
    return "".join(
        f'layer {{ name: "in_{n}" type: "Input" top: "{n}" input_param {{ shape {{ '
        + " ".join(f"dim: {d}" for d in a.shape)
        + " } } }\n"
        for n, a in arrays.items()
    )


def run_layer(
    layer_text: str,
    inputs: Mapping[str, np.ndarray],
    params: Mapping[tuple[str, int], np.ndarray] | None = None,
    seeds: Mapping[str, np.ndarray] | None = None,
    phase: str = "TRAIN",
    dtype: str = "float64",
    states: Mapping[str, np.ndarray] | None = None,
    level: str = "plain",
) -> LayerRun:
    """Run layers on inputs. seeds: the gradient of each output blob; none: the loss weights. states: our weights."""
    net = translate(inputs_text(inputs) + layer_text, phase=phase, dtype=dtype)
    trace = Trace(Graph(), phase == "TRAIN", float_dtype=dtype)
    for node in net.net.inputs:
        shape = net.shapes[node.name]
        trace.values[node.name] = trace.graph.input(node.name, Spec(shape, node.dtype))
    for layer_node in net.net.nodes:
        trace_node(trace, layer_node)
    targets = {f"dx:{n.name}": trace.values[n.name] for n in net.net.inputs}
    targets |= {f"dw:{w}": trace.graph.states[w] for w, spec in trace.weights.items() if spec.trainable}
    weights = _weights(net, trace, params or {}, dtype) | dict(states or {})
    results = {f"y:{b}": trace.values[v] for b, v in net.blobs.items()}
    results |= {f"u:{n}": v for n, v in trace.updates.items()}
    found = seeds if seeds is not None else _loss_seeds(net)
    with use_interpreter(trace.graph):
        pairs = [
            (trace.values[net.blobs[b]], trace.graph.constant(np.asarray(s, trace.values[net.blobs[b]].dtype)))
            for b, s in found.items()
        ]
        grads = (
            backward_pass(list(trace.graph.nodes), pairs, list(targets.values())) if pairs else [None] * len(targets)
        )
    results |= {n: g for n, g in zip(targets, grads, strict=True) if g is not None}
    backend = cpu(level)
    variables = Variables()
    for name, array in weights.items():
        variables.create(name, array)
    executor = make_executor(make_plan(trace.graph, results, None, backend), backend, variables)
    blob_of = {v: b for b, v in net.blobs.items()}
    arrays = executor(
        {
            n.name: np.asarray(inputs[blob_of.get(n.name, n.name)], n.dtype)
            for n in net.net.inputs
            if n.name in trace.graph.inputs
        }
    )
    arrays = {n: np.array(a) for n, a in arrays.items()}
    param_gradients = {}
    for param in net.params:
        (ours,) = param.layout.ours
        gradient = arrays.get(f"dw:{param.node}/{ours}")
        if gradient is not None:
            (param_gradients[param.layer, param.index],) = param.layout.transform.to_theirs((gradient,))
    return LayerRun(
        net,
        {n[2:]: a for n, a in arrays.items() if n.startswith("y:")},
        {blob_of.get(n[3:], n[3:]): a for n, a in arrays.items() if n.startswith("dx:")},
        param_gradients,
        {n[2:]: a for n, a in arrays.items() if n.startswith("u:")},
    )


def _loss_seeds(net: CaffeNet) -> dict[str, np.ndarray]:
    return {
        top: np.full(net.shapes[value], weight)
        for layer in net.layers
        for top, value, weight in zip(layer.tops, layer.top_values, layer.loss_weights, strict=False)
        if weight
    }


def _weights(
    net: CaffeNet, trace: Trace, params: Mapping[tuple[str, int], np.ndarray], dtype: str
) -> dict[str, np.ndarray]:
    weights = {n: np.zeros(w.spec.shape, w.spec.dtype) for n, w in trace.weights.items()}
    for param in net.params:
        if (param.layer, param.index) in params:
            array = np.asarray(params[param.layer, param.index], dtype)
            (ours,), (theirs,) = param.layout.ours, param.layout.transform.to_ours((array,))
            weights[f"{param.node}/{ours}"] = np.ascontiguousarray(theirs)
    return weights
