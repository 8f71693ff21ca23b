"""Staged unfreezing: against PyTorch's parameter groups, and resumed exactly."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import ModelFileError, ModelWarning, UsageError
from prototorch.model.load import model_from_text
from prototorch.train.training_state import check_training_state

NET = """
input { name: "x"  shape: [5] }
Dense { name: "stem/a"  units: 6  activation: tanh }
Dense { name: "stem/b"  units: 6  activation: tanh }
Dense { name: "head"  units: 3 }
"""
TEXT = (
    NET
    + """
compile { loss: mse  optimizer: Adam { learning_rate: 0.01 }  freeze: ["**", "!head"] }
fit {
  epochs: 6  batch_size: 16  shuffle: false
  callbacks: [Unfreeze { epoch: 2  layers: "stem/b" }, Unfreeze { epoch: 4  layers: ["stem/**"]  learning_rate: 0.002 }]
}
"""
)
X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)


def test_stages_are_those_of_parameter_groups_that_are_added_in_pytorch():
    """The slots of newly trained weights are new, and their own steps count in Adam's correction of the bias."""
    model = model_from_text(TEXT)
    model.build()
    w = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in model.weights.items()}
    history = model.fit(X, Y, verbose=0)
    step = torch.optim.Adam([w["head/kernel"], w["head/bias"]], lr=0.01)
    for epoch in range(6):
        if epoch == 2:
            step.add_param_group({"params": [w["stem/b/kernel"], w["stem/b/bias"]]})
        if epoch == 4:
            step.add_param_group({"params": [w["stem/a/kernel"], w["stem/a/bias"]]})
            for group in step.param_groups:
                group["lr"] = 0.002
        for start in range(0, 40, 16):
            x, y = torch.tensor(X[start : start + 16]), torch.tensor(Y[start : start + 16])
            for name in ("stem/a", "stem/b"):
                x = torch.tanh(x @ w[f"{name}/kernel"] + w[f"{name}/bias"])
            step.zero_grad()
            torch.nn.functional.mse_loss(x @ w["head/kernel"] + w["head/bias"], y).backward()
            step.step()
    for name, array in model.weights.items():
        # Keras' Adam adds epsilon before the correction of the bias, PyTorch's after it: 1 % of a step
        np.testing.assert_allclose(array, w[name].detach().numpy(), atol=1e-4, err_msg=name)
    assert history.history["learning_rate"] == [0.01] * 4 + [0.002] * 2


class SaveAt(pt.Callback):
    """Saves the model at each epoch's begin and end, and after its first step."""

    def __init__(self, folder):
        self.folder = folder

    def save(self, name):
        if self.folder is not None:
            self.model.trainer.defer(lambda: self.model.save(self.folder / f"{name}.h5"))

    def on_epoch_begin(self, epoch, logs=None):
        self.save(f"begin{epoch}")

    def on_train_batch_end(self, batch, logs=None):
        if batch == 0:
            self.save(f"middle{self.model.trainer.epoch}")

    def on_epoch_end(self, epoch, logs=None):
        if epoch < 5:
            self.save(f"end{epoch}")


def test_a_training_is_resumed_exactly_before_at_and_after_each_stage(tmp_path):
    model = model_from_text(TEXT)
    model.fit(X, Y, verbose=0, callbacks=[*model.fit_block.callbacks, SaveAt(tmp_path)])
    files = sorted(tmp_path.iterdir())
    assert len(files) == 17
    for file in files:
        resumed = pt.load_model(file)
        assert resumed.to_text() == model.to_text()
        resumed.fit(X, Y, verbose=0, callbacks=[*resumed.fit_block.callbacks, SaveAt(None)], resume=True)
        for name, array in model.variables.items():
            np.testing.assert_array_equal(resumed.variables[name], array, err_msg=f"{file.name}: {name}")


def test_a_saved_model_stays_unfrozen(tmp_path):
    model = model_from_text(TEXT)
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "model.h5")
    again = pt.load_model(tmp_path / "model.h5")
    for one in (model, again):
        one.fit(X, Y, verbose=0, epochs=1, callbacks=[])
    for name, array in model.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)


