"""The canonical writer: comments kept, idempotent, reads back equal."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path

import pytest

from prototorch.base.package_files import package_folder
from prototorch.model.docs_pages import list_families
from prototorch.text.expansion import expand
from prototorch.text.reader import parse, read_file
from prototorch.text.syntax_tree import Body, Field, ListValue, Scalar, TypedBlock, Word, to_value_node
from prototorch.text.writer import format_document, format_fields, format_value

MODELS = sorted(package_folder("models").glob("*.proto"))


def fmt(text: str) -> str:
    """The canonical text, checked to be stable and to mean the same."""
    document = parse(text, trivia=True)
    written = format_document(document)
    again = parse(written, trivia=True)
    assert again == document
    assert format_document(again) == written
    return written


def test_layout():
    text = """

# the head
name : "x"   # behind
param n:3
input{name:"image" shape:[1,28,28]}


Conv2D{filters:20,kernel_size:5;activation:relu}
# before flatten
Flatten<>
block b( x , y : 1 ){Dense{units:$( x*(y+1) )}}
if $(n==3){A{}}else if $n{B{}C{}}else{}
repeat i in $range(n){b{x:$i}}
Add{branch{} # the identity
branch{ # opening
Dense{units:3}
# closing
}}
include'other.proto'
optimizer:Adam{learning_rate:1e-3}
compile{loss:mse
optimizer:Adam{learning_rate:1e-3 schedule:Cosine{steps:100}}}
# the end
"""
    assert (
        fmt(text)
        == """# the head
name: "x"  # behind
param n: 3
input { name: "image"  shape: [1, 28, 28] }

