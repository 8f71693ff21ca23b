"""A traced function as JSON and arrays, and back: ops by name, their attributes as plain values, arrays beside them.

Nothing in a file is executed: an op is one of the package, found by its name, whose own rules check what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.eager.dtype import DTYPES
from prototorch.errors import ModelFileError, PrototorchError, UsageError
from prototorch.graph.ir import Graph, Value
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

__all__ = ["GraphContents", "check_spec", "decode_graph", "encode_graph", "unify"]

MAX_NODES, MAX_ELEMENTS, MAX_DIMS = 250_000, 2**40, 64
_DTYPES = {*DTYPES, "uint16", "uint32", "uint64"}


class GraphContents:
    """A decoded graph: ``outputs`` in order, ``updates`` by state."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.outputs: list[Value] = []
        self.updates: dict[str, Value] = {}


def encode_graph(
    graph: Graph, outputs: Sequence[Value], updates: Mapping[str, Value], store: Callable[[np.ndarray], str]
) -> dict[str, Any]:
    """The JSON of what outputs and updates depend on. store: keeps the array of a constant, and gives its path.

    Raises UsageError for an op that computes in Python.
    """
    numbers: dict[Value, int] = {}
    values: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []

    def number_of(value: Value) -> int:
        if value not in numbers:
            numbers[value] = len(values)
            one: dict[str, Any] = {
                "kind": value.kind,
                "name": value.name,
                "shape": list(value.shape),
                "dtype": value.dtype,
            }
            if value.kind == "constant":
                one["array"] = store(np.asarray(value.array))
            values.append(one)
        return numbers[value]

    clone = graph.clone({f"{k}": v for k, v in enumerate(outputs)}, updates)
    clone.erase_dead_nodes()
    for node in clone.nodes:
        if OPS.get(node.op.name) is not node.op:
            raise UsageError(f"{node.op.name} computes in Python: no file can hold it")
        attrs = {name: _encode(node.op, value) for name, value in node.attrs.items()}
        inputs = [number_of(v) for v in node.inputs]
        nodes.append(
            {"op": node.op.name, "inputs": inputs, "attrs": attrs, "outputs": [number_of(v) for v in node.outputs]}
        )
    return {
        "outputs": [number_of(clone.outputs[f"{k}"]) for k in range(len(outputs))],
        "updates": {name: number_of(clone.updates[name]) for name in updates},
        "nodes": nodes,
        "values": values,
    }


def _encode(op: Op, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple | list):
        return [_encode(op, v) for v in value]
    raise UsageError(f"{op.name} computes in Python, with {value!r:.60}: no file can hold it")


def unify(first: Any, second: Any, sizes: tuple[int, int]) -> Any:
    """One JSON of two that were traced with different batch sizes: an integer that differs is a linear function of the
    batch size, ``{"batch": [factor, offset]}``. Raises ValueError where the two are not of one form."""
    if type(first) is not type(second):
        raise ValueError
    if isinstance(first, dict):
        if first.keys() != second.keys():
            raise ValueError
        return {k: unify(v, second[k], sizes) for k, v in first.items()}
    if isinstance(first, list):
        if len(first) != len(second):
            raise ValueError
        return [unify(a, b, sizes) for a, b in zip(first, second, strict=True)]
    if first == second:
        return first
    if type(first) is not int:
        raise ValueError
    factor, rest = divmod(second - first, sizes[1] - sizes[0])
    if rest:
        raise ValueError
    return {"batch": [factor, first - factor * sizes[0]]}


def decode_graph(content: Any, arrays: Mapping[str, np.ndarray], batch: int | None) -> GraphContents:
    """The graph of a JSON, for a batch size where it is made for any. Raises ModelFileError for what is no graph."""
    try:
        return _decode(content, arrays, batch)
    except ModelFileError:
        raise
    except (
        PrototorchError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
        ZeroDivisionError,
        MemoryError,
    ) as error:
        raise ModelFileError(f"the graph cannot be read: {type(error).__name__}: {error!s:.200}") from error


def _decode(content: Any, arrays: Mapping[str, np.ndarray], batch: int | None) -> GraphContents:
    result = GraphContents()
    graph = result.graph
    values: dict[int, Value] = {}
    declared = content["values"]
    if len(content["nodes"]) > MAX_NODES or len(declared) > 4 * MAX_NODES:
        raise ModelFileError(f"the graph has more than {MAX_NODES:,} ops")
    specs: dict[int, Spec] = {}
    for number, one in enumerate(declared):
        specs[number] = spec = check_spec(Spec(_decode_attribute(one["shape"], batch), one["dtype"]))
        if one["kind"] == "node":
            continue
        if one["kind"] == "input":
            values[number] = graph.input(str(one["name"]), spec)
        elif one["kind"] == "state":
            values[number] = graph.state(str(one["name"]), spec)
        elif one["kind"] == "constant":
            values[number] = graph.constant(arrays[one["array"]])
            if values[number].spec != spec:
                raise ModelFileError(f"a constant is {values[number].spec}, expected {spec}")
        else:
            raise ModelFileError(f"a value is of the kind {one['kind']!r:.40}")
    for one in content["nodes"]:
        op = OPS.get(one["op"])
        if not isinstance(op, Op):
            raise ModelFileError(f"there is no op {one['op']!r:.60}")
        attrs = {str(k): _decode_attribute(v, batch) for k, v in one["attrs"].items()}
        results = graph.apply(op, [values[n] for n in one["inputs"]], attrs)
        outputs = results if isinstance(results, tuple) else (results,)
        for n, value in zip(one["outputs"], outputs, strict=True):
            check_spec(value.spec)
            if n in values:
                raise ModelFileError(f"the value {n!r:.20} is computed twice")
            if value.spec != specs[n]:
                raise ModelFileError(f"an output of {op.name} is {value.spec}, expected {specs[n]}")
            values[n] = value
    result.outputs = [values[n] for n in content["outputs"]]
    result.updates = {name: values[n] for name, n in content["updates"].items()}
    for name, value in result.updates.items():
        if name not in graph.states or graph.states[name].spec != value.spec:
            raise ModelFileError(f"{name!r:.60} is updated with another spec than its own")
    return result


def _decode_attribute(value: Any, batch: int | None) -> Any:
    if isinstance(value, list):
        return tuple(_decode_attribute(v, batch) for v in value)
    if isinstance(value, dict):
        if "float" in value:
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[value["float"]]
        factor, offset = value["batch"]
        if batch is None or type(factor) is not int or type(offset) is not int:
            raise ModelFileError("a size depends on the batch in a graph for one size")
        return factor * batch + offset
    return value


def check_spec(spec: Spec) -> Spec:
    """A spec of a file. Raises ModelFileError for dtypes that there are not, and for impossible or enormous sizes."""
    sizes_fit = len(spec.shape) <= MAX_DIMS and all(type(n) is int and n >= 0 for n in spec.shape)
    if not isinstance(spec.dtype, str) or spec.dtype not in _DTYPES or not sizes_fit or prod(spec.shape) > MAX_ELEMENTS:
        raise ModelFileError(f"a value is {spec.dtype!s:.20}{list(spec.shape)!s:.60}")
    return spec
