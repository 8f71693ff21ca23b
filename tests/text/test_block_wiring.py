"""What a block reads and gives: ``x = input``, ``input "x"``, ``output``, ``f(a, b) -> (c, d)``; names local to it."""

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
from tests.text.test_blocks_as_values import RESNET

HEAD = 'input("a", [4])\ninput("b", [4])\n'
ATTEND = """
block attend(units: 3) {
  input "query"
  input "memory"
  q = Dense(query, units)
  m = Dense(memory, units)
  scores = Multiply(q, m)
  mixed = Add(scores, m)
  output: ["mixed", "scores"]
}
"""


def expanded(text: str) -> list[str]:
    return format_document(load_text(text, "m.proto")).strip().splitlines()


def net_of(text: str):
    report = Report()
    net, _ = read_net(load_text(text, report=report), report)
    report.raise_if_any()
    return net


def count(path, text: str) -> tuple[int, int]:
    """All parameters of a text, and those that are trained."""
    path.write_text(text)
    table = summary(pt.load_model(path))
    return table.trainable + table.non_trainable, table.trainable


def test_resnet101_with_the_input_of_its_block_has_the_weights_of_the_shipped_one(tmp_path):
    total, trained = count(tmp_path / "m.proto", RESNET)
    assert trained == 44_549_160
    assert total - trained == summary(pt.load_model("resnet101")).non_trainable


def test_the_input_of_a_block_is_what_it_reads():
    text = HEAD + "block f() { x = input  Dense(4)  Add(x, x) }\n"
    assert expanded(text + "y = Dense(b, 4)\nf\nf(a)\nf\n")[3:] == [
        'Dense { name: "f_1/dense_1"  units: 4 }',
        'Add { name: "f_1/add_1"  bottom: ["y", "y"] }',
        'Dense { name: "f_2/dense_1"  bottom: "a"  units: 4 }',
        'Add { name: "f_2/add_1"  bottom: ["a", "a"] }',
        'Dense { name: "f_3/dense_1"  units: 4 }',
        'Add { name: "f_3/add_1"  bottom: ["f_2/add_1", "f_2/add_1"] }',
    ]


@pytest.mark.parametrize(
    ("around", "read"),
    [
        ("f", "image"),
        ("repeat 1 { f }", "image"),
        ("if true { f } else { Dense(3) }", "image"),
        ("Add { branch { }  branch { f } }", "image"),
        ('d = Dense(4)\nAdd { bottom: "image"  branch { d2 = Dense(4)  f }  branch { } }', "d2"),
        ("d = Dense(4)\nAdd { branch { f }  branch { } }", "d"),
        ('d = Dense(4)\nAdd { branch { f }  bottom: "image"  branch { } }', "image"),
        ("block g() { f }\nDense(4)\ng", "dense_1"),
        ("block g() { y = input  Dense(4)  f(y) }\ng", "image"),
        ("block g() { f  Dense(4) }\ng(image)", "image"),
    ],
)
def test_what_is_read_where(around, read):
    text = f'input("image", [4])\nblock f() {{ x = input  Dense(4)  Add(x, x) }}\n{around}\n'
    (line,) = [line for line in expanded(text) if f'bottom: ["{read}", "{read}"]' in line]
    assert 'f_1/add_1"' in line


def test_a_block_with_inputs_and_outputs(tmp_path):
    text = HEAD + ATTEND + 'attend(a, b) -> (out, scores)\nlast = attend(b, out)\noutput: ["last", "scores"]\n'
    lines = expanded(text)
    assert lines[2:] == [
        'Dense { name: "attend_1/dense_1"  bottom: "a"  units: 3  top: "attend_1/q" }',
        'Dense { name: "attend_1/dense_2"  bottom: "b"  units: 3  top: "attend_1/m" }',
        'Multiply { name: "attend_1/multiply_1"  bottom: ["attend_1/q", "attend_1/m"]  top: "scores" }',
        'Add { name: "attend_1/add_1"  bottom: ["scores", "attend_1/m"]  top: "out" }',
        'Dense { name: "attend_2/dense_1"  bottom: "b"  units: 3  top: "attend_2/q" }',
        'Dense { name: "attend_2/dense_2"  bottom: "out"  units: 3  top: "attend_2/m" }',
        'Multiply { name: "attend_2/multiply_1"  bottom: ["attend_2/q", "attend_2/m"]  top: "attend_2/scores" }',
        'Add { name: "attend_2/add_1"  bottom: ["attend_2/scores", "attend_2/m"]  top: "last" }',
        'output: ["last", "scores"]',
    ]
    (tmp_path / "m.proto").write_text(text)
    model = pt.load_model(tmp_path / "m.proto")
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4), dtype=np.float32)
    w = [np.asarray(value) for value in model.get_weights().values()]

    def attend(query, memory, at):
        q, m = query @ w[at] + w[at + 1], memory @ w[at + 2] + w[at + 3]
        return q * m + m, q * m

    out, scores = attend(a, b, 0)
    last, _ = attend(b, out, 4)
    results = model.predict({"a": a, "b": b})
    for result, right in zip(results.values() if isinstance(results, dict) else results, (last, scores), strict=True):
        np.testing.assert_allclose(np.asarray(result), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "use",
    [
        "attend(a, b) -> (out, scores)",
        "attend(a, b,) -> (out, scores,)",
        "attend($first, b) -> (out, scores)",
        'attend { bottom: ["a", "b"] } -> (out, scores)',
        'attend { bottom: ["a", "b"]  top: ["out", "scores"] }',
        'attend(bottom: ["a", "b"], top: ["out", "scores"])',
        'attend(a, b) { top: ["out", "scores"] }',
    ],
)
def test_the_spellings_of_a_use_are_the_same(use):
    text = f'param first: "a"\n{HEAD}{ATTEND}USE\nAdd(out, scores)\n'
    assert load_text(text.replace("USE", use)) == load_text(text.replace("USE", "attend(a, b) -> (out, scores)"))


