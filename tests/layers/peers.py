"""A layer beside its peer in Keras or PyTorch: the same weights, inputs and output gradients, all in float64."""

import numpy as np

from prototorch import ops
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.graph.ir import Graph
from prototorch.ops.core import backward_pass, use_interpreter
from prototorch.spec import Spec

# PyTorch computes in float64 as we do, sums of at most a few hundred products: 1e-10 leaves four decades for rounding.
# Keras multiplies matrices in float32 whatever its types: 1e-5 is a hundred roundings.
TOLERANCE, KERAS = 1e-10, 1e-5


def shares(shapes):
    """The gradients of the outputs that both sides are given."""
    rng = np.random.default_rng(5)
    return [rng.standard_normal(s) for s in shapes]


def ours(text, inputs, weights, mask=None, training=False):
    """Outputs, and gradients by x0, x1, ... and by each weight (named without the layer), of sum(outputs * shares)."""
    specs = [Spec(x.shape, str(x.dtype)) for x in inputs]
    said = trace_layer(Graph(), parse_layer(text), specs, training, "float64", mask)
    graph = said.trace.graph
    values = said.variables
    assert {n.split("/", 1)[1] for n in said.trace.weights} == set(weights)
    with use_interpreter(graph):
        floats = [v for v in said.outputs if v.spec.is_float]
        loss = sum(ops.sum(v * r) for v, r in zip(floats, shares([v.shape for v in floats]), strict=True))
        found = backward_pass(list(graph.nodes), [(loss, graph.constant(np.float64(1)))], list(values.values()))
    grads = {n.split("/", 1)[-1]: g for n, g in zip(values, found, strict=True) if g is not None}
    program = CompiledLayer(said, named_outputs(said) | grads, cpu(), {f"layer/{n}": w for n, w in weights.items()})
    made = program(inputs, mask)
    return [made[f"y{i}"] for i in range(len(said.outputs))], {n: made[n] for n in grads}


def random_weights(text, inputs, mask=None):
    """Random values for all weights of the layer, by name without the layer."""
    specs = [Spec(x.shape, str(x.dtype)) for x in inputs]
    said = trace_layer(Graph(), parse_layer(text), specs, False, "float64", mask)
    rng = np.random.default_rng(3)
    return {n.split("/", 1)[1]: 0.5 * rng.standard_normal(w.spec.shape) for n, w in said.trace.weights.items()}


def torch_side(function, inputs, weights):
    """Outputs and gradients of a function of torch tensors ``function(inputs, weights)``, as `ours` gives them."""
    import torch

    tensors = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    params = {n: torch.tensor(w, requires_grad=True) for n, w in weights.items()}
    made = function(tensors, params)
    outs = list(made) if isinstance(made, tuple | list) else [made]
    loss = sum((o * torch.tensor(r)).sum() for o, r in zip(outs, shares([tuple(o.shape) for o in outs]), strict=True))
    loss.backward()
    grads = {f"x{i}": t.grad for i, t in enumerate(tensors)} | {n: p.grad for n, p in params.items()}
    return [o.detach().numpy() for o in outs], {n: g.numpy() for n, g in grads.items() if g is not None}


def keras_side(layer, call, inputs, weights):
    """As `torch_side` for a Keras layer: ``call(layer, tensors)``; ``weights`` in the order of ``layer.weights``."""
    import torch

    tensors = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    call(layer, tensors)  # builds it
    assert len(layer.weights) == len(weights), [w.path for w in layer.weights]
    for variable, value in zip(layer.weights, weights.values(), strict=True):
        variable.assign(value.reshape(variable.shape))
    for t in tensors:
        t.grad = None
    made = call(layer, tensors)
    outs = list(made) if isinstance(made, tuple | list) else [made]
    loss = sum((o * torch.tensor(r)).sum() for o, r in zip(outs, shares([tuple(o.shape) for o in outs]), strict=True))
    loss.backward()
    grads = {f"x{i}": t.grad for i, t in enumerate(tensors) if t.grad is not None}
    for name, variable in zip(weights, layer.weights, strict=True):
        if variable.value.grad is not None:
            grads[name] = variable.value.grad.reshape(weights[name].shape)
    return [o.detach().numpy() for o in outs], {n: g.numpy() for n, g in grads.items()}


def assert_same(mine, theirs, tolerance=TOLERANCE):
    """The same outputs and the same gradients, those that one side does not have being 0."""
    assert len(mine[0]) == len(theirs[0])
    for i, (a, b) in enumerate(zip(mine[0], theirs[0], strict=True)):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"output {i}")
    for name in mine[1].keys() | theirs[1].keys():
        a, b = mine[1].get(name, 0.0), theirs[1].get(name, 0.0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"gradient by {name}")
