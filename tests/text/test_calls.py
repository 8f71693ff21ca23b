"""The call form: ``Conv2D(64, 3, activation: relu)`` means what ``Conv2D { filters: 64 ... }`` means."""

from __future__ import annotations

import logging
import os

import numpy as np
import pytest
from click.testing import CliRunner
from lark import Lark
from lark import logger as lark_log

import prototorch as pt
from prototorch.base.package_files import package_folder
from prototorch.cli.main import group
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import TextError
from prototorch.graph.net_reader import read_net
from prototorch.layers.base import Layer
from prototorch.model.load import model_from_text
from prototorch.text.call_style import to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.reader import START_RULES, parse, read_file, read_grammar
from prototorch.text.syntax_tree import Field
from prototorch.text.writer import format_document

MODELS = sorted(p for p in package_folder("models").glob("*.proto"))
LENET = """
name: "lenet"
param classes: 10
input("image", [1, 28, 28])
preprocess { Rescaling(1 / 255) }
Conv2D(20, 5, activation: relu)
MaxPooling2D(2)
Conv2D(50, 5, activation: relu)
MaxPooling2D(2)
Flatten
Dense(500, activation: relu)
Dense(classes, name: "logits")
compile {
  loss: sparse_categorical_crossentropy(from_logits: true)
  optimizer: Adam(1e-3)
  metrics: [accuracy]
}
fit {
  data { source: "fashion-mnist-mini" }
  epochs: 5
  batch_size: 64
}
"""


def net_of(text: str, path: str = "m.proto"):
    report = Report()
    net, _ = read_net(load_text(text, path, report=report, root=os.path.dirname(path) or None), report)
    report.raise_if_any()
    return net


def conflicts_of(grammar: str, start: list[str], caplog: pytest.LogCaptureFixture) -> list[str]:
    """What lark says of conflicts, which it resolves."""
    caplog.clear()
    lark_log.addHandler(caplog.handler)
    level = lark_log.level
    lark_log.setLevel(logging.DEBUG)
    try:
        Lark(grammar, parser="lalr", lexer="basic", start=start, debug=True)
    finally:
        lark_log.setLevel(level)
        lark_log.removeHandler(caplog.handler)
    return [text for text in (record.getMessage() for record in caplog.records) if "conflict" in text.lower()]


@pytest.mark.parametrize("is_protobuf", [False, True])
def test_the_grammar_has_no_conflicts(is_protobuf, caplog):
    assert conflicts_of('s: "i" s | "i" s "e" s | "x"', ["s"], caplog)  # the log says what there is
    assert conflicts_of(read_grammar(is_protobuf), START_RULES, caplog) == []


def test_the_grammar_is_one_readable_file():
    lines = (package_folder("grammars") / "model.lark").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 125


def test_lenet_in_calls_is_the_shipped_lenet():
    shipped = read_file(package_folder("models") / "lenet.proto")
    assert load_text(LENET) == load_text(shipped)


