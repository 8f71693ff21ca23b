"""The weights of a model, as functions of its net and its variables: created, written, checked, read from files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import NamedTuple

import numpy as np

from prototorch.engine.storage import checkpoint
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import UsageError, WeightsError
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.interop.matching import match_weights
from prototorch.interop.matching.assign import assign_match
from prototorch.interop.matching.match import Match
from prototorch.interop.matching.report import check_match, load_report
from prototorch.interop.weight_sets.assign_to_model import assign_set
from prototorch.interop.weight_sets.opening import OpenedWeights, find_owner, open_weights
from prototorch.model.weights_block import Weights
from prototorch.runtime.variables import NamedWeights, Variables, initial_value
from prototorch.spec import Spec
from prototorch.train.state_check import describe_states, non_finite_states, warn_of_loaded

__all__ = [
    "MatchedFile",
    "assign_file",
    "create_weights",
    "input_specs",
    "load_saved_weights",
    "match_file",
    "warn_of_states",
    "weights_of_file",
    "write_weights",
]


def create_weights(weights: Iterable[WeightSpec], variables: Variables, seed: int) -> None:
    """Create the weights that do not exist yet. Raises WeightsError where existing ones have other specs."""
    for weight in weights:
        if weight.name not in variables:
            variables.create(weight.name, initial_value(weight, seed), own=True)
        variables.check_spec(weight.name, weight.spec)


def input_specs(net: Net, batch: int, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, Spec]:
    """The specs of a net's inputs for a batch size. shapes: of inputs of unknown size. Raises UsageError."""
    specs = {}
    for node in net.inputs:
        shape = tuple((shapes or {}).get(node.name, node.shape))
        if None in shape:
            raise UsageError(f"the input {node.name!r} has an unknown size; call build({node.name}=[...]) first")
        specs[node.name] = Spec((batch, *(n for n in shape if n is not None)), node.dtype)
    return specs


def weights_of_file(net: Net, variables: Variables) -> NamedWeights | None:
    """The weights that a file has given a net whose inputs have unknown sizes: only their order must be determined.
    None for any other net."""
    weights = variables.weights()
    if not weights or not any(net.unknown_sizes()):
        return None
    return NamedWeights({name: weights[name] for name in trace_net(net, 1).weights if name in weights})


def write_weights(current: NamedWeights, weights: Mapping[str, np.ndarray] | Sequence[np.ndarray]) -> None:
    """Write all weights, by name or in order. Raises WeightsError where names or shapes do not fit."""
    if not isinstance(weights, Mapping):
        if len(weights) != len(current):
            raise UsageError(f"the model has {len(current)} weights, got {len(weights)}")
        weights = dict(zip(current, weights, strict=True))
    checkpoint.assign_weights(current, weights, source="the weights given", strict=True)


def warn_of_states(variables: Variables, path: str | PathLike[str]) -> None:
    """Warn of values that are not finite and go into a file."""
    names = non_finite_states(variables)
    if names:
        warnings.warn(
            f"{fspath(path)} gets values that are not finite: {describe_states(variables, names)}",
            RuntimeWarning, stacklevel=4,
        )  # fmt: skip


def load_saved_weights(
    block: Weights, variables: Variables, weights: NamedWeights, by_name: bool, skip_mismatch: bool
) -> LoadReport:
    """Read the weights of a file of `Model.save`. Raises WeightsError where names or shapes do not fit."""
    report = checkpoint.load_weights_into(block.source, weights, by_name=by_name, skip_mismatch=skip_mismatch)
    warn_of_loaded(variables, block.source, slots=False)
    return report


class MatchedFile(NamedTuple):
    """A file of weights whose names and shapes have been matched with a net's; nothing is changed yet."""

    source: OpenedWeights
    match: Match
    block: Weights

    @property
    def changes_preprocessing(self) -> bool:
        """Whether the file is that of a weight set, whose preprocessing and class names the model takes over."""
        return self.source.declared is not None

    @property
    def origin(self) -> dict[str, str]:
        """The name and the licence of the weight set, for exports; empty for a file that belongs to none."""
        declared = self.source.declared
        return {} if declared is None else {"weights": declared.weights.name, "license": declared.weights.license}


def match_file(block: Weights, net: Net, specs: Mapping[str, WeightSpec] | None, *, by_name: bool, skip_mismatch: bool,
               system: str | None, by_order: bool, allow_download: bool | None,
               data_format: str | None) -> MatchedFile:  # fmt: skip
    """The file of a block, matched with the weights of a net. Arguments and errors: see `Model.load_weights`."""
    source = open_weights(block, net, allow_download=allow_download, check=not (by_name or skip_mismatch))
    match = match_weights(source.file, specs or trace_net(net, 1).weights, net, source.rules,
                          system=system or source.system, by_order=by_order, except_=block.except_,
                          data_format=data_format or source.data_format)  # fmt: skip
    try:
        check_match(match, by_name=by_name, skip_mismatch=skip_mismatch)
    except WeightsError as error:
        raise WeightsError(f"{error}{find_owner(source.file)}") from None
    return MatchedFile(source, match, block)


def assign_file(matched: MatchedFile, net: Net, weights: NamedWeights) -> tuple[Net, str, LoadReport]:
    """Write the weights of a file; gives the net with what it takes over from a weight set, the lines that say so, and
    the report."""
    declared = matched.source.declared
    net, notes = (net, "") if declared is None else assign_set(net, declared, matched.block)
    assign_match(matched.match, weights)
    return net, notes, load_report(matched.match)
