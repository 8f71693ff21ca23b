"""Which layers, bottoms and parameters of a Caffe net get gradients: the rules by which Caffe sets a net up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeNet

__all__ = ["BackwardFlags", "find_backward_flags"]

#: types with a bottom to which ``force_backward`` does not reach: its position (labels, the marks of sequences' starts)
_NEVER_FORCED = {
    **dict.fromkeys(
        ("SoftmaxWithLoss", "SigmoidCrossEntropyLoss", "HingeLoss", "InfogainLoss", "MultinomialLogisticLoss"), 1
    ),
    **dict.fromkeys(("LSTM", "RNN"), 1),
    **dict.fromkeys(("ContrastiveLoss", "LSTMUnit"), 2),
}


@dataclass(frozen=True)
class BackwardFlags:
    """For each layer of a net, by its position: whether it is differentiated, and to which of its bottoms and
    parameter blobs gradients go."""

    layers: tuple[bool, ...]
    bottoms: tuple[tuple[bool, ...], ...]
    params: tuple[tuple[bool, ...], ...]


def find_backward_flags(net: CaffeNet) -> BackwardFlags:
    """The flags of a net whose blobs have one reader each (see `insert_splits`).

    A layer is differentiated where an input or parameter of it needs a gradient and a loss depends on it; a parameter
    needs one unless its ``lr_mult`` is 0; ``propagate_down`` overrides what its bottoms need; ``force_backward`` asks
    for all. Source: ``Net::Init`` of BVLC/caffe.
    """
    needs_backward: set[str] = set()  # values
    layer_flags: list[bool] = []
    bottom_flags: list[list[bool]] = []
    param_flags: list[tuple[bool, ...]] = []
    for layer in net.layers:
        stated = layer.message["propagate_down"]
        needs = [value in needs_backward for value in layer.bottom_values]
        bottom_flags.append([stated[i] if stated else need for i, need in enumerate(needs)])
        param_flags.append(tuple(param.lr_mult != 0 for param in layer.params))
        needs_any = any(needs) or any(param_flags[-1])
        layer_flags.append(needs_any)
        needs_backward.update(layer.top_values if needs_any else ())
    _leave_out_unneeded(net.layers, layer_flags, bottom_flags)
    if net.message["force_backward"]:
        return BackwardFlags(
            (True,) * len(net.layers),
            tuple(
                tuple(flag or _NEVER_FORCED.get(layer.type) != i for i, flag in enumerate(flags))
                for layer, flags in zip(net.layers, bottom_flags, strict=True)
            ),
            tuple((True,) * len(layer.params) for layer in net.layers),
        )
    return BackwardFlags(tuple(layer_flags), tuple(tuple(flags) for flags in bottom_flags), tuple(param_flags))


def _leave_out_unneeded(layers: Sequence[CaffeLayer], layer_flags: list[bool], bottom_flags: list[list[bool]]) -> None:
    """Backwards through the net: what no loss depends on, and what nobody asks the gradients of."""
    under_loss: set[str] = set()  # blobs
    skipped: set[str] = set()
    for i in reversed(range(len(layers))):
        layer = layers[i]
        tops = layer.tops or layer.top_values
        weights = dict(zip(tops, layer.loss_weights, strict=False))
        contributes = any(weights.get(top, 0) != 0 or top in under_loss for top in tops)
        if layer_flags[i] and all(top in skipped for top in tops):
            layer_flags[i] = False
            bottom_flags[i] = [False] * len(bottom_flags[i])
        if contributes:
            under_loss.update(layer.bottoms)
        else:
            layer_flags[i] = False
            bottom_flags[i] = [False] * len(bottom_flags[i])
        skipped.update(blob for blob, flag in zip(layer.bottoms, bottom_flags[i], strict=True) if not flag)
