"""From the exact net of a Caffe file to the one that a person would write."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.model_conversion.activations import join_activations, remove_identities, use_default_axes
from prototorch.caffe.interop.model_conversion.draft import Change, NetDraft
from prototorch.caffe.interop.model_conversion.fields import shorten_numbers, use_default_initializers
from prototorch.caffe.interop.model_conversion.normalizations import merge_normalizations
from prototorch.caffe.interop.model_conversion.windows import simplify_windows
from prototorch.graph.net import Net

__all__ = ["native_net"]

_CHANGES: tuple[Change, ...] = (
    remove_identities,
    use_default_initializers,
    merge_normalizations,
    simplify_windows,
    use_default_axes,
    join_activations,
    shorten_numbers,
)


def native_net(
    caffe: CaffeNet, weights: Mapping[str, np.ndarray] | None = None
) -> tuple[Net, dict[str, np.ndarray] | None]:
    """The net as a person would write it, with its weights where those of the exact net are given.

    Its outputs are those of the exact net; its gradients are derivatives.
    """
    draft = NetDraft.of(caffe, weights)
    for change in _CHANGES:
        change(draft)
    return draft.net(caffe.net), draft.weights
