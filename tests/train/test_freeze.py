"""Frozen layers and factors on the learning rate, by patterns: against Keras' and PyTorch's trainings."""

import keras
import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import ModelWarning, TextError, UsageError
from prototorch.model.load import model_from_text
from prototorch.train.step_inputs import TRAIN
from prototorch.train.summary import step_specs

TEXT = """
input { name: "x"  shape: [5] }
Dense { name: "stem/dense"  units: 7  activation: tanh  kernel_regularizer: L2 { l2: 0.03 } }
BatchNormalization { name: "stem/norm"  momentum: 0.8 }
Dense { name: "middle/dense"  units: 6  activation: tanh }
BatchNormalization { name: "middle/norm"  momentum: 0.7 }
Dense { name: "head"  units: 3  kernel_regularizer: L2 { l2: 0.01 } }
"""
LAYERS = ("stem/dense", "stem/norm", "middle/dense", "middle/norm", "head")
X = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(23, 3)).astype(np.float32)


def ours(optimizer, **options):
    model = model_from_text(TEXT)
    model.compile(optimizer, "mse", **options)
    rng = np.random.default_rng(2)
    model.set_weights(
        {
            name: rng.uniform(-0.5 if name.endswith("kernel") else 0.5, 0.8, w.shape).astype("f")
            for name, w in model.weights.items()
        }
    )
    return model


def keras_twin(model, frozen, optimizer):
    """The same net in Keras with the same weights."""
    layers = [
        keras.layers.Dense(7, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.03)),
        keras.layers.BatchNormalization(momentum=0.8),
        keras.layers.Dense(6, activation="tanh"),
        keras.layers.BatchNormalization(momentum=0.7),
        keras.layers.Dense(3, kernel_regularizer=keras.regularizers.L2(0.01)),
    ]
    twin = keras.Sequential([keras.Input((5,)), *layers])
    for name, layer in zip(LAYERS, layers, strict=True):
        layer.trainable = name not in frozen
        for v in layer.weights:
            v.assign(model.weights[f"{name}/{v.name}"])
    twin.compile(optimizer, "mse")
    return twin, dict(zip(LAYERS, layers, strict=True))


FROZEN = [
    (["stem"], {"stem/dense", "stem/norm"}),
    (["middle/*"], {"middle/dense", "middle/norm"}),
    (["**/norm"], {"stem/norm", "middle/norm"}),
    (["**", "!head"], {"stem/dense", "stem/norm", "middle/dense", "middle/norm"}),
    (["**", "!*/dense"], {"stem/norm", "middle/norm", "head"}),
]
OPTIMIZERS = [
    (lambda m: m.optimizers.Adam(learning_rate=0.02, clipnorm=0.5), ["adam"]),
    (lambda m: m.optimizers.SGD(learning_rate=0.01, momentum=0.9, nesterov=True), ["sgd"]),
    (lambda m: m.optimizers.AdamW(learning_rate=0.02, weight_decay=0.1, global_clipnorm=0.7), ["adamw"]),
]


