"""Look-ups and bags against PyTorch's."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import RangeError, ShapeError, UsageError
from tests.nn.peers import as_ours, as_theirs, build, compare, compare_gradients, compare_results

INDICES = np.array([[1, 2, 4], [4, 3, 2], [1, 1, 0]])
FLAT, OFFSETS = np.array([1, 2, 4, 5, 4, 3, 2, 1]), np.array([0, 3, 3, 6])


@pytest.mark.parametrize("options", [
    {}, {"padding_idx": 1}, {"padding_idx": -1}, {"max_norm": 1.0}, {"max_norm": 0.7, "norm_type": 1.0},
    {"scale_grad_by_freq": True}, {"scale_grad_by_freq": True, "padding_idx": 4},
])  # fmt: skip
def test_embedding(options):
    compare("Embedding", (6, 4), options, [INDICES])
    compare("Embedding", (6, 4), options, [np.array(2)])


@pytest.mark.parametrize("options", [
    {}, {"mode": "sum"}, {"mode": "max"}, {"mode": "sum", "padding_idx": 1}, {"mode": "mean", "padding_idx": 4},
    {"mode": "max", "padding_idx": 1}, {"mode": "mean", "max_norm": 1.0},
    {"mode": "sum", "include_last_offset": True},
])  # fmt: skip
def test_bags(options):
    inputs = [FLAT, np.append(OFFSETS, len(FLAT)) if "include_last_offset" in options else OFFSETS]
    compare("EmbeddingBag", (6, 4), options, inputs)
    if "include_last_offset" not in options:
        compare("EmbeddingBag", (6, 4), options, [INDICES])


def test_weights_of_each_index():
    ours, theirs = build("EmbeddingBag", (6, 4), {"mode": "sum"})
    w = np.random.default_rng(0).standard_normal(8)
    mine, peers = as_ours(w), as_theirs(w)
    y = ours(pt.tensor(FLAT), pt.tensor(OFFSETS), mine)
    z = theirs(torch.tensor(FLAT), torch.tensor(OFFSETS), peers)
    compare_results(y, z)
    compare_gradients(y, z, [mine, ours.weight], [peers, theirs.weight])


def test_pretrained_tables_are_not_trained():
    table = pt.tensor(np.eye(3, dtype="float32"))
    made = nn.Embedding.from_pretrained(table)
    assert not made.weight.requires_grad
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    assert made(pt.tensor([2])).tolist() == [[0.0, 0.0, 1.0]]
    assert not nn.EmbeddingBag.from_pretrained(table).weight.requires_grad


@pytest.mark.parametrize(("error", "call", "message"), [
    (RangeError, lambda: nn.Embedding(3, 2)(pt.tensor([3])), r"must lie in 0 .. 2, got 3"),
    (RangeError, lambda: nn.Embedding(3, 2)(pt.tensor([-1])), r"got -1"),
    (UsageError, lambda: nn.Embedding(3, 2)(pt.tensor([0.5])), "must be int64 or int32, got float32"),
    (UsageError, lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx must lie in -3 .. 2"),
    (UsageError, lambda: nn.EmbeddingBag(3, 2, mode="prod")(pt.tensor([[0]])), "'sum', 'mean' or 'max'"),
    (ShapeError, lambda: nn.EmbeddingBag(3, 2)(pt.tensor([0])), "expected indices"),
    (UsageError, lambda: nn.EmbeddingBag(3, 2)(pt.tensor([0]), pt.tensor([1])), "the first offset must be 0"),
])  # fmt: skip
def test_mistakes_say_what_was_given(error, call, message):
    with pytest.raises(error, match=message):
        call()
