"""An ONNX graph as it is written: nodes, initialisers, and names that occur once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.interop.onnx import onnx_package
from prototorch.interop.symbolic_batch import BatchMultiple, Dim

__all__ = ["BATCH", "GraphBuilder"]

BATCH = "batch"  # the name of the batch dimension


class GraphBuilder:
    """Nodes and initialisers of one graph. A subgraph (``outer``) reads the outer graph's values by their names."""

    def __init__(self, opset: int, reserved: Iterable[str] = (), outer: GraphBuilder | None = None):
        self.opset, self.outer = opset, outer
        self.onnx = onnx_package()
        self.nodes: list[Any] = []
        self.initializers: dict[str, np.ndarray] = {}
        self._value_names: set[str] = outer._value_names if outer is not None else set(reserved)
        self._node_names: set[str] = outer._node_names if outer is not None else set()
        self._constants: dict[tuple[Any, ...], str] = {}
        self._batch_source = ""
        self._batch_size = ""

    @property
    def outermost(self) -> GraphBuilder:
        """The graph that is no subgraph; it holds all initialisers."""
        return self if self.outer is None else self.outer.outermost

    def unique_name(self, hint: str) -> str:
        """A name for a value that no other has: the hint, or the hint and a number."""
        name, number = hint, 1
        while name in self._value_names:
            number += 1
            name = f"{hint}_{number}"
        self._value_names.add(name)
        return name

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        scope: str,
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> None:
        """Add a node. The first of a layer has the layer's name (``scope``), further ones the op's behind it."""
        name = scope or op
        if name in self._node_names:
            name = f"{scope}/{op}" if scope else op
        number, hint = 1, name
        while name in self._node_names:
            number += 1
            name = f"{hint}_{number}"
        self._node_names.add(name)
        self.nodes.append(
            self.onnx.helper.make_node(op, list(inputs), list(outputs), name=name, domain=domain, **(attributes or {}))
        )

    def initializer(self, name: str, array: np.ndarray) -> str:
        """An initialiser; its name in the file."""
        outermost = self.outermost
        name = self.unique_name(name)
        outermost.initializers[name] = np.asarray(array, order="C")
        return name

    def constant(self, array: Any, hint: str = "constant") -> str:
        """A constant by its elements; equal small ones are one initialiser."""
        array = np.asarray(array)
        outermost = self.outermost
        key = (str(array.dtype), array.shape, array.tobytes()) if array.nbytes <= 4096 else (id(array),)
        if key not in outermost._constants or array.nbytes > 4096:
            outermost._constants[key] = self.initializer(hint, array)
        return outermost._constants[key]

    def batch_source(self, name: str) -> None:
        """Say which value has the batch size as its first dimension."""
        self._batch_source = name

    def shape(self, dims: Sequence[Dim], scope: str) -> str:
        """The name of a shape as an int64 tensor; computed where it follows the batch."""
        if not any(isinstance(n, BatchMultiple) for n in dims):
            return self.constant(np.array(dims, np.int64), "shape")
        parts = []
        for n in dims:
            parts.append(
                self._batch_multiple(n.factor, scope)
                if isinstance(n, BatchMultiple)
                else self.constant(np.array([n], np.int64), "shape")
            )
        name = self.unique_name(f"{scope}/shape")
        self.emit("Concat", parts, [name], scope, {"axis": 0})
        return name

    def _batch_multiple(self, factor: int, scope: str) -> str:
        if not self._batch_size:
            shape = self.unique_name("batch_size/shape")
            self.emit("Shape", [self._batch_source], [shape], "batch_size")
            self._batch_size = self.unique_name("batch_size")
            zero = self.constant(np.array([0], np.int64), "axis")
            self.emit("Gather", [shape, zero], [self._batch_size], "batch_size", {"axis": 0})
        if factor == 1:
            return self._batch_size
        name = self.unique_name(f"{scope}/batch")
        self.emit("Mul", [self._batch_size, self.constant(np.array([factor], np.int64), "factor")], [name], scope)
        return name