@pytest.mark.parametrize(("make", "label"), OPTIMIZERS, ids=lambda v: v[0] if isinstance(v, list) else "")
@pytest.mark.parametrize(("freeze", "frozen"), FROZEN, ids=lambda v: "+".join(v) if isinstance(v, list) else "")
def test_a_fit_with_frozen_layers_is_the_one_of_keras(freeze, frozen, make, label):
    """Loss, weights and moving statistics; regularizers of frozen layers are not in the loss, as in Keras."""
    model = ours(make(pt), freeze=freeze)
    before = model.get_weights()
    twin, layers = keras_twin(model, frozen, make(keras))
    theirs = twin.fit(X, Y, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    mine = model.fit(X, Y, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    np.testing.assert_allclose(mine, theirs, rtol=2e-5)
    for name, layer in layers.items():
        for v in layer.weights:
            full = f"{name}/{v.name}"
            np.testing.assert_allclose(
                model.weights[full], v.value.detach().numpy(), rtol=5e-4, atol=5e-5, err_msg=full
            )
            if name in frozen:
                assert np.array_equal(model.weights[full], before[full]), full
    assert any(not np.array_equal(model.weights[n], before[n]) for n in before)


@pytest.mark.parametrize(("freeze", "frozen"), FROZEN[:4], ids=lambda v: "+".join(v) if isinstance(v, list) else "")
def test_freeze_in_the_compile_block_at_the_layers_and_by_the_method_are_the_same(freeze, frozen):
    results = []
    for way in range(3):
        model = ours("adam", **({"freeze": freeze} if way == 0 else {}))
        if way == 1:
            model.freeze(*sorted(frozen))
        elif way == 2:
            weights, text = model.get_weights(), TEXT
            for name in frozen:
                text = text.replace(f'name: "{name}"', f'name: "{name}"  trainable: false')
            model = model_from_text(text)
            model.compile("adam", "mse")
            model.set_weights(weights)
        model.fit(X, Y, batch_size=8, epochs=2, verbose=0)
        results.append(model.get_weights())
    for other in results[1:]:
        for name, array in results[0].items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


def torch_twin(model):
    """The same net in PyTorch, with the parameters by our names."""

    class Twin(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.ParameterDict({n.replace("/", "|"): torch.tensor(a) for n, a in model.weights.items()})

        def forward(self, x):
            w = self.w
            x = torch.tanh(x @ w["a|kernel"] + w["a|bias"])
            x = torch.tanh(x @ w["shared|kernel"] + w["shared|bias"])
            x = torch.tanh(x @ w["b|kernel"] + w["b|bias"])
            x = torch.tanh(x @ w["shared|kernel"] + w["shared|bias"])
            return x @ w["c|kernel"] + w["c|bias"]

    return Twin()


SHARED = """
input { name: "x"  shape: [5] }
Dense { name: "a"  units: 6  activation: tanh }
Dense { name: "first"  units: 6  activation: tanh  weights: "shared" }
Dense { name: "b"  units: 6  activation: tanh }
Dense { name: "second"  units: 6  activation: tanh  weights: "shared" }
Dense { name: "c"  units: 3 }
"""


@pytest.mark.parametrize(
    ("freeze", "frozen", "factors"),
    [
        (["a"], ["a"], {}),
        (["b"], ["b"], {}),
        (["first"], ["shared"], {}),
        (["shared"], ["shared"], {}),
        (["c", "**/bias"], ["c", "bias"], {}),
        (["**", "!**/bias"], ["kernel"], {}),
        ([], [], {"a": 0.1, "shared": 3.0}),
        (["b"], ["b"], {"**/bias": 2.0, "c/bias": 0.5}),
        ([], [], {"second": 0.0}),
    ],
    ids=str,
)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_partly_frozen_net_trains_as_in_pytorch(freeze, frozen, factors, optimizer):
    """Freezing in the middle, shared weights, single weights, and parameter groups of other learning rates."""
    model = model_from_text(SHARED)
    method = pt.optimizers.SGD(0.1, momentum=0.9) if optimizer == "sgd" else pt.optimizers.Adam(0.01, epsilon=1e-8)
    model.compile(method, "mse", freeze=freeze, lr_mult=factors)
    twin = torch_twin(model)
    rates = {"**/bias": "bias", "second": "shared"}
    groups, rate = [], 0.1 if optimizer == "sgd" else 0.01
    for name, parameter in twin.w.items():
        layer, weight = name.split("|")
        parameter.requires_grad_(not {layer, weight}.intersection(frozen))
        factor = 1.0
        for pattern, value in factors.items():
            if rates.get(pattern, pattern) in (layer, weight, name.replace("|", "/")):
                factor = value
        groups.append({"params": [parameter], "lr": rate * factor})
    step = torch.optim.SGD(groups, momentum=0.9) if optimizer == "sgd" else torch.optim.Adam(groups)
    model.fit(X, Y, batch_size=23, epochs=5, shuffle=False, verbose=0)
    for _ in range(5):
        step.zero_grad()
        torch.nn.functional.mse_loss(twin(torch.tensor(X)), torch.tensor(Y)).backward()
        step.step()
    for name, array in model.weights.items():
        expected = twin.w[name.replace("/", "|")].detach().numpy()
        # Keras' Adam adds epsilon before the correction of the bias, PyTorch's after it: 1 % of a step
        atol = 1e-6 if optimizer == "sgd" else 1e-4
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=atol, err_msg=name)


def test_a_rate_of_zero_changes_nothing_but_is_not_frozen():
    """Unlike frozen layers, its normalization is trained, its gradient is computed, and it has slots."""
    model = ours("adam", lr_mult={"middle": 0.0})
    before = model.get_weights()
    model.fit(X, Y, verbose=0)
    changed = {n for n, a in model.weights.items() if not np.array_equal(a, before[n])}
    assert {n for n in changed if n.startswith("middle")} == {"middle/norm/moving_mean", "middle/norm/moving_variance"}
    assert any(name.startswith("optimizer:middle/dense") for name in model.variables)


def plan_of(freeze):
    model = model_from_text("""
      input { name: "image"  shape: [3, 32, 32] }
      repeat i in $range(4) {
        Conv2D { name: "conv${i}"  filters: 16  kernel_size: 3  padding: 1 }
        BatchNormalization { name: "norm${i}" }
        ReLU { name: "relu${i}" }
      }
      Flatten { name: "flat" }
      Dense { name: "logits"  units: 10 }
    """)
    model.compile("adam", "mse", freeze=freeze)
    cache = model.trainer.plan_cache
    plan = cache.plan(TRAIN, step_specs(model.net, 16))
    slots = [name for name in model.variables if name.startswith("optimizer:")]
    return len(plan.steps), plan.arena_bytes, len(slots)


def test_what_is_frozen_costs_neither_time_nor_memory():
    steps, memory, slots = plan_of([])
    first_steps, first_memory, first_slots = plan_of(["conv[01]", "norm[01]"])
    head_steps, head_memory, head_slots = plan_of(["**", "!logits"])
    assert head_steps < first_steps < steps
    assert head_memory < memory / 2
    assert head_memory < first_memory < memory
    assert (slots, first_slots, head_slots) == (36, 20, 4)


def test_a_frozen_normalization_inside_another_layer_is_in_inference_mode():
    text = """input { name: "x"  shape: [4, 3] }
      TimeDistributed { name: "steps"  layer: BatchNormalization { } }  Dense { name: "out"  units: 2 }"""
    for options in ({"freeze": "steps"}, {}):
        model = model_from_text(text)
        model.compile("sgd", "mse", **options)
        if not options:
            model.freeze("steps")
        before = model.get_weights()
        model.fit(np.ones((4, 4, 3), "f"), np.zeros((4, 4, 2), "f"), verbose=0)
        changed = [n for n, a in model.weights.items() if not np.array_equal(a, before[n])]
        assert changed == ["out/kernel", "out/bias"]


def test_the_text_of_a_frozen_model_is_read_back_equal():
    model = ours("adam", freeze=["**", "!head"], lr_mult={"head/bias": 2, "middle/**": 0.1})
    again = model_from_text(model.to_text())
    assert again.compile_block == model.compile_block
    assert again.to_text() == model.to_text()
    assert 'freeze: ["**", "!head"]' in model.to_text()


def test_freeze_can_be_set_from_the_command_line():
    compiled = TEXT + "compile { loss: mse }"
    model = model_from_text(compiled, overrides=['compile.freeze=["stem", "**/bias"]'])
    assert model.compile_block.freeze == ("stem", "**/bias")
    assert model_from_text(compiled, overrides=["compile.freeze=stem/*"]).compile_block.freeze == ("stem/*",)


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        ("stm", r"'stm' matches no layer or weight\. Did you mean 'stem'\?"),
        (["stem", "!haed"], r"'haed' matches no layer or weight\. Did you mean 'head'\?"),
        ("head/biass", r"'head/biass' matches no layer or weight\. Did you mean 'head/bias'\?"),
        ("!head", r"write \['\*\*', '!head'\]"),
        ("", "expected 1 to 1000"),
        ("a[z-a]", "the range 'z-a'"),
        (3, "must be a list of a pattern of names"),
    ],
)
def test_a_wrong_pattern_is_an_error_of_compile(freeze, message):
    with pytest.raises(UsageError, match=message):
        ours("adam", freeze=freeze)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"stm": 2}, "'stm' matches no layer or weight"),
        ({"stem": -1}, "factor must be a number of at least 0"),
        ({"stem": "fast"}, "factor must be a number"),
        (0.1, "lr_mult must be"),
    ],
)
def test_a_wrong_factor_is_an_error_of_compile(factors, message):
    with pytest.raises(UsageError, match=message):
        ours("adam", lr_mult=factors)


