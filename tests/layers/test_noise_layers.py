"""Dropout and noise: what is drawn, by counting."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.layer_graph import CompiledLayer, named_outputs, trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.graph.ir import Graph
from prototorch.spec import Spec
from tests.layers.compare import numbers


def run(text, x, training=True, key=(1, 2)):
    said = trace_layer(Graph(), parse_layer(text), [Spec(x.shape, str(x.dtype))], training, "float64")
    return CompiledLayer(said, named_outputs(said), cpu(), {})([x], key=key)["y0"]


ONES = np.ones((40, 25, 10))  # 10,000 draws: a share has a standard deviation below 0.005
ALL = [
    "Dropout { rate: 0.3 }",
    "SpatialDropout1D { rate: 0.3 }",
    "GaussianNoise { stddev: 0.3 }",
    "GaussianDropout { rate: 0.3 }",
    "AlphaDropout { rate: 0.3 }",
]


@pytest.mark.parametrize("text", ALL)
def test_nothing_happens_outside_training(text):
    np.testing.assert_array_equal(run(text, ONES, training=False), ONES)


@pytest.mark.parametrize("text", [*ALL, "Dropout { rate: 0 }"])
def test_the_mean_is_kept(text):
    x = numbers(40, 25, 10) if text.startswith("Alpha") else ONES
    assert abs(run(text, x).mean() - x.mean()) < 0.1  # the widest, channels at once: 1,000 draws, 0.02


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_its_rate_and_scales_the_rest(rate):
    made = run(f"Dropout {{ rate: {rate} }}", ONES)
    assert set(np.round(np.unique(made), 12)) == {0.0, round(1 / (1 - rate), 12)}
    assert abs((made == 0).mean() - rate) < 0.025  # five standard deviations


def test_dropout_with_a_noise_shape_draws_once_for_many():
    made = run("Dropout { rate: 0.5  noise_shape: [none, 1, 10] }", ONES)
    assert (made == made[:, :1]).all()
    assert len(np.unique(made[:, 0], axis=0)) > 10


@pytest.mark.parametrize(("rank", "shape"), [(1, (5,)), (2, (2, 3)), (3, (2, 2, 2))])
def test_spatial_dropout_drops_channels(rank, shape):
    x = np.ones((20, *shape, 30)) if rank == 1 else np.ones((20, 30, *shape))
    made = run(f"SpatialDropout{rank}D {{ rate: 0.5 }}", x)
    made = (np.moveaxis(made, -1, 1) if rank == 1 else made).reshape(20, 30, -1)
    assert (made == made[..., :1]).all()
    assert abs((made[..., 0] == 0).mean() - 0.5) < 0.11  # 600 draws: five standard deviations are 0.1


def test_gaussian_layers_have_their_spread():
    # 10,000 draws: the standard deviation of a standard deviation is 0.7 % of it.
    assert abs(run("GaussianNoise { stddev: 2 }", ONES).std() / 2 - 1) < 0.04
    assert abs(run("GaussianDropout { rate: 0.2 }", ONES).std() / 0.5 - 1) < 0.04  # sqrt(0.2 / 0.8)
    made = run("AlphaDropout { rate: 0.2 }", numbers(40, 25, 10))
    assert abs(made.std() - 1) < 0.05


@pytest.mark.parametrize("text", ALL)
def test_seeds_steps_and_places_draw_differently(text):
    first = run(text, ONES)
    assert np.array_equal(first, run(text, ONES))
    assert not np.array_equal(first, run(text, ONES, key=(1, 3)))
    assert not np.array_equal(first, run(text, ONES, key=(2, 2)))
    assert not np.array_equal(first, run(text.replace("}", " seed: 9 }"), ONES))
