"""Indexing, views, gathering, scattering and sorting inside compiled functions, against PyTorch's eager mode."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import UsageError

X = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
ROWS = np.random.default_rng(1).integers(0, 4, (4, 5))


def written(x, key, value):
    y = x * 1
    y[key] = value
    return y


def changed_in_place(x):
    y = x * 1
    row = y[0]
    row.add_(1)
    y[:, 2] *= 3
    return y


WORK = {
    "slice": lambda m, x, i: x[1:, ::2] * 2,
    "integer": lambda m, x, i: x[1] + x[-1],
    "indices": lambda m, x, i: x[i[:, 0], [0, 1, 2, 3]],
    "negative_indices": lambda m, x, i: x[-1 - i[:, 0]],
    "gather": lambda m, x, i: x.gather(0, i),
    "take_along_dim": lambda m, x, i: m.take_along_dim(x, i[:, :1], 1),
    "where": lambda m, x, i: m.where(x > 0, x, -x),
    "masked_fill": lambda m, x, i: x.masked_fill(x > 0, 0.0),
    "scatter_add": lambda m, x, i: x.scatter_add(0, i, x),
    "scatter_mean": lambda m, x, i: x.scatter_reduce(0, i, x, "mean"),
    "index_add": lambda m, x, i: x.index_add(0, i[:, 0], x),
    "mask_set": lambda m, x, i: written(x, x > 0, 0.5),
    "column_set": lambda m, x, i: written(x, (slice(None), 1), 3.0),
    "rows_set": lambda m, x, i: written(x, i[:, 0], 7.0),
    "in_place": lambda m, x, i: changed_in_place(x),
    "sort": lambda m, x, i: x.sort(1).values,
    "topk": lambda m, x, i: x.topk(2, 0).values,
    "median": lambda m, x, i: x.median(1).values,
    "quantile": lambda m, x, i: m.quantile(x, 0.3, 1),
    "cummax": lambda m, x, i: m.cummax(x, 1).values,
    "searchsorted": lambda m, x, i: m.searchsorted(x.sort(1).values, x).float(),
    "isin": lambda m, x, i: m.isin(i, i[0]).float(),
    "unfold": lambda m, x, i: x.unfold(1, 2, 1).sum(-1),
    "diagonal": lambda m, x, i: x.diagonal() * 2,
    "joins": lambda m, x, i: m.cat([x.roll(1, 0), x.flip(0), x.repeat(1, 2)[:, 5:], x.repeat_interleave(2, 1)[:, :5]]),
}


@pytest.mark.parametrize("name", WORK)
def test_values_and_gradients(name):
    work = WORK[name]
    theirs, ours = torch.tensor(X, requires_grad=True), pt.tensor(X, requires_grad=True)
    want = work(torch, theirs, torch.tensor(ROWS))
    got = pt.compile(lambda x, i: work(pt, x, i))(ours, pt.tensor(ROWS))
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-6, atol=1e-6)
    if want.requires_grad:
        want.square().sum().backward()
        got.square().sum().backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_a_shape_that_depends_on_elements_is_refused():
    with pytest.raises(UsageError, match="not known while a function is compiled"):
        pt.compile(lambda x: x[x > 0])(pt.tensor(X))
