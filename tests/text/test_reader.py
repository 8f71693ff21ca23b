"""Reading: every form of the language, and where things stand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prototorch.errors import FileError, TextError
from prototorch.text.reader import parse, parse_value, read_file
from prototorch.text.syntax_tree import Body, Field, ListValue, Scalar, TypedBlock, Word


def values(text: str) -> dict:
    return {f.name: f.value for f in parse(text).fields}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("0x1F", 31),
        ("0XfF", 255),
        ("017", 15),
        ("0", 0),
        ("-0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("1e+22", 1e22),
        ("-1.f", -1.0),
        ("1.5F", 1.5),
        ("2f", 2.0),
        ("-inf", float("-inf")),
        ("true", True),
        ("false", False),
        ('"a"', "a"),
        ("'a'", "a"),
        ('"a" "b"\n\'c\'', "abc"),
        (r'"\n\t\"\\\x41\101\u00e9"', '\n\t"\\AA\u00e9'),
        (r'"\303\251"', "\u00e9"),
        ('"caf\u00e9 \u65e5\u672c"', "caf\u00e9 \u65e5\u672c"),
        ('"# no comment"', "# no comment"),
        (r'"\x24{i}"', "${i}"),
        ('"$HOME costs $5"', "$HOME costs $5"),
    ],
)
def test_scalars(text, value):
    found = values(f"a: {text}")["a"]
    assert isinstance(found, Scalar)
    assert found.value == value
    assert type(found.value) is type(value)


def test_nan_equals_nan_in_a_tree():
    assert parse("a: -nan").fields == parse("a: -nan").fields
    assert Scalar(1) != Scalar(1.0)
    assert Scalar(1) != Scalar(True)


def test_forms_of_fields():
    assert values("a: relu")["a"] == Word("relu")
    assert values("a: [1, two, [3], ]")["a"] == ListValue((Scalar(1), Word("two"), ListValue((Scalar(3),))))
    assert values("a: []")["a"] == ListValue(())
    body = Body((Field("b", Scalar(1)),))
    for text in ("a { b: 1 }", "a: { b: 1 }", "a < b: 1 >", "a: < b: 1 >", "a { b: 1, }", "a { b: 1; }", "a { b: 1 };"):
        assert values(text)["a"] == body
    assert values("a: Adam { b: 1 }")["a"] == TypedBlock("Adam", body)
    assert values("a [{ b: 1 }, < b: 1 >]")["a"] == ListValue((body, body))
    assert [f.name for f in parse("a: 1 a: 2, b: 3; c { }").fields] == ["a", "a", "b", "c"]


def test_names_of_additions_may_be_fields():
    text = 'layer { include { phase: TRAIN } param { lr_mult: 1 } param: "w" block: 3 repeat: 2 in: 1 }'
    assert [f.name for f in parse(text).fields[0].value.fields] == [
        "include",
        "param",
        "param",
        "block",
        "repeat",
        "in",
    ]


def test_caffe_text_parses():
    text = """name: 'net'  # a net of the old kind
    input: "data" input_dim: 1 input_dim: 3
    layers { layer { name: "conv1" type: "conv" num_output: 0x10 weight_filler < type: "xavier" > } bottom: "data" }
    layer {
      name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" loss_weight: 1.f
      include { phase: TRAIN stage: "a" } exclude: { phase: TEST }
      convolution_param { kernel_size: 3, kernel_size: 5; pool: MAX, bias_term: t }
      transform_param { mean_value: [104, 117.0, 123] mirror: true }
    }
    base_lr: .01 lr_policy: "step" solver_mode: GPU
    """
    assert [f.name for f in parse(text).fields][:4] == ["name", "input", "input_dim", "input_dim"]
    assert len(parse(text).fields[5].value.fields) == 9


def test_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "m.proto"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2 # c\r\n")
    text = read_file(path)
    assert [f.name for f in parse(text).fields] == ["a", "b"]
    assert parse(text).fields[1].span.line == 2


def test_spans():
    d = parse('a: 1\n  name: "x\u00e9" b { c: $(1 + 2) }', "m.proto")
    a, name, b = d.fields
    assert (a.span.path, a.span.line, a.span.column, a.span.end_column) == ("m.proto", 1, 1, 5)
    assert (name.name_span.line, name.name_span.column, name.value.span.column) == (2, 3, 9)
    assert b.value.fields[0].value.span.text == "$(1 + 2)"
    assert b.value.fields[0].value.root.span.text == "1 + 2"
    assert str(b.span) == "m.proto:2:14"


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_file(tmp_path / "none.proto")
    with pytest.raises(FileError, match="cannot be read"):
        read_file(tmp_path)
    bad = tmp_path / "bad.proto"
    bad.write_bytes(b'a: 1\nb: "\xff"')
    with pytest.raises(TextError, match=r"bad.proto:2:5: the byte 0xff is not UTF-8"):
        read_file(bad)
    big = tmp_path / "big.proto"
    with big.open("wb") as file:
        file.truncate(2**24 + 1)
    with pytest.raises(TextError, match="the limit is 16777216"):
        read_file(big)


def test_a_value_alone():
    assert parse_value("[1, a]") == ListValue((Scalar(1), Word("a")))
    assert parse_value("Adam { }") == TypedBlock("Adam", Body(()))
    for bad in ("", "1 2", "a: 1", "/path", "a-b", "{"):
        with pytest.raises(TextError):
            parse_value(bad)


def test_many_mistakes_come_in_the_order_of_the_text():
    with pytest.raises(TextError) as caught:
        parse("a 1\nb: 2\nc = 3\nd: }\ne { f: ! }\n")
    assert [m.span.line for m in caught.value.mistakes] == [1, 3, 4, 5]


def test_lark_is_loaded_by_the_reader_only():
    code = (
        "import sys, prototorch.schema, prototorch.text.writer, prototorch.text.syntax_tree; "
        "sys.exit('lark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
