"""Masks that a config of Keras 3 states as arguments: those that layers give by themselves, here and there."""

from __future__ import annotations

from collections import defaultdict

from prototorch.interop.keras.config_import.config_fields import MASK_ARGUMENTS
from prototorch.interop.keras.config_import.config_graph import CallOutput, ConfigGraph, KerasLayerCall
from prototorch.layers.base import Layer

__all__ = ["mask_calls"]


def mask_calls(graph: ConfigGraph) -> set[int]:
    """The numbers of the operations (``not_equal``) whose results are read as masks alone."""
    readers: dict[int, list[tuple[KerasLayerCall, bool]]] = defaultdict(list)
    for call in graph.calls:
        for name, value in [*((None, v) for v in call.args), *call.kwargs.items()]:
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, CallOutput):
                    readers[item.call].append((call, name in MASK_ARGUMENTS))
    outputs = {output.call for output in graph.outputs}
    mask_call_numbers: set[int] = set()
    for call in reversed(graph.calls):
        if call.kind in Layer.members() or call.number in outputs or not readers[call.number]:
            continue
        if all(is_mask or reader.number in mask_call_numbers for reader, is_mask in readers[call.number]):
            mask_call_numbers.add(call.number)
    return mask_call_numbers
