"""The data block read from a text and written back."""

import pytest

from prototorch.data import Data
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse


def read(text):
    report = Report()
    document = parse("data { " + text + " }")
    (block,) = document.fields
    return Data.from_fields(block.value.fields, report, block.span), report


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('source: "fashion-mnist-mini"', {}),
        ('source: "t.csv" label: "price" limit: 5', {"label": ("price",), "limit": 5}),
        ('source: "t.csv" label: ["a", -2] features: [0, 1]', {"label": ("a", -2), "features": (0, 1)}),
        ('source: "p" size: 64 resize: crop color: gray', {"size": (64, 64), "resize": "crop", "color": "gray"}),
        ('source: "p" size: [32, 48] on_error: skip skip_limit: 0.1', {"size": (32, 48), "on_error": "skip"}),
        ('source: "p" threads: 0 prefetch: 4 shuffle: false', {"threads": 0, "prefetch": 4, "shuffle": False}),
        ('source: "p" classes: ["cat", "dog"] part: test', {"classes": ("cat", "dog"), "part": "test"}),
        ('source: "p" limit: none threads: none size: none', {"limit": None, "threads": None, "size": None}),
    ],
)
def test_a_block_is_read_and_written_back(text, values):
    data, report = read(text)
    assert len(report) == 0, str(report)
    for name, value in values.items():
        got = getattr(data, name)
        assert (tuple(got) if isinstance(got, list) else got) == value
    again = Data.from_fields(data.to_fields(), Report())
    assert again == data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("limit: 5", "needs 'source'"),
        ('sorce: "x"', "Did you mean 'source'"),
        ('source: "x" on_error: skipp', "on_error"),
        ('source: "x" limit: 0', "limit"),
        ('source: "x" skip_limit: 2', "skip_limit"),
        ('source: "x" size: [1, 2, 3]', "size"),
        ('source: "x" threads: many', "threads"),
    ],
)
def test_mistakes_are_reported(text, words):
    data, report = read(text)
    assert data is None
    assert words in "\n".join(map(str, report.diagnostics))
