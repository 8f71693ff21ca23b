"""Hostile texts: refused at a limit, with a message, in little time and memory. Nothing but TextError comes out."""

from __future__ import annotations

import pytest

from prototorch.errors import TextError
from prototorch.text.expansion import expand
from prototorch.text.reader import parse
from prototorch.text.writer import format_document

MILLION = 10**6

BOMBS = {
    "braces": ("a{" * MILLION, "deeper than 100"),
    "angles": ("a<" * MILLION, "deeper than 100"),
    "brackets": ("a: " + "[" * MILLION, "deeper than 100"),
    "parentheses": ("a: $" + "(" * MILLION, "deeper than 100"),
    "calls": ("a: $(" + "min(" * MILLION, "deeper than 100"),
    "indices": ("a: $(" + "a[" * MILLION, "deeper than 100"),
    "blocks' defaults": ("block b(x: " + "A { y: " * MILLION, "deeper than 100"),
    "sum": ("a: $(" + "1 + " * 5000 + "1)", "parts inside each other"),
    "signs": ("a: $(" + "-" * 5000 + "1)", "parts inside each other"),
    "nots": ("a: $(" + "not " * 5000 + "true)", "parts inside each other"),
    "powers": ("a: $(" + "2 ** " * 5000 + "2)", "parts inside each other"),
    "conditions": ("a: $(" + "1 if true else " * 5000 + "2)", "parts inside each other"),
    "indexed": ("param a: [1]\nb: $(a" + "[0]" * 5000 + ")", "parts inside each other"),
    "integer": ("a: " + "9" * MILLION, "number has 1000000 characters"),
    "hex number": ("a: 0x" + "f" * MILLION, "number has 1000002 characters"),
    "exponent": ("a: 1e" + "9" * MILLION, "number has 1000002 characters"),
    "exponent, short": ("a: 1e999999", "too large for a float"),
    "negative number": ("a: -9223372036854775809", "does not fit in 64 bits"),
    "name": ("x" * 10 * MILLION + ": 1", "name has 10000000 characters"),
    "word": ("x: " + "x" * 10 * MILLION, "name has 10000000 characters"),
    "variable": ("x: $" + "x" * 10 * MILLION, "name has 10000001 characters"),
    "string": ('a: "' + "x" * 10 * MILLION + '"', "string has 10000002 characters"),
    "unterminated string": ('a: "' + "x" * 10 * MILLION, "no closing"),
    "backslashes": ('a: "' + "\\" * MILLION, "no closing"),
    "file": ("#" * (16 * 2**20 + 1), "the limit is 16777216"),
    "repeat": ("repeat 1000000000 { D { } }", "above the limit"),
    "repeat of nothing": ("repeat 9223372036854775807 { }", "above the limit"),
    "repeats": ("repeat 1000 { " * 50 + "D { }" + " }" * 50, "at least"),
    "repeats of an expression": ("param n: 1000\n" + "repeat $n { " * 50 + "D { }" + " }" * 50, "more than"),
    "repeats of nothing": ("param n: 1000\n" + "repeat $n { " * 50 + " }" * 50, "steps"),
    "range": ("repeat i in $range(9223372036854775807) { D { } }", "above the limit"),
    "range backwards": ("a: $range(9223372036854775807, -9223372036854775807, -1)", "above the limit"),
    "list doubled": (
        "param a0: $range(1000)\n" + "".join(f"param a{i + 1}: $(a{i} + a{i})\n" for i in range(60)),
        "above the limit",
    ),
    "string doubled": (
        'param a0: "xxxxxxxxxxxxxxxx"\n' + "".join(f'param a{i + 1}: "${{a{i}}}${{a{i}}}"\n' for i in range(60)),
        "above the limit",
    ),
    "many long strings": (
        'param s: "' + "x" * 10000 + '"\nrepeat 100000 { D { a: "${s}" } }',
        "steps",
    ),
    "many long lists": ("repeat 10000 { D { a: $range(100000) } }", "steps"),
    "blocks doubled": (
        "block b0() { D { } D { } }\n"
        + "".join(f"block b{i + 1}() {{ b{i} {{ }} b{i} {{ }} }}\n" for i in range(60))
        + "b60 { }",
        "at least",
    ),
    "blocks doubled in branches": (
        "block b0() { D { } D { } }\n"
        + "".join(f"block b{i + 1}() {{ if true {{ b{i} {{ }} b{i} {{ }} }} }}\n" for i in range(60))
        + "b60 { }",
        "more than",
    ),
    "a row of blocks": (
        "block b0() { D { } }\n" + "".join(f"block b{i + 1}() {{ b{i} {{ }} }}\n" for i in range(5000)) + "b5000 { }",
        "levels inside each other",
    ),
    "tower of powers": ("a: $(9 ** 9 ** 9 ** 9 ** 9)", "too large"),
    "product": ("a: $(" + " * ".join(["9223372036854775807"] * 50) + ")", "too large"),
    "closing braces": ("}" * 10000, "closes nothing"),
    "odd characters": ("@" * MILLION, "has no meaning"),
    "letters of other alphabets": ("\u00e9" * MILLION, "name has 1000000 characters"),
    "NULs": ("\0" * MILLION, "NUL"),
    "surrogates": ("a: '\udcff'", "surrogate"),
    "mistakes": ("x { " + "a b " * 20000 + "}", "':' is missing"),
    "mistakes, each on its line": ("x {" + "a b\n" * 5000 + "}", "':' is missing"),
    "equals signs": ("= " * 10000, "not with '='"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb(name):
    text, message = BOMBS[name]
    with pytest.raises(TextError) as caught:
        expand(parse(text))
    assert message in str(caught.value.mistakes[0].message)
    assert len(str(caught.value)) < 20_000
    assert len(caught.value.mistakes) <= 51


HARMLESS = {
    "comment of 10 MB": "#" + "x" * 10 * MILLION,
    "a million spaces": "a: 1" + " " * MILLION + "b: 2",
    "a million line ends": "\n" * MILLION + "a: 1",
    "else if 3000 times": "if false { } " + "else if false { } " * 3000 + "else { D { } }",
    "a list of 50,000": "a: [" + "1, " * 50_000 + "]",
    "50,000 strings": "a: " + '"b" ' * 50_000,
    "99 levels": "a { " * 99 + "}" * 99,
    "20,000 layers": "repeat 20000 { D { } }",
    "90 blocks in a row": "block b0() { D { } }\n"
    + "".join(f"block b{i + 1}() {{ b{i} {{ }} }}\n" for i in range(90))
    + "b90 { }",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_large_but_harmless(name):
    document = parse(HARMLESS[name], trivia=True)
    assert parse(format_document(document), trivia=True) == document
    expand(document)
