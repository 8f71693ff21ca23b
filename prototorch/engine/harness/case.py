"""A case: one example of one layer, with the arrays it is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from prototorch.engine.harness.layer_graph import trace_layer
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.graph.ir import Graph
from prototorch.graph.weight_spec import WeightSpec
from prototorch.layers.base import Layer
from prototorch.runtime.variables import initial_value
from prototorch.schema import Example
from prototorch.spec import FLOAT_DTYPES, Spec

BATCH = 3


@dataclass(frozen=True)
class Case:
    """One example of one layer. What an example may say in ``extra``:

    ``range``: (low, high) of the inputs' elements, or one pair for each input. Floating-point inputs are normal without
        it, integer inputs below 2.
    ``mask``: the number of steps that count in each sample of the first input (a mask [batch, time] goes with it).
    ``gradient``: False where the layer has no gradient by design. ``second``: False where it has no second one.
    ``batched``: False where a sample's result depends on the other samples in inference as well.
    ``batch_axis``: False where axis 0 of an output is not that of the batch (a scalar, or another order of the axes).
    ``tolerance``: a factor on all tolerances, with its reason beside the example.
    """

    layer: type[Layer]
    example: Example
    number: int

    @property
    def id(self) -> str:
        """The layer's name and the example's number."""
        return f"{self.layer.__name__}-{self.number}"

    @property
    def seed(self) -> int:
        """A seed of this case's own."""
        return crc32(f"{self.id} {self.example.text}".encode())

    def extra(self, name: str, default: Any = None) -> Any:
        """What the example says of this."""
        return self.example.extra.get(name, default)

    @property
    def tolerance(self) -> float:
        """A factor on all tolerances."""
        return float(self.extra("tolerance", 1.0))

    @property
    def phases(self) -> tuple[bool, ...]:
        """The phases to try: inference (False), training (True)."""
        return (False, True) if self.example.training is None else (self.example.training,)

    @cached_property
    def instance(self) -> Layer:
        """The layer, from the example's text."""
        return parse_layer(self.example.text)

    @cached_property
    def dtypes(self) -> tuple[str, ...]:
        """The element type of each input."""
        dtype = self.example.dtype
        return (dtype,) * len(self.example.inputs) if isinstance(dtype, str) else dtype

    def specs(self, float_dtype: str, batch: int = BATCH) -> tuple[Spec, ...]:
        """The inputs' specs, with floating-point inputs of this type."""
        return tuple(
            Spec((batch, *shape), float_dtype if dtype in FLOAT_DTYPES else dtype)
            for shape, dtype in zip(self.example.inputs, self.dtypes, strict=True)
        )

    def inputs(self, float_dtype: str) -> list[np.ndarray]:
        """The inputs' arrays: the same numbers whatever the type."""
        rng = np.random.default_rng(self.seed)
        value_range = self.extra("range")
        arrays = []
        for i, spec in enumerate(self.specs(float_dtype)):
            limits = value_range if value_range is None or np.ndim(value_range) == 1 else value_range[i]
            array: Any
            if spec.dtype == "bool":
                array = rng.random(spec.shape) < 0.5
            elif spec.is_float:
                array = (
                    rng.standard_normal(spec.shape) if limits is None else rng.uniform(limits[0], limits[1], spec.shape)
                )
            else:
                low, high = limits or (0, 2)
                array = rng.integers(low, high, spec.shape)
            arrays.append(array.astype(spec.dtype))
        return arrays

    def mask(self) -> np.ndarray | None:
        """The mask of the first input, where the example wants one."""
        steps = self.extra("mask")
        if steps is None:
            return None
        return np.arange(self.example.inputs[0][0])[None, :] < np.asarray(steps)[:, None]

    def weights(self, float_dtype: str) -> dict[str, np.ndarray]:
        """Values for the weights: as they begin, and a little random, so that no weight is 0 or equal to another."""
        arrays = {}
        for weight in self.declared_weights(float_dtype).values():
            array = initial_value(weight, self.seed)
            if weight.spec.is_float:
                rng = np.random.default_rng([self.seed, crc32(weight.name.encode())])
                array = array + 0.1 * rng.standard_normal(array.shape)
            arrays[weight.name] = np.array(array, dtype=weight.spec.dtype)
        return arrays

    def declared_weights(self, float_dtype: str) -> dict[str, WeightSpec]:
        """The weights as the layer asks for them in both phases."""
        specs: dict[str, WeightSpec] = {}
        for training in self.phases:
            specs.update(
                trace_layer(
                    Graph(), self.instance, self.specs(float_dtype), training, float_dtype, self.mask()
                ).trace.weights
            )
        return specs


def cases(*layers: type[Layer]) -> Iterator[Case]:
    """Every example of these layers, or of all registered ones."""
    for cls in layers or tuple(Layer.members().values()):
        for number, one in enumerate(cls.examples):
            yield Case(cls, one, number)
