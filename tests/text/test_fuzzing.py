"""Random texts: nothing but TextError comes out, and what is read without a mistake writes back equal.

The seed is fixed; PROTOTORCH_FUZZ multiplies the counts.
"""

from __future__ import annotations

import os
import random

import pytest

from prototorch.base.package_files import package_folder
from prototorch.errors import TextError
from prototorch.graph.net_reader import read_net
from prototorch.text.call_style import to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.expansion import expand
from prototorch.text.loader import load_text
from prototorch.text.reader import parse, read_file
from prototorch.text.writer import format_document

TIMES = int(os.environ.get("PROTOTORCH_FUZZ", "1"))
MODELS = [read_file(path) for path in sorted(package_folder("models").glob("*.proto"))]
MODELS += [read_file(path) for path in sorted(package_folder("models").glob("blocks/*.proto"))]
MODELS += [
    """input("a", [4])
block attend(units: 3) {
  input "q"
  input "m"
  x = Dense(q, units)
  y = Dense(m, units)
  output: ["y", "x"]
}
block f(left, right: { ReLU }, norm: BatchNormalization) { x = input  left  y = right  norm  Add(x, y) }
attend(a, a) -> (p, s)
residual { Dense(3)  f { left { Dense(3) }  weights: "t" } }
f(norm: GroupNormalization(3)) { left { residual { Dense(3) } } }
attend(p, s, units: 2)
"""
]
MODELS += [format_document(to_calls(parse(text, trivia=True))) for text in MODELS]
PIECES = [
    "{", "}", "[", "]", "(", ")", "<", ">", "$", "$(", ":", ",", ";", "=", "#", "//", '"', "'", "\\", "\n", "\r", "\0",
    "\ufeff", "\u202e", "\u00e9", "${", "param ", "repeat ",
    "block ", "if ", "else ", "include ", " in ", " and ", " not ",
    "1", "0x", "1e9", "-", "+", "**", "%", "==", "!=", "inf", "nan", "none", "true", "name", "bottom", "branch",
    "output",
    "Dense { units: 3 }", "Dense(3)", "Dense(", "Flatten", "Add(image, ", "Adam(1e-3)", "relu", "->",
    "x = ", "\nskip = Dense(3)\n",
    "let ", "let a: 3 ", "assert ", "assert $(1 < 2)", ', "said"', " from ", " for ", " for i in ", "[i for i in l]",
    "repeat (a, b) in [[1, 2]] ", "repeat a, b in ", "[1:]", "Dense \"d\" ", 'input "image" { shape: [3] }',
    "enumerate(", "residual { ", "residual { Dense(4) }", "x = input ", 'input "q" ', "output(x) ", " -> (a, b) ",
    "block f(body) { body } ", "f { ReLU } ", "body ", "f(residual)", "norm: ReLU", "trainable: false ",
    'x = Dense "d" ', ' "d" -> (a, b)', 'include a from "prototorch/blocks/unet.proto"\n',
    "(image)", "9" * 30, "x" * 1100, 'bottom: "', "weights", "$range(3)", "input { }", "compile { }",
]  # fmt: skip


def mutated(text: str, chance: random.Random) -> str:
    """A text with some pieces put in, left out, doubled or moved."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(text) + 1)
        until = min(len(text), at + chance.choice((0, 1, 1, 2, 5, 20, 100)))
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:at] + text[until:]
        elif kind == 1:
            text = text[:at] + chance.choice(PIECES) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at:until] * 2 + text[until:]
        else:
            to = chance.randrange(len(text) + 1)
            text = text[:to] + text[at:until] + text[to:]
    return text


def check(text: str) -> bool:
    """Whether the text has no mistake; it must not do anything but have mistakes."""
    report = Report()
    try:
        read_net(load_text(text, "fuzz.proto", report=report), report)
    except TextError:  # more mistakes than a report takes
        return False
    for mistake in report.diagnostics:
        assert mistake.message
        assert len(str(mistake)) < 3000
    try:
        document = parse(text, trivia=True)
    except TextError:
        assert report.diagnostics
        return False
    written = format_document(document)
    again = parse(written, trivia=True)
    assert again == document
    assert format_document(again) == written
    try:
        expanded = expand(document)
    except TextError:
        assert report.diagnostics
        return False
    assert expand(parse(format_document(expanded))) == expanded
    return not report.diagnostics


@pytest.mark.parametrize("seed", range(20))
def test_mutated_models(seed):
    chance = random.Random(seed)
    for _ in range(15 * TIMES):
        check(mutated(chance.choice(MODELS)[:3000], chance))


@pytest.mark.parametrize("seed", range(10))
def test_random_pieces(seed):
    chance = random.Random(1000 + seed)
    for _ in range(60 * TIMES):
        check(" ".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 40))))


def _expression(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(("1", "2.5", "n", "l", '"s"', "true", "none", "0", "w", "0x10", '"a${n}b"'))
    inner = [_expression(chance, depth - 1) for _ in range(3)]
    return chance.choice((
        "({0} + {1})", "{0} * {1}", "{0} - {1}", "(-{0})", "(not {0})",
        "{0} ** {1}", "{0} // {1}", "{0} % {1}", "{0} / {1}",
        "({0} if {1} else {2})", "({0} and {1})", "({0} or {1})", "({0} < {1} <= {2})", "({0} == {1})",
        "[{0}, {1}]", "l[{0}]", "[{0} for i in {1}]", "[i for i in {0} if {1}]", "[a + b for a, (b, _) in {0}]",
        "({0})[{1}:{2}]", "l[::{0}]", "l[{0}:]", "({0} in {1})", "({0} not in {1})", "sum({0})", "zip({0}, {1})",
        "sqrt({0})",
        "enumerate({0})", "reversed({0})", "divmod({0}, {1})", "ceil({0})", "floor({0})", "log2({0})",
        "min({0}, {1})", "len({0})", "range({0})", "int({0})", "round({0})", "max({0})", "float({0})", "({0})[{1}]",
    )).format(*inner)  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions(seed):
    chance = random.Random(2000 + seed)
    known = "param n: 3\nparam l: [1, 2]\nparam w: relu\n"
    for _ in range(60 * TIMES):
        text = f"{known}x: $({_expression(chance, 4)})"
        written = format_document(parse(text))
        assert parse(written) == parse(text)
        results = []
        for each in (text, written):
            try:
                results.append(expand(parse(each)).fields)
            except TextError as error:
                results.append([m.message for m in error.mistakes])
        assert results[0] == results[1]
