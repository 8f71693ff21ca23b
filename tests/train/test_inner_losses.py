"""Losses at inner layers, and losses without a target: against PyTorch's trainings, and what data and files see."""

from pathlib import Path

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import TextError, UsageError
from prototorch.model.load import model_from_text
from tests.layers.test_sampling_layers import noise_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = """
input { name: "x"  shape: [5] }
Dense { name: "a"  units: 4  activation: tanh }
Dense { name: "b"  units: 3  activation: tanh }
Dense { name: "y"  units: 2 }
Square { name: "size"  bottom: "b" }
output: "y"
compile {
  loss { type: mse }
  loss { output: "a"  type: mae  target: "hint"  weight: 0.5 }
  loss { output: "size"  type: mean  weight: 0.1  name: "penalty" }
  optimizer: SGD(0.1)
  metrics { output: "a"  type: mse }
}
"""
RNG = np.random.default_rng(0)
X, Y, HINT = (RNG.uniform(-1, 1, size=(12, n)).astype(np.float32) for n in (5, 2, 4))


def torch_losses(weights, steps):
    """The losses of the text's first steps of gradient descent in PyTorch: total, and each."""
    w = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    x, y, hint = (torch.tensor(a) for a in (X, Y, HINT))
    rows = []
    for _ in range(steps):
        a = torch.tanh(x @ w["a/kernel"] + w["a/bias"])
        b = torch.tanh(a @ w["b/kernel"] + w["b/bias"])
        out = b @ w["y/kernel"] + w["y/bias"]
        parts = ((out - y) ** 2).mean(), (a - hint).abs().mean(), (b**2).mean()
        total = parts[0] + 0.5 * parts[1] + 0.1 * parts[2]
        gradients = torch.autograd.grad(total, list(w.values()))
        with torch.no_grad():
            for value, gradient in zip(w.values(), gradients, strict=True):
                value -= 0.1 * gradient
        rows.append([p.item() for p in (total, *parts)])
    return rows


def test_losses_at_inner_layers_are_pytorchs():
    model = model_from_text(TEXT)
    expected = torch_losses(model.get_weights(), 5)
    history = model.fit({"x": X}, {"y": Y, "hint": HINT}, epochs=5, batch_size=12, shuffle=False, verbose=0).history
    names = ("loss", "y_loss", "a_loss", "penalty")
    np.testing.assert_allclose([history[name] for name in names], np.transpose(expected), rtol=2e-5)
    assert "a_mse" in history


def test_the_outputs_are_those_that_the_text_names():
    model = model_from_text(TEXT)
    assert model.net.outputs == ("y",)
    assert model.predict(X).shape == (12, 2)
    without = model_from_text(TEXT.replace('output: "y"\n', "").replace("{ type: mse }", '{ output: "y"  type: mse }'))
    assert set(without.net.outputs) == {"y", "a", "size"}  # as ever: all that have a loss


def test_python_names_inner_layers_too():
    x = pt.Input((5,), name="x")
    a = pt.layers.Dense(4, activation="tanh", name="a")(x)
    model = pt.Model(x, pt.layers.Dense(2, name="y")(a))
    model.compile("sgd", {"y": "mse", "a": "mean"})
    assert set(model.fit(X, Y, verbose=0).history) >= {"loss", "y_loss", "a_loss"}
    with pytest.raises(UsageError, match=r"no output 'aa'; it has y, and those of its inner layers. Did you mean 'a'"):
        model.compile("sgd", {"aa": "mse"})


def test_a_net_of_losses_without_targets_needs_data_for_its_inputs_alone():
    model = model_from_text(
        'input { name: "x"  shape: [5] }\nDense { name: "y"  units: 1 }\ncompile { loss: mean  optimizer: SGD(0.1) }'
    )
    before = model.get_weights()
    first = model.fit(X, batch_size=12, verbose=0).history["loss"]
    assert first[0] == pytest.approx(float((X @ before["y/kernel"]).mean()), rel=1e-5)
    np.testing.assert_allclose(model.get_weights()["y/bias"], before["y/bias"] - 0.1, rtol=1e-6)
    assert model.evaluate(X, return_dict=True)["loss"] < first[0]


def test_sample_weights_count_in_losses_without_targets():
    model = model_from_text('input { name: "x"  shape: [5] }\nDense { name: "y"  units: 1 }\ncompile { loss: mean }')
    outputs, weights = model.predict(X)[:, 0], np.linspace(0, 2, 12).astype(np.float32)
    loss = model.evaluate(X, sample_weight=weights, return_dict=True)["loss"]
    assert loss == pytest.approx(float((outputs * weights).mean()), rel=1e-5)


