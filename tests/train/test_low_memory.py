"""``compile { memory: low }``: a step that needs less memory and gives the same bits."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers as L
from prototorch.engine.backends.cpu import LEVELS, cpu
from prototorch.model.diagnose import describe_plan, summary
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.summary import step_specs

LOSS = pt.losses.SparseCategoricalCrossentropy(from_logits=True)


def resnet():
    x = pt.Input((3, 16, 16))
    y = L.Conv2D(8, 3, padding="same", use_bias=False)(x)
    for filters, strides in ((8, 1), (8, 1), (16, 2), (16, 1)):
        short = y if strides == 1 else L.Conv2D(filters, 1, strides=strides, use_bias=False)(y)
        z = L.ReLU()(L.BatchNormalization()(L.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(y)))
        z = L.BatchNormalization()(L.Conv2D(filters, 3, padding="same", use_bias=False)(z))
        y = L.ReLU()(L.Add()([z, short]))
    return pt.Model(x, L.Dense(5)(L.GlobalAveragePooling2D()(y)))


def mlp():
    x = pt.Input((40,))
    y = x
    for _ in range(4):
        y = L.Dropout(0.3)(L.Dense(96, activation="gelu")(y))
    return pt.Model(x, L.Dense(5)(y))


def densenet():
    x = pt.Input((3, 16, 16))
    y = L.Conv2D(8, 3, padding="same")(x)
    for _ in range(4):
        z = L.Conv2D(16, 1)(L.ReLU()(L.BatchNormalization()(y)))
        z = L.Conv2D(8, 3, padding="same")(L.ReLU()(L.BatchNormalization()(z)))
        y = L.Concatenate(axis=1)([y, z])
    y = L.MaxPooling2D(2)(L.ReLU()(L.BatchNormalization()(y)))
    return pt.Model(x, L.Dense(5)(L.Flatten()(L.SpatialDropout2D(0.2)(y))))


def average():
    """Two ops of a group read a value behind a convolution: beside one of them alone it would be rounded otherwise."""
    x = pt.Input((3, 16, 16))
    y = L.SELU()(L.Conv2D(32, 3, padding="same")(L.Conv2D(16, 3, padding="same")(x)))
    z = L.HardSigmoid()(y)
    y = L.Sigmoid()(L.Average()([z, y]))
    return pt.Model(x, L.Dense(5)(L.Flatten()(L.Concatenate()([L.Conv2D(3, 1)(z), y]))))


NETS = {"resnet": resnet, "mlp": mlp, "densenet": densenet, "average": average}


def trained(name: str, memory: str, level: str, monkeypatch):
    """The losses of some steps, the weights after them, and the plan."""
    monkeypatch.setenv("PROTOTORCH_CPU", level)
    model = NETS[name]()
    model.compile(pt.optimizers.SGD(0.05, momentum=0.9), LOSS, metrics=["accuracy"], memory=memory, seed=3)
    rng = np.random.default_rng(0)
    shape, size = model.net.inputs[0].shape, 128 if name == "mlp" else 16
    x, y = rng.normal(size=(3 * size, *shape)).astype(np.float32), rng.integers(0, 5, 3 * size)
    losses = [model.train_on_batch(x[i : i + size], y[i : i + size]) for i in (0, size, 2 * size, 0)]
    plan = model.trainer.plan_cache.plan(TRAIN, step_specs(model.net, size))
    return losses, {name: np.array(a) for name, a in model.trainer.plan_cache.variables.items()}, plan


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NETS)
def test_the_results_are_the_same_bit_for_bit(name, level, monkeypatch):
    losses, weights, plan = trained(name, "normal", level, monkeypatch)
    others, theirs, low = trained(name, "low", level, monkeypatch)
    assert not any(step.node.is_rematerialized for step in plan.steps)
    assert not plan.saved_bytes
    assert any(step.node.is_rematerialized for step in low.steps)
    assert low.arena_bytes < plan.arena_bytes
    assert low.saved_bytes == plan.arena_bytes - low.arena_bytes
    np.testing.assert_equal(others, losses)
    assert weights.keys() == theirs.keys()
    for key, array in weights.items():
        assert array.tobytes() == theirs[key].tobytes(), key


#: by what at least the arena of the shipped model becomes smaller at batch size 32; measured, and rounded down
FACTORS = {"resnet50": 2.2, "vgg16": 1.1, "densenet121": 4.5}


@pytest.mark.parametrize("name", FACTORS)
def test_large_models_need_less(name):
    model = pt.load_model(name)
    plans = {}
    for memory in ("normal", "low"):
        block = model.compile_block.replace(memory=memory)
        program = PlanCache(model.net, model.variables, cpu(), block)
        plans[memory] = program.plan(TRAIN, step_specs(model.net, 32), create=False)
    assert plans["normal"].arena_bytes / plans["low"].arena_bytes >= FACTORS[name]


def test_what_is_computed_again_is_shown():
    model = resnet()
    model.compile("sgd", LOSS, memory="low")
    shown = describe_plan(model, batch=16)
    text = str(shown)
    again = [step for step in shown.steps if step.is_rematerialized]
    assert shown.saved_bytes > 0
    assert f"{len(again)} steps are computed again, which saves {shown.saved_bytes:,} bytes" in text
    assert sum(line[4:9] == " rec " for line in text.splitlines()) == len(again)
    assert {step.phase for step in again} <= {"backward", "update"}
    memory = summary(model, 16).memory
    assert memory["saved, computed again"] == shown.saved_bytes
    assert memory["both, sharing memory"] == shown.arena_bytes
    assert "memory: low" in model.to_text()


def test_a_word_that_is_not_known_is_refused():
    with pytest.raises(pt.errors.UsageError, match="memory"):
        mlp().compile("sgd", LOSS, memory="lower")


def test_predictions_and_evaluations_stay_as_they_are():
    model = mlp()
    model.compile("sgd", LOSS, memory="low")
    for phase in (TEST, PREDICT):
        assert not any(step.is_rematerialized for step in describe_plan(model, phase, 16).steps)
