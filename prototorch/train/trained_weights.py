"""Which weights a training step changes, and how fast: layers frozen by patterns, and factors on the learning rate.

A frozen weight is no target of the backward pass, so that neither its gradient nor what its gradient needs is computed
or stored. A frozen normalization layer uses its moving statistics and does not update them, as in Keras.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import Trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.schema.block_source import find_span
from prototorch.schema.patterns import check_patterns, includes
from prototorch.text.diagnostics import located
from prototorch.train.config import Compile, DecayFactor, LearningRateFactor

__all__ = ["TrainedWeights", "Unfreezing", "layers_by_weight", "with_trainable"]


class Unfreezing(NamedTuple):
    """Layers or weights that are trained although they were frozen, from a step on (counted over all fits)."""

    pattern: str
    step: int


class TrainedWeights:
    """The selection of a compiled model: ``freeze``, ``lr_mult``, ``decay_mult``, and what has been unfrozen since.

    Attributes:
        net: the net, in which layers of ``trainable: false`` that have been unfrozen are trainable.
        frozen_layers: the names of the frozen layers, whose normalization is in inference mode.
    """

    def __init__(self, net: Net, config: Compile | None, unfreezings: Sequence[Unfreezing] = ()):
        self._declared_net, self._config = net, config
        self._freeze = () if config is None else config.freeze
        self.unfreezings = tuple(unfreezings)
        patterns = [u.pattern for u in self.unfreezings]
        self.net = with_trainable(net, True, patterns) if patterns else net
        self._static = {node.name for node in net.nodes if not node.layer.trainable}
        keys = {n.weights_key for n in net.nodes if self._is_frozen(patterns, n.name, n.weights_key, n.name)}
        self.frozen_layers = frozenset(node.name for node in net.nodes if node.weights_key in keys)

    def check(self, weights: Iterable[str] = ()) -> bool:
        """Whether each pattern matches a layer, or one of these weights. Without weights False where one matches no
        layer; with them that raises UsageError."""
        config, weights = self._config, list(weights)
        names = [name for node in self._declared_net.nodes for name in {node.name, node.weights_key}]
        if config is None:
            return True
        is_layer = all(includes((p.removeprefix("!"),), *names) for p in _all_patterns(config))
        if is_layer and not (config.freeze and config.freeze[0].startswith("!")):
            return True
        if not weights:
            return False
        with located(find_span(config, "freeze")):
            check_patterns(config.freeze, [*names, *weights], "layer or weight")
        for rule in _rules(config):
            with located(find_span(rule, "layers")):
                check_patterns(rule.layers, [*names, *weights], "layer or weight")
        return True

    def select(self, net_trace: Trace) -> dict[str, WeightSpec]:
        """The weights of a traced net, with what is trained and the factors on its learning rate and decay."""
        config = self._config
        if config is None or not (config.freeze or config.lr_mult or config.decay_mult or self.unfreezings):
            return net_trace.weights
        patterns, users = [u.pattern for u in self.unfreezings], layers_by_weight(net_trace)
        selected = {}
        for name, weight in net_trace.weights.items():
            is_frozen = any(self._is_frozen(patterns, user, name, user) for user in users[name])
            selected[name] = replace(
                weight,
                trainable=weight.trainable and not is_frozen,
                lr_mult=weight.lr_mult * _factor(config.lr_mult, name, users[name]),
                decay_mult=weight.decay_mult * _factor(config.decay_mult, name, users[name]),
            )
        return selected

    def first_step(self, weight: str, net_trace: Trace) -> int:
        """The number of steps before the weight was trained: its optimizer's slots begin there."""
        users = layers_by_weight(net_trace)[weight] if self.unfreezings else []
        for count in range(len(self.unfreezings) + 1):
            patterns = [u.pattern for u in self.unfreezings[:count]]
            if not any(self._is_frozen(patterns, user, weight, user) for user in users):
                return self.unfreezings[count - 1].step if count else 0
        return 0

    def _is_frozen(self, unfrozen: Sequence[str], layer: str, *names: str) -> bool:
        return (layer in self._static or includes(self._freeze, *names)) and not includes(unfrozen, *names)


def with_trainable(net: Net, trainable: bool, patterns: Sequence[str]) -> Net:
    """The net with ``trainable`` of the layers that match set, and of all that share their weights."""
    keys = {node.weights_key for node in net.nodes if includes(patterns, node.name, node.weights_key)}

    def changed(node: LayerNode) -> LayerNode:
        if node.weights_key not in keys or node.layer.trainable == trainable:
            return node
        return replace(node, layer=node.layer.replace(trainable=trainable))

    return replace(net, nodes=tuple(map(changed, net.nodes)))


def layers_by_weight(net_trace: Trace) -> dict[str, list[str]]:
    """The names of the layers that use each weight."""
    users = defaultdict[str, list[str]](list)
    for layers in net_trace.used_weights.values():
        for layer, weights in layers.items():
            for weight in weights:
                users[weight].append(layer)
    return users


def _factor(rules: Sequence[LearningRateFactor | DecayFactor], weight: str, layers: Sequence[str]) -> float:
    """The factor of the last rule that matches a weight or one of the layers that use it."""
    return next((rule.factor for rule in reversed(rules) if includes(rule.layers, weight, *layers)), 1.0)


def _all_patterns(config: Compile) -> list[str]:
    return [*config.freeze, *(pattern for rule in _rules(config) for pattern in rule.layers)]


def _rules(config: Compile) -> list[LearningRateFactor | DecayFactor]:
    return [*config.lr_mult, *config.decay_mult]
