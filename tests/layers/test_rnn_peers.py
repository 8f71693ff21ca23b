"""Cells, stacks of cells and convolutional LSTM against Keras on the same weights, in random configurations."""

import keras
import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.engine.harness import temporary_definitions
from prototorch.errors import ShapeError, TextError, UsageError
from prototorch.layers.recurrent_cell import RecurrentCell
from prototorch.model.load import model_from_text
from tests.layers.peers import KERAS, assert_same, keras_side, ours, random_weights

L = keras.layers
CELLS = {"SimpleRNNCell": 1, "LSTMCell": 2, "GRUCell": 1}


def spelled(options):
    words = {True: "true", False: "false"}
    return "  ".join(f"{k}: {words[v] if isinstance(v, bool) else v}" for k, v in options.items())


def random_cells(rng):
    """Texts and layers of Keras of one to three cells, and the lengths of their states."""
    texts, peers, states = [], [], []
    for _ in range(rng.integers(1, 4)):
        kind, units = str(rng.choice(list(CELLS))), int(rng.integers(1, 4))
        options = {
            "use_bias": bool(rng.integers(2)),
            "activation": str(rng.choice(["tanh", "relu", "softsign", "mish"])),
        }
        if kind == "GRUCell":
            options["reset_after"] = bool(rng.integers(2))
        texts.append(f"{kind} {{ units: {units}  {spelled(options)} }}")
        peers.append(getattr(L, kind)(units, **options))
        states.append([units] * CELLS[kind])
    return texts, peers, states


def flat(outputs):
    """Keras nests the states of several cells."""
    if not isinstance(outputs, list | tuple):
        return [outputs]
    return [tensor for each in outputs for tensor in flat(each)]


@pytest.mark.parametrize("seed", range(12))
def test_cells_over_a_sequence(seed):
    rng = np.random.default_rng(seed)
    texts, peers, states = random_cells(rng)
    batch, time = 3, int(rng.integers(1, 5))
    options = {n: bool(rng.integers(2)) for n in ("return_sequences", "return_state", "go_backwards")}
    mask = rng.random((batch, time)) < 0.7 if rng.integers(2) else None
    inputs = [rng.standard_normal((batch, time, 2))]
    if rng.integers(2):
        inputs += [rng.standard_normal((batch, n)) for each in states for n in each]
    text = f"RNN {{ {spelled(options)}  {'  '.join(texts)} }}"
    weights = random_weights(text, inputs, mask)

    def call(layer, tensors):
        first, rest = {}, list(tensors[1:])
        if rest:
            nested = [[rest.pop(0) for _ in each] for each in states]
            first = {"initial_state": nested if len(nested) > 1 else nested[0]}
        return flat(layer(tensors[0], mask=None if mask is None else torch.tensor(mask), **first))

    layer = L.RNN(peers if len(peers) > 1 else peers[0], **options)
    assert_same(ours(text, inputs, weights, mask), keras_side(layer, call, inputs, weights), KERAS)


@pytest.mark.parametrize("kind", CELLS)
def test_one_step(kind):
    text = f"{kind} {{ units: 3 }}"
    inputs = [np.random.default_rng(k).standard_normal((2, 4 if k == 0 else 3)) for k in range(1 + CELLS[kind])]
    weights = random_weights(text, inputs)

    def call(cell, t):
        y, states = cell(t[0], t[1:])
        return [y, *states]

    assert_same(ours(text, inputs, weights), keras_side(getattr(L, kind)(3), call, inputs, weights), KERAS)


def test_bidirectional_of_cells():
    text = "Bidirectional { RNN { return_sequences: true  LSTMCell { units: 2 } } }"
    inputs = [np.random.default_rng(0).standard_normal((3, 4, 2))]
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0]], bool)
    weights = random_weights(text, inputs, mask)
    layer = L.Bidirectional(L.RNN(L.LSTMCell(2), return_sequences=True))

    def call(layer, t):
        return layer(t[0], mask=torch.tensor(mask))

    assert_same(ours(text, inputs, weights, mask), keras_side(layer, call, inputs, weights), KERAS)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutional_lstm(rank, seed):
    rng = np.random.default_rng([rank, seed])
    filters, channels, batch, time = (int(rng.integers(1, 4)) for _ in range(4))
    size = [int(n) for n in rng.integers(3, 6, rank)]
    options = {n: bool(rng.integers(2)) for n in ("return_sequences", "return_state", "go_backwards", "use_bias")}
    options["padding"] = str(rng.choice(["same", "valid"]))
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    windows = {"strides": int(rng.integers(1, 3))}
    if windows["strides"] == 1 and min(size) > 4 and options["padding"] == "same":
        windows["dilation_rate"] = int(rng.integers(1, 3))
    mask = rng.random((batch, time)) < 0.7 if rng.integers(2) else None
    text = f"ConvLSTM{rank}D {{ filters: {filters}  kernel_size: {kernel}  {spelled(options | windows)} }}"
    inputs = [rng.standard_normal((batch, time, *size, channels) if rank == 1 else (batch, time, channels, *size))]
    weights = random_weights(text, inputs, mask)
    keras_format = {} if rank == 1 else {"data_format": "channels_first"}  # Keras' own default for sequences
    layer = getattr(L, f"ConvLSTM{rank}D")(filters, kernel, **keras_format, **options, **windows)

    def call(layer, t):
        return layer(t[0], mask=None if mask is None else torch.tensor(mask))

    there, back = (*range(2, rank + 2), 1, 0), (rank + 1, rank, *range(rank))
    theirs = {n: w.transpose(there) if w.ndim > 1 else w for n, w in weights.items()}
    outputs, grads = keras_side(layer, call, inputs, theirs)
    grads = {n: g.transpose(back) if "kernel" in n else g for n, g in grads.items()}
    assert_same(ours(text, inputs, weights, mask), (outputs, grads), KERAS)


def test_a_cell_of_ones_own():
    """A cell in Python, step by step: the sum of the inputs so far."""
    with temporary_definitions():

        class SumCell(RecurrentCell):
            """The sum of x over the steps."""

            def state_shapes(self):
                return ((2,),)

            def call(self, ctx, x, *states):
                total = x + states[0]
                return total * 2.0, total

        x = np.arange(12, dtype="float32").reshape(2, 3, 2)
        y, last = pt.layers.RNN(SumCell(), return_sequences=True, return_state=True)(pt.tensor(x))
        np.testing.assert_array_equal(y.numpy(), 2 * np.cumsum(x, axis=1))
        np.testing.assert_array_equal(last.numpy(), x.sum(1))
        y = pt.layers.RNN([SumCell(), pt.layers.GRUCell(3)], go_backwards=True)(pt.tensor(x))
        assert y.shape == (2, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RNN { Dense { units: 2 } }", "Dense is no cell: cells are GRUCell, LSTMCell, SimpleRNNCell, StackedRNNCells"),
        ("RNN { }", "RNN needs 'cell'"),
        ("LSTMCell { units: 2 }", "RNN { LSTMCell { ... } } runs it over a sequence"),
        ("Bidirectional { RNN { SimpleRNNCell { units: 0 } } }", "at least 1"),
        ("ConvLSTM2D { filters: 2  kernel_size: 3 }", "the input must have 4 dimensions"),
    ],
)
def test_mistakes_are_named(text, words):
    with pytest.raises((TextError, ShapeError, UsageError), match=words.replace("{", "\\{").replace(".", "\\.")):
        model_from_text(f'name: "n"\ninput {{ name: "x"  shape: [3, 2] }}\n{text}').summary()
