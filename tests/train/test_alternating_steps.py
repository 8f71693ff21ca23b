"""Trainings of alternating steps: a Wasserstein GAN against PyTorch's, resumed between any two steps, and mistakes."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.cli.main import main
from prototorch.errors import ModelWarning, TextError, TrainingError, UsageError
from prototorch.model.load import model_from_text
from tests.cuda.fake.fake_gpu import assert_same_weights, fake_backend, reference_cpu, use_backend

WGAN = (Path(__file__).resolve().parents[2] / "examples" / "generative" / "wgan.proto").read_text("utf-8")
LAYERS = ("generator/hidden_1", "generator/hidden_2", "generator/point")
CRITIC = ("critic/hidden_1", "critic/hidden_2", "critic/score")
X = np.random.default_rng(0).normal(size=(144, 2)).astype(np.float32)


def wgan():
    return model_from_text(WGAN)


def train(model, epochs=1, **options):
    return model.fit(X, batch_size=16, epochs=epochs, shuffle=False, verbose=0, **options)


def noise_of(model, step):
    """What the net's Noise layer draws in a step of 16 samples."""
    name = next(node.name for node in model.net.nodes if isinstance(node.layer, pt.layers.Noise))
    alone = model_from_text(f'input {{ name: "point"  shape: [2] }}  Noise {{ name: "{name}"  shape: [4] }}')
    alone.trainer.step = step
    return torch.tensor(alone.predict_on_batch(X[:16]))


def torch_training(model, steps):
    """Name and loss of each step of the same training in PyTorch, and the weights after it."""
    w = {name: torch.tensor(value, requires_grad=True) for name, value in model.get_weights().items()}
    parts = {part: {n: v for n, v in w.items() if n.startswith(part)} for part in ("generator", "critic")}
    velocity = {name: torch.zeros_like(value) for name, value in w.items()}

    def run(x, layers):
        for name in layers:
            x = x @ w[f"{name}/kernel"] + w[f"{name}/bias"]
            x = x if name == layers[-1] else torch.relu(x)
        return x

    rows = []
    for step in range(steps):
        part = "critic" if step % 6 < 5 else "generator"
        real, fake = torch.tensor(X[step % 9 * 16 :][:16]), run(noise_of(model, step), LAYERS)
        if part == "critic":
            loss = run(fake.detach(), CRITIC).mean() - run(real, CRITIC).mean()
        else:
            loss = -run(fake, CRITIC).mean()
        gradients = torch.autograd.grad(loss, parts[part].values())
        with torch.no_grad():
            for (name, value), gradient in zip(parts[part].items(), gradients, strict=True):
                velocity[name] = 0.9 * velocity[name] + 0.1 * gradient**2  # Keras' RMSprop
                value -= 1e-3 * gradient / torch.sqrt(velocity[name] + 1e-7)
                if part == "critic":
                    value.clamp_(-0.1, 0.1)
        rows.append((part, loss.item()))
    return rows, {name: value.detach().numpy() for name, value in w.items()}


class Record(pt.callbacks.Callback):
    """The loss of each step."""

    def __init__(self):
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["batch_loss"])


def test_the_first_steps_are_pytorchs():
    model, record = wgan(), Record()
    rows, weights = torch_training(model, 18)
    history = train(model, 2, callbacks=[record]).history
    np.testing.assert_allclose(record.losses, [loss for _, loss in rows], rtol=2e-3, atol=2e-5)
    for name, array in model.get_weights().items():
        np.testing.assert_allclose(array, weights[name], rtol=2e-3, atol=2e-4)
    for epoch in range(2):
        of_epoch = rows[9 * epoch :][:9]
        for part in ("critic", "generator"):
            mean = np.mean([loss for name, loss in of_epoch if name == part])
            assert history[f"{part}_loss"][epoch] == pytest.approx(mean, rel=2e-3, abs=2e-5)
        assert history["critic_loss"][epoch] == pytest.approx(history["fake"][epoch] - history["real"][epoch], abs=1e-6)
        assert history["loss"][epoch] == pytest.approx(history["critic_loss"][epoch] + history["generator_loss"][epoch])