def test_a_pattern_that_matches_nothing_is_reported_with_its_place():
    text = TEXT + 'compile {\n  loss: mse\n  freeze: "sten"\n}\n'
    model = model_from_text(text, "net.proto")
    with pytest.raises(UsageError, match="sten") as error:
        _ = model.trainer
    assert error.value.diagnostic.span.line == text.splitlines().index('  freeze: "sten"') + 1
    with pytest.raises(TextError, match="freeze is no pattern of names"):
        model_from_text(TEXT + 'compile { loss: mse  freeze: "[z-a]" }')


def test_a_net_without_trained_weights_is_reported():
    model = ours("adam", freeze="**")
    before = model.get_weights()
    with pytest.warns(ModelWarning, match="no weight is trained"):
        model.fit(X, Y, verbose=0)
    assert all(np.array_equal(a, before[n]) for n, a in model.weights.items())


def test_the_summary_counts_what_is_trained(capsys):
    ours("adam", freeze=["**", "!head"]).summary()
    assert capsys.readouterr().out.rstrip().endswith("21 of them trained")


def test_unfreeze_of_a_compiled_model_keeps_the_optimizers_state():
    model = ours("adam", freeze=["**", "!head"])
    model.fit(X, Y, verbose=0)
    slots = {n: np.array(model.variables[n]) for n in model.variables if n.startswith("optimizer:")}
    model.unfreeze("middle/*")
    assert all(np.array_equal(model.variables[n], a) for n, a in slots.items())
    assert any(n.startswith("optimizer:middle/dense/kernel") for n in model.variables)
    before = model.get_weights()
    model.fit(X, Y, verbose=0)
    changed = {n for n, a in model.weights.items() if not np.array_equal(a, before[n])}
    assert {n.rpartition("/")[0] for n in changed} == {"middle/dense", "middle/norm", "head"}
    model.set_trainable(False, "head")  # compiles again: what was unfrozen stays so
    model.fit(X, Y, verbose=0)
    assert model.compile_block.freeze == ("**", "!head", "!middle/*")


def test_layers_that_were_unfrozen_stay_trained_after_another_compile():
    model = ours("adam")
    model.freeze("stem", "middle")
    model.fit(X, Y, verbose=0)
    model.unfreeze("middle")
    model.compile("sgd", "mse")
    assert [layer.trainable for layer in model.layers] == [False, False, True, True, True]


@pytest.mark.parametrize("method", ["freeze", "unfreeze", "set_trainable"])
def test_wrong_names_of_layers_are_errors(method):
    model = ours("adam")
    arguments = (False,) if method == "set_trainable" else ()
    with pytest.raises(UsageError, match=r"Did you mean 'head'\?"):
        getattr(model, method)(*arguments, "haed")
    if not arguments:
        with pytest.raises(UsageError, match="expected names or patterns"):
            getattr(model, method)()
