"""A layer beside its peer: from one table row to an assertion."""

import numpy as np
import torch

from tests.layers.peers import TOLERANCE, assert_same, ours, random_weights, shares, torch_side

# Keras on PyTorch computes means, merges and some others in float32 inside, whatever type it is told: results agree to
# float32's rounding, 6e-8, times some ten operations. Where this is used, a row beside PyTorch checks float64 as well.
SINGLE = 5e-6


def numbers(*shape, seed=1, low=None, high=None):
    """Float64 inputs: normal, or uniform between two numbers."""
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)


def spelled(value):
    """A Python value as a model text says it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(spelled, value))}]"
    return "none" if value is None else str(value)


def text_of(name, options):
    """A layer's text."""
    return f"{name} {{ {'  '.join(f'{k}: {spelled(v)}' for k, v in options.items())} }}"


def tupled(value):
    """Lists as tuples, as Keras wants them."""
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def keras_named(layer, inputs, weights, maps=None, training=False):
    """As `peers.keras_side`, weights matched by name. ``maps``: name -> (our array as Keras', and back)."""
    maps = maps or {}
    same = (lambda a: a, lambda a: a)
    tensors = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    given = tensors if len(tensors) > 1 else tensors[0]
    layer.build([t.shape for t in tensors] if len(tensors) > 1 else tensors[0].shape)
    variables = {v.name: v for v in layer.weights if "seed" not in v.name}
    assert set(variables) == set(weights)
    for name, variable in variables.items():
        variable.assign(maps.get(name, same)[0](weights[name]))
    out = layer(given, training=training)
    (share,) = shares([tuple(out.shape)])
    (out * torch.tensor(share)).sum().backward()
    grads = {f"x{i}": t.grad.numpy() for i, t in enumerate(tensors) if t.grad is not None}
    for name, variable in variables.items():
        if variable.value.grad is not None:
            grads[name] = maps.get(name, same)[1](variable.value.grad.numpy())
    return [out.detach().numpy()], grads


def beside_keras(layer, text, inputs, maps=None, training=False, weights=None, tolerance=TOLERANCE):
    """Assert that the text's layer and Keras' give the same outputs and gradients on the same random weights."""
    weights = random_weights(text, inputs) if weights is None else weights
    mine = ours(text, inputs, weights, training=training)
    assert_same(mine, keras_named(layer, inputs, weights, maps, training), tolerance)


def beside_torch(function, text, inputs, training=False, weights=None):
    """The same for a function ``f(tensors, weights)`` of PyTorch."""
    weights = random_weights(text, inputs) if weights is None else weights
    assert_same(ours(text, inputs, weights, training=training), torch_side(function, inputs, weights))
