"""A net under construction whose values may have their axes in another order than in Keras.

Images are [channels, rows, columns] here and [rows, columns, channels] in most nets of Keras. Each value knows which
axis of Keras' each of its axes is; a `Permute` is added only where a layer needs another order than the value has.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from prototorch import layers
from prototorch.errors import ModelWarning, PrototorchError
from prototorch.graph.ir import Graph
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.symbolic import top_names
from prototorch.graph.trace import Trace, trace_node
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.layers.base import Layer
from prototorch.layers.channels import without_default_axis
from prototorch.schema.names import find_name_error, to_name
from prototorch.spec import Spec
from prototorch.text.limits import MAX_ELEMENTS

__all__ = ["OPEN_SIZE", "AxisOrder", "OrderedNetBuilder", "OrderedValue", "channels_first", "identity"]

AxisOrder = tuple[int, ...]
OPEN_SIZE = 224  # stands for a size that only the data tell, where shapes are looked at
DTYPES = {"float32", "float16", "float64", "int32", "int64", "uint8", "bool", "int8", "int16"}


def identity(rank: int) -> AxisOrder:
    """Keras' own order of the axes behind the batch."""
    return tuple(range(rank))


def channels_first(rank: int) -> AxisOrder:
    """The last axis first."""
    return (rank - 1, *range(rank - 1))


@dataclass(frozen=True)
class OrderedValue:
    """A value of the net. order: for each axis of ours behind the batch the axis of Keras'. shape: ours, without the
    batch."""

    name: str
    order: AxisOrder
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of axes behind the batch."""
        return len(self.order)

    @property
    def their_shape(self) -> tuple[int, ...]:
        """The shape in Keras, without the batch."""
        return tuple(self.shape[self.order.index(axis)] for axis in range(self.rank))

    def axis(self, theirs: int) -> int:
        """Our axis (the batch is 0) for one of Keras' (the batch is 0; -1 is the last)."""
        axis = theirs if theirs < 0 else theirs - 1
        if theirs == 0 or theirs == -self.rank - 1:
            raise NotImportableError(f"the axis {theirs} is that of the batch")
        if not -self.rank <= axis < self.rank:
            raise NotImportableError(f"the axis {theirs} of a value of {self.rank + 1} axes")
        return 1 + self.order.index(axis % self.rank)


class OrderedNetBuilder:
    """Adds layers one after the other; shapes are known as soon as a layer is there."""

    def __init__(self, name: str):
        self.name = name
        self.inputs: list[InputNode] = []
        self.nodes: list[LayerNode] = []
        self.trace = Trace(Graph(), False)
        self.original_names: dict[str, str] = {}
        self.notes: list[str] = []
        self._names: set[str] = set()
        self._counted_weights = self._weight_elements = 0
        self._permuted: dict[tuple[str, AxisOrder], OrderedValue] = {}

    def unused_name(self, path: str) -> str:
        """A valid name that no layer has, after a path of Keras'; the path is noted where it differs."""
        plain = "/".join(part for part in to_name(path).split("/") if part.strip(".")) or "layer"
        plain = plain[:180]
        name, number = plain, 1
        while name in self._names or find_name_error(name) is not None:
            number += 1
            name = f"{plain}_{number}"
        self._names.add(name)
        if name != path:
            self.original_names[name] = path
        return name

    def input(self, path: str, their_shape: Sequence[int | None], dtype: str, order: AxisOrder) -> OrderedValue:
        """An input of the net, whose axes are in this order."""
        if dtype not in DTYPES:
            raise NotImportableError(f"the input {path!r} of dtype {dtype!r:.30}")
        name = self.unused_name(path)
        shape = tuple(their_shape[axis] for axis in order)
        sizes = tuple(OPEN_SIZE if n is None else n for n in shape)
        dtype = "float32" if dtype in ("float16", "float64") else dtype
        self.inputs.append(InputNode(name, shape, dtype))
        self.trace.values[name] = self.trace.graph.input(name, Spec((1, *sizes), dtype))
        return OrderedValue(name, order, sizes)

    def add(
        self, layer: Layer, inputs: Sequence[OrderedValue], path: str, order: AxisOrder | None = None
    ) -> tuple[OrderedValue, ...]:
        """A layer's outputs. order: of their axes; None: Keras' own. Raises NotImportableError for wrong shapes."""
        name = self.unused_name(path)
        layer = layer.replace(name=name)
        if inputs:
            layer = without_default_axis(layer, inputs[0].rank + 1)
        tops = top_names(name, layer.output_count())
        node = LayerNode(name, layer, tuple(value.name for value in inputs), tops)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ModelWarning)
                trace_node(self.trace, node)
        except PrototorchError as error:
            raise NotImportableError(f"does not fit here: {str(error)[:300]}") from None
        self._check_sizes(tops)
        self.nodes.append(node)
        values = []
        for top in tops:
            shape = tuple(self.trace.values[top].shape[1:])
            is_same = order is not None and len(order) == len(shape)
            values.append(OrderedValue(top, order if is_same and order is not None else identity(len(shape)), shape))
        return tuple(values)

    def _check_sizes(self, tops: Sequence[str]) -> None:
        """Raise NotImportableError for values and weights that no machine holds."""
        self._count_weights()
        sizes = [prod(self.trace.values[top].shape) for top in tops]
        if max([*sizes, self._weight_elements]) > MAX_ELEMENTS:
            raise NotImportableError(f"{max([*sizes, self._weight_elements]):,} elements; at most {MAX_ELEMENTS:,}")

    def _count_weights(self) -> None:
        """Add the elements of the weights that are new."""
        new = list(islice(self.trace.weights.values(), self._counted_weights, None))
        self._counted_weights += len(new)
        self._weight_elements += sum(prod(weight.spec.shape) for weight in new)

    def in_order(self, value: OrderedValue, order: AxisOrder) -> OrderedValue:
        """The value with its axes in this order: itself, or behind a Permute."""
        if value.order == order:
            return value
        if sorted(order) != list(range(value.rank)):
            raise NotImportableError(f"reads a value of {value.rank + 1} axes")
        key = value.name, order
        if key not in self._permuted:
            dims = [value.order.index(axis) + 1 for axis in order]
            shape = [value.shape[d - 1] for d in dims]
            moved = [d for d in dims if value.shape[d - 1] > 1]
            name = f"{value.name.replace(':', '_')}_permute"
            if moved == sorted(moved):  # only axes of one element move
                layer: Layer = layers.Reshape(shape)
                name = f"{value.name.replace(':', '_')}_reshape"
            else:
                layer = layers.Permute(dims)
            self._permuted[key] = self.add(layer, [value], name, order)[0]
            self.original_names.pop(self._permuted[key].name, None)
        return self._permuted[key]

    def as_keras(self, value: OrderedValue) -> OrderedValue:
        """The value with Keras' own order of axes."""
        return self.in_order(value, identity(value.rank))

    def is_permuted(self, value: OrderedValue) -> bool:
        """Whether a value is the output of a Permute."""
        return any(value.name in node.tops and isinstance(node.layer, layers.Permute) for node in self.nodes)

    def has_mask(self, value: OrderedValue) -> bool:
        """Whether a value has a mask of its steps."""
        return self.trace.values[value.name] in self.trace.masks

    def net(self, outputs: Sequence[OrderedValue]) -> Net:
        """The nodes as they were added so far, and what of them reaches these outputs."""
        return Net(self.name, tuple(self.inputs), tuple(self.nodes), tuple(value.name for value in outputs))
