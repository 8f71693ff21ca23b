"""Weights in the kernels' own order: made once for predictions, again where they have changed, never for training."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.cpu import cpu, native
from prototorch.graph.plan_printer import describe_plan
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.summary import step_specs

pytestmark = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native level here")


def program(level="native", variables=None):
    net = pt.Sequential(
        [
            pt.Input((16, 12, 12)),
            pt.layers.Conv2D(filters=32, kernel_size=3, padding="same", activation="relu"),
            pt.layers.BatchNormalization(),
            pt.layers.Conv2D(filters=24, kernel_size=1),
            pt.layers.DepthwiseConv2D(kernel_size=3, padding="same"),
            pt.layers.GlobalAveragePooling2D(),
            pt.layers.Dense(units=3),
        ]
    )
    net.compile(loss="mse", optimizer="sgd")
    return PlanCache(net.net, variables or Variables(), cpu(level), net.compile_block)


def names(plan):
    return [s.node.op.name for s in plan.steps]


def specs_of(made):
    return step_specs(made.net, 2)


def numbers(plan):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=v.shape).astype("float32") for name, v in plan.inputs.items()}


def test_a_prediction_arranges_its_weights_once_and_again_when_they_change():
    made = program()
    plan = made.plan(PREDICT, specs_of(made))
    once = [s for s in plan.steps if s.node.op.name == "prepack"]
    assert len(once) == 4
    assert all(s.node.phase == "setup" and plan.allocations[s.outputs[0]].kind == "persistent" for s in once)
    assert plan.persistent_bytes >= sum(s.outputs[0].spec.nbytes for s in once)
    run, given = make_executor(plan, made.backend, made.variables), numbers(plan)
    other = program("plain", made.variables)
    check = make_executor(other.plan(PREDICT, specs_of(made)), other.backend, made.variables)
    for _ in range(2):
        for name in [n for n in made.variables if n.endswith("kernel")]:
            made.variables[name][...] *= 1.5
        for _ in range(2):
            (got,), (want,) = run(given).values(), check(given).values()
            # sums of 16 * 9 and fewer products, in three layers; the change of basis by Winograd
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_an_evaluation_does_so_too_but_no_training():
    made = program()
    assert "prepack" in names(made.plan(TEST, specs_of(made)))
    assert not {"prepack", "apply_prepacked"} & set(names(made.plan(TRAIN, specs_of(made))))


def test_levels_that_say_nothing_of_it_are_left_alone():
    made = program("numpy")
    assert "prepack" not in names(made.plan(PREDICT, specs_of(made)))


def test_the_plan_names_what_is_run():
    made = program()
    plan = made.plan(PREDICT, specs_of(made))
    text = str(describe_plan(plan, made.backend, "a net"))
    assert "conv + add + relu" in text
    assert "prepack" in text
    assert f"persistent {plan.persistent_bytes:,}" in text
