"""The weights of a Caffe file for the net that predicts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.interop.net_weights import match_caffe_net
from prototorch.errors import ModelWarning, warn_user
from prototorch.model.loading.assign.checked import assign_match
from prototorch.model.loading.layout.laid_out import check_match
from prototorch.model.loading.names.named_arrays import Match
from prototorch.model.loading.read.read_file import read_weights

__all__ = ["PredictionWeights", "match_prediction_net", "match_weights"]

_MAX_NAMES = 10  # names in a message


def match_prediction_net(net: CaffeNet, path: str | os.PathLike[str]) -> Match | None:
    """Which arrays of a Caffe file are which weights of a net, by the names of its layers; None for another file.

    Warns of arrays of layers that the net does not have (those of losses in training). Raises WeightsError, with the
    whole report, for weights that are missing or have other shapes, ModelFileError for a damaged file.
    """
    file = read_weights(path)
    if file.system != "caffe":
        return None
    match = match_caffe_net(net, file)
    check_match(replace(match, unexpected=()))
    if match.unexpected:
        names = ", ".join(match.unexpected[:_MAX_NAMES]) + (", ..." if len(match.unexpected) > _MAX_NAMES else "")
        warn_user(
            f"{os.fspath(path)}: {len(match.unexpected)} arrays are of layers that the net does not have: {names}",
            ModelWarning,
        )
    return match


class PredictionWeights(NamedTuple):
    """A Caffe file matched with the net that predicts; nothing is changed yet."""

    match: Match

    @property
    def path(self) -> str:
        """The path of the file."""
        return os.fspath(self.match.file.path)

    def assign(self, weights: Mapping[str, Any]) -> None:
        """Write the file's arrays into the weights by name."""
        assign_match(self.match, weights)


def match_weights(net: CaffeNet, path: str | os.PathLike[str]) -> PredictionWeights | None:
    """As `match_prediction_net`, for `prototorch.text.dialects.ForeignNet`."""
    match = match_prediction_net(net, path)
    return None if match is None else PredictionWeights(match)
