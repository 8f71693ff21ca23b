"""Attention without projections, grouped queries and rotary embedding against Keras, PyTorch and their formulas."""

import keras
import numpy as np
import pytest
import torch

from prototorch.errors import ShapeError, UsageError
from prototorch.layers import Dense, GroupQueryAttention, MultiHeadAttention
from tests.layers.peers import KERAS, TOLERANCE, assert_same, keras_side, ours, random_weights, torch_side

L = keras.layers


def words(options):
    return "  ".join(f"{k}: {str(v).lower()}" for k, v in options.items())


def masks_of(rng, inputs):
    """A mask of the query; Keras' masks must leave each query a key."""
    found = rng.random(inputs[0].shape[:2]) < 0.7
    found[:, 0] = True
    return found


@pytest.mark.parametrize("kind", ["Attention", "AdditiveAttention"])
@pytest.mark.parametrize("seed", range(8))
def test_scores(kind, seed):
    rng = np.random.default_rng(seed)
    t, s, n = (int(k) for k in rng.integers(2, 6, 3))
    options = {"use_scale": bool(rng.integers(2))}
    if kind == "Attention":
        options["score_mode"] = str(rng.choice(["dot", "concat"]))
    causal, scores = (bool(k) for k in rng.integers(0, 2, 2))
    inputs = [rng.standard_normal((2, t, n)), rng.standard_normal((2, s, n))]
    if rng.integers(2):
        inputs = [inputs[0], rng.standard_normal((2, s, 3)), rng.standard_normal((2, s, n))]
    mask = masks_of(rng, inputs) if rng.integers(2) else None
    text = (
        f"{kind} {{ {words(options)}  causal: {str(causal).lower()}  return_attention_scores: {str(scores).lower()} }}"
    )
    weights = random_weights(text, inputs, mask)
    layer = getattr(L, kind)(**options)

    def call(layer, tensors):
        given = None if mask is None else [torch.tensor(mask), None]
        return layer(list(tensors), mask=given, use_causal_mask=causal, return_attention_scores=scores)

    assert_same(ours(text, inputs, weights, mask), keras_side(layer, call, inputs, weights), KERAS)


@pytest.mark.parametrize("seed", range(6))
def test_grouped_queries(seed):
    rng = np.random.default_rng(seed)
    groups, each, size, t = (int(k) for k in rng.integers(1, 4, 4))
    causal, bias, scores = (bool(k) for k in rng.integers(0, 2, 3))
    inputs = [rng.standard_normal((2, t, 4))]
    if rng.integers(2):
        inputs = [*inputs, rng.standard_normal((2, t + 1, 3))]
    fields = {"head_dim": size, "num_query_heads": groups * each, "num_key_value_heads": groups, "use_bias": bias}
    text = f"GroupQueryAttention {{ {words(fields | {'causal': causal, 'return_attention_scores': scores})} }}"
    weights = random_weights(text, inputs)
    layer = L.GroupQueryAttention(**fields, flash_attention=False)

    def call(layer, tensors):
        return layer(tensors[0], tensors[-1], use_causal_mask=causal, return_attention_scores=scores)

    parts = ("query", "key", "value", "attention_output")
    order = [f"{part}/{what}" for part in parts for what in ("kernel", "bias")]
    ordered = {n: weights[n] for n in order if n in weights}
    assert_same(ours(text, inputs, weights), keras_side(layer, call, inputs, ordered), KERAS)


@pytest.mark.parametrize("heads", [(), (3,)], ids=["vectors", "heads"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_pairs_are_complex_numbers_that_are_turned(heads, interleaved):
    x = np.random.default_rng(0).standard_normal((2, 5, *heads, 6))
    text = f"RotaryEmbedding {{ max_wavelength: 50  scaling_factor: 2  interleaved: {str(interleaved).lower()} }}"

    def peer(t, w):
        (x,) = t
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :3], x[..., 3:])
        turned = torch.complex(a, b)
        angle = (torch.arange(5)[:, None] / 2) * 50.0 ** (-torch.arange(3, dtype=torch.float64) / 3)
        turned = turned * torch.polar(torch.ones_like(angle), angle).reshape(5, *(1,) * len(heads), 3)
        parts = torch.stack([turned.real, turned.imag], -1 if interleaved else -2)
        return parts.flatten(-2)

    assert_same(ours(text, [x], {}), torch_side(peer, [x], {}), TOLERANCE)


@pytest.mark.parametrize(
    "kind",
    [
        "MultiHeadAttention { num_heads: 2  key_dim: 4",
        "GroupQueryAttention { head_dim: 4  num_query_heads: 2  num_key_value_heads: 1",
    ],
)
def test_with_rotary_embedding_only_distances_count(kind):
    """Equal inputs at all steps, later in the sequence: the same weights for the same distances."""
    text = f"{kind}  return_attention_scores: true  rotary: RotaryEmbedding {{ }} }}"
    x = np.broadcast_to(np.random.default_rng(1).standard_normal((1, 1, 3)), (1, 6, 3)).copy()
    weights = random_weights(text, [x])
    scores = np.log(ours(text, [x], weights)[0][1][0])
    for head in scores:
        differences = head - np.diag(head)[:, None]
        for distance in range(-3, 4):
            diagonal = np.diagonal(differences, distance)
            np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-10)
        assert np.ptp(head) > 1e-3


def test_mistakes_are_named():
    with pytest.raises(UsageError, match="4 heads of queries do not divide into 3"):
        GroupQueryAttention(2, 4, 3)
    with pytest.raises(UsageError, match="rotary must be a RotaryEmbedding, not Dense"):
        MultiHeadAttention(2, 4, rotary=Dense(2))
    with pytest.raises(ShapeError, match="pairs, an even number, not 3"):
        random_weights("RotaryEmbedding { }", [np.ones((1, 2, 3))])
    with pytest.raises(ShapeError, match="a query has 2 features, but a key 3"):
        random_weights("Attention { }", [np.ones((1, 2, 2)), np.ones((1, 2, 3))])
