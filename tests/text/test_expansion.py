"""Expansion: parameters, expressions, repeat, if, block, names."""

from __future__ import annotations

import math

import pytest

from prototorch.errors import TextError
from prototorch.text.case_conversion import snake_case
from prototorch.text.expansion import expand
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import Body, ListValue, Scalar, TypedBlock, Word, to_python_value


def value(expression: str, params: str = "") -> object:
    """What an expression is worth."""
    return to_python_value(expand(parse(f"{params}\nx: $({expression})")).fields[-1].value)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("7 % 4", 3),
        ("7 / 2", 3.5),
        ("1 - 2 - 3", -4),
        ("8 / 2 / 2", 2.0),
        ("1 / 255", 1 / 255),
        ("1 < 2", True),
        ("1 < 2 < 2", False),
        ("1 == 1.0", True),
        ("1 == true", False),
        ("1 != true", True),
        ('"a" < "b"', True),
        ("not 1 > 2 and 2 >= 2 or false", True),
        ("true or 1 // 0 == 1", True),
        ("1 if 2 > 1 else 1 // 0", 1),
        ("1 if false else 2 if false else 3", 3),
        ("[1, 2, 3][-1]", 3),
        ("[1] + [2, 3]", [1, 2, 3]),
        ('"a" + "b"', "ab"),
        ("min(3, 1, 2)", 1),
        ("max([3, 1, 2])", 3),
        ("len([1, 2])", 2),
        ('len("abc")', 3),
        ("range(3)", [0, 1, 2]),
        ("range(1, 7, 2)", [1, 3, 5]),
        ("range(3, 0, -1)", [3, 2, 1]),
        ("range(0)", []),
        ("round(2.5)", 2),
        ("round(2.567, 2)", 2.57),
        ("int(3.9)", 3),
        ("float(3)", 3.0),
        ("9223372036854775807", 2**63 - 1),
        ("none", None),
        ("+3", 3),
        ("- - 3", 3),
    ],
)
def test_expressions(expression, wanted):
    found = value(expression)
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("9223372036854775807 + 1", "The result is too large: integers have 64 bits."),
        ("-9223372036854775807 - 2", "The result is too large: integers have 64 bits."),
        ("2 ** 64", "The result is too large: integers have 64 bits."),
        ("9 ** 9 ** 9 ** 9", "The result is too large: integers have 64 bits."),
        ("2.0 ** 100000", "The result is too large: integers have 64 bits."),
        ("(-1) ** 0.5", "-1 ** 0.5 is not a real number."),
        ("0 ** -1", "Division by zero: 0 ** -1."),
        ("1 % 0", "Division by zero: 1 % 0."),
        ("true + 1", "+ takes numbers, not true."),
        ("[1] * 3", "* takes numbers, not [1]."),
        ('"a" * 3', '* takes numbers, not "a".'),
        ("-true", "- takes numbers, not true."),
        ("not 3", "A condition is true or false, not 3. Write a comparison, such as $(n > 0)."),
        ('1 < "a"', '1 and "a" cannot be compared with <.'),
        ("range(1, 2, 0)", "range(1, 2, 0): it takes one to three integers: stop, or start and stop, and a step "
         "that is not 0."),
        ("range(100001)", "A list of 100001 values is above the limit of 100000."),
        ("min()", "min(): it takes numbers, or one list of numbers."),
        ("min(1, true)", "min(1, true): it takes numbers, or one list of numbers."),
        ("len(3)", "len(3): it takes one list or string."),
        ("int(1e300 * 1e300)", "int(inf): it takes one finite number."),
        ("round(0.5, 1000)", "round(0.5, 1000): it takes a finite number, and how many digits to keep."),
        ("open(3)", "There is no function 'open'. There are min, max, sum, len, range, zip, enumerate, "
         "reversed, round, int, float, ceil, floor, sqrt, log2, divmod."),
        ("[1, 2][true]", "A list index must be an integer, not true."),
        ("__import__", "There is no value named '__import__'. No param is defined before it."),
    ],
)  # fmt: skip
def test_expressions_without_a_value(expression, message):
    with pytest.raises(TextError) as caught:
        value(expression)
    assert [m.message for m in caught.value.mistakes] == [message]


def test_infinite_floats_pass():
    assert value("1e300 * 1e300") == math.inf


