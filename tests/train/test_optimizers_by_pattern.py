"""Several optimizers, each for its own weights: against PyTorch's, resumed bit for bit, and mistakes."""

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import TextError, UsageError
from prototorch.model.load import model_from_text
from tests.cuda.fake.fake_gpu import assert_same_weights, fake_backend, reference_cpu, use_backend

NET = """
input { name: "x"  shape: [5] }
Dense { name: "stem/a"  units: 6  activation: tanh }
Dense { name: "stem/b"  units: 4  activation: tanh }
Dense { name: "head"  units: 2 }
"""
TWO = """compile {
  loss: mse
  optimizer { layers: "stem/**"  type: Adam { learning_rate: ExponentialDecay {
    initial_learning_rate: 0.02  decay_steps: 3  decay_rate: 0.5 } } }
  optimizer { layers: "head"  type: SGD { learning_rate: 0.1  momentum: 0.9  global_clipnorm: 0.5 } }
}
"""
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(48, 5)).astype(np.float32), RNG.normal(size=(48, 2)).astype(np.float32)


def torch_losses(weights, steps, batch):
    """The losses of the training in PyTorch, in the order of the data."""
    w = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    stem, head = ([v for n, v in w.items() if n.startswith(part)] for part in ("stem", "head"))
    adam = torch.optim.Adam(stem, 0.02, eps=1e-7)
    decay = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: 0.5 ** (step / 3))
    sgd = torch.optim.SGD(head, 0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        rows = slice(step * batch % 48, step * batch % 48 + batch)
        h = torch.tensor(X[rows])
        for name in ("stem/a", "stem/b"):
            h = torch.tanh(h @ w[f"{name}/kernel"] + w[f"{name}/bias"])
        loss = ((h @ w["head/kernel"] + w["head/bias"] - torch.tensor(Y[rows])) ** 2).mean()
        adam.zero_grad()
        sgd.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head, 0.5)  # the norm of this optimizer's gradients alone
        adam.step()
        sgd.step()
        decay.step()
        losses.append(loss.item())
    return losses


def train(model, epochs=3, **options):
    return model.fit(X, Y, batch_size=12, epochs=epochs, shuffle=False, verbose=0, **options)


def test_each_weight_is_trained_by_its_optimizer():
    model = model_from_text(NET + TWO)
    expected = torch_losses(model.get_weights(), 12, 12)
    history = train(model).history
    np.testing.assert_allclose(history["loss"], np.reshape(expected, (3, 4)).mean(1), rtol=1e-4)
    assert history["head_learning_rate"] == [0.1] * 3
    np.testing.assert_allclose(history["stem_learning_rate"], 0.02 * 0.5 ** (np.array([4, 8, 12]) / 3))
    assert "learning_rate" not in history


@pytest.mark.parametrize(
    "optimizer",
    [
        {"stem/**": pt.optimizers.SGD(0.1), "head": "adam"},
        [("stem/**", pt.optimizers.SGD(0.1)), (["head"], "adam")],
        [{"layers": "stem/**", "type": pt.optimizers.SGD(0.1)}, {"layers": "head", "type": "adam"}],
    ],
)
def test_python_gives_them_by_pattern(optimizer):
    model = model_from_text(NET)
    model.compile(optimizer, "mse")
    assert {name: type(one).__name__ for name, one in model.optimizers.items()} == {"stem": "SGD", "head": "Adam"}
    assert dict(model.learning_rates) == {"stem": 0.1, "head": 0.001}
    text = model.to_text()
    assert model_from_text(text).compile_block.optimizer == model.compile_block.optimizer


def test_one_optimizer_is_called_as_ever():
    model = model_from_text(NET)
    model.compile(pt.optimizers.SGD(0.1), "mse")
    assert model.learning_rate == 0.1
    assert dict(model.learning_rates) == {"optimizer": 0.1}
    model.learning_rates["optimizer"] = 0.2
    assert model.learning_rate == 0.2
    assert model.optimizer == pt.optimizers.SGD(0.1)


