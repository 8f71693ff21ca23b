"""The weights of a model, as functions of its net and its variables: created, written, checked, read from files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath

import numpy as np

from prototorch.engine.storage import checkpoint
from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.runtime.variables import NamedWeights, Variables, initial_value
from prototorch.spec import Spec
from prototorch.train.state_check import describe_states, non_finite_states

__all__ = [
    "create_weights",
    "input_specs",
    "warn_of_states",
    "weight_specs",
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
    sizes = {node.name: tuple((shapes or {}).get(node.name, node.shape)) for node in net.inputs}
    unknown = [name for name, shape in sizes.items() if None in shape]
    if unknown:
        names = " and ".join(map(repr, unknown))
        arguments = ", ".join(
            f"{name}=[{', '.join('...' if n is None else str(n) for n in sizes[name])}]" for name in unknown
        )
        verb = "inputs {} have unknown sizes" if len(unknown) > 1 else "input {} has an unknown size"
        raise UsageError(f"the {verb.format(names)}; call build({arguments}) first")
    return {
        node.name: Spec((batch, *(n for n in sizes[node.name] if n is not None)), node.dtype) for node in net.inputs
    }


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
    report = checkpoint.compare_weights(current, {name: np.asarray(array) for name, array in weights.items()})
    if report.missing or report.unexpected or report.mismatched:
        missing, unexpected = report.missing, report.unexpected
        hint = did_you_mean(missing[0], unexpected) if missing and unexpected else ""
        raise WeightsError(f"the weights given do not fit the model:\n{report.format('among those given')}{hint}")
    for name in report.loaded:
        current[name][...] = weights[name]


def weight_specs(net: Net, variables: Variables) -> dict[str, WeightSpec]:
    """The specs of a net's weights by name; where a file has determined sizes (`weights_of_file`), its arrays'."""
    specs = dict(trace_net(net, 1).weights)
    for name, array in (weights_of_file(net, variables) or {}).items():
        specs[name] = replace(specs[name], spec=replace(specs[name].spec, shape=tuple(array.shape)))
    return specs


def warn_of_states(variables: Variables, path: str | PathLike[str]) -> None:
    """Warn of values that are not finite and go into a file."""
    names = non_finite_states(variables)
    if names:
        warnings.warn(
            f"{fspath(path)} gets values that are not finite: {describe_states(variables, names)}",
            RuntimeWarning,
            stacklevel=4,
        )