def test_a_step_changes_its_own_weights_alone():
    model = wgan()
    before = model.get_weights()
    for step in range(12):
        model.train_on_batch(X[:16])
        now = model.get_weights()
        changed = {name.split("/")[0] for name in now if not np.array_equal(now[name], before[name])}
        assert changed == {"critic" if step % 6 < 5 else "generator"}
        before = now
    assert all(np.abs(a).max() <= 0.1 for name, a in before.items() if name.startswith("critic"))


def test_evaluation_has_the_names_of_training():
    model = wgan()
    history = train(model, validation_data=X[:40]).history
    results = model.evaluate(X, return_dict=True)
    names = ["loss", "critic_loss", "fake", "real", "generator_loss"]
    assert list(results) == names == model.metrics_names
    assert {f"val_{name}" for name in names} < set(history)
    assert results["critic_loss"] == pytest.approx(results["fake"] - results["real"], abs=1e-6)
    assert results["generator_loss"] == pytest.approx(-results["fake"], rel=1e-5)
    assert results["loss"] == pytest.approx(results["critic_loss"] + results["generator_loss"], rel=1e-5)


@pytest.mark.parametrize("stop", range(1, 13))
def test_a_training_goes_on_bit_for_bit_after_any_step(stop, tmp_path):
    class Save(pt.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.trainer.step == stop:
                self.model.save(tmp_path / "m.h5")

    whole = wgan()
    train(whole, 2, callbacks=[Save()])
    resumed = pt.load_model(tmp_path / "m.h5")
    assert resumed.trainer.step == stop
    train(resumed, 2, callbacks=[Save()])
    assert resumed.trainer.step == 18
    assert_same_weights(whole, resumed)
    assert resumed.history.history == whole.history.history
    for name, array in whole.trainer.plan_cache.variables.with_prefix("slot:"):
        np.testing.assert_array_equal(array, resumed.trainer.plan_cache.variables[name])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_training_that_was_killed_goes_on(tmp_path):
    checkpoint = tmp_path / "c.h5"

    class Kill(pt.callbacks.Callback):
        kills = True

        def on_train_batch_end(self, batch, logs=None):
            if self.kills and self.model.trainer.step == 11:
                os.kill(os.getpid(), signal.SIGKILL)

    def callbacks():
        return [pt.callbacks.ModelCheckpoint(str(checkpoint), save_freq=4), Kill()]

    pid = os.fork()
    if not pid:
        train(wgan(), 2, callbacks=callbacks())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    whole = wgan()
    Kill.kills = False
    resumed = pt.load_model(checkpoint)
    assert resumed.trainer.step == 8  # in the second round, after two steps of the critic
    train(resumed, 2, callbacks=callbacks())
    train(whole, 2, callbacks=callbacks())
    assert_same_weights(whole, resumed)


def test_on_a_device_it_is_the_training_of_the_cpu():
    models = []
    for backend in (reference_cpu(), fake_backend()):
        with use_backend(backend):
            model = wgan()
            train(model, 2)
        models.append(model)
    assert_same_weights(*models)


def test_predictions_are_what_the_generator_makes():
    model = wgan()
    assert model.net.outputs == ("fake",)
    points = model.predict(X, batch_size=16)
    assert points.shape == (144, 2)
    assert len(np.unique(points[:, 0])) == 144


def test_python_has_the_same_steps():
    model = wgan()
    declared = model.compile_block
    model.compile(
        {"generator/**": pt.optimizers.RMSprop(1e-3), "critic/**": pt.optimizers.RMSprop(1e-3)},
        declared.loss,
        train=[
            {"name": "critic", "repeat": 5, "losses": ["fake", "real"], "weights": "critic/**"},
            {"name": "generator", "losses": "fool", "weights": "generator/**"},
        ],
    )
    assert model.compile_block == declared
    assert model_from_text(model.to_text()).compile_block == declared


def test_each_step_is_a_plan_that_can_be_shown_and_measured(tmp_path, capsys):
    path = tmp_path / "wgan.proto"
    path.write_text(WGAN, encoding="utf-8")

    def call(*arguments):
        try:
            main([*map(str, arguments)])
            code = 0
        except SystemExit as exit_of_main:
            code = exit_of_main.code or 0
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    code, text = call("show", path, "--plan", "--phase", "train", "--batch", 8)
    assert code == 0
    plans = [text[text.index(f"training step {name!r}") :] for name in ("critic", "generator")]
    assert "generator/hidden_1/kernel rmsprop_update" not in plans[0][: -len(plans[1])]
    assert "critic/hidden_1/kernel rmsprop_update" not in plans[1]
    code, text = call("show", path, "--plan", "--phase", "train:generator", "--batch", 8)
    assert (code, text.count("training step")) == (0, 1)
    for command in (["time", path, "--batch", 8], ["check", path]):
        assert call(*command)[0] == 0
    code, text = call("show", path, "--plan", "--phase", "train:criic")
    assert code != 0
    assert "no step named 'criic': write 'train:critic' or 'train:generator'. Did you mean 'critic'?" in text
    code, text = call("time", path, "--phase", "train")
    assert "each of which is a phase: write 'train:critic' or 'train:generator'" in text


NORMALIZED = """
input { name: "x"  shape: [3] }
Dense { name: "a/dense"  units: 4  kernel_regularizer: L2 { l2: 0.1 } }
BatchNormalization { name: "a/norm" }
Dense { name: "b/dense"  units: 2 }
BatchNormalization { name: "b/norm" }
ActivityRegularization { name: "size"  l2: 0.5 }
Dense { name: "side"  bottom: "a/norm"  units: 1 }
output: "size"
compile {
  loss { output: "size"  type: mean  name: "end" }
  loss { output: "side"  type: mse  target: "y"  name: "middle" }
  metrics { output: "side"  type: mae }
  optimizer: SGD { learning_rate: 0.1  gradient_accumulation_steps: 2 }
  train {
    step { name: "one"  losses: ["middle"]  weights: ["a/**", "side"]  repeat: 2 }
    step { name: "two"  losses: ["end", "size"]  weights: ["a/dense", "b/**"]  repeat: 2 }
  }
}
"""


def test_layers_run_in_the_steps_whose_losses_depend_on_them():
    """Statistics move where a layer runs, whatever weights the step changes; gradients add up within a step's runs."""
    model = model_from_text(NORMALIZED)
    x = np.random.default_rng(0).normal(2, 1, size=(8, 3)).astype(np.float32)
    y = x[:, :1]
    before = model.get_weights()
    for step in range(8):
        model.train_on_batch({"x": x}, {"y": y})
        now = model.get_weights()
        changed = {name for name in now if not np.array_equal(now[name], before[name])}
        statistics = {name for name in changed if "moving" in name}
        trained = {name.rsplit("/", 1)[0] for name in changed - statistics}
        if step % 4 < 2:
            assert {name.split("/")[0] for name in statistics} == {"a"}
            assert trained == ({"a/dense", "a/norm", "side"} if step % 2 else set())
        else:
            assert {name.split("/")[0] for name in statistics} == {"a", "b"}
            assert trained <= {"a/dense", "b/dense", "b/norm"}
            assert ("b/norm" in trained) == bool(step % 2)
        before = now


def test_penalties_count_in_the_steps_that_change_or_name_what_they_are_of():
    model = model_from_text(NORMALIZED)
    x = np.random.default_rng(0).normal(2, 1, size=(8, 3)).astype(np.float32)
    kernel = model.get_weights()["a/dense/kernel"]
    logs = [model.train_on_batch({"x": x}, {"y": x[:, :1]}, return_dict=True) for _ in range(3)]
    assert np.isnan(logs[0]["two_loss"]) and np.isnan(logs[2]["one_loss"])  # noqa: PT018
    assert "side_mae" in logs[0] or "mae" in logs[0]
    penalty = 0.1 * float((kernel**2).sum())
    assert logs[0]["one_loss"] > penalty
    assert logs[2]["two_loss"] > logs[2]["end"] + logs[2]["size"]


def test_a_step_that_is_not_finite_changes_nothing_and_is_named():
    model = wgan()
    for _ in range(5):
        model.train_on_batch(X[:16])
    before = model.get_weights()
    model.weights["generator/point/kernel"][:] = np.inf
    with pytest.raises(TrainingError, match=r"a step of 'generator': layer 'generator/point'.*not finite"):
        model.train_on_batch(X[:16])
    assert model.trainer.step == 5
    for name, array in model.get_weights().items():
        if name != "generator/point/kernel":
            np.testing.assert_array_equal(array, before[name])


def test_an_epoch_shorter_than_a_round_is_noted():
    model = wgan()
    with pytest.warns(ModelWarning, match="an epoch has 3 steps, and the steps critic, generator take 6 for a round"):
        model.fit(X[:48], batch_size=16, epochs=2, verbose=0)
    assert np.isnan(model.history.history["generator_loss"][0])


def compiled(train_block, losses='loss { type: mse  name: "l" }'):
    net = 'input { name: "x"  shape: [3] }  Dense { name: "a"  units: 3 }  Dense { name: "y"  units: 3 }\n'
    return model_from_text(f"{net}compile {{ {losses}  train {{ {train_block} }} }}").trainer


MISTAKES = {
    "an unknown loss": (
        'step { name: "s"  losses: "ll" }',
        "the step 's' lowers 'll', and there is no loss of that name; there are l.",
    ),
    "a loss in no step": (
        'step { name: "s"  losses: "l" }',
        "no step lowers the loss 'm'.*the steps have s: l",
        'loss { type: mse  name: "l" }  loss { type: mae  name: "m" }',
    ),
    "a pattern that matches nothing": (
        'step { name: "s"  losses: "l"  weights: "b" }',
        "'b' matches no layer or weight",
    ),
    "a weight in no step": (
        'step { name: "s"  losses: "l"  weights: "a" }',
        "no step changes the weight 'y/(kernel|bias)': the steps have the weights s: a; add it.*freeze: 'y'",
    ),
    "a step without weights": (
        'step { name: "s"  losses: "l" }  step { name: "t"  losses: "m"  weights: "y" }',
        "the step 't' changes no weight: its losses m depend on none that is trained and that y matches",
        'loss { output: "a"  type: mean  name: "m" }  loss { type: mse  name: "l" }',
    ),
    "two steps of one name": (
        'step { name: "s"  losses: "l" }  step { name: "s"  losses: "l" }',
        "the step 's' is there twice: give each",
    ),
    "no losses": ('step { name: "s" }', "step needs 'losses'"),
    "an empty list of losses": ('step { name: "s"  losses: [] }', "losses is empty: name the losses"),
    "no name": ('step { losses: "l" }', "step needs 'name'"),
    "no steps": ("", "train needs 'step'"),
    "never repeated": ('step { name: "s"  losses: "l"  repeat: 0 }', "step.repeat must be an integer of at least 1"),
    "a name of the logs": (
        'step { name: "s"  losses: ["l", "s_loss"] }',
        "the step 's' would be logged as 's_loss', which is the name of a loss",
        'loss { type: mse  name: "l" }  loss { type: mae  name: "s_loss" }',
    ),
    "an unknown field": (
        'step { name: "s"  losses: "l"  repeats: 2 }',
        "step has no field 'repeats'. Did you mean 'repeat'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    text, message, *losses = MISTAKES[name]
    with pytest.raises((TextError, UsageError), match=message):
        compiled(text, *losses)


def test_of_a_loss_that_is_raised_more_is_better():
    directions = wgan().trainer.plan_cache.metrics.directions()
    assert {directions[name] for name in ("loss", "critic_loss", "generator_loss", "fake")} == {"min"}
    assert directions["real"] == "max"