@pytest.mark.parametrize(
    "outputs",
    ['output: ["mixed", "scores"]', "output(mixed, scores)", 'output("mixed", scores)', "output: [mixed, scores]"],
)
def test_the_spellings_of_outputs(outputs):
    text = HEAD + ATTEND.replace('output: ["mixed", "scores"]', outputs) + "attend(a, b) -> (x, y)\nAdd(x, y)\n"
    assert load_text(text) == load_text(HEAD + ATTEND + "attend(a, b) -> (x, y)\nAdd(x, y)\n")


@pytest.mark.parametrize(
    "spelling", ['input "query"', 'input { name: "query" }', 'input("query")', 'input(name: "query")']
)
def test_the_spellings_of_inputs(spelling):
    text = HEAD + ATTEND.replace('input "query"', spelling) + "attend(a, b)\n"
    assert load_text(text) == load_text(HEAD + ATTEND + "attend(a, b)\n")


def test_the_name_of_an_input_of_the_net():
    assert load_text('input "image" { shape: [4] }\nDense(3)') == load_text('input("image", [4])\nDense(3)')


def test_outputs_of_the_net_by_words():
    assert net_of(HEAD + "x = Add(a, b)\ny = Dense(x, 3)\noutput(x, y)").outputs == ("x", "y")


def test_what_follows_reads_the_first_output_also_where_it_is_not_the_last_layer():
    block = "block f() { x = Dense(4)  y = Dense(3)  output(x, y) }\n"
    text = 'input("image", [4])\n' + block
    assert 'Dense { name: "dense_1"  bottom: "f_1/x"  units: 5 }' in expanded(text + "f\nDense(5)")
    assert expanded(text + "f -> (p, q)\nAdd(p, image)\nf")[-1] == 'output: "f_2/x"'
    assert 'Dense { name: "g_1/dense_1"  bottom: "g_1/f_1/x"  units: 5 }' in expanded(
        text + "block g() { f  Dense(5) }\ng"
    )
    net = net_of(text + "f -> (p, q)\nr = Add(p, image)\ns = Concatenate(q, r)\noutput(s, q, p)")
    assert net.outputs == ("s", "q", "p")


def test_several_outputs_of_a_layer():
    text = 'input("image", [4])\n{}\nSubtract(x, y)\n'
    plain = load_text(text.replace("{}", 'Split { sizes: [2, 2]  top: ["x", "y"] }'))
    assert load_text(text.replace("{}", "Split(sizes: [2, 2]) -> (x, y)")) == plain
    assert load_text(text.replace("{}", "Split { sizes: [2, 2] } -> (x, y)")) == plain


def test_two_uses_do_not_clash_and_nothing_inside_is_seen_outside():
    text = HEAD + ATTEND + "attend(a, b) -> (x, y)\nattend(x, y)\n"
    assert len({line.split('"')[1] for line in expanded(text)}) == len(expanded(text))
    with pytest.raises(TextError, match="There is no output named 'mixed' before it"):
        load_text(text + "Add(mixed, x)")


def test_names_around_a_block_are_not_seen_by_words_in_it_but_by_strings_as_ever():
    block = "block f() {{ Dense({}, 4) }}\n"
    with pytest.raises(TextError, match="'skip' is an output outside of the block f"):
        load_text('input("image", [4])\n' + block.format("skip") + "skip = Dense(4)\nf\n")
    text = 'input("image", [4])\nblock f() { Dense { bottom: "skip"  units: 4 } }\nskip = Dense(4)\nReLU\nf\n'
    assert 'Dense { name: "f_1/dense_1"  bottom: "skip"  units: 4 }' in expanded(text)


