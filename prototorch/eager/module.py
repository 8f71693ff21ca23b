"""Modules: containers of layers, tensors and other modules, with a forward in Python, as in PyTorch.

class Classifier(pt.Module):
    def __init__(self):
        self.hidden = pt.layers.Dense(64, activation="relu")
        self.blocks = [pt.layers.Dense(64) for _ in range(2)]
        self.scale = pt.tensor(1.0, requires_grad=True)

    def forward(self, x):
        x = self.hidden(x)
        for block in self.blocks:
            x = x + block(x)
        return x * self.scale
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from prototorch.eager.layer_call import layer_state, training
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.layers.base import Layer


class Module:
    """A container whose attributes (also in lists, tuples and dicts) are layers, modules and tensors with a gradient.

    Weights are named by their path: ``hidden/kernel``, ``blocks/0/bias``, ``scale``. Those of a layer are created when
    it is first called. A new module is in the training phase, as in PyTorch; `eval` ends it.
    """

    training: bool = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The computation of the module; subclasses define it."""
        raise TypeError(f"{type(self).__name__} does not define forward")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Run `forward` in the module's phase."""
        with training(self.training):
            return self.forward(*inputs, **options)

    def train(self, mode: bool = True) -> Self:
        """Set the phase of this module and of all modules in it; returns the module."""
        for _, part in self.named_parts():
            if isinstance(part, Module):
                part.training = mode
        self.training = mode
        return self

    def eval(self) -> Self:
        """The inference phase: `train(False)`."""
        return self.train(False)

    def named_parts(self) -> Iterator[tuple[str, Any]]:
        """All modules, layers and tensors in it, each once, with their names."""
        yield from _named_members("", vars(self), {id(self)})

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """All weights by name, also those without a gradient, such as running statistics."""
        for name, part in self.named_parts():
            if isinstance(part, Tensor):
                yield name, part
            elif isinstance(part, Layer):
                yield from ((f"{name}/{key}", weight) for key, weight in layer_state(part).weights.items())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The weights with a gradient, by name."""
        return ((name, weight) for name, weight in self.named_weights() if weight.requires_grad)

    def parameters(self) -> list[Tensor]:
        """The weights with a gradient."""
        return [weight for _, weight in self.named_parameters()]

    def losses(self) -> list[Tensor]:
        """The extra losses of the layers' last calls (`ActivityRegularization`)."""
        return [loss for _, part in self.named_parts() if isinstance(part, Layer) for loss in layer_state(part).losses]

    def zero_grad(self) -> None:
        """Set the gradients to None."""
        for weight in self.parameters():
            weight.grad = None

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all weights by name."""
        return {name: np.array(weight.numpy()) for name, weight in self.named_weights()}

    def load_state_dict(self, state: Mapping[str, np.ndarray], strict: bool = True) -> None:
        """Load weights by name; those of layers that have not been called yet are loaded at their first call.

        Raises WeightsError where a shape differs, or (``strict``) where a weight is missing or unknown. Nothing is
        changed then.
        """
        weights = dict(self.named_weights())
        layers = {name: part for name, part in self.named_parts() if isinstance(part, Layer)}
        pending: list[tuple[Layer, str, np.ndarray]] = []
        errors = [f"{name} is missing" for name in weights if name not in state] if strict else []
        for name, value in state.items():
            if name in weights:
                if tuple(np.shape(value)) != weights[name].shape:
                    errors.append(f"{name} has shape {list(np.shape(value))}, {list(weights[name].shape)} is expected")
                continue
            owner = next((n for n in layers if name.startswith(n + "/") and not layer_state(layers[n]).weights), None)
            if owner is not None:
                pending.append((layers[owner], name[len(owner) + 1 :], np.array(value)))
            elif strict:
                errors.append(f"{name} is no weight of this module.{did_you_mean(name, weights)}")
        if errors:
            raise WeightsError(f"{type(self).__name__}: " + "; ".join(errors))
        for name in weights.keys() & state.keys():
            weights[name].array[...] = state[name]
        for layer, key, value in pending:
            layer_state(layer).preset_weights[key] = value

    def __repr__(self) -> str:
        lines = [f"  {name}: {'Module' if isinstance(p, Module) else p!r}" for name, p in self.named_parts()
                 if not isinstance(p, Tensor)]  # fmt: skip
        return "\n".join([f"{type(self).__name__}(", *lines, ")"]) if lines else f"{type(self).__name__}()"


def _named_members(prefix: str, items: Mapping[str, Any], visited: set[int]) -> Iterator[tuple[str, Any]]:
    for key, value in items.items():
        name = f"{prefix}{key}"
        if isinstance(value, list | tuple):
            yield from _named_members(f"{name}/", {str(i): v for i, v in enumerate(value)}, visited)
        elif isinstance(value, dict):
            if any("/" in str(k) for k in value):
                raise UsageError(f"the keys of {name!r} become parts of names: they must not hold a '/'")
            yield from _named_members(f"{name}/", {str(k): v for k, v in value.items()}, visited)
        elif isinstance(value, Module | Layer) or (isinstance(value, Tensor) and value.requires_grad):
            if id(value) in visited:
                continue
            visited.add(id(value))
            yield name, value
            if isinstance(value, Module):
                yield from _named_members(f"{name}/", vars(value), visited)
