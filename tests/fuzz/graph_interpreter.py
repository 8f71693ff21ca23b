"""What files of static graphs and of compiled functions compute, without the package: HDF5's own library reads them.

A static graph names PyTorch's functions: PyTorch evaluates it, gradients included. A compiled function names ops, which
NumPy evaluates by what docs/ops.md says of them. What has another kind, function or op raises `NoReferenceError`; what
fits nothing `RefusalError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from tests.fuzz.harness import NoReferenceError, RefusalError, sample

__all__ = ["BATCH", "OPEN_SIZE", "RUNS", "evaluate_function", "evaluate_graph", "nested_values"]

BATCH, OPEN_SIZE, RUNS = 2, 2, 2
_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "bool"}
_SGD_FIELD = "learning_rate:"


def _meta(file: Any, name: str) -> Any:
    return json.loads(file[f"@meta/{name}"][()].decode())


def nested_values(value: Any) -> Iterator[Any]:
    """The leaves of lists, tuples and dicts."""
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from nested_values(inner)
    else:
        yield value


# ---------------------------------------------------------------------- static graphs


def evaluate_graph(path: Path) -> list[np.ndarray]:
    """The outputs of a graph, in `RUNS` calls one behind the other, for inputs by `sample`."""
    with h5py.File(path) as file:
        content = _meta(file, "graph")
        try:
            return _StaticGraph(file, content).results()
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError, OverflowError) as error:
            raise RefusalError(f"{type(error).__name__}: {error}") from None


class _StaticGraph:
    def __init__(self, file: Any, content: Any):
        self.file, self.content = file, content
        self.variables = {one["id"]: torch.tensor(self.array(one["array"])) for one in content["variables"]}
        self.values: dict[int, Any] = {}
        #: the calls with several outputs; that of a function is one, which may be a tuple
        self.lists = {one["id"] for one in content["calls"] if one["kind"] == "gradients"}
        self.assignments: dict[int, torch.Tensor] = {}

    def array(self, path: str) -> np.ndarray:
        return np.array(self.file[path][()])

    def results(self) -> list[np.ndarray]:
        outputs = []
        for _ in range(RUNS):
            outputs += self.run()
            self.variables |= {number: value.detach() for number, value in self.assignments.items()}
        return [one.detach().numpy() for one in outputs]

    def run(self) -> list[torch.Tensor]:
        self.values, self.assignments = {}, {}
        reads = {number: self.leaf(value.numpy()) for number, value in self.variables.items()}
        for k, one in enumerate(self.content["inputs"]):
            shape = [BATCH, *(OPEN_SIZE if n is None else n for n in one["shape"])]
            self.values[one["id"]] = self.leaf(sample(f"{k}", shape, one["dtype"]))
        needed = self.needed_calls()
        updates = {reference[0] for reference in self.content["updates"]}
        for one in self.content["calls"]:
            if one["id"] in needed:
                self.values[one["id"]] = self.call(one, reads)
        if updates - self.values.keys():
            raise RefusalError("an update that is no call")
        return [self.symbol(reference) for reference in self.content["outputs"]]

    @staticmethod
    def leaf(array: np.ndarray) -> torch.Tensor:
        value = torch.tensor(array)
        return value.requires_grad_() if value.is_floating_point() else value

    def needed_calls(self) -> set[int]:
        calls = {one["id"]: one for one in self.content["calls"]}
        pending = [reference[0] for reference in [*self.content["outputs"], *self.content["updates"]]]
        needed: set[int] = set()
        while pending:
            number = pending.pop()
            if number in calls and number not in needed:
                needed.add(number)
                pending += [reference[0] for reference in _references(calls[number])]
        return needed

    def symbol(self, reference: Sequence[int]) -> torch.Tensor:
        number, index = reference
        value = self.values[number]
        if number in self.lists:
            return value[index]
        if index:
            raise RefusalError(f"{number} has no output {index}")
        return value

    def argument(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.argument(one) for one in value]
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind == "symbol":
            return self.symbol(inner)
        if kind == "array":
            return torch.tensor(self.array(inner))
        if kind == "float":
            return float(inner)
        if kind == "ellipsis":
            return Ellipsis
        if kind == "dtype":
            return getattr(torch, inner)
        items = [self.argument(one) for one in inner]
        if kind == "tuple":
            return tuple(items)
        if kind == "slice":
            return slice(*items)
        raise NoReferenceError(f"an argument {kind}")

    def call(self, one: Any, reads: dict[int, torch.Tensor]) -> Any:
        kind = one["kind"]
        if kind == "function":
            return self.function(one)
        if kind == "variable":
            return reads[one["variable"]]
        if kind == "gradients":
            return self.gradients([self.symbol(s) for s in one["outputs"]], [self.symbol(s) for s in one["targets"]])
        if kind == "assign":
            value = self.symbol(one["value"])
            target = self.variables[one["variable"]]
            if value.shape != target.shape:
                value = value.broadcast_to(target.shape)
            self.assignments[one["variable"]] = value.to(target.dtype)
            return value
        if kind == "group":
            for reference in one["members"]:
                self.symbol(reference)
            return torch.zeros(())
        if kind == "minimize":
            return self.minimize(one, reads)
        raise NoReferenceError(f"a call of the kind {kind}")

    def function(self, one: Any) -> Any:
        args = [self.argument(value) for value in one["args"]]
        options = {name: self.argument(value) for name, value in one["options"].items()}
        name = one["name"]
        if name == "getitem":
            return args[0][args[1]]
        if not args or not isinstance(args[0], torch.Tensor):
            args = [torch.tensor(value) if isinstance(value, int | float) else value for value in args]
        functions = [getattr(place, name, None) for place in (torch, torch.Tensor, torch.nn.functional)]
        functions = [function for function in functions if callable(function)]
        if not functions or name.endswith("_"):
            raise NoReferenceError(f"PyTorch has no function {name}")
        errors = []
        as_tensors = [torch.tensor(one) if isinstance(one, int | float) else one for one in args]
        for operands in (args, as_tensors):  # numbers may stand for tensors, as in pt.maximum(x, 0)
            for function in functions:
                try:
                    return function(*operands, **options)
                except (TypeError, RuntimeError, ValueError, IndexError) as error:
                    errors.append(error)
        raise RefusalError(f"{name}: {errors[0]}"[:300])

    def gradients(self, outputs: list[torch.Tensor], targets: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        outputs = [one.sum() for one in outputs if one.requires_grad]
        places = [k for k, target in enumerate(targets) if target.requires_grad]
        results = [torch.zeros_like(target) for target in targets]
        if outputs and places:
            total = sum(outputs[1:], start=outputs[0])
            values = torch.autograd.grad(total, [targets[k] for k in places], create_graph=True, allow_unused=True)
            for k, value in zip(places, values, strict=True):
                results[k] = results[k] if value is None else value
        return tuple(results)

    def minimize(self, one: Any, reads: dict[int, torch.Tensor]) -> torch.Tensor:
        text = one["optimizer"].split()
        if text[:1] != ["SGD"] or text[2:-1:2] != [_SGD_FIELD] or one["slots"]:
            raise NoReferenceError("an optimizer with more than a learning rate")
        numbers = [v["id"] for v in self.content["variables"] if v["trainable"]]
        numbers = numbers if one["variables"] is None else one["variables"]
        loss = self.symbol(one["loss"])
        if loss.numel() != 1:
            raise NoReferenceError("a loss of several elements")
        for number, gradient in zip(numbers, self.gradients([loss], [reads[n] for n in numbers]), strict=True):
            self.assignments[number] = reads[number] - float(text[3]) * gradient
        return loss


def _references(one: Any) -> Iterator[list[int]]:
    """The references in a call."""
    for key in ("inputs", "outputs", "targets", "members"):
        yield from one.get(key) or ()
    for key in ("value", "loss"):
        if isinstance(one.get(key), list):
            yield one[key]
    stack = [one.get("args"), one.get("options")]
    while stack:
        value = stack.pop()
        if isinstance(value, dict) and set(value) == {"symbol"}:
            yield value["symbol"]
        elif isinstance(value, dict | list):
            stack.extend(value.values() if isinstance(value, dict) else value)


# ---------------------------------------------------------------------- compiled functions


def evaluate_function(path: Path) -> list[np.ndarray]:
    """The values in a function's result, in `RUNS` calls one behind the other, for arguments by `sample`."""
    with h5py.File(path) as file:
        content = _meta(file, "function")
        batch = BATCH if file["@meta"].get("batched") is not None and file["@meta/batched"][()] == 1 else None
        arrays: dict[str, np.ndarray] = {}
        file.visititems(lambda name, one: arrays.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None)
        try:
            return _results(content, arrays, batch)
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise RefusalError(f"{type(error).__name__}: {error}") from None


