"""Models of texts and of Keras' face as children of modules: `pt.load_model("lenet")` in `self.backbone`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from prototorch.eager.layer_call import bound_tensor, layer_state
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.graph.trace import trace
from prototorch.layers.weight_source import weight_source
from prototorch.model.model import Model
from prototorch.nn.declared_child import DeclaredChild, child_of
from prototorch.nn.module_tree import CHILD_WRAPPERS
from prototorch.train.trained_weights import with_trainable

__all__ = ["ModelChild", "model_module"]

#: where a weight of a model is: the weights of a layer's eager calls, and its name among them
WeightPlace = tuple[dict[str, Any], str]


class ModelChild(DeclaredChild):
    """The module of a `pt.Model`. Its parameters and buffers are the model's weights, in the model's memory, named by
    layer and weight (``conv1.kernel``); what a step of an optimizer changes, `predict` and `save` of the model see.
    Other attributes and methods are the model's.

    Where the net has an input of unknown size, the weights are there from the first call on. They are float32 on the
    CPU: `to` another element type or device is refused.

    model: the model itself.
    """

    def __init__(self, model: Model):
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "statistics_of_specs", (None, frozenset()))

    def forward(self, *inputs: Any, training: bool | None = None) -> Any:
        """The model's outputs, in the module's phase unless ``training`` is given."""
        return self.model(*inputs, training=self.training if training is None else training)

    # ------------------------------------------------------------------ weights

    def weight_places(self) -> dict[str, WeightPlace]:
        """Where each weight is, by its name in the state."""
        places: dict[str, WeightPlace] = {}
        if not getattr(self.model, "built", True):
            return places
        specs = self.model.weight_specs
        for node in self.model.net.nodes:
            source = weight_source(node.layer)
            weights = layer_state(node.layer).weights
            prefix = f"{node.weights_key}/"
            for full in [name for name in specs if name.startswith(prefix)]:
                name = full[len(prefix) :]
                weight = weights.get(name)
                if source is not None and (weight is None or "model_trains" in weight.__dict__):
                    is_float = specs[full].spec.is_float
                    weights[name] = bound_tensor(source, name, specs[full].trainable and is_float)
                places.setdefault(full.replace("/", "."), (weights, name))
        return places

    def _statistics(self) -> frozenset[str]:
        """The names of the weights that no gradient trains, such as running means, also of layers that are frozen."""
        specs = self.model.weight_specs
        specs_before, names = self.statistics_of_specs
        if specs_before is not specs:
            traced = specs
            if specs and not any(self.model.net.unknown_sizes()):
                net = with_trainable(self.model.net, True, ("**",))
                traced = trace(net, self.model.input_specs(1), False).weights
            names = frozenset(name.replace("/", ".") for name, spec in traced.items() if not spec.trainable)
            object.__setattr__(self, "statistics_of_specs", (specs, names))
        return names

    def _weights(self, statistics: bool) -> dict[str, Any]:
        places = self.weight_places()
        names = self._statistics() if places else frozenset()
        return {name: weights[key] for name, (weights, key) in places.items() if (name in names) == statistics}

    # ------------------------------------------------------------------ state

    def _knows(self, first: str, rest: str) -> bool:
        places = self.weight_places()
        return f"{first}.{rest}" in places or not places  # a model without weights yet takes all

    def _has_weights(self) -> bool:
        if self.weight_places():
            return True
        if not getattr(self.model, "built", True):
            raise UsageError("a Sequential without an input has no weights yet: call it, or give it its Input first")
        return False

    def _preset(self, name: str, value: Tensor) -> None:
        self.model.variables.create(name, value.numpy().copy())

    # ------------------------------------------------------------------ the rest of a module

    def _own_losses(self) -> list[Tensor]:
        nodes = self.model.net.nodes if getattr(self.model, "built", True) else ()
        return [loss for node in nodes for loss in layer_state(node.layer).losses]

    def _apply(self, fn: Any, recurse: bool = True) -> ModelChild:
        for name, (weights, key) in self.weight_places().items():
            weight = weights[key]
            changed = fn(weight.detach())
            if changed.dtype != weight.dtype or changed.device != weight.device:
                raise UsageError(
                    f"{name}: the weights of a declared model are {weight.dtype} on the {weight.device}, and cannot "
                    f"become {changed.dtype} on {changed.device}; model.compile(device=..., precision=...) says where "
                    "and how it is trained"
                )
            weight.data = changed
        return self

    def register_parameter(self, name: str, param: Any) -> None:
        raise UsageError(f"{name!r}: the parameters of a declared model are those of its layers")

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        raise UsageError(f"{name!r}: the buffers of a declared model are those of its layers")

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "training" and isinstance(getattr(type(self.model), name, None), property):
            setattr(self.model, name, value)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        model = self.__dict__.get("model")
        if model is not None and not name.startswith("_"):
            return getattr(model, name)
        return super().__getattr__(name)

    def __reduce__(self) -> Any:
        return _rebuild, (self.model, self.training)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        memo[id(self)] = copy = _rebuild(deepcopy(self.model, memo), self.training)
        return copy

    def __repr__(self) -> str:
        return repr(self.model)


def model_module(model: Model) -> ModelChild:
    """The module of a model, the same one each time."""
    return child_of(ModelChild, "model", model)


def _rebuild(model: Model, phase: bool) -> ModelChild:
    module = model_module(model)
    module.training = phase
    return module


CHILD_WRAPPERS[Model] = model_module
