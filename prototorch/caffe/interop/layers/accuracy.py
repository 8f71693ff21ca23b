"""Caffe's Accuracy."""

from __future__ import annotations

from math import prod

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.layers import ClassAccuracy


@translator("Accuracy")
def _accuracy(site: CaffeLayerImport) -> None:
    """The second top is the accuracy of each class."""
    site.check_counts(2, (1, 2))
    param = site.layer["accuracy_param"]
    x, labels = site.bottom_shapes
    axis = site.canonical_axis(param["axis"], param)
    positions = (*x[:axis], *x[axis + 1 :])
    if prod(labels) != prod(positions):
        site.fail(
            f"it has {prod(labels)} labels {list(labels)} for {prod(positions)} predictions: {list(x)} with the "
            f"classes along axis {axis} needs labels {list(positions)}",
            site.layer,
            "bottom",
        )
    if param["top_k"] > x[axis]:
        site.fail(f"top_k {param['top_k']} exceeds the {x[axis]} classes", param, "top_k")
    layer = ClassAccuracy(
        top_k=param["top_k"],
        axis=axis,
        ignore_class=param["ignore_label"] if param.has("ignore_label") else None,
        per_class=site.num_tops == 2,
    )
    site.add(layer, outputs=layer.output_count())
