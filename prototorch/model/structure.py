"""The structure of a model: its name, inputs, outputs and layers, and which of them are trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from prototorch.eager.layer_call import adopt_eager_weights
from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.subnet import find_outputs, subnet
from prototorch.graph.symbolic import SymbolicTensor, net_symbols
from prototorch.graph.trace import Trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.layers.base import Layer
from prototorch.layers.layer_output import set_layer_model
from prototorch.layers.weight_source import WeightSource, set_weight_source, weight_source
from prototorch.model.keras_hints import KERAS_MEMBERS
from prototorch.runtime.variables import Variables
from prototorch.schema.patterns import check_matches
from prototorch.train.config import Compile
from prototorch.train.trained_weights import with_trainable
from prototorch.train.trainer import Trainer

__all__ = ["ModelStructure", "layer_of"]


class ModelStructure:
    """The part of `prototorch.model.model.Model` that concerns its net."""

    net: Net
    _trainer: Trainer | None
    _weight_specs: dict[str, WeightSpec] | None
    compile_block: Compile | None
    _symbols_of_net: tuple[Net, dict[str, SymbolicTensor]] | None = None
    variables: Variables

    @property
    def trainer(self) -> Trainer:
        """Runs the steps; see `prototorch.model.model.Model.trainer`."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> NoReturn:
        """Raises AttributeError with what to use instead; a property's own, where it has raised one."""
        if hasattr(type(self), name):
            object.__getattribute__(self, name)
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        hint = KERAS_MEMBERS.get(name)
        names = [n for n in dir(type(self)) if not n.startswith("_")]
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name!r}{f': {hint}' if hint else f'.{did_you_mean(name, names)}'}"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Model cannot be pickled, because opening a pickle runs code; use model.save(path) and load_model(path)"
        )

    def __repr__(self) -> str:
        ends = f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}"
        return f"<Model {self.name!r}: {len(self.net.nodes)} layers, {ends}>"

    def _bind_layers(self) -> None:
        """Take the weights that layers of other models bring along, and enter these layers for models to come."""
        for node in self.net.nodes:
            own = WeightSource(self.variables, f"{node.weights_key}/")
            called = node.called_layer
            if called is not None:
                source = weight_source(called)
                if source is None:
                    set_weight_source(called, own)
                    adopt_eager_weights(called, own)
                else:
                    self.variables.share(own.prefix, *source)
            if weight_source(node.layer) is None:
                set_weight_source(node.layer, own)

    def _bind_inner_layers(self, net_trace: Trace) -> None:
        """The same for layers inside others (`TimeDistributed`), whose prefixes a trace tells."""
        for prefix, layer in net_trace.inner_layers.items():
            source = weight_source(layer)
            if source is None:
                set_weight_source(layer, WeightSource(self.variables, prefix))
            elif source.variables is not self.variables:
                self.variables.share(prefix, *source)
            elif source.prefix != prefix:
                raise UsageError(
                    f"one {type(layer).__name__} object is used as {source.prefix.rstrip('/')!r} and as "
                    f"{prefix.rstrip('/')!r}: layers inside others share no weights within one model; make two objects"
                )

    @property
    def name(self) -> str:
        """The net's name."""
        return self.net.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(node.name for node in self.net.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self.net.outputs

    @property
    def input(self) -> Any:
        """The input as a symbolic tensor, as in Keras (several: a list); see `submodel` for the short form."""
        values = [self._symbols()[name] for name in self.inputs]
        return values[0] if len(values) == 1 else values

    @property
    def output(self) -> Any:
        """The output as a symbolic tensor, as in Keras (several: a list)."""
        values = [self._symbols()[name] for name in self.outputs]
        return values[0] if len(values) == 1 else values

    def _symbols(self) -> dict[str, SymbolicTensor]:
        if self._symbols_of_net is None or self._symbols_of_net[0] is not self.net:
            self._symbols_of_net = self.net, net_symbols(self.net)
        return self._symbols_of_net[1]

    def symbols_of_layer(self, name: str) -> tuple[tuple[SymbolicTensor, ...], tuple[SymbolicTensor, ...]]:
        """The symbolic tensors that the layer of that name reads, and those that it gives."""
        values, node = self._symbols(), self.net.node(name)
        return tuple(values[b] for b in node.bottoms), tuple(values[t] for t in node.tops)

    def submodel(self, output: str | Sequence[str]) -> Any:
        """The model from the inputs to these layers: names, patterns (``"conv*"``), or blocks (their last layer).

        It shares the weights (training one changes the other) and has the same ``preprocess``; it is not compiled. Its
        outputs have the names of the layers. Raises UsageError for what matches no layer.
        """
        patterns: list[Any] = list(output) if isinstance(output, list | tuple) else [output]
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise UsageError(f"submodel: expected the name of a layer, or several, not {output!r:.80}")
        return self._from_net(subnet(self.net, find_outputs(self.net, patterns)))

    def _from_net(self, net: Net) -> Any:
        """A model of a part of this one's net."""
        raise NotImplementedError

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in order, each with its name in this net."""
        return tuple(self._layer_of(node) for node in self.net.nodes)

    def _layer_of(self, node: LayerNode) -> Layer:
        layer = layer_of(node)
        set_layer_model(layer, self, node.name)
        return layer

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """A layer by its name or its index. Raises UsageError where there is none."""
        if (name is None) == (index is None):
            raise UsageError("get_layer: expected either a name or an index")
        names = [node.name for node in self.net.nodes]
        if index is not None:
            if not -len(names) <= index < len(names):
                raise UsageError(f"there is no layer {index}; the model has {len(names)} layers")
            return self._layer_of(self.net.nodes[index])
        if name not in names:
            raise UsageError(f"the model has no layer {name!r}.{did_you_mean(str(name), names)}")
        return self._layer_of(self.net.node(str(name)))

    @property
    def trainable(self) -> bool:
        """Whether any layer is trainable; setting it is `set_trainable` for all layers."""
        return any(node.layer.trainable for node in self.net.nodes)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.set_trainable(value)

    def set_trainable(self, trainable: bool, *names: str) -> None:
        """Set whether the layers of these names, or patterns (``"stage1/**"``), are trained; without names all of them.

        Layers that share their weights are changed together. Weights stay; a compiled model is compiled again, which
        resets the optimizer's state. Raises UsageError for what matches no layer, and in the middle of a fit.
        """
        if self._trainer is not None:
            self._trainer.ensure_idle("set_trainable")
        patterns = names or ("**",)
        self._check_layers(patterns)
        self._take_over_unfreezings()
        self._replace_net(with_trainable(self.net, trainable, patterns))
        block = self.compile_block
        if trainable and block is not None and block.freeze:
            self.compile_block = block.replace(freeze=(*block.freeze, *(f"!{pattern}" for pattern in patterns)))
        self._weight_specs, self._trainer = None, None

    def freeze(self, *patterns: str) -> None:
        """Do not train the layers of these names or patterns; their normalization is in inference mode, as in Keras.

        As ``set_trainable(False, ...)``, which resets the optimizer's state; ``compile(freeze=...)`` says it of one
        compilation, and of single weights as well. Raises UsageError for what matches no layer, and in a fit.
        """
        self.set_trainable(False, *_check_patterns(patterns, "freeze"))

    def unfreeze(self, *patterns: str) -> None:
        """Train the layers of these names or patterns from the next step on, in the middle of a fit as well (from a
        callback; `callbacks.Unfreeze` does it at an epoch).

        The state of the optimizer stays; weights that are trained anew begin with fresh slots. The layers stay trained
        when the model is compiled again. Raises UsageError for what matches no layer (nor weight, if it is compiled).
        """
        _check_patterns(patterns, "unfreeze")
        if self.compile_block is None:
            self.set_trainable(True, *patterns)
            return
        for pattern in patterns:
            self.trainer.plan_cache.newly_trained(pattern)
        self.trainer.unfreeze(patterns)

    def _check_layers(self, patterns: Sequence[str]) -> None:
        names = [name for node in self.net.nodes for name in {node.name, node.weights_key}]
        for pattern in patterns:
            try:
                check_matches(pattern, names, "layer")
            except UsageError as error:
                raise UsageError(f"the model has no layer {pattern!r}: {error}") from None

    def _take_over_unfreezings(self) -> None:
        """Before a new compilation: what was unfrozen since the last one stays trained."""
        unfrozen = () if self._trainer is None else [u.pattern for u in self._trainer.unfreezings]
        if unfrozen:
            self._replace_net(with_trainable(self.net, True, unfrozen))
            block = self.compile_block
            if block is not None and block.freeze:
                self.compile_block = block.replace(freeze=(*block.freeze, *(f"!{pattern}" for pattern in unfrozen)))

    def _replace_net(self, net: Net) -> None:
        self.net = net
        for node in net.nodes:
            set_weight_source(node.layer, WeightSource(self.variables, f"{node.weights_key}/"))


def _check_patterns(patterns: tuple[str, ...], method: str) -> tuple[str, ...]:
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f'{method}: expected names or patterns of layers, e.g. {method}("stage1/**", "conv*")')
    return patterns


def layer_of(node: LayerNode) -> Layer:
    """The layer of a node, with the node's name."""
    return node.layer if node.layer.name == node.name else node.layer.replace(name=node.name)
