"""From text to net: wiring, branches, names, inputs and outputs."""

from __future__ import annotations

import pytest

from prototorch.errors import TextError
from prototorch.graph.net import Net
from prototorch.graph.net_reader import read_net
from prototorch.layers import Dense, Dropout, Flatten
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text


def net_of(text: str, **params: object) -> Net:
    report = Report()
    net, _ = read_net(load_text(text, "m.proto", params, report=report), report)
    report.raise_if_any()
    assert net is not None
    return net


def wires(text: str) -> list[str]:
    """``bottoms -> tops`` of every layer, in order."""
    return [f"{' '.join(n.bottoms)} -> {' '.join(n.tops)}" for n in net_of(text).nodes]


def test_a_row_of_layers():
    net = net_of('name: "n"\ninput { name: "x" shape: [1, 4] }\nFlatten { }\nDense { units: 3 name: "y" }')
    assert (net.name, net.outputs) == ("n", ("y",))
    assert [(i.name, i.shape, i.dtype) for i in net.inputs] == [("x", (1, 4), "float32")]
    assert [n.layer for n in net.nodes] == [Flatten(name="flatten_1"), Dense(3, name="y")]
    assert net.nodes[1].span.line == 4


def test_the_name_of_a_net_without_one_is_its_file():
    assert net_of("input { shape: [4] } Dense { units: 3 }").name == "m"


def test_branches():
    text = """
    input { name: "x" shape: [4] }
    Add {
      branch { Dense { name: "a" units: 4 } Dense { name: "b" units: 4 } }
      branch { }
      branch {
        Concatenate { name: "c" branch { Dense { name: "d" units: 2 } } branch { Dense { name: "e" units: 2 } } }
      }
    }
    Dense { name: "f" units: 1 }
    """
    assert wires(text) == ["x -> a", "a -> b", "x -> d", "x -> e", "d e -> c", "b x c -> add_1", "add_1 -> f"]


def test_branches_from_a_named_place():
    text = """
    input { name: "x" shape: [4] }
    Dense { name: "a" units: 4 }
    Dense { name: "b" units: 4 }
    Add {
      bottom: "a"
      branch { Dense { name: "c" units: 4 } } branch { } branch { Dense { bottom: "b" name: "d" units: 4 } }
    }
    """
    assert wires(text)[2:] == ["a -> c", "b -> d", "c a d -> add_1"]


def test_several_inputs_and_outputs_and_shared_weights():
    text = """
    input { name: "l" shape: [8] }
    input { name: "r" shape: [8]  dtype: int32 }
    Dense { name: "tl" bottom: "l" units: 4 weights: "tower" }
    Dense { name: "tr" bottom: "r" units: 4 weights: "tower" }
    Subtract { name: "d" bottom: ["tl", "tr"] }
    Dense { name: "same" bottom: "d" units: 1 }
    Dense { name: "score" bottom: "d" units: 5 }
    output: ["same", "score"]
    """
    net = net_of(text)
    assert net.outputs == ("same", "score")
    assert [n.weights_key for n in net.nodes] == ["tower", "tower", "d", "same", "score"]
    assert net.inputs[1].dtype == "int32"


def test_the_same_bottom_twice_and_repeated_fields():
    text = 'input { name: "x" shape: [4] }\nAdd { name: "a" bottom: "x" bottom: "x" }'
    assert wires(text) == ["x x -> a"]


def test_tops():
    text = """input { name: "x" shape: [4] }
    Dense { name: "a" top: "b" units: 4 }
    Dense { name: "c" bottom: "b" units: 1 }"""
    assert wires(text) == ["x -> b", "b -> c"]
    assert net_of(text.replace(' bottom: "b"', "")).nodes[1].bottoms == ("b",)


def test_layers_with_several_outputs():
    text = """
    input { name: "x" shape: [5, 3] }
    LSTM { name: "l" units: 4  return_sequences: true  return_state: true }
    Concatenate { name: "c" bottom: ["l:1", "l:2"] }
    output: ["l", "c"]
    """
    assert wires(text) == ["x -> l l:1 l:2", "l:1 l:2 -> c"]


def test_a_loss_makes_an_output():
    text = """
    input { shape: [4] }
    Dense { name: "a" units: 4 }
    Dense { name: "b" units: 1 }
    compile { loss { output: "a" type: mse } loss { output: "b" type: mse } }
    """
    assert net_of(text).outputs == ("a", "b")
    assert net_of(text + 'output: "b"').outputs == ("b",)


def test_preprocess_and_augment():
    text = """
    input { shape: [4] }
    preprocess { Flatten { } Dropout { rate: 0.5 } }
    augment { Dropout { rate: 0.25 } }
    Dense { units: 1 }
    """
    net = net_of(text)
    assert net.preprocess == (Flatten(), Dropout(0.5))
    assert net.augment == (Dropout(0.25),)


def test_unknown_dimensions():
    assert net_of("input { shape: [none, 3] } Flatten { }").inputs[0].shape == (None, 3)


def test_nodes_keep_the_chain_of_blocks():
    net = net_of("block b(n) { Dense { units: $n } }\ninput { shape: [4] }\nrepeat 2 { b { n: 3 } }")
    assert [frame.label for frame in net.nodes[1].chain] == ["b", "repeat"]


def test_every_mistake_is_reported_once():
    text = "input { shape: [4] }\nrepeat 3 { Dense { units: 0 } }\nDense { unit: 1 }\nFlaten { }\n"
    with pytest.raises(TextError) as caught:
        net_of(text)
    assert [m.span.line for m in caught.value.mistakes] == [2, 3, 4]
