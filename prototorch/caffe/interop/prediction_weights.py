"""The weights of a Caffe file for the net that predicts."""

from __future__ import annotations

import os
from dataclasses import replace

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.net_weights import match_caffe_net
from prototorch.errors import ModelWarning, warn_user
from prototorch.model.loading.assign.checked import CheckedWeights
from prototorch.model.loading.layout.laid_out import LaidOutWeights
from prototorch.model.loading.read.read_file import read_weights

__all__ = ["match_prediction_net", "match_weights"]

_MAX_NAMES = 10  # names in a message


def match_prediction_net(net: CaffeNet, path: str | os.PathLike[str]) -> LaidOutWeights | None:
    """Which arrays of a Caffe file are which weights of a net, by the names of its layers; None for another file.

    Warns of arrays of layers that the net does not have (those of losses in training). Raises WeightsError, with the
    whole report, for weights that are missing or have other shapes, ModelFileError for a damaged file.
    """
    file = read_weights(path)
    if file.system != "caffe":
        return None
    match = match_caffe_net(net, file)
    replace(match, unexpected=()).check()
    if match.unexpected:
        names = ", ".join(match.unexpected[:_MAX_NAMES]) + (", ..." if len(match.unexpected) > _MAX_NAMES else "")
        warn_user(
            f"{os.fspath(path)}: {len(match.unexpected)} arrays are of layers that the net does not have: {names}",
            ModelWarning,
        )
    return match


def match_weights(net: CaffeNet, path: str | os.PathLike[str]) -> CheckedWeights | None:
    """As `match_prediction_net`, for `prototorch.text.dialects.ForeignNet`."""
    match = match_prediction_net(net, path)
    return None if match is None else match.accept()
