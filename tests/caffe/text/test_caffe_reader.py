"""Caffe's texts: what the reader accepts and refuses. The verdicts are those of ``caffe`` (protobuf's text format)."""

import math

import pytest

from prototorch.caffe.text.reader import read_message, read_net_file, read_solver_file
from prototorch.errors import TextError


def _layer(text):
    return read_message(f"layer {{ {text} }}", "NetParameter")["layer"][0]


ACCEPTED = {
    "angle brackets": ("relu_param < negative_slope: 2 >", "relu_param", "negative_slope", 2.0),
    "colon before a message": ("relu_param: { negative_slope: 2 }", "relu_param", "negative_slope", 2.0),
    "list": ("convolution_param { kernel_size: [3, 2] }", "convolution_param", "kernel_size", [3, 2]),
    "empty list": ("convolution_param { kernel_size: [] }", "convolution_param", "kernel_size", []),
    "list without colon": ("input_param { shape [{ dim: 1 }, { dim: 2 }] }", "input_param", "shape", None),
    "comma and semicolon": ("relu_param { engine: CAFFE, negative_slope: 2; }", "relu_param", "negative_slope", 2.0),
    "octal": ("convolution_param { num_output: 017 }", "convolution_param", "num_output", 15),
    "hex": ("convolution_param { num_output: 0x1F }", "convolution_param", "num_output", 31),
    "negative hex": ("softmax_param { axis: -0x1 }", "softmax_param", "axis", -1),
    "float with f": ("relu_param { negative_slope: -1.f }", "relu_param", "negative_slope", -1.0),
    "int with f": ("relu_param { negative_slope: 1f }", "relu_param", "negative_slope", 1.0),
    "float without a leading digit": ("relu_param { negative_slope: .5 }", "relu_param", "negative_slope", 0.5),
    "float with an exponent": ("relu_param { negative_slope: 1e0 }", "relu_param", "negative_slope", 1.0),
    "inf": ("relu_param { negative_slope: inf }", "relu_param", "negative_slope", math.inf),
    "minus inf": ("relu_param { negative_slope: -INF }", "relu_param", "negative_slope", -math.inf),
    "infinity": ("relu_param { negative_slope: -Infinity }", "relu_param", "negative_slope", -math.inf),
    "beyond float32": ("relu_param { negative_slope: 1e39 }", "relu_param", "negative_slope", math.inf),
    "beyond float64": ("relu_param { negative_slope: -1e999 }", "relu_param", "negative_slope", -math.inf),
    "single precision": ("relu_param { negative_slope: 0.1 }", "relu_param", "negative_slope", 0.10000000149011612),
    **{
        f"bool {word}": (f"mvn_param {{ across_channels: {word} }}", "mvn_param", "across_channels", value)
        for value, words in ((True, ("true", "True", "t", "1", "0x1")), (False, ("false", "False", "f", "0", "00")))
        for word in words
    },
    "enum by number": ("pooling_param { pool: 1 }", "pooling_param", "pool", "AVE"),
    "joined strings": ("python_param { module: 'a' \"b\"\n 'c' }", "python_param", "module", "abc"),
    "escapes": (r"python_param { module: '\x41\102\n\'' }", "python_param", "module", "AB\n'"),
    "placeholder": ("python_param { module: '${x' }", "python_param", "module", "${x"),
    "double": ("blobs { double_data: 0.1 }", "blobs", "double_data", None),
    "comment": ("relu_param { # }\n negative_slope: 2 }", "relu_param", "negative_slope", 2.0),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case):
    text, message, field, expected = ACCEPTED[case]
    value = _layer(text)[message]
    value = (value[0] if isinstance(value, list) else value)[field]
    if case == "list without colon":
        assert [shape["dim"] for shape in value] == [[1], [2]]
    elif case == "double":
        assert value == [0.1]
    else:
        assert value == expected
        assert type(value) is type(expected)


@pytest.mark.parametrize("word", ["nan", "-nan", "NaN"])
def test_nan(word):
    assert math.isnan(_layer(f"relu_param {{ negative_slope: {word} }}")["relu_param"]["negative_slope"])


