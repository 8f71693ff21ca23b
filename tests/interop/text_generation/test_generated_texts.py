"""Generated texts read as the net that they were made from, and are about as short as texts that people wrote."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.net_reader import read_net
from prototorch.interop.text_generation import generate_text
from prototorch.interop.text_generation.concatenations import chain_concatenations
from prototorch.model.load import load_model, make_model
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document
from tests.interop.text_generation.random_graphs import random_graph
from tests.nets.random_nets import random_model

L = pt.layers
pytestmark = pytest.mark.filterwarnings("ignore::prototorch.errors.ModelWarning")  # a mask may end in a random net


def wiring(net: Net, names: dict[str, str]) -> set[tuple]:
    """The layers of a net with what they read, by the names of another; padding of 0 is ``valid``."""

    def plain(layer):
        fields = {**layer.field_values(), "name": None}
        if isinstance(fields.get("padding"), tuple) and not any(map(any, fields["padding"])):
            fields["padding"] = "valid"
        return repr(sorted(fields.items(), key=lambda item: item[0]))

    tops = {top: (names[node.name], i) for node in net.nodes for i, top in enumerate(node.tops)}
    tops |= {i.name: (i.name, 0) for i in net.inputs}
    nodes = {(names[n.name], type(n.layer), plain(n.layer), tuple(tops[b] for b in n.bottoms)) for n in net.nodes}
    return nodes | {("output", tuple(tops[o] for o in net.outputs))}


def check(net: Net, **options) -> str:
    generated = generate_text(net, **options)
    report = Report()
    other, _ = read_net(load_text(generated.text, report=report), report)
    assert not list(report.diagnostics), generated.text
    assert sorted(generated.names) == sorted(node.name for node in net.nodes)
    assert wiring(chain_concatenations(net), dict(generated.names)) == wiring(
        other, {n.name: n.name for n in other.nodes}
    )
    assert format_document(parse(generated.text, trivia=True)) == generated.text
    assert generated.is_folded, generated.text
    return generated.text


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_read_back_equal(seed):
    net = random_graph(seed)
    for names in ("keep", "drop", "auto"):
        check(net, names=names)


@pytest.mark.slow
def test_many_random_graphs_read_back_equal():
    for seed in range(1000, 4000):
        check(random_graph(seed, uses=30))


@pytest.mark.parametrize("seed", range(60))
def test_random_models_read_back_equal(seed):
    check(random_model(seed).net)


#: lines of the text for a shipped model's net, all blocks expanded before; not counting compile and fit
LINES = {"resnet101": 50, "resnet50": 50, "densenet121": 46, "googlenet": 68, "mobilenet_v2": 62, "vgg16": 30,
         "transformer": 34, "squeezenet": 34, "resnet18": 52, "resnet20": 56}  # fmt: skip


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_shipped_models_become_short_again(name):
    text = check(load_model(name).net)
    by_hand = Path(shipped_models()[name]).read_text().count("\n")
    assert text.count("\n") <= LINES.get(name, max(by_hand, 62))  # some include blocks of another file


def chain(layers, name="chain") -> Net:
    nodes, before = [], "x"
    for number, layer in enumerate(layers):
        nodes.append(LayerNode(f"l{number}", layer.replace(name=f"l{number}"), (before,), (f"l{number}",)))
        before = f"l{number}"
    return Net(name, (InputNode("x", (3, 8, 8)),), tuple(nodes), (before,))


def test_ten_thousand_layers_take_seconds():
    deep = chain([x for i in range(3334) for x in (L.Conv2D(8 * (1 + i // 500), 3), L.BatchNormalization(), L.ReLU())])
    begin = time.process_time()
    text = check(deep, names="drop")
    assert time.process_time() - begin < 30  # 5 s on an idle core, half of it for reading the text twice
    assert text.count("\n") < 60


def test_ten_thousand_different_layers_take_seconds():
    begin = time.process_time()
    check(chain([L.Dense(1 + i * 7919 % 10007, activation="relu" if i * 31 % 7 else "tanh") for i in range(10000)]))
    assert time.process_time() - begin < 30


def test_a_pattern_of_names_becomes_an_expression():
    nodes, before = [], "x"
    for stage in range(3):
        for unit in range(4):
            for part, layer in (("conv", L.Conv2D(8 * 2**stage, 3)), ("bn", L.BatchNormalization())):
                name = f"layer{stage + 1}.{unit}.{part}"
                nodes.append(LayerNode(name, layer.replace(name=name), (before,), (name,)))
                before = name
    net = Net("named", (InputNode("x", (3, 8, 8)),), tuple(nodes), (before,))
    generated = generate_text(net)
    assert generated.names["layer2.3.conv"] == "layer2/3/conv"
    assert all(new == old.replace(".", "/") for old, new in generated.names.items())
    assert generated.text.count("\n") <= 16, generated.text


def test_weights_shared_under_a_layers_name_stay_shared():
    tied = [L.Dense(4, name="first"), L.ReLU(name="act"), L.Dense(4, name="second", weights="first")]
    nodes = tuple(
        LayerNode(layer.name, layer, (before,), (layer.name,))
        for layer, before in zip(tied, ("x", "first", "act"), strict=True)
    )
    text = check(Net("tied", (InputNode("x", (4,)),), nodes, ("second",)))
    assert 'weights: "first"' in text


def test_the_units_of_the_last_layer_become_the_param_classes():
    text = check(chain([L.Flatten(), L.Dense(7), L.Softmax()]))
    assert "param classes: 7" in text
    assert "Dense(classes," in text


def test_a_densenet_whose_concatenations_begin_anew_is_nested():
    nodes, values = [], ["x"]
    for number in range(6):
        whole = "x"
        if number:
            whole = f"cat{number}"
            nodes.append(LayerNode(whole, L.Concatenate(name=whole), tuple(values), (whole,)))
        nodes.append(LayerNode(f"c{number}", L.Conv2D(4, 3, padding=1, name=f"c{number}"), (whole,), (f"c{number}",)))
        values.append(f"c{number}")
    nodes.append(LayerNode("cat6", L.Concatenate(name="cat6"), tuple(values), ("cat6",)))
    net = Net("dense", (InputNode("x", (3, 8, 8)),), tuple(nodes), ("cat6",))
    text = check(net, names="drop")
    assert "repeat 5" in text  # the last one has the name of the output
    assert "bottom" not in text
    image = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    one, two = make_model(net, {}), make_model(chain_concatenations(net), {})
    two.set_weights(one.get_weights())
    np.testing.assert_allclose(one.predict(image, verbose=0), two.predict(image, verbose=0), atol=1e-6)
