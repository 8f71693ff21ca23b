"""MultiHeadAttention against Keras and PyTorch on the same weights."""

import keras
import numpy as np
import pytest
import torch

from prototorch.errors import ShapeError
from tests.layers.peers import KERAS, assert_same, keras_side, ours, random_weights, torch_side


def sequence(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


def check(fields, inputs, call, mask=None, **options):
    text = f"MultiHeadAttention {{ num_heads: 2  key_dim: 3  {fields} }}"
    weights = random_weights(text, inputs, mask)
    layer = keras.layers.MultiHeadAttention(2, 3, flash_attention=False, **options)
    order = [f"{part}/{what}" for part in ("query", "key", "value", "attention_output") for what in ("kernel", "bias")]
    ordered = {n: weights[n] for n in order if n in weights}
    assert_same(ours(text, inputs, weights, mask), keras_side(layer, call, inputs, ordered), KERAS)


def test_self():
    check("", [sequence(2, 4, 5)], lambda f, t: f(t[0], t[0]))


def test_causal():
    check("causal: true", [sequence(2, 4, 5)], lambda f, t: f(t[0], t[0], use_causal_mask=True))


def test_cross_with_scores():
    def call(f, t):
        return f(t[0], t[1], return_attention_scores=True)

    check("return_attention_scores: true", [sequence(2, 4, 5), sequence(2, 6, 3)], call)


def test_cross_causal_counts_from_the_first_step():
    inputs = [sequence(2, 3, 5), sequence(2, 6, 5, seed=2)]
    check("causal: true", inputs, lambda f, t: f(t[0], t[1], use_causal_mask=True))


def test_query_value_key_and_sizes():
    inputs = [sequence(2, 4, 5), sequence(2, 6, 3), sequence(2, 6, 2, seed=2)]
    check(
        "value_dim: 4  output_shape: 7  use_bias: false",
        inputs,
        lambda f, t: f(*t),
        value_dim=4,
        output_shape=7,
        use_bias=False,
    )


def test_a_mask_as_input():
    seen = np.random.default_rng(2).random((2, 4, 4)) < 0.6
    seen[:, :, 0] = True
    x = sequence(2, 4, 5)
    check("", [x, x, x, seen], lambda f, t: f(t[0], t[1], t[2], attention_mask=t[3]))


@pytest.mark.parametrize("causal", [False, True])
def test_masked_keys_are_not_seen_and_masked_queries_see_nothing(causal):
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)

    def call(f, t):
        t[0]._keras_mask = torch.tensor(mask)  # Keras deletes it in the call
        return f(t[0], t[0], use_causal_mask=causal, return_attention_scores=True)[0]

    check("causal: true" if causal else "", [sequence(2, 4, 5)], call, mask)


@pytest.mark.parametrize("causal", [False, True])
def test_pytorch(causal):
    """PyTorch keeps its weights [out, in], and those of query, key and value together."""
    text = f"MultiHeadAttention {{ num_heads: 2  key_dim: 3  causal: {str(causal).lower()} }}"
    inputs = [sequence(2, 4, 6)]
    weights = random_weights(text, inputs)

    def peer(t, w):
        three = ("query", "key", "value")
        into = torch.cat([w[f"{n}/kernel"].reshape(6, 6).T for n in three])
        bias = torch.cat([w[f"{n}/bias"].reshape(6) for n in three])
        x = t[0].transpose(0, 1)
        hidden = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1) if causal else None
        y, _ = torch.nn.functional.multi_head_attention_forward(
            x,
            x,
            x,
            6,
            2,
            into,
            bias,
            None,
            None,
            False,
            0.0,
            w["attention_output/kernel"].reshape(6, 6).T,
            w["attention_output/bias"],
            training=False,
            attn_mask=hidden,
        )
        return y.transpose(0, 1)

    assert_same(ours(text, inputs, weights), torch_side(peer, inputs, weights))


def test_keys_and_values_must_be_as_many():
    with pytest.raises(ShapeError, match="there are 5 keys, but 6 values"):
        random_weights("MultiHeadAttention { num_heads: 2  key_dim: 3 }",
                       [sequence(2, 4, 5), sequence(2, 6, 3), sequence(2, 5, 3)])  # fmt: skip


def test_a_mask_of_another_shape():
    with pytest.raises(ShapeError, match=r"the mask must have the shape \[4, 4\], not \[4, 3\]"):
        random_weights("MultiHeadAttention { num_heads: 2  key_dim: 3 }", [sequence(2, 4, 5)] * 3 + [sequence(2, 4, 3)])
