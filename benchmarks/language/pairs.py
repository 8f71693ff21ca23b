"""How long nets are in the language and in Keras: lines and words of pairs of programs, and their parameters.

    python -m benchmarks.language.pairs [--write]

``pairs`` holds each net twice: ``NAME.proto``, and the Keras program ``NAME_keras.py``, both with their ``compile``. A
line is one that holds more than spaces and comments; a word is a name (with its dots), a number or a string. Import
lines count. Lines are at most 100 columns long. What loads data and fits is on neither side. The parameters of the two
must be equal. ``--write`` puts the table into ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import runpy
import tokenize
from pathlib import Path
from typing import NamedTuple

import prototorch as pt

FOLDER = Path(__file__).parent / "pairs"
COLUMNS = 100
_HEAD = """\
The nets of `benchmarks/language/pairs`, each as a text and as an idiomatic Keras program, both with `compile`, without
what loads data and fits. Empty lines, comments and docstrings are left out; a line has at most 100 columns; a word is a
name with its dots, a number or a string. The texts are in the layout of `prototorch fmt`, the programs in that of
`ruff format`. Written by `python -m benchmarks.language.pairs --write`.
"""
_COMMENT_OR_STRING = re.compile(r"\#[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_WORD = re.compile(
    r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|(?:\d[\d_]*)?\.?\d+(?:[eE][+-]?\d+)?|[^\W\d]\w*(?:\.[^\W\d]\w*)*"
)


class Length(NamedTuple):
    """The lines and words of a program."""

    lines: int
    words: int


def count(program: str) -> Length:
    """The length of a program without its comments."""
    lines = [line for line in program.splitlines() if line.strip()]
    wide = [line for line in lines if len(line) > COLUMNS]
    if wide:
        raise ValueError(f"a line has more than {COLUMNS} columns: {wide[0]}")
    return Length(len(lines), len(_WORD.findall("\n".join(lines))))


def strip_text(text: str) -> str:
    """A text of the language without comments."""
    return _COMMENT_OR_STRING.sub(lambda m: "" if m[0].startswith("#") else m[0], text)


def strip_python(text: str) -> str:
    """A Python program without comments and docstrings."""
    parts = []
    last, before = (1, 0), tokenize.NEWLINE
    lines = text.splitlines(keepends=True)
    for kind, value, start, end, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = kind == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT)
        between = lines[last[0] - 1][last[1] : start[1]] if start[0] == last[0] else " " * start[1]
        parts.append(between + ("" if kind == tokenize.COMMENT or is_docstring else value))
        last = end
        if kind not in (tokenize.NL, tokenize.COMMENT):
            before = kind
    return "".join(parts)


def names() -> list[str]:
    """The nets of which there are pairs."""
    return sorted(path.stem for path in FOLDER.glob("*.proto"))


def lengths(name: str) -> tuple[Length, Length]:
    """The length of a net's text, and of its Keras program."""
    text = (FOLDER / f"{name}.proto").read_text()
    program = (FOLDER / f"{name}_keras.py").read_text()
    return count(strip_text(text)), count(strip_python(program))


def parameters(name: str) -> tuple[int, int]:
    """The number of parameters of our net, and of Keras'."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    ours = pt.load_model(str(FOLDER / f"{name}.proto")).count_params()
    theirs = runpy.run_path(str(FOLDER / f"{name}_keras.py"))["model"].count_params()
    return ours, theirs


def table() -> str:
    """The table of all pairs."""
    rows = ["| net | parameters | lines: ours | Keras | words: ours | Keras |", "| --- | --- | --- | --- | --- | --- |"]
    for name in names():
        ours, theirs = parameters(name)
        if ours != theirs:
            raise ValueError(f"{name}: {ours:,} parameters, Keras has {theirs:,}")
        text, program = lengths(name)
        rows.append(f"| {name} | {ours:,} | {text.lines} | {program.lines} | {text.words} | {program.words} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results")
    options = parser.parse_args()
    text = table()
    print(text)
    if options.write:
        path = Path(__file__).parents[1] / "results" / "language-lengths.md"
        path.write_text(f"# Lines and words beside Keras\n\n{_HEAD}\n{text}\n")


if __name__ == "__main__":
    main()
