"""Split layers: where a blob has several readers, Caffe gives each of them a copy of its own, with a fixed name."""

from __future__ import annotations

from collections import Counter

from prototorch.caffe.text.message import Message

__all__ = ["insert_splits"]

_TopIndex = tuple[int, int]  # of a layer in the net, and of a top in the layer


def insert_splits(net: Message) -> Message:
    """A net (a NetParameter in its newest form) with the Split layers that Caffe inserts.

    A blob that n layers read (a ``loss_weight`` counts as one) is followed by a layer ``<blob>_<layer>_<top>_split``
    with the tops ``..._split_0`` to ``..._split_<n - 1>``, which the readers get in their order. A blob that no layer
    makes is left as it is. Source: ``InsertSplits`` of BVLC/caffe.
    """
    layers = net["layer"]
    sources: dict[tuple[int, int], _TopIndex] = {}
    counts: Counter[_TopIndex] = Counter()
    losses: dict[_TopIndex, float] = {}
    last_top: dict[str, _TopIndex] = {}
    for i, layer in enumerate(layers):
        for j, blob in enumerate(layer["bottom"]):
            if blob in last_top:
                sources[i, j] = last_top[blob]
                counts[last_top[blob]] += 1
        last_top.update((blob, (i, j)) for j, blob in enumerate(layer["top"]))
        for blob, weight in zip(layer["top"], layer["loss_weight"], strict=False):
            losses[last_top[blob]] = weight
            counts[last_top[blob]] += weight != 0
    result, used = net.copy(), Counter[_TopIndex]()
    result["layer"] = []
    for i, layer in enumerate(layers):
        new = _with_spans(
            layer.copy(),
            "bottom",
            [
                _split_name(layers, source, used) if counts[source] > 1 else blob
                for blob, source in ((blob, sources.get((i, j), (-1, j))) for j, blob in enumerate(layer["bottom"]))
            ],
        )
        result["layer"].append(new)
        for j in range(len(layer["top"])):
            if counts[i, j] > 1:
                weight = losses.get((i, j), 0.0)
                result["layer"].append(_split_layer(layers, (i, j), counts[i, j], weight))
                if weight:
                    new.clear("loss_weight")
                    used[i, j] += 1
    return result


def _layer_name(layers: list[Message], top: _TopIndex) -> str:
    layer, index = layers[top[0]], top[1]
    return f"{layer['top'][index]}_{layer['name']}_{index}_split"


def _split_name(layers: list[Message], top: _TopIndex, used: Counter[_TopIndex]) -> str:
    used[top] += 1
    return f"{_layer_name(layers, top)}_{used[top] - 1}"


def _split_layer(layers: list[Message], top: _TopIndex, count: int, loss_weight: float) -> Message:
    name = _layer_name(layers, top)
    new = Message(
        "LayerParameter",
        span=layers[top[0]].span,
        name=name,
        type="Split",
        bottom=[layers[top[0]]["top"][top[1]]],
        top=[f"{name}_{k}" for k in range(count)],
    )
    if loss_weight:
        new["loss_weight"] = [loss_weight, *[0.0] * (count - 1)]
    return new


def _with_spans(layer: Message, field: str, values: list[str]) -> Message:
    """The layer with other values in a repeated field, which keep the places of the old ones."""
    spans = [layer.field_span(field, i) for i in range(len(values))]
    layer.clear(field)
    for value, span in zip(values, spans, strict=True):
        layer.set(field, value, span)
    return layer
