"""What a layer is in PyTorch: its modules, and what it computes with them.

One entry a layer (or family) is used twice: `torch_module` builds the modules and computes, `codegen.module_source`
writes both down as a Python file. So an entry names a module by its text and its arguments, and computes by the
functions that it is given. A layer with an ``activation`` field gets the activation behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prototorch.interop.layouts import NotExpressibleError, WeightLayout
from prototorch.interop.torch.layouts import LAYOUTS
from prototorch.layers.base import Layer

__all__ = ["ModuleCall", "TorchLayer", "TorchLayerExport", "find_torch_layer", "has_entry", "in_torch", "single_module"]


@dataclass(frozen=True)
class ModuleCall:
    """A module of `torch.nn` ("Conv2d") with its arguments."""

    kind: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def module_call(kind: str, *arguments: Any, **options: Any) -> ModuleCall:
    """``nn.KIND(*arguments, **options)``."""
    return ModuleCall(kind, arguments, options)


@dataclass(frozen=True)
class TorchLayerExport:
    """A layer where it stands in a net: its weights' shapes by their names in the layer, and the shapes of its inputs,
    the batch dimension included, whose size is not to be used."""

    layer: Any
    weight_shapes: Mapping[str, tuple[int, ...]]
    shapes: tuple[tuple[Any, ...], ...]

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the first input."""
        return self.shapes[0]

    @property
    def rank(self) -> int:
        """The number of spatial dimensions: those after the batch and the channels."""
        return len(self.shape) - 2

    def inner(self, name: str, layer: Layer, shape: tuple[Any, ...] | None = None) -> TorchLayerExport:
        """A layer inside this one, whose weights have ``name/`` in front."""
        own = {n.removeprefix(f"{name}/"): s for n, s in self.weight_shapes.items() if n.startswith(f"{name}/")}
        return TorchLayerExport(layer, own, (shape or self.shape,))


@dataclass(frozen=True)
class TorchLayer:
    """A layer in PyTorch.

    compute: ``(t, m, *inputs) -> outputs``. ``t.torch`` and ``t.F`` are PyTorch's modules; ``t.let(value, name)`` is
    the value, under a name where it is written down, for one that is used several times; ``t.unpack(value, count)`` are
    the elements of a tuple; ``t.in_training(value, otherwise)`` chooses by the phase. ``m(name)`` is a module.

    modules: by their names below the layer; "" is the layer's own, below which the others are. constants: tensors that
    are no weights, attributes of ``m("")``. layouts: where the weights are below it; those of files by default.
    """

    compute: Callable[..., Any]
    modules: Mapping[str, ModuleCall] = field(default_factory=dict)
    layouts: Sequence[WeightLayout] = ()
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)


Entry = Callable[[TorchLayerExport], TorchLayer]
_ENTRIES: dict[type[Layer], Entry] = {}


def in_torch(*layers: type[Layer]) -> Callable[[Entry], Entry]:
    """Register what these layers are. An entry raises NotExpressibleError for fields that PyTorch does not have."""

    def register(function: Entry) -> Entry:
        for layer in layers:
            if layer in _ENTRIES:
                raise ValueError(f"{layer.__name__} has an entry already")
            _ENTRIES[layer] = function
        return function

    return register


def has_entry(layer: type[Layer]) -> bool:
    """Whether a layer class is in the table."""
    return layer in _ENTRIES


def single_module(call: ModuleCall, before: Callable[..., Any] | None = None,
                  after: Callable[..., Any] | None = None) -> TorchLayer:  # fmt: skip
    """A layer that is one module; before, after: functions ``(t, x)`` of its input and its output."""

    def compute(t: Any, m: Any, x: Any) -> Any:
        x = x if before is None else before(t, x)
        y = m("")(x)
        return y if after is None else after(t, y)

    return TorchLayer(compute, {"": call})


def find_torch_layer(export: TorchLayerExport) -> TorchLayer:
    """What a layer is in PyTorch, with its activation. Raises NotExpressibleError with the reason."""
    layer = export.layer
    entry = _ENTRIES.get(type(layer))
    if entry is None:
        raise NotExpressibleError("no module stands for it")
    if layer.own_settings():
        raise NotExpressibleError(f"no module stands for it with {', '.join(layer.own_settings())}")
    torch_layer = entry(export)
    if not torch_layer.layouts:
        own = {n: s for n, s in export.weight_shapes.items() if not n.startswith("activation/")}
        torch_layer = replace(torch_layer, layouts=tuple(LAYOUTS.layouts(layer, own)))
    activation = getattr(layer, "activation", None)
    if activation is None or hasattr(layer, "recurrent_activation") or hasattr(layer, "return_sequences"):
        return torch_layer
    behind = find_torch_layer(export.inner("activation", activation))
    if behind.compute is identity:
        return torch_layer
    modules = {**torch_layer.modules, **{_below("activation", name): call for name, call in behind.modules.items()}}
    layouts = (*torch_layer.layouts, *(layout.under("activation/", "activation.") for layout in behind.layouts))

    def compute(t: Any, m: Any, *inputs: Any) -> Any:
        y = torch_layer.compute(t, m, *inputs)
        return behind.compute(t, lambda name: m(_below("activation", name)), y)

    return TorchLayer(compute, modules, layouts, torch_layer.constants)


def _below(name: str, child: str) -> str:
    return f"{name}.{child}" if child else name


def identity(t: Any, m: Any, x: Any) -> Any:
    """The input."""
    return x


def state_arrays(torch_layer: TorchLayer, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of the layer's modules by their names below it, from the layer's weights."""
    arrays: dict[str, np.ndarray] = {}
    for layout in torch_layer.layouts:
        made = layout.transform.to_theirs(tuple(np.asarray(weights[name]) for name in layout.ours))
        arrays.update(zip(layout.theirs, made, strict=True))
    return arrays
