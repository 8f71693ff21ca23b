"""Sampling, NormalKLDivergence, Noise and StochasticDepth: against PyTorch and torchvision's rules, and by counting."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import ShapeError, TextError
from prototorch.graph.ir import Graph
from prototorch.model.load import model_from_text
from prototorch.spec import Spec

TWO = 'input { name: "mean"  shape: [3] }  input { name: "log_var"  shape: [3] }\n'
X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
V = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


def noise_of(seed=0, step=0, name="z", shape=(3,), rows=5):
    """The noise of a Sampling layer of this name in a step."""
    text = (
        f'input {{ name: "a"  shape: {list(shape)} }}  Sampling {{ name: "{name}"  bottom: ["a", "a"]  always: true }}'
    )
    model = model_from_text(text)
    model.compile("sgd", "mse", seed=seed)
    model.trainer.step = step
    return model.predict_on_batch(np.zeros((rows, *shape), np.float32))


def test_sampling_gives_the_means_outside_training_and_samples_where_it_is_told_to():
    text = TWO + 'Sampling { bottom: ["mean", "log_var"]  name: "z" }'
    np.testing.assert_array_equal(model_from_text(text).predict([X, V]), X)
    samples = model_from_text(text.replace('name: "z"', 'name: "z"  always: true')).predict([X, V])
    np.testing.assert_allclose(samples, X + np.exp(0.5 * V) * noise_of(), rtol=1e-5, atol=1e-6)


def test_the_gradients_of_sampling_are_pytorchs():
    model = model_from_text(
        'input { name: "x"  shape: [3] }\nDense { name: "m"  units: 3  use_bias: false }\n'
        'Dense { name: "v"  bottom: "x"  units: 3  use_bias: false }\nSampling { name: "z"  bottom: ["m", "v"] }'
    )
    model.compile(pt.optimizers.SGD(1.0), "mse", seed=3)
    before, noise = model.get_weights(), torch.tensor(noise_of(seed=3))
    loss = model.train_on_batch(X, V)[0]
    m, v = (torch.tensor(before[f"{n}/kernel"], requires_grad=True) for n in "mv")
    mean, log_var = torch.tensor(X) @ m, torch.tensor(X) @ v
    expected = torch.nn.functional.mse_loss(mean + torch.exp(log_var / 2) * noise, torch.tensor(V))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for name, weight in (("m", m), ("v", v)):
        np.testing.assert_allclose(
            before[f"{name}/kernel"] - model.get_weights()[f"{name}/kernel"], weight.grad, rtol=1e-4, atol=1e-6
        )


def test_each_step_and_seed_draws_other_noise():
    draws = [noise_of(), noise_of(step=1), noise_of(seed=1), noise_of(name="other")]
    assert all(not np.array_equal(a, b) for i, a in enumerate(draws) for b in draws[:i])
    np.testing.assert_array_equal(noise_of(), noise_of())


def test_the_divergence_is_pytorchs():
    text = TWO + 'NormalKLDivergence { bottom: ["mean", "log_var"] }'
    ours = model_from_text(text).predict([X, V])
    normal = torch.distributions.Normal(torch.tensor(X), torch.exp(torch.tensor(V) / 2))
    theirs = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(1)
    assert ours.shape == (5,)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", ["Sampling", "NormalKLDivergence"])
def test_means_and_variances_have_one_shape(layer):
    text = TWO.replace('"log_var"  shape: [3]', '"log_var"  shape: [4]') + f'{layer} {{ bottom: ["mean", "log_var"] }}'
    with pytest.raises((TextError, ShapeError), match=r"the means \[3\].*the variances \[4\]"):
        model_from_text(text).predict([X, np.zeros((5, 4), "f")])


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_noise_is_drawn_for_each_sample_and_each_batch_of_a_prediction(distribution):
    model = model_from_text(
        f'input {{ name: "x"  shape: [1] }}  Noise {{ shape: [50, 4]  distribution: {distribution} }}'
    )
    x = np.arange(60, dtype=np.float32)[:, None]
    drawn = model.predict(x, batch_size=16)
    assert drawn.shape == (60, 50, 4)
    assert len(np.unique(drawn.reshape(60, -1)[:, 0])) == 60  # no sample, in whichever batch, has the noise of another
    mean, stddev = (0.0, 1.0) if distribution == "normal" else (0.5, np.sqrt(1 / 12))
    assert abs(drawn.mean() - mean) < 5 * stddev / np.sqrt(drawn.size)
    assert abs(drawn.std() / stddev - 1) < 0.03
    np.testing.assert_array_equal(drawn, model.predict(x, batch_size=16))


@pytest.mark.parametrize("mode", ["row", "batch"])
def test_stochastic_depth_drops_whole_samples_as_torchvision_does(mode):
    """torchvision: torch.empty([rows, 1, ...]).bernoulli_(survival).div_(survival) times the input."""
    text = f'input {{ name: "x"  shape: [7, 2] }}  StochasticDepth {{ name: "d"  rate: 0.4  mode: {mode} }}'
    x = np.ones((2000, 7, 2))
    traced = trace_layer(
        Graph(),
        parse_layer(f"StochasticDepth {{ rate: 0.4  mode: {mode} }}"),
        [Spec(x.shape, "float64")],
        True,
        "float64",
    )
    layer = CompiledLayer(traced, named_outputs(traced), cpu(), {})
    drawn = np.concatenate([layer([x], key=(1, step))["y0"] for step in range(1 if mode == "row" else 40)])
    assert set(np.round(np.unique(drawn), 12)) == {0.0, round(1 / 0.6, 12)}
    if mode == "batch":
        drawn = drawn.reshape(40, -1)
        assert (drawn == drawn[:, :1]).all()
        assert 5 < (drawn[:, 0] == 0).sum() < 27
    else:
        assert (drawn == drawn[:, :1, :1]).all()
        assert abs((drawn[:, 0, 0] == 0).mean() - 0.4) < 0.055  # five standard deviations
    np.testing.assert_array_equal(model_from_text(text).predict(x[:3].astype("f")), x[:3])


def test_drop_path_is_stochastic_depth():
    model = model_from_text("input { shape: [4] }  Add { branch { } branch { Dense(4)  DropPath(0.2) } }")
    assert [type(node.layer) for node in model.net.nodes[1:]] == [pt.layers.StochasticDepth, pt.layers.Add]
