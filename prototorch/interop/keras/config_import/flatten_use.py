"""Which Flatten layers may give their elements in another order than Keras': those whose readers are dense layers,
whose kernels' rows are reordered with the weights (`interop.keras.net_layouts`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from prototorch.interop.counterparts.keras.row import class_of_name, row_of_function
from prototorch.interop.keras.config_import.config_fields import plain_name
from prototorch.interop.keras.config_import.config_graph import ConfigGraph, KerasLayerCall

__all__ = ["free_flattens"]


def free_flattens(graph: ConfigGraph) -> set[int]:
    """The numbers of the Flatten calls whose order of elements is seen by no layer but dense ones."""
    readers: dict[int, list[KerasLayerCall]] = defaultdict(list)
    for call in graph.calls:
        for output in call.inputs():
            readers[output.call].append(call)
    outputs = {output.call for output in graph.outputs}
    memo: dict[int, bool] = {}
    for call in reversed(graph.calls):  # readers come later: they are decided first
        memo[call.number] = call.number not in outputs and all(_hides(reader, memo) for reader in readers[call.number])
    return {call.number for call in graph.calls if call.kind == "Flatten" and memo[call.number]}


def _hides(reader: KerasLayerCall, memo: Mapping[int, bool]) -> bool:
    if reader.kind == "Dense":
        return True
    if reader.kind == "Activation":
        row = row_of_function(plain_name(reader.config.get("activation")) or "")
        return row is not None and row.layers[0].keeps_positions and memo[reader.number]
    if reader.kind == "Concatenate":
        return reader.config.get("axis", -1) in (-1, 1) and memo[reader.number]
    layer = class_of_name(reader.kind)
    return layer is not None and layer.keeps_positions and memo[reader.number]
