"""The arrays that a static graph keeps: its variables, the weights of its layers, the state of its optimizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prototorch.eager.layer_call import layer_state
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.symbolic import LayerCall, LayerNaming, weights_owner
from prototorch.graph.symbolic_functions import AssignCall, Call, MinimizeCall, SymbolicCall, VariableCall
from prototorch.layers.base import Layer
from prototorch.layers.weight_source import weight_source
from prototorch.static.evaluation import existing_tensors, tensors_in
from prototorch.static.kept_array import KeptArray

__all__ = ["GraphState", "GraphVariables", "LayerWeight"]


class LayerWeight(KeptArray):
    """A weight of a layer in a static graph. name: the layer's name and its own, ``dense_1/kernel``."""

    def __init__(self, name: str, tensor: Tensor):
        self.name, self.tensor = name, tensor

    @property
    def trainable(self) -> bool:
        """Whether `minimize` changes it."""
        return self.tensor.requires_grad

    def __repr__(self) -> str:
        return f"<weight {self.name!r} {self.tensor.spec}>"


class GraphVariables(list[Any]):
    """The variables of a graph and the weights of its layers, in order; also by name:

    graph.variables["dense_1/kernel"].value          # a copy of the array
    graph.variables["dense_1/kernel"] = array        # its new elements
    """

    def __getitem__(self, key: Any) -> Any:
        return self._find(key) if isinstance(key, str) else super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            raise UsageError("graph.variables: one is set by its name or its place, graph.variables['w'] = array")
        self[key].value = value

    def names(self) -> list[str]:
        """Their names, in order."""
        return [v.name for v in self]

    def _find(self, name: str) -> Any:
        matches = [v for v in self if v.name == name]
        if len(matches) != 1:
            what = f"{len(matches)} variables are named" if matches else "there is no variable"
            names = self.names()
            hint = did_you_mean(name, names) or (f" There are {', '.join(names)}." if names else "")
            raise UsageError(
                f"graph.variables: {what} {name!r}.{hint} Weights of layers whose inputs have unknown sizes are there "
                "from the graph's first call on"
            )
        return matches[0]


class GraphState:
    """What the calls of a graph keep between its runs."""

    def __init__(self, calls: Iterable[Call]):
        self._calls = list(calls)
        self._minimizers = [c for c in self._calls if isinstance(c, MinimizeCall)]
        variables = [c.variable for c in self._calls if isinstance(c, VariableCall | AssignCall)]
        variables += [v for c in self._minimizers for v in c.variables or ()]
        #: that it reads or changes
        self.variables: list[Any] = list({v.number: v for v in variables}.values())
        #: by their names
        self.layers: dict[str, Layer] = dict(_named_layers(self._calls))
        #: tensors among the arguments of functions, with what takes them
        self.constants: list[tuple[str, Tensor]] = [
            (f"an argument of {c.name}", t)
            for c in self._calls
            if isinstance(c, SymbolicCall)
            for t in tensors_in([c.args, c.options])
        ]

    def weights(self) -> dict[str, Tensor]:
        """The weights of layers that exist, by name."""
        return {
            f"{name}/{key}": weight
            for name, layer in self.layers.items()
            for key, weight in layer_state(layer).weights.items()
        }

    def all_variables(self) -> GraphVariables:
        """Variables and weights of layers."""
        return GraphVariables([*self.variables, *(LayerWeight(name, t) for name, t in self.weights().items())])

    def names(self) -> dict[int, str]:
        """The names in quotes of variables, weights and optimizers' slots, by the id of the tensor."""
        names = {id(t): repr(n) for n, t in self.weights().items()}
        names.update((id(v.tensor), repr(v.name)) for v in self.variables)
        for call in self._minimizers:
            weights = existing_tensors(call)
            for name, slots in call.slots.items():
                owner = names.get(id(weights.get(name)), repr(name))
                names.update((id(tensor), f"{slot!r} of {owner}") for slot, tensor in slots.items())
        return names

    def tensors(self) -> list[Tensor]:
        """All tensors that runs may change."""
        slots = [t for c in self._minimizers for own in c.slots.values() for t in own.values()]
        return [*(v.tensor for v in self.variables), *self.weights().values(), *slots]

    def titled_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors with what they are, for messages."""
        names, variables = self.names(), {id(v.tensor) for v in self.variables}
        for tensor in self.tensors():
            yield f"{'the variable ' if id(tensor) in variables else ''}{names[id(tensor)]}", tensor
        yield from self.constants

    def layer_of_model(self) -> str | None:
        """The name of a layer whose weights are those of a model, in the host's memory; None where there is none."""
        return next((name for name, layer in self.layers.items() if weight_source(layer) is not None), None)


def _named_layers(calls: Iterable[Call]) -> Iterator[tuple[str, Layer]]:
    """Each layer that is called, once, with its name or one from its type."""
    layers = {weights_owner(c.layer): c.layer for c in reversed(list(calls)) if isinstance(c, LayerCall)}
    names = LayerNaming()
    names.reserve(layer.name for layer in layers.values())
    for layer in reversed(layers.values()):
        yield names.layer(layer, layer.name in names.used_names, weight_source(layer) is not None), layer
