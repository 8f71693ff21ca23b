"""Random scenarios of compile and fit: the same small net, data and arguments for both libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.keras_random.differences import differs
from tests.keras_random.draw import Draw

#: by the kind of an output: its losses (a class, its arguments), metrics of it, its activation and its units
HEADS: dict[str, tuple[list[tuple[str, dict[str, Any]]], list[str]]] = {
    "classes": ([("SparseCategoricalCrossentropy", {"from_logits": True})],
                ["accuracy", "sparse_categorical_accuracy"]),
    "one_hot": ([("CategoricalCrossentropy", {"from_logits": True}),
                 ("CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1})],
                ["accuracy", "categorical_accuracy", "mse"]),
    "binary": ([("BinaryCrossentropy", {}), ("BinaryCrossentropy", {"label_smoothing": 0.2})],
               ["accuracy", "binary_accuracy", "mse"]),
    "values": ([("MeanSquaredError", {}), ("Huber", {"delta": 0.5}), ("MeanAbsoluteError", {}), ("LogCosh", {})],
               ["mae", "mse", "cosine_similarity"]),
}  # fmt: skip
ACTIVATIONS = {"binary": "sigmoid"}


@dataclass
class Head:
    """An output: its name, the kind of its targets, its units, its loss and its metrics."""

    name: str
    kind: str
    units: int
    loss: tuple[str, dict[str, Any]]
    metrics: list[str]
    weighted_metrics: list[str]
    weight: float

    @property
    def activation(self) -> str:
        """The activation of its layer."""
        return ACTIVATIONS.get(self.kind, "linear")


@dataclass
class FitCase:
    """A net of one hidden layer (before it a recurrent one, where the input is a sequence) with one head or several.

    per_step: whether there is an output for each step, which a mask may leave out. penalty: the hidden layer's
    regularizer.
    """

    heads: list[Head]
    units: int
    steps: int | None
    optimizer: tuple[str, dict[str, Any]]
    arguments: dict[str, Any]
    x: np.ndarray
    y: dict[str, np.ndarray]
    validation: tuple[np.ndarray, dict[str, np.ndarray], Any] | None
    weight: np.ndarray | None = None
    per_step: bool = False
    penalty: str | None = None


def draw_fit_case(draw: Draw) -> FitCase:
    """A random scenario; see `FitCase`."""
    names = ["output"] if draw.chance(0.6) else ["first", "second"]
    heads = [_head(draw, name) for name in names]
    n = draw.integer(7, 24)
    steps = draw.integer(2, 4) if draw.chance(0.35) else None
    per_step = steps is not None and draw.chance() and all(head.kind in ("classes", "values") for head in heads)
    x, y = _data(draw, heads, n, steps, per_step)
    arguments: dict[str, Any] = {"epochs": draw.integer(1, 3), "batch_size": draw.integer(2, 9), "shuffle": False}
    validation = None
    kind = draw.choice(["none", "split", "data", "data", "weighted data"])
    if kind == "split":
        arguments["validation_split"] = draw.choice([0.2, 0.34, 0.5])
    elif kind != "none":
        count = draw.integer(3, 9)
        validation = (
            *_data(draw, heads, count, steps, per_step),
            draw.uniform(0.1, 2, count) if "w" in kind and not per_step else None,
        )
    if kind != "none":
        arguments |= draw.subset({"validation_freq": 2}, 0.2)
        if kind != "split":
            arguments |= draw.subset({"validation_batch_size": draw.integer(1, 4)}, 0.3)
    if draw.chance(0.2):
        arguments["initial_epoch"] = draw.integer(0, arguments["epochs"] - 1)
    if draw.chance(0.2):
        count = int(n * (1 - arguments.get("validation_split", 0)))
        batches = -(-count // arguments["batch_size"])
        is_whole = differs("An epoch beyond the end of the data")
        arguments["steps_per_epoch"] = draw.choice([k for k in (1, 2, 3) if batches % k == 0 or not is_whole])
    weight = draw.uniform(0, 2, n) if draw.chance(0.3) else None
    if per_step:
        weight = None  # Keras does not join weights [batch] with a mask [batch, time]
    elif weight is None and len(heads) == 1 and heads[0].kind in ("classes", "one_hot") and draw.chance(0.4):
        arguments["class_weight"] = {i: draw.number(0.1, 3) for i in range(heads[0].units)}
    rate = draw.choice([0.01, 0.1])
    optimizer = draw.choice([("SGD", {"learning_rate": rate}), ("SGD", {"learning_rate": rate, "momentum": 0.9}),
                             ("Adam", {"learning_rate": rate}), ("RMSprop", {"learning_rate": rate})])  # fmt: skip
    penalty = draw.choice([None, None, "l1", "l2"])
    case = FitCase(heads, draw.integer(2, 4), steps, optimizer, arguments, x, y, validation, weight, per_step, penalty)
    draw.config |= {
        "heads": heads,
        "optimizer": optimizer,
        "samples": n,
        "steps of a sequence": steps,
        "per step": per_step,
        "penalty": penalty,
        "arguments": arguments,
        "validation": kind,
        "sample_weight": weight,
    }
    return case


def _head(draw: Draw, name: str) -> Head:
    kind = draw.choice(list(HEADS))
    losses, metrics = HEADS[kind]
    units = {"binary": 1, "values": draw.integer(1, 3)}.get(kind, draw.integer(2, 4))
    picked = [m for m in metrics if draw.chance(0.4)]
    if kind == "values" and units == 1:
        picked = [m for m in picked if m != "cosine_similarity"]
    weighted = [m for m in metrics if draw.chance(0.2) and (units > 1 or m != "cosine_similarity")]
    return Head(name, kind, units, draw.choice(losses), picked, weighted, draw.choice([1.0, 0.3, 2.0]))


def _data(
    draw: Draw, heads: list[Head], n: int, steps: int | None, per_step: bool
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    x = draw.normal(n, *([] if steps is None else [steps]), 3)
    if steps is not None:  # steps at the end that a mask leaves out
        count = draw.rng.integers(1, steps + 1, n)
        x *= (np.arange(steps) < count[:, None])[..., None]
    y = {}
    for head in heads:
        shape = (n, steps) if per_step and steps is not None else (n,)
        labels = draw.rng.integers(0, head.units, shape)
        y[head.name] = {
            "classes": labels,
            "one_hot": np.eye(head.units, dtype=np.float32)[labels],
            "binary": draw.rng.integers(0, 2, (n, 1)).astype(np.float32),
            "values": draw.normal(*shape, head.units),
        }[head.kind]
    return x, y


def compared_names(history: dict[str, Any]) -> dict[str, Any]:
    """The logs that both have."""
    left_out = {"learning_rate"} if differs("The learning rate in the logs") else set()
    return {name: values for name, values in history.items() if name not in left_out}
