"""``skip = Conv2D(...)``: the name of an output, which is ``top: "skip"``."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.errors import TextError
from prototorch.graph.net_reader import read_net
from prototorch.graph.text_upgrade import upgrade_document
from prototorch.text.brace_style import to_braces
from prototorch.text.call_style import to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document

HEAD = 'input { name: "image"  shape: [4] }\nblock two(n) { h = Dense(n)  Dense(h, 4) }\n'
RESIDUAL = """
input("image", [4])
block residual(width) {
  x = Dense(4, activation: relu)
  Dense(width)
  y = Dense(4)
  Add(y, x)
}
skip = residual(8)
residual(6)
up = Dense(4)
Add(up, skip)
Dense(2, name: "logits")
"""


def expanded(text: str) -> str:
    return format_document(load_text(text, "m.proto")).strip()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("x = Dense(5)", 'Dense { units: 5  top: "x" }'),
        ("x = Dense { units: 5 }", 'Dense { units: 5  top: "x" }'),
        ("x = Dense < units: 5 >", 'Dense { units: 5  top: "x" }'),
        ("x = Dense(5) { activation: relu }", 'Dense { units: 5  activation: relu  top: "x" }'),
        ("x = Flatten", 'Flatten { top: "x" }'),
        ("x = # why\n Flatten", 'Flatten { top: "x" }'),
        ("x = Dense(5)  Dense(x, 3)", 'Dense { units: 5  top: "x" }  Dense { bottom: "x"  units: 3 }'),
        ("x = Dense(4)  Add(x, image)", 'Dense { units: 4  top: "x" }  Add { bottom: ["x", "image"] }'),
        (
            "Add { branch { } branch { x = Dense(4) ReLU } }",
            'Add { branch { } branch { Dense { units: 4  top: "x" } ReLU { } } }',
        ),
        (
            "if true { x = Dense(4) } else { x = Dense(3) }",
            'if true { Dense { units: 4  top: "x" } } else { Dense { units: 3  top: "x" } }',
        ),
        ('x = Dense(5, name: "d")', 'Dense { units: 5  name: "d"  top: "x" }'),
    ],
)
def test_what_a_name_means(text, plain):
    assert load_text(HEAD + text) == load_text(HEAD + plain)


def test_the_output_of_a_block_has_the_name():
    assert expanded(HEAD + "x = two(3)\nDense(x, 5)").splitlines()[1:] == [
        'Dense { name: "two_1/dense_1"  units: 3  top: "two_1/h" }',
        'Dense { name: "two_1/dense_2"  bottom: "two_1/h"  units: 4  top: "x" }',
        'Dense { name: "dense_1"  bottom: "x"  units: 5 }',
    ]


def test_names_inside_a_block_give_way_to_that_of_its_use():
    text = (
        'block inner() { q = Dense(4) }\nblock outer() { Dense(5)  z = inner }\ninput("image", [4])\n'
        'y = outer\nAdd("outer_1", "outer_1/z", "outer_1/inner_1", y, image)'
    )
    lines = expanded(text).splitlines()
    assert lines[2] == 'Dense { name: "outer_1/inner_1/dense_1"  units: 4  top: "y" }'
    assert lines[3] == 'Add { name: "add_1"  bottom: ["y", "y", "y", "y", "image"] }'


def test_names_are_local_to_a_block():
    text = expanded(RESIDUAL)
    assert 'top: "residual_1/x"' in text
    assert 'top: "residual_2/x"' in text
    with pytest.raises(TextError, match="There is no output named 'h' before it"):
        load_text(HEAD + "two(3)\nAdd(h, image)")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            "repeat 2 { x = Dense(4)  Add(x, image) }",
            'Dense(4, top: "x/1")  Add("x/1", "image")  Dense(4, top: "x/2")  Add("x/2", "image")',
        ),
        (
            'repeat 2 { Dense { units: 4  top: "x" }  Add { bottom: ["x", "image"] } }',
            'Dense(4, top: "x/1")  Add("x/1", "image")  Dense(4, top: "x/2")  Add("x/2", "image")',
        ),
        (
            "repeat 2 { pair(image) -> (x, y)  Concatenate(x, y) }",
            'pair(image, top: ["x/1", "y/1"])  Concatenate("x/1", "y/1")  '
            'pair(image, top: ["x/2", "y/2"])  Concatenate("x/2", "y/2")',
        ),
        (
            "skip = Dense(4)  repeat 2 { x = two(4)  Add(x, skip) }",
            'skip = Dense(4)  two(4, top: "x/1")  Add("x/1", skip)  two(4, top: "x/2")  Add("x/2", skip)',
        ),
        (
            "repeat 2 { x = Dense(4)  residual { Dense(4)  Add(x, x) } }",
            'Dense(4, top: "x/1")  residual { Dense(4)  Add("x/1", "x/1") }  '
            'Dense(4, top: "x/2")  residual { Dense(4)  Add("x/2", "x/2") }',
        ),
        (
            "repeat 2 { x = Dense(4)  repeat 2 { y = ReLU  Add(x, y) } }",
            'Dense(4, top: "x/1")  ReLU { top: "y/1" }  Add("x/1", "y/1")  ReLU { top: "y/2" }  Add("x/1", "y/2")  '
            'Dense(4, top: "x/2")  ReLU { top: "y/3" }  Add("x/2", "y/3")  ReLU { top: "y/4" }  Add("x/2", "y/4")',
        ),
        (
            "repeat 2 { repeat 1 { x = Dense(4) }  if true { y = ReLU }  Add(x, y) }",
            'Dense(4, top: "x/1")  ReLU { top: "y/1" }  Add("x/1", "y/1")  '
            'Dense(4, top: "x/2")  ReLU { top: "y/2" }  Add("x/2", "y/2")',
        ),
        (
            "repeat 2 { x = Dense(4)  Add(x, image) }  x = Dense(3)  Dense(x, 5)",
            'Dense(4, top: "x/1")  Add("x/1", "image")  Dense(4, top: "x/2")  Add("x/2", "image")  '
            "x = Dense(3)  Dense(x, 5)",
        ),
        (
            "repeat 2 { Add { branch { x = Dense(4) }  branch { } }  Add(x, image) }",
            'Add { branch { Dense(4, top: "x/1") }  branch { } }  Add("x/1", "image")  '
            'Add { branch { Dense(4, top: "x/2") }  branch { } }  Add("x/2", "image")',
        ),
    ],
)
def test_each_turn_of_a_repeat_has_its_names(text, plain):
    head = HEAD + 'block pair() { a = input  p = Dense(a, 3)  q = Dense(a, 4)  output: ["p", "q"] }\n'
    assert format_document(load_text(head + text)) == format_document(load_text(head + plain))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("repeat 1 { x = Dense(4) }  Add(x, image)", "x = Dense(4)  Add(x, image)"),
        (
            'repeat i in $range(3) { if $(i == 1) { x = two(4) }  ReLU }  Add(x, image)  output: "x"',
            'ReLU  x = two(4)  ReLU  ReLU  Add(x, image)  output: "x"',
        ),
        (
            'repeat i in $range(3) { if $(i == 0) { x = Dense(4) }  Add(x, image) }  Add { bottom: ["x", "image"] }',
            "x = Dense(4)  Add(x, image)  Add(x, image)  Add(x, image)  Add(x, image)",
        ),
        (
            'repeat i in $range(2) { Dense(4) { top: "up_${i}" } }  Add(up_0, up_1)',
            "up_0 = Dense(4)  up_1 = Dense(4)  Add(up_0, up_1)",
        ),
        (
            'repeat i in $range(2) { Dense(4, name: "up_${i}") }  Add("up_0", "up_1")',
            'Dense(4, name: "up_0")  Dense(4, name: "up_1")  Add("up_0", "up_1")',
        ),
        (
            "repeat i in $range(2) { if $(i == 1) { Add { branch { x = Dense(4) }  branch { } } } }  Add(x, image)",
            "Add { branch { x = Dense(4) }  branch { } }  Add(x, image)",
        ),
    ],
)
def test_a_name_of_a_single_turn_is_read_behind_the_repeat(text, plain):
    assert format_document(load_text(HEAD + text)) == format_document(load_text(HEAD + plain))


def test_a_net_with_names_in_turns_computes_and_is_saved(tmp_path):
    text = 'input("image", [4])\nrepeat 3 {\n  up = Dense(4)\n  Add(up, image)\n}\n'
    model = pt.load_model(text=text)
    rows = np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)
    result = np.asarray(model.predict(rows))
    w = [np.asarray(value) for value in model.get_weights().values()]
    x = rows
    for turn in range(3):
        x = x @ w[2 * turn] + w[2 * turn + 1] + rows
    np.testing.assert_allclose(result, x, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "m.h5")
    np.testing.assert_array_equal(np.asarray(pt.load_model(tmp_path / "m.h5").predict(rows)), result)
    plain = pt.load_model(text=expanded(text))
    plain.set_weights(model.get_weights())
    np.testing.assert_array_equal(np.asarray(plain.predict(rows)), result)


def test_both_styles_of_a_repeat_mean_the_same():
    text = 'input { name: "image"  shape: [4] }\nrepeat 2 { x = Dense(4)  Add(x, image) }\n'
    braces = format_document(to_braces(parse(text)))
    assert "x =" not in braces
    assert load_text(braces) == load_text(text)


def test_an_output_and_a_loss_read_the_name():
    text = HEAD + 'x = two(3)\ny = Dense(x, 1)\noutput: ["x", "y"]\ncompile { loss { output: "x"  type: mse } }'
    report = Report()
    net, _ = read_net(load_text(text), report)
    report.raise_if_any()
    assert net.outputs == ("x", "y")


def test_the_net_computes_and_is_saved(tmp_path):
    plain = tmp_path / "plain.proto"
    plain.write_text(expanded(RESIDUAL))
    (tmp_path / "m.proto").write_text(RESIDUAL)
    model = pt.load_model(tmp_path / "m.proto")
    rows = np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)
    result = np.asarray(model.predict(rows))
    w = [np.asarray(value) for value in model.get_weights().values()]

    def residual(x, at):
        first = np.maximum(x @ w[at] + w[at + 1], 0)
        return (first @ w[at + 2] + w[at + 3]) @ w[at + 4] + w[at + 5] + first

    skip = residual(rows, 0)
    total = residual(skip, 6) @ w[12] + w[13] + skip
    np.testing.assert_allclose(result, total @ w[14] + w[15], rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    np.testing.assert_array_equal(np.asarray(again.predict(rows)), result)
    other = pt.load_model(plain)
    other.set_weights(model.get_weights())
    np.testing.assert_array_equal(np.asarray(other.predict(rows)), result)


def test_settings_address_the_layer_by_its_name():
    text = 'input("image", [4])\nx = Dense(10)\ny = Dense(10, name: "d")\nAdd(x, y)'
    plain = text.replace("Dense(10)", "Dense(3)").replace("Dense(10,", "Dense(3,")
    assert load_text(text, settings=["dense_1.units=3", "d.units=3"]) == load_text(plain)


@pytest.mark.parametrize(
    "text",
    [
        "x = Dense(5)  # the first\n",
        "# above\nx = Flatten\n\ny = Dense { units: 5  activation: LeakyReLU { negative_slope: 0.1 } }\n",
        "x = Dense(5) { activation: relu }\n",
        "z = Add {\n  branch { }\n  branch {\n    # inside\n    q = Dense(3)\n    ReLU\n  }\n}\n",
        f"x = Dense({', '.join(f'field_number_{i}: {i}' for i in range(30))})\n",
    ],
)
def test_text_to_tree_to_text(text):
    document = parse(text, trivia=True)
    written = format_document(document)
    assert parse(written) == document
    assert format_document(parse(written, trivia=True)) == written


def test_trees_with_other_names_differ():
    assert parse("x = Flatten") != parse("y = Flatten")
    assert parse("x = Flatten") != parse("Flatten")


@pytest.mark.parametrize(
    ("text", "styled"),
    [
        ('Dense { units: 4  top: "x" }\n', "x = Dense(4)\n"),
        ('Dense { name: "d"  units: 4  top: "x" }\n', 'x = Dense(4, name: "d")\n'),
        ('ReLU { top: "x" }\nAdd { bottom: ["x", "image"] }\n', "x = ReLU\nAdd(x, image)\n"),
        ('Dense { units: 4  top: "a/b" }\n', 'Dense(4, top: "a/b")\n'),
        ('Dense { units: 4  top: "repeat" }\n', 'Dense(4, top: "repeat")\n'),
        ('Dense { units: 4  top: "output" }\n', 'Dense(4, top: "output")\n'),
        ('Split { sizes: [2, 2]  top: ["a", "b"] }\n', "Split([2, 2]) -> (a, b)\n"),
        ('Split { sizes: [2, 2]  top: ["a", "b/c"] }\n', 'Split([2, 2], top: ["a", "b/c"])\n'),
        ("x = two { n: 3 }\n", "x = two(3)\n"),
    ],
)
def test_the_style_of_calls_writes_the_name_where_top_is_given(text, styled):
    document = parse(HEAD + text, trivia=True)
    written = format_document(to_calls(document))
    assert written.endswith(styled)
    assert parse(written, trivia=True) == to_calls(document)
    reports = [Report(), Report()]
    assert read_net(load_text(written), reports[0])[0] == read_net(load_text(HEAD + text), reports[1])[0]


def test_fmt_and_show_of_the_command_line(tmp_path):
    path = tmp_path / "m.proto"
    path.write_text('input("image", [4])\nx   =  Dense( 4 )  # first\nAdd(x,image)\n')
    result = CliRunner().invoke(group, ["fmt", str(path)])
    assert result.exit_code == 0, result.output
    assert path.read_text() == 'input("image", [4])\nx = Dense(4)  # first\nAdd(x, image)\n'
    result = CliRunner().invoke(group, ["show", str(path), "--expanded"])
    assert result.exit_code == 0, result.output
    assert 'Dense { name: "dense_1"  top: "x"  units: 4 }' in result.output


def test_upgrade_keeps_the_name():
    document = parse("# why\nx = Conv1D { filters: 3  kernel_size: 3 }\ny = Flatten\n", trivia=True)
    assert format_document(upgrade_document(document)) == (
        "# why\nx = Conv1D { filters: 3  kernel_size: 3  data_format: channels_first }\ny = Flatten\n"
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("x = Flatten", "A field is written with ':', not with '='."),
        ("x = Dense { units: 3 }", "A field is written with ':', not with '='."),
        ("x = Dense(3)", "This is Python, not a model text"),
    ],
)
def test_texts_of_caffe_name_nothing_by_it(text, start):
    with pytest.raises(TextError) as caught:
        parse(text, is_protobuf=True)
    assert caught.value.mistakes[0].message.startswith(start)


@pytest.mark.parametrize(
    "text",
    [
        "x = Conv2D(64, 3)(x)",
        "x = Conv2D(\n    64, (3, 3),\n)(x)",
        "x = Conv2D(64, 3, activation='relu')(x)",
        "inputs = Input(shape=(784,))",
        "x = layers.Dense(10)(inputs)",
        "model = Model(inputs, outputs)\nmodel.summary()",
        "model = keras.Sequential()\nmodel.add(Dense(10))",
        "x = Dense(10)\nmodel.add(x)",
    ],
)
def test_python_is_python(text):
    with pytest.raises(TextError) as caught:
        parse("input { shape: [4] }\n" + text)
    assert len(caught.value.mistakes) == 1
    assert caught.value.mistakes[0].message.startswith("This is Python, not a model text")


def test_a_mistake_beside_a_name_is_not_python():
    with pytest.raises(TextError) as caught:
        parse("x = Dense(10)\ny = Conv2D(4, max(1, 2))\nDense 64")
    assert [m.message for m in caught.value.mistakes] == ["A ':' is missing between Dense and '64'."]
