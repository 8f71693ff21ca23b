"""An example's text as a layer."""

from __future__ import annotations

from prototorch.errors import UsageError
from prototorch.layers.base import Layer
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import Body


def parse_layer(text: str) -> Layer:
    """The layer of a text of one block. Raises TextError for a mistake in it, UsageError for any other text."""
    document = parse(text, "example")
    fields = document.fields
    if len(fields) != 1 or not isinstance(fields[0].value, Body):
        raise UsageError(f"an example is one layer, not: {text}")
    report = Report()
    layer = Layer.lookup(fields[0].name).from_fields(fields[0].value.fields, report, fields[0].name_span)
    report.raise_if_any()
    assert layer is not None
    return layer
