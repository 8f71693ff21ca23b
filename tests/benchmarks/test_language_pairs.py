"""Nets in the language beside Keras: never longer, with as many parameters, in the layout of `prototorch fmt`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.language import pairs
from prototorch.text.call_style import to_calls
from prototorch.text.reader import parse
from prototorch.text.writer import format_document

ROOT = Path(__file__).parents[2]
LARGE = {"efficientnet_b0", "gpt2_small", "inception_v3", "unet", "vit_b16", "densenet121"}
EXPECTED = {"gpt2_small": 124_439_808, "vit_b16": 86_567_656}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in pairs.names()]


def test_what_counts():
    assert pairs.strip_text('a: "x # y"  # note\n') == 'a: "x # y"  \n'
    assert pairs.strip_python('"""Doc."""\nx = "a # b"  # note\n').strip() == 'x = "a # b"'
    assert pairs.count('keras.layers.Dense(64, name="two words")\n\nx = 1e-3\n') == (2, 6)


@pytest.mark.parametrize("name", pairs.names())
def test_ours_is_not_longer(name):
    text, program = pairs.lengths(name)
    assert text.lines <= program.lines
    assert text.words <= program.words


@pytest.mark.parametrize("name", pairs.names())
def test_the_texts_are_in_the_layout(name):
    text = (pairs.FOLDER / f"{name}.proto").read_text()
    assert format_document(to_calls(parse(text, trivia=True))) == text


@pytest.mark.parametrize("name", NAMES)
def test_both_have_the_same_parameters(name):
    """In a process of its own: Keras is imported with PyTorch below it."""
    code = f"from benchmarks.language import pairs; print(*pairs.parameters({name!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    ours, theirs = map(int, done.stdout.split()[-2:])
    assert ours == theirs
    assert EXPECTED.get(name, ours) == ours