def test_params_and_what_the_caller_gives():
    text = "param n: 3\nparam act: relu\nparam f: 0.5\nparam twice: $(2 * n)\nx: [$n, $act, $f, $twice]"
    assert to_python_value(expand(parse(text)).fields[0].value) == [3, "relu", 0.5, 6]
    given = expand(parse(text), {"n": 4, "f": 1, "act": "tanh"}).fields[0].value
    assert given == ListValue((Scalar(4), Scalar("tanh"), Scalar(1), Scalar(8)))


def test_strings_with_expressions():
    text = 'param i: 3\nparam w: relu\nx: "conv_${i}_${i + 1} ${w} ${1 / 2} ${i > 2}"'
    assert to_python_value(expand(parse(text)).fields[0].value) == "conv_3_4 relu 0.5 true"


def test_blocks_as_values_of_params():
    text = """param filler: HeNormal { seed: 1 }
    block b(f) { Dense { k: $f } }
    b { f: $filler }
    b { f: Zeros { s: $(1 + 1) } }"""
    first, second = expand(parse(text)).fields
    assert first.value.fields[1].value == TypedBlock("HeNormal", Body((parse("seed: 1").fields[0],)))
    assert to_python_value(second.value.fields[1].value.fields[0].value) == 2


def lines(text: str, **params: object) -> list[str]:
    """The layers of a net: name <- what they read, branches indented."""
    found: list[str] = []

    def walk(fields, indent):
        for f in fields:
            if isinstance(f.value, Body) and f.name not in ("input", "branch"):
                inner = {
                    g.name: to_python_value(g.value) for g in f.value.fields if g.name in ("name", "bottom", "top")
                }
                reads = f" <- {inner['bottom']}" if "bottom" in inner else ""
                gives = f" -> {inner['top']}" if "top" in inner else ""
                found.append(" " * indent + f"{f.name} {inner.get('name')}{reads}{gives}")
                walk([g for b in f.value.fields if b.name == "branch" for g in b.value.fields], indent + 1)

    walk(expand(parse(text), params).fields, 0)
    return found


def test_names_of_layers():
    text = """
    Conv2D { } Conv2D { name: "second" } Conv2D { } ReLU { } LeakyReLU { } LSTM { } GlobalAveragePooling2D { }
    repeat i in $range(2) { Dense { name: "d${i}" } Dense { } }
    """
    names = [line.split()[1] for line in lines(text)]
    assert names == [
        "conv2d_1", "second", "conv2d_2", "relu_1", "leaky_relu_1", "lstm_1", "global_average_pooling2d_1",
        "d0", "dense_1", "d1", "dense_2",
    ]  # fmt: skip


def test_automatic_names_pass_over_taken_ones():
    assert lines('Dense { name: "dense_1" } Dense { }') == ["Dense dense_1", "Dense dense_2"]


def test_prefixes_of_blocks():
    text = """
    block unit(n) { Dense { name: "main" } ReLU { } }
    block pair(n) { unit { n: $n } unit { n: $n  name: "last" } }
    unit { n: 1 }
    unit { n: 2  name: "stage" }
    pair { n: 3 }
    """
    assert [line.split()[1] for line in lines(text)] == [
        "unit_1/main", "unit_1/relu_1", "stage/main", "stage/relu_1",
        "pair_1/unit_1/main", "pair_1/unit_1/relu_1", "pair_1/last/main", "pair_1/last/relu_1",
    ]  # fmt: skip


def test_references_inside_blocks_find_the_nearest_name():
    text = """
    input { name: "x" }
    Dense { name: "a" }
    block unit() { Dense { name: "b" } Add { bottom: ["a", "b", "x"] } Dense { name: "a" } Add { bottom: ["a", "b"] } }
    unit { }
    unit { name: "u" }
    Add { bottom: ["u", "u/b", "a"] }
    """
    found = lines(text)
    assert found[2] == "Add unit_1/add_1 <- ['a', 'unit_1/b', 'x']"
    assert found[4] == "Add unit_1/add_2 <- ['unit_1/a', 'unit_1/b']"
    assert found[-1] == "Add add_1 <- ['u/add_2', 'u/b', 'a']"


