"""Random metrics beside Keras over ragged batches, with sample weights and a reset in between."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
import torch

from prototorch import tensor
from prototorch.metrics import Metric
from prototorch.spec import Spec
from tests.keras_random.differences import differs
from tests.keras_random.draw import drawing, seeds
from tests.keras_random.targets import peer_options, random_output, random_target
from tests.nets.random_fields import drawn

# Keras adds up in float32: some dozen numbers of size 1
TOLERANCE = 3e-5

#: the targets of metrics that are losses: those of the loss of the same name
KINDS = {"CategoricalHinge": "one_hot", "CategoricalCrossentropy": "one_hot", "KLDivergence": "one_hot",
         "SparseCategoricalCrossentropy": "classes", "BinaryCrossentropy": "binary", "Hinge": "binary",
         "SquaredHinge": "binary"}  # fmt: skip


def metrics_of_both():
    """The metrics that Keras has by the same name."""
    left_out = {"MeanIoU"} if differs("MeanIoU reads the net's outputs") else set()
    return [cls for name, cls in Metric.members().items() if hasattr(keras.metrics, name) and name not in left_out]


def our_result(metric, batches):
    """The metric over the batches, from totals of zero."""
    states = {n: tensor(np.zeros(s.shape, s.dtype)) for n, s in metric.states(Spec(batches[0][1].shape)).items()}
    for target, output, weight in batches:
        states = metric.update(states, tensor(target), tensor(output), tensor(weight))
    return metric.result({name: value.numpy() for name, value in states.items()})


def keras_result(metric, batches, is_weighted):
    """The same by Keras."""
    metric.reset_state()
    for target, output, weight in batches:
        given = torch.tensor(weight) if is_weighted else None
        metric.update_state(torch.tensor(target), torch.tensor(output), given)
    return np.asarray(keras.ops.convert_to_numpy(metric.result()))


@pytest.mark.parametrize("seed", seeds(30, 300))
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_metric_is_keras(seed):
    with drawing("metrics", seed) as draw:
        classes = metrics_of_both()
        cls = classes[seed % len(classes)]
        peer = getattr(keras.metrics, cls.__name__)
        known = set(inspect.signature(peer.__init__).parameters)
        kind = KINDS.get(cls.__name__, cls.target_kind)
        plain = {n: None for n in ("label_weights", "thresholds") if n in cls.specs() and draw.chance(0.6)}
        fixed = {"axis": -1, "k": draw.integer(1, 4)}  # Keras on PyTorch wants k classes at least
        fixed = {n: v for n, v in fixed.items() if n in cls.specs()}
        if "ignore_class" in cls.specs() and differs("Ignored classes in a metric"):
            fixed["ignore_class"] = None
        metric = drawn(cls, draw.random, (4,), **plain, **fixed, name="")
        inner = draw.choice([(4,), (3, 4)]) if kind in ("values", "classes") else (4,)
        sizes = [5, 5, draw.integer(1, 4)]
        is_weighted = draw.chance()
        batches = []
        for n in [*sizes, *sizes[1:]]:
            output = random_output(draw, cls.__name__, getattr(metric, "from_logits", False), (n, *inner), kind)
            target = random_target(draw, kind, (n, *inner), getattr(metric, "ignore_class", None))
            weight = draw.uniform(0, 2, n) if is_weighted else np.ones(n, np.float32)
            batches.append((target, output, weight))
        draw.config |= {"metric": metric, "sizes": sizes, "is_weighted": is_weighted, "inner": inner}
        theirs = peer(**peer_options(metric, known))
        for part in (batches[:3], batches[3:]):  # the second after a reset
            a, b = our_result(metric, part), keras_result(theirs, part, is_weighted)
            np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)
