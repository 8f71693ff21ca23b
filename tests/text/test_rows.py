"""Rows of a net as data: loops over parts of lists, slices, comprehensions, ``let``, ``assert``, names in headers."""

from __future__ import annotations

import math
import time

import pytest

from prototorch.errors import TextError
from prototorch.text.call_style import to_calls
from prototorch.text.expansion import expand
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import Expression, ListValue, Repeat, to_python_value
from prototorch.text.writer import format_document


def value(expression: str, params: str = "") -> object:
    """What an expression is worth."""
    return to_python_value(expand(parse(f"{params}\nx: $({expression})")).fields[-1].value)


def expanded(text: str, **params: object) -> str:
    return format_document(expand(parse(text), params))


def mistakes(text: str, **params: object) -> list[str]:
    with pytest.raises(TextError) as caught:
        expand(parse(text), params)
    return [m.message for m in caught.value.mistakes]


# Python's own meaning of the same text
SAME_AS_PYTHON = [
    "l[1:]", "l[:-1]", "l[::2]", "l[::-1]", "l[3:0:-1]", "l[-2:]", "l[10:]", "l[:]", "l[1:2][0]", "l[::-2][1:]",
    "[2 * i for i in l]", "[i for i in l if i > 2]", "[i if i > 2 else 0 for i in l]",
    "[i for i in l if i > 1 if i < 4]",
    "[i * j for i in range(3) for j in range(i)]", "[[j for j in range(i)] for i in range(3)]", "[i for i in l[1:]]",
    "[a + b for a, b in rows]", "[a for (a, b) in rows if b in l]", "[a for _, a in rows]", "[i for i in l][::-1]",
    "[a + b + c for a, (b, c) in [[1, [2, 3]], [4, [5, 6]]]]", "[n for n in l if n not in [1, 2]]", "[l for l in l]",
    "sum(l)", "sum([1, 2.5])", "sum([i * i for i in range(10)])", "sum([])", "divmod(7, 2)", "divmod(-7, 2.5)",
    "zip(l, [5, 6])", "zip(l)", "enumerate(l)", "enumerate(l, 1)", "reversed(l)", "enumerate(reversed(l))",
    "ceil(1.2)", "floor(-1.2)", "ceil(3)", "sqrt(16)", "sqrt(2)", "log2(8)", "log2(10)", "int(log2(64)) + 1",
    "2 in l", "9 in l", "9 not in l", '"ab" in "cabs"', "2 in l and 3 in l", "not 9 in l", "[1, 2] in rows",
    "max(l[1:])",
]  # fmt: skip


@pytest.mark.parametrize("expression", SAME_AS_PYTHON)
def test_an_expression_means_what_it_means_in_python(expression):
    names = {
        "l": [1, 2, 3, 4], "rows": [[1, 2], [3, 4]], "sqrt": math.sqrt, "log2": math.log2, "ceil": math.ceil,
        "floor": math.floor, "zip": lambda *a: [list(row) for row in zip(*a, strict=False)],
        "enumerate": lambda *a: [list(row) for row in enumerate(*a)], "reversed": lambda a: list(reversed(a)),
        "divmod": lambda *a: list(divmod(*a)),
    }  # fmt: skip
    wanted = eval(expression, names)
    found = value(expression, "param l: [1, 2, 3, 4]\nparam rows: [[1, 2], [3, 4]]")
    wanted = list(wanted) if isinstance(wanted, range | tuple) else wanted
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize("expression", SAME_AS_PYTHON)
def test_an_expression_is_written_and_read_back(expression):
    for text in (f"x: $({expression})", f"D({expression})", f"assert $({expression})", f"let x: $({expression})"):
        document = parse(text)
        assert parse(format_document(document)) == document
        assert format_document(parse(format_document(document))) == format_document(document)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("3[1:]", "Only a list can be sliced; this is 3."),
        ("[1][::0]", "The step of a slice is not 0."),
        ("[1][true:]", "The bounds of a slice are integers, not true."),
        ("[i for i in 3]", "'for' iterates over a list, not 3. Write range(3)."),
        ("[a for a, b in [[1, 2], [3]]]", "(a, b) takes lists of 2 values; [3] has 1 values."),
        ("[a for a, b in [1]]", "(a, b) takes lists of 2 values; 1 is not a list."),
        ("[i for i in [1] if i]", "A condition is true or false, not 1. Write a comparison, such as $(n > 0)."),
        ("1 in 3", "'in' looks into a list, not into 3."),
        ("sum([1, true])", "sum([1, true]): it takes one list of numbers."),
        ("sum(1, 2)", "sum(1, 2): it takes one list of numbers."),
        ("sqrt(-1)", "sqrt(-1): it takes one number of at least 0."),
        ("log2(0)", "log2(0): it takes one number above 0."),
        ("ceil(1e300 * 1e300)", "ceil(inf): it takes one finite number."),
        ("divmod(1, 0)", "divmod(1, 0): it takes two numbers, the second not 0."),
        ("zip()", "zip(): it takes lists, and ends with the shortest."),
        ("enumerate(3)", "enumerate(3): it takes one list, and the integer that it counts from."),
        ("reversed(3)", "reversed(3): it takes one list."),
        ("[i for i in [1]] + [i]", "There is no value named 'i'. No param is defined before it."),
        ("sum([9223372036854775807, 1])", "The result is too large: integers have 64 bits."),
    ],
)
def test_expressions_without_a_value(expression, message):
    assert mistakes(f"x: $({expression})") == [message]