def test_a_rate_that_was_set_is_saved_and_the_training_goes_on_bit_for_bit(tmp_path):
    class Save(pt.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.trainer.step == 6:
                self.model.learning_rates["head"] = 0.03
            if self.model.trainer.step == 7:
                self.model.save(tmp_path / "seven.h5")

    model = model_from_text(NET + TWO)
    train(model, callbacks=[Save()])
    resumed = pt.load_model(tmp_path / "seven.h5")
    assert resumed.learning_rates["head"] == 0.03
    train(resumed, callbacks=[Save()])
    assert resumed.trainer.step == 12
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(resumed.get_weights()[name], array)
    assert resumed.history.history == model.history.history


def test_on_a_device_it_is_the_training_of_the_cpu():
    models = []
    for backend in (reference_cpu(), fake_backend()):
        with use_backend(backend):
            model = model_from_text(NET + TWO)
            train(model)
        models.append(model)
    assert_same_weights(*models)


def test_accumulated_gradients_and_averages_are_per_optimizer():
    text = (
        NET
        + """compile { loss: mse
      optimizer { layers: "stem/**"  type: SGD { learning_rate: 0.1  gradient_accumulation_steps: 2  use_ema: true } }
      optimizer { layers: "head"  type: SGD { learning_rate: 0.1  gradient_accumulation_steps: 2 } } }"""
    )
    model = model_from_text(text)
    train(model, epochs=1)
    slots = {name for name in model.trainer.plan_cache.variables if name.endswith(":average")}
    assert {name.split(":")[1].split("/")[0] for name in slots} == {"stem"}


def test_callbacks_say_which():
    model = model_from_text(NET + TWO[: TWO.index("ExponentialDecay")] + "0.02 } }" + TWO[TWO.index(" } } }") + 6 :])
    plateau = pt.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=100.0, optimizer="head")
    schedule = pt.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 2, optimizer="stem")
    history = train(model, callbacks=[plateau, schedule]).history
    assert history["stem_learning_rate"] == pytest.approx([0.04, 0.08, 0.16])
    assert model.learning_rates["head"] < 0.1
    both = pt.callbacks.LearningRateScheduler(lambda epoch: 0.01)
    train(model, epochs=1, callbacks=[both], resume=False)
    assert dict(model.learning_rates) == {"stem": 0.01, "head": 0.01}
    for callback in (
        pt.callbacks.ReduceLROnPlateau("loss", optimizer="haed"),
        pt.callbacks.LearningRateScheduler(lambda epoch: 0.1, optimizer="haed"),
        pt.callbacks.Unfreeze(0, "head", optimizer="haed"),
    ):
        with pytest.raises(UsageError, match=r"no optimizer named 'haed'; there are stem, head. Did you mean 'head'"):
            train(model, callbacks=[callback])


def test_the_one_rate_of_two_optimizers_is_refused():
    model = model_from_text(NET + TWO)
    for use in (lambda: model.learning_rate, lambda: setattr(model, "learning_rate", 0.1)):
        with pytest.raises(UsageError, match=r"has 2 optimizers, stem, head: write model.learning_rates\['stem'\]"):
            use()
    with pytest.raises(UsageError, match=r"2 optimizers: write model.optimizers\['stem'\]"):
        model.optimizer  # noqa: B018
    with pytest.raises(UsageError, match="must be a number of at least 0, not -1"):
        model.learning_rates["stem"] = -1


STEM = 'optimizer { layers: "stem/**"  type: sgd }'
MISTAKES = {
    "a pattern that matches nothing": (
        f'{STEM} optimizer {{ layers: "haed"  type: sgd }}',
        "'haed' matches no layer or weight. Did you mean 'head'",
    ),
    "a weight without an optimizer": (
        STEM,
        "the weight 'head/(kernel|bias)' has no optimizer: they train stem: stem/\\*\\*; add it.*freeze: 'head'",
    ),
    "a weight with two": (
        f'{STEM} optimizer {{ layers: ["head", "**/bias"]  type: sgd }}',
        r"'stem/a/bias' has two optimizers: 'stem' \(.*:\d+:\d+\), by stem/\*\*, and 'head', by head, \*\*/bias; take",
    ),
    "two of one name": (
        f'{STEM} optimizer {{ layers: "stem/b"  name: "stem"  type: sgd }}',
        "two optimizers are called 'stem': give one of them a name",
    ),
    "one without layers beside others": (
        f"{STEM} optimizer: adam",
        "trains all weights, and there are other optimizers",
    ),
    "two without layers": ("optimizer: adam optimizer: sgd", "has 2 values, and one optimizer trains all weights"),
    "no type": ('optimizer { layers: "**" }', "optimizer needs 'type'"),
    "no layers": ('optimizer { name: "a"  type: sgd }', "optimizer needs 'layers'"),
    "accumulation that differs": (
        'optimizer { layers: "stem/**"  type: SGD { gradient_accumulation_steps: 2 } } '
        'optimizer { layers: "head"  type: sgd }',
        "gradient_accumulation_steps is 2 in the optimizer 'stem' and 1 in 'head'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_both_sides(name):
    text, message = MISTAKES[name]
    with pytest.raises((TextError, UsageError), match=message):
        model_from_text(f"{NET}compile {{ loss: mse  {text} }}").trainer  # noqa: B018


@pytest.mark.parametrize("optimizer", [[], [3], {"head": 3}, [("head", "adam", 1)]])
def test_python_arguments_that_are_none(optimizer):
    with pytest.raises(UsageError):
        model_from_text(NET).compile(optimizer, "mse")


def test_a_frozen_layer_needs_no_optimizer_until_it_is_trained():
    model = model_from_text(NET + f'compile {{ loss: mse  freeze: "head"  {STEM} }}')
    train(model, epochs=1)
    with pytest.raises(UsageError, match=r"'head/(kernel|bias)' has no optimizer"):
        train(model, callbacks=[pt.callbacks.Unfreeze(1, "head")])
