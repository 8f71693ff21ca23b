"""Layers that learn constants from the training data before the first step, in one pass over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from prototorch.data.pipeline.columns import Columns
from prototorch.eager.functions.conversion import from_numpy
from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.layers.adapted_layer import AdaptedLayer
from prototorch.layers.tokenizer import Tokenizer

__all__ = ["adapt_layers"]

BATCH = 4096  # samples that are read at once


def adapt_layers(net: Net, columns: Columns) -> None:
    """Let the layers of a net that have no constants yet learn them from its training data, batch by batch.

    Such layers stand in ``preprocess``, or read an input, directly or behind others of this kind. Raises
    UsageError for a stream of batches, whose length is not known, and for a layer that stands elsewhere.
    """
    layers = [*net.preprocess, *(node.layer for node in net.nodes)]
    pending = [one for one in layers if isinstance(one, AdaptedLayer) and not one.is_adapted()]
    if not pending:
        return
    if columns.feeding.stream is not None:
        raise UsageError(
            f"{pending[0].name or type(pending[0]).__name__} learns from the whole training data, and these are a "
            "stream of batches: call its adapt(data) before"
        )
    match = columns.check().columns
    for layer in pending:  # in order: each reads what those before it give
        summary = None
        for batch in _batches(match.dataset, match.inputs):
            summary = layer.summarize(_values_before(net, layer, batch), summary)
        layer.learn(summary)


def _batches(dataset: Any, inputs: Mapping[str, str]) -> Iterator[dict[str, np.ndarray]]:
    """The raw samples by input."""
    for start in range(0, len(dataset), BATCH):
        rows = dataset.read(np.arange(start, min(start + BATCH, len(dataset))))
        yield {name: rows[column] for name, column in inputs.items()}


def _values_before(net: Net, layer: AdaptedLayer, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """What a layer reads of a batch. Raises UsageError where other layers stand before it."""
    values: dict[str, Any] = {name: from_numpy(np.ascontiguousarray(array)) for name, array in batch.items()}
    if net.preprocess:
        name = net.inputs[0].name
        for one in net.preprocess:
            if one is layer:
                return np.asarray(values[name].detach())
            if not isinstance(one, Tokenizer):
                values[name] = one(values[name])
    for node in net.nodes:
        if not all(bottom in values for bottom in node.bottoms):
            continue
        if node.layer is layer:
            return np.asarray(values[node.bottoms[0]].detach())
        if isinstance(node.layer, AdaptedLayer) and node.layer.is_adapted():
            result = node.layer(*(values[bottom] for bottom in node.bottoms))
            values.update(zip(node.tops, result if isinstance(result, tuple) else (result,), strict=True))
    raise UsageError(
        f"{layer.name or type(layer).__name__} stands behind other layers, and learns nothing from the data: "
        "call its adapt(data), or write its constants into the text"
    )
