"""A normalization without gamma and beta and a Scale behind it are one op, in training and in predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.plan_printer import member_ops
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN

L = pt.layers
PLAIN = {"scale": False, "center": False}


def build(*middle, conv_bias=False):
    model = pt.Sequential([
        pt.Input((3, 6, 5), name="x"), L.Conv2D(4, 3, use_bias=conv_bias, name="conv"), *middle, L.ReLU(), L.Flatten(),
        L.Dense(2, name="fc"),
    ])  # fmt: skip
    model.compile(optimizer=pt.optimizers.SGD(0.1), loss="mse")
    return model


def ops_of(model, phase):
    plan = PlanCache(model.net, Variables(), cpu(), model.compile_block).plan(
        phase, {"x": Spec((4, 3, 6, 5))}, create=False
    )
    return [op for step in plan.steps for op in member_ops(step.node.op, step.node.attrs)]


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("phase", [TRAIN, PREDICT])
def test_the_plan_is_that_of_one_layer(phase, use_bias):
    apart = ops_of(build(L.BatchNormalization(**PLAIN), L.Scale(use_bias=use_bias)), phase)
    one = ops_of(build(L.BatchNormalization(center=use_bias)), phase)
    assert sorted(apart) == sorted(one)


@pytest.mark.parametrize(
    "middle",
    [
        (L.BatchNormalization(**PLAIN), L.Scale(axis=2)),
        (L.BatchNormalization(), L.Scale()),
        (L.BatchNormalization(**PLAIN), L.ReLU(), L.Scale()),
    ],
    ids=["another axis", "a gamma before it", "an activation between"],
)
def test_other_factors_stay_in_training(middle):
    assert "batch_norm" in ops_of(build(*middle), TRAIN)
    assert ops_of(build(*middle), TRAIN).count("multiply") > ops_of(build(L.BatchNormalization()), TRAIN).count(
        "multiply"
    )


def test_a_step_is_that_of_torch():
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((4, 3, 6, 5)).astype("f"), rng.standard_normal((4, 2)).astype("f")
    model = build(
        L.BatchNormalization(**PLAIN, epsilon=1e-3, name="bn"),
        L.Scale(use_bias=True, scale_initializer="random_uniform", name="scale"),
    )
    before = {name: np.array(model.weights[name]) for name in model.weights}
    conv, norm = torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4, eps=1e-3)
    dense = torch.nn.Linear(48, 2)
    with torch.no_grad():
        for parameter, name, transposed in (
            (conv.weight, "conv/kernel", False),
            (norm.weight, "scale/scale", False),
            (norm.bias, "scale/bias", False),
            (dense.weight, "fc/kernel", True),
            (dense.bias, "fc/bias", False),
        ):
            parameter.copy_(torch.tensor(before[name].T.copy() if transposed else before[name]))
    y = dense(torch.relu(norm(conv(torch.tensor(x)))).flatten(1))
    ((y - torch.tensor(target)) ** 2).mean().backward()
    model.train_on_batch(x, target)
    for parameter, name in ((conv.weight, "conv/kernel"), (norm.weight, "scale/scale"), (norm.bias, "scale/bias")):
        expected = before[name] - 0.1 * parameter.grad.numpy()
        np.testing.assert_allclose(np.array(model.weights[name]), expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("conv_bias", [True, False])
def test_a_prediction_is_a_convolution_with_a_bias(conv_bias):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 6, 5)).astype("f")
    model = build(L.BatchNormalization(name="bn"), L.Scale(use_bias=True, name="scale"), conv_bias=conv_bias)
    assert "batch_norm_inference" not in ops_of(model, PREDICT)
    for name in model.weights:
        shape = model.weights[name].shape
        model.weights[name] = rng.uniform(0.5, 2, shape).astype("f")
    w = {name: np.array(model.weights[name]) for name in model.weights}
    y = torch.nn.functional.conv2d(
        torch.tensor(x), torch.tensor(w["conv/kernel"]), torch.tensor(w["conv/bias"]) if conv_bias else None
    )
    y = torch.nn.functional.batch_norm(
        y, *(torch.tensor(w[f"bn/{n}"]) for n in ("moving_mean", "moving_variance", "gamma", "beta")), eps=1e-3
    )
    y = y * torch.tensor(w["scale/scale"])[:, None, None] + torch.tensor(w["scale/bias"])[:, None, None]
    y = torch.relu(y).flatten(1) @ torch.tensor(w["fc/kernel"]) + torch.tensor(w["fc/bias"])
    np.testing.assert_allclose(model.predict(x), y.numpy(), rtol=1e-4)
