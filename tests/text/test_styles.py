"""`fmt --style`: every text in calls and in braces is the same net, and each form is found again from the other."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from prototorch.base.package_files import package_folder
from prototorch.cli.main import group
from prototorch.graph.net_reader import read_net
from prototorch.layers.base import Layer
from prototorch.text.brace_style import to_braces
from prototorch.text.call_style import CALL_WIDTH, to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.reader import parse, read_file
from prototorch.text.writer import format_document

ROOT = Path(__file__).parents[2]
FILES = sorted(package_folder("models").glob("*.proto")) + sorted(
    path for folder in ("examples", "benchmarks") for path in (ROOT / folder).rglob("*.proto")
)
_CALL = re.compile(r"(?<![$\w])[^\W\d]\w*\((?![^()]*\)\s*\{)")


def net_of(text: str, path: Path):
    report = Report()
    net, _ = read_net(load_text(text, str(path), report=report, root=str(path.parent)), report)
    report.raise_if_any()
    return net


def parts(text: str, root: str | None = None):
    """The text in calls, and that text in braces, each written and read again."""
    calls = to_calls(parse(text, trivia=True), root)
    braces = to_braces(calls, root)
    return calls, braces, format_document(calls), format_document(braces)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_texts_in_both_forms(path):
    text = read_file(path)
    root = os.path.dirname(path)
    calls, braces, written_calls, written_braces = parts(text, root)
    assert parse(written_calls, trivia=True) == calls
    assert parse(written_braces, trivia=True) == braces
    assert to_calls(parse(written_braces, trivia=True), root) == calls
    assert to_braces(parse(written_calls, trivia=True), root) == braces
    assert format_document(to_calls(parse(written_calls, trivia=True), root)) == written_calls
    assert len(written_calls) <= len(written_braces)
    comments = sorted(re.findall(r"#[^\n]*", text))
    assert comments == sorted(re.findall(r"#[^\n]*", written_calls)) == sorted(re.findall(r"#[^\n]*", written_braces))
    for line in written_braces.splitlines():
        assert not _CALL.search(re.sub(r"#.*|\"[^\"]*\"|\$\(.*|block .*|param .*", "", line)), line
    net = net_of(text, path)
    assert net_of(written_calls, path) == net
    assert net_of(written_braces, path) == net


@pytest.mark.parametrize("name", sorted(Layer.members()))
def test_examples_of_layers_in_both_forms(name):
    for example in Layer.members()[name].examples:
        calls, braces, written_calls, written_braces = parts(example.text)
        assert to_calls(parse(written_braces, trivia=True)) == calls
        assert to_braces(parse(written_calls, trivia=True)) == braces
        assert load_text(written_braces) == load_text(written_calls)


HEAD = """input("image", [3, 8, 8])
param filters: 4
block conv(width, kernel: 1) {
  Conv2D(width, kernel)
  ReLU
}
"""


@pytest.mark.parametrize(
    ("calls", "braces"),
    [
        ("Conv2D(filters, 3, padding: same)", "Conv2D { filters: $filters  kernel_size: 3  padding: same }"),
        ("conv(2 * filters, 3)", "conv { width: $(2 * filters)  kernel: 3 }"),
        ("ReLU", "ReLU { }"),
        ("Activation(relu)", "Activation { activation: relu }"),
        ("MaxPooling2D(2, 2, padding: same)", "MaxPooling2D { pool_size: 2  strides: 2  padding: same }"),
        ("up = Conv2D(4, 3)", 'Conv2D { filters: 4  kernel_size: 3  top: "up" }'),
        ("up = conv(4)", "up = conv { width: 4 }"),
        ("up = ReLU\nAdd(up, up)", 'ReLU { top: "up" }\nAdd { bottom: ["up", "up"] }'),
        ("repeat filters { ReLU }", "repeat $filters { ReLU { } }"),
        ("Bidirectional(LSTM(4))", "Bidirectional { layer: LSTM { units: 4 } }"),
        ("compile { optimizer: Adam(CosineDecay(0.1, decay_steps: 9)) }",
         "compile { optimizer: Adam { learning_rate: CosineDecay { initial_learning_rate: 0.1  decay_steps: 9 } } }"),
    ],
)  # fmt: skip
def test_what_is_written(calls, braces):
    in_braces = format_document(to_braces(parse(HEAD + calls)))
    assert in_braces.endswith("\n" + braces + "\n")
    in_calls = format_document(to_calls(parse(in_braces)))
    assert in_calls.endswith("\n" + calls + "\n")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Conv2D { filters: 4  kernel_size: 3  strides: 2  padding: same }", "Conv2D(4, 3, 2, padding: same)"),
        ("Dense(units: 4)", "Dense(4)"),
        ("Dense(4, relu)", "Dense(4, activation: relu)"),
        ("LayerNormalization(scale: true)", "LayerNormalization(scale: true)"),
        ('compile { loss { type: mse  output: "y"  weight: 2.0 } }', 'compile { loss(mse, output: "y", weight: 2.0) }'),
    ],
)  # fmt: skip
def test_which_values_have_names(text, calls):
    assert format_document(to_calls(parse(text))) == calls + "\n"


def test_what_does_not_fit_stays_in_braces():
    text = 'Dense { units: 4  name: "%s" }\n' % ("x" * CALL_WIDTH)
    assert format_document(to_calls(parse(text))) == text


def test_blocks_of_an_included_file(tmp_path):
    (tmp_path / "blocks.proto").write_text("block conv(width, kernel: 1) {\n  Conv2D(width, kernel)\n}\n")
    text = 'include "blocks.proto"\n\ninput("image", [3, 8, 8])\nconv(4, 3)\n'
    braces = text.replace("conv(4, 3)", "conv { width: 4  kernel: 3 }")
    path = tmp_path / "m.proto"
    path.write_text(text)
    shell = CliRunner()
    shown = shell.invoke(group, ["fmt", "--style", "brace", "--stdout", str(path)])
    assert shown.exit_code == 0
    assert shown.output == braces.replace('input("image", [3, 8, 8])', 'input { name: "image"  shape: [3, 8, 8] }')
    path.write_text(braces)
    assert "not in the canonical layout" in shell.invoke(group, ["fmt", "--check", str(path)]).output
    assert shell.invoke(group, ["fmt", "--check", "--style", "keep", str(path)]).output == ""
    shell.invoke(group, ["fmt", str(path)])
    assert path.read_text() == text
    alone = shell.invoke(group, ["fmt", "--style", "brace", "-"], input=text)
    assert "conv(4, 3)" in alone.output  # what its values mean is in a file that is not read
