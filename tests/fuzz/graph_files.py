"""Files of static graphs and of compiled functions, with members of the JSON inside and arrays changed.

The reference is `graph_interpreter`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import prototorch as pt
from tests.fuzz.graph_interpreter import BATCH, OPEN_SIZE, RUNS, evaluate_function, evaluate_graph, nested_values
from tests.fuzz.harness import FuzzFormat, sample
from tests.fuzz.json_changes import exchanged
from tests.fuzz.own_files import MAX_ELEMENTS, generator

__all__ = ["COMPILED_FUNCTION", "STATIC_GRAPH"]


def _save_softmax_graph(path: str) -> None:
    x = pt.Input((3, 4), name="x")
    weight = pt.Variable(pt.tensor(sample("w", (4, 2))), name="w")
    y = pt.softmax((x @ weight).reshape(-1, 6) + 1.5, -1)
    loss = (y * y).sum()
    pt.Graph([x], [y, loss, *pt.gradients(loss, [x])]).save(path)


def _save_trained_graph(path: str) -> None:
    x, target = pt.Input((4,), name="x"), pt.Input((2,), name="target")
    weight = pt.Variable(pt.tensor(sample("w", (4, 2))), name="weight")
    bias = pt.Variable(pt.tensor(sample("b", (2,))), name="bias", trainable=False)
    y = pt.tanh(x @ weight) + bias
    loss = ((y - target) ** 2).mean()
    step = pt.optimizers.SGD(0.125).minimize(loss)
    update = bias.assign(bias * 0.5 + y.mean(0))
    pt.Graph([x, target], [y, loss], updates=[step, update]).save(path)


def _save_graph_of_functions(path: str) -> None:
    x, z = pt.Input((3, 4), name="x"), pt.Input((None, 4), name="z")
    y = pt.cat([x.abs().sqrt(), pt.maximum(x, 0.25), pt.clamp(z, -0.5, 1.5)], 1)
    y = pt.where(y > 0.5, y.exp(), y.sin() - y) / (y.std((1, 2), keepdim=True) + 1)
    picked = y[:, 1:5, [0, 2]].permute(0, 2, 1)
    top = pt.sort(picked, -1, descending=True)[0]
    total = (top.unsqueeze(1) * pt.cumsum(top, -1).unsqueeze(2)).sum(-1).flatten(1)
    pt.Graph([x, z], [total, top.amax(1), *pt.gradients(total, [x, z])]).save(path)


def _save_softmax_function(path: str) -> None:
    weight = pt.tensor(sample("w", (4, 2)))

    @pt.compile
    def function(x):
        y = pt.softmax(x @ weight + 1.5, -1)
        return {"y": y, "more": [y.sum(0), (y * y).mean(), 3]}

    argument = pt.tensor(sample("x", (3, 4)))
    function(argument)
    function.save(path, argument)


def _save_counting_function(path: str) -> None:
    total = pt.tensor(sample("t", (3,)))

    @pt.compile
    def function(x, y):
        z = pt.cat([x.tanh(), pt.relu(y) - x * 0.5], 1)
        z = pt.where(z > 0.1, z.exp(), z / 2).reshape(-1, 2, 3).permute(1, 0, 2)
        total.add_(pt.maximum(z, z.amax(0, keepdim=True)).sum((0, 1)))
        return z, (total * 1, z.mean(-1).sigmoid())

    arguments = pt.tensor(sample("x", (4, 3))), pt.tensor(sample("y", (4, 3)))
    function.save(path, *arguments)


_UNARY = ("exp", "sin", "cos", "tanh", "abs", "sigmoid", "sqrt", "square", "sign", "floor", "expm1", "log1p")
_BINARY = ("add", "maximum", "minimum")
_NAMES = {
    # of functions as PyTorch calls them, and of ops
    "function": (_UNARY, (*_BINARY, "sub", "mul", "div"), ("sum", "mean", "amax", "amin", "prod", "softmax", "cumsum")),
    "op": (_UNARY, (*_BINARY, "subtract", "multiply", "divide"), ("sum", "mean", "max", "min", "prod")),
}


def _exchange_calls(content: Any, rng: random.Random) -> None:
    """Exchange a function for one of as many arguments, a value for another, a number for one near it, or a size."""
    calls = [one for one in content["calls"] if one["kind"] == "function"]
    kind = rng.randrange(5)
    call = rng.choice(calls)
    if kind == 0:
        _exchange_name(call, "name", "function", rng)
    elif kind == 1:  # what is computed before
        earlier = [one["id"] for one in [*content["inputs"], *calls] if one["id"] < call["id"]]
        references = [one["symbol"] for one in call["args"] if isinstance(one, dict) and "symbol" in one]
        if references:
            rng.choice(references)[:] = [rng.choice(earlier), 0]
    elif kind == 2:
        call["args"] = exchanged(call["args"], rng) if len(call["args"]) > 1 else call["args"]
    elif kind == 3:
        one = rng.choice(content["inputs"])
        one["shape"] = [rng.choice((1, 2, 3, 4, n)) if rng.random() < 0.5 else n for n in one["shape"]]
    else:
        content["outputs"][rng.randrange(len(content["outputs"]))] = [rng.choice(calls)["id"], 0]


def _exchange_name(call: Any, key: str, system: str, rng: random.Random) -> None:
    names = next((names for names in _NAMES[system] if call[key] in names), None)
    if names is not None:
        call[key] = rng.choice(names)


def _exchange_ops(content: Any, rng: random.Random) -> None:
    """Exchange an op for one of as many inputs, a value for one of its shape, an attribute, an output, or the form of
    the result."""
    graph = content["graph"]
    node = rng.choice(graph["nodes"])
    declared = graph["values"]
    kind = rng.randrange(6)
    if kind < 2:
        _exchange_name(node, "op", "op", rng)
    elif kind == 2:
        place = rng.randrange(len(node["inputs"]))
        spec = [declared[node["inputs"][place]][name] for name in ("shape", "dtype")]
        alike = [n for n, one in enumerate(declared) if [one["shape"], one["dtype"]] == spec]
        node["inputs"][place] = rng.choice(alike)
    elif kind == 3 and node["attrs"]:
        node["attrs"] = exchanged(node["attrs"], rng)
    elif kind == 4:
        graph["outputs"] = [rng.choice(graph["nodes"])["outputs"][0] for _ in graph["outputs"]]
    else:
        content["result"] = exchanged(content["result"], rng)


def _run_graph(graph: Any) -> Sequence[np.ndarray]:
    shapes = [[BATCH, *(n or OPEN_SIZE for n in one.input_node.shape)] for one in graph.inputs]
    if any(np.prod(shape, dtype=float) > MAX_ELEMENTS for shape in shapes):
        return []
    arguments = [
        sample(f"{k}", shape, str(one.input_node.dtype))
        for k, (shape, one) in enumerate(zip(shapes, graph.inputs, strict=True))
    ]
    results = [graph(*arguments) for _ in range(RUNS)]
    return [np.asarray(one) for result in results for one in (result if isinstance(result, list | tuple) else [result])]


def _run_function(function: Any) -> Sequence[np.ndarray]:
    specs = function._specs(BATCH if function._is_batched else None)
    if any(np.prod(spec.shape, dtype=float) > MAX_ELEMENTS for spec in specs):
        return []
    arguments = [sample("x", spec.shape, spec.dtype) for spec in specs]
    return [np.asarray(one) for _ in range(RUNS) for one in nested_values(function(*arguments))]


STATIC_GRAPH = FuzzFormat(
    "static_graph",
    ".h5",
    generator(_save_softmax_graph, _save_trained_graph, _save_graph_of_functions, exchange=_exchange_calls),
    lambda path: pt.Graph.load(str(path)),
    _run_graph,
    evaluate_graph,
)
COMPILED_FUNCTION = FuzzFormat(
    "compiled_function",
    ".h5",
    generator(_save_softmax_function, _save_counting_function, exchange=_exchange_ops),
    lambda path: pt.load_compiled(str(path)),
    _run_function,
    evaluate_function,
)