def test_an_input_of_the_net_declared_in_a_block_stays_one():
    text = 'block images() { input { name: "image"  shape: [4] } }\nimages\nDense(3)'
    assert net_of(text).inputs[0].name == "image"


def test_the_saved_model_has_the_plain_text(tmp_path):
    (tmp_path / "m.proto").write_text(HEAD + ATTEND + "attend(a, b) -> (out, scores)\nAdd(out, scores)\n")
    model = pt.load_model(tmp_path / "m.proto")
    model.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    a, b = np.random.default_rng(1).standard_normal((2, 3, 4), dtype=np.float32)
    np.testing.assert_array_equal(
        np.asarray(again.predict({"a": a, "b": b})), np.asarray(model.predict({"a": a, "b": b}))
    )


@pytest.mark.parametrize(
    "text",
    [
        "attend(q, m) -> (out, scores)  # two\n",
        "attend { rate: 0.1 } -> (out, scores)\n",
        "attend -> (out, scores)\n",
        'block f() {\n  # the question\n  input "query"  # first\n\n  x = input\n  output: ["x"]\n}\n',
        'input "image" { shape: [4] }\n',
        "Split(sections: 2) {\n  # why\n  axis: 1\n} -> (x, y)  # both\n",
        f"attend({', '.join(f'field_number_{i}: {i}' for i in range(30))}) -> (out, scores)\n",
        "residual {\n  # inside\n  Dense(3)\n  ReLU\n}\n",
        "block f(left, right: { ReLU }, norm: GroupNormalization(8)) {\n  left\n  right\n}\n",
    ],
)
def test_text_to_tree_to_text(text):
    document = parse(text, trivia=True)
    written = format_document(document)
    assert parse(written) == document
    assert format_document(parse(written, trivia=True)) == written
    assert [line.strip() for line in written.splitlines() if "#" in line] == [
        line.strip() for line in text.splitlines() if "#" in line
    ]


def test_one_name_behind_an_arrow_is_a_name_before_it():
    assert format_document(parse("attend(q, m) -> (out)")) == "out = attend(q, m)\n"
    assert parse("attend(q, m) -> (out)") == parse("out = attend(q, m)")
    assert parse("attend(q, m) -> (a, b)") != parse("attend(q, m) -> (b, a)")


@pytest.mark.parametrize("text", ['column "x"', 'column "x" { }', "f(x) -> (a, b)", "f { } -> (a, b)", "x = input"])
def test_texts_of_caffe_have_none_of_it(text):
    with pytest.raises(TextError):
        parse(text, is_protobuf=True)


def test_the_style_of_calls_keeps_the_meaning():
    text = HEAD + ATTEND + "attend(a, b) -> (out, scores)\nAdd(out, scores)\n"
    styled = format_document(to_calls(parse(text, trivia=True)))
    assert load_text(styled) == load_text(text)
    assert "attend(a, b) -> (out, scores)" in styled


def test_an_underscore_names_no_output():
    block = "block f() { x = Dense(4)  y = Add(x, x)  output(y, x) }\n"
    text = (
        HEAD
        + block
        + "f(a) -> (_, p)\nf(b) -> (_, q)\nSplit([1, 3]) -> (_, r)\nSplit(b, [1, 3]) -> (_, s)\nAdd(r, s)\n"
    )
    lines = expanded(text)
    assert 'Dense { name: "f_1/dense_1"  bottom: "a"  units: 4  top: "p" }' in lines
    assert 'Split { name: "split_1"  sizes: [1, 3]  top: ["unused_1", "r"] }' in lines
    assert 'Split { name: "split_2"  bottom: "b"  sizes: [1, 3]  top: ["unused_2", "s"] }' in lines
    assert 'output: ["p", "q", "add_1", "f_1/y"]' in expanded(text + 'output(p, q, "add_1", "f_1")')


def test_a_name_that_is_taken_leaves_the_others_in_their_places():
    report = Report()
    fields = load_text(HEAD + "x = Dense(a, 4)\nSplit([2, 2]) -> (x, y)\nReLU(y)", report=report).fields
    assert [m.message for m in report.diagnostics] == ["The output name 'x' is used twice (first at line 3)."]
    (split,) = [f for f in fields if f.name == "Split"]
    (top,) = [g.value for g in split.value.fields if g.name == "top"]
    assert [item.value for item in top.items] == ["unused_1", "y"]