def test_what_a_block_is_given_belongs_to_its_user():
    text = """
    block tower(from, to) { Dense { bottom: $from } Dense { top: $to } }
    block two(to) { tower { from: "left"  to: "inner" } tower { from: "inner"  to: $to } }
    input { name: "left" } input { name: "right" }
    tower { from: "right"  to: "r" }
    two { to: "l" }
    Add { bottom: ["l", "r"] }
    """
    assert lines(text) == [
        "Dense tower_1/dense_1 <- right",
        "Dense tower_1/dense_2 -> r",
        "Dense two_1/tower_1/dense_1 <- left",
        "Dense two_1/tower_1/dense_2 -> two_1/inner",
        "Dense two_1/tower_2/dense_1 <- two_1/inner",
        "Dense two_1/tower_2/dense_2 -> l",
        "Add add_1 <- ['l', 'r']",
    ]


def test_bottom_of_a_use_is_read_by_the_first_layer():
    text = """block b() { Add { branch { Dense { } } branch { } } ReLU { } }
    Dense { name: "x" } ReLU { }
    b { bottom: "x" }"""
    assert lines(text)[2:] == ["Add b_1/add_1 <- x", " Dense b_1/dense_1", "ReLU b_1/relu_1"]


def test_if_and_repeat():
    text = """param n: 2
    repeat i in [10, 20] { if $(i > 10) { A { } } else if $(n == 2) { B { } } else { C { } } }
    if $(n > 5) { D { } }
    repeat $n { E { } }
    repeat 0 { F { } }
    Add { repeat 2 { branch { G { } } } }
    """
    assert lines(text) == ["B b_1", "A a_1", "E e_1", "E e_2", "Add add_1", " G g_1", " G g_2"]
    assert lines(text, n=6) == [
        "C c_1",
        "A a_1",
        "D d_1",
        *(f"E e_{i}" for i in range(1, 7)),
        "Add add_1",
        " G g_1",
        " G g_2",
    ]


def test_a_param_inside_a_body_is_local():
    text = "param n: 1\nrepeat i in $range(2) { param m: $(n + i)  A { v: $m } }\nA { v: $n }"
    assert [to_python_value(f.value.fields[1].value) for f in expand(parse(text)).fields] == [1, 2, 1]


def test_other_blocks_are_not_layers():
    text = 'preprocess { Rescaling { scale: $(1 / 2) } }\ncompile { loss: mse }\nfit { data { source: "x" } }'
    fields = expand(parse(text)).fields
    assert [f.name for f in fields] == ["preprocess", "compile", "fit"]
    assert [g.name for g in fields[0].value.fields[0].value.fields] == ["scale"]


def test_chain():
    text = "block a(n) {\n  D { u: $n }\n}\nrepeat 2 {\n  a { n: 1 }\n}"
    chain = list(expand(parse(text)).fields[1].chain)
    assert [(frame.label, frame.span.line) for frame in chain] == [("a", 5), ("repeat", 4)]


def test_what_is_plain_is_not_copied():
    body = parse("compile { loss: mse { a: [1, 2] } }")
    assert expand(body).fields[0] is body.fields[0]


def test_expanding_twice_changes_nothing():
    text = 'block b(n) { D { u: $n } Add { branch { } branch { D { } } } }\nrepeat 3 { b { n: 1 } }\noutput: "b_1"'
    once = expand(parse(text))
    assert expand(once) == once
    assert to_python_value(once.fields[-1].value) == "b_1/add_1"


def test_words():
    assert expand(parse("param p: same\nx: $p")).fields[0].value == Word("same")
    assert value('p == "same"', "param p: same") is True


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("HeNormal", "he_normal"), ("Conv2D", "conv2d"), ("ReLU", "relu"), ("PReLU", "prelu"),
        ("LeakyReLU", "leaky_relu"),
        ("RMSprop", "rmsprop"), ("AdamW", "adamw"), ("SiLU", "silu"), ("Conv2DTranspose", "conv2d_transpose"),
        ("KLDivergence", "kl_divergence"), ("TopKCategoricalAccuracy", "top_k_categorical_accuracy"), ("LSTM", "lstm"),
        ("F1Score", "f1_score"), ("ReduceLROnPlateau", "reduce_lr_on_plateau"), ("CSVLogger", "csv_logger"),
        ("GlobalAveragePooling2D", "global_average_pooling2d"), ("UpSampling2D", "up_sampling2d"), ("AUC", "auc"),
    ],
)  # fmt: skip
def test_snake_case(name, word):
    assert snake_case(name) == word
