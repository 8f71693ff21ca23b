"""The output sizes of pooling, convolution and deconvolution that real Caffe computes (golden/shape_table.json)."""

from __future__ import annotations

import json
from functools import cache
from itertools import groupby

import pytest

from prototorch.errors import TextError
from tests.caffe.golden import GOLDEN
from tests.caffe.layer_runner import translate

Row = tuple[str, int, int, int, int, int, int | None]  # kind, input size, kernel, stride, pad, dilation, output size


@cache
def rows() -> list[Row]:
    """The rows of the table, those of one input size together."""
    table = json.loads((GOLDEN / "shape_table.json").read_text())["rows"]
    return sorted((tuple(row) for row in table), key=lambda row: row[1])


def has_window_outside(row: Row) -> bool:
    """Whether the last window begins behind the image: Caffe writes outside of its memory in the backward pass."""
    kind, size, _, stride, pad, _, out = row
    return kind == "CEIL" and pad == 0 and (out - 1) * stride >= size


def layer_text(row: Row, top: str) -> str:
    """A layer with the windows of a row."""
    kind, _, kernel, stride, pad, dilation, _ = row
    windows = f"kernel_size: {kernel} stride: {stride} pad: {pad}"
    if kind in ("CEIL", "FLOOR"):
        fields = f'type: "Pooling" pooling_param {{ {windows} round_mode: {kind} }}'
    else:
        fields = f'type: "{kind}" convolution_param {{ {windows} dilation: {dilation} num_output: 1 }}'
    return f'layer {{ name: "{top}" bottom: "x" top: "{top}" {fields} }}\n'


def input_text(size: int) -> str:
    return f'layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: [1, 1, {size}, {size}] }} }} }}\n'


@pytest.mark.parametrize("size", sorted({row[1] for row in rows()}))
def test_sizes_are_those_of_caffe(size):
    chosen = [row for row in rows() if row[1] == size and not has_window_outside(row)]
    text = input_text(size) + "".join(layer_text(row, f"y{i}") for i, row in enumerate(chosen))
    net = translate(text)
    wrong = [
        (row, net.shapes[net.blobs[f"y{i}"]])
        for i, row in enumerate(chosen)
        if net.shapes[net.blobs[f"y{i}"]] != (1, 1, row[-1], row[-1])
    ]
    assert wrong == []


def test_windows_outside_of_the_image_are_refused():
    chosen = [row for row in rows() if has_window_outside(row)]
    assert len(chosen) == 27
    for row in chosen:
        with pytest.raises(TextError, match=r"layer 'y' \(Pooling\): its last window .* FLOOR"):
            translate(input_text(row[1]) + layer_text(row, "y"))


def test_the_table_is_whole():
    counts = {size: len(list(group)) for size, group in groupby(rows(), key=lambda row: row[1])}
    assert sum(counts.values()) == 2399
