"""Losses as modules and functions against PyTorch's: values, gradients, reductions, weights, mistakes."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import DataError, ModelWarning, ShapeError, UsageError
from tests.nn.peers import as_ours, as_theirs, compare_functions, compare_gradients, compare_results


def x(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def p(*shape, seed=0):
    return 1 / (1 + np.exp(-x(*shape, seed=seed)))


def simplex(*shape, seed=0, axis=1):
    e = np.exp(x(*shape, seed=seed))
    return e / e.sum(axis, keepdims=True)


def labels(classes, *shape, seed=1):
    return np.random.default_rng(seed).integers(0, classes, shape)


def signs(*shape, seed=1):
    return np.where(x(*shape, seed=seed) > 0, 1, -1)


IGNORED = np.array([0, -100, 2, 1, -100])
MANY = np.array([[3, 0, -1, 1], [-1, 2, 3, 0], [0, 1, 2, 3]])
CASES = [
    ("L1Loss", {}, [x(4, 3), x(4, 3, seed=1)]), ("MSELoss", {}, [x(4, 3), x(4, 3, seed=1)]),
    ("SmoothL1Loss", {}, [x(4, 3), x(4, 3, seed=1)]), ("SmoothL1Loss", {"beta": 0.3}, [x(4, 3), x(4, 3, seed=1)]),
    ("SmoothL1Loss", {"beta": 0.0}, [x(4, 3), x(4, 3, seed=1)]), ("HuberLoss", {}, [x(4, 3), x(4, 3, seed=1)]),
    ("HuberLoss", {"delta": 0.4}, [x(4, 3), x(4, 3, seed=1)]),
    ("KLDivLoss", {}, [np.log(simplex(4, 3)), simplex(4, 3, seed=1)]),
    ("KLDivLoss", {"log_target": True}, [np.log(simplex(4, 3)), np.log(simplex(4, 3, seed=1))]),
    ("PoissonNLLLoss", {}, [x(4, 3), np.abs(x(4, 3, seed=1)) * 3]),
    ("PoissonNLLLoss", {"full": True}, [x(4, 3), np.array([[0.0, 1, 2], [3, 4, 5], [0, 7, 8], [1, 1, 2]])]),
    ("PoissonNLLLoss", {"log_input": False}, [p(4, 3), np.abs(x(4, 3, seed=1)) * 3]),
    ("GaussianNLLLoss", {}, [x(4, 3), x(4, 3, seed=1), p(4, 3, seed=2)]),
    ("GaussianNLLLoss", {"full": True, "eps": 0.4}, [x(4, 3), x(4, 3, seed=1), p(4, 1, seed=2)]),
    ("GaussianNLLLoss", {}, [x(4, 3), x(4, 3, seed=1), p(4, seed=2)]),
    ("NLLLoss", {}, [np.log(simplex(5, 3)), labels(3, 5)]), ("NLLLoss", {}, [np.log(simplex(5, 3)), IGNORED]),
    ("NLLLoss", {"weight": p(3)}, [np.log(simplex(5, 3)), IGNORED]),
    ("NLLLoss", {"ignore_index": 1}, [np.log(simplex(2, 3, 4, 5)), labels(3, 2, 4, 5)]),
    ("CrossEntropyLoss", {}, [x(5, 3), labels(3, 5)]), ("CrossEntropyLoss", {}, [x(3), labels(3)]),
    ("CrossEntropyLoss", {}, [x(5, 3), IGNORED]), ("CrossEntropyLoss", {"weight": p(3)}, [x(5, 3), IGNORED]),
    ("CrossEntropyLoss", {"label_smoothing": 0.2}, [x(5, 3), IGNORED]),
    ("CrossEntropyLoss", {"label_smoothing": 0.2, "weight": p(3)}, [x(2, 3, 4), labels(3, 2, 4)]),
    ("CrossEntropyLoss", {}, [x(2, 3, 4, 2), simplex(2, 3, 4, 2, seed=3)]),
    ("CrossEntropyLoss", {"label_smoothing": 0.3, "weight": p(3)}, [x(5, 3), simplex(5, 3, seed=3)]),
    ("CrossEntropyLoss", {}, [x(3), simplex(3, seed=3, axis=0)]),
    ("BCELoss", {}, [p(4, 3), p(4, 3, seed=1)]), ("BCELoss", {"weight": p(3)}, [p(4, 3), p(4, 3, seed=1)]),
    ("BCEWithLogitsLoss", {}, [x(4, 3) * 5, p(4, 3, seed=1)]),
    ("BCEWithLogitsLoss", {"pos_weight": p(3) * 4, "weight": p(4, 1)}, [x(4, 3), p(4, 3, seed=1)]),
    ("HingeEmbeddingLoss", {}, [x(4, 3), signs(4, 3)]), ("HingeEmbeddingLoss", {"margin": 0.3}, [x(4, 3), signs(4, 3)]),
    ("SoftMarginLoss", {}, [x(4, 3), signs(4, 3)]),
    ("CosineEmbeddingLoss", {}, [x(5, 3), x(5, 3, seed=1), signs(5)]),
    ("CosineEmbeddingLoss", {"margin": 0.2}, [x(5, 3), x(5, 3, seed=1), signs(5)]),
    ("MarginRankingLoss", {"margin": 0.2}, [x(5), x(5, seed=1), signs(5)]),
    ("MultiMarginLoss", {}, [x(5, 3), labels(3, 5)]), ("MultiMarginLoss", {"p": 2, "margin": 0.5, "weight": p(3)},
                                                       [x(5, 3), labels(3, 5)]),
    ("MultiMarginLoss", {}, [x(3), labels(3)]), ("MultiLabelMarginLoss", {}, [x(3, 4), MANY]),
    ("MultiLabelMarginLoss", {}, [x(4), MANY[0]]),
    ("MultiLabelSoftMarginLoss", {}, [x(4, 3), labels(2, 4, 3).astype(float)]),
    ("MultiLabelSoftMarginLoss", {"weight": p(3)}, [x(4, 3), labels(2, 4, 3).astype(float)]),
    ("TripletMarginLoss", {}, [x(5, 3), x(5, 3, seed=1), x(5, 3, seed=2)]),
    ("TripletMarginLoss", {"p": 1.0, "swap": True, "margin": 0.4}, [x(5, 3), x(5, 3, seed=1), x(5, 3, seed=2)]),
    ("TripletMarginWithDistanceLoss", {"swap": True}, [x(5, 3), x(5, 3, seed=1), x(5, 3, seed=2)]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("name", "options", "inputs"), CASES)
def test_losses(name, options, inputs, reduction):
    ours = getattr(nn, name)(
        **{k: as_ours(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}, reduction=reduction
    )
    theirs = getattr(torch.nn, name)(
        **{k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}, reduction=reduction
    )
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    mine, peers = [as_ours(v) for v in inputs], [as_theirs(v) for v in inputs]
    if name in ("BCELoss", "BCEWithLogitsLoss", "PoissonNLLLoss"):
        mine[1].requires_grad, peers[1].requires_grad = False, False
    y, z = ours(*mine), theirs(*peers)
    compare_results(y, z)
    compare_gradients(y, z, mine, peers)


def test_the_batch_mean_of_kl_div():
    compare_functions("kl_div", (np.log(simplex(4, 3)), simplex(4, 3, seed=1)), {"reduction": "batchmean"})


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), ("float32", 1e-6)])
def test_extreme_probabilities_have_finite_losses(dtype, rtol):
    inputs = np.array([0.0, 1.0, 1.0, 0.0, 1e-30], dtype), np.array([0.0, 1.0, 0.0, 1.0, 1.0], dtype)
    mine, theirs = pt.tensor(inputs[0], requires_grad=True), torch.tensor(inputs[0], requires_grad=True)
    y = nn.functional.binary_cross_entropy(mine, pt.tensor(inputs[1]), reduction="none")
    z = torch.nn.functional.binary_cross_entropy(theirs, torch.tensor(inputs[1]), reduction="none")
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=rtol, atol=1e-29)
    y.sum().backward(), z.sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-6)
    big = np.array([1000.0, -1000.0])
    compare_functions("binary_cross_entropy_with_logits", (big, np.array([0.0, 1.0])))


@pytest.mark.parametrize(("older", "reduction"), [
    ({"size_average": False}, "sum"), ({"size_average": True}, "mean"), ({"reduce": False}, "none"),
])  # fmt: skip
def test_older_arguments_are_accepted_with_a_warning(older, reduction):
    with pytest.warns(ModelWarning, match=f"write reduction='{reduction}'"):
        loss = nn.MSELoss(**older)
    assert loss.reduction == reduction
    with pytest.warns(ModelWarning, match="size_average and reduce are PyTorch's older arguments"):
        assert nn.functional.l1_loss(pt.zeros(2), pt.ones(2), **older).sum().item() in (2.0, 1.0)


def test_shapes_that_broadcast_are_reported():
    with pytest.warns(ModelWarning, match=r"the target has the shape \[3\], the input \[4, 3\]"):
        assert nn.MSELoss()(pt.zeros(4, 3), pt.ones(3)).item() == 1.0


@pytest.mark.parametrize(("error", "call", "message"), [
    (UsageError, lambda: nn.MSELoss(reduction="avg"), "reduction must be 'mean', 'sum' or 'none', got 'avg'"),
    (DataError, lambda: nn.CrossEntropyLoss()(pt.zeros(2, 3), pt.tensor([0, 3])), "labels must lie in 0 .. 2"),
    (UsageError, lambda: nn.CrossEntropyLoss()(pt.zeros(2, 3), pt.tensor([0, 1], dtype=pt.int32)), "use .long()"),
    (ShapeError, lambda: nn.CrossEntropyLoss()(pt.zeros(2, 3), pt.tensor([0, 1, 2])), "without the classes"),
    (ShapeError, lambda: nn.CrossEntropyLoss()(pt.zeros(2, 3), pt.zeros(2)), "labels are int64"),
    (ShapeError, lambda: nn.CrossEntropyLoss(pt.ones(2))(pt.zeros(2, 3), pt.tensor([0, 1])), "each of 3 classes"),
    (UsageError, lambda: nn.CrossEntropyLoss(label_smoothing=2.0)(pt.zeros(2, 3), pt.tensor([0, 1])), "in \\[0, 1\\]"),
    (UsageError, lambda: nn.BCELoss()(pt.tensor([2.0]), pt.tensor([1.0])), "probabilities must lie in"),
    (ShapeError, lambda: nn.BCELoss()(pt.zeros(2), pt.zeros(3)), "must have the input's shape"),
    (UsageError, lambda: nn.MultiMarginLoss(p=3)(pt.zeros(2, 3), pt.tensor([0, 1])), "p must be 1 or 2"),
    (UsageError, lambda: nn.HuberLoss(delta=0)(pt.zeros(2), pt.zeros(2)), "delta must be positive"),
    (UsageError, lambda: nn.GaussianNLLLoss()(pt.zeros(2), pt.zeros(2), -pt.ones(2)), "must not be negative"),
    (UsageError, lambda: nn.MSELoss()([1.0], pt.zeros(1)), "expected a tensor, got list"),
])  # fmt: skip
def test_mistakes_say_what_was_given(error, call, message):
    with pytest.raises(error, match=message):
        call()
