"""``column "age" { ... }``: the string is the name of what is declared."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError
from prototorch.model.load import model_from_text
from prototorch.text.call_style import to_calls
from prototorch.text.expansion import expand
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document

NET = """input "table" { shape: [4] }
x = Dense "hidden" { units: 3  activation: relu }
block head(units) {
  Dense { units: $units  name: "last" }
}
head "tail" { units: 2 }
Flatten "flat"
compile { loss "error" { type: mse }  loss "distance" { type: mae }  optimizer: SGD { learning_rate: 0.1 } }
"""
BRACES = NET
for label in ('input "table" { ', 'Dense "hidden" { ', 'head "tail" { ', 'loss "error" { ', 'loss "distance" { '):
    word, name, _ = label.split()
    BRACES = BRACES.replace(label, f"{word} {{ name: {name}  ")
BRACES = BRACES.replace('Flatten "flat"', 'Flatten { name: "flat" }')


def test_a_label_is_the_name():
    assert load_text(NET) == load_text(BRACES)
    text = format_document(load_text(NET))
    assert 'input { name: "table"  shape: [4] }' in text
    assert 'Flatten { name: "flat" }' in text
    assert [node.name for node in model_from_text(NET).net.nodes] == ["hidden", "tail/last", "flat"]


def test_the_loss_has_the_name_in_the_logs(tmp_path):
    model = model_from_text(NET)
    history = model.fit(np.ones((8, 4), np.float32), np.ones((8, 2), np.float32), epochs=1, verbose=0)
    assert {"error", "distance"} <= history.history.keys()
    model.save(tmp_path / "m.h5")
    assert [node.name for node in pt.load_model(tmp_path / "m.h5").net.nodes] == ["hidden", "tail/last", "flat"]


def test_columns_of_data_have_labels():
    text = 'input { shape: [2] }\nDense { units: 1 }\nfit { data { source: "a.csv"  column %s } }'
    labelled = model_from_text(text % '"age" { missing: median }').fit_block
    assert labelled == model_from_text(text % '{ name: "age"  missing: median }').fit_block


def test_a_label_is_written_and_read_back():
    assert format_document(parse(NET)) == NET
    calls = NET.replace("SGD { learning_rate: 0.1 }", "SGD(0.1)")
    calls = calls.replace('Dense { units: $units  name: "last" }', 'Dense(units, name: "last")')
    assert format_document(to_calls(parse(NET))) == calls
    assert format_document(parse("column 'age' { }  # one", trivia=True)) == 'column "age"  # one\n'
    two = 'split "s" { x: 1 } -> (a, b)\nsplit "t" -> (c, d)\n'
    assert format_document(parse(two)) == two
    assert format_document(parse('A "b" "c" { x: 1 }')) == 'A "bc" { x: 1 }\n'
    assert parse('A "b"') == parse('A "b" { }')
    assert parse('A "b"') != parse("A { }")


def test_a_label_may_be_computed():
    text = 'repeat i in $range(2) { D "d${i}" { a: $i } }'
    assert format_document(expand(parse(text))) == 'D { name: "d0"  a: 0 }\nD { name: "d1"  a: 1 }\n'


def test_comments_in_labelled_blocks_survive():
    text = """# the table
column "age" {  # in years
  # what is missing
  missing: median
}
"""
    assert format_document(parse(text, trivia=True)) == text


def test_outputs_are_read_by_labels():
    text = NET.replace('Flatten "flat"', "Add(tail, tail)").replace("x = ", "")
    assert model_from_text(text).net.nodes[-1].bottoms == ("tail/last", "tail/last")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name "lenet"', "A ':' is missing between name and \"lenet\"."),
        ('output "x"', "A ':' is missing between output and \"x\"."),
        ('Dense { units: 3  activation "relu" }', "A ':' is missing between activation and \"relu\"."),
        ('compile { optimizer: Adam { name "x" } }', "A ':' is missing between name and \"x\"."),
        ('compile "x" { }', "compile has no name: write compile { field: value }."),
        ('D "a" { name: "b" }', "D.name is given twice (first at line 1)."),
        ('import "parts.proto"', 'Another file is included by: include "parts.proto"'),
    ],
)
def test_strings_that_are_no_labels(text, message):
    with pytest.raises(TextError) as caught:
        load_text(text)
    assert [m.message for m in caught.value.mistakes] == [message]