def _results(content: Any, arrays: dict[str, np.ndarray], batch: int | None) -> list[np.ndarray]:
    states = {name: arrays[f"state/{name}".replace(":", "_")] for name in content["states"]}
    inputs = {}
    for k, one in enumerate(content["arguments"]):
        shape = tuple(_plain(one["shape"], batch))
        inputs[f"argument:{k}"] = sample("x", shape, one["dtype"])
    if content["keys"]:
        raise NoReferenceError("random numbers")
    results: list[np.ndarray] = []
    for _ in range(RUNS):
        values = _values(content["graph"], arrays, inputs | states, batch)
        tensors = [values[number] for number in content["graph"]["outputs"]]
        results += [np.asarray(one) for one in nested_values(_filled(content["result"], tensors))]
        states = states | {name: values[number] for name, number in content["graph"]["updates"].items()}
    return results


def _filled(template: Any, tensors: Sequence[np.ndarray]) -> Any:
    ((kind, value),) = template.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {name: _filled(one, tensors) for name, one in value}
    return [_filled(one, tensors) for one in value] if kind in ("list", "tuple") else value


def _plain(value: Any, batch: int | None) -> Any:
    """An attribute or a shape, with the sizes that follow from the batch."""
    if isinstance(value, list):
        return tuple(_plain(one, batch) for one in value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[value["float"]]
    factor, offset = value["batch"]
    if batch is None:
        raise RefusalError("a size of the batch in a function for one size")
    return factor * batch + offset


def _values(graph: Any, arrays: dict[str, np.ndarray], inputs: dict[str, np.ndarray], batch: int | None) -> Any:
    values: dict[int, np.ndarray] = {}
    for number, one in enumerate(graph["values"]):
        if one["kind"] in ("input", "state") and one["name"] in inputs:
            values[number] = _declared(inputs[one["name"]], one, batch)
        elif one["kind"] == "constant":
            values[number] = _declared(arrays[one["array"]], one, batch)
    for node in graph["nodes"]:
        function = _OPS.get(node["op"])
        if function is None:
            raise NoReferenceError(f"an op {node['op']}")
        operands = [values[n] for n in node["inputs"]]
        attrs = {name: _plain(value, batch) for name, value in node["attrs"].items()}
        (output,) = node["outputs"]
        if output in values:
            raise RefusalError(f"the value {output} is computed twice")
        with np.errstate(all="ignore"):
            result = np.asarray(function(*operands, **attrs))
        dtypes = {str(one.dtype) for one in operands}
        if result.dtype.kind == "f" and len(dtypes) == 1 and node["op"] != "cast":
            result = result.astype(operands[0].dtype if operands[0].dtype.kind == "f" else np.float32)
        values[output] = _declared(result, graph["values"][output], batch)
    return values


def _declared(array: np.ndarray, one: Any, batch: int | None) -> np.ndarray:
    """The array, which must be what the file says of it."""
    shape = _plain(one["shape"], batch)
    if array.shape != shape or str(array.dtype) != one["dtype"]:
        raise RefusalError(f"a value is {array.dtype}{list(array.shape)}, declared as {one['dtype']}{list(shape)}")
    return array


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def op(x: Any, *, axis: Any, keepdims: bool = False) -> Any:
        if type(keepdims) is not bool:
            raise RefusalError(f"keepdims={keepdims!r}")
        axes = tuple(range(x.ndim)) if axis is None else axis
        return function(x, axis=axes, keepdims=keepdims)

    return op


def _softmax(x: Any, *, axis: int = -1) -> Any:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _transpose(x: Any, *, order: Any) -> Any:
    return np.transpose(x, order)


def _reshape(x: Any, *, shape: Any) -> Any:
    if any(n < -1 for n in shape):
        raise RefusalError(f"a shape {shape}")
    return np.reshape(x, shape)


def _concat(*parts: Any, axis: int) -> Any:
    return np.concatenate(parts, axis)


def _cast(x: Any, *, dtype: str) -> Any:
    return x.astype(dtype)


_UNARY = {
    "exp": np.exp, "tanh": np.tanh, "abs": np.abs, "negative": np.negative, "square": np.square, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor, "sign": np.sign, "log1p": np.log1p, "expm1": np.expm1, "logical_not": np.logical_not,
}  # fmt: skip
_BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "less": np.less, "less_equal": np.less_equal, "equal": np.equal,
    "not_equal": np.not_equal,
}  # fmt: skip


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, /: function(x)


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, /: function(x, y)


#: the ops by name; a further or missing input or attribute is a TypeError
_OPS: dict[str, Callable[..., Any]] = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    "matmul": lambda x, y, /: np.matmul(x, y), "where": lambda condition, x, y, /: np.where(condition, x, y),
    "sum": _reduced(np.sum), "mean": _reduced(np.mean), "max": _reduced(np.max), "min": _reduced(np.min),
    "prod": _reduced(np.prod), "softmax": _softmax, "transpose": _transpose, "reshape": _reshape, "concat": _concat,
    "cast": _cast,
}  # fmt: skip
