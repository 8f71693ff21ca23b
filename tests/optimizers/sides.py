"""Steps of an optimizer on given gradients: as a plan, as the trainer makes it, and by Keras."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import torch

from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.graph.weight_spec import WeightSpec
from prototorch.initializers import Zeros
from prototorch.ops.core import use_interpreter
from prototorch.optimizers import Optimizer
from prototorch.optimizers.schedules import Schedule
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

Arrays = dict[str, np.ndarray]


def weight(name: str, shape: tuple[int, ...], **extra: Any) -> WeightSpec:
    """A weight of this shape."""
    return WeightSpec(name, Spec(shape), Zeros(), (1, 1), **extra)


def keras_steps(optimizer: Any, start: Arrays, gradients: list[Arrays]) -> tuple[Arrays, Arrays | None]:
    """The weights after the steps, and their moving averages if Keras' optimizer keeps them."""
    variables = [keras.Variable(v, name=n.replace("/", "_")) for n, v in start.items()]
    optimizer.build(variables)
    for grads in gradients:
        optimizer.apply([torch.tensor(g) for g in grads.values()], variables)
    values = {n: v.value.detach().numpy() for n, v in zip(start, variables, strict=True)}
    if optimizer.use_ema:
        averages = optimizer._model_variables_moving_average
        return values, {n: v.value.detach().numpy() for n, v in zip(start, averages, strict=True)}
    return values, None


def planned_steps(optimizer: Optimizer, start: Arrays, gradients: list[Arrays], **extra: Any) -> Arrays:
    """Runs of one plan: weights and slots (``weight:slot``) are states, whose last values are returned."""
    graph, updates, states = Graph(), {}, {}
    rate, step = graph.input("rate", Spec(())), graph.input("step", Spec((), "int64"))
    given = {n: graph.input(f"grad:{n}", Spec(v.shape)) for n, v in start.items()}
    with use_interpreter(graph):
        clipped = optimizer.clip(list(given.values()))
        for (n, first), grad in zip(start.items(), clipped, strict=True):
            value, w = graph.state(n, Spec(first.shape)), weight(n, first.shape, **extra)
            states[n] = first.copy()
            slots = {}
            for slot, array in optimizer.initial_slots(w).items():
                full = f"{n}:{slot}"
                states[full] = np.array(array)
                slots[slot] = graph.state(full, Spec(array.shape, str(array.dtype)))
            new, made = optimizer.apply(value, grad, slots, rate, step, w)
            updates[n] = new
            assert set(made) == set(slots)
            updates.update({slots[k].name: v for k, v in made.items()})
    run = make_executor(make_plan(graph, {}, updates), cpu(), states)
    for t, grads in enumerate(gradients):
        lr = optimizer.learning_rate
        lr = lr.value(t) if isinstance(lr, Schedule) else lr
        run({"rate": np.float32(lr), "step": np.int64(t + 1), **{f"grad:{n}": g for n, g in grads.items()}})
    return states
