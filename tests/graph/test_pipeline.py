"""The pipeline: every shipped model's graphs are valid after each pass; what passes do is recorded."""

from __future__ import annotations

import pytest

import prototorch as pt
from prototorch import ops
from prototorch.base.package_files import shipped_models
from prototorch.engine.backends.cpu import cpu, native
from prototorch.graph.ir import Graph
from prototorch.graph.passes.context import PassContext
from prototorch.graph.pipeline import PIPELINE, observe_passes, run_pipeline
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PREDICT, TRAIN, PlanCache
from prototorch.train.summary import step_specs

#: models of several hundred nodes: a minute for all of them
LARGE = ("densenet121", "googlenet", "mobilenet_v2", "resnet101", "resnet50", "vgg16")
MODELS = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in shipped_models()]
LEVEL = "numpy" if native.unavailable_reason() is not None else "native"


@pytest.mark.parametrize("phase", [TRAIN, PREDICT])
@pytest.mark.parametrize("name", MODELS)
def test_the_graphs_of_shipped_models_are_valid_after_each_pass(name: str, phase: str):
    model = pt.load_model(name)
    plans = PlanCache(model.net, Variables(), cpu(LEVEL), model.compile_block)
    records = []
    with observe_passes(lambda record, graph: records.append(record)):
        plan = plans.plan(phase, step_specs(model.net, 2), create=False)
    names = [step.name for step in PIPELINE]
    assert [r.name for r in records] == [n for n in names if n in {r.name for r in records}]
    assert plan.steps
    assert all(r.changed or r.nodes_after == r.nodes_before for r in records)


def test_low_memory_rematerializes_instead_of_tiling():
    graph = Graph()
    x = graph.input("x", Spec((8, 4)))
    graph.set_results({"y": ops.tanh(x)}, {})
    names = []
    with observe_passes(lambda record, graph: names.append(record.name)):
        run_pipeline(graph, PassContext(cpu(LEVEL), low_memory=True))
    assert "rematerialize" in names
    assert not {"tile_batch", "prepack_weights"} & set(names)


def test_each_pass_states_its_reason_and_has_a_name_of_its_own():
    names = [step.name for step in PIPELINE]
    assert len(set(names)) == len(names)
    assert all(step.reason and not step.reason.endswith(".") for step in PIPELINE)
