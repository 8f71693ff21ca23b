"""nn.RNN, LSTM, GRU and their cells, and packed sequences, beside PyTorch's, in random configurations."""

import numpy as np
import pytest
import torch
from torch.nn.utils import rnn as torch_rnn

import prototorch as pt
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.utils import rnn
from tests.nn.peers import as_ours, as_theirs, build, compare, compare_gradients, compare_results, flat

KINDS = ["RNN", "LSTM", "GRU"]


def random_case(kind, seed):
    """Arguments of a module, sizes of its input, and first states or None."""
    rng = np.random.default_rng([seed, len(kind)])
    size, hidden, layers = (int(n) for n in rng.integers(1, 5, 3))
    layers = min(layers, 3)
    options = {"num_layers": layers, "bias": bool(rng.integers(2)), "bidirectional": bool(rng.integers(2)),
               "batch_first": bool(rng.integers(2))}  # fmt: skip
    if kind == "RNN":
        options["nonlinearity"] = str(rng.choice(["tanh", "relu"]))
    if kind == "LSTM" and hidden > 1 and rng.integers(2):
        options["proj_size"] = int(rng.integers(1, hidden))
    batch, time = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    count, out = layers * (1 + options["bidirectional"]), options.get("proj_size", hidden)
    widths = [out, hidden] if kind == "LSTM" else [out]
    states = [rng.standard_normal((count, batch, n)) for n in widths] if rng.integers(2) else None
    return rng, (size, hidden), options, batch, time, states


def as_hx(states):
    return states if states is None else tuple(states) if len(states) > 1 else states[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(14))
