"""Nets computed token by token: the numbers of whole texts, in any parts, with texts of unequal lengths."""

import numpy as np
import pytest

from prototorch.data.text_source import TextInput
from prototorch.errors import ModelError
from prototorch.layers.base import Layer
from prototorch.model.decoder import find_decoder
from prototorch.model.load import model_from_text

LENGTH, SIZE = 24, 11
HEAD = f"""
input {{ name: "text"  shape: [{LENGTH}]  dtype: int32 }}
preprocess {{ TextVectorization {{ split: character  vocabulary: ["a", "b", "c", "d", "e", "f", "g", "h", "i"] }} }}
"""
EMBEDDING = f'Embedding {{ input_dim: {SIZE}  output_dim: 8  MASK name: "tok" }}\n'
ATTENTION = "MultiHeadAttention { num_heads: 2  key_dim: 4  causal: true }"
LSTM = "LSTM { units: 8  return_sequences: true }"
BODIES = {
    "attention": f"PositionEmbedding {{ sequence_length: {LENGTH} }} Add {{ branch {{ }} branch {{ {ATTENTION} }} }}",
    "two layers": f"SinePositionEncoding {{ }} {ATTENTION} Dense {{ units: 8  activation: gelu }} {ATTENTION}",
    "rotary": "MultiHeadAttention { num_heads: 2  key_dim: 4  causal: true  rotary: RotaryEmbedding { } }",
    "interleaved": "RotaryEmbedding { interleaved: true } " + ATTENTION,
    "scaled": "RMSNormalization { } Scale { axis: 2 } " + ATTENTION,
    "shared heads": "GroupQueryAttention { head_dim: 4  num_query_heads: 4  num_key_value_heads: 2  causal: true }",
    "recurrent": LSTM + " GRU { units: 5  return_sequences: true }",
    "simple": "SimpleRNN { units: 6  return_sequences: true } Dropout { rate: 0.5 } BatchNormalization { }",
    "merged": "Concatenate { branch { Dense { units: 3 } } branch { " + LSTM + " } } LayerNormalization { }",
    "convolutions": "Conv1D { filters: 8  kernel_size: 3  padding: causal  activation: relu } "
    "Conv1D { filters: 8  kernel_size: 2  dilation_rate: 4  padding: causal }",
    "inside a step": "TimeDistributed { Dense { units: 4 } } Activation { activation: softmax } Abs { }",
    "shared layer": 2 * LSTM.replace("units", 'weights: "one"  units'),
}


def make_model(body, mask=False):
    embedding = EMBEDDING.replace("MASK", "mask_zero: true " if mask else "")
    model = model_from_text(f"{HEAD}{embedding}{body}\nDense {{ units: {SIZE} }}")
    model.build()
    randomize(model)
    return model


def randomize(model):
    rng = np.random.default_rng(3)
    for name, value in model.weights.items():
        model.weights[name] = rng.normal(0.5 if name.endswith("variance") else 0, 0.3, value.shape) ** (
            2 if name.endswith("variance") else 1
        )


def decoder_of(model, batch, capacity=LENGTH, sources=None):
    inputs = [TextInput(node.name, None, LENGTH) for node in model.net.inputs]
    return find_decoder(model, inputs[-1], inputs[0] if sources is not None else None, sources, batch, capacity)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_tokens_in_parts_give_the_numbers_of_the_whole_text(body, mask):
    mask = mask and "RMSN" not in body and "Conv" not in body  # which ends masks, with a warning
    model, rng = make_model(body, mask), np.random.default_rng(1)
    ids = rng.integers(0, SIZE, (3, LENGTH)).astype(np.int32)
    ids[0, :2] = 0, 0
    whole = model.predict_on_batch(ids)
    decoder = decoder_of(model, 3)
    assert decoder is not None
    for _ in range(2):  # a second time the sequences begin anew
        decoder.begin()
        lengths = np.zeros(3, int)
        while (lengths < LENGTH).any():
            counts = np.minimum(rng.choice([0, 1, 1, 2, 5], 3), LENGTH - lengths)
            y = decoder.logits([row[n : n + c] for row, n, c in zip(ids, lengths, counts, strict=True)])
            lengths += counts
            for row in np.flatnonzero(counts):
                # float32, sums in another order
                np.testing.assert_allclose(y[row], whole[row, lengths[row] - 1], rtol=2e-4, atol=2e-5)


