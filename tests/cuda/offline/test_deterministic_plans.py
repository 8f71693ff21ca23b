"""With ``deterministic`` no graph of the shipped models gets an engine whose result depends on the order of threads.

cuDNN tells which engines those are when only they are selected. Needs what test_offline_plans.py needs; takes minutes:
pytest -m cuda_offline.
"""

from __future__ import annotations

import pytest

from prototorch.base.package_files import shipped_models
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.execution_plan import ExecutionPlan
from prototorch.cuda.cudnn.graph_builders import BUILDERS, CUDNN_TYPES
from prototorch.cuda.cudnn.split_k import select_split_k_plan
from tests.cuda.offline.offline_cudnn import engine_name, load_stub_driver, make_offline_device
from tests.cuda.offline.test_offline_plans import plain_ops, plans, pytestmark  # noqa: F401 - needs the same


@pytest.fixture(scope="module", autouse=True)
def _driver(tmp_path_factory):
    load_stub_driver(tmp_path_factory.mktemp("driver"))


def planned_graphs(name: str, device) -> dict:
    """Every plan or refusal of a shipped model's steps, by the key of the cache."""
    plain_ops(plans(name, device), CudaBackend(device))
    return get_context(device).plans


def is_nondeterministic(context, plan: ExecutionPlan) -> bool:
    """Whether the plan's engine has the note NONDETERMINISTIC."""
    module, desc = context.module, plan.desc
    io = getattr(module.data_type, CUDNN_TYPES[desc.tensors[0][1].dtype])
    compute = module.data_type.DOUBLE if io == module.data_type.DOUBLE else module.data_type.FLOAT
    graph = context.create_graph(io, compute)
    BUILDERS[desc.kind](module, graph, desc)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([module.heur_mode.A, module.heur_mode.FALLBACK])
    select_split_k_plan(module, graph, desc)  # appends the plan of an engine with more slices
    names = [graph.get_plan_name_at_index(i) for i in range(graph.get_execution_plan_count())]
    graph.select_numeric_notes([module.numerical_note.NONDETERMINISTIC])
    try:
        graph.build_plan_at_index(names.index(engine_name(plan)))
    except module.cudnnGraphNotSupportedError:  # it was left out
        return False
    return True


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_no_engine_depends_on_the_order_of_threads(name, precision):
    device = make_offline_device(precision, deterministic=True)
    context = get_context(device)
    built = {key: plan for key, plan in planned_graphs(name, device).items() if isinstance(plan, ExecutionPlan)}
    assert built
    assert [key for key, plan in built.items() if is_nondeterministic(context, plan)] == []
    # engines of attention's gradient have no such note: they are told by an attribute
    backward = [key[0] for key in built if key[0].kind == "sdpa_backward"]
    assert all(dict(desc.attrs)["deterministic"] for desc in backward)


def test_some_first_choices_are_not_deterministic():
    """So that the test above tests something; an engine is told apart by its note."""
    device = make_offline_device("fp32")
    built = [plan for plan in planned_graphs("lenet", device).values() if isinstance(plan, ExecutionPlan)]
    assert any(is_nondeterministic(get_context(device), plan) for plan in built)


@pytest.mark.parametrize("name", ["gpt", "vit", "transformer", "seq2seq"])
def test_settings_do_not_share_a_plan_of_attention(name):
    """The cache on disk is keyed by the description, too."""
    described = []
    for deterministic in (False, True):
        device = make_offline_device("bf16", deterministic)
        described.append({key[0] for key in planned_graphs(name, device) if key[0].kind == "sdpa_backward"})
    assert described[0]
    assert described[1]
    assert not described[0] & described[1]