def test_a_layer_that_only_a_loss_reads_is_saved_and_loaded(tmp_path):
    model = model_from_text(TEXT)
    model.fit({"x": X}, {"y": Y, "hint": HINT}, verbose=0)
    for loss in (None, "mse"):
        if loss is not None:
            model.compile("sgd", loss)  # nothing reads the layer "size" any more
        model.save(tmp_path / "m.h5")
        loaded = pt.load_model(tmp_path / "m.h5")
        assert loaded.net == model.net
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_an_output_at_the_last_layer_is_saved_where_a_loss_is_at_another(tmp_path):
    text = """
    input("x", [5])
    a = Dense(4)
    y = Dense(2)
    output: "y"
    compile { loss(mse, output: "y")  loss(mse, output: "a", target: "hint") }
    """
    model = model_from_text(text)
    model.save(tmp_path / "m.h5")
    for loaded in (pt.load_model(tmp_path / "m.h5"), model_from_text(model.to_text())):
        assert loaded.outputs == model.outputs == ("y",)
    expected = model.predict(X)
    np.testing.assert_array_equal(pt.load_model(tmp_path / "m.h5").predict(X), expected)
    without = model_from_text(text.replace('output: "y"\n    compile', "compile"))
    assert model_from_text(without.to_text()).outputs == without.outputs == ("a", "y")


def test_a_loss_layer_may_be_the_end_of_a_branch():
    model = model_from_text(
        'input { name: "x"  shape: [2] }\nSquare { name: "s" }\nAddLoss { weight: 0.5 }\n'
        'Dense { name: "y"  bottom: "x"  units: 1 }\noutput: "y"\ncompile { loss: mse }'
    )
    x = np.ones((4, 2), np.float32)
    outputs = model.predict(x)
    assert model.evaluate(x, outputs, return_dict=True)["loss"] == pytest.approx(4.0)


def test_the_first_steps_of_the_autoencoder_are_pytorchs():
    model = pt.load_model(ROOT / "examples" / "generative" / "vae.proto")
    images = np.random.default_rng(3).integers(0, 256, (64, 1, 28, 28)).astype(np.uint8)
    weights = {n: torch.tensor(a, requires_grad=True) for n, a in model.get_weights().items()}
    optimizer = torch.optim.Adam(weights.values(), 1e-3, eps=1e-7)
    pixels = torch.tensor(images).reshape(64, 784) / 255
    layers = [n.name for n in model.net.nodes if n.layer.type_name() == "Dense"]
    sampling = next(n.name for n in model.net.nodes if n.layer.type_name() == "Sampling")

    def dense(x, number):
        return x @ weights[f"{layers[number]}/kernel"] + weights[f"{layers[number]}/bias"]

    for step in range(4):
        logs = model.train_on_batch(images, return_dict=True)
        hidden = torch.relu(dense(pixels, 0))
        mean, log_var = dense(hidden, 1), dense(hidden, 2)
        z = mean + torch.exp(log_var / 2) * torch.tensor(noise_of(0, step, sampling, (8,), 64))
        logits = dense(torch.relu(dense(z, 3)), 4)
        reconstruction = torch.nn.functional.binary_cross_entropy_with_logits(logits, pixels)
        normal = torch.distributions.Normal(mean, torch.exp(log_var / 2))
        kl = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(1).mean()
        loss = 784 * reconstruction + kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        got = [logs[name] for name in ("loss", "reconstruction_loss", "kl_loss")]
        # Adam divides small gradients by their own size, and what they are rounded to with it
        np.testing.assert_allclose(got, [v.item() for v in (loss, reconstruction, kl)], rtol=5e-4 if step else 1e-5)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ('loss { output: "size"  type: mean  target: "hint" }', "compares 'size' with nothing.*take out the target"),
        ('loss { output: "size"  type: mean  name: "loss" }', "'loss' is a name that the logs have anyway"),
        (
            'loss { output: "size"  type: mean  name: "n" }  loss { output: "a"  type: mean  name: "n" }',
            "'n' is used twice",
        ),
        (
            'loss { output: "size"  type: mean }  metrics { output: "size"  type: mae }',
            "'size' has the loss MeanOutput, which compares with nothing, and so no target",
        ),
        ('loss { output: "siz"  type: mean }', "no layer named 'siz' to be an output with a loss. Did you mean 'size'"),
    ],
)
def test_mistakes(losses, message):
    text = TEXT[: TEXT.index("compile")] + f'compile {{ loss {{ output: "y"  type: mae }}  {losses} }}'
    with pytest.raises((TextError, UsageError), match=message):
        model_from_text(text).trainer  # noqa: B018