def test_layers_that_say_trainable_false_are_unfrozen_too():
    model = model_from_text(NET.replace('name: "stem/a"', 'name: "stem/a"  trainable: false'))
    model.compile("adam", "mse")
    before = model.get_weights()
    model.fit(X, Y, verbose=0)
    assert np.array_equal(model.weights["stem/a/kernel"], before["stem/a/kernel"])
    model.fit(X, Y, verbose=0, epochs=2, callbacks=pt.callbacks.Unfreeze(1, "stem"))
    assert not np.array_equal(model.weights["stem/a/kernel"], before["stem/a/kernel"])


def test_an_unfrozen_normalization_is_trained():
    text = 'input { name: "x"  shape: [5] }  BatchNormalization { name: "norm" }  Dense { name: "head"  units: 3 }'
    model = model_from_text(text)
    model.compile("sgd", "mse", freeze="norm")
    model.fit(X, Y, verbose=0)
    assert not model.weights["norm/moving_mean"].any()
    model.fit(X, Y, verbose=0, epochs=2, callbacks=pt.callbacks.Unfreeze(epoch=1, layers=["norm"], verbose=1))
    assert model.weights["norm/moving_mean"].all()


def test_a_custom_callback_may_unfreeze_in_the_middle_of_an_epoch():
    model = model_from_text(TEXT)
    changed = []

    def unfreeze(batch, logs):
        if batch == 1:
            model.unfreeze("stem/b/bias")
        changed.append(bool(model.weights["stem/b/bias"].any()))

    model.fit(X, Y, verbose=0, epochs=1, callbacks=pt.callbacks.LambdaCallback(on_train_batch_end=unfreeze))
    assert changed == [False, False, True]


def test_what_it_does_is_announced(capsys):
    model = model_from_text(TEXT)
    unfreeze = pt.callbacks.Unfreeze(1, ["stem/b"], learning_rate=0.5, verbose=1)
    model.fit(X, Y, verbose=0, epochs=2, callbacks=unfreeze)
    assert capsys.readouterr().err == "Unfreeze: epoch 2: trains stem/b; the learning rate is 0.5\n"


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("stme/**", r"'stme/\*\*' matches no layer or weight\. Did you mean 'stem'\?"),
        ("head", "nothing that 'head' matches is frozen"),
    ],
)
def test_a_pattern_without_effect_is_an_error_before_the_first_step(layers, message):
    model = model_from_text(TEXT)
    with pytest.raises(UsageError, match=message):
        model.fit(X, Y, verbose=0, callbacks=pt.callbacks.Unfreeze(1, layers))
    assert model.trainer.step == 0


def test_an_epoch_that_is_never_reached_is_a_warning():
    model = model_from_text(TEXT)
    with pytest.warns(ModelWarning, match=r"Unfreeze \{ epoch: 3 \} has no effect: the fit ends after 3 epochs"):
        model.fit(X, Y, verbose=0, epochs=3, callbacks=pt.callbacks.Unfreeze(3, "stem"))


def test_negated_patterns_are_refused():
    with pytest.raises(UsageError, match="a pattern with ! has no meaning here"):
        pt.callbacks.Unfreeze(1, ["**", "!head"])


@pytest.mark.parametrize(
    "entry",
    [
        {"pattern": "stem", "step": 99},
        {"pattern": "[z-a]", "step": 1},
        {"pattern": "x" * 2000, "step": 1},
        {"pattern": 3, "step": 1},
        {"step": 1},
        {"pattern": "stem", "step": -1},
    ],
    ids=str,
)
def test_a_saved_state_that_cannot_be_one_is_refused(entry):
    state = {"step": 3, "passes": 1, "set_rate": None, "fit": None, "unfrozen": [entry]}
    with pytest.raises(Exception, match="unfrozen") as error:
        check_training_state(state, {}, 0)
    assert not isinstance(error.value, AssertionError | KeyError | TypeError | ModelFileError)
