"""Recurrent layers, embeddings and their wrappers against Keras and PyTorch on the same weights."""

import keras
import numpy as np
import pytest
import torch

from tests.layers.peers import KERAS, assert_same, keras_side, ours, random_weights, torch_side

L = keras.layers
KIND = {"SimpleRNN": L.SimpleRNN, "LSTM": L.LSTM, "GRU": L.GRU}
STATES = {"SimpleRNN": 1, "LSTM": 2, "GRU": 1}


def sequence(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def spelled(options):
    words = {True: "true", False: "false"}
    return "  ".join(f"{k}: {words[v] if isinstance(v, bool) else v}" for k, v in options.items())


def check_recurrent(kind, options, mask=None, states=False):
    text = f"{kind} {{ units: 3  {spelled(options)} }}"
    inputs = [sequence(4, 5, 2)] + [sequence(4, 3) * (0.5 + i) for i in range(STATES[kind] if states else 0)]
    weights = random_weights(text, inputs, mask)
    layer = KIND[kind](3, **options)

    def call(layer, tensors):
        extra = {"initial_state": tensors[1:] if len(tensors) > 2 else tensors[1]} if states else {}
        return layer(tensors[0], mask=None if mask is None else torch.tensor(mask), **extra)

    assert_same(ours(text, inputs, weights, mask), keras_side(layer, call, inputs, weights), KERAS)


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"return_sequences": True},
        {"return_sequences": True, "return_state": True},
        {"go_backwards": True, "return_sequences": True},
        {"use_bias": False, "activation": "relu"},
    ],
    ids=lambda o: "-".join(o) or "plain",
)
def test_keras(kind, options):
    check_recurrent(kind, options)


@pytest.mark.parametrize("kind", KIND)
def test_first_states(kind):
    check_recurrent(kind, {"return_state": True}, states=True)


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize("backwards", [False, True])
def test_masks(kind, backwards):
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 1], [1, 0, 0, 0, 0]], bool)
    check_recurrent(kind, {"return_sequences": True, "return_state": True, "go_backwards": backwards}, mask)


@pytest.mark.parametrize(
    "activation", ["sigmoid", "hard_sigmoid", "softsign", "elu", "selu", "gelu", "silu", "linear", "mish"]
)
def test_activations(activation):
    """Those the sequence op knows, and one (mish) that goes step by step."""
    check_recurrent("LSTM", {"activation": activation, "recurrent_activation": "hard_sigmoid"})
    check_recurrent("GRU", {"activation": "softplus", "recurrent_activation": activation})


@pytest.mark.parametrize("bias", [True, False])
def test_reset_before(bias):
    check_recurrent("GRU", {"reset_after": False, "use_bias": bias, "return_sequences": True})
    check_recurrent("GRU", {"reset_after": False, "use_bias": bias, "activation": "mish"})
    check_recurrent("GRU", {"reset_after": True, "use_bias": bias, "activation": "mish"})


@pytest.mark.parametrize("mode", ["concat", "sum", "mul", "ave", None])
@pytest.mark.parametrize("inner", [{}, {"return_sequences": True, "return_state": True}], ids=["last", "all"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_bidirectional(mode, inner, kind):
    text = f"Bidirectional {{ merge_mode: {mode or 'none'}  {kind} {{ units: 3  {spelled(inner)} }} }}"
    inputs = [sequence(3, 4, 2)]
    weights = random_weights(text, inputs)
    layer = L.Bidirectional(KIND[kind](3, **inner), merge_mode=mode)
    assert_same(ours(text, inputs, weights), keras_side(layer, lambda f, t: f(t[0]), inputs, weights), KERAS)


@pytest.mark.parametrize("options", [{}, {"return_sequences": True}, {"return_sequences": True, "go_backwards": True}])
def test_outputs_before_the_first_step_that_counts_are_zero(options):
    text = f"GRU {{ units: 3  {spelled(options)} }}"
    inputs = [sequence(3, 4, 2), sequence(3, 3)]
    mask = np.array([[0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)
    weights = random_weights(text, inputs, mask)

    def call(f, t):
        return f(t[0], initial_state=t[1], mask=torch.tensor(mask))

    assert_same(ours(text, inputs, weights, mask), keras_side(L.GRU(3, **options), call, inputs, weights), KERAS)


def test_bidirectional_with_a_mask_and_first_states():
    text = "Bidirectional { LSTM { units: 3  return_sequences: true } }"
    inputs = [sequence(3, 4, 2), *(sequence(3, 3) * k for k in (0.3, -0.5, 0.7, 0.2))]
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], bool)
    weights = random_weights(text, inputs, mask)
    layer = L.Bidirectional(L.LSTM(3, return_sequences=True))

    def both_ways(f, t):
        return f(t[0], initial_state=t[1:], mask=torch.tensor(mask))

    assert_same(ours(text, inputs, weights, mask), keras_side(layer, both_ways, inputs, weights), KERAS)


def test_time_distributed():
    text = "TimeDistributed { Dense { units: 3  activation: tanh } }"
    inputs = [sequence(2, 4, 5)]
    weights = random_weights(text, inputs)
    layer = L.TimeDistributed(L.Dense(3, activation="tanh"))
    assert_same(ours(text, inputs, weights), keras_side(layer, lambda f, t: f(t[0]), inputs, weights), KERAS)


def test_embedding():
    text = "Embedding { input_dim: 6  output_dim: 3 }"
    inputs = [np.array([[0, 1, 5], [5, 5, 2]])]
    weights = random_weights(text, inputs)
    layer = L.Embedding(6, 3)
    assert_same(ours(text, inputs, weights), keras_side(layer, lambda f, t: f(t[0]), inputs, weights), KERAS)
    theirs = torch_side(lambda t, w: torch.nn.functional.embedding(t[0], w["embeddings"]), inputs, weights)
    assert_same(ours(text, inputs, weights), theirs)


def test_masking():
    x = sequence(3, 4, 2)
    x[0, 1], x[1, 2:], x[2, 0, 0] = -1.0, -1.0, -1.0
    layer = L.Masking(-1.0)
    assert_same(ours("Masking { mask_value: -1 }", [x], {}), keras_side(layer, lambda f, t: f(t[0]), [x], {}), KERAS)


def test_lstm_of_pytorch():
    text = "LSTM { units: 3  return_sequences: true  return_state: true }"
    inputs = [sequence(4, 5, 2)]
    weights = random_weights(text, inputs)

    def peer(t, w):
        flat = [w["kernel"].T, w["recurrent_kernel"].T, w["bias"], torch.zeros(12, dtype=torch.float64)]
        zero = torch.zeros(1, 4, 3, dtype=torch.float64)
        y, h, c = torch._VF.lstm(t[0], (zero, zero), flat, True, 1, 0.0, True, False, True)
        return y, h[0], c[0]

    assert_same(ours(text, inputs, weights), torch_side(peer, inputs, weights))


def test_gru_of_pytorch():
    """PyTorch's gates lie in the order r, z, n."""
    text = "GRU { units: 3  return_sequences: true  return_state: true }"
    inputs = [sequence(4, 5, 2)]
    weights = random_weights(text, inputs)
    order = [3, 4, 5, 0, 1, 2, 6, 7, 8]

    def peer(t, w):
        flat = [w["kernel"][:, order].T, w["recurrent_kernel"][:, order].T, w["bias"][0, order], w["bias"][1, order]]
        y, h = torch._VF.gru(t[0], torch.zeros(1, 4, 3, dtype=torch.float64), flat, True, 1, 0.0, True, False, True)
        return y, h[0]

    assert_same(ours(text, inputs, weights), torch_side(peer, inputs, weights))
