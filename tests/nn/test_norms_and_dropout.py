"""Normalization against PyTorch's, with running statistics over several batches; dropout by its distribution."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import ShapeError, UsageError
from tests.nn.peers import as_ours, as_theirs, build, compare, compare_functions, compare_results


def x(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape) * 2 + 0.5


CASES = [
    ("BatchNorm1d", (4,), {}, (5, 4)), ("BatchNorm1d", (4,), {"momentum": 0.3}, (5, 4, 3)),
    ("BatchNorm2d", (4,), {}, (2, 4, 3, 5)), ("BatchNorm2d", (4, 1e-2), {"affine": False}, (2, 4, 3, 5)),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, (2, 4, 3, 5)),
    ("BatchNorm2d", (4,), {"momentum": None}, (2, 4, 3, 5)), ("BatchNorm3d", (4,), {}, (2, 4, 3, 2, 2)),
    ("BatchNorm2d", (4,), {"bias": False}, (2, 4, 3, 5)), ("InstanceNorm1d", (4,), {}, (2, 4, 6)),
    ("InstanceNorm1d", (4,), {"affine": True}, (4, 6)), ("InstanceNorm2d", (4,), {"affine": True}, (2, 4, 3, 5)),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, (2, 4, 3, 5)),
    ("InstanceNorm3d", (4,), {"track_running_stats": True}, (2, 4, 3, 2, 2)), ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("GroupNorm", (4, 4, 1e-3), {"affine": False}, (3, 4, 2, 3)), ("GroupNorm", (2, 4), {"bias": False}, (3, 4)),
    ("LayerNorm", (5,), {}, (3, 4, 5)), ("LayerNorm", ((4, 5), 1e-3), {}, (3, 4, 5)),
    ("LayerNorm", (5,), {"elementwise_affine": False}, (5,)), ("LayerNorm", ((4, 5),), {"bias": False}, (3, 4, 5)),
    ("RMSNorm", (5,), {}, (3, 4, 5)), ("RMSNorm", ((4, 5), 1e-2), {}, (3, 4, 5)),
    ("RMSNorm", (5,), {"elementwise_affine": False}, (3, 5)), ("LocalResponseNorm", (3,), {}, (2, 6, 4)),
    ("LocalResponseNorm", (4,), {"alpha": 0.3, "beta": 0.5, "k": 2.0}, (2, 6, 4, 3)),
]  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "args", "options", "shape"), CASES)
def test_norms(name, args, options, shape, training):
    compare(name, args, options, [x(*shape)], training=training)


@pytest.mark.parametrize("momentum", [0.2, None])
def test_running_statistics_over_several_batches(momentum):
    ours, theirs = build("BatchNorm1d", (3,), {"momentum": momentum})
    for seed in range(4):
        ours(as_ours(x(6, 3, seed=seed))), theirs(as_theirs(x(6, 3, seed=seed)))
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, err_msg=name)
    compare_results(ours.eval()(as_ours(x(2, 3))), theirs.eval()(as_theirs(x(2, 3))))


def test_states_without_a_count_of_batches_load():
    norm = nn.BatchNorm1d(2)
    state = {k: v for k, v in norm.state_dict().items() if k != "num_batches_tracked"}
    assert not norm.load_state_dict(state).missing_keys


@pytest.mark.parametrize(("name", "args", "options"), [
    ("batch_norm", (x(4, 3), x(3, seed=1), np.abs(x(3, seed=2))), {}),
    ("batch_norm", (x(4, 3), None, None), {"training": True}), ("instance_norm", (x(2, 3, 4),), {}),
    ("layer_norm", (x(2, 3, 4), (4,)), {}), ("group_norm", (x(2, 4, 3), 2), {}), ("rms_norm", (x(2, 3), (3,)), {}),
])  # fmt: skip
def test_functions_without_parameters(name, args, options):
    if name == "batch_norm" and args[1] is not None:
        mine = [pt.tensor(v) for v in args]
        peers = [torch.tensor(v) for v in args]
        compare_results(nn.functional.batch_norm(*mine), torch.nn.functional.batch_norm(*peers))
    else:
        compare_functions(name, args, options)


@pytest.mark.parametrize(("name", "shape", "noise"), [
    ("Dropout", (40, 50), (40, 50)), ("Dropout1d", (40, 50, 6), (40, 50, 1)), ("Dropout1d", (200, 6), (200, 1)),
    ("Dropout2d", (40, 50, 2, 3), (40, 50, 1, 1)), ("Dropout3d", (40, 50, 2, 1, 2), (40, 50, 1, 1, 1)),
    ("Dropout3d", (400, 2, 1, 2), (400, 1, 1, 1)),
])  # fmt: skip
def test_dropout_drops_elements_or_whole_channels(name, shape, noise):
    pt.manual_seed(0)
    drop = getattr(nn, name)(0.3)
    ones = pt.ones(*shape, requires_grad=True)
    y = drop(ones)
    values = y.numpy()
    assert np.allclose(np.unique(values), [0, 1 / 0.7])
    assert (np.ptp(values.reshape(*noise, -1), axis=-1) == 0).all()
    rate = (values == 0).mean()
    assert abs(rate - 0.3) < 4 * (0.21 / np.prod(noise)) ** 0.5
    y.sum().backward()
    assert np.array_equal(ones.grad.numpy(), values)  # the same mask
    assert not np.array_equal(drop(ones).numpy(), values)  # another one
    assert drop.eval()(ones) is ones
    assert not getattr(nn, name)(1.0)(ones).numpy().any()
    assert repr(drop) == repr(getattr(torch.nn, name)(0.3))


@pytest.mark.parametrize("name", ["AlphaDropout", "FeatureAlphaDropout"])
def test_alpha_dropout_keeps_mean_and_variance(name):
    pt.manual_seed(0)
    y = getattr(nn, name)(0.2)(pt.tensor(np.random.default_rng(0).standard_normal((200, 100, 3)))).numpy()
    assert abs(y.mean()) < 0.03
    assert abs(y.std() - 1) < 0.03


def test_in_place_dropout_overwrites_its_input():
    ones = pt.ones(1000)
    assert nn.Dropout(0.5, inplace=True)(ones) is ones
    assert (ones.numpy() == 0).any()


def test_randomized_leaky_relu():
    compare("RReLU", (), {}, [x(4, 5)], training=False)
    data = pt.tensor(-np.ones(2000))
    y = nn.RReLU(0.2, 0.4)(data).numpy()
    assert -0.4 <= y.min() < -0.39
    assert -0.21 < y.max() <= -0.2


@pytest.mark.parametrize(("error", "call", "message"), [
    (ShapeError, lambda: nn.BatchNorm2d(3)(pt.zeros(2, 3)), "BatchNorm2d: expected an input of 4 dimensions"),
    (ShapeError, lambda: nn.BatchNorm1d(3)(pt.zeros(2, 4)), r"needs vectors of shape \[4\], got \[3\]"),
    (UsageError, lambda: nn.BatchNorm1d(3)(pt.zeros(1, 3)), "more than one value a channel"),
    (UsageError, lambda: nn.InstanceNorm1d(3)(pt.zeros(2, 3, 1)), "more than one element a channel"),
    (UsageError, lambda: nn.GroupNorm(2, 3), "3 channels do not divide into 2 groups"),
    (ShapeError, lambda: nn.LayerNorm(4)(pt.zeros(2, 3)), r"must be normalized_shape \[4\]"),
    (UsageError, lambda: nn.Dropout(1.5), r"must lie in \[0, 1\], got 1.5"),
    (ShapeError, lambda: nn.Dropout2d()(pt.zeros(2)), "dropout2d: expected an input of 3 or 4 dimensions"),
    (UsageError, lambda: nn.functional.batch_norm(pt.zeros(2, 3), None, None), "needs running_mean and running_var"),
])  # fmt: skip
def test_mistakes_say_what_was_given(error, call, message):
    with pytest.raises(error, match=message):
        call()
