"""Blocks that take types of layers, other blocks, layers in braces; fields that reach all layers of a use."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError
from prototorch.graph.net_reader import read_net
from prototorch.model.diagnose import summary
from prototorch.text.call_style import to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document

HEAD = 'input("image", [4])\n'
STAGE = "block stage(norm: BatchNormalization) { Dense(4)  norm  norm(axis: 1) }\n"
GPT = """
param vocabulary: 50257
param length: 1024
param dim: 768
param heads: 12

input("tokens", [length], dtype: int32)

block layer() {
  residual { LayerNormalization(epsilon: 1e-5)  MultiHeadAttention(heads, dim // heads, causal: true) }
  residual { LayerNormalization(epsilon: 1e-5)  Dense(4 * dim, activation: gelu)  Dense(dim) }
}

Embedding(vocabulary, dim, name: "tok")
PositionEmbedding(length)
repeat 12 { layer }
LayerNormalization(epsilon: 1e-5)
Dense(vocabulary, kernel: transpose("tok/embeddings"), use_bias: false)
"""
RESNET = """
name: "resnet101"
param classes: 1000

input("image", [3, 224, 224])

block conv_bn(filters, kernel: 1, stride: 1) {
  Conv2D(filters, kernel, stride, padding: kernel // 2, use_bias: false)
  BatchNormalization
}

block bottleneck(width, stride: 1, project: false) {
  x = input
  conv_bn(width)             ReLU
  conv_bn(width, 3, stride)  ReLU
  y = conv_bn(4 * width)
  if project { z = conv_bn(x, 4 * width, stride: stride)  Add(y, z) } else { Add(y, x) }
  ReLU
}

conv_bn(64, 7, 2)
ReLU
MaxPooling2D(3, 2, padding: 1)
repeat (width, count, stride) in [[64, 3, 1], [128, 4, 2], [256, 23, 2], [512, 3, 2]] {
  bottleneck(width, stride, project: true)
  repeat $(count - 1) { bottleneck(width) }
}
GlobalAveragePooling2D
Dense(classes, name: "logits")
"""


def expanded(text: str, **kwargs) -> list[str]:
    return format_document(load_text(text, "m.proto", **kwargs)).strip().splitlines()


def types_of(text: str, **kwargs) -> list[str]:
    return [f.name for f in load_text(text, "m.proto", **kwargs).fields[1:]]


def net_of(text: str):
    report = Report()
    net, _ = read_net(load_text(text, report=report), report)
    report.raise_if_any()
    return net


@pytest.mark.parametrize(("text", "trained"), [(RESNET, 44_549_160), (GPT, 124_439_808)], ids=["resnet101", "gpt2"])
def test_exact_numbers_of_parameters(text, trained, tmp_path):
    (tmp_path / "m.proto").write_text(text)
    assert summary(pt.load_model(tmp_path / "m.proto")).trainable == trained


def test_a_type_of_layers_as_a_param():
    text = "param norm: BatchNormalization\n" + HEAD + "norm\nnorm(epsilon: 0.1)\nnorm { epsilon: 0.1 }\nDense(3)"
    assert types_of(text) == ["BatchNormalization"] * 3 + ["Dense"]
    assert types_of(text, settings=["norm=LayerNormalization"])[:3] == ["LayerNormalization"] * 3
    assert types_of(text, params={"norm": "LayerNormalization"})[:3] == ["LayerNormalization"] * 3
    inner = "param norm: ReLU\n" + HEAD + "block f(n: Flatten) { n }\nf(norm)"
    assert types_of(inner, params={"norm": "LayerNormalization"}) == ["LayerNormalization"]
    assert expanded(text)[2] == 'BatchNormalization { name: "batch_normalization_2"  epsilon: 0.1 }'


@pytest.mark.parametrize(
    ("use", "types"),
    [
        ("stage", ["BatchNormalization", "BatchNormalization"]),
        ("stage(LayerNormalization)", ["LayerNormalization", "LayerNormalization"]),
        ("stage { norm: LayerNormalization }", ["LayerNormalization", "LayerNormalization"]),
        ("stage(norm: GroupNormalization(2))", ["GroupNormalization", "GroupNormalization"]),
        ("stage { norm: GroupNormalization { groups: 2 } }", ["GroupNormalization", "GroupNormalization"]),
    ],
)
def test_a_type_of_layers_as_an_argument(use, types):
    layers = load_text(HEAD + STAGE + use).fields[2:]
    assert [f.name for f in layers] == types
    values = [{g.name: g.value for g in f.value.fields} for f in layers]
    assert "axis" not in values[0]
    assert values[1]["axis"].value == 1
    assert all(("groups" in v) == ("groups" in use or "GroupNormalization" in use) for v in values)
    net_of(HEAD + STAGE + use)


@pytest.mark.parametrize(
    "use", ["f(own)", "f { g: own }", "f(own(n: 3))", "f(g: own { n: 3 })", "f { g { own(3) } }", "f { g { own } }"]
)
def test_a_block_as_an_argument(use):
    text = HEAD + "block own(n: 3) { Dense(n)  ReLU }\nblock f(g: Flatten) { g  Dense(5) }\n"
    assert types_of(text + use) == ["Dense", "ReLU", "Dense"]


def test_a_block_that_is_defined_later_than_the_one_that_takes_it():
    text = HEAD + "block f(g) { g }\nblock own() { Dense(3) }\nf(own)"
    assert types_of(text) == ["Dense"]


def test_residual_adds_what_it_reads(tmp_path):
    (tmp_path / "m.proto").write_text(
        HEAD + "residual { Dense(6, activation: relu)  Dense(4) }\nresidual { Dense(4) }\n"
    )
    model = pt.load_model(tmp_path / "m.proto")
    rows = np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)
    w = [np.asarray(value) for value in model.get_weights().values()]
    first = rows + np.maximum(rows @ w[0] + w[1], 0) @ w[2] + w[3]
    np.testing.assert_allclose(np.asarray(model.predict(rows)), first + first @ w[4] + w[5], rtol=1e-4, atol=1e-5)


def test_residuals_in_residuals_in_branches_and_loops():
    assert expanded(HEAD + "residual { residual { Dense(4) }  ReLU }")[1:] == [
        'Dense { name: "residual_1/body_1/residual_1/body_1/dense_1"  units: 4  '
        'top: "residual_1/body_1/residual_1/y" }',
        'Add { name: "residual_1/body_1/residual_1/add_1"  bottom: ["image", "residual_1/body_1/residual_1/y"] }',
        'ReLU { name: "residual_1/body_1/relu_1"  top: "residual_1/y" }',
        'Add { name: "residual_1/add_1"  bottom: ["image", "residual_1/y"] }',
    ]
    net_of(HEAD + "Add { branch { residual { ReLU } }  branch { Dense(4)  residual { Dense(4) } } }")
    net_of(HEAD + "repeat i in $range(3) { residual { repeat $(i + 1) { Dense(4) }  if $(i == 1) { ReLU } } }")


def test_a_text_may_define_its_own_residual():
    assert types_of(HEAD + "block residual(n) { Dense(n) }\nresidual(3)") == ["Dense"]


def test_names_in_braces_are_their_own_and_see_those_around():
    text = HEAD + "m = Dense(3)\nrepeat 2 { residual { x = Dense(image, 4)  y = Dense(m, 4)  Add(x, y) } }"
    lines = expanded(text)
    assert 'Dense { name: "residual_1/body_1/dense_2"  bottom: "m"  units: 4  top: "residual_1/body_1/y" }' in lines
    assert len({line.split('"')[1] for line in lines}) == len(lines)


def test_values_in_braces_are_those_of_where_they_stand():
    text = (
        HEAD
        + "block f(body, n: 9) { body }\nblock g(n) { f { Dense(n) } }\nrepeat k in [3, 4] { f { Dense(k) } }\ng(5)"
    )
    units = [f.value.fields for f in load_text(text).fields[1:]]
    assert [g.value.value for fields in units for g in fields if g.name == "units"] == [3, 4, 5]


def test_blocks_pass_layers_on():
    text = HEAD + "block wrap(body) { USE }\nwrap { Dense(4)  ReLU }"
    for use in ("residual(body)", "residual { body }", "residual { body: $body }", "residual(body: body)"):
        assert types_of(text.replace("USE", use)) == ["Dense", "ReLU", "Add"]


def test_several_bodies_and_defaults():
    text = (
        HEAD
        + "block two(left, right: { ReLU }, width: 4) {\n"
        + "  x = input  a = left(x)  b = right(x)  Add(a, b)  Dense(width)\n}\n"
    )
    assert types_of(text + "two { width: 3  left { Dense(4)  ReLU }  right { Dense(4) } }") == [
        "Dense",
        "ReLU",
        "Dense",
        "Add",
        "Dense",
    ]
    assert types_of(text + "two { left { Dense(4) } }") == ["Dense", "ReLU", "Add", "Dense"]
    assert types_of(text + "two(left: Dense(4), right: residual { Dense(4) })") == [
        "Dense",
        "Dense",
        "Add",
        "Add",
        "Dense",
    ]
    assert types_of(text + "two { left { }  right { Dense(4) } }") == ["Dense", "Add", "Dense"]


def test_values_by_position_leave_out_what_the_braces_are():
    text = HEAD + "block f(body, rate, norm: ReLU) { body  Dropout(rate)  norm }\n"
    assert load_text(text + "f(0.5, LayerNormalization) { Dense(4) }") == load_text(
        text + "f { rate: 0.5  norm: LayerNormalization  body { Dense(4) } }"
    )
    assert load_text(text + "f(Dense(4), 0.5)") == load_text(text + "f { body: Dense { units: 4 }  rate: 0.5 }")


def test_layers_in_braces_with_an_input_and_outputs():
    text = HEAD + "block f(body) { a = Dense(3)  body(a) -> (p, q)  Subtract(p, q) }\n"
    net = net_of(text + "f { x = input  u = Dense(x, 4)  v = Dense(u, 4)  w = Add(u, v)  output(w, v) }")
    assert [node.name for node in net.nodes][-1] == "f_1/subtract_1"
    assert expanded(text + "f { x = input  u = Dense(x, 4)  v = Dense(u, 4)  output(u, v) }")[-1] == (
        'Subtract { name: "f_1/subtract_1"  bottom: ["f_1/p", "f_1/q"] }'
    )


def test_uses_of_one_name_of_weights_share_layer_by_layer(tmp_path):
    text = (
        'input("a", [4])\ninput("b", [4])\nblock tower() { Dense(5)  BatchNormalization  residual { Dense(5) } }\n'
        'l = tower(a, weights: "tower")\nr = tower(b, weights: "tower")\nSubtract(l, r)\n'
    )
    (tmp_path / "m.proto").write_text(text)
    model = pt.load_model(tmp_path / "m.proto")
    assert summary(model).trainable == 4 * 5 + 5 + 2 * 5 + 5 * 5 + 5
    rows = np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)
    np.testing.assert_allclose(np.asarray(model.predict({"a": rows, "b": rows})), 0, atol=1e-6)
    model.save(tmp_path / "m.h5")
    assert summary(pt.load_model(tmp_path / "m.h5")).trainable == summary(model).trainable


def test_a_weight_of_a_layer_above_is_that_of_the_shared_name(tmp_path):
    (tmp_path / "m.proto").write_text(
        'input("tokens", [4], dtype: int32)\n'
        'block f() { Embedding(10, 4, name: "tok")  Dense(10, kernel: transpose("tok/embeddings"), use_bias: false) }\n'
        'a = f(tokens, weights: "t")\nb = f(tokens, weights: "t")\nAdd(a, b)\n'
    )
    assert summary(pt.load_model(tmp_path / "m.proto")).trainable == 40


def test_the_own_name_of_weights_of_a_layer_stays():
    text = HEAD + 'block f() { Dense(4, weights: "own")  Dense(4) }\nf(weights: "t", name: "x")\nf(weights: "t")'
    assert [line.split('weights: "')[1].split('"')[0] for line in expanded(text)[1:]] == [
        "own",
        "t/dense_2",
        "own",
        "t/dense_2",
    ]


def test_settings_reach_all_layers():
    text = HEAD + (
        "block inner() { Dense(4, lr_mult: 3.0)  Dense(4, trainable: true) }\n"
        "block f() { Dense(4)  Add { branch { Dense(4) }  branch { } }  inner(lr_mult: 2.0)  residual { Dense(4) } }\n"
        'f(trainable: false, lr_mult: 0.5, decay_mult: 0.25, name: "x")\nDense(4)\n'
    )
    net = net_of(text)
    layers = {node.name: node.layer for node in net.nodes}
    last = layers.pop("dense_1")
    assert (last.trainable, last.lr_mult, last.decay_mult) == (True, 1.0, 1.0)
    assert len(layers) == 7
    assert all(not layer.trainable and layer.decay_mult == 0.25 for layer in layers.values())
    assert {name: layer.lr_mult for name, layer in layers.items() if "Dense" in type(layer).__name__} == {
        "x/dense_1": 0.5,
        "x/dense_2": 0.5,
        "x/inner_1/dense_1": 3.0,
        "x/inner_1/dense_2": 1.0,
        "x/residual_1/body_1/dense_1": 0.5,
    }


def test_arguments_of_these_names_stay_arguments():
    text = HEAD + "block f(trainable, weights, top: 3) { Dense(trainable)  Dense(top) }\nf(5, weights: 2)"
    assert [g.value.value for f in load_text(text).fields[1:] for g in f.value.fields if g.name == "units"] == [5, 3]


def test_frozen_uses_are_not_trained(tmp_path):
    text = HEAD + "block f() { Dense(4)  Dense(4) }\nf(trainable: false)\nf\ncompile { loss: mse  optimizer: SGD(0.1) }"
    (tmp_path / "m.proto").write_text(text)
    model = pt.load_model(tmp_path / "m.proto")
    before = {name: np.asarray(value).copy() for name, value in model.get_weights().items()}
    rows = np.random.default_rng(0).standard_normal((8, 4), dtype=np.float32)
    model.fit(rows, rows, epochs=1, verbose=0)
    changed = {name for name, value in model.get_weights().items() if not np.array_equal(value, before[name])}
    assert {name.split("/")[0] for name in changed} == {"f_2"}


@pytest.mark.parametrize(
    "text",
    [
        "block f(g) { g(g) }\nf(f)",
        "block g(h) { h(h) }\nblock k(h) { residual { h(h) } }\ng(k)",
        "block g() { residual { residual { g } } }\ng",
        "block f(g: f) { g }\nf",
    ],
)
def test_recursion_ends_with_a_message(text):
    with pytest.raises(TextError):
        load_text(HEAD + text)


def test_limits_hold():
    deep = "residual { " * 60 + "Dense(4)" + " }" * 60
    with pytest.raises(TextError, match="levels inside each other"):
        load_text(HEAD + deep)
    with pytest.raises(TextError, match="more than 100,000 layers"):
        load_text(HEAD + "block f(body) { repeat 300 { body } }\nf { f { f { f { ReLU } } } }")


@pytest.mark.parametrize(
    ("text", "styled"),
    [
        ("residual { Dense { units: 4 }  ReLU { } }\n", "residual { Dense(4)  ReLU }\n"),
        (
            "residual {\n  # why\n  Dense { units: 4 }  # the layer\n}\n",
            "residual {\n  # why\n  Dense(4)  # the layer\n}\n",
        ),
        ("wrap { rate: 0.5  Dense { units: 4 } }\n", "wrap { rate: 0.5  Dense(4) }\n"),
        ("two { left { Dense { units: 4 } }  right { ReLU { } } }\n", "two { left { Dense(4) }  right { ReLU } }\n"),
    ],
)
def test_the_style_of_calls_in_braces(text, styled):
    blocks = (
        "block wrap(body, rate) { body  Dropout(rate) }\nblock two(left, right) { a = left  b = right  Add(a, b) }\n"
    )
    document = parse(HEAD + blocks + text, trivia=True)
    written = format_document(to_calls(document))
    assert written.endswith(styled)
    assert format_document(parse(written, trivia=True)) == written
    assert load_text(written) == load_text(HEAD + blocks + text)


def test_the_style_of_blocks_that_use_each_other():
    document = parse("block f(a) { g(a) }\nblock g(b) { f(b)  g { ReLU { } } }\n", trivia=True)
    assert "g { ReLU }" in format_document(to_calls(document))


def test_layers_given_to_a_block_of_another_file_mean_what_they_mean_where_they_stand(tmp_path):
    (tmp_path / "lib.proto").write_text(
        "param w: 7\nblock helper(n) { Dense(n) }\nblock wrap(body) { helper(w)  body }\nblock take(g) { g }\n"
    )
    text = (
        'include wrap, take from "lib.proto"\n' + HEAD + "param k: 3\nblock helper(n) { Dense(n, activation: relu) }\n"
        "wrap { helper(k)  residual { Dense(k) } }\ntake(g: helper(2))\ntake { take { helper(5) } }\n"
    )
    layers = load_text(text, "m.proto", root=str(tmp_path)).fields[1:]
    values = [{g.name: g.value for g in f.value.fields} for f in layers if f.name == "Dense"]
    assert [(v["units"].value, "activation" in v) for v in values] == [
        (7, False),
        (3, True),
        (3, False),
        (2, True),
        (5, True),
    ]
