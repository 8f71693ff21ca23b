"""Masks, dropout and errors of the layers over sequences."""

import numpy as np
import pytest

from prototorch import tensor
from prototorch.eager.layer_call import layer_state, run_layer, training, weights_of
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import ShapeError, TextError, UsageError
from prototorch.graph.ir import Graph
from prototorch.initializers import UnitForgetBias
from prototorch.layers import (
    GRU,
    LSTM,
    Bidirectional,
    Dense,
    Embedding,
    LeakyReLU,
    Masking,
    PositionEmbedding,
    SimpleRNN,
    SinePositionEncoding,
    TimeDistributed,
)
from prototorch.spec import Spec


def x(*shape):
    return tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def said(text, *shapes, on=False):
    return trace_layer(Graph(), parse_layer(text), [Spec((2, *s)) for s in shapes], on, "float32")


def test_the_mask_of_an_embedding_reaches_the_recurrent_layer():
    embed, lstm = Embedding(5, 3, mask_zero=True), LSTM(4)
    padded, short = tensor(np.array([[1, 2, 0, 0]])), tensor(np.array([[1, 2]]))
    # Steps that the mask leaves out take no part: the same as not having them, to the last bit.
    assert np.array_equal(lstm(embed(padded)).numpy(), lstm(embed(short)).numpy())


def test_a_mask_passes_where_every_step_comes_out():
    masked = Masking()(x(2, 3, 4))
    mask = masked.mask.numpy()
    assert np.array_equal(GRU(2, return_sequences=True)(masked).mask.numpy(), mask)
    assert GRU(2)(masked).mask is None
    assert np.array_equal(Bidirectional(GRU(2, return_sequences=True))(masked).mask.numpy(), mask)
    assert np.array_equal(TimeDistributed(Dense(2))(masked).mask.numpy(), mask)


def test_a_mask_goes_backwards_with_its_steps():
    masked = Masking()(tensor(np.array([[[1.0], [2.0], [0.0]]], "float32")))
    y = SimpleRNN(2, return_sequences=True, go_backwards=True)(masked)
    assert y.mask.numpy().tolist() == [[False, True, True]]


def test_dropout_draws_once_for_all_steps():
    layer = SimpleRNN(
        3,
        dropout=0.5,
        return_sequences=True,
        recurrent_initializer="zeros",
        bias_initializer="zeros",
        activation="linear",
    )
    ones = tensor(np.ones((8, 5, 4), "float32"))
    layer(ones)
    with training():
        y = layer(ones).numpy()
    assert np.array_equal(y, np.broadcast_to(y[:, :1], y.shape))  # the same features of a sample at every step
    assert len({tuple(row) for row in y[:, 0].tolist()}) > 1  # others of another sample
    assert np.array_equal(layer(ones).numpy(), np.broadcast_to(layer(ones).numpy()[:1], y.shape))


@pytest.mark.parametrize("kind", ["SimpleRNN", "LSTM", "GRU"])
def test_dropout_rests_in_inference(kind):
    plain = said(f"{kind} {{ units: 2 }}", (3, 2))
    drops = said(f"{kind} {{ units: 2  dropout: 0.5  recurrent_dropout: 0.5 }}", (3, 2))
    rng = np.random.default_rng(0)
    weights = {w.name: rng.standard_normal(w.spec.shape).astype("float32") for w in plain.trace.weights.values()}
    inputs = [rng.standard_normal((2, 3, 2)).astype("float32")]
    a, b = (CompiledLayer(s, named_outputs(s), cpu(), weights)(inputs) for s in (plain, drops))
    assert np.array_equal(a["y0"], b["y0"])