BOMBS = {
    "two loops": "[i for i in range(100000) for j in range(100000)]",
    "nothing is kept": "[i for i in range(100000) for j in range(100000) if false]",
    "nested": "[[0 for i in range(1000)] for j in range(1000)]",
    "long lists": "[range(100000) for i in range(100000)]",
    "shared lists": "[[i for i in range(1000)][0:] for j in range(100000)]",
    "summed": "sum([sum(range(1000)) for j in range(100000)])",
    "zipped": "[zip(range(1000), range(1000)) for j in range(100000)]",
    "many loops": "[1 " + "for a in [1] " * 5000 + "]",
    "deep": "[" * 90 + "1" + " for a in [1]]" * 90,
    "slices": "[l[::-1] for l in [range(100000)] for i in range(1000)]",
    "searched": "[1 for i in range(100000) if i in range(100000)]",
    "long strings": '["${i}" + "' + "x" * 10000 + '" for i in range(100000)]',
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_comprehension_ends_at_the_limits(name):
    begin = time.process_time()
    found = mistakes(f"x: $({BOMBS[name]})")
    assert any(word in found[0] for word in ("steps", "above the limit", "inside each other", "more than")), found
    assert time.process_time() - begin < 5


def test_a_repeat_gives_names_to_the_parts_of_each_row():
    rows = "repeat (width, count, stride) in [[8, 1, 1], [$n, 2, 2]] { repeat count { D { a: $width  b: $stride } } }"
    assert expanded(f"param n: 16\n{rows}", n=32) == (
        'D { name: "d_1"  a: 8  b: 1 }\nD { name: "d_2"  a: 32  b: 2 }\nD { name: "d_3"  a: 32  b: 2 }\n'
    )


def test_a_repeat_counts_rows():
    text = "param rows: [[5, 6], [7, 8]]\nrepeat i, (a, b) in $enumerate(rows) { x: $([i, a, b]) }"
    assert [to_python_value(f.value) for f in expand(parse(text)).fields] == [[0, 5, 6], [1, 7, 8]]


def test_names_alone_are_counts_series_and_conditions():
    text = "param n: 2\nparam s: [1, 2]\nparam c: true\nrepeat n { a: 1 }\nrepeat i in s { b: $i }\nif c { d: 1 }"
    assert parse(text) == parse(text.replace(" n {", " $n {").replace(" s {", " $s {").replace(" c {", " $c {"))
    assert format_document(parse(text)) == text + "\n"
    assert expanded(text) == "a: 1\na: 1\nb: 1\nb: 2\nd: 1\n"


def test_to_calls_writes_names_alone():
    text = "param n: 2\nrepeat $n { a: 1 }\nif $true { a: 1 }\nrepeat i in $range(3) { a: 1 }\n"
    assert format_document(to_calls(parse(text))) == text.replace("repeat $n", "repeat n")


def test_a_target_in_parentheses_is_the_same_without_them():
    for text in ("repeat i, row in $s { }", "repeat (i, row) in $s { }"):
        assert format_document(parse(text)) == "repeat (i, row) in $s { }\n"
    assert parse("repeat (i) in $s { }") == parse("repeat i in $s { }")
    (repeat,) = parse("repeat a, (b, (c, _)) in [[1, [2, [3, 4]]]] { }").statements
    assert isinstance(repeat, Repeat)
    assert repeat.target.names == ("a", "b", "c", "_")
    assert isinstance(repeat.count, ListValue)


def test_a_let_is_computed_and_scoped():
    text = """
param dim: 8
let half: $(dim // 2)
block b(width) {
  let inner: $(width + half)
  D { a: $inner }
}
repeat i in $range(2) {
  let next: $(i + 1)
  b { width: $next }
}
D { let third: $(dim // 3)  a: $third }
"""
    assert expanded(text, dim=12) == (
        'D { name: "b_1/d_1"  a: 7 }\nD { name: "b_2/d_1"  a: 8 }\nD { name: "d_1"  a: 4 }\n'
    )
    assert mistakes(text + "x: $inner") == ["There is no value named 'inner'. Known here: dim, half."]
    assert mistakes(text, half=3) == ["'half' is computed by 'let' and cannot be set."]


def test_a_let_is_given_once():
    assert mistakes("let a: 1\nlet a: 2") == ["The let 'a' is defined twice (first at <text>:1:1)."]
    assert mistakes("param a: 1\nlet a: 2") == ["The param 'a' is defined twice (first at <text>:1:1)."]
    assert mistakes("block b(a) { let a: 2  D { x: $a } }\nb { a: 1 }") == ["The value 'a' is defined twice."]
    assert expanded("param a: 1\nrepeat 1 { let a: 2  x: $a }\nx: $a") == "x: 2\nx: 1\n"


def test_a_let_of_an_if_holds_behind_it():
    text = "param big: true\nif big { let width: 64 } else { let width: 8 }\nx: $width"
    assert expanded(text) == "x: 64\n"
    assert expanded(text, big=False) == "x: 8\n"


def test_an_assert_says_its_values_and_its_blocks():
    text = """
param dim: 100
block attention(heads) {
  assert $(dim % heads == 0), "dim must divide by heads"
  D { }
}
repeat h in [5, 8] { attention { heads: $h } }
"""
    with pytest.raises(TextError) as caught:
        load_text(text, "m.proto")
    (mistake,) = caught.value.mistakes
    assert mistake.location == "m.proto:4:10"
    assert mistake.message == "dim must divide by heads (dim = 100, heads = 8)."
    assert str(mistake).endswith("in attention at line 7, in repeat at line 7")
    assert "^" * len("$(dim % heads == 0)") in str(mistake)
    load_text(text, "m.proto", settings=["dim=80"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("param n: 1\nassert $(n > 3)", "This must hold: n > 3 (n = 1)."),
        ("param n: false\nassert n", "This must hold: n (n = false)."),
        ("assert false", "This must hold: false."),
        ('param n: 1\nassert $(n > 3), "n is ${n}."', "n is 1 (n = 1)."),
        ("param l: [1, 5]\nassert $(max([i for i in l]) < 5), 'too wide'", "too wide (l = [1, 5])."),
        ("assert 3", "Expected a name, $(...), true or false after 'assert'."),
        ("assert $(3)", "A condition is true or false, not 3. Write a comparison, such as $(n > 0)."),
        ("assert $(m > 3)", "There is no value named 'm'. No param is defined before it."),
    ],
)
def test_asserts_that_fail(text, message):
    assert mistakes(text) == [message]


def test_asserts_that_hold_leave_nothing():
    assert expanded('param n: 4\nassert $(n > 3), "n is small"\nassert true\nx: 1') == "x: 1\n"


def test_words_of_the_additions_are_names_elsewhere():
    text = """param let: 3
param assert: [1, 2]
param from: 2
param for: 1
block when(let, for: 2) {
  D { let: $let  assert: $for  from: relu  for: $(for + let) }
}
when { let: $let }
when { let: $from  for: $(1 if from > let else for) }
let { name: "let" }
assert { bottom: "let" }
repeat for in assert { x: $(for * from) }
repeat let { x: $(let - 1) }
"""
    document = parse(text)
    assert format_document(document) == text
    assert parse(format_document(to_calls(document))) is not None
    assert 'D { name: "when_1/d_1"  let: 3  assert: 2  from: relu  for: 5 }' in format_document(expand(document))


def test_comments_survive():
    text = """# the width
let half: $(dim // 2)  # of a head

# it divides
assert $(dim % heads == 0), "dim must divide by heads"  # always
repeat (a, b) in rows {  # a row
  # the layer
  D { a: $a }  # behind
}
"""
    assert format_document(parse(text, trivia=True)) == text


def test_a_name_written_with_dollar_keeps_it():
    assert format_document(parse("repeat $n { }\nif $n { }")) == "repeat $n { }\nif $n { }\n"
    (repeat,) = parse("repeat n { }").statements
    assert isinstance(repeat.count, Expression)


def test_a_negative_value_stands_bare_in_a_call():
    for text in ("D(-clip, a: -inf, b: -3, c: -clip + 1)\n", "D([-clip, -1])\n"):
        assert format_document(parse(text)) == text


@pytest.mark.parametrize("rows", [[(8, 1), (16, 2)], ((8, 1), (16, 2)), [[8, 1], [16, 2]], [range(8, 10)]])
def test_rows_of_a_caller_are_any_sequences(rows):
    text = "param rows: [[1, 1]]\nrepeat (a, b) in rows { D { a: $a  b: $b } }"
    document = expand(parse(text), {"rows": rows})
    found = [[to_python_value(f.value) for f in layer.value.fields[1:]] for layer in document.fields]
    assert found == [list(row) for row in rows]
