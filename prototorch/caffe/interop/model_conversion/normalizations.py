"""BatchNorm and the Scale behind it as one BatchNormalization, with the statistics divided by their weight."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.interop.model_conversion.draft import NetDraft
from prototorch.caffe.interop.running_statistics import RunningStatistics
from prototorch.graph.net import LayerNode
from prototorch.layers import BatchNormalization, MeanVarianceNormalization, Scale

__all__ = ["merge_normalizations"]


def merge_normalizations(draft: NetDraft) -> None:
    """Batch normalizations with their factors and shifts, moving means and variances as others have them."""
    for node in list(draft.nodes):
        layer: Any = node.layer
        if isinstance(layer, BatchNormalization) and layer.weighted_sums and draft.owns_weights(node):
            _merge(draft, node, layer)
        elif isinstance(layer, MeanVarianceNormalization):
            draft.set_layer(node, layer.replace(epsilon_in_gradient=True))


def _merge(draft: NetDraft, node: LayerNode, layer: Any) -> None:
    sums = draft.take_weights(node, ("moving_mean", "moving_variance", "moving_weight"))
    weights = {}
    if sums:
        arrays = (sums["moving_mean"], sums["moving_variance"], sums["moving_weight"])
        weights = dict(zip(("moving_mean", "moving_variance"), RunningStatistics().to_ours(arrays), strict=True))
    scale = draft.only_reader(node)
    if scale is not None and not _is_channel_scale(draft, scale):
        scale = None
    affine: Any = scale.layer if scale is not None else None
    fields = {"scale": affine is not None, "center": affine is not None and affine.use_bias}
    if affine is not None:
        fields["gamma_initializer"] = affine.scale_initializer
        if affine.use_bias:
            fields["beta_initializer"] = affine.bias_initializer
    new = BatchNormalization(
        momentum=layer.momentum, epsilon=layer.epsilon, batch_statistics=layer.batch_statistics, **fields
    )
    node = draft.set_layer(node, new)
    if scale is not None:
        names = ("scale", "bias") if affine.use_bias else ("scale",)
        weight_names = {"scale": "gamma", "bias": "beta"}
        weights |= {weight_names[name]: array for name, array in draft.take_weights(scale, names).items()}
        draft.merge_into(node, scale)
    draft.put_weights(node, weights)


def _is_channel_scale(draft: NetDraft, node: LayerNode) -> bool:
    layer: Any = node.layer
    return isinstance(layer, Scale) and (layer.axis, layer.num_axes) == (1, 1) and draft.owns_weights(node)
