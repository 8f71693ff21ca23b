"""Dense layers over sequences, and the layers whose op in ONNX is none of ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.onnx.export.layer_table import LayerExport, exports_layer
from prototorch.interop.onnx.op_pairs import pair_of_layer


@exports_layer(layers.Dense)
def _dense(export: LayerExport) -> bool:
    """Over the last axis of more than two: the product broadcasts, so that nothing changes its shape."""
    if len(export.dims()) < 3:
        return False
    layer: Any = export.layer
    if export.array("kernel") is None:  # it is another layer's matrix, transposed
        return False
    dims = (*export.dims()[:-1], layer.units)
    product = [export.inputs[0], export.weight("kernel")]
    if layer.use_bias:
        export.finish("Add", [export.emit("MatMul", product), export.weight("bias")], layer.activation, dims)
    else:
        export.finish("MatMul", product, layer.activation, dims)
    return True


@exports_layer(layers.CELU, layers.LRN)
def _same_meaning(export: LayerExport) -> bool:
    if isinstance(export.layer, layers.LRN) and len(export.dims()) != 4:
        return False  # ONNX Runtime has it for images alone
    if isinstance(export.layer, layers.LRN) and export.layer.region != "across_channels":
        return False
    pair = pair_of_layer(type(export.layer))
    assert pair is not None
    values = {attribute.ours: getattr(export.layer, attribute.ours) for attribute in pair.fields.values()}
    export.result(pair.name, [export.inputs[0]], pair.node_attributes(values))
    return True


@exports_layer(layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D)
def _upsampling(export: LayerExport) -> bool:
    layer: Any = export.layer
    if getattr(layer, "interpolation", "nearest") != "nearest":
        return False
    scales = export.constant(np.array([1, 1, *layer.size], np.float32), "scales")
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    export.result("Resize", [export.inputs[0], "", scales], attributes)
    return True


@exports_layer(layers.LogSumExp)
def _log_sum_exp(export: LayerExport) -> bool:
    """One op that does not overflow."""
    layer: Any = export.layer
    rank = len(export.dims())
    axes = list(range(1, rank)) if layer.axis is None else [a % rank for a in layer.axis]
    if export.builder.opset >= 18:
        export.result("ReduceLogSumExp", [export.inputs[0], export.integers(axes)], {"keepdims": int(layer.keepdims)})
    else:
        export.result("ReduceLogSumExp", export.inputs[:1], {"axes": axes, "keepdims": int(layer.keepdims)})
    return True