@pytest.mark.parametrize("kind", [SimpleRNN, LSTM, GRU])
def test_step_by_step_is_the_sequence(kind):
    """The way that any activation can go, on one that is relu by another name."""
    series = x(3, 4, 2)
    fast = kind(2, activation="relu", return_sequences=True)
    slow = kind(2, activation=LeakyReLU(negative_slope=0.0), return_sequences=True)
    wanted = fast(series).numpy()
    layer_state(slow).weights = weights_of(fast)
    # The products are split by gate, so that the sums round otherwise: a few 1e-7 of numbers near 1.
    np.testing.assert_allclose(slow(series).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_unit_forget_bias():
    begun = UnitForgetBias("ones").values((8,), np.random.default_rng(0), (8, 8))
    assert begun.tolist() == [1.0] * 8
    layer = LSTM(2)
    layer(x(1, 2, 3))
    assert weights_of(layer)["bias"].numpy().tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    layer = LSTM(2, unit_forget_bias=False)
    layer(x(1, 2, 3))
    assert not weights_of(layer)["bias"].numpy().any()


def test_positions_are_added():
    series, layer = x(2, 3, 4), PositionEmbedding(5)
    y = layer(series).numpy()
    assert np.array_equal(y, series.numpy() + weights_of(layer)["position_embeddings"].numpy()[:3])
    y = SinePositionEncoding(max_wavelength=100.0)(series).numpy() - series.numpy()
    wanted = [[np.sin(t), np.cos(t), np.sin(t / 10), np.cos(t / 10)] for t in range(3)]
    np.testing.assert_allclose(y[0], wanted, atol=1e-6)  # one rounding of the sum in float32


def test_losses_of_activity():
    layer = parse_layer("ActivityRegularization { l1: 0.5  l2: 0.25 }")
    run_layer(layer, [tensor([[1.0, -2.0], [3.0, 0.0]])])
    assert [float(loss) for loss in layer_state(layer).losses] == [1.5, 1.75]  # means over the batch


@pytest.mark.parametrize(
    ("text", "shapes", "message"),
    [
        ("LSTM { units: 2 }", [(3,)], r"the input must be \[time, n\]"),
        ("LSTM { units: 2 }", [(3, 2), (2,)], "takes 2 first states, not 1"),
        ("GRU { units: 2 }", [(3, 2), (3,)], r"must have the shape \[2\], not \[3\]"),
        ("TimeDistributed { Dense { units: 2 } }", [(3,)], "a time axis"),
        ("PositionEmbedding { sequence_length: 3 }", [(4, 2)], "there are 4 steps, but sequence_length is 3"),
        ("Masking { }", [(4,)], r"the input must be \[time, n\]"),
        ("Bidirectional { merge_mode: sum  LSTM { units: 2 }  backward_layer: LSTM { units: 3  go_backwards: true } }",
         [(3, 2)], "cannot be merged by sum"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(text, shapes, message):
    with pytest.raises(ShapeError, match=message):
        said(text, *shapes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Bidirectional { Dense { units: 2 } }", "the layer inside must be a recurrent layer .*LSTM.*, not Dense"),
        ("Bidirectional { GRU { units: 2 }  backward_layer: GRU { units: 2 } }", "must go opposite ways"),
        ("Bidirectional { GRU { units: 2  return_state: true }  backward_layer: GRU { units: 2  go_backwards: true } }",
         "differ in return_state"),
        ("Bidirectional { }", "needs 'layer'"),
        ("TimeDistributed { Dense { units: 2 }  Dense { units: 3 } }", "layer"),
        ("LSTM { units: 2  dropout: 1.0 }", "below 1"),
        ("MultiHeadAttention { num_heads: 2 }", "needs 'key_dim'"),
    ],
)  # fmt: skip
def test_mistakes_in_a_text(text, message):
    with pytest.raises(TextError, match=message):
        parse_layer(text)


def test_a_nested_layer_in_python():
    assert parse_layer("TimeDistributed { Dense { units: 2 } }") == TimeDistributed(Dense(2))
    with pytest.raises(UsageError, match="must be a layer"):
        TimeDistributed(3)
