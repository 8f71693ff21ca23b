"""Transformers of nn beside PyTorch's, with masks, in random configurations."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import ShapeError, UsageError
from tests.nn.peers import as_ours, as_theirs, build, compare_gradients, compare_results


def random_case(seed):
    rng = np.random.default_rng(seed)
    heads = int(rng.integers(1, 4))
    options = {"dropout": 0.0, "activation": str(rng.choice(["relu", "gelu"])), "layer_norm_eps": 1e-3}
    options |= {n: bool(rng.integers(2)) for n in ("batch_first", "norm_first", "bias")}
    batch, t, s = (int(n) for n in rng.integers(1, 5, 3))
    return rng, (heads * 2, heads), options, batch, t, s


def sequence(rng, options, batch, steps, width):
    return rng.standard_normal((batch, steps, width) if options["batch_first"] else (steps, batch, width))


def hidden(rng, *shape):
    found = rng.random(shape) < 0.4
    found[..., 0] = False
    return found


def causal(steps):
    return np.triu(np.full((steps, steps), -np.inf), 1)


def compare(ours, theirs, inputs, masks):
    assert repr(ours) == repr(theirs)
    mine, peers = as_ours(inputs), as_theirs(inputs)
    y = ours(*mine, **{k: pt.tensor(v) if isinstance(v, np.ndarray) else v for k, v in masks.items()})
    z = theirs(*peers, **{k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in masks.items()})
    compare_results(y, z, 1e-8)
    compare_gradients(y, z, [*mine, *ours.parameters()], [*peers, *theirs.parameters()], 1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(10))
def test_encoder_layer(seed):
    rng, args, options, batch, t, _ = random_case(seed)
    masks = {}
    if rng.integers(2):
        masks["src_key_padding_mask"] = hidden(rng, batch, t)
    if rng.integers(2):
        masks |= {"src_mask": causal(t), "is_causal": bool(rng.integers(2))}
    compare(*build("TransformerEncoderLayer", (*args, 5), options), [sequence(rng, options, batch, t, args[0])], masks)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(10))
def test_decoder_layer(seed):
    rng, args, options, batch, t, s = random_case(seed)
    masks = {}
    if rng.integers(2):
        masks |= {"tgt_mask": causal(t), "tgt_is_causal": bool(rng.integers(2))}
    if rng.integers(2):
        masks["memory_key_padding_mask"] = hidden(rng, batch, s)
    if rng.integers(2):
        masks["memory_mask"] = hidden(rng, t, s)
    inputs = [sequence(rng, options, batch, n, args[0]) for n in (t, s)]
    compare(*build("TransformerDecoderLayer", (*args, 5), options), inputs, masks)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(6))
def test_encoder_and_decoder(seed):
    rng, args, options, batch, t, s = random_case(seed)
    masks = {"tgt_mask": causal(t)}
    if rng.integers(2):
        padding = hidden(rng, batch, s)
        masks |= {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    ours, theirs = build("Transformer", (*args, 2, 1, 5), options)
    inputs = [sequence(rng, options, batch, n, args[0]) for n in (s, t)]
    compare(ours, theirs, inputs, masks)


def test_stacks_hold_copies():
    layer = pt.nn.TransformerEncoderLayer(4, 2, 8)
    stack = pt.nn.TransformerEncoder(layer, 2, pt.nn.LayerNorm(4))
    first, second = (one.linear1.weight for one in stack.layers)
    assert first.tolist() == second.tolist() == layer.linear1.weight.tolist()
    with pt.no_grad():
        first.zero_()
    assert second.abs().sum() > 0
    peer = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 8), 2, torch.nn.LayerNorm(4), False)
    assert list(stack.state_dict()) == list(peer.state_dict())


def test_the_causal_mask():
    ours, theirs = (m.nn.Transformer.generate_square_subsequent_mask(4) for m in (pt, torch))
    assert ours.tolist() == theirs.tolist()
    assert ours.dtype == pt.float32


def test_an_activation_of_ones_own_and_dropout():
    pt.manual_seed(0)
    layer = pt.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, activation=pt.nn.Tanh())
    assert "activation" in dict(layer.named_children())
    x = pt.randn(3, 2, 4)
    assert not np.array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())
    layer.eval()
    assert np.array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pt.nn.TransformerEncoderLayer(4, 2, activation="tanh"), "'relu', 'gelu' or a function, got 'tanh'"),
        (lambda: pt.nn.TransformerEncoder("layer", 2), "expected a module as the layer, got str"),
        (lambda: pt.nn.TransformerEncoder(pt.nn.TransformerEncoderLayer(4, 2), -1), "at least 0, got -1"),
        (lambda: pt.nn.Transformer(4, 2, 1, 1, 4)(pt.randn(3, 2, 4), pt.randn(3, 1, 4)), "as many samples"),
        (lambda: pt.nn.Transformer(4, 2, 1, 1, 4)(pt.randn(3, 2, 3), pt.randn(3, 2, 4)), "d_model = 4 features"),
        (lambda: pt.nn.Transformer(4, 2, 1, 1, 4)(pt.randn(4), pt.randn(4)), "3 dimensions, or 2"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises((UsageError, ShapeError)) as error:
        call()
    assert words in str(error.value)
