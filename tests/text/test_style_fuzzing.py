"""Random and mutated texts in both forms: each form is found again from the other, and both are the same net."""

from __future__ import annotations

import random

import pytest

from prototorch.errors import TextError
from prototorch.graph.net_reader import read_net
from prototorch.text.brace_style import to_braces
from prototorch.text.call_style import to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document
from tests.text.test_fuzzing import MODELS, PIECES, check, mutated


def read(text: str):
    """The net of a text, and its mistakes."""
    report = Report()
    try:
        net, _ = read_net(load_text(text, "fuzz.proto", report=report), report)
    except TextError:
        return None, report.diagnostics
    return net, report.diagnostics


def check_styles(text: str) -> None:
    try:
        document = parse(text, trivia=True)
    except TextError as error:
        for mistake in error.mistakes:  # each has its place
            assert mistake.span is not None, mistake
        return
    braces, calls = to_braces(document), to_calls(document)
    assert parse(format_document(braces), trivia=True) == braces
    assert parse(format_document(calls), trivia=True) == calls
    assert to_calls(parse(format_document(braces), trivia=True)) == calls
    assert to_braces(calls) == to_braces(to_calls(braces))
    net, mistakes = read(text)
    if net is not None and not mistakes:
        assert read(format_document(braces)) == (net, [])
        assert read(format_document(calls)) == (net, [])


def random_text(chance: random.Random) -> str:
    if chance.random() < 0.7:
        return mutated(chance.choice(MODELS)[:3000], chance)
    return " ".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 40)))


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_in_both_forms(seed):
    chance = random.Random(5000 + seed)
    for _ in range(60):
        check_styles(random_text(chance))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_a_hundred_thousand_texts(seed):
    chance = random.Random(10_000 + seed)
    for _ in range(1000):
        text = random_text(chance)
        check(text)
        check_styles(text)
