"""Watched kernels find the largest magnitude that they store, in whole training steps of shipped models."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.guarded_updates import GuardedUpdates
from prototorch.engine.backends.watching import magnitude_of_bits
from prototorch.graph.probe import probe_specs
from prototorch.train.nan_diagnosis import raise_if_not_finite
from prototorch.train.step_inputs import TRAIN
from prototorch.train.synthetic_batch import make_synthetic_batch


@pytest.mark.parametrize("name", ["two_layer", "lenet", "resnet20", "lstm_classifier", "transformer", "seq2seq"])
def test_the_magnitudes_of_a_step_are_those_of_its_arrays(name, monkeypatch):
    model = pt.load_model(name)
    cache, specs = model.trainer.plan_cache, probe_specs(model.net, 4)
    executor = cache.executor(TRAIN, specs)
    guarded = executor._guarded_updates
    largest = []

    def compare(self):
        watched = [self._plan.steps[i].outputs[j] for i, js in self._watch.values.items() for j in js]
        arrays = [executor._buffers.array(b) for b in watched]
        largest.extend([magnitude_of_bits(self._value_bits.item()), max(float(np.abs(a).max()) for a in arrays)])
        return are_certain(self)

    are_certain = GuardedUpdates._are_certain
    monkeypatch.setattr(GuardedUpdates, "_are_certain", compare)
    executor(make_synthetic_batch(cache, executor.plan, specs), raise_if_not_finite)
    stored, expected = largest
    assert expected > 0
    assert expected <= stored < 100 * expected  # sums that a kernel stores before they are complete count
    watched_names = [executor.plan.steps[i].outputs[j].name for i, js in guarded._watch.states.items() for j in js]
    states = max(float(np.abs(cache.variables.borrow(n)).max()) for n in watched_names if n in guarded._names)
    assert states == magnitude_of_bits(guarded._state_bits.item())