def test_lenet_in_calls_trains_with_the_same_numbers(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.random((32, 1, 28, 28), dtype=np.float32) * 255, rng.integers(0, 10, 32)
    losses = []
    (tmp_path / "calls.proto").write_text(LENET)
    for path in (tmp_path / "calls.proto", package_folder("models") / "lenet.proto"):
        model = pt.load_model(path)
        losses.append(model.fit(images, labels, epochs=2, batch_size=16, verbose=0).history["loss"])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_shipped_models_in_calls(path):
    text = read_file(path)
    document = parse(text, str(path), trivia=True)
    calls = to_calls(document, str(path.parent))
    written = format_document(calls)
    assert parse(written, trivia=True) == calls
    assert format_document(parse(written, trivia=True)) == written
    assert len(written) <= len(format_document(document))
    assert net_of(written, str(path)) == net_of(text, str(path))


@pytest.mark.parametrize("name", sorted(Layer.members()))
def test_layers_in_calls(name):
    """Each example of a layer, as a call, is the same layer."""
    for example in Layer.members()[name].examples:
        document = parse(example.text)
        written = format_document(to_calls(document))
        expanded = load_text(written)
        (again,) = (Field(f.name, f.value) for f in expanded.fields)
        named = {f.name for f in document.fields[0].value.fields}
        fields = tuple(f for f in again.value.fields if f.name != "name" or "name" in named)
        read = Layer.lookup(again.name).from_fields(fields, Report())
        assert read == parse_layer(example.text), written


@pytest.mark.parametrize(
    ("calls", "braces"),
    [
        ("Dense(n)", "Dense { units: $n }"),
        ("Dense($n)", "Dense { units: $n }"),
        ("Dense(2 * n // 3)", "Dense { units: $(2 * n // 3) }"),
        ("Dense($(n))", "Dense { units: $n }"),
        ('Dense(n, name: "d${n}")', 'Dense { units: $n  name: "d${n}" }'),
        ("Dense(3, activation: relu,)", "Dense { units: 3  activation: relu }"),
        ("Dense(3) { activation: relu }", "Dense { units: 3  activation: relu }"),
        ("Dense(3, activation: LeakyReLU(0.1))", "Dense { units: 3  activation: LeakyReLU { negative_slope: 0.1 } }"),
        (
            "Dense(3, activation: LeakyReLU { negative_slope: 0.1 })",
            "Dense { units: 3  activation: LeakyReLU { negative_slope: 0.1 } }",
        ),
        ("Dense(w, activation: w2)", "Dense { units: $w  activation: $w2 }"),
        ("Reshape([n, -1])", "Reshape { target_shape: [$n, -1] }"),
        ("two(n + 1)", "two { n: $(n + 1) }"),
        ("two", "two { }"),
        ("two(m: 5)", "two { m: 5 }"),
        ("Dense(x, 5)", 'Dense { bottom: "x"  units: 5 }'),
        ('Dense("x", 5)', 'Dense { bottom: "x"  units: 5 }'),
        ("Dense(5, bottom: x)", 'Dense { units: 5  bottom: "x" }'),
        ('Dense(6, name: "a")  Add(a, x)', 'Dense { units: 6  name: "a" }  Add { bottom: ["a", "x"] }'),
        ("Add { branch { } branch { two  Dense(6) } }", "Add { branch { } branch { two { } Dense { units: 6 } } }"),
        ("if big { Dense(3) } else { Flatten }", "if $big { Dense { units: 3 } } else { Flatten { } }"),
    ],
)  # fmt: skip
def test_what_a_call_means(calls, braces):
    head = (
        "param n: 4\nparam w: 3\nparam w2: relu\nparam big: true\n"
        "block two(n: 2, m: 3) { Dense { units: $n } Dense { units: $m } }\n"
        'input { name: "x"  shape: [6] }\n'
    )
    if calls.startswith("if"):
        calls = calls.replace("if big", "if $big")
    assert load_text(head + calls) == load_text(head + braces)


@pytest.mark.parametrize(
    "text",
    [
        "Conv2D(64, 3, strides: 2, activation: relu)\n",
        "conv(4 * width, $x, [a, b], max(1, n), name: \"a${i}\")\n",
        "Flatten\n",
        "Dense(10) { name: \"x\" }\n",
        "compile { loss: mse(), optimizer: Adam(1e-3) }\n",
        "Dense(-1, -inf, $(-n), not a, $(-2))\n",
        "Dense(a if b else c, f: (a + b) * c)\n",
        "Dense(kernel_regularizer: L2 { l2: 0.1 })\n",
        "Dense(\n  # why\n  10,\n)\n",
    ],
)  # fmt: skip
def test_text_to_tree_to_text(text):
    document = parse(text, trivia=True)
    written = format_document(document)
    assert parse(written) == document
    assert format_document(parse(written, trivia=True)) == written


def test_a_long_call_fills_lines():
    text = f"Dense({', '.join(f'field_number_{i}: {i}' for i in range(30))})\n"
    written = format_document(parse(text))
    assert max(map(len, written.splitlines())) <= 140
    assert written.splitlines()[0] == "Dense("
    assert parse(written) == parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer { Flatten }", "Flatten needs a value: Flatten { }."),
        ("Flatten\nlayer { }", "Flatten needs a value: Flatten { }."),
        ("x = 3", "A field is written with ':', not with '='."),
        ("layer { name: Adam(1) }", "An expression starts with '$': $Adam(...)."),
    ],
)
def test_caffe_has_no_calls(text, message):
    with pytest.raises(TextError) as caught:
        parse(text, is_protobuf=True)
    assert [m.message for m in caught.value.mistakes] == [message]


def test_settings_address_fields_that_were_given_by_position():
    head = 'input("x", [6])\nDense(10, name: "d")\n'
    changed = load_text(head, settings=["d.units=3"])
    assert changed == load_text('input { name: "x"  shape: [6] }\nDense { units: 3  name: "d" }')


def test_the_work_of_calls_is_counted():
    text = "block b(n) { repeat 1000 { Dense(n) } }\ninput([4])\nrepeat 1000 { b(3) }"
    with pytest.raises(TextError, match="steps"):
        load_text(text)


def test_fmt_writes_calls(tmp_path):
    path = tmp_path / "m.proto"
    path.write_text('# a net\ninput { name: "x"  shape: [6] }\nDense { units: 3  use_bias: false }  # the head\n')
    result = CliRunner().invoke(group, ["fmt", "--style", "call", str(path)])
    assert result.exit_code == 0, result.output
    assert path.read_text() == '# a net\ninput("x", [6])\nDense(3, use_bias: false)  # the head\n'


def test_a_negated_value_stands_bare_in_a_call():
    for text in ("Dense(-n)\n", "Dense(-inf)\n", "Dense(-1)\n", "f(ClipValue(-clip, clip))\n"):
        assert format_document(parse(text)) == text
        assert parse(format_document(parse(text))) == parse(text)


@pytest.mark.parametrize("metrics", ["[mae, TopKCategoricalAccuracy(2)]", "[TopKCategoricalAccuracy(2), mae]"])
def test_a_call_behind_a_word_in_a_list_takes_values_by_position(metrics):
    text = f'input("x", [4])\nDense(3)\ncompile {{ loss: mse  metrics: {metrics} }}'
    metric = next(m.type for m in model_from_text(text).compile_block.metrics if hasattr(m.type, "k"))
    assert metric.k == 2
