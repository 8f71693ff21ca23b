"""A net with its channels last is the net with its channels first: the same steps but for its ends, the same weights
after training."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.cpu import LEVELS, cpu
from prototorch.graph.plan_printer import describe_plan
from prototorch.layers.channels import ChannelAxisLayer
from prototorch.model.load import model_from_text
from prototorch.runtime.variables import Variables
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import TRAIN
from prototorch.train.summary import step_specs

NET = """
input { name: "image"  shape: [3, 16, 14] }
Conv2D { filters: 4  kernel_size: 5  activation: relu }
MaxPooling2D { pool_size: 2 }
Conv2D { filters: 6  kernel_size: 3 }
BatchNormalization { }
ReLU { }
Add { branch { }  branch { Conv2D { filters: 6  kernel_size: 3  padding: same }  BatchNormalization { }  ReLU { } } }
ReLU { }
Concatenate {
  branch { Conv2D { filters: 2  kernel_size: 1 } }
  branch { AveragePooling2D { pool_size: 1 } }
}
LRN { }
Conv2D { filters: 6  kernel_size: 1 }
GlobalAveragePooling2D { }
Dense { units: 3  name: "logits" }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: SGD { learning_rate: 0.1 }  seed: 3 }
"""


def with_channels_last(net):
    """The net over images with their channels last."""
    inputs = tuple(replace(i, shape=(*i.shape[1:], i.shape[0])) for i in net.inputs)
    nodes = tuple(replace(n, layer=n.layer.with_data_format("channels_last")) for n in net.nodes)
    assert sum(isinstance(n.layer, ChannelAxisLayer) for n in nodes) > 1
    return replace(net, inputs=inputs, nodes=nodes, preprocess=())


def plan_steps(net, compile_block, level):
    """The steps of a training plan: what each computes, and with what kernel."""
    program = PlanCache(net, Variables(), cpu(level), compile_block)
    plan = program.plan(TRAIN, step_specs(net, 4), create=False)
    return describe_plan(plan, program.backend, "").as_dict()["steps"]


def members(steps):
    """How often each op is computed, but for those that only move elements."""
    return Counter(op for s in steps for op in s["members"] if op not in ("transpose", "reorder"))


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
@pytest.mark.parametrize("level", [level for level in LEVELS if level != "plain"])
def test_a_net_with_its_channels_last_has_the_steps_of_the_one_with_its_channels_first(name, level):
    model = pt.load_model(name)
    first = plan_steps(replace(model.net, preprocess=(), augment=()), model.compile_block, level)
    last = plan_steps(with_channels_last(model.net), model.compile_block, level)
    begin = model.net.nodes[0].name
    ends = {begin, *(n.name for n in model.net.nodes if isinstance(n.layer, pt.layers.Flatten | pt.layers.Dense))}
    moved = [s["layer"] for s in last if {"transpose", "reorder"} & set(s["members"])]
    # a level without the layout moves what the first layer reads, what Flatten reads, and its gradient
    assert len(moved) <= (0 if level == "native" else 3), moved
    assert set(moved) <= ends | {n.name for n in model.net.nodes if n.tops[0] in _read_by_flatten(model.net)}
    assert members(last) == members(first)
    assert len(last) <= len(first) + len(moved)


def _read_by_flatten(net):
    return {n.bottoms[0] for n in net.nodes if isinstance(n.layer, pt.layers.Flatten)}


@pytest.mark.parametrize("level", LEVELS)
def test_both_give_the_same_weights_after_training(level, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 3, 16, 14)).astype("float32"), rng.integers(0, 3, 16)
    trained = []
    for is_last in (False, True):
        model = model_from_text(NET)
        images = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if is_last else x
        net = with_channels_last(model.net) if is_last else model.net
        model = pt.Model(net)
        model.compile("sgd", pt.losses.SparseCategoricalCrossentropy(from_logits=True), seed=3)
        model.fit(images, y, epochs=2, batch_size=4, verbose=0, shuffle=False)
        trained.append((model.get_weights(), model.predict_on_batch(images)))
    (first, predicted_first), (last, predicted_last) = trained
    assert first.keys() == last.keys()
    for weight, values in first.items():
        np.testing.assert_allclose(last[weight], values, rtol=2e-4, atol=2e-5, err_msg=weight)
    np.testing.assert_allclose(predicted_last, predicted_first, rtol=2e-3, atol=2e-4)


def steps_of(layers, shape, level="native"):
    x = pt.Input(shape)
    y = x
    for layer in layers:
        y = layer(y)
    model = pt.Model(x, y)
    model.compile("sgd", "mse")
    return [s["members"] for s in plan_steps(model.net, model.compile_block, level) if s["phase"] == "forward"]


def test_a_layer_of_the_other_format_between_two_is_transposed_to():
    convolution = pt.layers.Conv2D(2, 1, data_format="channels_last")
    steps = steps_of([convolution, pt.layers.Conv2D(3, 1), pt.layers.Flatten()], (4, 5, 3), "numpy")
    assert ("transpose",) in steps


def test_an_operand_that_broadcasts_is_moved_along():
    norm = pt.layers.Normalization(mean=[1.0, 2.0], variance=[1.0, 4.0], data_format="channels_last")
    layers = [
        pt.layers.Conv2D(2, 1, data_format="channels_last"),
        norm,
        pt.layers.Conv2D(3, 1, data_format="channels_last"),
    ]
    steps = steps_of([*layers, pt.layers.GlobalAveragePooling2D(data_format="channels_last")], (4, 5, 3))
    assert not any("transpose" in members or "reorder" in members for members in steps)
