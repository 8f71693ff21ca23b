"""Nets that share the parameters of layers with the same names."""

from __future__ import annotations

from prototorch.caffe.net import Net
from prototorch.errors import UsageError

__all__ = ["share_weights"]


def share_weights(net: Net, other: Net) -> None:
    """Let a net have the parameters of another one, for all layers with the names of layers there.

    Raises UsageError for a layer with another number of parameters or other shapes; nothing has been changed then.
    """
    pairs = []
    theirs = {layer.name: layer for layer in other.caffe_net.layers}
    for layer in net.caffe_net.layers:
        source = theirs.get(layer.name)
        if source is None:
            continue
        shapes = [[list(param.shape) for param in one.params] for one in (layer, source)]
        if shapes[0] != shapes[1]:
            raise UsageError(
                f"layer {layer.name!r}: its parameters have the shapes {shapes[0]}, those of the net to share with "
                f"{shapes[1]}"
            )
        pairs += [pair for mine, its in zip(layer.params, source.params, strict=True)
                  for pair in zip(mine.weights, its.weights, strict=True)]  # fmt: skip
    for mine, its in pairs:
        net.variables.share(mine, other.variables, its)
