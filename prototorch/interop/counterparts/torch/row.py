"""A family of layers in PyTorch: its modules, what it computes with them, and how they store its weights.

One row is read in three ways: `interop.torch.torch_module` builds the modules and computes, `interop.torch.codegen`
writes both down as a Python file, and `LAYOUTS` reads and writes the weights. So a row names a module by
its text and its arguments, and computes by the functions that it is given. A layer with an ``activation`` field gets
the activation behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.interop.counterparts.row import Counterpart, CounterpartLayouts, WeightPair
from prototorch.interop.torch.names import canonical_parts
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import WeightLayout

__all__ = [
    "LAYOUTS",
    "ModuleCall",
    "TorchLayer",
    "TorchLayerExport",
    "TorchRow",
    "module_call",
    "named_weights",
    "single_module",
]


@dataclass(frozen=True)
class ModuleCall:
    """A module of `torch.nn` ("Conv2d") with its arguments: those given by position, by their names there, and those
    given by name."""

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def module_call(kind: str, arguments: Mapping[str, Any], **options: Any) -> ModuleCall:
    """``nn.KIND(*arguments, **options)``."""
    return ModuleCall(kind, arguments, options)


@dataclass(frozen=True)
class TorchLayerExport:
    """A layer where it stands in a net: its weights' shapes by their names in the layer, and the shapes of its inputs,
    the batch dimension included, whose size is not to be used. dtypes: of its inputs; none for float32."""

    layer: Any
    weight_shapes: Mapping[str, tuple[int, ...]]
    shapes: tuple[tuple[Any, ...], ...]
    dtypes: tuple[str, ...] = ()

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


@dataclass(frozen=True, kw_only=True)
class TorchRow(Counterpart):
    """What a family of layers is in PyTorch.

    module: what a layer is there, None for one that is written as the ops of its `call`. It returns None for fields
    with which those ops say it as well, and raises NotExpressibleError for fields that PyTorch does not have.
    """

    module: Callable[[TorchLayerExport], TorchLayer | None] | None = None


LAYOUTS = CounterpartLayouts(
    system="torch", split_name=canonical_parts, ignored=("num_batches_tracked",), has_shared_names=True
)


def named_weights(**names: str) -> tuple[WeightPair, ...]:
    """Weights that are stored as they are, in this order: our name and that below PyTorch's module."""
    return tuple(WeightPair(ours, theirs) for ours, theirs in names.items())


def single_module(
    call: ModuleCall, before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
) -> TorchLayer:
    """A layer that is one module; before, after: functions ``(t, x)`` of its input and its output."""

    def compute(t: Any, m: Any, x: Any) -> Any:
        x = x if before is None else before(t, x)
        y = m("")(x)
        return y if after is None else after(t, y)

    return TorchLayer(compute, {"": call})
