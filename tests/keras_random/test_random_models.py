"""Random nets beside Keras: predictions, the losses of some steps, and the weights and statistics after them."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import prototorch as pt
from tests.keras_random.draw import drawing, seeds
from tests.keras_random.twin_nets import BATCH, give_weights, random_net, weight_pairs

#: float32 through some ten layers and three steps
TOLERANCE = 2e-3
pytestmark = pytest.mark.filterwarnings("ignore")


def assert_close(ours, theirs, name):
    """Equal up to rounding, relative to the largest element."""
    scale = max(1.0, float(np.abs(theirs).max(initial=0)))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale, err_msg=name)


@pytest.mark.parametrize("seed", seeds(12, 120))
def test_net_is_keras(seed, monkeypatch):
    if seed % 4:  # the others compile native kernels, which takes longer than they run
        monkeypatch.setenv("PROTOTORCH_CPU", "numpy")
    with drawing("nets", seed) as draw:
        net = random_net(draw)
        model, peer, names = net.models()
        x = [draw.normal(BATCH, *value.shape) for value in net.inputs]
        for array in x:
            if array.ndim == 3:  # steps that a mask leaves out
                array[np.arange(array.shape[1]) >= draw.rng.integers(1, array.shape[1] + 1, (BATCH, 1))] = 0
        y = dict(zip(names, [draw.normal(BATCH, *out.shape[1:]) for out in peer.outputs], strict=True))
        model.compile(pt.optimizers.SGD(0.02), dict.fromkeys(names, "mse"))
        peer.compile(keras.optimizers.SGD(0.02), dict.fromkeys(names, "mse"))
        given = x if len(x) > 1 else x[0]
        ours = model.predict(given)
        give_weights(model, net)
        theirs = peer.predict(given, verbose=0)
        ours = [ours[n] for n in names] if isinstance(ours, dict) else [ours]
        for name, a, b in zip(names, ours, theirs if isinstance(theirs, list) else [theirs], strict=True):
            assert_close(a, b, name)
        targets, their_targets = (y, list(y.values())) if len(names) > 1 else (y[names[0]], y[names[0]])
        for step in range(3):
            mine = model.train_on_batch(given, targets)
            loss = peer.train_on_batch(given, their_targets, return_dict=True)["loss"]
            peer.reset_metrics()
            assert_close(mine["loss"], loss, f"loss of step {step}")
        for name, variable, _, back in weight_pairs(model, net):
            array = np.array(model.weights[name])
            assert_close(array, back(variable.value.detach().numpy()).reshape(array.shape), name)
