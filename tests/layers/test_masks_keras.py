"""Masks, beside Keras: what each layer does with the mask of its input, and the mask of its output."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import torch
from keras import layers as K

import prototorch as pt
from prototorch import tensor
from prototorch.eager.layer_call import training as training_phase
from prototorch.eager.layer_call import weights_of
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import ModelWarning
from prototorch.layers.base import Layer
from tests.keras_random.differences import differs

# float64 on both sides; Keras multiplies matrices in float32
TOLERANCE = 1e-5
STEPS = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 1, 1]], bool)
OTHER = np.array([[1, 1, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]], bool)
SHORT = np.array([[1, 1], [1, 0], [0, 1]], bool)


def numbers(*shape, seed=1):
    return np.random.default_rng([seed, *shape]).standard_normal((3, *shape))


def with_mask(x, mask):
    x = torch.tensor(x, requires_grad=x.dtype.kind == "f")
    if mask is not None:
        x._keras_mask = torch.tensor(mask)
    return x


X, Y, Z = numbers(4, 3), numbers(4, 3, seed=2), numbers(2, 3)
A, B, S = STEPS, OTHER, SHORT
MERGE = [([X, Y], [A, B]), ([X, Y], [A, None]), ([X, Y], [None, B])]
ATTENTION = [([X], [A]), ([X, Z], [A, S]), ([X, Y], [None, B]), ([X, Z, numbers(2, 3, seed=4)], [A, S, S])]
SEQUENCE = [([X], [A])]
MAPS = [([numbers(4, 5, 2)], [A])]


def attention(scores, **options):
    """Keras computes attention in two ways, which differ where a query sees nothing; this is the one with scores."""
    layer = K.MultiHeadAttention(2, 3, flash_attention=False)

    def call(query, value=None, *key):
        y, weights = layer(query, query if value is None else value, *key, return_attention_scores=True, **options)
        return (y, weights) if scores else y

    return layer, call


def rows():
    """(our text, Keras' layer, or it and how it is called, inputs with their masks)"""
    for name in ("Add", "Multiply", "Average", "Maximum", "Minimum", "Subtract"):
        yield f"{name} {{ }}", lambda name=name: getattr(K, name)(), MERGE
    yield "Add { }", K.Add, [([X, Y, numbers(4, 3, seed=3)], [A, B, B])]
    yield "Concatenate { axis: 1 }", lambda: K.Concatenate(axis=1), [([X, Z], [A, S]), *MERGE, ([Z, X], [S, None])]
    yield "Concatenate { axis: -1 }", lambda: K.Concatenate(axis=-1), MERGE
    yield "Dot { axes: 2 }", lambda: K.Dot(axes=2), MERGE
    yield "Masking { }", K.Masking, [([X * A[..., None]], [None]), ([X * A[..., None]], [B])]
    yield "Dense { units: 2 }", lambda: K.Dense(2), SEQUENCE
    yield "Softmax { }", K.Softmax, [([X[..., 0]], [A])]
    yield "Softmax { axis: 1 }", lambda: K.Softmax(axis=1), [([X[..., 0]], [A])]
    for text, options in (("axis: -1", {}), ("axis: 1  momentum: 0.5", {"axis": 1, "momentum": 0.5})):
        yield f"BatchNormalization {{ {text} }}", lambda o=options: K.BatchNormalization(**o), SEQUENCE
    for name, cls in (("LSTM", K.LSTM), ("GRU", K.GRU), ("SimpleRNN", K.SimpleRNN)):
        for options in (
            {},
            {"return_sequences": True},
            {"return_sequences": True, "return_state": True},
            {"go_backwards": True},
        ):
            text = "  ".join(f"{k}: true" for k in options)
            yield f"{name} {{ units: 2  {text} }}", lambda c=cls, o=options: c(2, **o), SEQUENCE
    for mode in ("concat", "sum", "none"):
        for sequences in (False, True):
            inner = f"GRU {{ units: 2  return_sequences: {str(sequences).lower()} }}"
            yield (f"Bidirectional {{ merge_mode: {mode}  {inner} }}",
                   lambda m=mode, s=sequences: K.Bidirectional(K.GRU(2, return_sequences=s),
                                                               merge_mode=None if m == "none" else m),
                   SEQUENCE)  # fmt: skip
    for options in ({}, {"keepdims": True}):
        text = "  ".join(f"{k}: true" for k in options)
        yield f"GlobalAveragePooling1D {{ {text} }}", lambda o=options: K.GlobalAveragePooling1D(**o), SEQUENCE
        first = options | {"data_format": "channels_first"}
        text = f"GlobalAveragePooling1D {{ {text}  data_format: channels_first }}"
        yield text, lambda o=first: K.GlobalAveragePooling1D(**o), [([np.swapaxes(X, 1, 2)], [A])]
    yield "SpatialDropout1D { rate: 0 }", lambda: K.SpatialDropout1D(0.0), SEQUENCE
    yield "BatchNormalization { }", K.BatchNormalization, SEQUENCE
    yield "Concatenate { }", K.Concatenate, MERGE
    for name in ("MaxPooling1D", "UpSampling1D", "ZeroPadding1D", "Cropping1D", "GlobalMaxPooling1D"):
        yield f"{name} {{ }}", getattr(K, name), SEQUENCE  # the mask ends, on both sides
    yield "TimeDistributed { GlobalMaxPooling1D { } }", lambda: K.TimeDistributed(K.GlobalMaxPooling1D()), MAPS
    yield "TimeDistributed { Dense { units: 2 } }", lambda: K.TimeDistributed(K.Dense(2)), SEQUENCE
    yield "MultiHeadAttention { num_heads: 2  key_dim: 3 }", lambda: attention(False), ATTENTION
    yield (
        "MultiHeadAttention { num_heads: 2  key_dim: 3  causal: true }",
        lambda: attention(False, use_causal_mask=True),
        ATTENTION,
    )
    yield (
        "MultiHeadAttention { num_heads: 2  key_dim: 3  return_attention_scores: true }",
        lambda: attention(True),
        ATTENTION,
    )


CASES = [(text, make, xs, masks) for text, make, inputs in rows() for xs, masks in inputs]


def ours(text, xs, masks, training):
    layer = parse_layer(text)
    inputs = [tensor(x, requires_grad=x.dtype.kind == "f") for x in xs]
    for x, mask in zip(inputs, masks, strict=True):
        if mask is not None:
            # Keras' mask is of the steps wherever they lie, ours of the leading axes
            x.mask = tensor(mask if x.shape[1] == mask.shape[1] else mask[:, None])
    with training_phase(training), warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        layer(*inputs)
        rng = np.random.default_rng(7)
        for weight in weights_of(layer).values():
            weight.data[...] = rng.uniform(0.1, 1, weight.shape)
        start = {n: np.array(w.numpy()) for n, w in weights_of(layer).items()}
        made = layer(*inputs)
    outs = made if isinstance(made, tuple) else (made,)
    loss = sum((pt.ops.sum(o * share(o.shape)) for o in outs[1:]), pt.ops.sum(outs[0] * share(outs[0].shape)))
    loss.backward()
    after = {n: np.array(w.numpy()) for n, w in weights_of(layer).items() if "moving" in n}
    found = [None if o.mask is None else o.mask.numpy() for o in outs]
    return start, [o.numpy() for o in outs], found, [None if x.grad is None else x.grad.numpy() for x in inputs], after


def share(shape):
    return np.random.default_rng([11, *shape]).standard_normal(shape)


def theirs(make, xs, masks, training, weights):
    made = make()
    layer, call = made if isinstance(made, tuple) else (made, None)
    many = isinstance(
        layer, K.Add | K.Concatenate | K.Dot | K.Subtract | K.Multiply | K.Average | K.Maximum | K.Minimum
    )
    takes = "training" in inspect.signature(type(layer).call).parameters
    options = {"training": training} if takes else {}

    def run():
        inputs = [with_mask(x, m) for x, m in zip(xs, masks, strict=True)]
        if call is not None:
            return inputs, call(*inputs)
        return inputs, layer(inputs, **options) if many else layer(*inputs, **options)

    run()
    variables = [v for v in layer.weights if "seed" not in v.name]
    names = [v.name for v in variables]
    by_name = len(set(names)) == len(names) and set(names) == set(weights)
    for i, variable in enumerate(variables):
        value = weights[variable.name] if by_name else list(weights.values())[i]
        variable.assign(value.reshape(variable.shape))
    inputs, out = run()
    outs = list(out) if isinstance(out, tuple | list) else [out]
    sum((o * torch.tensor(share(tuple(o.shape)))).sum() for o in outs).backward()
    found = [getattr(o, "_keras_mask", None) for o in outs]
    after = {v.name: v.numpy() for v in variables if "moving" in v.name}
    found = [None if m is None else m.numpy() for m in found]
    grads = [None if x.grad is None else x.grad.numpy() for x in inputs]
    return [o.detach().numpy() for o in outs], found, grads, after


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask attached to it:UserWarning")
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("text", "make", "xs", "masks"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_masked_inputs_give_what_keras_gives(text, make, xs, masks, training):
    weights, outputs, found, grads, after = ours(text, xs, masks, training)
    their_outputs, their_found, their_grads, their_after = theirs(make, xs, masks, training, weights)
    for a, b in zip(outputs, their_outputs, strict=True):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)
    for a, b in zip(grads, their_grads, strict=True):
        np.testing.assert_allclose(0 if a is None else a, 0 if b is None else b, rtol=TOLERANCE, atol=TOLERANCE)
    for name, value in after.items():
        np.testing.assert_allclose(value, their_after[name], rtol=TOLERANCE, err_msg=name)
    if "go_backwards" in text:
        return  # Keras does not turn the mask with the steps; test_sequence_layers has ours
    for output, a, b in zip(outputs, found, their_found, strict=True):
        if output.ndim == 4:
            continue  # attention weights: Keras leaves the mask of its own softmax there
        # a mask that is True everywhere is as good as none
        shape = output.shape[:2]
        a, b = (np.ones(shape, bool) if m is None else m for m in (a, b))
        np.testing.assert_array_equal(a, b)


def peer(layer):
    """Keras' layer of that name with the arguments that it must have, None where there is none."""
    cls = getattr(K, type(layer).__name__, None)
    if cls is None:
        return None
    values = layer.field_values()
    needs = [p for p in inspect.signature(cls.__init__).parameters.values() if p.default is p.empty and p.kind == 1]
    arguments = {p.name: values[p.name] for p in needs if p.name != "self"}
    if isinstance(arguments.get("layer"), Layer):
        arguments["layer"] = K.LSTM(2)
    if "cell" in arguments:
        arguments["cell"] = K.LSTMCell(2)
    if "cells" in arguments:
        arguments["cells"] = [K.LSTMCell(2)]
    if "activation" in arguments:
        arguments["activation"] = "relu"
    arguments |= {"num_tokens": 3} if cls is K.CategoryEncoding else {}
    arguments |= {"bin_boundaries": [0.0]} if cls is K.Discretization else {}
    return cls(**arguments)


# layers with another policy than Keras' layer of their name, by a row of docs/from-keras.md
DELIBERATE = {"Permute", "Dot"} if differs("Masks behind Permute and Dot") else set()
NEEDS_TENSORFLOW = {"TextVectorization", "IntegerLookup"}  # Keras refuses to make the layer without it


@pytest.mark.parametrize("name", Layer.members())
def test_a_layer_takes_masks_where_keras_does(name):
    cls = Layer.members()[name]
    layer = None if name in DELIBERATE | NEEDS_TENSORFLOW else peer(parse_layer(cls.examples[0].text))
    if layer is None:
        assert cls.mask_policy in ("keep", "use", "end")
        return
    assert layer.supports_masking == (cls.mask_policy != "end")