PAIRS = f"""
input {{ name: "source"  shape: [6]  dtype: int32 }}
input {{ name: "begun"  shape: [{LENGTH}]  dtype: int32 }}
preprocess {{ TextVectorization {{ split: character  vocabulary: ["a", "b", "c"]  start_token: "<"  end_token: ">" }} }}
Embedding {{ name: "source_tokens"  bottom: "source"  input_dim: {SIZE}  output_dim: 8  mask_zero: true }}
LSTM {{ name: "encoder"  top: ["read", "h", "c"]  units: 8  return_sequences: true  return_state: true }}
Embedding {{ name: "target_tokens"  bottom: "begun"  input_dim: {SIZE}  output_dim: 8  mask_zero: true }}
LSTM {{ name: "decoder"  bottom: ["target_tokens", "h", "c"]  units: 8  return_sequences: true }}
MultiHeadAttention {{ name: "attention"  bottom: ["decoder", "read"]  num_heads: 2  key_dim: 4 }}
Concatenate {{ bottom: ["decoder", "attention"] }}
Dense {{ units: {SIZE} }}
"""


def test_a_text_that_is_read_is_computed_once():
    model, rng = model_from_text(PAIRS), np.random.default_rng(2)
    model.build()
    randomize(model)
    sources = rng.integers(0, SIZE, (2, 6)).astype(np.int32)
    sources[0, 3:] = 0
    ids = rng.integers(0, SIZE, (2, LENGTH)).astype(np.int32)
    ids[1, 0] = 0
    decoder = decoder_of(model, 2, sources=sources)
    assert decoder is not None
    whole = model.predict_on_batch([sources, ids])
    for n in range(LENGTH):
        np.testing.assert_allclose(decoder.logits(ids[:, n : n + 1]), whole[:, n], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "body",
    [
        "MultiHeadAttention { num_heads: 2  key_dim: 4 }",
        "Bidirectional { LSTM { units: 4  return_sequences: true } }",
        "LSTM { units: 4  return_sequences: true  go_backwards: true }",
        "Activation { activation: Softmax { axis: 1 } }",
        "Dense { units: 8  activation: Softmax { axis: 1 } }",
        "LayerNormalization { axis: 1 }",
        "BatchNormalization { axis: 1 }",
        "PReLU { }",
        "CumSum { axis: 1 }",
        "Slice { axes: 1  starts: 1  stops: 24 }",
        "Permute { dims: [2, 1] } Dense { units: 24 } Permute { dims: [2, 1] }",
        "Conv1D { filters: 8  kernel_size: 3  padding: same }",
    ],
)
def test_a_net_that_needs_other_steps_has_no_decoder(body):
    assert decoder_of(make_model(body), 1) is None


ON_SEQUENCES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, cls in Layer.members().items()
    for number, example in enumerate(cls.examples)
    if len(example.inputs) == 1 and len(example.inputs[0]) == 2 and example.dtype == "float32" and not cls.outputs > 1
]


@pytest.mark.parametrize("example", ON_SEQUENCES)
@pytest.mark.filterwarnings("ignore::prototorch.errors.ModelWarning")
def test_a_layer_with_a_decoder_gives_the_numbers_of_its_whole_sequence(example):
    steps, features = example.inputs[0]
    try:
        model = model_from_text(
            f'input {{ name: "text"  shape: [{steps}]  dtype: int32 }}\n'
            'preprocess { TextVectorization { split: character  vocabulary: ["a", "b", "c"] } }\n'
            f"Embedding {{ input_dim: 5  output_dim: {features} }}\n{example.text}"
        )
        model.build()
    except ModelError:
        return  # not behind an Embedding
    randomize(model)
    ids = np.random.default_rng(4).integers(0, 5, (2, steps)).astype(np.int32)
    decoder = decoder_of(model, 2, capacity=steps)
    if decoder is None:
        assert not type(model.net.nodes[-1].layer).independent_steps or "axis" in example.text
        return
    whole = np.asarray(model.predict_on_batch(ids))
    for n in range(steps):
        np.testing.assert_allclose(decoder.logits(ids[:, n : n + 1]), whole[:, n], rtol=2e-4, atol=2e-5)


def test_weights_that_are_set_later_count():
    model = make_model(BODIES["attention"])
    decoder, ids = decoder_of(model, 1), np.arange(LENGTH, dtype=np.int32)[None] % SIZE
    first = decoder.logits(ids[:, :5])
    model.weights["tok/embeddings"] = model.weights["tok/embeddings"] * 2
    decoder.begin()
    second = decoder.logits(ids[:, :5])
    assert np.abs(first - second).max() > 0.01
    np.testing.assert_allclose(second[0], model.predict_on_batch(ids)[0, 4], rtol=2e-4, atol=2e-5)
