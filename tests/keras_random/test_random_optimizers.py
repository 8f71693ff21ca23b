"""Random optimizers beside Keras over many steps: methods, schedules, clipping, weight decay, moving averages."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest

from prototorch.optimizers import Optimizer
from prototorch.optimizers.schedules import CosineDecayRestarts, Schedule
from tests.keras_random.differences import differs
from tests.keras_random.draw import drawing, seeds
from tests.keras_random.targets import peer_options
from tests.nets.random_fields import drawn
from tests.optimizers.sides import keras_steps, planned_steps

STEPS = 12
# float32: a dozen steps of a few roundings each; beta ** step, and the rates of schedules, are float32 in Keras
TOLERANCE = 2e-4
CLIPS = ("clipnorm", "clipvalue", "global_clipnorm")


def of_both(family, module):
    """The classes that Keras has by the same name."""
    return [cls for name, cls in family.members().items() if hasattr(module, name)]


def random_schedule(draw, cls, **fixed):
    """A random schedule with those of the values whose fields it has; fields that Keras lacks stay as they are."""
    known = set(inspect.signature(getattr(keras.optimizers.schedules, cls.__name__).__init__).parameters)
    fixed |= {n: p.default for n, p in inspect.signature(cls).parameters.items() if n not in known}
    return drawn(cls, draw.random, **{n: v for n, v in fixed.items() if n in cls.specs()})


def random_optimizer(draw, cls):
    """An optimizer with at most one way of clipping, and a rate that may follow a schedule."""
    known = set(inspect.signature(getattr(keras.optimizers, cls.__name__).__init__).parameters)
    rate: Any = draw.number(0.001, 0.05)
    if draw.chance(0.4):
        schedules = of_both(Schedule, keras.optimizers.schedules)
        values = [draw.number(0.001, 0.05) for _ in range(draw.integer(2, 4))]
        steps = sorted(draw.rng.choice(np.arange(1, STEPS), len(values) - 1, replace=False).tolist())
        rate = random_schedule(draw, draw.choice(schedules), boundaries=steps, values=values)
        if isinstance(rate, CosineDecayRestarts) and differs("Restarts of CosineDecayRestarts"):
            rate = rate.replace(t_mul=2.0)
    clip = draw.choice((*CLIPS, None))
    fixed = {n: None for n in CLIPS if n != clip} | ({clip: draw.choice([0.1, 1.0])} if clip else {})
    fixed |= {n: p.default for n, p in inspect.signature(cls).parameters.items() if n not in known}  # l1, l2, ...
    fixed["gradient_accumulation_steps"] = None  # the trainer's part: tests/train/test_gradient_accumulation.py
    ema = {"use_ema": draw.chance(0.4), "ema_overwrite_frequency": draw.choice([None, 1, 3])}
    if not ema["use_ema"]:
        ema["ema_overwrite_frequency"] = None
    if cls.__name__ == "AdamW":
        fixed["weight_decay"] = draw.number(0, 0.1)  # Keras wants a number
    return drawn(cls, draw.random, learning_rate=rate, **fixed, **ema), known


def keras_optimizer(optimizer, known):
    """Keras' optimizer with the same fields."""
    options = peer_options(optimizer, known)
    rate = options["learning_rate"]
    if isinstance(rate, Schedule):
        peer = getattr(keras.optimizers.schedules, type(rate).__name__)
        names = set(inspect.signature(peer.__init__).parameters)
        options["learning_rate"] = peer(**peer_options(rate, names))
    return getattr(keras.optimizers, type(optimizer).__name__)(**options)


# Keras' own Nadam for PyTorch hands tensors to NumPy in a way NumPy warns about
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("seed", seeds(20, 300))
def test_optimizer_is_keras(seed):
    with drawing("optimizers", seed) as draw:
        classes = of_both(Optimizer, keras.optimizers)
        optimizer, known = random_optimizer(draw, classes[seed % len(classes)])
        shapes = {"dense/kernel": draw.integers(2, 1, 5), "dense/bias": draw.integers(1, 1, 5), "scale": ()}
        start = {n: np.asarray(draw.normal(*shape)) for n, shape in shapes.items()}
        size = draw.choice([0.01, 1.0, 30.0])
        gradients = [
            {n: np.asarray(draw.normal(*s) * np.float32(size), np.float32) for n, s in shapes.items()}
            for _ in range(STEPS)
        ]
        draw.config |= {"optimizer": optimizer, "shapes": shapes, "size of gradients": size}
        want, averages = keras_steps(keras_optimizer(optimizer, known), start, gradients)
        states = planned_steps(optimizer, start, gradients)
        for n in start:
            np.testing.assert_allclose(states[n], want[n], rtol=TOLERANCE, atol=TOLERANCE, err_msg=n)
            if averages is not None:
                slots = {k.split(":")[1]: v for k, v in states.items() if k.startswith(n + ":")}
                average = optimizer.final_value(slots)
                np.testing.assert_allclose(average, averages[n], rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{n} average")
