"""What is random in training is drawn anew in every step and every epoch, and is the same again with the same seed."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.train.batch_feeder import BatchFeeder

STEPS = 6
LAYERS = [
    "Dropout { rate: 0.5 }", "SpatialDropout2D { rate: 0.5 }", "GaussianNoise { stddev: 1 }",
    "GaussianDropout { rate: 0.5 }", "AlphaDropout { rate: 0.5 }", "RandomFlip { }", "RandomRotation { factor: 0.2 }",
]  # fmt: skip


@pytest.fixture
def losses_of(tmp_path):
    """The loss of each epoch of one step each, on the same samples with weights that do not change: only what is drawn
    makes them differ."""

    def fit(layers, seed=0):
        path = tmp_path / "net.proto"
        path.write_text(
            f'name: "net"\ninput {{ name: "x"  shape: [3, 8, 8] }}\n{layers}\nFlatten {{ }}\nDense {{ units: 1 }}\n'
        )
        model = pt.load_model(path)
        model.compile(pt.optimizers.SGD(learning_rate=0.0), "mse", seed=seed)
        x = np.random.default_rng(0).normal(size=(16, 3, 8, 8)).astype(np.float32)
        history = model.fit(x, np.zeros((16, 1), np.float32), epochs=STEPS, batch_size=16, shuffle=False, verbose=0)
        return history.history["loss"]

    return fit


@pytest.mark.parametrize("layer", LAYERS)
def test_every_step_draws_anew(losses_of, layer):
    losses = losses_of(layer)
    assert len(set(losses)) == STEPS
    assert losses_of(layer) == losses
    assert losses_of(layer, seed=1) != losses


@pytest.mark.parametrize("in_the_step", [False, True])
def test_every_epoch_augments_anew(losses_of, monkeypatch, in_the_step):
    """Whether the loader's threads or the step itself does it (as on a GPU)."""
    monkeypatch.setattr(BatchFeeder, "_can_preprocess_on_device", lambda self, has_loader: in_the_step)
    augment = "augment { RandomFlip { }  RandomTranslation { height_factor: 0.3  width_factor: 0.3 } }"
    losses = losses_of(augment)
    assert len(set(losses)) == STEPS
    assert losses_of(augment) == losses
    assert losses_of(augment, seed=1) != losses
