"""Gradients of an activation and of the batch normalisation before it become one op where a backend has a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.engine.backends.devices import backend_for
from prototorch.graph.plan_printer import member_ops
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import TRAIN


def plan_device(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "cuda_offline"))
    from tests.cuda.offline.recording_devices import PlanDevice

    return CudaBackend(PlanDevice("fp32"))


def ops(activation, backend):
    """The ops of a training step, those of groups too."""
    layers = pt.layers
    model = pt.Sequential([
        pt.Input((3, 8, 8), name="x"), layers.Conv2D(8, 3, use_bias=False), layers.BatchNormalization(),
        getattr(layers, activation)(), layers.Conv2D(8, 3, use_bias=False), layers.GlobalAveragePooling2D(),
        layers.Dense(2),
    ])  # fmt: skip
    return ops_of(model, backend)


def ops_of(model, backend):
    """The same of a model that takes pictures."""
    model.compile(optimizer="sgd", loss="mse")
    program = PlanCache(model.net, Variables(), backend, model.compile_block)
    (name,) = model.inputs
    plan = program.plan(TRAIN, {name: Spec((4, 3, 8, 8))}, create=False)
    return [op for step in plan.steps for op in member_ops(step.node.op, step.node.attrs)]


@pytest.mark.parametrize(("activation", "slope"), [("ReLU", "relu_grad"), ("ReLU6", "relu6_grad")])
def test_one_op_where_only_the_normalisation_reads_the_slope(monkeypatch, activation, slope):
    found = ops(activation, plan_device(monkeypatch))
    assert found.count("batch_norm_relu_grad") == 1
    assert slope not in found
    assert "batch_norm_grad" not in found


def test_other_activations_stay(monkeypatch):
    found = ops("Tanh", plan_device(monkeypatch))
    assert "batch_norm_grad" in found
    assert "batch_norm_relu_grad" not in found


def test_the_cpu_s_plans_stay():
    found = ops("ReLU", backend_for("cpu"))
    assert "batch_norm_relu_grad" not in found


def test_a_response_normalisation_keeps_its_bases_to_itself(monkeypatch):
    layers = pt.layers
    model = pt.Sequential([
        pt.Input((3, 8, 8), name="x"), layers.Conv2D(8, 3, activation="relu"), layers.LRN(), layers.Flatten(),
        layers.Dense(2),
    ])  # fmt: skip
    for backend, expected in (
        (plan_device(monkeypatch), {"lrn_recompute", "lrn_recompute_grad"}),
        (backend_for("cpu"), {"lrn", "lrn_grad"}),
    ):
        found = ops_of(model, backend)
        assert {op for op in found if op.startswith("lrn")} == expected
        assert ("relu_grad" in found) is ("lrn" in found)