def test_sequences(kind, seed):
    rng, args, options, batch, time, states = random_case(kind, seed)
    shape = (batch, time, args[0]) if options["batch_first"] else (time, batch, args[0])
    inputs = [rng.standard_normal(shape)] + ([as_hx(states)] if states else [])
    compare(kind, args, options, inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_one_sequence_without_a_batch(kind):
    rng = np.random.default_rng(0)
    states = [rng.standard_normal((4, 5)) for _ in range(2 if kind == "LSTM" else 1)]
    options = {"num_layers": 2, "bidirectional": True}
    compare(kind, (3, 5), options, [rng.standard_normal((6, 3)), as_hx(states)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_packed_sequences(kind, seed):
    rng, args, options, batch, time, states = random_case(kind, seed)
    ours, theirs = build(kind, args, options)
    lengths = rng.integers(1, time + 1, batch)
    x = rng.standard_normal((batch, time, args[0]))
    mine, peer = as_ours(x), as_theirs(x)
    hx, their_hx = (f(as_hx(states)) for f in (as_ours, as_theirs))
    how = {"batch_first": True, "enforce_sorted": False}
    packed = rnn.pack_padded_sequence(mine, pt.tensor(lengths), **how)
    their_packed = torch_rnn.pack_padded_sequence(peer, torch.tensor(lengths), **how)
    compare_results(packed.data, their_packed.data)
    assert packed.batch_sizes.tolist() == their_packed.batch_sizes.tolist()
    y, last = ours(packed, hx)
    z, their_last = theirs(their_packed, their_hx)
    y, my_lengths = rnn.pad_packed_sequence(y, batch_first=True, padding_value=2.5)
    z, their_lengths = torch_rnn.pad_packed_sequence(z, batch_first=True, padding_value=2.5)
    assert my_lengths.tolist() == their_lengths.tolist()
    compare_results([y, last], [z, their_last])
    compare_gradients(
        [y, last],
        [z, their_last],
        [mine, *(s for s in flat([hx]) if s is not None), *ours.parameters()],
        [peer, *(s for s in flat([their_hx]) if s is not None), *theirs.parameters()],
    )


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("rows", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(name, rows, bias):
    rng = np.random.default_rng(1)
    states = [rng.standard_normal((*rows, 5)) for _ in range(2 if name == "LSTMCell" else 1)]
    options = {"bias": bias, **({"nonlinearity": "relu"} if name == "RNNCell" else {})}
    compare(name, (4, 5), options, [rng.standard_normal((*rows, 4)), as_hx(states)])
    compare(name, (4, 5), {"bias": bias}, [rng.standard_normal((*rows, 4))])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_packing(batch_first, side):
    arrays = [np.random.default_rng(k).standard_normal((n, 2)) for k, n in enumerate((3, 1, 4))]
    mine, theirs = [as_ours(a) for a in arrays], [as_theirs(a) for a in arrays]
    options = {"batch_first": batch_first, "padding_value": -1.0, "padding_side": side}
    y, z = rnn.pad_sequence(mine, **options), torch_rnn.pad_sequence(theirs, **options)
    compare_results(y, z)
    compare_gradients(y, z, mine, theirs)
    packed = rnn.pack_sequence(mine, enforce_sorted=False)
    their_packed = torch_rnn.pack_sequence(theirs, enforce_sorted=False)
    for a, b in zip(packed, their_packed, strict=True):
        assert a.tolist() == b.tolist()
    for a, b in zip(rnn.unpack_sequence(packed), torch_rnn.unpack_sequence(their_packed), strict=True):
        compare_results(a, b)
    padded, lengths = rnn.pad_packed_sequence(packed, total_length=6)
    compare_results([padded, lengths], list(torch_rnn.pad_packed_sequence(their_packed, total_length=6)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [pt.float16, pt.bfloat16])
def test_narrow_types(kind, dtype):
    module = getattr(pt.nn, kind)(3, 4, 2, bidirectional=True)
    x = pt.randn(5, 2, 3)
    expected = module(x)[0].detach().numpy()
    y = module.to(dtype)(x.to(dtype))[0]
    assert y.dtype == dtype
    np.testing.assert_allclose(y.float().detach().numpy(), expected, atol=0.05)


def packed(count, sizes):
    return rnn.PackedSequence(pt.randn(count, 2), pt.tensor(sizes))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pt.nn.LSTM(0, 3), "input_size must be at least 1, got 0"),
        (lambda: pt.nn.LSTM(2, 3, proj_size=3), "below hidden_size 3"),
        (lambda: pt.nn.RNN(2, 3, nonlinearity="sin"), "'tanh' or 'relu', got 'sin'"),
        (lambda: pt.nn.GRU(2, 3)(pt.randn(4, 1, 5)), "input_size is 2, but the input has 5"),
        (lambda: pt.nn.GRU(2, 3)(pt.randn(1, 1, 4, 2)), "or [time, 2] of one sequence, got [1, 1, 4, 2]"),
        (lambda: pt.nn.GRU(2, 3)(pt.randn(0, 1, 2)), "at least one time step"),
        (lambda: pt.nn.LSTM(2, 3)(pt.randn(4, 1, 2), pt.randn(1, 1, 3)), "a pair (h, c) of tensors"),
        (lambda: pt.nn.GRU(2, 3)(pt.randn(4, 1, 2), pt.randn(1, 2, 3)), "must be [1, 1, 3], got [1, 2, 3]"),
        (lambda: pt.nn.LSTMCell(2, 3)(pt.randn(1, 3)), "expected an input [batch, 2] or [2], got [1, 3]"),
        (lambda: rnn.pack_padded_sequence(pt.randn(3, 2, 1), [1, 3]), "pass enforce_sorted=False"),
        (lambda: rnn.pack_padded_sequence(pt.randn(3, 2, 1), [4, 3]), "from 1 to the 3 steps, got [4 3]"),
        (lambda: rnn.pack_padded_sequence(pt.randn(3, 2, 1), [3]), "there are 2 sequences, but 1 lengths"),
        (lambda: rnn.pack_padded_sequence(pt.randn(3, 1, 1), [1.5]), "lengths must be integers"),
        (lambda: rnn.pad_packed_sequence(pt.randn(3, 2)), "expected a PackedSequence, got Tensor"),
        (lambda: rnn.pad_sequence([]), "got none"),
        (lambda: rnn.pack_padded_sequence(pt.randn(3, 1, 1), 3), "lengths must be integers"),
        (lambda: pt.nn.GRU(2, 3)(packed(5, [3, 3])), "batch_sizes are 6 elements, but the data are [5, 2]"),
        (lambda: pt.nn.GRU(2, 3)(packed(5, [2, 3])), "that never grow, got [2 3]"),
        (lambda: pt.nn.GRU(2, 3)(packed(5, [3, 2])._replace(sorted_indices=pt.tensor([0, 1, 1]))), "an order of the 3"),
        (lambda: pt.nn.GRU(2, 3)(pt.randn(4, 1, 2).double()), "the parameters are prototorch.float32"),
        (lambda: pt.nn.GRU(2, 3)(pt.randn(4, 1, 2), pt.zeros(1, 1, 3).double()), "hx: the input is"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises((UsageError, ShapeError)) as error:
        call()
    assert words in str(error.value)


def test_dropout_between_layers_acts_in_training_alone():
    pt.manual_seed(0)
    module = pt.nn.GRU(3, 16, 2, dropout=0.5)
    x = pt.randn(5, 4, 3)
    assert not np.array_equal(module(x)[0].numpy(), module(x)[0].numpy())
    module.eval()
    assert np.array_equal(module(x)[0].numpy(), module(x)[0].numpy())