REFUSED = {
    "// comment": ("name: 'a' // b", "'#'"),
    "float for an int": ("convolution_param { num_output: 3.0 }", "an integer from 0"),
    "exponent for an int": ("convolution_param { num_output: 3e0 }", "an integer from 0"),
    "string for an int": ("convolution_param { num_output: '3' }", "an integer from 0"),
    "bool for an int": ("convolution_param { num_output: true }", "an integer from 0"),
    "negative unsigned": ("convolution_param { num_output: -1 }", "an integer from 0"),
    "minus zero unsigned": ("convolution_param { num_output: -0 }", "an integer from 0"),
    "beyond uint32": ("convolution_param { num_output: 4294967296 }", "4294967295"),
    "beyond int32": ("softmax_param { axis: 2147483648 }", "2147483647"),
    "octal for a float": ("relu_param { negative_slope: 010 }", "a decimal number"),
    "hex for a float": ("relu_param { negative_slope: 0x10 }", "a decimal number"),
    "word for a float": ("relu_param { negative_slope: much }", "a decimal number"),
    "bool for a float": ("relu_param { negative_slope: true }", "a decimal number"),
    "quoted enum": ('pooling_param { pool: "MAX" }', "Write MAX, without quotes"),
    "unknown enum": ("pooling_param { pool: MAXX }", "Did you mean 'MAX'"),
    "lower enum": ("pooling_param { pool: max }", "Did you mean 'MAX'"),
    "unknown enum number": ("pooling_param { pool: 7 }", "MAX, AVE, STOCHASTIC"),
    "yes": ("mvn_param { across_channels: yes }", "true or false"),
    "TRUE": ("mvn_param { across_channels: TRUE }", "true or false"),
    "bool 2": ("mvn_param { across_channels: 2 }", "true or false"),
    "bool 1.0": ("mvn_param { across_channels: 1.0 }", "true or false"),
    "word for a string": ("python_param { module: a }", "a string in quotes"),
    "int for a string": ("python_param { module: 1 }", "a string in quotes"),
    "unknown field": ("relu_parm { }", "Did you mean 'relu_param'"),
    "unknown field inside": ("convolution_param { num_outputs: 1 }", "Did you mean 'num_output'"),
    "native spelling": ("convolution_param { filters: 1 }", "no field 'filters'"),
    "twice": ("name: 'a' name: 'b'", "given twice"),
    "message twice": ("relu_param { } relu_param { }", "given twice"),
    "list for one value": ("name: ['a']", "not a list"),
    "message for a value": ("name { }", "a value, not a message"),
    "value for a message": ("relu_param: 1", "relu_param { ... }"),
    "value in a list of messages": ("input_param { shape: [1] }", "shape { ... }"),
    "typed block": ("relu_param: ReLU { }", "relu_param { ... }"),
    "required": ("clip_param { min: 0 }", "'max'"),
    "expression": ("name: $x", "expression"),
    "repeat": ("repeat 2 { name: 'a' }", "'repeat'"),
    "param with a value": ("param x: 1", "'param'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    text, message = REFUSED[case]
    with pytest.raises(TextError) as error:
        _layer("\n" + text)
    assert message in str(error.value)
    assert "<text>:2:" in str(error.value)


def test_several_mistakes_in_one_run():
    text = 'layer { nam: "a" }\nlayer { convolution_param { num_output: 1.5 } }\nlayer { pooling_param { pool: MIN } }'
    with pytest.raises(TextError) as error:
        read_message(text, "NetParameter")
    assert [m.span.line for m in error.value.mistakes] == [1, 2, 3]


def test_words_of_our_language_are_field_names():
    layer = _layer('param { name: "w" } include { phase: TEST } include: < stage: "a" >')
    assert layer["param"][0]["name"] == "w"
    assert [r["phase"] for r in layer["include"]] == ["TEST", "TRAIN"]
    old = read_message('layers { param: "w" param: "b" type: RELU }', "NetParameter")["layers"][0]
    assert old["param"] == ["w", "b"]


def test_an_empty_text_is_an_empty_message(tmp_path):
    for text in ("", "# only a comment\n"):
        (tmp_path / "empty.prototxt").write_text(text)
        assert not list(read_net_file(tmp_path / "empty.prototxt").set_fields())


def test_files_are_upgraded_and_mistakes_name_them(tmp_path):
    path = tmp_path / "solver.prototxt"
    path.write_text("solver_type: ADAM base_lr: 0.1")
    assert read_solver_file(path)["type"] == "Adam"
    path.write_text("base_lr: 0.1\nmomentom: 1")
    with pytest.raises(TextError, match=r"solver.prototxt:2:1: SolverParameter has no field 'momentom'"):
        read_solver_file(path)


def test_a_text_that_is_too_long_is_refused():
    with pytest.raises(TextError, match="at most 2097152 characters"):
        read_message("layer{}" * 300_000, "NetParameter")


def test_places_of_fields():
    message = read_message('name: "n"\nlayer {\n  bottom: "a" bottom: "b"\n}', "NetParameter", "net.prototxt")
    layer = message["layer"][0]
    assert str(layer.span) == "net.prototxt:2:1"
    assert str(layer.field_span("bottom", 1)) == "net.prototxt:3:23"
    assert str(layer.field_span("name")) == str(layer.span)
