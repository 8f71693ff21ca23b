"""Parts of texts that need more than their syntax: vocabularies, weights of some layers, texts of older files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from prototorch.engine.storage import checkpoint
from prototorch.errors import PrototorchError, UsageError
from prototorch.graph.net import Net
from prototorch.graph.text_upgrade import current_text
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.tokenizer import Tokenizer
from prototorch.model.weights_block import Weights
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_text
from prototorch.text.syntax_tree import Body, Document, TypedBlock, Word

__all__ = ["read_nested_weights", "read_vocabularies", "saved_document", "saved_text"]


def read_vocabularies(net: Net, report: Report, is_saved_model: bool) -> None:
    """Read the vocabularies that the layers of a net name, beside the text; in a saved model one is a mistake."""
    for layer in (*net.preprocess, *(node.layer for node in net.nodes)):
        if isinstance(layer, Tokenizer):
            span = find_span(layer, layer.file_field)
            try:
                layer.resolve(None if is_saved_model else os.path.dirname(span.path) if span is not None else os.curdir)
            except PrototorchError as error:
                report.add(str(error), span)


def read_nested_weights(document: Document, report: Report) -> tuple[Weights, ...]:
    """The blocks ``weights`` that name the layers that they are of."""
    blocks: dict[str, Weights] = {}
    for f in document.fields:
        if f.name != "weights" or not isinstance(f.value, Body) or all(g.name != "into" for g in f.value.fields):
            continue
        block = Weights.from_fields(f.value.fields, report, f.name_span)
        if block is None or block.into is None:
            continue
        first = blocks.setdefault(block.into, block)
        if first != block:
            message = f"The layers of {block.into!r} would get two weights: {first.source!r} and {block.source!r}."
            report.add(message, f.name_span)
    return tuple(blocks.values())


def saved_document(saved: checkpoint.Checkpoint, path: str, overrides: Sequence[str], report: Report) -> Document:
    """The text in a saved model, expanded, as it was meant when the file was written."""
    document = load_text(saved_text(saved), path, None, overrides, report)
    _state_defaults(document.fields)
    return document


def saved_text(saved: checkpoint.Checkpoint) -> str:
    return current_text(saved.text, saved.version)


def _state_defaults(fields: Sequence[Any]) -> None:
    """Give a bare word of a class whose fields a saved model always states the meaning of older files: the class's
    defaults. (``leaky_relu`` is Keras' function of negative slope 0.2; it was the layer with 0.3.)"""
    for f in fields:
        value = getattr(f, "value", None)
        if isinstance(value, Word) and f.name.endswith("activation"):
            try:
                has_stated_fields = bool(ActivationLayer.lookup(value.text).written_fields)
            except UsageError:  # reported when the field is read
                continue
            if has_stated_fields:
                f.value = TypedBlock(value.text, Body(()), value.span, value.span)
        elif isinstance(value, Body | TypedBlock):
            _state_defaults(value.fields)