Conv2D { filters: 20  kernel_size: 5  activation: relu }
# before flatten
Flatten { }
block b(x, y: 1) { Dense { units: $(x * (y + 1)) } }
if $(n == 3) {
  A { }
} else if $n {
  B { }
  C { }
} else { }
repeat i in $range(n) { b { x: $i } }
Add {
  branch { }  # the identity
  branch {  # opening
    Dense { units: 3 }
    # closing
  }
}
include "other.proto"
optimizer: Adam { learning_rate: 1e-3 }
compile {
  loss: mse
  optimizer: Adam { learning_rate: 1e-3  schedule: Cosine { steps: 100 } }
}
# the end
"""
    )


def test_comments_inside_values_move_before_their_statement():
    assert fmt("a: [ # one\n  1, # two\n  2\n]\n") == "# one\n# two\na: [1, 2]\n"


def test_comments_and_single_empty_lines_stay():
    text = '# licence\n\n# the net\n\nname: "x"\n# a\n\n# b\nA {\n  b: 1\n\n  # c\n  d: 2\n\n  # e\n}\n\n# the end\n'
    assert fmt(text) == text
    assert fmt(text.replace("\n\n", "\n\n\n\n")) == text


def test_long_lists_are_broken():
    written = fmt("a: [" + ", ".join(str(10**6 + i) for i in range(40)) + "]\nb: [" + "x { a: 1 }, " * 20 + "]")
    assert all(len(line) <= 140 for line in written.splitlines())


LAYER = 'Conv2D { filters: 16  kernel_size: 3  name: "%s"  kernel_initializer: he_normal }\n'


def test_a_layer_that_fits_has_one_line_and_the_fields_of_a_longer_one_fill_the_lines():
    fits, longer = (LAYER % ("x" * (140 + extra - len(LAYER % ""))) for extra in (1, 2))
    assert len(fits.rstrip()) == 140
    assert fmt(fits.replace("  ", "\n\n", 1).replace("\n\n", "\n")) == fits
    assert fmt(longer) == longer.replace("{ ", "{\n  ").replace(" }", "\n}")
    twice = fmt(longer.replace("filters: 16", f'top: "{"y" * 100}"'))
    assert [len(line) <= 140 for line in twice.splitlines()] == [True] * 4


def test_a_block_of_blocks_stays_on_one_line_or_on_several_as_it_was_written():
    one = "Add { branch { }  branch { Dense { units: 4 }  ReLU { } } }\n"
    several = "Add {\n  branch { }\n  branch { Dense { units: 4 }  ReLU { } }\n}\n"
    assert fmt(one) == one
    assert fmt(several) == several


def test_a_long_item_of_a_list_begins_where_the_items_stand():
    written = fmt("a { b: [{ c: D { e: 1 }\nf: 2 }, 3] }")
    assert written == "a {\n  b: [\n    {\n      c: D { e: 1 }\n      f: 2\n    },\n    3\n  ]\n}\n"


def test_sections_made_in_python_have_a_line_for_each_field():
    body = Body((Field("loss", TypedBlock("L", Body((Field("a", Scalar(1)),)))), Field("metrics", Word("m"))))
    assert format_fields([Field("compile", body)]) == "compile {\n  loss: L { a: 1 }\n  metrics: m\n}\n"
    assert format_fields([Field("Dense", body)]) == "Dense { loss: L { a: 1 }  metrics: m }\n"


def test_empty():
    assert fmt("") == ""
    assert fmt("# only\n\n# comments\n") == "# only\n\n# comments\n"


@pytest.mark.parametrize(
    "expression",
    [
        "$a", "$range(4)", "$range(a, b - 1)", "$(a + b)", "$(a - (b - c))", "$(a - b - c)", "$((a + b) * c)",
        "$(a ** b ** c)", "$((a ** b) ** c)", "$(-a ** 2)", "$((-a) ** 2)", "$(2 ** -1)", "$(not a and b)",
        "$(not (a and b))", "$(a < b < c)", "$((a < b) == c)", "$(a if b else c if d else e)",
        "$((a if b else c) if d else e)", "$(a[0][1])", "$((a + b)[0])", "$([1, [2, 3]])", "$(min(a, -b))",
        '$("x" + y)', '"a${b}c"', '"${a + 1}"', "$(0x10 + 1.50)", "$(1 if (a or b) and c else 2)", "$(a // b % c)",
    ],
)  # fmt: skip
def test_expressions(expression):
    written = fmt(f"x: {expression}")
    assert parse(written) == parse(f"x: {expression}")


def test_parentheses_only_where_needed():
    assert fmt("x: $(((a) + ((b * c))))") == "x: $(a + b * c)\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Scalar("a\"b\\\n\t\x01\u202e\u00e9${x}"), '"a\\"b\\\\\\n\\t\\x01\\u202e\u00e9\\x24{x}"'),
        (Scalar(1.0), "1.0"), (Scalar(1e22), "1e+22"), (Scalar(float("inf")), "inf"), (Scalar(float("-inf")), "-inf"),
        (Scalar(float("nan")), "nan"), (Scalar(-0.0), "-0.0"), (Scalar(True), "true"), (Word("none"), "none"),
        (to_value_node([1, None, "a", [2.5]]), '[1, none, "a", [2.5]]'), (TypedBlock("Adam", Body(())), "Adam { }"),
        (Body((Field("a", Scalar(1)), Field("b", Body(())))), "{ a: 1  b { } }"), (ListValue(()), "[]"),
    ],
)  # fmt: skip
def test_values(value, text):
    assert format_value(value) == text


def test_what_python_builds_reads_back():
    fields = [
        Field("name", to_value_node("x")),
        Field("Dense", Body((Field("units", to_value_node(3)), Field("rate", to_value_node(0.1))))),
    ]
    assert parse(format_fields(fields)).fields == tuple(fields)


ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```proto\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.md")))
    for number, text in enumerate(FENCE.findall(page.read_text(encoding="utf-8")))
]
SHIPPED = [*MODELS, *sorted(package_folder("models").glob("*/*.proto"))]
EXAMPLES = [e.text + "\n" for family in list_families().values() for c in family for e in c.examples]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_models_are_in_the_canonical_layout(path: Path):
    assert fmt(read_file(path)) == read_file(path)


@pytest.mark.parametrize("text", SHOWN)
def test_texts_of_the_pages_are_in_the_canonical_layout(text):
    assert fmt(text) == text


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_texts_of_the_examples_are_in_the_canonical_layout(path):
    constants = [n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)]
    for text in (c.lstrip("\n") for c in constants if isinstance(c, str) and "\ninput {" in c):
        assert fmt(text) == text


def test_examples_of_the_manual_are_in_the_canonical_layout():
    assert [text for text in EXAMPLES if fmt(text) != text] == []
    assert len(EXAMPLES) > 300


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_any_line_breaks_and_comments_keep_the_meaning_and_every_comment(path: Path):
    """The tokens of a model with line ends and comments at random between them."""
    tokens = re.findall(r'"[^"\n]*"|[$][(]|[$]?\w[\w.-]*|//|\*\*|==|->|\S', re.sub("#.*", "", read_file(path)))
    rng = random.Random(path.stem)
    texts = [
        f"{t}{rng.choice((' ', ' ', chr(10), chr(10) * 3, f' # note {n}' + chr(10)))}" for n, t in enumerate(tokens)
    ]
    document = parse(read_file(path))
    messy = "".join(texts)
    assert parse(messy) == document
    written = fmt(messy)
    assert sorted(re.findall(r"# note \d+", written)) == sorted(re.findall(r"# note \d+", messy))


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_models(path: Path):
    text = read_file(path)
    fmt(text)
    expanded = expand(parse(text), root=str(path.parent))
    written = format_document(expanded)
    assert expand(parse(written)) == expanded
    assert format_document(parse(written)) == written


def test_there_are_models():
    assert len(MODELS) > 10
